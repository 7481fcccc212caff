/** Opens the store that an address names: for a command, which uses it once, or for a server that stays up. */

import { existsSync } from "node:fs";
import { Kysely, MysqlDialect, PostgresDialect, type Dialect } from "kysely";
import type { DurableQuotaStore } from "../stores/durable.ts";
import { redisQuotaStore } from "../stores/redis/index.ts";
import {
  type LedgerDifference,
  migrate,
  nodeSqliteDialect,
  type SqlDatabase,
  type SqlDialect,
  sqlQuotaStore,
  verifyLedger,
} from "../stores/sql/index.ts";

/** A store and what there is to do with it. */
export interface OpenedStore {
  readonly store: DurableQuotaStore;
  /** Makes or updates the tables. Undefined where there are none. */
  readonly migrate?: () => Promise<void>;
  /** Compares balances and journal. Undefined where there is no journal. */
  readonly verify?: () => Promise<readonly LedgerDifference[]>;
  close(): Promise<void>;
}

/** What went wrong with a store, in one line, without the password of an address. */
export function describeProblem(error: unknown): string {
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const text = cause instanceof Error ? cause.message || String(cause) : String(cause);
  return text.replaceAll(/(\w+:\/\/)[^\s/@]*@/g, "$1***@");
}

/** An address or an option that is wrong: its message is for the caller, and holds no password. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

const ADDRESSES = "sqlite:FILE, postgres://…, mysql://… or redis://…";

export interface OpenOptions {
  /** What the names of tables or of Redis's keys begin with; the store's own default unless told. */
  readonly prefix?: string | undefined;
  /** Whether to make an SQLite file that is not there. */
  readonly create?: boolean;
  /** The most connections to an SQL server: 2 unless told. */
  readonly connections?: number;
  /**
   * For a gateway that stays up: a Redis that was lost is connected to again, and the gateway says how long a verb may take. A store
   * that cannot be reached at first is an error either way.
   */
  readonly forGateway?: boolean;
}

/**
 * Opens `sqlite:FILE`, `postgres://…`, `mysql://…` or `redis://…`. Throws a UsageError for any other address, and where the
 * database's client is not installed.
 */
export async function openStore(
  address: string,
  { prefix, create = false, connections = 2, forGateway = false }: OpenOptions = {},
): Promise<OpenedStore> {
  const scheme = /^([a-z]+):/.exec(address)?.[1];
  switch (scheme) {
    case "sqlite":
      return openSql("sqlite", await sqlite(address.slice("sqlite:".length), create), prefix);
    case "postgres":
    case "postgresql":
      return openSql("postgres", await postgres(address, connections), prefix);
    case "mysql":
    case "mariadb":
      return openSql("mysql", await mysql(address.replace(/^mariadb:/, "mysql:"), connections), prefix);
    case "redis":
    case "rediss":
      return openRedis(address, forGateway, prefix);
    default:
      throw new UsageError(`The address of a store must be ${ADDRESSES}.`);
  }
}

function openSql(dialect: SqlDialect, kyselyDialect: Dialect, prefix?: string): OpenedStore {
  const db: SqlDatabase = new Kysely({ dialect: kyselyDialect });
  const names = { dialect, ...(prefix !== undefined && { prefix }) };
  return {
    store: sqlQuotaStore({ db, ...names }),
    migrate: () => migrate(db, names),
    verify: () => verifyLedger(db, names),
    close: () => db.destroy(),
  };
}

async function sqlite(file: string, create: boolean): Promise<Dialect> {
  if (file === "") throw new UsageError("sqlite: must be followed by a file.");
  if (!create && !existsSync(file)) throw new UsageError(`There is no file ${file}: "polygate keys migrate" makes it.`);
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL");
  return nodeSqliteDialect(database);
}

async function postgres(connectionString: string, max: number): Promise<Dialect> {
  const { Pool } = await installed("pg", import("pg"));
  const pool = new Pool({ connectionString, max });
  // Of a connection that is lost while nobody uses it. The next query makes another.
  pool.on("error", () => {});
  return new PostgresDialect({ pool });
}

async function mysql(uri: string, connectionLimit: number): Promise<Dialect> {
  const { createPool } = await installed("mysql2", import("mysql2"));
  return new MysqlDialect({ pool: createPool({ uri, connectionLimit }) });
}

/** How long a lost Redis is left alone before it is tried again, in milliseconds. */
const RECONNECT_MS = 500;

/** For the client's own timeout, which begins while a command waits for others. */
const NO_TIMEOUT = 0;

async function openRedis(url: string, forGateway: boolean, prefix?: string): Promise<OpenedStore> {
  const { createClient } = await installed("redis", import("redis"));
  let isUp = false;
  const reconnectStrategy = (): number | false => forGateway && isUp && RECONNECT_MS;
  const client = createClient({
    url,
    socket: { reconnectStrategy },
    ...(forGateway && { commandOptions: { timeout: NO_TIMEOUT } }),
  });
  // It is told by the call that fails, too.
  client.on("error", () => {});
  await client.connect();
  isUp = true;
  return {
    store: redisQuotaStore({
      client: { sendCommand: (args: string[]) => client.sendCommand(args) },
      ...(prefix !== undefined && { prefix }),
    }),
    close: () => client.close(),
  };
}

async function installed<T>(name: string, module: Promise<T>): Promise<T> {
  try {
    return await module;
  } catch (error) {
    throw new UsageError(`This store needs the package "${name}": npm install ${name}`, { cause: error });
  }
}
