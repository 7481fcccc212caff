/** A Kysely dialect for Node's own SQLite. */

import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { SqliteDialect, type SqliteStatement } from "kysely";

/**
 * A Kysely dialect over `node:sqlite`. Open a file with `PRAGMA journal_mode = WAL`, so that readers wait for no writer, and
 * without a busy timeout: SQLite waits by blocking the whole process, and the store tries again by itself.
 *
 * @example
 * const db = new Kysely({ dialect: nodeSqliteDialect(new DatabaseSync("quota.db")) });
 */
export function nodeSqliteDialect(database: DatabaseSync): SqliteDialect {
  const prepared = new Map<string, SqliteStatement>();
  const prepare = (sql: string): SqliteStatement => {
    const known = prepared.get(sql);
    if (known) return known;
    if (prepared.size >= MAX_PREPARED) prepared.clear();
    const statement = statementOf(database, sql);
    prepared.set(sql, statement);
    return statement;
  };
  return new SqliteDialect({ database: { close: () => database.close(), prepare } });
}

/** To prepare a statement takes longer than to run it, and the store has a few dozen of them. */
const MAX_PREPARED = 200;

// Kysely's parameters are of any type; SQLite itself rejects a value that it cannot store.
const values = (parameters: readonly unknown[]): SQLInputValue[] => parameters as SQLInputValue[];

function statementOf(database: DatabaseSync, sql: string): SqliteStatement {
  const statement = database.prepare(sql);
  // Else SQLite fails at an integer that a number does not hold, and with it at all rows of a page.
  statement.setReadBigInts(true);
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...values(parameters)).map(withNumbers),
    run: (parameters) => statement.run(...values(parameters)),
    // An iterator is read while other queries run, which may be the same: it has a statement of its own.
    iterate: (parameters) => database.prepare(sql).iterate(...values(parameters)),
  };
}

/** Makes numbers of a row's integers, where that is exact. */
function withNumbers(row: Record<string, unknown>): Record<string, unknown> {
  for (const [name, value] of Object.entries(row))
    if (typeof value === "bigint" && Number.isSafeInteger(Number(value))) row[name] = Number(value);
  return row;
}
