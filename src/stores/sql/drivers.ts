/** Kysely dialects for node-postgres and for Node's own SQLite: they let the database plan or prepare the store's statements only once. */

import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import {
  type PostgresCursor,
  PostgresDialect,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
  SqliteDialect,
  type SqliteStatement,
} from "kysely";
import { assertMethods, assertOptions } from "../../options.ts";
import { isReadOnly } from "../away.ts";
import { plannedNameOf } from "./database.ts";

/** The part of a `pg` connection that the dialect uses beside Kysely's. */
interface ErrorEmitter {
  on(event: "error", listener: (error: Error) => void): unknown;
  listeners(event: "error"): readonly unknown[];
}

/** A connection of a pool of `pg`. */
interface NodePostgresClient extends PostgresPoolClient, ErrorEmitter {
  /** Runs a statement that the connection keeps planned under its name. */
  query<R>(query: { name: string; text: string; values: readonly unknown[] }): Promise<PostgresQueryResult<R>>;
  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
}

/** The part of a `Pool` of `pg` that the dialect uses. */
export interface NodePostgresPool extends PostgresPool {
  connect(): Promise<NodePostgresClient>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: ErrorEmitter) => void): unknown;
}

/** Options of the dialect for node-postgres. */
export interface NodePostgresOptions {
  /**
   * Lets each connection keep the statements of `reserve`, `renew` and `settle` planned, which saves the server half of their work.
   * Default true. Set it to false behind a pooler that gives each transaction another connection, unless the pooler supports prepared
   * statements, as PgBouncer does from 1.24, and from 1.21 with `max_prepared_statements`.
   */
  readonly planOnce?: boolean;
}

/**
 * A Kysely dialect over a pool of `pg` (node-postgres). Node ends a process that leaves an `error` event without a listener. `pg`
 * emits that event when the server cuts a connection, for instance at a restart, and Kysely listens for none. This dialect listens on
 * the pool and on each of its connections. The query that was running on a cut connection still rejects, and the next query opens a
 * new connection. A host that logs lost connections adds a listener of its own to the pool.
 *
 * @example
 * const db = new Kysely({ dialect: nodePostgresDialect(new Pool({ connectionString })) });
 */
export function nodePostgresDialect(pool: NodePostgresPool, options: NodePostgresOptions = {}): PostgresDialect {
  assertMethods("nodePostgresDialect", "pool", pool, ["connect", "on"], "a Pool of pg");
  assertOptions<NodePostgresOptions>("nodePostgresDialect", options, { planOnce: "boolean?" });
  const { planOnce = true } = options;
  pool.on("error", ignore);
  pool.on("connect", (client) => {
    if (!client.listeners("error").includes(ignore)) client.on("error", ignore);
  });
  return new PostgresDialect({ pool: wrappedPool(pool, planOnce) });
}

const ignore = (): void => {};

/** Wraps a pool, so that its connections keep the store's statements planned, and end once their server has become read-only. */
function wrappedPool(pool: NodePostgresPool, planOnce: boolean): PostgresPool {
  // Kysely identifies a connection by its object, so a connection must always have the same wrapper.
  const wrappers = new WeakMap<NodePostgresClient, PostgresPoolClient>();
  return {
    ...(pool.Client && { Client: pool.Client }),
    get options() {
      return pool.options;
    },
    async connect() {
      const client = await pool.connect();
      let wrapper = wrappers.get(client);
      if (!wrapper) wrappers.set(client, (wrapper = new WrappedClient(client, planOnce)));
      return wrapper;
    },
    end: () => pool.end(),
  };
}

class WrappedClient implements PostgresPoolClient {
  readonly #client: NodePostgresClient;
  readonly #planOnce: boolean;
  #isStale = false;

  constructor(client: NodePostgresClient, planOnce: boolean) {
    this.#client = client;
    this.#planOnce = planOnce;
  }

  /** 0 when `pg` does not know the id: Kysely then asks the server. */
  get processID(): number {
    return this.#client.processID ?? 0;
  }

  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  query<R>(
    query: string | PostgresCursor<R>,
    values: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<R>> | PostgresCursor<R> {
    return typeof query === "string" ? this.#asked(query, values) : this.#client.query(query);
  }

  async #asked<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>> {
    const name = this.#planOnce ? plannedNameOf(text) : undefined;
    try {
      return await (name === undefined
        ? this.#client.query<R>(text, values)
        : this.#client.query<R>({ name, text, values }));
    } catch (error) {
      this.#isStale ||= isReadOnly(error);
      throw error;
    }
  }

  /** Ends the connection to a server that has become read-only: a new one may lead to the primary. */
  release(destroy?: boolean): void {
    this.#client.release(destroy || this.#isStale);
  }
}

/** The most prepared statements. Preparing one takes longer than running it, and the store has a few dozen. */
const MAX_PREPARED = 200;

/**
 * A Kysely dialect over `node:sqlite`. Open a file with `PRAGMA journal_mode = WAL`, so that readers do not wait for writers, and
 * without a busy timeout: SQLite waits by blocking the whole process, and the store retries by itself.
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

function statementOf(database: DatabaseSync, sql: string): SqliteStatement {
  const statement = database.prepare(sql);
  // Read integers as bigints: otherwise one integer that a number cannot represent makes the whole query fail.
  statement.setReadBigInts(true);
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...values(parameters)).map(withNumbers),
    run: (parameters) => statement.run(...values(parameters)),
    // Prepare a separate statement: the same query may run again before the iterator is read to its end.
    iterate: (parameters) => database.prepare(sql).iterate(...values(parameters)),
  };
}

// The cast is safe: SQLite itself rejects a value that it cannot store.
const values = (parameters: readonly unknown[]): SQLInputValue[] => parameters as SQLInputValue[];

/** Converts the bigints of a row to numbers when the conversion is exact. */
function withNumbers(row: Record<string, unknown>): Record<string, unknown> {
  for (const [name, value] of Object.entries(row))
    if (typeof value === "bigint" && Number.isSafeInteger(Number(value))) row[name] = Number(value);
  return row;
}
