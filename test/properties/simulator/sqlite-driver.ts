/** A Kysely driver for a database that simulated processes share. A process may die at each statement. */

import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import { command, underWay } from "./commands.ts";
import type { Delivery } from "./messages.ts";
import type { Process } from "./process.ts";
import type { WorldParts } from "./world-parts.ts";

/** The key whose row a transaction has locked, and the database's time of the lock. */
export interface Locked {
  readonly keyId: string;
  readonly now: number;
}

export interface SharedOptions {
  readonly database: DatabaseSync;
  readonly parts: WorldParts;
  /** Receives each commit right after it. */
  readonly committed: (delivery: Delivery, locked: Locked) => void;
  /** Changes a statement on its way, for a mutant. */
  readonly rewrite: (statement: string, process: Process) => string;
}

/** The only connection to a database in memory, with its user and the queue. */
export class SharedSqlite {
  readonly #options: SharedOptions;
  readonly #waiting: { readonly process: Process; readonly take: () => void }[] = [];
  readonly #statements = new Map<string, ReturnType<DatabaseSync["prepare"]>>();
  #owner: Process | undefined;
  #locked: Locked | undefined;

  constructor(options: SharedOptions) {
    this.#options = options;
  }

  dialectOf(process: Process): Dialect {
    return {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new ProcessDriver(this, process),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    };
  }

  acquire(process: Process): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (process.alive) this.#waiting.push({ process, take: resolve });
    this.#next();
    return promise;
  }

  release(process: Process): void {
    if (this.#owner !== process) return;
    // Roll back the transaction of a broken connection, which sends no rollback itself.
    this.#rollBack();
    this.#owner = undefined;
    this.#next();
  }

  /** Rolls back what a lost connection has not committed, as a server does. */
  died(process: Process): void {
    const left = this.#waiting.filter((waiting) => waiting.process !== process);
    this.#waiting.splice(0, this.#waiting.length, ...left);
    this.release(process);
  }

  #next(): void {
    if (this.#owner) return;
    const next = this.#waiting.shift();
    if (!next) return;
    this.#owner = next.process;
    next.take();
  }

  run(process: Process, sql: string, parameters: readonly unknown[]): Promise<readonly Row[]> {
    return this.#command(process, sql, () => {
      const { rewrite } = this.#options;
      const rows = this.#prepared(rewrite(sql, process)).all(...(parameters as SQLInputValue[])) as Row[];
      const [row] = rows;
      // The statement that locks a key carries the time.
      if (sql.startsWith("update") && row && "now" in row)
        this.#locked = { keyId: String(row["id"]), now: this.#options.parts.timeline.now };
      return rows;
    });
  }

  begin(process: Process): Promise<void> {
    this.#locked = undefined;
    return this.#command(process, "begin", () => this.#options.database.exec("begin"));
  }

  commit(process: Process): Promise<void> {
    const delivery = underWay.getStore();
    return this.#command(process, "commit", () => {
      this.#options.database.exec("commit");
      if (delivery && this.#locked) this.#options.committed(delivery, this.#locked);
    });
  }

  rollBack(process: Process): Promise<void> {
    return this.#command(process, "rollback", () => this.#rollBack());
  }

  #rollBack(): void {
    const { database } = this.#options;
    if (database.isTransaction) database.exec("rollback");
  }

  #command<Answer>(process: Process, sql: string, run: () => Answer): Promise<Answer> {
    return command(this.#options.parts, process, sql, run);
  }

  #prepared(sql: string): ReturnType<DatabaseSync["prepare"]> {
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#options.database.prepare(sql)));
    return statement;
  }
}

type Row = Record<string, unknown>;

class ProcessDriver implements Driver {
  readonly #shared: SharedSqlite;
  readonly #process: Process;

  constructor(shared: SharedSqlite, process: Process) {
    this.#shared = shared;
    this.#process = process;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    await this.#shared.acquire(this.#process);
    return {
      executeQuery: async <R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> => ({
        // Kysely knows the types of its queries.
        rows: (await this.#shared.run(this.#process, sql, parameters)) as R[],
      }),
      streamQuery: () => {
        throw new Error("The store streams nothing.");
      },
    };
  }

  beginTransaction(): Promise<void> {
    return this.#shared.begin(this.#process);
  }

  commitTransaction(): Promise<void> {
    return this.#shared.commit(this.#process);
  }

  rollbackTransaction(): Promise<void> {
    return this.#shared.rollBack(this.#process);
  }

  async releaseConnection(): Promise<void> {
    this.#shared.release(this.#process);
  }

  async destroy(): Promise<void> {}
}
