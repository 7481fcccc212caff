/** The demo's reply repeats the input, so that the user sees what has arrived. */

import { imageDimensionsFromData } from "image-dimensions";
import type { ChatRequest, DocumentPart, JsonPart, MediaPart, Part, ToolResultPart } from "../index.ts";

/** Returns the reply to the last user turn. `text` is its text without commands. */
export function replyTo(request: ChatRequest, text: string): string {
  const asked = lastUserParts(request);
  const sentences = asked.flatMap((part) => sayPart(part, request));
  if (text !== "") sentences.push(`You said: ${text}`);
  return sentences.join(" ") || "You said nothing.";
}

/** Returns the given beginning of the answer: the text of an assistant turn at the end of the conversation (spec 2.6). */
export function prefillOf({ messages }: ChatRequest): string {
  const last = messages.at(-1);
  if (last?.role !== "assistant") return "";
  return last.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
}

const textOf = (parts: readonly (Part | JsonPart)[]): string =>
  parts
    .flatMap((part) => (part.type === "text" ? [part.text] : part.type === "json" ? [JSON.stringify(part.value)] : []))
    .join("\n");

function sayPart(part: Part, request: ChatRequest): string[] {
  if (part.type === "media") return [`I was shown ${describeMedia(part)}.`];
  if (part.type === "document") return [`I was given ${describeDocument(part)}.`];
  return part.type === "tool-result" ? [sayToolResult(part, request)] : [];
}

function sayToolResult(result: ToolResultPart, request: ChatRequest): string {
  const { callId, name = nameOfCall(callId, request) ?? callId, parts, isError } = result;
  const shown = parts.flatMap((part) => (part.type === "media" ? [describeMedia(part)] : []));
  const said = [textOf(parts), ...shown].filter((text) => text !== "").join(", ") || "nothing";
  return `The tool ${name} ${isError ? "failed" : "answered"}: ${said}.`;
}

/** Returns the tool of the last call with an id: some clients use an id several times in a conversation. */
function nameOfCall(id: string, { messages }: ChatRequest): string | undefined {
  for (const { parts } of messages.toReversed()) {
    const call = parts.findLast((part) => part.type === "tool-call" && part.id === id);
    if (call?.type === "tool-call") return call.name;
  }
  return undefined;
}

const MEDIA_NOUN = { image: "an image", audio: "an audio", video: "a video" } satisfies Record<
  MediaPart["kind"],
  string
>;

function describeMedia({ kind, source }: MediaPart): string {
  if (source.type === "url") return `${MEDIA_NOUN[kind]} at ${source.url}`;
  if (source.type === "file") return `the ${kind} file ${source.id}`;
  const bytes = Buffer.from(source.data, "base64");
  return `${MEDIA_NOUN[kind]} (${source.mediaType}, ${kind === "image" ? sizeOf(bytes) : `${bytes.length} bytes`})`;
}

/** Describes the size of an image, in pixels. */
function sizeOf(bytes: Uint8Array): string {
  const size = imageDimensionsFromData(bytes);
  return size ? `${size.width} × ${size.height} pixels` : `${bytes.length} bytes that are no image I know`;
}

function describeDocument({ source, title }: DocumentPart): string {
  const name = title === undefined ? "a document" : `the document "${title}"`;
  if (source.type === "text") return `${name} (${source.text.length} characters)`;
  if (source.type === "parts") return `${name} (${source.parts.length} parts)`;
  if (source.type === "url") return `${name} at ${source.url}`;
  return source.type === "file"
    ? `${name} (file ${source.id})`
    : `${name} (${source.mediaType}, ${Buffer.byteLength(source.data, "base64")} bytes)`;
}

interface LastTurn {
  /** The caller's last text. Commands and names of tools stand here. */
  readonly words: string;
  /** The texts before the last one, without reminders. */
  readonly before: readonly string[];
}

const OPENING = "<system-reminder>";
const CLOSING = "</system-reminder>";

/** Returns the texts of the last user turn. Agents put reminders and other texts around the caller's own. */
export function lastTurn(request: ChatRequest): LastTurn {
  const texts = lastUserParts(request)
    .flatMap((part) => (part.type === "text" ? [withoutReminders(part.text)] : []))
    .filter((text) => text.trim() !== "");
  return { words: texts.at(-1) ?? "", before: texts.slice(0, -1) };
}

export const lastUserParts = (request: ChatRequest): readonly Part[] =>
  request.messages.findLast(({ role }) => role === "user")?.parts ?? [];

/** Removes the reminders from a text. Keeps a reminder without a closing tag. */
function withoutReminders(text: string): string {
  const kept: string[] = [];
  let start = 0;
  for (;;) {
    const opening = text.indexOf(OPENING, start);
    const closing = opening < 0 ? -1 : text.indexOf(CLOSING, opening);
    if (closing < 0) return kept.join("") + text.slice(start);
    kept.push(text.slice(start, opening));
    start = closing + CLOSING.length;
  }
}
