/** How an answer ended and what it took, as the providers' interface tells it in its versions 2 to 4. */

import type { FinishReason } from "../../model/event.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { type Usage, withParts } from "../../model/usage.ts";

/** The counts that were told. Whether they can be true is for the meter to say. */
export function decodeUsage(usage: unknown): Partial<Usage> {
  if (!isJsonObject(usage)) return {};
  const { inputTokens: input, outputTokens: output, raw } = usage;
  const counts = {
    inputTokens: isJsonObject(input) ? input["total"] : input,
    outputTokens: isJsonObject(output) ? output["total"] : output,
    cacheReadTokens: isJsonObject(input) ? input["cacheRead"] : usage["cachedInputTokens"],
    cacheWriteTokens: isJsonObject(input) ? input["cacheWrite"] : undefined,
    reasoningTokens: isJsonObject(output) ? output["reasoning"] : usage["reasoningTokens"],
  };
  const told = Object.entries(counts).filter(([, count]) => count != null);
  const known = countsOf(told);
  // Version 2 leaves it to each provider whether a whole holds its parts.
  return { ...(isJsonObject(input) ? known : withParts(known)), ...(isJsonObject(raw) && rawUsage(raw)) };
}

/** What is no number is no count, which the meter is to see. */
const countsOf = (told: readonly (readonly [string, unknown])[]): Record<string, number> =>
  Object.fromEntries(told.map(([name, count]) => [name, typeof count === "number" ? count : Number.NaN]));

/** What some providers tell beside, in their own words. */
function rawUsage({ cache_creation: writes, server_tool_use: tools, service_tier: tier }: JsonObject): Partial<Usage> {
  const byTtl = isJsonObject(writes) ? named(writes, /^ephemeral_(.+)_input_tokens$/) : {};
  const byTool = isJsonObject(tools) ? named(tools, /^(.+)_requests$/) : {};
  return {
    ...(Object.keys(byTtl).length > 0 && { cacheWritesByTtl: byTtl }),
    ...(Object.keys(byTool).length > 0 && { serverToolUses: byTool }),
    ...(typeof tier === "string" && { serviceTier: tier }),
  };
}

const named = (counts: JsonObject, name: RegExp): Record<string, number> =>
  countsOf(
    Object.entries(counts).flatMap(([key, count]) => {
      const short = name.exec(key)?.[1];
      return short === undefined || count == null ? [] : [[short, count] as const];
    }),
  );

/** What providers say in their own words, where the interface's word for it says less. */
const RAW: Readonly<Record<string, FinishReason>> = {
  pause_turn: "pause",
  refusal: "refusal",
  model_context_window_exceeded: "context-window",
  stop_sequence: "stop-sequence",
  RECITATION: "recitation",
  LANGUAGE: "language",
  BLOCKLIST: "blocklist",
  PROHIBITED_CONTENT: "prohibited-content",
  SPII: "personal-data",
  IMAGE_SAFETY: "unsafe-image",
  MALFORMED_FUNCTION_CALL: "malformed-tool-call",
};

const UNIFIED: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content-filter",
  "tool-calls": "tool-calls",
  other: "other",
  unknown: "other",
};

/** Why the answer ended; undefined where it ended by an error, or for no reason that is known. */
export function decodeFinish(finishReason: unknown): FinishReason | undefined {
  const { unified, raw } = isJsonObject(finishReason) ? finishReason : { unified: finishReason, raw: undefined };
  const exact = typeof raw === "string" && Object.hasOwn(RAW, raw) ? RAW[raw] : undefined;
  if (exact !== undefined) return exact;
  return typeof unified === "string" && Object.hasOwn(UNIFIED, unified) ? UNIFIED[unified] : undefined;
}
