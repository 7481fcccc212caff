/** The database: PostgreSQL for the keys, their quota, the calls and the counters. All processes share it. */

import { Kysely } from "kysely";
import { Pool } from "pg";
import { nodePostgresDialect } from "polygate/stores/sql";
import { RateLimiterPostgres } from "rate-limiter-flexible";

const { POLYGATE_STORE = "" } = process.env;
if (!/^postgres(ql)?:/.test(POLYGATE_STORE)) throw new Error("Set POLYGATE_STORE to an address, such as postgres://….");

// PGPASSWORD holds the password if the address has none.
const pool = new Pool({ connectionString: POLYGATE_STORE });
pool.on("error", console.error);

export const dialect = "postgres";
export const db: Kysely<unknown> = new Kysely({ dialect: nodePostgresDialect(pool) });

// The table of all counters. The lock lets processes that start at the same time make it one after the other.
await pool.query(`
  SELECT pg_advisory_xact_lock(7246);
  CREATE TABLE IF NOT EXISTS rates (key text PRIMARY KEY, points integer NOT NULL, expire bigint)
`);

/** Returns a counter that allows a number of points in a number of seconds, for all processes together. */
export const rateCounter = async (points: number, duration: number): Promise<RateLimiterPostgres> =>
  new RateLimiterPostgres({ storeClient: pool, tableName: "rates", tableCreated: true, points, duration });
