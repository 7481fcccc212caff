/** Conversations that an upstream's format can say: what it would refuse is said otherwise, so that the rest is compared. */

import type { ChatMessage, ChatRequest, DocumentPart, MediaPart, Part, TextPart } from "../../../src/index.ts";
import type { FormatName } from "./formats.ts";

/** The request without what the format refuses. Each twentieth is left as it is: refusals are a part of the law. */
export function mostlySayable(to: FormatName, request: ChatRequest): ChatRequest {
  if (request.maxOutputTokens % 20 === 0) return request;
  return withoutRefused(to, free(request));
}

function withoutRefused(to: FormatName, request: ChatRequest): ChatRequest {
  if (to === "generate-content") return worded(request);
  const asked = worded(answered(request));
  if (to === "messages") return asked;
  const messages = changed(asked.messages, withPlainMedia);
  return messages === asked.messages ? asked : { ...asked, messages };
}

/** Leaves the model the choice among its tools: a demand for a tool that is left out is refused. */
function free(request: ChatRequest): ChatRequest {
  const { toolChoice: choice } = request;
  if (
    (choice?.type !== "required" && choice?.type !== "tool") ||
    request.tools.every(({ type }) => type === "function")
  )
    return request;
  return { ...request, toolChoice: { type: "auto", parallel: choice.parallel } };
}

const WORD: TextPart = { type: "text", text: "…" };

/** Has a word at least that every format can say. */
function worded(request: ChatRequest): ChatRequest {
  const { messages } = request;
  const [first, ...others] = messages;
  if (!first || messages.some(({ parts }) => parts.some((part) => part.type === "text" && part.text !== "")))
    return request;
  return { ...request, messages: [{ ...first, parts: [...first.parts, WORD] }, ...others] };
}

/** Names no cached content, and sends results of calls that it sends too. */
function answered(request: ChatRequest): ChatRequest {
  const called = new Set<string>();
  const messages = changed(request.messages, (part) => {
    if (part.type === "tool-call") called.add(part.id);
    return part.type !== "tool-result" || called.has(part.callId) ? part : WORD;
  });
  if (messages === request.messages && request.cachedContent === undefined) return request;
  const { cachedContent: _, ...others } = request;
  return { ...others, messages };
}

/** The same messages where nothing changes, so that they need not be asked again. */
function changed(
  messages: readonly ChatMessage[],
  change: (part: Part, role: ChatMessage["role"]) => Part,
): readonly ChatMessage[] {
  let isChanged = false;
  const next = messages.map((message) => ({
    ...message,
    parts: message.parts.map((part) => {
      const one = change(part, message.role);
      isChanged ||= one !== part;
      return one;
    }),
  }));
  return isChanged ? next : messages;
}

/** Media of the user's alone, of kinds and in places that chat completions take. */
function withPlainMedia(part: Part, role: ChatMessage["role"]): Part {
  if (part.type === "media" || part.type === "document") return role === "user" ? plain(part) : WORD;
  if (part.type !== "tool-result") return part;
  const parts = part.parts.map((inner) => (inner.type === "media" || inner.type === "document" ? plain(inner) : inner));
  return parts.every((inner, index) => inner === part.parts[index]) ? part : { ...part, parts };
}

function plain<One extends MediaPart | DocumentPart>(part: One): One;
function plain(part: MediaPart | DocumentPart): MediaPart | DocumentPart {
  const { source } = part;
  if (part.type === "media") {
    if (source.type === "file") return { ...part, source: { type: "url", url: `https://a.example/${source.id}` } };
    if (part.kind !== "video" || source.type !== "base64") return part;
    return { ...part, kind: "image", source: { ...source, mediaType: "image/webp" } };
  }
  if (source.type === "url") return { ...part, source: { type: "file", id: source.url } };
  if (source.type !== "parts") return part;
  const parts = source.parts.map((inner) => (inner.type === "media" ? plain(inner) : inner));
  return { ...part, source: { type: "parts", parts } };
}
