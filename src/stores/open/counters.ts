/** Counters of rate-limiter-flexible in an open database, and their table. */

import { createRequire } from "node:module";
import type * as kyselyPackage from "kysely";
import type * as flexiblePackage from "rate-limiter-flexible";
import { checkOf, integer, MAX_TIMER_MS } from "../../options.ts";
import { lacksTable } from "../away.ts";
import type { RateCounter } from "../rate-limits.ts";
import type { SqlDatabase } from "../sql/index.ts";

export type CounterPlace =
  | { readonly kind: "memory" }
  | ({ readonly kind: "postgres" | "mysql"; readonly pool: unknown } & RatesTable)
  | { readonly kind: "redis"; readonly client: unknown; readonly keyPrefix: string };

interface RatesTable {
  readonly schema?: string;
  readonly table: string;
}

/** Returns the table for a prefix, which may start with a schema. */
export function ratesIn(prefix = "polygate_"): RatesTable {
  const [table = "", schema] = `${prefix}rates`.split(".").toReversed();
  return { table, ...(schema !== undefined && { schema }) };
}

/** Any number that no other lock of a host is likely to have. */
const ADVISORY_LOCK = 7_246_001;

/**
 * Makes the table of the counters where the database has none. Any number of processes may do so at the same time. The package would
 * make a table for each counter, not race-free, and with keys that are too short for the name of a model.
 */
export async function createRates({ sql }: typeof kyselyPackage, db: SqlDatabase, place: CounterPlace): Promise<void> {
  if (place.kind !== "postgres" && place.kind !== "mysql") return;
  const table = sql.table(place.schema ? `${place.schema}.${place.table}` : place.table);
  try {
    // A read-only database refuses to make a table also where the table exists.
    await sql`select 1 from ${table} where 1 = 0`.execute(db);
    return;
  } catch (error) {
    if (!lacksTable(error)) throw error;
  }
  if (place.kind === "mysql") {
    // Bytes are compared exactly. No key of an index is longer.
    const columns = sql`${sql.ref("key")} varbinary(3072) primary key, points integer not null, expire bigint`;
    await sql`create table if not exists ${table} (${columns})`.execute(db);
    return;
  }
  await db.transaction().execute(async (one) => {
    // PostgreSQL fails when two connections make a table at the same time.
    await sql`select pg_advisory_xact_lock(${ADVISORY_LOCK})`.execute(one);
    await sql`create table if not exists ${table} (key text primary key, points integer not null, expire bigint)`.execute(
      one,
    );
  });
}

/** Deletes the windows that have ended an hour ago or earlier. */
export async function sweepRates({ sql }: typeof kyselyPackage, db: SqlDatabase, place: CounterPlace): Promise<void> {
  if (place.kind !== "postgres" && place.kind !== "mysql") return;
  const table = sql.table(place.schema ? `${place.schema}.${place.table}` : place.table);
  await sql`delete from ${table} where expire < ${Date.now() - 3_600_000}`.execute(db);
}

/** A count may exceed the points of its window, and must still fit into the column. */
const MOST_POINTS = 1_000_000_000;

/** The longest timer of a window in memory. Node runs a longer timer at once, and the window would limit nothing. */
const MOST_SECONDS = Math.floor(MAX_TIMER_MS / 1_000);

/** Makes a counter. Throws a RangeError for numbers out of range, and an Error when rate-limiter-flexible is not installed. */
export function counterIn(place: CounterPlace, points: number, seconds: number): RateCounter {
  checkOf(integer(1, MOST_POINTS))("stores.counter: points", points);
  checkOf(integer(1, MOST_SECONDS))("stores.counter: seconds", seconds);
  const { RateLimiterMemory, RateLimiterMySQL, RateLimiterPostgres, RateLimiterRedis } = flexible();
  const window = { points, duration: seconds };
  // The table is made and swept above, for all counters together.
  const table = { ...window, tableCreated: true, clearExpiredByTimeout: false, storeType: "pool" };
  switch (place.kind) {
    case "memory":
      return new RateLimiterMemory(window);
    case "postgres": {
      const schema = place.schema !== undefined && { schemaName: place.schema };
      return new RateLimiterPostgres({ ...table, storeClient: place.pool, tableName: place.table, ...schema });
    }
    case "mysql": {
      const dbName = place.schema ?? "";
      return new RateLimiterMySQL({ ...table, storeClient: place.pool, dbName, tableName: place.table });
    }
    case "redis": {
      const { client: storeClient, keyPrefix } = place;
      // Without the first option, the package takes the client for one of ioredis. Without the second one, calls wait for Redis.
      return new RateLimiterRedis({
        ...window,
        useRedisPackage: true,
        rejectIfRedisNotReady: true,
        storeClient,
        keyPrefix,
      });
    }
    default:
      place satisfies never;
      throw new Error("There is no such place.");
  }
}

/** The package of the counters. */
export const COUNTERS = "rate-limiter-flexible";

/** Tells whether the package of the counters is installed. Does not load it. */
export function hasCounters(): boolean {
  try {
    return createRequire(import.meta.url).resolve(COUNTERS) !== "";
  } catch {
    return false;
  }
}

/** Loads the package at the first counter. `require` lets a counter stand in a literal, because it needs no `await`. */
function flexible(): typeof flexiblePackage {
  try {
    return createRequire(import.meta.url)(COUNTERS) as typeof flexiblePackage;
  } catch (error) {
    throw new Error(`stores.counter needs the package "${COUNTERS}": npm install ${COUNTERS}`, { cause: error });
  }
}
