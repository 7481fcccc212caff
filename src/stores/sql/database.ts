/** Access to the database: the differences between databases, compiled statements, retries and transactions. */

import { type AliasedRawBuilder, type CompiledQuery, type Kysely, type RawBuilder, sql } from "kysely";
import { fnv } from "../../model/fnv.ts";
import { assertOptions, type Shapes } from "../../options.ts";
import { UNMIGRATED } from "../../ports/quota-store.ts";
import { lacksTable } from "../away.ts";
import {
  assertDatabase,
  SCHEMA_VERSION,
  type SqlDatabase,
  type SqlSchema,
  type StoredInteger,
  type TableOptions,
  tablesOf,
  TABLE_SHAPES,
  withTables,
} from "./tables.ts";

/** The supported databases. Use `mysql` for MariaDB. */
export type SqlDialect = "sqlite" | "postgres" | "mysql";

/** A time in SQL, in milliseconds since the Unix epoch. */
export type TimeExpression = RawBuilder<StoredInteger>;

const DATABASE_TIME: Readonly<Record<SqlDialect, TimeExpression>> = {
  sqlite: sql`CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)`,
  postgres: sql`CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)`,
  mysql: sql`(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)`,
};

/** Options of every store over SQL. */
export interface SqlStoreOptions extends TableOptions {
  /** The database, over a pool that the host opens and closes. */
  readonly db: SqlDatabase;
  /** The kind of database. Use `mysql` for MariaDB. */
  readonly dialect: SqlDialect;
  /** For tests: changes the time by which leases and entries expire, such as `(now) => sql`${now} + 60000``. */
  readonly clock?: ((now: TimeExpression) => TimeExpression) | undefined;
}

export const SQL_SHAPES: Shapes<SqlStoreOptions> = {
  db: assertDatabase,
  dialect: ["sqlite", "postgres", "mysql"],
  clock: "function?",
  ...TABLE_SHAPES,
};

/** The shapes for functions that take the database as an argument. A host may pass them the options of its store. */
export const TABLES_SHAPES: Shapes<Omit<SqlStoreOptions, "db"> & { readonly db?: SqlDatabase }> = {
  ...SQL_SHAPES,
  db: { optional: assertDatabase },
};

/** A statement that many calls run. It is compiled once, with slots in place of the calls' values. */
export interface Statement<Row> {
  readonly build: (access: SqlAccess) => CompiledQuery<Row>;
  /** Lets PostgreSQL plan the statement only once for each connection. Set for statements that every call runs. */
  readonly planOnce?: boolean;
}

/** The tables of a store, inside or outside of a transaction. */
export class SqlAccess {
  readonly db: Kysely<SqlSchema>;
  readonly dialect: SqlDialect;
  readonly #clock: SqlStoreOptions["clock"];
  /** Compiled statements, kept because compiling a statement takes longer than sending it. */
  readonly #compiled: Map<Statement<never>, CompiledQuery>;
  #checked: Promise<void> | undefined;

  private constructor(
    db: Kysely<SqlSchema>,
    dialect: SqlDialect,
    clock: SqlStoreOptions["clock"],
    compiled: Map<Statement<never>, CompiledQuery>,
  ) {
    this.db = db;
    this.dialect = dialect;
    this.#clock = clock;
    this.#compiled = compiled;
  }

  static open({ db, dialect, clock, ...names }: SqlStoreOptions): SqlAccess {
    return new SqlAccess(withTables(db, tablesOf(names)), dialect, clock, new Map());
  }

  get time(): TimeExpression {
    const now = DATABASE_TIME[this.dialect];
    return this.#clock ? this.#clock(now) : now;
  }

  async run<Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<readonly Row[]> {
    const compiled = this.#compile(statement);
    const parameters = compiled.parameters.map((value) => (value instanceof Slot ? values[value.index] : value));
    return (await this.db.executeQuery<Row>({ ...compiled, parameters })).rows;
  }

  #compile<Row>(statement: Statement<Row>): CompiledQuery<Row> {
    // The cast is safe: the map keeps each query under the statement that has built it.
    const known = this.#compiled.get(statement) as CompiledQuery<Row> | undefined;
    if (known) return known;
    const compiled = statement.build(this);
    // Do not keep a statement that contains a test's clock, which differs in each call.
    if (this.#clock) return compiled;
    this.#compiled.set(statement, compiled);
    if (statement.planOnce && plannedNames.size < MOST_PLANNED && !plannedNames.has(compiled.sql))
      plannedNames.set(compiled.sql, nameOfStatement(compiled.sql));
    return compiled;
  }

  /** Runs `work` in a transaction. Repeats the transaction after a conflict. */
  transact<T>(work: (access: SqlAccess) => Promise<T>): Promise<T> {
    const { db, dialect } = this;
    // Use `read committed`: a statement that waited for a lock must see the changes of the transaction that held the lock.
    const transaction = () =>
      dialect === "sqlite" ? db.transaction() : db.transaction().setIsolationLevel("read committed");
    return this.attempt(async () => {
      let cause: unknown;
      const noted = (error: unknown): never => {
        throw (cause = error);
      };
      try {
        return await transaction().execute((tx) =>
          work(new SqlAccess(tx, dialect, this.#clock, this.#compiled)).catch(noted),
        );
      } catch (error) {
        // On a connection that is cut, the rollback fails too, and its error would hide the cause.
        throw cause ?? error;
      }
    });
  }

  /** Runs a query of its own, and returns its rows. Repeats the query after a conflict. */
  all<Row>(query: { execute(): Promise<Row[]> }): Promise<Row[]> {
    return this.attempt(() => query.execute());
  }

  /** Checks the version of the schema, then runs `work`. Repeats the work after a conflict, so it must be repeatable. */
  async attempt<T>(work: () => Promise<T>): Promise<T> {
    this.#checked ??= assertSchema(this.db);
    try {
      await this.#checked;
    } catch (error) {
      // Check again the next time: the database may be migrated or reachable by then.
      this.#checked = undefined;
      throw error;
    }
    try {
      return await retrying(work);
    } catch (error) {
      // Somebody may have removed the tables since the check.
      if (lacksTable(error)) await assertSchema(this.db);
      throw error;
    }
  }
}

/** A placeholder in a compiled statement. Each run puts the value with this index in its place. */
class Slot {
  readonly index: number;

  constructor(index: number) {
    this.index = index;
  }
}

export const slot = <T>(index: number): RawBuilder<T> => sql<T>`${new Slot(index)}`;

/** Rows to insert, with a slot for each value. */
export const slotRows = <Row extends object>(columns: readonly (keyof Row & string)[], count: number): Row[] =>
  Array.from(
    { length: count },
    // The cast is safe: a slot can stand for a value of any column.
    (_, row) => Object.fromEntries(columns.map((name, at) => [name, slot(row * columns.length + at)])) as Row,
  );

/** Makes a statement for each number of rows, and keeps it for further calls. */
export function byCount<Row>(build: (access: SqlAccess, count: number) => CompiledQuery<Row>) {
  const statements: Statement<Row>[] = [];
  return (count: number): Statement<Row> => (statements[count] ??= { build: (access) => build(access, count) });
}

/** The names of the statements that PostgreSQL plans once, by their SQL text. Hosts with other table names have other texts. */
const plannedNames = new Map<string, string>();
const MOST_PLANNED = 200;

/**
 * Names a statement by its text. A pooler lends one connection to several processes, and each must mean the same statement by a name: those of
 * another version, or of other tables, have other texts.
 */
const nameOfStatement = (text: string): string => `polygate_${fnv(text).toString(36)}${fnv(text, 1).toString(36)}`;

/** The name under which a connection to PostgreSQL keeps a statement planned; undefined for any other statement. */
export const plannedNameOf = (text: string): string | undefined => plannedNames.get(text);

/** Selects a column as text under its own name. Text is exact even for numbers that drivers cannot represent. */
export const asText = <Column extends string>(dialect: SqlDialect, column: Column): AliasedRawBuilder<string, Column> =>
  sql<string>`CAST(${sql.ref(column)} AS ${sql.raw(dialect === "mysql" ? "CHAR" : "TEXT")})`.as(column);

/** The error codes of deadlocks, of failed serializations, and of rows that another transaction has just inserted. */
const RETRIED_CODES = new Set(["40001", "40P01", "23505", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE"]);
/** The same errors in MySQL and MariaDB: lock wait timeout, deadlock, row changed since it was read, duplicate key. */
const RETRIED_NUMBERS = new Set([1205, 1213, 1020, 1062]);
/** SQLite's codes for a violated unique constraint. */
const SQLITE_UNIQUE = new Set([1555, 2067]);
/** SQLite's BUSY and LOCKED: the low byte of their extended codes. */
const SQLITE_BUSY = new Set([5, 6]);

/** The most attempts after a conflict, and while SQLite is busy: it admits one writer at a time, and fails at once. */
const [TRIES, TRIES_WHILE_BUSY] = [20, 500];
const MAX_PAUSE_MS = 40;

/** Returns the most attempts for the error of a transaction that conflicts with another transaction; one for any other error. */
function triesAfter(error: unknown): number {
  if (!(error instanceof Error)) return 1;
  const { code, errno, errcode } = error as Error & { code?: unknown; errno?: unknown; errcode?: unknown };
  const isBusy =
    typeof errcode === "number"
      ? SQLITE_BUSY.has(errcode & 0xff)
      : typeof code === "string" && /^SQLITE_(BUSY|LOCKED)/.test(code);
  if (isBusy) return TRIES_WHILE_BUSY;
  const isConflict =
    SQLITE_UNIQUE.has(errcode as number) || RETRIED_CODES.has(code as string) || RETRIED_NUMBERS.has(errno as number);
  return isConflict ? TRIES : 1;
}

/** Runs `work`, and runs it again after each conflict and a short pause of random length. */
export async function retrying<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++)
    try {
      return await work();
    } catch (error) {
      if (tries >= triesAfter(error)) throw error;
      const pauseMs = Math.random() * Math.min(MAX_PAUSE_MS, 2 ** tries);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
}

/** Returns the version of a database's schema; 0 when there is no schema. */
export const schemaVersion = async (db: SqlDatabase, options: TableOptions = {}): Promise<number> => {
  assertOptions<TableOptions>("schemaVersion", options, TABLE_SHAPES);
  return versionOf(withTables(db, tablesOf(options)));
};

async function assertSchema(db: Kysely<SqlSchema>): Promise<void> {
  assertVersion(await versionOf(db));
}

/** Throws, with advice for the host, unless a schema has the version that this release needs. */
export function assertVersion(version: number): void {
  if (version === SCHEMA_VERSION) return;
  const advice =
    version < SCHEMA_VERSION
      ? 'Run "polygate keys migrate", or migrate(db), before the store is used.'
      : "A newer polygate has migrated it: update.";
  const fault =
    version === 0
      ? "The store's tables are missing."
      : `The store's schema is version ${version}, and must be ${SCHEMA_VERSION}.`;
  const message = `${fault} ${advice}`;
  throw Object.assign(new Error(message), { code: UNMIGRATED });
}

/** Returns 0 when the table is missing. Throws any other error, for example when the database is down. */
export async function versionOf(db: Kysely<SqlSchema>): Promise<number> {
  try {
    const found = await db.selectFrom("schema_version").select("version").executeTakeFirst();
    return Number(found?.version ?? 0);
  } catch (error) {
    if (lacksTable(error)) return 0;
    throw error;
  }
}
