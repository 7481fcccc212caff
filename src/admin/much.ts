/** Words the questions for changes that are often mistakes, on the command line, over HTTP and on the page. */

import { unitsInWords } from "../model/money.ts";

/** The words for what was given before. */
const NAMES = {
  key: "what this key was granted so far",
  budget: "what this budget was given so far",
  amount: "the amount of this budget",
} as const;

/** Units that a user adds. */
export interface Addition {
  readonly added: number;
  /** The units that were given so far. Nothing is much where nothing was given. */
  readonly given: number;
  readonly to: keyof typeof NAMES;
  /** The units that the user has written. Default: those that are added. */
  readonly written?: number;
}

/**
 * Says how much larger some units are than those that were given so far. Undefined for an addition of at most as many units as were given.
 *
 * @param inWords Writes an amount.
 * @param numbers Writes a number.
 */
export function muchInWords(
  { added, given, to, written = added }: Addition,
  inWords: (units: number) => string,
  numbers: Pick<Intl.NumberFormat, "format"> = new Intl.NumberFormat("en"),
): string | undefined {
  if (given <= 0 || added <= given) return undefined;
  const times = Number((written / given).toPrecision(2));
  return `${inWords(written)} is ${times >= 2 ? `${numbers.format(times)} times` : "more than"} ${NAMES[to]}, ${inWords(given)}.`;
}

/** Fewer units than these are less than a hundredth of a currency: money that was written as units. */
const LEAST_MONEY = 10_000;

/** True for some units that are hardly anything in a currency. */
export const isLittle = (units: number): boolean => units > 0 && units < LEAST_MONEY;

/** Says what some units are in a currency. */
export const littleInWords = (units: number, currency: string): string =>
  `A unit is a millionth of ${currency}: ${unitsInWords(units, undefined)} would be only ${unitsInWords(units, currency)}.`;

/**
 * Says that a key would be unlimited without its quota or its budget. Undefined for a key that something still limits, or that has no such
 * limit.
 */
export function unlimitedWithout(
  taken: "quota" | "budget",
  { id, hasQuota, budget }: { readonly id: string; readonly hasQuota: boolean; readonly budget?: string | undefined },
): string | undefined {
  const limits = [...(hasQuota ? ["quota"] : []), ...(budget === undefined ? [] : ["budget"])];
  return limits.length === 1 && limits[0] === taken
    ? `Without its ${taken}, the key ${id} is unlimited: nothing refuses its calls.`
    : undefined;
}
