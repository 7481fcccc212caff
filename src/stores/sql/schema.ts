/** The tables of the SQL store: their columns, and the names that a host gives them. */

import {
  type Kysely,
  type KyselyPlugin,
  OperationNodeTransformer,
  type ColumnType,
  type Generated,
  type RootOperationNode,
  SchemableIdentifierNode,
  type TableNode,
} from "kysely";

/** How a driver tells a bigint. */
export type StoredInteger = number | string | bigint;
type Integer = StoredInteger;

export interface KeyTable {
  id: string;
  name: string;
  /** 0 or 1. */
  unlimited: Integer;
  /** The models as JSON; null allows every model. */
  models: string | null;
  expires_at: Integer;
  /** Unix time in milliseconds; null while the key is in use. */
  revoked_at: StoredInteger | null;
  granted: Integer;
  /** Units charged, without live holds. */
  charged: Integer;
  held: Integer;
  overdraft: Integer;
  estimated: Integer;
}

export interface SecretTable {
  /** SHA-256 in hex. */
  hash: string;
  key_id: string;
  /** Unix time in milliseconds from which on the secret finds nothing; null for no end. */
  ends_at: StoredInteger | null;
}

export type HoldState = "live" | "settled" | "expired" | "corrected";

export interface HoldTable {
  id: string;
  key_id: string;
  state: ColumnType<string, HoldState, HoldState>;
  granted: Integer;
  /** What the last renewal noted. */
  noted: Integer;
  renewals: Integer;
  /** What a resolved hold has used. */
  used: Integer;
  /** The units of `used` that the key could not cover. */
  overdraft: Integer;
  expires_at: Integer;
  /** Unix time in milliseconds; null while the hold lives. */
  resolved_at: StoredInteger | null;
}

/** What an entry of the journal tells. `carried` stands for entries that were pruned. */
export type EntryKind = "grant" | "hold" | "renew" | "settle" | "expire" | "correct" | "overdraft" | "carried";

/** Each number is by how much the entry changed it. */
export interface JournalTable {
  seq: Generated<StoredInteger>;
  key_id: string;
  hold_id: string | null;
  kind: ColumnType<string, EntryKind, never>;
  /** Unix time in milliseconds. */
  at: Integer;
  granted: Integer;
  charged: Integer;
  held: Integer;
  overdraft: Integer;
  estimated: Integer;
  noted: Integer;
}

/** An entry of a request that may be repeated. */
export interface ReplayTable {
  id: string;
  key_id: string;
  call_id: string;
  fingerprint: string;
  /** Unix time in milliseconds from which on it is over: of the lease, or of the answer. */
  ends_at: Integer;
  /** The answer without its body, as JSON; null while its call runs. */
  head: string | null;
  /** UTF-8 in base64, which no database changes or has to escape; null where it was too large. */
  body: string | null;
  /** What the answer takes; 0 while its call runs. */
  bytes: Integer;
}

export interface SqlSchema {
  keys: KeyTable;
  secrets: SecretTable;
  holds: HoldTable;
  journal: JournalTable;
  replays: ReplayTable;
  schema_version: { version: Integer };
}

/** The tables' names; one with a dot names its schema, too. */
export type SqlTables = Readonly<Record<keyof SqlSchema, string>>;

/** Names for the tables. */
export interface TableOptions {
  /** What the names begin with: `polygate_` unless told. A schema may come first: `gateway.quota_`. */
  readonly prefix?: string;
  /** The names of single tables, whole. */
  readonly tables?: Partial<SqlTables>;
}

/** A name that every database takes, with or without a schema. */
const TABLE_NAME = /^(?:[A-Za-z_]\w{0,40}\.)?[A-Za-z_]\w{0,40}$/;

export function tablesOf({ prefix = "polygate_", tables = {} }: TableOptions): SqlTables {
  const named = (table: keyof SqlSchema): string => {
    const name = tables[table] ?? `${prefix}${table}`;
    if (!TABLE_NAME.test(name)) throw new RangeError(`${JSON.stringify(name)} is no name for a table.`);
    return name;
  };
  return {
    keys: named("keys"),
    secrets: named("secrets"),
    holds: named("holds"),
    journal: named("journal"),
    replays: named("replays"),
    schema_version: named("schema_version"),
  };
}

/** The host's database, seen as the store's own tables. The host's plugins are left out: they may rename columns. */
export const withTables = (db: SqlDatabase, tables: SqlTables): Kysely<SqlSchema> =>
  db.withoutPlugins().withPlugin(new TableNames(tables));

/** A Kysely of the host's, whatever its own tables are. */
// oxlint-disable-next-line typescript/no-explicit-any -- Kysely is invariant in its schema, and this one is the host's.
export type SqlDatabase = Kysely<any>;

/** Puts the host's names in place of the ones that the queries are written with. */
class TableNames implements KyselyPlugin {
  readonly #transformer: Renaming;

  constructor(tables: SqlTables) {
    this.#transformer = new Renaming(new Map(Object.entries(tables)));
  }

  transformQuery({ node, queryId }: Parameters<KyselyPlugin["transformQuery"]>[0]): RootOperationNode {
    return this.#transformer.transformNode(node, queryId);
  }

  async transformResult({
    result,
  }: Parameters<KyselyPlugin["transformResult"]>[0]): ReturnType<KyselyPlugin["transformResult"]> {
    return result;
  }
}

class Renaming extends OperationNodeTransformer {
  readonly #names: ReadonlyMap<string, string>;

  constructor(names: ReadonlyMap<string, string>) {
    super();
    this.#names = names;
  }

  protected override transformTable(node: TableNode): TableNode {
    const [name, schema] = this.#names.get(node.table.identifier.name)?.split(".").toReversed() ?? [];
    if (name === undefined) return node;
    const table =
      schema === undefined
        ? SchemableIdentifierNode.create(name)
        : SchemableIdentifierNode.createWithSchema(schema, name);
    return { ...node, table };
  }
}

/** Whether a stored number is one that a verb has written: an integer from 0 up that a number holds exactly. */
export const isCountable = (stored: StoredInteger): boolean =>
  Number.isSafeInteger(Number(stored)) && Number(stored) >= 0;

/** A stored integer as a number. Throws where a number would not hold it exactly. */
export function numberOf(stored: StoredInteger): number {
  const number = Number(stored);
  if (!Number.isSafeInteger(number)) throw new Error(`The quota store holds ${stored}, which is beyond 2^53.`);
  return number;
}

/** What is counted of each key; the journal holds the changes of each. */
export const BOOKS = ["granted", "charged", "held", "overdraft", "estimated"] as const;

/** In units. */
export type Books = Record<(typeof BOOKS)[number], number>;

export const booksWith = (unitsOf: (book: (typeof BOOKS)[number]) => number): Books =>
  Object.fromEntries(BOOKS.map((book) => [book, unitsOf(book)])) as Books;
