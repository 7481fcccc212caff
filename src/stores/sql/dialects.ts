/** Where the databases differ: their clocks, their locks, and which of their errors call for another try. */

import { type AliasedRawBuilder, type RawBuilder, sql } from "kysely";
import type { StoredInteger } from "./schema.ts";

/** The databases that the store speaks to; MariaDB is `mysql`. */
export type SqlDialect = "sqlite" | "postgres" | "mysql";

/** A time in SQL, in milliseconds since the Unix epoch. */
export type TimeExpression = RawBuilder<StoredInteger>;

/** The database's own time, in milliseconds since the Unix epoch. */
export const DATABASE_TIME: Readonly<Record<SqlDialect, TimeExpression>> = {
  sqlite: sql`CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)`,
  postgres: sql`CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)`,
  mysql: sql`(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)`,
};

/** A column as text, under its own name: exact, whatever number a driver can hold. */
export const asText = <Column extends string>(dialect: SqlDialect, column: Column): AliasedRawBuilder<string, Column> =>
  sql<string>`CAST(${sql.ref(column)} AS ${sql.raw(dialect === "mysql" ? "CHAR" : "TEXT")})`.as(column);

/** Deadlocks, failed serializations, and rows that somebody else has just inserted. */
const RETRIED_CODES = new Set(["40001", "40P01", "23505", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE"]);
/** The same of MySQL and MariaDB: lock wait timeout, deadlock, changed since read, duplicate. */
const RETRIED_NUMBERS = new Set([1205, 1213, 1020, 1062]);
/** SQLite's unique constraints. */
const SQLITE_UNIQUE = new Set([1555, 2067]);
/** SQLite's BUSY and LOCKED: the low byte of their extended codes. */
const SQLITE_BUSY = new Set([5, 6]);

/** Whether a transaction failed because of another that ran beside it. */
function isConflict(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errno, errcode } = error as Error & { code?: unknown; errno?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return SQLITE_BUSY.has(errcode & 0xff) || SQLITE_UNIQUE.has(errcode);
  if (typeof code === "string" && (RETRIED_CODES.has(code) || /^SQLITE_(BUSY|LOCKED)/.test(code))) return true;
  return typeof errno === "number" && RETRIED_NUMBERS.has(errno);
}

/** The most tries of one verb. SQLite lets one writer in at a time and says at once that it is busy. */
const TRIES: Readonly<Record<SqlDialect, number>> = { sqlite: 500, postgres: 20, mysql: 20 };
const MAX_PAUSE_MS = 40;

/** Does work that can be repeated, again when it has met a conflict, after a short pause of random length. */
export async function retrying<T>(dialect: SqlDialect, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++)
    try {
      return await work();
    } catch (error) {
      if (tries >= TRIES[dialect] || !isConflict(error)) throw error;
      const pauseMs = Math.random() * Math.min(MAX_PAUSE_MS, 2 ** tries);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
}
