/** What a chat call costs, in the quota's unit, before it and after it. */

import type { ChatRequest } from "../model/chat.ts";
import { NO_USAGE, type Usage } from "../model/usage.ts";

/**
 * The price of a usage for a model, in quota units; fractions are rounded up. It must not fall as a count rises: the
 * gateway asks it for the worst case before the call, and for the most output that a balance affords.
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

/** What a request costs when each candidate is as long as it may be. */
function worst({ model, candidateCount = 1 }: ChatRequest, inputTokens: number, limit: number, price: Price): number {
  const units = price({ ...NO_USAGE, inputTokens, outputTokens: limit * candidateCount }, model);
  // A price beyond counting is one that no balance covers; what is really charged must be a count.
  return assertUnits(Math.min(Number.MAX_SAFE_INTEGER, units), model);
}

function assertUnits(price: number, model: string): number {
  const units = Math.ceil(price);
  if (!Number.isSafeInteger(units) || price < 0)
    throw new RangeError(`The price of a call to "${model}" must be a number from 0 up, not ${price}`);
  return units;
}
