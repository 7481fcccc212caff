/** Opens a store by its address, either for one command or for a long-running gateway. */

import { existsSync } from "node:fs";
import type * as kyselyPackage from "kysely";
import type { DurableQuotaStore } from "../stores/durable.ts";
import { redisQuotaStore } from "../stores/redis/index.ts";
import type * as sqlStores from "../stores/sql/index.ts";

/** A store, with functions to maintain and to close it. */
export interface OpenedStore {
  readonly store: DurableQuotaStore;
  /** Makes or updates the tables. Undefined for a store without tables. */
  readonly migrate?: () => Promise<void>;
  /** Compares balances and journal. Undefined for a store without a journal. */
  readonly verify?: () => Promise<readonly sqlStores.LedgerDifference[]>;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** The prefix of the names of tables, or of keys in Redis. Default: the store's own. */
  readonly prefix?: string | undefined;
  /** Creates the SQLite file when it does not exist. */
  readonly create?: boolean;
  /** The most connections to an SQL server: 2 by default. */
  readonly connections?: number;
  /**
   * Set this for a long-running gateway. The client then reconnects to Redis after a lost connection, and has no timeout of its own,
   * because the gateway limits the time of each store call. A failure of the first connection is an error in any case.
   */
  readonly forGateway?: boolean;
}

/** The error for a wrong address or option. Its message is meant for the caller, and contains no password. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * Opens `sqlite:FILE`, `postgres://…`, `mysql://…` or `redis://…`. Throws a UsageError for any other address, and when a package that
 * the store needs is not installed.
 */
export async function openStore(address: string, options: OpenOptions = {}): Promise<OpenedStore> {
  const { prefix, connections = 2 } = options;
  switch (/^([a-z]+):/.exec(address)?.[1]) {
    case "sqlite": {
      const file = sqliteFile(address, options);
      return openSql("sqlite", prefix, async ({ nodeSqliteDialect }) => {
        const { DatabaseSync } = await import("node:sqlite");
        const database = new DatabaseSync(file);
        database.exec("PRAGMA journal_mode = WAL");
        return nodeSqliteDialect(database);
      });
    }
    case "postgres":
    case "postgresql":
      return openSql("postgres", prefix, async ({ nodePostgresDialect }) => {
        const { Pool } = await installed("pg", import("pg"));
        return nodePostgresDialect(new Pool({ connectionString: address, max: connections }));
      });
    case "mysql":
    case "mariadb":
      return openSql("mysql", prefix, async (_stores, { MysqlDialect }) => {
        const { createPool } = await installed("mysql2", import("mysql2"));
        const uri = address.replace(/^mariadb:/, "mysql:");
        return new MysqlDialect({ pool: createPool({ uri, connectionLimit: connections }) });
      });
    case "redis":
    case "rediss":
      return openRedis(address, options);
    default:
      throw new UsageError(
        "The address of a store (--store or POLYGATE_STORE) must be sqlite:FILE, postgres://…, mysql://… or redis://….",
      );
  }
}

function sqliteFile(address: string, { create = false }: OpenOptions): string {
  const file = address.slice("sqlite:".length);
  if (file === "") throw new UsageError("sqlite: must be followed by a file.");
  if (!create && !existsSync(file)) throw new UsageError(`There is no file ${file}: "polygate keys migrate" makes it.`);
  return file;
}

/** Opens a store over SQL. Kysely is loaded only here: a host that keeps its keys in Redis need not have it. */
async function openSql(
  dialect: sqlStores.SqlDialect,
  prefix: string | undefined,
  connect: (stores: typeof sqlStores, kysely: typeof kyselyPackage) => Promise<kyselyPackage.Dialect>,
): Promise<OpenedStore> {
  const kysely = await installed("kysely", import("kysely"));
  const stores = await import("../stores/sql/index.ts");
  const db: sqlStores.SqlDatabase = new kysely.Kysely({ dialect: await connect(stores, kysely) });
  const names = { dialect, prefix };
  return {
    store: stores.sqlQuotaStore({ db, ...names }),
    migrate: () => stores.migrate(db, names),
    verify: () => stores.verifyLedger(db, names),
    close: () => db.destroy(),
  };
}

/** The wait before each attempt to reconnect to Redis, in milliseconds. */
const RECONNECT_MS = 500;

/** Switches off the client's command timeout: it would include the time that a command waits for earlier commands. */
const NO_TIMEOUT = 0;

async function openRedis(url: string, { prefix, forGateway = false }: OpenOptions): Promise<OpenedStore> {
  const { createClient } = await installed("redis", import("redis"));
  let isUp = false;
  const reconnectStrategy = (): number | false => forGateway && isUp && RECONNECT_MS;
  const client = createClient({
    url,
    socket: { reconnectStrategy },
    ...(forGateway && { commandOptions: { timeout: NO_TIMEOUT } }),
  });
  // Ignore the event: the failing call rejects with the same error.
  client.on("error", () => {});
  // Make the store before connecting: it may refuse the prefix, and an open connection would then keep the process running.
  const store = redisQuotaStore({
    client: { sendCommand: (args: string[]) => client.sendCommand(args) },
    ...(prefix !== undefined && { prefix }),
  });
  await client.connect();
  isUp = true;
  return { store, close: () => client.close() };
}

/** Loads a package that only some stores need. Rejects with a UsageError when it is not installed. */
async function installed<T>(name: string, module: Promise<T>): Promise<T> {
  try {
    return await module;
  } catch (error) {
    throw new UsageError(`This store needs the package "${name}": npm install ${name}`, { cause: error });
  }
}

/** Describes a problem with a store in one line, without the password of an address. */
export function describeProblem(error: unknown): string {
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const text = cause instanceof Error ? cause.message || String(cause) : String(cause);
  return text.replaceAll(/(\w+:\/\/)[^\s/@]*@/g, "$1***@");
}
