/** Reads recorded calls and their sums from SQL. */

import { type ExpressionBuilder, type RawBuilder, type Selectable, sql, type SqlBool } from "kysely";
import { given, parseJson } from "../../model/json.ts";
import { moneyIn } from "../../model/money.ts";
import { assertOptions } from "../../options.ts";
import { nextIteration } from "../../ports/clock.ts";
import { callOfHold } from "../../ports/quota-store.ts";
import {
  assertCallFilter,
  assertUsageQuery,
  type CallFilter,
  type CallReader,
  type RecordedCall,
  type RecordedDays,
  type UsageColumn,
  type UsageQuery,
  type UsageReport,
  type UsageRow,
  type UsageSums,
} from "../calls.ts";
import { isStorableId } from "../durable.ts";
import { SQL_SHAPES, SqlAccess, type SqlDialect, type SqlStoreOptions } from "./database.ts";
import { type CallTable, numberOf, type SqlSchema, type USAGE_BY, USAGE_SUMS } from "./tables.ts";

/**
 * Makes a reader of the calls that a `sqlCallLog` or a recorder of `openStores` writes, in this process or another one.
 *
 * @example
 * const { rows } = await sqlCallReader({ db, dialect: "sqlite" }).usage({ by: ["key"], since: "2026-11-01" });
 */
export function sqlCallReader(options: SqlStoreOptions): CallReader {
  assertOptions<SqlStoreOptions>("sqlCallReader", options, SQL_SHAPES);
  return readerOf(SqlAccess.open(options));
}

/** The beginning of a request id, as a narrow table shows it, or its digits alone. */
const SHORT_ID = /^(?:req_)?([\da-f]{8,32})$/;

export const readerOf = (access: SqlAccess): CallReader => ({
  usage: async (query = {}) => usageOf(access, query),
  async find(id) {
    if (!isStorableId(id)) return undefined;
    // Failures and the journal may name a further hold of the call.
    const requestId = callOfHold(id);
    const calls = access.db.selectFrom("calls").selectAll();
    let rows = await access.all(calls.where("id", "=", requestId));
    const [, digits] = SHORT_ID.exec(requestId) ?? [];
    if (rows.length === 0 && digits !== undefined) {
      // Request ids have digits and the letters a to f, so a g is behind all of them in every collation.
      const [first, end] = [`req_${digits}`, `req_${digits}g`];
      rows = await access.all(calls.where("id", ">=", first).where("id", "<", end).limit(2));
    }
    if (rows.length > 1) throw new RangeError(`The ids of several calls begin with ${requestId}. Give more of the id.`);
    return (await callsOf(access, rows))[0];
  },
  list: async (filter = {}) => listOf(access, filter),
});

type GroupColumn = (typeof USAGE_BY)[number] | "month";

const COLUMNS: Readonly<Record<UsageColumn, GroupColumn>> = {
  day: "day",
  month: "month",
  key: "key_id",
  budget: "budgets",
  group: "group_name",
  model: "model",
  upstream: "upstream",
};

type SumColumn = (typeof USAGE_SUMS)[number];

const SUMS: Readonly<Record<Exclude<keyof UsageSums, "money">, SumColumn>> = {
  calls: "calls",
  refused: "refused",
  failed: "failed",
  inputTokens: "input_tokens",
  outputTokens: "output_tokens",
  cacheReadTokens: "cache_read_tokens",
  cacheWriteTokens: "cache_write_tokens",
  reasoningTokens: "reasoning_tokens",
  images: "images",
  units: "units",
  estimated: "estimated",
};

async function usageOf(access: SqlAccess, query: UsageQuery): Promise<UsageReport> {
  assertUsageQuery(query);
  const { by = [], since, until, key, group, model, upstream, charged, limit = 1_000, offset = 0 } = query;
  const { db, dialect } = access;
  const chains = await chainsOf(access, query);
  const counted = (eb: ExpressionBuilder<SqlSchema, "usage_days">) =>
    eb.and([
      ...(since === undefined ? [] : [eb("day", ">=", since)]),
      ...(until === undefined ? [] : [eb("day", "<=", until)]),
      ...(key === undefined ? [] : [eb("key_id", "=", key)]),
      ...(chains === undefined ? [] : [isAmong(dialect, chains)]),
      ...(group === undefined ? [] : [eb("group_name", "=", group)]),
      ...(model === undefined ? [] : [eb("model", "=", model)]),
      ...(upstream === undefined ? [] : [eb("upstream", "=", upstream)]),
    ]);
  // As text, which is exact where a driver's numbers are not. As one text, because SQLite reads all rows before other work runs.
  const sums = USAGE_SUMS.map((name) => sql`SUM(${sql.ref(name)})`);
  const joined =
    dialect === "mysql" ? sql<string>`CONCAT_WS(',', ${sql.join(sums)})` : sql.join<string>(sums, sql` || ',' || `);
  const asked = db
    .selectFrom("usage_days")
    .select(() => joined.as("sums"))
    .where(counted);
  const total = await access.attempt(() => asked.executeTakeFirst());
  const ofCharges = db
    .selectFrom("usage_days")
    .select("currency")
    .where(counted)
    .where("currency", "is not", null)
    .groupBy("currency")
    .having(sql<number>`SUM(${sql.ref("units")})`, ">", 0)
    .orderBy(sql`SUM(${sql.ref("units")})`, "desc")
    .orderBy("currency");
  const [first, ...otherCurrencies] = (await access.all(ofCharges)).map((row) => row.currency ?? "");
  const currency = first === undefined ? await currencyIn(access) : first || null;
  const named = Array.from(new Set(by));
  const columns = named.map((column) => COLUMNS[column]);
  const { recorded, asOf } = await daysIn(access);
  const timeZone = chains && (await zoneOf(access, chains));
  const ofAll = {
    total: sumsOf(total?.sums, currency),
    ...daysSummed(query, recorded, new Date(asOf).toISOString().slice(0, 10)),
    ...given({ timeZone }),
    asOf,
    ...(recorded && { recorded }),
    ...(currency !== null && { currency }),
    ...(otherCurrencies.length > 0 && { otherCurrencies }),
  };
  if (columns.length === 0) return { by: [], rows: [ofAll.total], ...ofAll };
  const refs = columns.map((column) => sql.ref<string>(column));
  const grouped = asked
    .select(() => columns.map((column) => (column === "month" ? MONTH : sql.ref<string>(column)).as(column)))
    .groupBy(refs)
    .$if(charged === true, (rows) => rows.having(sql<number>`SUM(${sql.ref("units")})`, ">", 0));
  const ordered = refs.reduce((query, ref) => query.orderBy(ref), grouped.limit(limit).offset(offset));
  const rows = await access.all(ordered);
  const told: UsageRow[] = [];
  for (const [at, row] of rows.entries()) {
    if (at % ROWS_OF_TURN === ROWS_OF_TURN - 1) await nextIteration();
    told.push({ ...columnsOf(row, by), ...sumsOf(row.sums, currency) });
  }
  return { by: named, rows: await withNames(access, told, named), ...ofAll };
}

/** The rows that are told before other work runs. */
const ROWS_OF_TURN = 1_000;

/** The month of a row's day. */
const MONTH = sql<string>`SUBSTR(${sql.ref("day")}, 1, 7)`;

/** Reads the currency of the latest call. */
export async function currencyIn(access: SqlAccess): Promise<string | null> {
  const latest = access.db.selectFrom("calls").select("currency").orderBy("at", "desc").limit(1);
  return (await access.attempt(() => latest.executeTakeFirst()))?.currency ?? null;
}

/** Reads the first and the last day of recorded calls, and the time. */
async function daysIn(access: SqlAccess): Promise<{ readonly recorded?: RecordedDays; readonly asOf: number }> {
  const days = access.db
    .selectFrom("usage_days")
    .select(({ fn }) => [fn.min("day").as("since"), fn.max("day").as("until"), access.time.as("now")]);
  const { since, until, now = 0 } = (await access.attempt(() => days.executeTakeFirst())) ?? {};
  return { asOf: Number(now), ...(since != null && until != null && { recorded: { since, until } }) };
}

/** Returns the days of a report. A day begins earlier in some time zones than in UTC, so that calls of tomorrow may be recorded. */
function daysSummed(
  { since, until }: UsageQuery,
  recorded: RecordedDays | undefined,
  today: string,
): Pick<UsageReport, "since" | "until"> {
  const open = since === undefined ? recorded?.until : [since, today, recorded?.until ?? ""].toSorted().at(-1);
  const last = until ?? open;
  const first = since ?? recorded?.since;
  return given({ since: first !== undefined && last !== undefined && first > last ? undefined : first, until: last });
}

/** The most ids of one query for names. */
const MOST_IDS = 500;

/** Adds the names of keys and budgets, and the time zones of budgets, to the rows of a report that has their ids. */
async function withNames(
  access: SqlAccess,
  rows: readonly UsageRow[],
  by: readonly UsageColumn[],
): Promise<readonly UsageRow[]> {
  const idsIn = (column: "key" | "budget"): readonly string[] => rows.flatMap((row) => row[column] || []);
  const keys = by.includes("key") && (await keysNamed(access, idsIn("key")));
  const budgets = by.includes("budget") && (await budgetsNamed(access, idsIn("budget")));
  return rows.map((row) => {
    const budget = budgets ? budgets.get(row.budget ?? "") : undefined;
    return {
      ...row,
      ...(keys && { keyName: keys.get(row.key ?? "")?.name ?? "" }),
      ...(budgets && { budgetName: budget?.name ?? "", timeZone: budget?.time_zone ?? "" }),
    };
  });
}

const keysNamed = (access: SqlAccess, ids: readonly string[]) =>
  rowsById(access, ids, (some) => access.db.selectFrom("keys").select(["id", "name"]).where("id", "in", some));

const budgetsNamed = (access: SqlAccess, ids: readonly string[]) =>
  rowsById(access, ids, (some) =>
    access.db.selectFrom("budgets").select(["id", "name", "time_zone"]).where("id", "in", some),
  );

/** Returns the time zone of the days of calls with some chains of budgets. Undefined for several, and for an unknown one. */
async function zoneOf(access: SqlAccess, chains: readonly string[]): Promise<string | undefined> {
  const ids = chains.map((chain) => chainOf(chain)[0] ?? "");
  const budgets = await budgetsNamed(access, ids);
  const [zone, ...others] = new Set(ids.map((id) => budgets.get(id)?.time_zone));
  return others.length === 0 ? zone : undefined;
}

/** Reads the rows of some ids, a part of the ids at a time. */
async function rowsById<Row extends { readonly id: string }>(
  access: SqlAccess,
  ids: readonly string[],
  query: (some: readonly string[]) => { execute(): Promise<Row[]> },
): Promise<ReadonlyMap<string, Row>> {
  const [found, all] = [new Map<string, Row>(), Array.from(new Set(ids))];
  for (let at = 0; at < all.length; at += MOST_IDS) {
    // The queries of SQLite wait for nothing.
    if (at > 0) await nextIteration();
    for (const row of await access.all(query(all.slice(at, at + MOST_IDS)))) found.set(row.id, row);
  }
  return found;
}

/** Finds the chains of budgets that are meant, as they are stored. Undefined for all chains. */
async function chainsOf(
  access: SqlAccess,
  { budget, ownBudget }: Pick<CallFilter, "budget" | "ownBudget">,
): Promise<readonly string[] | undefined> {
  if (budget === undefined && ownBudget === undefined) return undefined;
  const rows = await access.all(access.db.selectFrom("usage_days").select("budgets").distinct());
  const isMeant = (chain: readonly string[]): boolean =>
    (budget === undefined || chain.includes(budget)) && (ownBudget === undefined || (chain[0] ?? "") === ownBudget);
  return rows.flatMap(({ budgets }) => (isMeant(chainOf(budgets)) ? budgets : []));
}

/** True for a row of one of the chains. SQLite and PostgreSQL limit the parameters of a statement, and there may be a budget a user. */
const isAmong = (dialect: SqlDialect, chains: readonly string[]): RawBuilder<SqlBool> => {
  if (chains.length === 0) return sql`1 = 0`;
  const all = JSON.stringify(chains);
  if (dialect === "sqlite") return sql`budgets IN (SELECT value FROM json_each(${all}))`;
  if (dialect === "postgres") return sql`budgets IN (SELECT jsonb_array_elements_text(CAST(${all} AS jsonb)))`;
  return sql`budgets IN (${sql.join(chains)})`;
};

/** The cast is safe: the column is written from such a list. */
const chainOf = (stored: string): readonly string[] => (stored === "" ? [] : (parseJson(stored) as readonly string[]));

function columnsOf(
  row: Partial<Record<GroupColumn, string>>,
  by: readonly UsageColumn[],
): Partial<Record<UsageColumn, string>> {
  return Object.fromEntries(
    by.map((column) => {
      const stored = row[COLUMNS[column]] ?? "";
      return [column, column === "budget" ? (chainOf(stored)[0] ?? "") : stored];
    }),
  );
}

/** @param joined The sums of `USAGE_SUMS`. Without a row, PostgreSQL and SQLite have none, and MySQL an empty text. */
function sumsOf(joined: string | null | undefined, currency: string | null): UsageRow {
  const values = joined ? joined.split(",") : [];
  const sums = Object.entries(SUMS).map(([name, column]) => [name, Number(values[USAGE_SUMS.indexOf(column)] ?? 0)]);
  // The cast is safe: each name of the sums gets a number.
  const counted = Object.fromEntries(sums) as UsageRow;
  return { ...counted, ...moneyIn(counted.units, currency) };
}

/** The columns of recorded calls that a filter names with their values. */
const CALL_COLUMNS = [
  ["key", "key_id"],
  ["group", "group_name"],
  ["model", "model"],
  ["upstream", "upstream"],
] as const satisfies readonly (readonly [keyof CallFilter, keyof CallTable])[];

/** The columns whose filter takes one value or a list of values. */
const LISTED_COLUMNS = [
  ["outcome", "outcome"],
  ["errorCode", "error_code"],
] as const satisfies readonly (readonly [keyof CallFilter, keyof CallTable])[];

async function listOf(access: SqlAccess, filter: CallFilter): Promise<readonly RecordedCall[]> {
  assertCallFilter(filter);
  const { sinceDay, untilDay, since, until, after, limit = 100 } = filter;
  const { db } = access;
  let query = db.selectFrom("calls").selectAll().orderBy("at", "desc").orderBy("id", "desc").limit(limit);
  for (const [name, column] of CALL_COLUMNS) {
    const wanted = filter[name];
    if (wanted !== undefined) query = query.where(column, "=", wanted);
  }
  for (const [name, column] of LISTED_COLUMNS) {
    const wanted = filter[name];
    if (wanted === undefined) continue;
    const any = [wanted].flat();
    query = query.where((eb) => (any.length > 0 ? eb(column, "in", any) : eb.lit(false)));
  }
  const chains = await chainsOf(access, filter);
  if (chains) query = query.where(isAmong(access.dialect, chains));
  if (sinceDay !== undefined) query = query.where("day", ">=", sinceDay);
  if (untilDay !== undefined) query = query.where("day", "<=", untilDay);
  if (since !== undefined) query = query.where("at", ">=", since);
  if (until !== undefined) query = query.where("at", "<", until);
  if (after !== undefined) {
    const rows = db.selectFrom("calls").select("at").where("id", "=", after);
    const last = await access.attempt(() => rows.executeTakeFirst());
    if (!last) return [];
    query = query.where((eb) =>
      eb.or([eb("at", "<", last.at), eb.and([eb("at", "=", last.at), eb("id", "<", after)])]),
    );
  }
  return callsOf(access, await access.all(query));
}

/** Reads the rows of calls, with the names of their keys. */
async function callsOf(access: SqlAccess, rows: readonly Selectable<CallTable>[]): Promise<readonly RecordedCall[]> {
  const keys = await keysNamed(
    access,
    rows.flatMap((row) => row.key_id || []),
  );
  return rows.map((row) => callOf(row, keys.get(row.key_id)?.name));
}

const jsonOf = (stored: string | null): unknown => (stored === null ? undefined : parseJson(stored));

/** The casts are safe: the columns are written from such values. */
function callOf(row: Selectable<CallTable>, keyName: string | undefined): RecordedCall {
  const metadata = jsonOf(row.metadata) as RecordedCall["metadata"];
  const refusedBy = jsonOf(row.refused_by) as RecordedCall["refusedBy"];
  return {
    requestId: row.id,
    at: numberOf(row.at),
    day: row.day,
    ...(row.key_id !== "" && { keyId: row.key_id }),
    ...(keyName !== undefined && { keyName }),
    budgets: chainOf(row.budgets),
    ...(row.group_name !== "" && { group: row.group_name }),
    ...(metadata && { metadata }),
    format: row.format,
    route: row.route,
    ...(row.model_asked !== null && { modelAsked: row.model_asked }),
    ...(row.model_answered !== null && { modelAnswered: row.model_answered }),
    stream: numberOf(row.streamed) === 1,
    ...(row.upstream !== "" && { upstream: row.upstream }),
    attempts: (jsonOf(row.attempts) ?? []) as RecordedCall["attempts"],
    outcome: row.outcome as RecordedCall["outcome"],
    status: numberOf(row.status),
    ...(row.error_code !== null && { errorCode: row.error_code as NonNullable<RecordedCall["errorCode"]> }),
    ...(row.error_field !== null && { errorField: row.error_field }),
    ...(row.error_message !== null && { errorMessage: row.error_message }),
    ...(refusedBy && { refusedBy }),
    ...(row.afforded_output_tokens !== null && { affordedOutputTokens: numberOf(row.afforded_output_tokens) }),
    inputTokens: numberOf(row.input_tokens),
    outputTokens: numberOf(row.output_tokens),
    cacheReadTokens: numberOf(row.cache_read_tokens),
    cacheWriteTokens: numberOf(row.cache_write_tokens),
    reasoningTokens: numberOf(row.reasoning_tokens),
    images: numberOf(row.images),
    units: numberOf(row.units),
    ...moneyIn(numberOf(row.units), row.currency),
    estimated: numberOf(row.estimated),
    ...(row.currency !== null && { currency: row.currency }),
    ...(row.replay_of !== null && { replayOf: row.replay_of }),
    ...(row.first_event_ms !== null && { firstEventMs: numberOf(row.first_event_ms) }),
    endMs: numberOf(row.end_ms),
  };
}
