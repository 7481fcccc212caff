/** The messages answer (spec 2.7): its shape, and what of it is a table. */

import { GatewayError } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { FinishReason } from "../../model/event.ts";
import type { Usage } from "../../model/usage.ts";

export type StopReason = "end_turn" | "max_tokens" | "stop_sequence" | "tool_use";

export interface MessagesUsage {
  input_tokens: number;
  output_tokens: number;
  cache_creation_input_tokens: number;
  cache_read_input_tokens: number;
}

export type ContentBlock =
  | { type: "text"; text: string }
  | { type: "tool_use"; id: string; name: string; input: JsonObject }
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string };

export interface MessagesResponse {
  id: string;
  type: "message";
  role: "assistant";
  model: string;
  content: ContentBlock[];
  stop_reason: StopReason | null;
  stop_sequence: string | null;
  usage: MessagesUsage;
}

/** The spec knows four reasons; an answer that was filtered, or ended for any other cause, ends its turn. */
export const STOP_REASON: Readonly<Record<FinishReason, StopReason>> = {
  stop: "end_turn",
  length: "max_tokens",
  "stop-sequence": "stop_sequence",
  "tool-calls": "tool_use",
  "content-filter": "end_turn",
  recitation: "end_turn",
  language: "end_turn",
  blocklist: "end_turn",
  "prohibited-content": "end_turn",
  "personal-data": "end_turn",
  "unsafe-image": "end_turn",
  "malformed-tool-call": "end_turn",
  other: "end_turn",
};

/** Code or its output in a text, between fences longer than any in it. */
export function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...Array.from(text.matchAll(/^`+/gm), ([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `\n${fence}${language === "unspecified" ? "" : language}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}\n`;
}

/** This format counts the input without what came from, or went into, the cache. */
export const encodeUsage = (usage: Usage): MessagesUsage => ({
  input_tokens: Math.max(0, usage.inputTokens - usage.cacheReadTokens - usage.cacheWriteTokens),
  output_tokens: usage.outputTokens,
  cache_creation_input_tokens: usage.cacheWriteTokens,
  cache_read_input_tokens: usage.cacheReadTokens,
});

/** The arguments of a tool call from their JSON; no JSON at all means none. Throws `backend_failed` for anything but an object. */
export function parseInput(json: string): JsonObject {
  try {
    const input: unknown = JSON.parse(json === "" ? "{}" : json);
    if (isJsonObject(input)) return input;
  } catch (cause) {
    throw new GatewayError("backend_failed", "The model backend gave a tool call whose arguments are not valid JSON.", {
      cause,
    });
  }
  throw new GatewayError("backend_failed", "The model backend gave a tool call whose arguments are no JSON object.");
}
