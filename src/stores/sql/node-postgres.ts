/** A Kysely dialect for node-postgres whose lost connections end no process. */

import { PostgresDialect, type PostgresPool, type PostgresPoolClient } from "kysely";

/** The part of a `pg` connection that the dialect uses beside Kysely's. */
interface ErrorEmitter {
  on(event: "error", listener: (error: Error) => void): unknown;
  listeners(event: "error"): readonly unknown[];
}

/** The part of a `Pool` of `pg` that the dialect uses. */
export interface NodePostgresPool extends PostgresPool {
  connect(): Promise<PostgresPoolClient & ErrorEmitter>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: ErrorEmitter) => void): unknown;
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
export function nodePostgresDialect(pool: NodePostgresPool): PostgresDialect {
  pool.on("error", ignore);
  pool.on("connect", listen);
  return new PostgresDialect({ pool });
}

function listen(client: ErrorEmitter): void {
  if (!client.listeners("error").includes(ignore)) client.on("error", ignore);
}

const ignore = (): void => {};
