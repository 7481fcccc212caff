/** The database that POLYGATE_STORE names: the keys, their quota, the calls, and the counters of the rate limits. */

import { type OpenedStores, openStores } from "polygate/stores";

const { POLYGATE_STORE = "" } = process.env;

/**
 * Makes the tables, also when the database comes later than this process, sweeps every minute, and deletes calls and their books after 30
 * days (`keepDays`); the sums of each day stay.
 */
export const stores: OpenedStores = await openStores(POLYGATE_STORE, {
  // Send this to a place where your team sees it. README.md says how to make a budget.
  onBudget: ({ name, percent }) => console.warn(`The budget ${name} has reached ${percent} %.`),
}).catch((error: Error) => {
  console.error(`POLYGATE_STORE cannot be used. ${error.message}`);
  process.exit(1);
});
