/** Recomputes the SQL store's balances from its journal, and tells where the two differ. */

import { type AliasedRawBuilder, type Kysely, sql } from "kysely";
import { asText, retrying, type SqlDialect } from "./dialects.ts";
import { BOOKS, type SqlDatabase, type SqlSchema, type TableOptions, tablesOf, withTables } from "./schema.ts";

/** A number that is not what the journal comes to. */
export interface LedgerDifference {
  readonly table: "keys" | "holds";
  /** The id of the key or the hold. */
  readonly id: string;
  /** What differs; `missing` where the row itself is not there. */
  readonly field: string;
  readonly stored: number | string | undefined;
  /** What the journal says. */
  readonly expected: number | string | undefined;
}

export interface VerifyOptions extends TableOptions {
  readonly dialect: SqlDialect;
}

/** How many rows are compared at a time. */
const PAGE = 500;

/** What entries of a hold there are in each state, beside one `hold` and its renewals. */
const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  live: [],
  settled: ["settle"],
  expired: ["expire"],
  corrected: ["correct", "expire"],
};

/**
 * Compares every key and every hold with the journal, in one snapshot, and returns the differences: none in a ledger that only
 * the store has written. A number that no verb can have written, such as one beyond 2^53 - 1, is a difference, too. Numbers are read as
 * text and added up exactly, so that one spoilt row hides no other.
 */
export async function verifyLedger(
  db: SqlDatabase,
  { dialect, ...names }: VerifyOptions,
): Promise<readonly LedgerDifference[]> {
  const tables = withTables(db, tablesOf(names));
  const snapshot = () =>
    dialect === "sqlite" ? tables.transaction() : tables.transaction().setIsolationLevel("repeatable read");
  return retrying(dialect, () =>
    snapshot().execute(async (tx) => [
      ...(await verifyKeys(tx, dialect)),
      ...(await verifyHolds(tx, dialect)),
      ...(await orphans(tx)),
    ]),
  );
}

/** The sum of a column as text. */
const sumAsText = <Column extends string>(dialect: SqlDialect, column: Column): AliasedRawBuilder<string, Column> =>
  sql<string>`CAST(SUM(${sql.ref(column)}) AS ${sql.raw(dialect === "mysql" ? "CHAR" : "TEXT")})`.as(column);

const MOST = BigInt(Number.MAX_SAFE_INTEGER);

/** What a text says as an integer; undefined where it is none. */
const integerOf = (text: string): bigint | undefined =>
  /^-?\d+(\.0+)?$/.test(text) ? BigInt(text.split(".")[0] ?? "") : undefined;

/** An integer as it is told: as a number where that is exact. */
const told = (integer: bigint): number | string =>
  integer <= MOST && integer >= -MOST ? Number(integer) : integer.toString();

/** A stored number, and how it differs from what the journal comes to, or from what a verb can have written. */
function numberDifferences(
  table: LedgerDifference["table"],
  id: string,
  field: string,
  text: string,
  expected: bigint,
): LedgerDifference[] {
  const stored = integerOf(text);
  if (stored !== undefined && stored !== expected)
    return [{ table, id, field, stored: told(stored), expected: told(expected) }];
  if (stored !== undefined && stored >= 0n && stored <= MOST) return [];
  return [{ table, id, field, stored: text, expected: "an integer from 0 to 2^53 - 1" }];
}

async function verifyKeys(db: Kysely<SqlSchema>, dialect: SqlDialect): Promise<LedgerDifference[]> {
  const differences: LedgerDifference[] = [];
  for (let after = ""; ;) {
    const keys = await db
      .selectFrom("keys")
      .select("id")
      .select(() => [asText(dialect, "unlimited"), ...BOOKS.map((book) => asText(dialect, book))])
      .where("id", ">", after)
      .orderBy("id")
      .limit(PAGE)
      .execute();
    const last = keys.at(-1);
    if (!last) return differences;
    after = last.id;
    const sums = await db
      .selectFrom("journal")
      .select("key_id")
      .select(() => BOOKS.map((book) => sumAsText(dialect, book)))
      .where(
        "key_id",
        "in",
        keys.map(({ id }) => id),
      )
      .groupBy("key_id")
      .execute();
    const byKey = new Map(sums.map((sum) => [sum.key_id, sum]));
    for (const key of keys) differences.push(...keyDifferences(key, byKey.get(key.id)));
  }
}

type BookTexts = Readonly<Record<(typeof BOOKS)[number], string>>;

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
    ? [...found, { table: "keys", id: key.id, field: "used", stored: told(taken), expected: told(most) }]
    : found;
}

const HOLD_NUMBERS = ["granted", "used", "overdraft", "noted", "renewals"] as const;
const SUMMED = ["held", "charged", "overdraft", "noted"] as const;

async function verifyHolds(db: Kysely<SqlSchema>, dialect: SqlDialect): Promise<LedgerDifference[]> {
  const differences: LedgerDifference[] = [];
  for (let after = ""; ;) {
    const holds = await db
      .selectFrom("holds")
      .select(["id", "key_id", "state"])
      .select(() => HOLD_NUMBERS.map((name) => asText(dialect, name)))
      .where("id", ">", after)
      .orderBy("id")
      .limit(PAGE)
      .execute();
    const last = holds.at(-1);
    if (!last) return differences;
    after = last.id;
    const entries = await db
      .selectFrom("journal")
      .select(["hold_id", "key_id", "kind"])
      .select((eb) => eb.fn.countAll<number | string | bigint>().as("entries"))
      .select(() => SUMMED.map((name) => sumAsText(dialect, name)))
      .where(
        "hold_id",
        "in",
        holds.map(({ id }) => id),
      )
      .groupBy(["hold_id", "key_id", "kind"])
      .execute();
    const byHold = Map.groupBy(entries, ({ hold_id }) => hold_id);
    for (const hold of holds) differences.push(...holdDifferences(hold, byHold.get(hold.id) ?? []));
  }
}

/** A hold as it is stored, its numbers as text. */
type HoldTexts = Readonly<Record<"id" | "key_id" | "state" | (typeof HOLD_NUMBERS)[number], string>>;

/** The entries of one hold of one kind, added up. */
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
    kind in NOT_ENDINGS ? [] : Array.from({ length: Number(entries) }, () => kind),
  );
  const numbers: readonly [field: string, stored: string, expected: bigint][] = [
    ["entries", "1", BigInt(count("hold"))],
    ["granted", hold.granted, sum("held", "hold")],
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

const NOT_ENDINGS = { hold: true, renew: true, overdraft: true } as const;

/** Entries of keys and holds that are not there. */
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
