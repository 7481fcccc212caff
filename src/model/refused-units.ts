/** The refusals of a change: with a code for programs, and those of units in money for people. */

import { MOST_UNITS } from "./money.ts";

/** The limit that refuses some units. */
export type UnitsLimit =
  /** The owner, a key or a budget in words, has fewer units to take back than asked for. */
  | { readonly owner: string; readonly available: number }
  /** A book of the owner would pass the most units that it can have. */
  | { readonly owner: string; readonly book: string; readonly most: number };

/** The code of a refused change. */
export type RefusalCode =
  /** No key or budget has the id. */
  | "not_found"
  /** The state of a key or a budget refuses the change: an id or a secret is known already, or a key is revoked. */
  | "conflict"
  /** Somebody has changed what the editor has seen. */
  | "changed_meanwhile"
  /** Too few units are available, or a sum would pass the most units. */
  | "limit_reached";

/** The error for a change that the state of a store refuses. A wrong value is a TypeError or a RangeError without a code. */
export class RefusedChange extends RangeError {
  readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** The error for units that a limit refuses. */
export class RefusedUnits extends RefusedChange {
  readonly limit: UnitsLimit;

  constructor(limit: UnitsLimit) {
    super(
      "limit_reached",
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
