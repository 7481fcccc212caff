/** Opens the store that an address names: for a command, which uses it once, or for a server that stays up. */

import { existsSync } from "node:fs";
import { redisQuotaStore } from "../stores/redis/index.ts";
import type * as sqlStores from "./open-sql.ts";
import { installed, type OpenedStore, type OpenOptions, UsageError } from "./opening.ts";

/** What went wrong with a store, in one line, without the password of an address. */
export function describeProblem(error: unknown): string {
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const text = cause instanceof Error ? cause.message || String(cause) : String(cause);
  return text.replaceAll(/(\w+:\/\/)[^\s/@]*@/g, "$1***@");
}

const ADDRESSES = "sqlite:FILE, postgres://…, mysql://… or redis://…";

/**
 * Opens `sqlite:FILE`, `postgres://…`, `mysql://…` or `redis://…`. Throws a UsageError for any other address, and where a package
 * that the store needs is not installed.
 */
export async function openStore(address: string, options: OpenOptions = {}): Promise<OpenedStore> {
  const scheme = /^([a-z]+):/.exec(address)?.[1];
  switch (scheme) {
    case "sqlite": {
      const file = sqliteFile(address, options);
      return (await loadSqlStores()).openSqlite(file, options);
    }
    case "postgres":
    case "postgresql":
      return (await loadSqlStores()).openPostgres(address, options);
    case "mysql":
    case "mariadb":
      return (await loadSqlStores()).openMysql(address.replace(/^mariadb:/, "mysql:"), options);
    case "redis":
    case "rediss":
      return openRedis(address, options);
    default:
      throw new UsageError(`The address of a store must be ${ADDRESSES}.`);
  }
}

/** Loaded only here, after Kysely: where that is missing, all else works. */
async function loadSqlStores(): Promise<typeof sqlStores> {
  await installed("kysely", import("kysely"));
  return import("./open-sql.ts");
}

function sqliteFile(address: string, { create = false }: OpenOptions): string {
  const file = address.slice("sqlite:".length);
  if (file === "") throw new UsageError("sqlite: must be followed by a file.");
  if (!create && !existsSync(file)) throw new UsageError(`There is no file ${file}: "polygate keys migrate" makes it.`);
  return file;
}

/** How long a lost Redis is left alone before it is tried again, in milliseconds. */
const RECONNECT_MS = 500;

/** For the client's own timeout, which begins while a command waits for others. */
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
  // It is told by the call that fails, too.
  client.on("error", () => {});
  // Before it connects: a connection would keep a process from its end after a prefix that is refused here.
  const store = redisQuotaStore({
    client: { sendCommand: (args: string[]) => client.sendCommand(args) },
    ...(prefix !== undefined && { prefix }),
  });
  await client.connect();
  isUp = true;
  return { store, close: () => client.close() };
}
