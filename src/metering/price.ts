/** What a chat call costs, in the quota's unit, before it and after it. */

import type { ChatRequest, OutputModality } from "../model/chat.ts";
import { NO_USAGE, type Usage } from "../model/usage.ts";

/**
 * The price of a usage for a model, in quota units; fractions are rounded up. It must not fall as the input or the output grows. Before a
 * call the gateway asks it for the worst case: what the input and the output cost in each way in which they may be counted (read from a
 * cache, written to it for 5 minutes or an hour, as reasoning, at each service tier), of which the dearest is held. It is asked again for
 * the most output that a balance affords. A way that it throws at is left out.
 */
export type Price = (usage: Usage, model: string) => number;

/** One unit a token, in and out. */
export const tokenPrice: Price = (usage) => usage.inputTokens + usage.outputTokens;

/** Between which amounts of units a call can be admitted. */
export interface Amounts {
  /** Less than this, and the call is refused. */
  readonly atLeast: number;
  /** What the call costs at its worst. */
  readonly atMost: number;
}

/** The whole units that a usage costs; throws a RangeError when a host's price is no finite number from 0 up. */
export const charge = (price: Price, usage: Usage, model: string): number => assertUnits(price(usage, model), model);

/** What a call may cost: at least its input and the smallest answer, at most all the output that it asks for. */
export function chatAmounts(request: ChatRequest, inputTokens: number, price: Price): Amounts {
  const { min, max } = outputBounds(request);
  const atLeast = worst(request, inputTokens, min, price);
  return { atLeast, atMost: Math.max(atLeast, worst(request, inputTokens, max, price)) };
}

/** The request with its output limit lowered to what `units` afford. */
export function affordable(request: ChatRequest, inputTokens: number, price: Price, units: number): ChatRequest {
  const { min, max } = outputBounds(request);
  const costOf = (outputTokens: number): number => worst(request, inputTokens, outputTokens, price);
  if (costOf(max) <= units) return request;
  let [within, tooDear] = [min, max];
  while (tooDear - within > 1) {
    const middle = within + Math.floor((tooDear - within) / 2);
    if (costOf(middle) <= units) within = middle;
    else tooDear = middle;
  }
  return { ...request, maxOutputTokens: within };
}

/** The output limits between which a request makes sense: reasoning needs its whole budget, and a token for the answer. */
function outputBounds({ maxOutputTokens: max, reasoning }: ChatRequest): { min: number; max: number } {
  return { min: Math.min(max, reasoning?.type === "enabled" ? reasoning.budgetTokens + 1 : 1), max };
}

/** Returns what `usage` becomes where its tokens are counted in another way. */
type Way = (usage: Usage, request: ChatRequest) => Partial<Usage>;

const cacheWrite = (inputTokens: number, byTtl: Readonly<Record<string, number>> = {}): Partial<Usage> => ({
  cacheWriteTokens: inputTokens,
  cacheWritesByTtl: byTtl,
});

/** Whether an answer may be of a modality: of any where the request names none, for some models make pictures unasked. */
const mayAnswer = ({ modalities = [] }: ChatRequest, modality: OutputModality): boolean =>
  modality === "text" || modalities.length === 0 || modalities.includes(modality);

/** The service tiers of the vendors' documents, in their words; a request may name another. */
const TIERS = ["priority", "standard", "default", "flex", "scale", "batch"] as const;

/**
 * The ways in which a backend may count what a request takes. Those of one group exclude each other. The dearest of each group is kept for
 * the groups behind it: of a price that adds up what the parts cost, times a factor for the tier, that is the dearest of all.
 */
const WAYS: readonly (readonly Way[])[] = [
  [
    ({ inputTokens }) => ({ cacheReadTokens: inputTokens }),
    ({ inputTokens }) => cacheWrite(inputTokens),
    ({ inputTokens }) => cacheWrite(inputTokens, { "5m": inputTokens }),
    ({ inputTokens }) => cacheWrite(inputTokens, { "1h": inputTokens }),
    ({ inputTokens }) => ({ toolUseTokens: inputTokens }),
  ],
  [({ outputTokens }) => ({ reasoningTokens: outputTokens })],
  (["text", "image", "audio", "video", "document"] as const).map((modality): Way => ({ inputTokens, details }) => ({
    details: { ...details, input: [{ modality, tokens: inputTokens }] },
  })),
  (["text", "image", "audio"] as const).map(
    (modality): Way =>
      ({ outputTokens, details }, request) =>
        mayAnswer(request, modality) ? { details: { ...details, output: [{ modality, tokens: outputTokens }] } } : {},
  ),
  [
    ...TIERS.map((serviceTier): Way => () => ({ serviceTier })),
    (_usage, { serviceTier }) => (serviceTier === undefined ? {} : { serviceTier }),
  ],
];

/** Returns what a request costs in the dearest way, when each candidate is as long as it may be. */
function worst(request: ChatRequest, inputTokens: number, limit: number, price: Price): number {
  const { model, candidateCount = 1 } = request;
  let dearest: Usage = { ...NO_USAGE, inputTokens, outputTokens: limit * candidateCount };
  let units = price(dearest, model);
  // The default has one price for all of them.
  for (const ways of price === tokenPrice ? [] : WAYS) {
    const plain = dearest;
    for (const way of ways) {
      const usage = { ...plain, ...way(plain, request) };
      const cost = costOr(units, price, usage, model);
      if (cost > units) [dearest, units] = [usage, cost];
    }
  }
  // A price beyond counting is one that no balance covers; what is really charged must be a count.
  return assertUnits(Math.min(Number.MAX_SAFE_INTEGER, units), model);
}

/** Returns the price of a usage that may never come, or `otherwise` where the price knows no such usage. */
function costOr(otherwise: number, price: Price, usage: Usage, model: string): number {
  try {
    const cost = price(usage, model);
    return Number.isFinite(cost) ? cost : otherwise;
  } catch {
    return otherwise;
  }
}

function assertUnits(price: number, model: string): number {
  const units = Math.ceil(price);
  if (!Number.isSafeInteger(units) || price < 0)
    throw new RangeError(`The price of a call to "${model}" must be a number from 0 up, not ${price}`);
  return units;
}
