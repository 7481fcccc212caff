/** The demo's tokens: a word with the space before it is one. */

import type { ChatRequest, JsonPart, Part } from "../../src/index.ts";

/** A text cut into its tokens, which joined make the text again. */
export const wordsOf = (text: string): readonly string[] => text.match(/\s*\S+(?:\s+$)?|^\s+$/g) ?? [];

const IMAGE_WORDS = 256;

/** The tokens of a request's input, at least 1. */
export function countInput({ system, messages, tools }: ChatRequest): number {
  let count = wordsOf(JSON.stringify(tools)).length - 1;
  for (const part of system) count += countPart(part);
  for (const message of messages) for (const part of message.parts) count += countPart(part);
  return Math.max(1, count);
}

function countPart(part: Part | JsonPart): number {
  if (part.type === "text") return wordsOf(part.text).length;
  if (part.type === "tool-result") return part.parts.reduce((count, inner) => count + countPart(inner), 0);
  return part.type === "media" || part.type === "document" ? IMAGE_WORDS : wordsOf(JSON.stringify(part)).length;
}
