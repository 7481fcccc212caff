/** The refusals of a change for its units: in units for programs and for logs, and in money for people. */

import { MOST_UNITS } from "./money.ts";

/** The limit that refuses some units. */
export type UnitsLimit =
  /** The owner, a key or a budget in words, has fewer units to take back than asked for. */
  | { readonly owner: string; readonly available: number }
  /** A book of the owner would pass the most units that it can have. */
  | { readonly owner: string; readonly book: string; readonly most: number };

/** The error for units that a limit refuses. */
export class RefusedUnits extends RangeError {
  readonly limit: UnitsLimit;

  constructor(limit: UnitsLimit) {
    super(
      "available" in limit
        ? `The ${limit.owner} has too few available units: ${limit.available}.`
        : `The ${limit.book} units of the ${limit.owner} would be beyond 2^53 - 1.`,
    );
    this.limit = limit;
  }
}

/** Says what refuses some units, with its amount as `amount` writes it. */
export const limitInWords = (limit: UnitsLimit, amount: (units: number) => string): string =>
  "available" in limit
    ? `The ${limit.owner} has only ${amount(limit.available)} available.`
    : `The ${limit.book} amount of the ${limit.owner} would be beyond ${amount(limit.most)}.`;

const TOO_FEW = /^The (.+) has too few available units: (\d+)\.$/s;
const TOO_MANY = /^The (\w+) units of the (.+) would be beyond 2\^53 - 1\.$/s;

/** Reads the limit from the message of a `RefusedUnits`, as a log keeps it. Undefined for any other text. */
export function limitIn(message: string): UnitsLimit | undefined {
  const [, owner, available] = TOO_FEW.exec(message) ?? [];
  if (owner !== undefined) return { owner, available: Number(available) };
  const [, book, holder] = TOO_MANY.exec(message) ?? [];
  return book === undefined || holder === undefined ? undefined : { owner: holder, book, most: MOST_UNITS };
}
