/** The tables of the SQL stores: their columns, the names that a host gives them, and their numbers. */

import {
  type ColumnType,
  type Generated,
  type Kysely,
  type KyselyPlugin,
  OperationNodeTransformer,
  type RootOperationNode,
  SchemableIdentifierNode,
  type TableNode,
} from "kysely";
import { type Check, fieldsOf, portOf, type Shapes } from "../../options.ts";
import type { EntryKind, StoredInteger } from "../driver.ts";
import type { HoldState } from "../ledger.ts";

export type { StoredInteger } from "../driver.ts";

/** The schema that this version of polygate works with. */
export const SCHEMA_VERSION = 12;

/** The books of a key, or the changes of them. */
interface BookColumns {
  granted: StoredInteger;
  /** Units charged, without live holds. */
  charged: StoredInteger;
  held: StoredInteger;
  overdraft: StoredInteger;
  estimated: StoredInteger;
}

export interface KeyTable extends BookColumns {
  id: string;
  name: string;
  /** 0 or 1. */
  unlimited: StoredInteger;
  /** The models as JSON; null allows every model. */
  models: string | null;
  expires_at: StoredInteger;
  /** Unix time in milliseconds; null while the key is in use. */
  revoked_at: StoredInteger | null;
  /** The ids of the key's budget, its parent, and so on, as JSON; null without a budget. */
  budgets: string | null;
  /** The host's own notes as JSON; null for none. */
  metadata: string | null;
}

interface SecretTable {
  /** SHA-256 in hex. */
  hash: string;
  key_id: string;
  /** The time when the secret expires: Unix time in milliseconds; null when it never expires. */
  ends_at: StoredInteger | null;
}

export interface HoldTable {
  id: string;
  key_id: string;
  state: ColumnType<string, HoldState, HoldState>;
  granted: StoredInteger;
  /** The units used so far, as the last renewal reported them. */
  noted: StoredInteger;
  renewals: StoredInteger;
  /** Units that a resolved hold has used. */
  used: StoredInteger;
  /** The units of `used` that the key could not cover. */
  overdraft: StoredInteger;
  expires_at: StoredInteger;
  /** Unix time in milliseconds; null while the hold lives. */
  resolved_at: StoredInteger | null;
  /** The periods of budgets that cover the hold, as JSON; null without a budget. */
  shares: string | null;
}

/** A journal entry. Each number is a change, not a total. */
export interface JournalTable extends BookColumns {
  seq: Generated<StoredInteger>;
  key_id: string;
  hold_id: string | null;
  /** A `carried` entry keeps the sums of entries that were deleted. */
  kind: ColumnType<string, EntryKind | "carried", never>;
  /** Unix time in milliseconds. */
  at: StoredInteger;
  noted: StoredInteger;
}

/** The entry of a request that may be repeated. */
export interface ReplayTable {
  id: string;
  key_id: string;
  call_id: string;
  fingerprint: string;
  /** The time when the claim, or later the answer, expires: Unix time in milliseconds. */
  ends_at: StoredInteger;
  /** The answer without its body, as JSON; null while its call runs. */
  head: string | null;
  /**
   * The body as UTF-8 in base64, because no database changes or escapes base64. Null while the call runs, or when the body was too
   * large.
   */
  body: string | null;
  /** The size of the answer; 0 while its call runs. */
  bytes: StoredInteger;
}

/** A response, a conversation, or an item of a conversation. */
export interface DocumentTable {
  seq: Generated<StoredInteger>;
  key_id: string;
  id: string;
  /** The id of the parent; of a document without a parent, its own id. */
  root_id: string;
  /** The place among the children of the parent, from 1 up; 0 for a document without a parent. */
  position: StoredInteger;
  /** The number of children so far, with deleted children. */
  children: StoredInteger;
  revision: StoredInteger;
  /** The time when the document expires: Unix time in milliseconds. Null for a child, which expires with its parent. */
  ends_at: StoredInteger | null;
  /** The aliases, divided by spaces. */
  aliases: string;
  /** UTF-8 in base64, like the body of a replay. */
  content: string;
  /** The room that the document takes. */
  bytes: StoredInteger;
}

/** An alias of a document, to find the document by. */
interface AliasTable {
  seq: Generated<StoredInteger>;
  key_id: string;
  alias: string;
  /** The `root_id` of the document. */
  root_id: string;
  document_id: string;
}

/** The books of one period of a budget. */
interface PeriodColumns extends BookColumns {
  /** Unix time in milliseconds. */
  starts_at: StoredInteger;
  ends_at: StoredInteger;
  /** The charges of holds that were deleted. */
  pruned: StoredInteger;
}

/** A budget, with its current period. */
export interface BudgetTable extends PeriodColumns {
  id: string;
  name: string;
  amount: StoredInteger;
  period: string | null;
  time_zone: string;
  /** 0 or 1. */
  rollover: StoredInteger;
  /** The ids of the budget, its parent, and so on, as JSON. */
  chain: string;
  /** The highest threshold that the host was told of, in percent. */
  told: StoredInteger;
}

/** A closed period of a budget. */
export interface PeriodTable extends PeriodColumns {
  budget_id: string;
}

/** The sums of `usage_days`: each is a number of calls, of tokens or of units. */
export const USAGE_SUMS = [
  "calls",
  "refused",
  "failed",
  "input_tokens",
  "output_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "reasoning_tokens",
  "images",
  "units",
  "estimated",
] as const;

/** The columns that `usage_days` is grouped by. An empty text stands for a missing value. */
export const USAGE_BY = ["day", "key_id", "budgets", "group_name", "model", "upstream"] as const;

/** The sums of the calls of one day that have the same key, budgets, group, model, upstream and currency. */
export type UsageTable = Record<(typeof USAGE_SUMS)[number], StoredInteger> &
  Record<(typeof USAGE_BY)[number], string> & {
    /** SHA-256 in hex of the columns that the sums are kept apart by. */
    id: string;
    /** The currency if a unit is a millionth of a currency; empty for other units, and null if it is not known. */
    currency: string | null;
  };

/** A recorded call. Contains no prompt, no answer and no secret. */
export interface CallTable {
  /** The request id, which is also the id of the call's hold. */
  id: string;
  /** The beginning of the call, within the periods of the charged budgets: Unix time in milliseconds. */
  at: StoredInteger;
  /** The day of `at` in the time zone of the key's budget, or of the recorder, such as `2026-11-28`. */
  day: string;
  /** The id of the key; empty for a call that ended before its key was known. */
  key_id: string;
  /** The ids of the key's budget, its parent, and so on, as JSON; empty without a budget. */
  budgets: string;
  /** The group of the key, such as a customer; empty for none. */
  group_name: string;
  /** The metadata of the key as JSON; null for none. */
  metadata: string | null;
  /** The format of the client, such as `messages`. */
  format: string;
  /** The method and the route of the request. */
  route: string;
  /** The model of the request; null for none. */
  model_asked: string | null;
  /** The model that answered; null for none. */
  model_answered: string | null;
  /** The model under which `polygate_usage_days` has the call; empty for none. */
  model: string;
  /** 0 or 1. */
  streamed: StoredInteger;
  /** The name of the upstream that was asked last; empty for none. */
  upstream: string;
  /** The requests to upstreams as JSON; null for none. */
  attempts: string | null;
  /** A `CallOutcome`, or `unrecorded` for a charge of the ledger whose process has died. */
  outcome: string;
  /** The HTTP status; 0 for an unrecorded call. */
  status: StoredInteger;
  /** The code of the error; null for none. */
  error_code: string | null;
  /** The path of the field that the error names, with dots; null for none. */
  error_field: string | null;
  /** The message of the error, without texts of the request; null for none, and for that of an upstream or a backend. */
  error_message: string | null;
  /** The output limit that the quota paid for; null where it covered the limit of the request. */
  afforded_output_tokens: StoredInteger | null;
  /** The limit that refused the call, as JSON; null for every other call. */
  refused_by: string | null;
  /** All input tokens. */
  input_tokens: StoredInteger;
  /** All output tokens. */
  output_tokens: StoredInteger;
  /** The input tokens that were read from a cache. */
  cache_read_tokens: StoredInteger;
  /** The input tokens that were written to a cache. */
  cache_write_tokens: StoredInteger;
  /** The output tokens for reasoning. */
  reasoning_tokens: StoredInteger;
  /** The number of pictures. */
  images: StoredInteger;
  /** The charge in units. */
  units: StoredInteger;
  /** The units that rest on an estimate. */
  estimated: StoredInteger;
  /** The currency if a unit is a millionth of a currency; null for other units. */
  currency: string | null;
  /** The request id of the call whose answer this one got again; null for none. */
  replay_of: string | null;
  /** The time to the first event, in milliseconds; null without an event. */
  first_event_ms: StoredInteger | null;
  /** The time to the end of the call, in milliseconds. */
  end_ms: StoredInteger;
}

/** A change of the admin. */
export interface AuditTable {
  /** Orders the changes. */
  seq: Generated<StoredInteger>;
  /** The id of the change. */
  id: string;
  /** Unix time in milliseconds. */
  at: StoredInteger;
  /** The user of your login. */
  user_name: string;
  /** The change, such as `keys.update`. */
  action: string;
  /** The id of the key or budget; null for none. */
  target: string | null;
  /** The fields of the request as JSON, without secrets, or a list of them and of their former values; null for none. */
  changes: string | null;
  /** An `AuditOutcome["state"]`; null before the end. */
  state: string | null;
  /** Why the change was refused or failed; null for none. */
  reason: string | null;
}

export interface SqlSchema {
  keys: KeyTable;
  secrets: SecretTable;
  holds: HoldTable;
  journal: JournalTable;
  replays: ReplayTable;
  documents: DocumentTable;
  aliases: AliasTable;
  budgets: BudgetTable;
  budget_periods: PeriodTable;
  /** The last recall of each key: Unix time in milliseconds. */
  recalls: { key_id: string; at: StoredInteger };
  calls: CallTable;
  usage_days: UsageTable;
  /** The time up to which the calls agree with the ledger: the end of the last compared hold, in Unix time in milliseconds. */
  usage_mark: { id: StoredInteger; at: StoredInteger };
  audit: AuditTable;
  schema_version: { version: StoredInteger };
}

/** The tables' names; the part before a dot is the schema. */
export type SqlTables = Readonly<Record<keyof SqlSchema, string>>;

/** Names for the tables. */
export interface TableOptions {
  /** The prefix of all names: `polygate_` by default. A schema may come first: `gateway.quota_`. */
  readonly prefix?: string | undefined;
  /** The full names of single tables, in place of the prefixed names. */
  readonly tables?: Partial<SqlTables> | undefined;
}

/** A table name that every database accepts, with or without a schema. */
const TABLE_NAME = /^(?:[A-Za-z_]\w{0,40}\.)?[A-Za-z_]\w{0,40}$/;

const TABLES: Shapes<Partial<SqlTables>> = {
  keys: "string?",
  secrets: "string?",
  holds: "string?",
  journal: "string?",
  replays: "string?",
  documents: "string?",
  aliases: "string?",
  budgets: "string?",
  budget_periods: "string?",
  recalls: "string?",
  calls: "string?",
  usage_days: "string?",
  usage_mark: "string?",
  audit: "string?",
  schema_version: "string?",
};

export const TABLE_SHAPES: Shapes<TableOptions> = { prefix: "string?", tables: { optional: fieldsOf(TABLES) } };

/** Returns the names of all tables. Throws a RangeError for a name that some database does not accept. */
export function tablesOf({ prefix = "polygate_", tables = {} }: TableOptions): SqlTables {
  const named = (table: keyof SqlSchema): string => {
    const name = tables[table] ?? `${prefix}${table}`;
    if (!TABLE_NAME.test(name)) throw new RangeError(`${JSON.stringify(name)} is no name for a table.`);
    return name;
  };
  const names = (Object.keys(TABLES) as (keyof SqlSchema)[]).map((table) => [table, named(table)]);
  return Object.fromEntries(names) as SqlTables;
}

/** The host's Kysely, with any tables of its own. */
// oxlint-disable-next-line typescript/no-explicit-any -- Kysely is invariant in its schema, and this one is the host's.
export type SqlDatabase = Kysely<any>;

/** Throws a TypeError for anything but a Kysely database, such as a pool. */
export const assertDatabase: Check = portOf(
  ["withoutPlugins"],
  "a Kysely database, such as new Kysely({ dialect: nodePostgresDialect(pool) })",
);

/** Returns the host's database with the store's tables. Leaves the host's plugins out, because they may rename columns. */
export function withTables(db: SqlDatabase, tables: SqlTables): Kysely<SqlSchema> {
  assertDatabase("stores/sql: db", db);
  return db.withoutPlugins().withPlugin(new TableNames(tables));
}

/** Replaces the table names in queries by the names that the host has chosen. */
class TableNames extends OperationNodeTransformer implements KyselyPlugin {
  readonly #names: ReadonlyMap<string, string>;

  constructor(tables: SqlTables) {
    super();
    this.#names = new Map(Object.entries(tables));
  }

  transformQuery({ node, queryId }: Parameters<KyselyPlugin["transformQuery"]>[0]): RootOperationNode {
    return this.transformNode(node, queryId);
  }

  async transformResult({
    result,
  }: Parameters<KyselyPlugin["transformResult"]>[0]): ReturnType<KyselyPlugin["transformResult"]> {
    return result;
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

/** Returns a stored integer as a number. Throws an Error when a number cannot represent it exactly. */
export function numberOf(stored: StoredInteger): number {
  const number = Number(stored);
  if (!Number.isSafeInteger(number)) throw new Error(`The quota store holds ${stored}, which is beyond 2^53.`);
  return number;
}
