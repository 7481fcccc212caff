/** The databases that the SQL store is tested on. Each gives every run a place of its own. */

import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { PGlite } from "@electric-sql/pglite";
import { type Dialect, Kysely, MysqlDialect, PGliteDialect, sql } from "kysely";
import { createPool } from "mysql2";
import { createConnection } from "mysql2/promise";
import { Client, Pool } from "pg";
import {
  migrate,
  nodePostgresDialect,
  nodeSqliteDialect,
  type SqlDatabase,
  type SqlDialect,
  type SqlQuotaStoreOptions,
} from "../../../src/stores/sql/index.ts";
import { tablesOf } from "../../../src/stores/sql/tables.ts";

/** A migrated place of the run's own in a database. */
export interface TestPlace {
  readonly db: SqlDatabase;
  readonly dialect: SqlDialect;
  readonly prefix: string;
  /** The options of a store in this place. */
  readonly options: Pick<SqlQuotaStoreOptions, "db" | "dialect" | "prefix">;
  /** The address for other processes; undefined for a database within this process. */
  readonly address: string | undefined;
  /** One more pool of connections, where the database takes several. It is closed with the place. */
  connect(): SqlDatabase;
  remove(): Promise<void>;
}

export interface TestDatabase {
  readonly name: string;
  readonly dialect: SqlDialect;
  /** False where its server does not answer. */
  readonly available: boolean;
  place(): Promise<TestPlace>;
}

const POSTGRES: string = process.env["POLYGATE_TEST_POSTGRES"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const MYSQL: string = process.env["POLYGATE_TEST_MYSQL"] ?? "mysql://root@127.0.0.1:3306";

interface Where {
  readonly dialect: SqlDialect;
  readonly prefix: string;
  readonly address?: string;
  readonly open: () => Dialect;
  readonly remove?: () => Promise<void>;
}

async function placeAt({ dialect, prefix, address, open, remove }: Where): Promise<TestPlace> {
  const opened: SqlDatabase[] = [];
  const connect = (): SqlDatabase => {
    const db: SqlDatabase = new Kysely({ dialect: open() });
    opened.push(db);
    return db;
  };
  const db = connect();
  const reachable = address !== undefined;
  await migrate(db, { dialect, prefix });
  return {
    db,
    dialect,
    prefix,
    options: { db, dialect, prefix },
    address,
    // A database within this process has one connection.
    connect: () => (reachable ? connect() : db),
    async remove() {
      for (const each of opened) await each.destroy();
      await remove?.();
    },
  };
}

/** Deletes the rows of a place for the next test: a server takes most of a second to make a new one. */
export async function emptied({ db, prefix }: Pick<TestPlace, "db" | "prefix">): Promise<void> {
  const { schema_version: _kept, ...tables } = tablesOf({ prefix });
  for (const table of Object.values(tables)) await sql`DELETE FROM ${sql.table(table)}`.execute(db);
}

const freshName = (): string => `polygate_test_${randomUUID().slice(0, 8)}`;

async function sqliteFile(): Promise<TestPlace> {
  const folder = await mkdtemp(join(tmpdir(), "polygate-sqlite-"));
  const file = join(folder, "quota.db");
  return placeAt({
    dialect: "sqlite",
    prefix: "polygate_",
    address: file,
    open: () => sqliteDialect(file),
    remove: () => rm(folder, { recursive: true, force: true }),
  });
}

export function sqliteDialect(file: string): Dialect {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  return nodeSqliteDialect(database);
}

async function pglite(): Promise<TestPlace> {
  return placeAt({
    dialect: "postgres",
    prefix: "polygate_",
    open: () => new PGliteDialect({ pglite: new PGlite() }),
  });
}

/** A new and empty database on a server. */
export interface NewDatabase {
  readonly address: string;
  readonly remove: () => Promise<void>;
}

/** Makes a database for one place: a migration reads every schema of a database, and others are dropped meanwhile. */
export async function newPostgres(): Promise<NewDatabase> {
  const name = freshName();
  // A commit does not wait for the disk: no test breaks down the server.
  await askPostgres(POSTGRES, `CREATE DATABASE ${name}`, `ALTER DATABASE ${name} SET synchronous_commit = off`);
  return {
    address: new URL(`/${name}`, POSTGRES).href,
    // The server waits some seconds for connections that are about to end. Connections of a process that hangs are cut.
    remove: () =>
      askPostgres(POSTGRES, `DROP DATABASE ${name}`).catch(() =>
        askPostgres(POSTGRES, `DROP DATABASE ${name} WITH (FORCE)`),
      ),
  };
}

async function askPostgres(connectionString: string, ...statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

async function postgres(): Promise<TestPlace> {
  const { address, remove } = await newPostgres();
  await askPostgres(address, "CREATE SCHEMA quota");
  return placeAt({
    dialect: "postgres",
    prefix: "quota.q_",
    address,
    open: () => nodePostgresDialect(new Pool({ connectionString: address, max: 8 })),
    remove,
  });
}

export async function newMysql(): Promise<NewDatabase> {
  const name = freshName();
  const ask = async (sql: string): Promise<void> => {
    const client = await createConnection(MYSQL);
    await client.query(sql);
    await client.end();
  };
  await ask(`CREATE DATABASE ${name}`);
  return { address: new URL(`/${name}`, MYSQL).href, remove: () => ask(`DROP DATABASE ${name}`) };
}

async function mysql(): Promise<TestPlace> {
  const { address, remove } = await newMysql();
  return placeAt({
    dialect: "mysql",
    prefix: "q_",
    address,
    open: () => new MysqlDialect({ pool: createPool({ uri: address, connectionLimit: 8 }) }),
    remove,
  });
}

async function answers(connect: () => Promise<unknown>): Promise<boolean> {
  return connect().then(
    () => true,
    () => false,
  );
}

const postgresAnswers = await answers(async () => {
  const client = new Client({ connectionString: POSTGRES, connectionTimeoutMillis: 5_000 });
  await client.connect();
  await client.end();
});

const mysqlAnswers = await answers(async () => {
  const client = await createConnection({ uri: MYSQL, connectTimeout: 5_000 });
  await client.end();
});

export const databases: readonly TestDatabase[] = [
  { name: "SQLite in a file", dialect: "sqlite", available: true, place: sqliteFile },
  { name: "PostgreSQL", dialect: "postgres", available: postgresAnswers, place: postgres },
  { name: "MySQL or MariaDB", dialect: "mysql", available: mysqlAnswers, place: mysql },
  // PGlite speaks the SQL of PostgreSQL where no server answers.
  ...(postgresAnswers ? [] : [{ name: "PGlite", dialect: "postgres", available: true, place: pglite } as const]),
];

export const sqliteInMemory: TestDatabase = {
  name: "SQLite in memory",
  dialect: "sqlite",
  available: true,
  place: () => placeAt({ dialect: "sqlite", prefix: "polygate_", open: () => sqliteDialect(":memory:") }),
};
