/** Opens a store over SQL. It stands apart because it needs Kysely, which who keeps keys in Redis need not have. */

import { type Dialect, Kysely, MysqlDialect } from "kysely";
import {
  migrate,
  nodePostgresDialect,
  nodeSqliteDialect,
  type SqlDatabase,
  type SqlDialect,
  sqlQuotaStore,
  verifyLedger,
} from "../stores/sql/index.ts";
import { installed, type OpenedStore, type OpenOptions } from "./opening.ts";

/** The most connections to an SQL server unless told. */
const CONNECTIONS = 2;

export async function openSqlite(file: string, { prefix }: OpenOptions): Promise<OpenedStore> {
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL");
  return opened("sqlite", nodeSqliteDialect(database), prefix);
}

export async function openPostgres(
  connectionString: string,
  { prefix, connections: max = CONNECTIONS }: OpenOptions,
): Promise<OpenedStore> {
  const { Pool } = await installed("pg", import("pg"));
  const pool = new Pool({ connectionString, max });
  return opened("postgres", nodePostgresDialect(pool), prefix);
}

export async function openMysql(
  uri: string,
  { prefix, connections: connectionLimit = CONNECTIONS }: OpenOptions,
): Promise<OpenedStore> {
  const { createPool } = await installed("mysql2", import("mysql2"));
  return opened("mysql", new MysqlDialect({ pool: createPool({ uri, connectionLimit }) }), prefix);
}

function opened(dialect: SqlDialect, kyselyDialect: Dialect, prefix?: string): OpenedStore {
  const db: SqlDatabase = new Kysely({ dialect: kyselyDialect });
  const names = { dialect, ...(prefix !== undefined && { prefix }) };
  return {
    store: sqlQuotaStore({ db, ...names }),
    migrate: () => migrate(db, names),
    verify: () => verifyLedger(db, names),
    close: () => db.destroy(),
  };
}
