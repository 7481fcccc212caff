/** The journal of the SQL store: recomputes the balances from its entries, and replaces old entries by their sums. */

import {
  type AliasedRawBuilder,
  type Kysely,
  sql,
  type Expression,
  type ExpressionBuilder,
  type SqlBool,
} from "kysely";
import { parseJson } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import type { StoredShare } from "../driver.ts";
import { type Book, BOOKS } from "../ledger.ts";
import { asText, retrying, type SqlDialect, TABLES_SHAPES, type SqlAccess } from "./database.ts";
import {
  type SqlDatabase,
  type SqlSchema,
  type TableOptions,
  tablesOf,
  withTables,
  numberOf,
  type StoredInteger,
} from "./tables.ts";

/** A stored value that differs from the value by the journal. */
export interface LedgerDifference {
  /** The table of the value, without its prefix. */
  readonly table: "keys" | "holds" | "budgets" | "budget_periods";
  /** The id of the key, the hold or the budget. That of a closed period has the beginning of the period before it. */
  readonly id: string;
  /** The field that differs; `missing` when the row itself does not exist. */
  readonly field: string;
  /** The value in the table; undefined for none. */
  readonly stored: number | string | undefined;
  /** The value that results from the journal, or for a budget from its holds. */
  readonly expected: number | string | undefined;
}

/** The tables to verify. */
export interface VerifyOptions extends TableOptions {
  /** The kind of database. */
  readonly dialect: SqlDialect;
}

/** The number of rows that are compared at a time. */
const PAGE = 500;

/** The kinds of journal entries that end a hold, by the hold's state. */
const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  live: [],
  settled: ["settle"],
  expired: ["expire"],
  corrected: ["correct", "expire"],
};
const NOT_ENDINGS: ReadonlySet<string> = new Set(["hold", "renew", "overdraft"]);

/**
 * Compares every key and every hold with the journal, and every budget with its holds, in one snapshot, and returns the differences: none in a ledger that only the
 * store has written. A number out of range, such as one beyond 2^53 - 1, is a difference, too. Numbers are read as text and added up
 * exactly, so that one corrupt row does not hide other differences.
 */
export async function verifyLedger(db: SqlDatabase, options: VerifyOptions): Promise<readonly LedgerDifference[]> {
  assertOptions("verifyLedger", options, TABLES_SHAPES);
  const { dialect, ...names } = options;
  const tables = withTables(db, tablesOf(names));
  const snapshot = () =>
    dialect === "sqlite" ? tables.transaction() : tables.transaction().setIsolationLevel("repeatable read");
  return retrying(() =>
    snapshot().execute(async (tx) => [
      ...(await verifyKeys(tx, dialect)),
      ...(await verifyHolds(tx, dialect)),
      ...(await verifyBudgets(tx, dialect)),
      ...(await orphans(tx)),
    ]),
  );
}

/** Selects the sum of a column as text, which is exact for any number. */
const sumAsText = <Column extends string>(dialect: SqlDialect, column: Column): AliasedRawBuilder<string, Column> =>
  sql<string>`CAST(SUM(${sql.ref(column)}) AS ${sql.raw(dialect === "mysql" ? "CHAR" : "TEXT")})`.as(column);

const MOST = BigInt(Number.MAX_SAFE_INTEGER);

/** Reads an integer; undefined for any other text. */
const integerOf = (text: string): bigint | undefined =>
  /^-?\d+(\.0+)?$/.test(text) ? BigInt(text.split(".")[0] ?? "") : undefined;

/** Converts an integer for the report: to a number when that is exact, otherwise to text. */
const reported = (integer: bigint): number | string =>
  integer <= MOST && integer >= -MOST ? Number(integer) : integer.toString();

/** Compares a stored number with the sum of the journal, and checks that the number is in range. Returns one difference at most. */
function numberDifferences(
  table: LedgerDifference["table"],
  id: string,
  field: string,
  text: string,
  expected: bigint,
): LedgerDifference[] {
  const stored = integerOf(text);
  if (stored !== undefined && stored !== expected)
    return [{ table, id, field, stored: reported(stored), expected: reported(expected) }];
  if (stored !== undefined && stored >= 0n && stored <= MOST) return [];
  return [{ table, id, field, stored: text, expected: "an integer from 0 to 2^53 - 1" }];
}

/** Compares the rows of a table page by page, in the order of their ids. */
async function verifyPages<Stored extends { readonly id: string }>(
  readPage: (after: string) => Promise<readonly Stored[]>,
  verify: (rows: readonly Stored[]) => Promise<readonly LedgerDifference[]>,
): Promise<LedgerDifference[]> {
  const differences: LedgerDifference[] = [];
  for (let rows = await readPage(""); rows.length > 0; rows = await readPage(rows.at(-1)?.id ?? ""))
    differences.push(...(await verify(rows)));
  return differences;
}

const verifyKeys = (db: Kysely<SqlSchema>, dialect: SqlDialect): Promise<LedgerDifference[]> =>
  verifyPages(
    (after) =>
      db
        .selectFrom("keys")
        .select("id")
        .select(() => [asText(dialect, "unlimited"), ...BOOKS.map((book) => asText(dialect, book))])
        .where("id", ">", after)
        .orderBy("id")
        .limit(PAGE)
        .execute(),
    async (keys) => {
      const ids = keys.map(({ id }) => id);
      const sums = await db
        .selectFrom("journal")
        .select("key_id")
        .select(() => BOOKS.map((book) => sumAsText(dialect, book)))
        .where("key_id", "in", ids)
        .groupBy("key_id")
        .execute();
      const byKey = new Map(sums.map((sum) => [sum.key_id, sum]));
      return keys.flatMap((key) => keyDifferences(key, byKey.get(key.id)));
    },
  );

type BookTexts = Readonly<Record<Book, string>>;

function keyDifferences(
  key: BookTexts & { readonly id: string; readonly unlimited: string },
  sums: BookTexts | undefined,
): LedgerDifference[] {
  const found = BOOKS.flatMap((book) =>
    numberDifferences("keys", key.id, book, key[book], integerOf(sums?.[book] ?? "0") ?? 0n),
  );
  const [granted = 0n, charged = 0n, held = 0n] = [key.granted, key.charged, key.held].map(integerOf);
  const taken = charged + held;
  const most = key.unlimited === "0" ? granted : MOST;
  return taken > most
    ? [...found, { table: "keys", id: key.id, field: "used", stored: reported(taken), expected: reported(most) }]
    : found;
}

const HOLD_NUMBERS = ["granted", "used", "overdraft", "noted", "renewals"] as const;
const SUMMED = ["held", "charged", "overdraft", "noted"] as const;

const verifyHolds = (db: Kysely<SqlSchema>, dialect: SqlDialect): Promise<LedgerDifference[]> =>
  verifyPages(
    (after) =>
      db
        .selectFrom("holds")
        .select(["id", "key_id", "state"])
        .select(() => HOLD_NUMBERS.map((name) => asText(dialect, name)))
        .where("id", ">", after)
        .orderBy("id")
        .limit(PAGE)
        .execute(),
    async (holds) => {
      const ids = holds.map(({ id }) => id);
      const entries = await db
        .selectFrom("journal")
        .select(["hold_id", "key_id", "kind"])
        .select((eb) => eb.fn.countAll<number | string | bigint>().as("entries"))
        .select(() => SUMMED.map((name) => sumAsText(dialect, name)))
        .where("hold_id", "in", ids)
        .groupBy(["hold_id", "key_id", "kind"])
        .execute();
      const byHold = Map.groupBy(entries, ({ hold_id }) => hold_id);
      return holds.flatMap((hold) => holdDifferences(hold, byHold.get(hold.id) ?? []));
    },
  );

/** A stored hold, its numbers as text. */
type HoldTexts = Readonly<Record<"id" | "key_id" | "state" | (typeof HOLD_NUMBERS)[number], string>>;

/** The sums of one hold's entries of one kind. */
interface EntrySums extends Readonly<Record<(typeof SUMMED)[number], string>> {
  readonly entries: number | string | bigint;
  readonly key_id: string;
  readonly kind: string;
}

function holdDifferences(hold: HoldTexts, sums: readonly EntrySums[]): LedgerDifference[] {
  const { id } = hold;
  const ofKind = (kind?: string) => sums.filter((entry) => kind === undefined || entry.kind === kind);
  const sum = (column: (typeof SUMMED)[number], kind?: string): bigint =>
    ofKind(kind).reduce((total, entry) => total + (integerOf(entry[column]) ?? 0n), 0n);
  const count = (kind: string): number => ofKind(kind).reduce((total, { entries }) => total + Number(entries), 0);
  const live = hold.state === "live";
  const endings = sums.flatMap(({ kind, entries }) =>
    NOT_ENDINGS.has(kind) ? [] : Array.from({ length: Number(entries) }, () => kind),
  );
  const numbers: readonly [field: string, stored: string, expected: bigint][] = [
    ["entries", "1", BigInt(count("hold"))],
    ["granted", hold.granted, sum("held", "hold") + sum("held", "renew")],
    ["held", live ? hold.granted : "0", sum("held")],
    ["used", hold.used, sum("charged") + sum("overdraft")],
    ["overdraft", hold.overdraft, sum("overdraft")],
    ["noted", hold.noted, sum("noted")],
    ["renewals", hold.renewals, BigInt(count("renew"))],
  ];
  const words: readonly [field: string, stored: string, expected: string][] = [
    ["state", (ENDINGS[hold.state] ?? [hold.state]).join(), endings.toSorted().join()],
    ["key_id", hold.key_id, Array.from(new Set(sums.map(({ key_id }) => key_id))).join()],
  ];
  return [
    ...numbers.flatMap(([field, stored, expected]) => numberDifferences("holds", id, field, stored, expected)),
    ...words.flatMap(([field, stored, expected]) =>
      stored === expected ? [] : [{ table: "holds" as const, id, field, stored, expected }],
    ),
  ];
}

/** The units of holds in one period of a budget. */
interface PeriodSums {
  held: bigint;
  charged: bigint;
}

/** Compares each period of a budget with the shares of its holds. */
async function verifyBudgets(db: Kysely<SqlSchema>, dialect: SqlDialect): Promise<LedgerDifference[]> {
  const byPeriod = new Map<string, PeriodSums>();
  const unreadable = await verifyPages(
    (after) =>
      db
        .selectFrom("holds")
        .select(["id", "state", "shares"])
        .select(() => [asText(dialect, "granted"), asText(dialect, "used")])
        .where("shares", "is not", null)
        .where("id", ">", after)
        .orderBy("id")
        .limit(PAGE)
        .execute(),
    async (holds) => holds.flatMap((hold) => addShares(byPeriod, hold)),
  );
  const current = await verifyPages(
    (after) =>
      db
        .selectFrom("budgets")
        .select("id")
        .select(() => PERIOD_NUMBERS.map((name) => asText(dialect, name)))
        .where("id", ">", after)
        .orderBy("id")
        .limit(PAGE)
        .execute(),
    async (budgets) =>
      budgets.flatMap((budget) => periodDifferences("budgets", budget.id, budget, `${budget.starts_at} ${budget.id}`)),
  );
  const closed = await verifyPages(
    async (after) => {
      const budgetId = after.slice(after.indexOf(" ") + 1);
      const startsAt = Number(after.slice(0, Math.max(0, after.indexOf(" "))));
      const rows = await db
        .selectFrom("budget_periods")
        .select("budget_id")
        .select(() => PERIOD_NUMBERS.map((name) => asText(dialect, name)))
        .where((eb) =>
          eb.or([
            eb("budget_id", ">", budgetId),
            eb.and([eb("budget_id", "=", budgetId), eb("starts_at", ">", startsAt)]),
          ]),
        )
        .orderBy("budget_id")
        .orderBy("starts_at")
        .limit(PAGE)
        .execute();
      return rows.map((row) => ({ ...row, id: `${row.starts_at} ${row.budget_id}` }));
    },
    async (periods) => periods.flatMap((period) => periodDifferences("budget_periods", period.id, period, period.id)),
  );
  return [...unreadable, ...current, ...closed];

  function periodDifferences(
    table: LedgerDifference["table"],
    id: string,
    stored: Readonly<Record<(typeof PERIOD_NUMBERS)[number], string>>,
    period: string,
  ): LedgerDifference[] {
    const { held, charged } = byPeriod.get(period) ?? NOTHING;
    return [
      ...numberDifferences(table, id, "held", stored.held, held),
      ...numberDifferences(table, id, "charged", stored.charged, charged + (integerOf(stored.pruned) ?? 0n)),
    ];
  }
}

const PERIOD_NUMBERS = ["starts_at", "charged", "held", "pruned"] as const;
const NOTHING: PeriodSums = { held: 0n, charged: 0n };

/** Adds the shares of a hold to the sums of their periods. Returns a difference when the shares cannot be read. */
function addShares(
  byPeriod: Map<string, PeriodSums>,
  hold: Readonly<Record<"id" | "state" | "granted" | "used", string>> & { readonly shares: string | null },
): LedgerDifference[] {
  try {
    for (const [id, startsAt, overdraft] of parseJson(hold.shares ?? "[]") as StoredShare[]) {
      const period = `${startsAt} ${id}`;
      const sums = byPeriod.get(period) ?? { held: 0n, charged: 0n };
      if (hold.state === "live") sums.held += BigInt(hold.granted);
      else sums.charged += BigInt(hold.used) - BigInt(overdraft);
      byPeriod.set(period, sums);
    }
    return [];
  } catch {
    const stored = hold.shares ?? undefined;
    return [{ table: "holds", id: hold.id, field: "shares", stored, expected: "periods of budgets" }];
  }
}

/** Finds journal entries whose key or hold does not exist. */
async function orphans(db: Kysely<SqlSchema>): Promise<LedgerDifference[]> {
  const ofKeys = await db
    .selectFrom("journal")
    .select("key_id")
    .distinct()
    .where((eb) =>
      eb.not(eb.exists(eb.selectFrom("keys").select("keys.id").whereRef("keys.id", "=", "journal.key_id"))),
    )
    .limit(PAGE)
    .execute();
  const ofHolds = await db
    .selectFrom("journal")
    .select("hold_id")
    .distinct()
    .where("hold_id", "is not", null)
    .where((eb) =>
      eb.not(eb.exists(eb.selectFrom("holds").select("holds.id").whereRef("holds.id", "=", "journal.hold_id"))),
    )
    .limit(PAGE)
    .execute();
  const missing = { field: "missing", stored: undefined, expected: "a row, for the journal tells of it" };
  return [
    ...ofKeys.map(({ key_id }) => ({ table: "keys" as const, id: key_id, ...missing })),
    ...ofHolds.map(({ hold_id }) => ({ table: "holds" as const, id: hold_id ?? "", ...missing })),
  ];
}

/** Deletes the entries of holds of a key. One entry of the kind `carried` keeps the sums of all deleted entries of the key. */
export async function takeEntriesOf(
  { db }: SqlAccess,
  keyId: string,
  holdIds: readonly string[],
  now: number,
): Promise<void> {
  // Use two statements, because no index serves both conditions: one statement would read the key's whole journal.
  const ofHolds = await takeEntries(db, (eb) => eb("hold_id", "in", holdIds));
  const before = await takeEntries(db, (eb) =>
    eb.and([eb("hold_id", "is", null), eb("key_id", "=", keyId), eb("kind", "=", "carried")]),
  );
  const carried = Object.fromEntries(BOOKS.map((book) => [book, ofHolds[book] + before[book]])) as Sums;
  const entry = { key_id: keyId, hold_id: null, kind: "carried" as const, at: now, noted: 0, ...carried };
  await db.insertInto("journal").values(entry).execute();
}

type Sums = Record<Book, number>;

/** Deletes entries, and returns their sums. */
async function takeEntries(
  db: Kysely<SqlSchema>,
  which: (eb: ExpressionBuilder<SqlSchema, "journal">) => Expression<SqlBool>,
): Promise<Sums> {
  const sums = await db
    .selectFrom("journal")
    .select((eb) => BOOKS.map((book) => eb.fn.sum<StoredInteger | null>(book).as(book)))
    .where(which)
    .executeTakeFirstOrThrow();
  await db.deleteFrom("journal").where(which).execute();
  return Object.fromEntries(BOOKS.map((book) => [book, numberOf(sums[book] ?? 0)])) as Sums;
}
