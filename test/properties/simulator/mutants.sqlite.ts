/** Faults of the SQL store, as changes to its statements on their way to the database. */

import { ENDLESS_MS } from "../../testing/laws/faults.ts";
import { CHARGED_ONCE, FITS, HIDDEN, LEASED, type Mutant, REMAINS, SHARED } from "./mutant.ts";

export const sqliteMutants: readonly Mutant[] = [
  {
    fault: "adds to the grant with each change",
    store: "sqlite",
    breaks: ["what was granted is what remains, is held and was used"],
    statement: (statement) => statement.replace('set "granted" = ?', 'set "granted" = ? + 1'),
  },
  {
    fault: "enters overdraft as estimates, and estimates as overdraft",
    store: "sqlite",
    breaks: ["the journal adds up"],
    statement: (statement) =>
      statement.replace('"overdraft", "estimated", "noted"', '"estimated", "overdraft", "noted"'),
  },
  {
    fault: "holds without a condition",
    store: "sqlite",
    breaks: [REMAINS],
    statement: (statement) =>
      statement
        .replace(/^(update "polygate_keys".*as "now")/, `$1, "granted" + ${HIDDEN} as "granted"`)
        .replace('set "granted" = ?', `set "granted" = ? - ${HIDDEN}`),
  },
  {
    fault: "charges twice what is settled twice",
    store: "sqlite",
    breaks: [CHARGED_ONCE, LEASED],
    statement: (statement) =>
      statement.replace(
        /^select \* from "polygate_holds" where "id" in \(\?\)/,
        `select id, key_id, replace(state, 'settled', 'live') AS state, granted, noted, renewals, used, overdraft, expires_at, resolved_at, shares
          from "polygate_holds" where "id" in (?)`,
      ),
  },
  {
    fault: "never sweeps",
    store: "sqlite",
    breaks: [LEASED, FITS],
    statement: (statement) => statement.replace('"expires_at" <= ', `"expires_at" + ${ENDLESS_MS} <= `),
  },
  {
    fault: "ends leases and periods by the clock of who asks",
    store: "sqlite",
    breaks: [LEASED, FITS, SHARED],
    statement: (statement, { skewMs }) => statement.replaceAll("world_now()", `(world_now() + (${skewMs}))`),
  },
  {
    fault: "forgets the closed periods of a budget",
    store: "sqlite",
    breaks: ["what remains never falls below zero", "the journal adds up", SHARED],
    statement: (statement) => statement.replace('"starts_at" in (?)', '"starts_at" not in (?)'),
  },
  {
    fault: "drops overdraft",
    store: "sqlite",
    breaks: [CHARGED_ONCE],
    seed: 17,
    statement: (statement) =>
      statement.startsWith('update "polygate_keys"')
        ? statement.replace('"overdraft" = ?', '"overdraft" = 0 * ?')
        : statement,
  },
];
