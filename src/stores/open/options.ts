/** The options of `openStores`. */

import { integer, MAX_TIMER_MS, type Shapes } from "../../options.ts";
import type { OnBudget } from "../budgets.ts";

/** Options of `openStores`. */
export interface OpenStoresOptions {
  /** The prefix of the names of tables (`polygate_`), or of keys in Redis (`polygate`). The prefix of tables may start with a schema. */
  readonly prefix?: string;
  /** The most connections of this process to PostgreSQL or MySQL: an integer from 1 to 1,000, 10 by default. */
  readonly connections?: number;
  /** Makes or updates the tables at the start. Default: true. With false, `polygate keys migrate` makes them. */
  readonly migrate?: boolean;
  /** The days for which an SQL database keeps finished holds and their journal: an integer from 1 to 36,500, 30 by default. */
  readonly keepDays?: number;
  /**
   * The time between two sweeps, in milliseconds: an integer from 1 to 2³¹ − 1, a minute by default. With 0, nothing is swept, unless
   * you call `sweep`.
   */
  readonly sweepMs?: number;
  /** Is told when a budget reaches 50, 80 and 100 percent. */
  readonly onBudget?: OnBudget;
  /**
   * Is told why the database is away at the start, and why a sweep or a write of recorded calls has failed. An outage, and a failure that
   * every sweep meets, are told once. Default: writes the message without passwords to `console.error`, and when the database is back.
   */
  readonly onError?: (error: unknown) => void;
}

export const STORES_SHAPES: Shapes<OpenStoresOptions> = {
  prefix: "string?",
  connections: { optional: integer(1, 1_000) },
  migrate: "boolean?",
  keepDays: { optional: integer(1, 36_500) },
  sweepMs: { optional: integer(0, MAX_TIMER_MS) },
  onBudget: "function?",
  onError: "function?",
};
