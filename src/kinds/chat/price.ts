/** The cost of a call that is counted in tokens, in quota units: the highest possible cost before the call, and the charge after it. */

import { NO_USAGE, type Usage } from "../../model/usage.ts";
import type { ModelKind } from "../../ports/call.ts";
import type { Amounts } from "../meter.ts";
import type { ChatRequest, OutputModality } from "./request.ts";

/**
 * Returns the price of a usage for a model, in quota units; fractions are rounded up. The price must not fall as the input or the output
 * grows. `kind` is `chat` or `embedding`; an embedding has no output. Before a call of chat, the gateway holds the highest possible price. It calls this function with the input and the output counted in each
 * possible way (read from a cache, written to a cache for 5 minutes or an hour, as reasoning, at each service tier), and again to find the
 * most output that the quota covers. A way for which this function throws is skipped.
 */
export type Price = (usage: Usage, model: string, kind: ModelKind) => number;

/** The default price: one unit for each input token and each output token. */
export const tokenPrice: Price = (usage) => usage.inputTokens + usage.outputTokens;

/** Returns the units of a usage, rounded up. Throws a RangeError when a host's price is not a finite number from 0 up. */
export const charge = (price: Price, usage: Usage, model: string, kind: ModelKind): number =>
  wholeUnits(price(usage, model, kind), model);

function wholeUnits(cost: number, model: string): number {
  const units = Math.ceil(cost);
  if (Number.isSafeInteger(units) && cost >= 0) return units;
  throw new RangeError(`The price of a call to "${model}" must be a number from 0 up, not ${cost}`);
}

/** The lowest output limit. A backend lowers the budget for reasoning to what a low limit has room for. */
const MIN_OUTPUT_TOKENS = 1;

/** Returns the units that a call may cost: at least its input and the shortest answer, at most the input and the longest answer. */
export function chatAmounts(request: ChatRequest, inputTokens: number, price: Price): Amounts {
  const { maxOutputTokens } = request;
  const atLeast = highestCost(request, inputTokens, MIN_OUTPUT_TOKENS, price);
  return { atLeast, atMost: Math.max(atLeast, highestCost(request, inputTokens, maxOutputTokens, price)) };
}

/** Returns the request. Lowers its output limit to the most tokens that `units` can pay for. */
export function affordable(request: ChatRequest, inputTokens: number, price: Price, units: number): ChatRequest {
  const { maxOutputTokens } = request;
  const costOf = (outputTokens: number): number => highestCost(request, inputTokens, outputTokens, price);
  if (costOf(maxOutputTokens) <= units) return request;
  let [within, tooDear] = [MIN_OUTPUT_TOKENS, maxOutputTokens];
  while (tooDear - within > 1) {
    const middle = within + Math.floor((tooDear - within) / 2);
    if (costOf(middle) <= units) within = middle;
    else tooDear = middle;
  }
  return { ...request, maxOutputTokens: within };
}

/** Counts the tokens of a usage in another way. Returns the fields that change. */
type Way = (usage: Usage, request: ChatRequest) => Partial<Usage>;

/** The service tiers that vendors document. A request may name a different tier. */
const TIERS = ["priority", "standard", "default", "flex", "scale", "batch"] as const;

/**
 * The ways in which a backend may count a request, in groups. Only one way of a group can apply at a time. The most expensive way of a
 * group is kept while the next groups are tried. This finds the highest cost if the price is a sum over parts, times a factor for the tier.
 */
const WAYS: readonly (readonly Way[])[] = [
  [
    ({ inputTokens }) => ({ cacheReadTokens: inputTokens }),
    ({ inputTokens }) => ({ cacheWriteTokens: inputTokens, cacheWritesByTtl: {} }),
    ({ inputTokens }) => ({ cacheWriteTokens: inputTokens, cacheWritesByTtl: { "5m": inputTokens } }),
    ({ inputTokens }) => ({ cacheWriteTokens: inputTokens, cacheWritesByTtl: { "1h": inputTokens } }),
    ({ inputTokens }) => ({ toolUseTokens: inputTokens }),
  ],
  [({ outputTokens }) => ({ reasoningTokens: outputTokens })],
  (["text", "image", "audio", "video", "document"] as const).map((modality): Way => ({ inputTokens, details }) => ({
    details: { ...details, input: [{ modality, tokens: inputTokens }] },
  })),
  (["text", "image", "audio"] as const).map(
    (modality): Way =>
      ({ outputTokens, details }, request) =>
        mayAnswerIn(modality, request) ? { details: { ...details, output: [{ modality, tokens: outputTokens }] } } : {},
  ),
  [
    ...TIERS.map((serviceTier): Way => () => ({ serviceTier })),
    (_usage, { serviceTier }) => (serviceTier === undefined ? {} : { serviceTier }),
  ],
];

/** Tells whether an answer may have a modality. A request without modalities may get any, because some models draw pictures unasked. */
const mayAnswerIn = (modality: OutputModality, { modalities = [] }: ChatRequest): boolean =>
  modality === "text" || modalities.length === 0 || modalities.includes(modality);

/** Returns the cost of a request in the most expensive way of counting, if each candidate has `limit` tokens. */
function highestCost(request: ChatRequest, inputTokens: number, limit: number, price: Price): number {
  const { model, candidateCount = 1 } = request;
  const outputTokens = limit * candidateCount;
  // The default price is the same for all ways of counting.
  if (price === tokenPrice) return Math.min(Number.MAX_SAFE_INTEGER, inputTokens + outputTokens);
  let dearest: Usage = { ...NO_USAGE, inputTokens, outputTokens };
  let units = price(dearest, model, "chat");
  for (const ways of WAYS) {
    const plain = dearest;
    for (const way of ways) {
      const usage = { ...plain, ...way(plain, request) };
      const cost = costOr(units, price, usage, model);
      if (cost > units) [dearest, units] = [usage, cost];
    }
  }
  // Cap the price: no balance covers a price above the largest safe integer. Only the final charge is not capped.
  return wholeUnits(Math.min(Number.MAX_SAFE_INTEGER, units), model);
}

/**
 * Returns the price of a usage, or `otherwise` if the host's price throws or is not a finite number. The backend may never count in this
 * way.
 */
function costOr(otherwise: number, price: Price, usage: Usage, model: string): number {
  try {
    const cost = price(usage, model, "chat");
    return Number.isFinite(cost) ? cost : otherwise;
  } catch {
    return otherwise;
  }
}
