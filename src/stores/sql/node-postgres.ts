/** A Kysely dialect for node-postgres: lost connections end no process, and PostgreSQL plans the store's statements once. */

import {
  PostgresDialect,
  type PostgresCursor,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
} from "kysely";
import { plannedNameOf } from "./statements.ts";

/** A statement that a connection keeps planned under its name. */
interface NamedQuery {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

/** The part of a `pg` connection that the dialect uses beside Kysely's. */
interface ErrorEmitter {
  on(event: "error", listener: (error: Error) => void): unknown;
  listeners(event: "error"): readonly unknown[];
}

/** A connection of a pool of `pg`. */
interface NodePostgresClient extends PostgresPoolClient, ErrorEmitter {
  query<R>(query: NamedQuery): Promise<PostgresQueryResult<R>>;
  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
}

/** The part of a `Pool` of `pg` that the dialect uses. */
export interface NodePostgresPool extends PostgresPool {
  connect(): Promise<NodePostgresClient>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: ErrorEmitter) => void): unknown;
}

/** How the dialect works with a pool of `pg`. */
export interface NodePostgresOptions {
  /**
   * Whether each connection keeps the statements of `reserve`, `renew` and `settle` planned, which saves the server half of their
   * work. Default true. A pooler that gives each transaction another connection must know prepared statements, as PgBouncer does
   * since 1.21; behind any other it must be false.
   */
  readonly planOnce?: boolean;
}

/**
 * A Kysely dialect over a pool of `pg` (node-postgres). Node ends a process that leaves an `error` event without a listener. `pg` emits
 * that event when the server cuts a connection, for instance at a restart, and Kysely listens for none. This dialect listens on the
 * pool and on each of its connections. The query that a cut connection was working on rejects all the same, and the next query opens
 * a new connection. A host that logs lost connections adds a listener of its own to the pool.
 *
 * @example
 * const db = new Kysely({ dialect: nodePostgresDialect(new Pool({ connectionString })) });
 */
export function nodePostgresDialect(
  pool: NodePostgresPool,
  { planOnce = true }: NodePostgresOptions = {},
): PostgresDialect {
  pool.on("error", ignore);
  pool.on("connect", listen);
  return new PostgresDialect({ pool: planOnce ? new PlanningPool(pool) : pool });
}

/** A pool whose connections keep the store's statements planned. */
class PlanningPool implements PostgresPool {
  readonly Client?: NonNullable<PostgresPool["Client"]>;
  readonly #pool: NodePostgresPool;
  /** Each connection's own, for Kysely knows a connection by its object. */
  readonly #clients = new WeakMap<NodePostgresClient, PlanningClient>();

  constructor(pool: NodePostgresPool) {
    this.#pool = pool;
    if (pool.Client) this.Client = pool.Client;
  }

  get options(): object {
    return this.#pool.options;
  }

  async connect(): Promise<PlanningClient> {
    const client = await this.#pool.connect();
    let planning = this.#clients.get(client);
    if (!planning) this.#clients.set(client, (planning = new PlanningClient(client)));
    return planning;
  }

  end(): Promise<void> {
    return this.#pool.end();
  }
}

class PlanningClient implements PostgresPoolClient {
  readonly #client: NodePostgresClient;

  constructor(client: NodePostgresClient) {
    this.#client = client;
  }

  /** 0 where `pg` does not tell: Kysely asks the server then. */
  get processID(): number {
    return this.#client.processID ?? 0;
  }

  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  query<R>(
    query: string | PostgresCursor<R>,
    values: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<R>> | PostgresCursor<R> {
    if (typeof query !== "string") return this.#client.query(query);
    const name = plannedNameOf(query);
    return name === undefined ? this.#client.query(query, values) : this.#client.query({ name, text: query, values });
  }

  release(destroy?: boolean): void {
    this.#client.release(destroy);
  }
}

function listen(client: ErrorEmitter): void {
  if (!client.listeners("error").includes(ignore)) client.on("error", ignore);
}

const ignore = (): void => {};
