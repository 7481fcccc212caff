/** Limits the wait of a command for its database: others may lock the tables for any time. */

import type { DatabaseConnection, Dialect } from "kysely";
import { LATE, systemClock, within } from "../../ports/clock.ts";
import { isPassing } from "../away.ts";

/** The longest wait for the end of a statement that has taken too long, in milliseconds. */
const KILL_MS = 2_000;

/** The work of a database to wait for. */
export interface LimitedWork<T> {
  readonly run: () => Promise<T>;
  /** True for work that may change something. */
  readonly isChange: boolean;
  /** True for work after which nothing is repeated. A transaction that has met a lock is rolled back, and begins again. */
  readonly isWhole: boolean;
  /** Ends the work on the server, so that it changes nothing later. Never rejects. */
  readonly kill?: () => Promise<unknown>;
}

/** Limits the time in which one database answers nothing, or nothing but errors of locks. After that time, all waits reject. */
export class AnswerLimit {
  readonly #ms: number;
  #waiting = 0;
  /** The time from which the database has been silent. Undefined while nothing waits. */
  #silentSince: number | undefined;
  /** The time from which locks have kept the work from its end. */
  #lockedSince: number | undefined;
  #mayHaveChanged = false;
  #silence: Error | undefined;

  /** @param ms The longest silence, in milliseconds. */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /** Resolves or rejects as the work does, or rejects after a silence. */
  async wait<T>({ run, isChange, isWhole, kill }: LimitedWork<T>): Promise<T> {
    if (this.#silence) throw this.#silence;
    const begunAt = Date.now();
    this.#mayHaveChanged ||= isChange;
    this.#waiting++;
    try {
      const answer = run();
      do {
        this.#silentSince ??= begunAt;
        const found = await within(answer, Math.max(0, this.#silentSince + this.#ms - Date.now()), systemClock);
        if (found !== LATE) {
          this.#answered();
          if (isWhole) this.#lockedSince = undefined;
          return found;
        }
      } while (!this.#isOver(this.#silentSince));
    } catch (error) {
      this.#answered();
      if (isPassing(error)) this.#lockedSince ??= begunAt;
      if (!this.#isOver(this.#lockedSince)) throw error;
    } finally {
      this.#waiting--;
    }
    this.#silence ??= this.#error();
    await kill?.();
    throw this.#silence;
  }

  #isOver(since: number = Date.now()): boolean {
    return Date.now() - since >= this.#ms;
  }

  #answered(): void {
    this.#silentSince = this.#waiting > 1 ? Date.now() : undefined;
  }

  #error(): Error {
    const outcome = this.#mayHaveChanged
      ? "The change may have been made or not: look before you repeat it."
      : "Nothing was changed.";
    const message = `no answer in ${this.#ms / 1_000} s. Perhaps others lock its tables. ${outcome} To wait longer, add --timeout, such as --timeout 10m.`;
    return Object.assign(new Error(message), { code: "ETIMEDOUT" });
  }
}

/** Returns a dialect whose connections and statements wait no longer than the limit. */
export function limitedDialect(dialect: Dialect, limit: AnswerLimit): Dialect {
  return {
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (db) => dialect.createIntrospector(db),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createDriver() {
      const driver = dialect.createDriver();
      const acquire = driver.acquireConnection.bind(driver);
      const limited = new WeakSet<DatabaseConnection>();
      const kill = async (connection: DatabaseConnection): Promise<void> => {
        await connection.collectSessionInfo?.();
        await connection.killSession?.(async (work) => {
          const control = await acquire();
          try {
            await work(control);
          } finally {
            await driver.releaseConnection(control);
          }
        });
      };
      driver.acquireConnection = async (options) => {
        const connection = await limit.wait({ run: () => acquire(options), isChange: false, isWhole: false });
        if (limited.has(connection)) return connection;
        limited.add(connection);
        const execute = connection.executeQuery.bind(connection);
        let isInTransaction = false;
        connection.executeQuery = (query, ...rest) => {
          const [verb = ""] = /^[a-z]+/.exec(query.sql.trim().toLowerCase()) ?? [];
          isInTransaction = verb === "begin" || verb === "start" || (isInTransaction && !ENDS.has(verb));
          return limit.wait({
            run: () => execute(query, ...rest),
            isChange: !HARMLESS.has(verb),
            isWhole: !isInTransaction && verb !== "rollback" && verb !== "set",
            kill: () =>
              within(
                kill(connection).catch(() => {}),
                KILL_MS,
                systemClock,
              ),
          });
        };
        return connection;
      };
      return driver;
    },
  };
}

const ENDS: ReadonlySet<string> = new Set(["commit", "rollback"]);

/** The statements that change nothing by themselves. */
const HARMLESS: ReadonlySet<string> = new Set(["select", "begin", "start", "set", "rollback"]);
