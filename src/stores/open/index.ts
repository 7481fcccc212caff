/** The exports of "polygate/stores": opens all stores of a long-running gateway by one address, keeps them clean, and closes them. */

import type { Kysely } from "kysely";
import { assertNodeVersion } from "../../node-version.ts";
import { assertOptions, printError, tellHost } from "../../options.ts";
import type { AuditLog } from "../../ports/audit-log.ts";
import { LATE, systemClock, within } from "../../ports/clock.ts";
import { noteDatabase } from "../../ports/quota-store.ts";
import type { ReplayStore } from "../../ports/replay-store.ts";
import type { ResponseStore } from "../../ports/response-store.ts";
import { isAway } from "../away.ts";
import { type CallReader, type CallRecorder, RECORDER_SHAPES, type RecorderOptions } from "../calls.ts";
import type { DurableQuotaStore } from "../durable.ts";
import type { RateCounter } from "../rate-limits.ts";
import {
  connect,
  type ConnectOptions,
  describeProblem,
  placeOf,
  type RedisConnection,
  type SqlConnection,
  UsageError,
} from "./connection.ts";
import { counterIn } from "./counters.ts";
import { type OpenStoresOptions, STORES_SHAPES } from "./options.ts";

assertNodeVersion();

export type { AuditEntry, AuditLog, AuditOutcome, AuditPage, AuditRecord } from "../../ports/audit-log.ts";
export type {
  BudgetEvent,
  BudgetOptions,
  BudgetPeriod,
  BudgetPeriodReport,
  BudgetReport,
  OnBudget,
} from "../budgets.ts";
export type {
  CallFilter,
  CallReader,
  CallRecorder,
  RecordedCall,
  RecordedDays,
  RecorderOptions,
  UsageColumn,
  UsageQuery,
  UsageReport,
  UsageRow,
  UsageSums,
} from "../calls.ts";
export type {
  BudgetDirectory,
  BudgetPage,
  DurableKeyOptions,
  DurableQuotaStore,
  KeyDirectory,
  KeyPage,
  KeyReport,
  PeriodPage,
  Retention,
} from "../durable.ts";
export {
  type BudgetRow,
  type DueHolds,
  type EntryKind,
  type EntryRow,
  type FastVerbs,
  type HoldRow,
  type KeyRow,
  type LedgerChanges,
  type LedgerDriver,
  type LedgerRows,
  type LedgerScope,
  type PeriodRow,
  type RowChange,
  type PeriodRowPage,
  type RowPage,
  type SecretRow,
  type StoredBooks,
  type StoredInteger,
  type StoredShare,
  toApiKey,
  type Worked,
} from "../driver.ts";
export { assertHoldRequest as checkHold } from "../durable.ts";
export { assertOutcome as checkOutcome, assertRenewal as checkRenewal } from "../ledger.ts";
export { ledgerQuotaStore, type LedgerQuotaStoreOptions } from "../ledger-store.ts";
export type { RateCount, RateCounter } from "../rate-limits.ts";
export type { OpenStoresOptions } from "./options.ts";

/** The stores as `createGateway` takes them. */
export interface StorePorts {
  readonly quotas: DurableQuotaStore;
  readonly replayStore: ReplayStore;
  /** Keeps responses in SQL. Redis has no such store. */
  readonly responseStore?: ResponseStore;
}

/** Open stores. Close them after the gateway. */
export interface OpenedStores {
  /** The options of `createGateway` to spread: `createGateway({ backend, ...stores.ports })`. */
  readonly ports: StorePorts;
  /**
   * The SQL database, for your own tables. It ends with `close`. Throws an Error for Redis. Its type is that of `kysely`: a project that checks
   * the types of its libraries (`skipLibCheck: false`) has this package, also with Redis alone.
   */
  readonly db: Kysely<unknown>;
  /**
   * Makes a counter for `flexibleRateLimiter`, which allows a number of points in a number of seconds. All processes share it on
   * PostgreSQL, MySQL and Redis. With SQLite, it counts in the memory of this process. Needs the package `rate-limiter-flexible`.
   *
   * @param points From 1 to 1,000,000,000.
   * @param seconds From 1 to 2,147,483, which is almost 25 days. Use a budget for longer limits.
   * @throws RangeError for a number out of range.
   */
  counter(points: number, seconds: number): RateCounter;
  /**
   * Makes a recorder of calls for `createGateway`'s `onCall`: a row for each finished call, and the sums of each day. Call it once.
   * `sweep` makes the sums agree with the ledger, and deletes calls older than `keepDays`; `close` writes the calls that wait. Throws an
   * Error for Redis, and a TypeError or RangeError for a wrong option.
   */
  recorder<Context = unknown>(options?: RecorderOptions<Context>): CallRecorder<Context>;
  /** Reads the recorded calls, such as for `callAdmin` of `polygate/admin`. Throws an Error for Redis. */
  readonly calls: CallReader;
  /** Keeps the admin's log of changes: the option `audit` of `adminHandler`. Throws an Error for Redis. */
  readonly auditLog: AuditLog;
  /** Charges the holds of dead processes and deletes old rows, at once. Reports failures to `onError`. */
  sweep(): Promise<void>;
  /**
   * Writes the recorded calls that wait, stops the sweeps, waits for the sweep that runs, and closes all connections. Gives up on a database
   * that does not answer, after a minute at most, and tells `onError`.
   */
  close(): Promise<void>;
}

const DAY_MS = 86_400_000;
/** The time between two attempts to reach a database that was away at the start, in milliseconds. */
const RETRY_MS = 1_000;
/** The longest wait of `close` for a sweep that runs, and for the end of the connections, in milliseconds. */
const CLOSE_MS = 10_000;

/**
 * Opens `sqlite:FILE`, `postgres://…`, `mysql://…` or `redis://…` for a long-running gateway: makes the tables, and sweeps every minute.
 * While a server cannot be reached, the stores are open and fail, `onError` is told once, and the server is asked again every second.
 *
 * @throws TypeError or RangeError for a wrong option, and Error for a wrong address, a missing package, or a database that refuses, for
 * example for a wrong password. The messages contain no password.
 * @example
 * const stores = await openStores("sqlite:gateway.db");
 * const gateway = createGateway({ backend, ...stores.ports });
 */
export async function openStores(address: string, options: OpenStoresOptions = {}): Promise<OpenedStores> {
  assertOptions<OpenStoresOptions>("openStores", options, STORES_SHAPES);
  const { prefix, migrate = true, connections = 10, keepDays = 30, sweepMs = 60_000, onError = logError } = options;
  if (typeof address !== "string")
    throw new TypeError("openStores: the address of the store must be a text, such as sqlite:gateway.db.");

  const connection = await connectTo(address, { prefix, connections, create: migrate, forGateway: true });
  const begin = (): Promise<unknown> =>
    migrate && connection.dialect !== "redis" ? connection.migrate() : connection.ask();
  const tell = (error: unknown): void => tellHost(onError, error);
  let reasonTold = "";
  /** Tells why the database cannot be used yet. Each reason is told once. */
  const tellAway = (thrown: unknown): void => {
    const reason = unusable(address, thrown, " The stores ask again every second.");
    if (reason.message === reasonTold) return;
    reasonTold = reason.message;
    tell(reason);
  };
  let isOutage = false;
  /** Tells of a failure behind the calls. An outage is told once, however many steps meet it: a sweep notices its end. */
  const tellFailure = (error: unknown): void => {
    if (!isAway(error)) return tell(error);
    if (!isOutage || sweepMs === 0) tell(unusable(address, error, " Sweeps and records go on when it is back."));
    isOutage = true;
  };
  const endOutage = (): void => {
    if (isOutage && onError === logError) printError(`The stores are back: ${placeOf(address)}`);
    isOutage = false;
  };
  let made: MadePorts;
  try {
    made =
      connection.dialect === "redis"
        ? await redisPorts(connection, options)
        : sqlPorts(connection, { ...options, keepDays });
    await begin().catch((error: unknown) => {
      if (!isAway(error)) throw error;
      isOutage = true;
      tellAway(error);
    });
  } catch (error) {
    await connection.close();
    throw unusable(address, error);
  }

  for (const store of Object.values(made.ports)) noteDatabase(store, connection);
  const recorded: Recording[] = [];
  let calls: CallReader | undefined;
  let auditLog: AuditLog | undefined;
  let running: Promise<void> | undefined;
  /** The last failure of each step, which is told once while it lasts. */
  const failures = new Map<Sweep, string>();
  const sweep = (): Promise<void> =>
    (running ??= (async () => {
      for (const step of [...recorded.flatMap(({ sweeps }) => sweeps), ...made.sweeps])
        try {
          await step();
          endOutage();
          failures.delete(step);
        } catch (error) {
          // A step that fails does not stop the others, unless all of them would wait for the same database.
          if (isAway(error)) {
            tellFailure(error);
            break;
          }
          const problem = describeProblem(error);
          if (failures.get(step) !== problem) tell(error);
          failures.set(step, problem);
        }
      running = undefined;
    })());
  /** Waits for the end of work, unless the database is silent: a host that closes its stores must be able to end. */
  const unlessHanging = async (work: Promise<void> | undefined): Promise<void> => {
    if (work && (await within(work, CLOSE_MS, systemClock)) === LATE)
      tell(new Error("The database has not answered in time while the stores were closed."));
  };
  let beginning: Promise<void> | undefined;
  const retry =
    reasonTold === ""
      ? undefined
      : setInterval(() => {
          beginning ??= begin().then(
            () => {
              clearInterval(retry);
              endOutage();
            },
            (error: unknown) => {
              beginning = undefined;
              tellAway(error);
            },
          );
        }, RETRY_MS);
  retry?.unref();
  const timer = sweepMs > 0 ? setInterval(() => void sweep(), sweepMs) : undefined;
  timer?.unref();

  let closed: Promise<void> | undefined;
  return {
    ports: made.ports,
    get db() {
      if (connection.dialect === "redis") throw new Error("stores.db: Redis has no SQL database for your own tables.");
      return connection.db as Kysely<unknown>;
    },
    recorder(recorderOptions = {}) {
      // The function itself was given as `onCall`, and got a record.
      if ((recorderOptions as { readonly requestId?: unknown } | null)?.requestId !== undefined)
        throw new TypeError("stores.recorder makes a recorder: write onCall: stores.recorder(), with parentheses.");
      assertOptions<RecorderOptions>("stores.recorder", recorderOptions, RECORDER_SHAPES);
      if (connection.dialect === "redis") throw new Error("stores.recorder: Redis keeps no record of calls.");
      const { db, dialect, stores } = connection;
      const log = stores.sqlCallLog({ db, dialect, prefix, onError: tellFailure, keepDays, ...recorderOptions });
      // The calls must be complete before the ledger forgets its holds.
      recorded.push({ sweeps: [() => log.sweep(), () => log.prune()], close: () => log.close() });
      return log.onCall;
    },
    get calls() {
      if (connection.dialect === "redis") throw new Error("stores.calls: Redis keeps no record of calls.");
      const { db, dialect, stores } = connection;
      return (calls ??= stores.sqlCallReader({ db, dialect, prefix }));
    },
    get auditLog() {
      if (connection.dialect === "redis") throw new Error("stores.auditLog: Redis keeps no log of changes.");
      const { db, dialect, stores } = connection;
      return (auditLog ??= stores.sqlAuditLog({ db, dialect, prefix }));
    },
    counter(points, seconds) {
      const counter = counterIn(connection.counters, points, seconds);
      if (connection.counters.kind !== "memory") noteDatabase(counter, connection);
      return counter;
    },
    sweep,
    close: () =>
      (closed ??= (async () => {
        clearInterval(timer);
        clearInterval(retry);
        await unlessHanging(beginning);
        await unlessHanging(running);
        for (const { close } of recorded) await close();
        await unlessHanging(connection.close());
      })()),
  };
}

type Sweep = () => Promise<unknown>;

interface Recording {
  readonly sweeps: readonly Sweep[];
  readonly close: () => Promise<void>;
}

interface MadePorts {
  readonly ports: StorePorts;
  readonly sweeps: readonly Sweep[];
}

function sqlPorts(
  connection: SqlConnection,
  { prefix, onBudget, keepDays }: OpenStoresOptions & { readonly keepDays: number },
): MadePorts {
  const { db, dialect, stores } = connection;
  const names = { db, dialect, prefix };
  const quotas = stores.sqlQuotaStore({ ...names, ...(onBudget && { onBudget }) });
  const replayStore = stores.sqlReplayStore(names);
  const responseStore = stores.sqlResponseStore(names);
  const olderThanMs = keepDays * DAY_MS;
  return {
    ports: { quotas, replayStore, responseStore },
    sweeps: [
      () => quotas.sweep(),
      () => quotas.prune({ olderThanMs }),
      () => replayStore.sweep(),
      () => responseStore.sweep(),
      () => connection.sweepCounters(),
    ],
  };
}

/** Redis itself forgets old holds, answers and counts. */
async function redisPorts({ client }: RedisConnection, { prefix, onBudget }: OpenStoresOptions): Promise<MadePorts> {
  const { redisQuotaStore, redisReplayStore } = await import("../redis/index.ts");
  const names = { client, ...(prefix !== undefined && { prefix }) };
  const quotas = redisQuotaStore({ ...names, ...(onBudget && { onBudget }) });
  return { ports: { quotas, replayStore: redisReplayStore(names) }, sweeps: [() => quotas.sweep()] };
}

async function connectTo(address: string, options: ConnectOptions): Promise<SqlConnection | RedisConnection> {
  try {
    return await connect(address, options);
  } catch (error) {
    throw unusable(address, error);
  }
}

/** Makes the error for stores that cannot be opened. */
function unusable(address: string, error: unknown, next = ""): Error {
  // A wrong prefix, for example.
  if (error instanceof RangeError || error instanceof TypeError) return error;
  const problem = describeProblem(error);
  const message =
    error instanceof UsageError ? problem : `${placeOf(address)} cannot be used: ${problem}${next && `.${next}`}`;
  return new Error(`openStores: ${message}`, { cause: error });
}

const logError = (error: unknown): void => printError(`The stores have a problem: ${describeProblem(error)}`);
