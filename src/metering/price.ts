/** What a call costs, in the quota's unit. */

import type { Usage } from "../model/usage.ts";

/**
 * The price of a usage for a model, in quota units; fractions are rounded up. It must not fall as a count rises: the
 * gateway asks it for the worst case before the call, and for the most output that a balance affords.
 */
export type Price = (usage: Usage, model: string) => number;

/** One unit a token, in and out. */
export const tokenPrice: Price = (usage) => usage.inputTokens + usage.outputTokens;

/** The whole units that a usage costs; throws a RangeError when a host's price is no finite number from 0 up. */
export function charge(price: Price, usage: Usage, model: string): number {
  const units = Math.ceil(price(usage, model));
  if (!Number.isSafeInteger(units) || units < 0)
    throw new RangeError(`The price of a call to "${model}" must be a number from 0 up, not ${units}`);
  return units;
}

/** The most output tokens up to `max`, and at least `min`, whose price stays within `units`. */
export function affordableOutput(
  units: number,
  { min, max }: { readonly min: number; readonly max: number },
  costOf: (outputTokens: number) => number,
): number {
  if (costOf(max) <= units) return max;
  let affordable = min;
  let tooDear = max;
  while (tooDear - affordable > 1) {
    const middle = affordable + Math.floor((tooDear - affordable) / 2);
    if (costOf(middle) <= units) affordable = middle;
    else tooDear = middle;
  }
  return affordable;
}
