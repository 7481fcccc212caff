/** Estimates tokens where no backend has counted them: the input before a call, the output of one that was cut short. */

import type { ChatRequest, DocumentPart, JsonPart, Part, Tool } from "../model/chat.ts";
import { assertTokens, type CountTokens, encryptedTokens } from "./count-tokens.ts";
import { MediaEstimate } from "./media-tokens.ts";

/**
 * Estimates the tokens of a request's whole input, at least 1.
 *
 * @param resolution Counts pictures as the caller's format says for it: for an answer, where a hold takes the largest count of all vendors.
 */
export function estimateInputTokens(
  request: ChatRequest,
  countTokens: CountTokens,
  resolution?: ChatRequest["mediaResolution"],
): number {
  const scale = { countTokens, media: new MediaEstimate(resolution) };
  let tokens = 0;
  for (const part of request.system) tokens += partTokens(part, scale);
  for (const message of request.messages) for (const part of message.parts) tokens += partTokens(part, scale);
  for (const tool of request.tools) tokens += toolTokens(tool, countTokens);
  if (request.responseFormat) tokens += countTokens(JSON.stringify(request.responseFormat));
  return Math.max(1, Math.ceil(assertTokens(tokens)));
}

/** By what parts are weighed. */
interface Scale {
  readonly countTokens: CountTokens;
  readonly media: MediaEstimate;
}

function partTokens(part: Part | JsonPart, scale: Scale): number {
  const { countTokens, media } = scale;
  switch (part.type) {
    case "text":
    case "reasoning":
    case "refusal":
      return countTokens(part.text);
    case "media":
      return media.mediaTokens(part);
    case "document":
      return documentTokens(part, scale);
    case "tool-call":
      return countTokens(part.name) + countTokens(JSON.stringify(part.input));
    case "tool-result":
      return sum(part.parts, (inner) => partTokens(inner, scale));
    case "redacted-reasoning":
      return encryptedTokens(part.data);
    case "code":
      return countTokens(part.code);
    case "code-result":
      return countTokens(part.output ?? "");
    case "json":
    case "provider":
      return countTokens(JSON.stringify(part.value));
  }
}

function documentTokens({ source, title, context }: DocumentPart, scale: Scale): number {
  const { countTokens, media } = scale;
  const around = countTokens(title ?? "") + countTokens(context ?? "");
  if (source.type === "text") return around + countTokens(source.text);
  if (source.type === "parts") return around + sum(source.parts, (part) => partTokens(part, scale));
  return around + media.documentTokens(source);
}

function toolTokens(tool: Tool, countTokens: CountTokens): number {
  if (tool.type === "code-execution") return 0;
  if (tool.type === "provider") return countTokens(JSON.stringify(tool.definition));
  return countTokens(tool.name) + countTokens(tool.description ?? "") + countTokens(JSON.stringify(tool.inputSchema));
}

function sum<T>(items: readonly T[], weigh: (item: T) => number): number {
  let total = 0;
  for (const item of items) total += weigh(item);
  return total;
}
