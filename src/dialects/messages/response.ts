/** The messages answer (spec 2.7): its shape, and what of it is a table. */

import type { JsonObject } from "../../model/json.ts";
import type { FinishReason } from "../../model/event.ts";
import type { Usage } from "../../model/usage.ts";
import { CACHE_WRITES, TOOL_USES, type WireUsage } from "./schema.upstream.ts";

type SpecStopReason = "end_turn" | "max_tokens" | "stop_sequence" | "tool_use";
type LaterStopReason = "pause_turn" | "refusal" | "model_context_window_exceeded";
export type StopReason = SpecStopReason | LaterStopReason;

export interface MessagesUsage {
  input_tokens: number;
  output_tokens: number;
  cache_creation_input_tokens: number;
  cache_read_input_tokens: number;
  /** What the output counts beside its text. */
  output_tokens_details?: { thinking_tokens: number };
  /** By time to live: `ephemeral_5m_input_tokens`. */
  cache_creation?: Record<string, number>;
  /** By tool: `web_search_requests`. */
  server_tool_use?: Record<string, number>;
  service_tier?: string;
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
const STOP_REASON: Readonly<Record<FinishReason, SpecStopReason>> = {
  stop: "end_turn",
  length: "max_tokens",
  "stop-sequence": "stop_sequence",
  "tool-calls": "tool_use",
  pause: "end_turn",
  refusal: "end_turn",
  "context-window": "max_tokens",
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

/**
 * Reasons that the official service and its clients know beyond the spec. They are written for an answer that an upstream of this
 * format gave: its client must send a pause back, and may retry a refusal elsewhere. Others keep to the spec's four.
 */
const LATER_STOP_REASON: Readonly<Partial<Record<FinishReason, LaterStopReason>>> = {
  pause: "pause_turn",
  refusal: "refusal",
  "context-window": "model_context_window_exceeded",
};

export const encodeStopReason = (reason: FinishReason, isNative: boolean): StopReason =>
  (isNative ? LATER_STOP_REASON[reason] : undefined) ?? STOP_REASON[reason];

const REASON_OF: ReadonlyMap<string, FinishReason> = new Map<string, FinishReason>([
  ["end_turn", "stop"],
  ["max_tokens", "length"],
  ["stop_sequence", "stop-sequence"],
  ["tool_use", "tool-calls"],
  ...Object.entries(LATER_STOP_REASON).map(([reason, wire]): [string, FinishReason] => [wire, reason as FinishReason]),
]);

export const decodeStopReason = (wire: string): FinishReason => REASON_OF.get(wire) ?? "other";

/** This format counts the input without what came from, or went into, the cache. */
export const encodeUsage = (usage: Usage): MessagesUsage => ({
  input_tokens: Math.max(0, usage.inputTokens - usage.cacheReadTokens - usage.cacheWriteTokens),
  output_tokens: usage.outputTokens,
  cache_creation_input_tokens: usage.cacheWriteTokens,
  cache_read_input_tokens: usage.cacheReadTokens,
  // Beyond the spec, as the official service tells it.
  ...(usage.reasoningTokens > 0 && { output_tokens_details: { thinking_tokens: usage.reasoningTokens } }),
  ...(usage.cacheWritesByTtl && {
    // The official clients expect both of the times that the official service has.
    cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0, ...ttlsOf(usage.cacheWritesByTtl) },
  }),
  ...(usage.serverToolUses && {
    server_tool_use: renamed(usage.serverToolUses, (name) => `${name}_requests`),
  }),
  ...(usage.serviceTier !== undefined && { service_tier: usage.serviceTier }),
});

/** The counts that are known so far: each report holds the latest of some of them, and none is ever added to another. */
export function decodeUsage(usage: WireUsage): Partial<Usage> {
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage;
  const { output_tokens_details, cache_creation, server_tool_use, service_tier } = usage;
  const [written, read] = [cache_creation_input_tokens ?? 0, cache_read_input_tokens ?? 0];
  return {
    ...(input_tokens != null && { inputTokens: input_tokens + written + read }),
    ...(output_tokens != null && { outputTokens: output_tokens }),
    ...(cache_creation_input_tokens != null && { cacheWriteTokens: written }),
    ...(cache_read_input_tokens != null && { cacheReadTokens: read }),
    ...(output_tokens_details?.thinking_tokens != null && { reasoningTokens: output_tokens_details.thinking_tokens }),
    ...(cache_creation && { cacheWritesByTtl: named(cache_creation, CACHE_WRITES) }),
    ...(server_tool_use && { serverToolUses: named(server_tool_use, TOOL_USES) }),
    ...(service_tier != null && { serviceTier: service_tier }),
  };
}

type Counts = Readonly<Record<string, number>>;

const ttlsOf = (counts: Counts): Counts => renamed(counts, (ttl) => `ephemeral_${ttl}_input_tokens`);

const renamed = (counts: Counts, name: (key: string) => string): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).map(([key, count]) => [name(key), count]));

/** The counts whose name is of a form, by what the form's group says. */
function named(counts: Readonly<Record<string, unknown>>, form: RegExp): Record<string, number> {
  return Object.fromEntries(
    Object.entries(counts).flatMap(([key, count]): [string, number][] => {
      const name = form.exec(key)?.[1];
      return name !== undefined && typeof count === "number" ? [[name, count]] : [];
    }),
  );
}
