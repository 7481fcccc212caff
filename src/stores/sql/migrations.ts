/** Makes the tables of the SQL stores, step by step. */

import { type Kysely, type RawBuilder, sql } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import { assertOptions } from "../../options.ts";
import { BOOKS } from "../ledger.ts";
import { assertVersion, retrying, type SqlDialect, TABLES_SHAPES, versionOf } from "./database.ts";
import {
  assertDatabase,
  SCHEMA_VERSION,
  type SqlDatabase,
  type SqlSchema,
  type SqlTables,
  type TableOptions,
  tablesOf,
  USAGE_BY,
  USAGE_SUMS,
  withTables,
} from "./tables.ts";

/** The kind of database, and the names of its tables. */
export interface MigrationOptions extends TableOptions {
  /** The kind of database. */
  readonly dialect: SqlDialect;
}

/**
 * Returns the migrations by name, for a host with a Kysely `Migrator` of its own. All other hosts call `migrate`.
 *
 * @example
 * const provider = { getMigrations: async () => ({ ...mine, ...migrations({ dialect: "postgres" }) }) };
 */
export function migrations(migration: MigrationOptions): Record<string, Migration> {
  assertOptions("migrations", migration, TABLES_SHAPES);
  const { dialect, ...options } = migration;
  const tables = tablesOf(options);
  const named = STEPS.map(([name, up], index): [string, Migration] => {
    const version = index + 1;
    const run = async (db: SqlDatabase): Promise<void> => {
      const step = new SchemaStep(withTables(db, tables), tables, dialect);
      await up(step);
      await step.db.updateTable("schema_version").set({ version }).execute();
    };
    return [`polygate-${String(version).padStart(4, "0")}-${name}`, { up: run }];
  });
  return Object.fromEntries(named);
}

/**
 * Updates a database to the schema of this version. Several processes may call it at the same time. Writes nothing to a database that has this
 * schema, which may be read-only. Rejects when a newer polygate has migrated the database.
 */
export async function migrate(db: SqlDatabase, migration: MigrationOptions): Promise<void> {
  assertDatabase("migrate: db", db);
  assertOptions("migrate", migration, TABLES_SHAPES);
  const { dialect, ...options } = migration;
  const tables = tablesOf(options);
  const [name = "", schema] = tables.schema_version.split(".").toReversed();
  const migrateIn = async (one: SqlDatabase): Promise<void> => {
    const migrator = new Migrator({
      db: one,
      provider: { getMigrations: async () => migrations({ dialect, ...options }) },
      migrationTableName: `${name}_steps`,
      migrationLockTableName: `${name}_lock`,
      ...(schema !== undefined && { migrationTableSchema: schema }),
    });
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw error;
  };
  const plain = db.withoutPlugins();
  const version = await retrying(() => versionOf(withTables(plain, tables)));
  if (version > SCHEMA_VERSION) assertVersion(version);
  if (version === SCHEMA_VERSION) return;
  await retrying(() =>
    dialect === "sqlite" ? plain.connection().execute((one) => alone(one, migrateIn)) : migrateIn(plain),
  );
}

/**
 * Runs all steps in one transaction of SQLite, or none. Kysely locks other databases while it migrates, but not SQLite: the steps of two
 * processes would mix.
 */
async function alone(connection: SqlDatabase, work: (connection: SqlDatabase) => Promise<void>): Promise<void> {
  await sql`begin immediate`.execute(connection);
  try {
    await work(connection);
    await sql`commit`.execute(connection);
  } catch (error) {
    // After some errors, SQLite has rolled back already, and a second rollback would hide the cause.
    await sql`rollback`.execute(connection).catch(() => {});
    throw error;
  }
}

/** Column types that the databases name differently. */
type ColumnTypes = Readonly<
  Record<"id" | "owner" | "asciiId" | "text" | "exact" | "longText" | "seq", RawBuilder<unknown>>
>;

// Ids must be compared byte by byte. MySQL does so only with a binary collation, and even then ignores spaces at the end of a text. It
// compares an `owner`, the id of a key that documents belong to, with such spaces. An `exact` text is grouped by.
const COLUMN_TYPES: Readonly<Record<SqlDialect, ColumnTypes>> = {
  sqlite: {
    id: sql`text`,
    owner: sql`text`,
    asciiId: sql`text`,
    text: sql`text`,
    exact: sql`text`,
    longText: sql`text`,
    seq: sql`integer primary key autoincrement`,
  },
  postgres: {
    id: sql`varchar(190)`,
    owner: sql`varchar(190)`,
    asciiId: sql`varchar(190)`,
    text: sql`text`,
    exact: sql`text`,
    longText: sql`text`,
    seq: sql`bigserial primary key`,
  },
  mysql: {
    id: sql`varchar(190) character set utf8mb4 collate utf8mb4_bin`,
    owner: sql`varbinary(760)`,
    asciiId: sql`varchar(190) character set ascii collate ascii_bin`,
    text: sql`text character set utf8mb4`,
    exact: sql`text character set utf8mb4 collate utf8mb4_bin`,
    longText: sql`longtext character set ascii`,
    seq: sql`bigint auto_increment primary key`,
  },
};

type Table = keyof SqlSchema;
type TableColumn = readonly [name: string, type: RawBuilder<unknown>, constraint?: "primary key" | "nullable"];

const bigint = sql`bigint`;
const hash = sql`char(64)`;
const word = sql`varchar(10)`;

/** Integer columns that must not be null. */
const integers = (names: readonly string[]): TableColumn[] => names.map((name) => [name, bigint]);

/** MySQL's number of the error for an index that exists. */
const DUPLICATE_INDEX = 1061;

/** A step of the migration. A step that was cut off runs again, so each change is made unless it is there. */
class SchemaStep {
  readonly db: Kysely<SqlSchema>;
  readonly types: ColumnTypes;
  readonly dialect: SqlDialect;
  readonly #tables: SqlTables;

  constructor(db: Kysely<SqlSchema>, tables: SqlTables, dialect: SqlDialect) {
    this.db = db;
    this.types = COLUMN_TYPES[dialect];
    this.dialect = dialect;
    this.#tables = tables;
  }

  async table(table: Table, columns: readonly TableColumn[]): Promise<void> {
    let builder = this.db.schema.createTable(table).ifNotExists();
    for (const [name, type, constraint] of columns)
      builder = builder.addColumn(name, type, (column) => {
        if (constraint === "primary key") return column.primaryKey();
        return constraint === "nullable" ? column : column.notNull();
      });
    await builder.execute();
  }

  async index(
    table: Table,
    name: string,
    columns: readonly string[] | RawBuilder<unknown>,
    isUnique = false,
  ): Promise<void> {
    const builder = this.db.schema
      .createIndex(`${this.#tables[table].split(".").at(-1)}_${name}`)
      .on(table)
      .$call((index) => ("toOperationNode" in columns ? index.expression(columns) : index.columns([...columns])))
      .$call((index) => (isUnique ? index.unique() : index));
    // SQLite needs the condition, because two processes may run this at the same time. MySQL does not support it, and admits one
    // process at a time; a process that was killed may have made the index.
    if (this.dialect !== "mysql") return builder.ifNotExists().execute();
    await builder.execute().catch((error: unknown) => {
      if ((error as { errno?: unknown }).errno !== DUPLICATE_INDEX) throw error;
    });
  }

  /** Adds a nullable column. */
  async column(table: Table, column: string, type: RawBuilder<unknown>): Promise<void> {
    try {
      await this.db.schema.alterTable(table).addColumn(column, type).execute();
    } catch (error) {
      // PostgreSQL runs a step as a whole or not at all. In the other databases, a process that was killed may have added the column. So
      // may another process in SQLite when a host runs `migrations` with a migrator of its own.
      if (this.dialect === "postgres") throw error;
      const isThere = this.db
        .selectFrom(table)
        .select(sql.ref(`${table}.${column}`).as("is_there"))
        .limit(1);
      await isThere.execute().catch(() => {
        // The database was busy, for example: the migration is tried again.
        throw error;
      });
    }
  }
}

async function createLedger(step: SchemaStep): Promise<void> {
  const { id, text, seq } = step.types;
  await step.table("keys", [
    ["id", id, "primary key"],
    ["name", text],
    ["unlimited", bigint],
    ["models", text, "nullable"],
    ["expires_at", bigint],
    ["revoked_at", bigint, "nullable"],
    ...integers(BOOKS),
  ]);
  await step.table("secrets", [
    ["hash", hash, "primary key"],
    ["key_id", id],
    ["ends_at", bigint, "nullable"],
  ]);
  await step.table("holds", [
    ["id", id, "primary key"],
    ["key_id", id],
    ["state", word],
    ...integers(["granted", "noted", "renewals", "used", "overdraft", "expires_at"]),
    ["resolved_at", bigint, "nullable"],
  ]);
  await step.table("journal", [
    // The type of this column declares it as the primary key.
    ["seq", seq, "nullable"],
    ["key_id", id],
    ["hold_id", id, "nullable"],
    ["kind", word],
    ...integers(["at", ...BOOKS, "noted"]),
  ]);
  await step.index("secrets", "by_key", ["key_id"]);
  // The next two indexes find expired leases: of one key, and of all keys.
  await step.index("holds", "by_key", ["key_id", "state", "expires_at"]);
  await step.index("holds", "by_lease", ["state", "expires_at"]);
  await step.index("holds", "by_end", ["resolved_at"]);
  await step.index("journal", "by_key", ["key_id", "seq"]);
  await step.index("journal", "by_hold", ["hold_id", "key_id"]);
  await step.table("schema_version", [["version", bigint, "primary key"]]);
  // The row may be there already: its primary key would refuse a second one.
  await step.db.deleteFrom("schema_version").execute();
  await step.db.insertInto("schema_version").values({ version: 1 }).execute();
}

async function createReplays(step: SchemaStep): Promise<void> {
  const { id, text, longText } = step.types;
  await step.table("replays", [
    ["id", hash, "primary key"],
    ["key_id", id],
    ["call_id", id],
    ["fingerprint", hash],
    ["ends_at", bigint],
    ["head", text, "nullable"],
    ["body", longText, "nullable"],
    ["bytes", bigint],
  ]);
  await step.index("replays", "by_end", ["ends_at"]);
  await step.index("replays", "by_key", ["key_id", "ends_at", "bytes"]);
}

async function createResponses(step: SchemaStep): Promise<void> {
  const { owner, asciiId, longText, seq } = step.types;
  await step.table("documents", [
    // The type of this column declares it as the primary key.
    ["seq", seq, "nullable"],
    ["key_id", owner],
    ["id", asciiId],
    ["root_id", asciiId],
    ...integers(["position", "children", "revision"]),
    ["ends_at", bigint, "nullable"],
    ["aliases", longText],
    ["content", longText],
    ["bytes", bigint],
  ]);
  await step.table("aliases", [
    ["seq", seq, "nullable"],
    ["key_id", owner],
    ["alias", asciiId],
    ["root_id", asciiId],
    ["document_id", asciiId],
  ]);
  await step.index("documents", "by_id", ["key_id", "id"], true);
  await step.index("documents", "by_root", ["key_id", "root_id", "position"], true);
  // Finds the oldest documents of a key, and sums up the room of all its documents.
  await step.index("documents", "by_age", ["key_id", "position", "seq", "bytes"]);
  await step.index("documents", "by_end", ["ends_at"]);
  await step.index("aliases", "by_alias", ["key_id", "alias"]);
  await step.index("aliases", "by_document", ["key_id", "root_id", "document_id"]);
}

async function createBudgets(step: SchemaStep): Promise<void> {
  const { id, text } = step.types;
  const period = ["starts_at", "ends_at", "pruned", ...BOOKS];
  await step.table("budgets", [
    ["id", id, "primary key"],
    ["name", text],
    ["amount", bigint],
    ["period", word, "nullable"],
    ["time_zone", text],
    ["rollover", bigint],
    ["chain", text],
    ["told", bigint],
    ...integers(period),
  ]);
  await step.table("budget_periods", [["budget_id", id], ...integers(period)]);
  await step.index("budget_periods", "by_start", ["budget_id", "starts_at"], true);
  await step.column("keys", "budgets", text);
  await step.column("holds", "shares", text);
}

async function createCalls(step: SchemaStep): Promise<void> {
  const { id, exact: text } = step.types;
  const texts = (names: readonly string[], constraint?: "nullable"): TableColumn[] =>
    names.map((name) => (constraint ? [name, text, constraint] : [name, text]));
  await step.table("calls", [
    ["id", id, "primary key"],
    ["at", bigint],
    ["day", word],
    ["key_id", id],
    ...texts(["budgets", "group_name", "format", "route", "model", "upstream", "outcome"]),
    ...texts(["metadata", "model_asked", "model_answered", "attempts", "error_code", "refused_by"], "nullable"),
    ...integers(["streamed", "status", "end_ms"]),
    ["first_event_ms", bigint, "nullable"],
    ...integers(USAGE_SUMS.filter((name) => name !== "calls" && name !== "refused" && name !== "failed")),
    ["currency", word, "nullable"],
    ["replay_of", id, "nullable"],
  ]);
  await step.table("usage_days", [
    ["id", hash, "primary key"],
    ["day", word],
    ["key_id", id],
    ...texts(USAGE_BY.filter((name) => name !== "day" && name !== "key_id")),
    ...integers(USAGE_SUMS),
  ]);
  await step.table("usage_mark", [
    ["id", bigint, "primary key"],
    ["at", bigint],
  ]);
  await step.index("calls", "by_time", ["at"]);
  await step.index("calls", "by_key", ["key_id", "at"]);
  await step.index("usage_days", "by_day", ["day"]);
}

async function createAudit(step: SchemaStep): Promise<void> {
  const { id, text, seq } = step.types;
  await step.table("audit", [
    // The type of this column declares it as the primary key.
    ["seq", seq, "nullable"],
    ["id", id],
    ["at", bigint],
    ["user_name", text],
    ["action", text],
    ["target", text, "nullable"],
    ["changes", text, "nullable"],
    ["state", word, "nullable"],
    ["reason", text, "nullable"],
  ]);
  await step.index("audit", "by_id", ["id"], true);
}

/** Indexes the beginnings of targets: a target may be longer than an index of PostgreSQL or MySQL takes. */
const indexTargets = (step: SchemaStep): Promise<void> =>
  step.index(
    "audit",
    "by_target",
    { sqlite: sql`target`, postgres: sql`left(target, 190)`, mysql: sql`target(190)` }[step.dialect],
  );

/** The steps in their order, which never changes. */
const STEPS: readonly (readonly [name: string, up: (step: SchemaStep) => Promise<void>])[] = [
  ["ledger", createLedger],
  ["replays", createReplays],
  ["responses", createResponses],
  ["budgets", createBudgets],
  ["metadata", (step) => step.column("keys", "metadata", step.types.text)],
  [
    "recalls",
    (step) =>
      step.table("recalls", [
        ["key_id", step.types.id, "primary key"],
        ["at", bigint],
      ]),
  ],
  ["calls", createCalls],
  ["audit", createAudit],
  [
    "reasons",
    async (step) => {
      await step.column("calls", "error_field", step.types.exact);
      await step.column("calls", "afforded_output_tokens", bigint);
    },
  ],
  ["messages", (step) => step.column("calls", "error_message", step.types.text)],
  ["targets", indexTargets],
  ["currencies", (step) => step.column("usage_days", "currency", word)],
];
