/** The database that POLYGATE_STORE names: the keys, their quota, the calls, and the counters of the rate limits. */

import { type OpenedStores, openStores } from "polygate/stores";
import { orStop, required, stop } from "./env.ts";

const { POLYGATE_STORE } = process.env;
const address = required("POLYGATE_STORE", POLYGATE_STORE, "the database with the keys, such as sqlite:gateway.db");
if (/^rediss?:/.test(address))
  stop("POLYGATE_STORE must be SQLite, PostgreSQL or MySQL: Redis keeps no record of calls.");

/**
 * Makes the tables, also when the database comes later than this process, sweeps every minute, and deletes calls and their books after 30
 * days (`keepDays`); the sums of each day stay.
 */
export const stores: OpenedStores = await orStop("POLYGATE_STORE", () =>
  openStores(address, {
    // Send this to a place where your team sees it. README.md says how to make a budget.
    onBudget: ({ name, percent }) => console.warn(`The budget ${name} has reached ${percent} %.`),
  }),
);
