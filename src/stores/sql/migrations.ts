/** Makes the tables of the SQL store, step by step, and tells which step a database has reached. */

import { type Kysely, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import { retrying, type SqlDialect } from "./dialects.ts";
import { type SqlDatabase, type SqlSchema, type SqlTables, type TableOptions, tablesOf, withTables } from "./schema.ts";

/** Which database to migrate or to look at. */
export interface MigrationOptions extends TableOptions {
  readonly dialect: SqlDialect;
}

/** The schema that this version of polygate works with. */
export const SCHEMA_VERSION = 2;

/** The column types that the databases name differently. */
interface ColumnTypes {
  readonly id: string;
  readonly text: string;
  readonly longText: string;
  readonly seq: string;
}

// Ids are compared byte by byte, which MySQL does only when it is told to.
const COLUMN_TYPES: Readonly<Record<SqlDialect, ColumnTypes>> = {
  sqlite: { id: "text", text: "text", longText: "text", seq: "integer primary key autoincrement" },
  postgres: { id: "varchar(190)", text: "text", longText: "text", seq: "bigserial primary key" },
  mysql: {
    id: "varchar(190) character set utf8mb4 collate utf8mb4_bin",
    text: "text character set utf8mb4",
    longText: "longtext character set ascii",
    seq: "bigint auto_increment primary key",
  },
};

/**
 * The steps by name, for a host that migrates by a Kysely `Migrator` of its own; `migrate` is for all others.
 *
 * @example
 * const provider = { getMigrations: async () => ({ ...mine, ...migrations({ dialect: "postgres" }) }) };
 */
export function migrations({ dialect, ...options }: MigrationOptions): Record<string, Migration> {
  const tables = tablesOf(options);
  return {
    "polygate-0001-ledger": { up: (db) => createLedger(withTables(db, tables), tables, dialect) },
    "polygate-0002-replays": { up: (db) => createReplays(withTables(db, tables), tables, dialect) },
  };
}

/** Brings a database to the schema that this version works with. Several processes may do so at once. */
export async function migrate(db: SqlDatabase, { dialect, ...options }: MigrationOptions): Promise<void> {
  const { schema_version } = tablesOf(options);
  const [name = "", schema] = schema_version.split(".").toReversed();
  await retrying(dialect, async () => {
    const migrator = new Migrator({
      db: db.withoutPlugins(),
      provider: { getMigrations: async () => migrations({ dialect, ...options }) },
      migrationTableName: `${name}_steps`,
      migrationLockTableName: `${name}_lock`,
      ...(schema !== undefined && { migrationTableSchema: schema }),
    });
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw error;
  });
}

/** The version of a database's schema; 0 where there is none. */
export const schemaVersion = (db: SqlDatabase, options: TableOptions = {}): Promise<number> =>
  versionOf(withTables(db, tablesOf(options)));

/** Rejects, and says what to do, unless the schema is the one that this version works with. */
export async function assertSchema(db: Kysely<SqlSchema>): Promise<void> {
  const version = await versionOf(db);
  if (version === SCHEMA_VERSION) return;
  const advice =
    version < SCHEMA_VERSION
      ? 'Run migrate(db), or "polygate keys migrate", before the store is used.'
      : "A newer polygate has migrated it: update.";
  throw new Error(`The store's schema is version ${version}, and must be ${SCHEMA_VERSION}. ${advice}`);
}

/** The codes for a table or a schema that is not there: of PostgreSQL, MySQL and MariaDB. */
const MISSING: ReadonlySet<unknown> = new Set(["42P01", "3F000", 1146, 1049]);

/** A table that is not there is told apart from a database that is down. */
async function versionOf(db: Kysely<SqlSchema>): Promise<number> {
  try {
    const found = await db.selectFrom("schema_version").select("version").executeTakeFirst();
    return Number(found?.version ?? 0);
  } catch (error) {
    const { code, errno, message } = error as { code?: unknown; errno?: unknown; message?: unknown };
    if (MISSING.has(code) || MISSING.has(errno) || String(message).startsWith("no such table")) return 0;
    throw error;
  }
}

const bare = (table: string): string => table.split(".").at(-1) ?? table;

async function createLedger(db: Kysely<SqlSchema>, tables: SqlTables, dialect: SqlDialect): Promise<void> {
  const types = COLUMN_TYPES[dialect];
  const [id, text] = [sql.raw(types.id), sql.raw(types.text)];
  const { schema } = db;
  await schema
    .createTable("keys")
    .ifNotExists()
    .addColumn("id", sql`${id}`, (column) => column.primaryKey())
    .addColumn("name", sql`${text}`, (column) => column.notNull())
    .addColumn("unlimited", "bigint", (column) => column.notNull())
    .addColumn("models", sql`${text}`)
    .addColumn("expires_at", "bigint", (column) => column.notNull())
    .addColumn("revoked_at", "bigint")
    .addColumn("granted", "bigint", (column) => column.notNull())
    .addColumn("charged", "bigint", (column) => column.notNull())
    .addColumn("held", "bigint", (column) => column.notNull())
    .addColumn("overdraft", "bigint", (column) => column.notNull())
    .addColumn("estimated", "bigint", (column) => column.notNull())
    .execute();
  await schema
    .createTable("secrets")
    .ifNotExists()
    .addColumn("hash", "char(64)", (column) => column.primaryKey())
    .addColumn("key_id", sql`${id}`, (column) => column.notNull())
    .addColumn("ends_at", "bigint")
    .execute();
  await schema
    .createTable("holds")
    .ifNotExists()
    .addColumn("id", sql`${id}`, (column) => column.primaryKey())
    .addColumn("key_id", sql`${id}`, (column) => column.notNull())
    .addColumn("state", "varchar(10)", (column) => column.notNull())
    .addColumn("granted", "bigint", (column) => column.notNull())
    .addColumn("noted", "bigint", (column) => column.notNull())
    .addColumn("renewals", "bigint", (column) => column.notNull())
    .addColumn("used", "bigint", (column) => column.notNull())
    .addColumn("overdraft", "bigint", (column) => column.notNull())
    .addColumn("expires_at", "bigint", (column) => column.notNull())
    .addColumn("resolved_at", "bigint")
    .execute();
  await schema
    .createTable("journal")
    .ifNotExists()
    .addColumn("seq", sql`${sql.raw(types.seq)}`)
    .addColumn("key_id", sql`${id}`, (column) => column.notNull())
    .addColumn("hold_id", sql`${id}`)
    .addColumn("kind", "varchar(10)", (column) => column.notNull())
    .addColumn("at", "bigint", (column) => column.notNull())
    .addColumn("granted", "bigint", (column) => column.notNull())
    .addColumn("charged", "bigint", (column) => column.notNull())
    .addColumn("held", "bigint", (column) => column.notNull())
    .addColumn("overdraft", "bigint", (column) => column.notNull())
    .addColumn("estimated", "bigint", (column) => column.notNull())
    .addColumn("noted", "bigint", (column) => column.notNull())
    .execute();
  const index = (table: "secrets" | "holds" | "journal", name: string) => {
    const builder = schema.createIndex(`${bare(tables[table])}_${name}`).on(table);
    // MySQL knows no such condition, and lets one process in at a time; of SQLite's, two may be here at once.
    return dialect === "mysql" ? builder : builder.ifNotExists();
  };
  await index("secrets", "by_key").column("key_id").execute();
  // Leases that have run out: of one key, and of all keys.
  await index("holds", "by_key").columns(["key_id", "state", "expires_at"]).execute();
  await index("holds", "by_lease").columns(["state", "expires_at"]).execute();
  await index("holds", "by_end").columns(["resolved_at"]).execute();
  await index("journal", "by_key").columns(["key_id", "seq"]).execute();
  await index("journal", "by_hold").columns(["hold_id", "key_id"]).execute();
  await schema
    .createTable("schema_version")
    .ifNotExists()
    .addColumn("version", "bigint", (column) => column.primaryKey())
    .execute();
  await db.insertInto("schema_version").values({ version: 1 }).execute();
}

async function createReplays(db: Kysely<SqlSchema>, tables: SqlTables, dialect: SqlDialect): Promise<void> {
  const types = COLUMN_TYPES[dialect];
  const id = sql.raw(types.id);
  const { schema } = db;
  await schema
    .createTable("replays")
    .ifNotExists()
    .addColumn("id", "char(64)", (column) => column.primaryKey())
    .addColumn("key_id", sql`${id}`, (column) => column.notNull())
    .addColumn("call_id", sql`${id}`, (column) => column.notNull())
    .addColumn("fingerprint", "char(64)", (column) => column.notNull())
    .addColumn("ends_at", "bigint", (column) => column.notNull())
    .addColumn("head", sql`${sql.raw(types.text)}`)
    .addColumn("body", sql`${sql.raw(types.longText)}`)
    .addColumn("bytes", "bigint", (column) => column.notNull())
    .execute();
  const index = (name: string) => {
    const builder = schema.createIndex(`${bare(tables.replays)}_${name}`).on("replays");
    return dialect === "mysql" ? builder : builder.ifNotExists();
  };
  await index("by_end").column("ends_at").execute();
  await index("by_key").columns(["key_id", "ends_at", "bytes"]).execute();
  await db.updateTable("schema_version").set({ version: 2 }).execute();
}
