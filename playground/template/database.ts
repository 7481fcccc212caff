/** The database: one SQLite file for the keys, their quota and the calls, and counters in memory. For one process. */

import { DatabaseSync } from "node:sqlite";
import { Kysely } from "kysely";
import { nodeSqliteDialect } from "polygate/stores/sql";
import { RateLimiterMemory } from "rate-limiter-flexible";

const { POLYGATE_STORE = "" } = process.env;
const [, file] = /^sqlite:(.+)$/.exec(POLYGATE_STORE) ?? [];
if (!file) throw new Error("Set POLYGATE_STORE to a file, such as sqlite:gateway.db.");

const database = new DatabaseSync(file);
database.exec("PRAGMA journal_mode = WAL");

export const dialect = "sqlite";
export const db: Kysely<unknown> = new Kysely({ dialect: nodeSqliteDialect(database) });

/** Returns a counter that allows a number of points in a number of seconds. */
export const rateCounter = async (points: number, duration: number): Promise<RateLimiterMemory> =>
  new RateLimiterMemory({ points, duration });
