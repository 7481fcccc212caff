/** Recomputes the SQL store's balances from its journal, and tells where the two differ. */

import type { Kysely, Selectable } from "kysely";
import { retrying, type SqlDialect } from "./dialects.ts";
import {
  BOOKS,
  type HoldTable,
  type KeyTable,
  numberOf,
  type SqlDatabase,
  type SqlSchema,
  type StoredInteger,
  type TableOptions,
  tablesOf,
  withTables,
} from "./schema.ts";

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
 * the store has written.
 */
export async function verifyLedger(
  db: SqlDatabase,
  { dialect, ...names }: VerifyOptions,
): Promise<readonly LedgerDifference[]> {
  const tables = withTables(db, tablesOf(names));
  const snapshot = () =>
    dialect === "sqlite" ? tables.transaction() : tables.transaction().setIsolationLevel("repeatable read");
  return retrying(dialect, () =>
    snapshot().execute(async (tx) => [...(await verifyKeys(tx)), ...(await verifyHolds(tx)), ...(await orphans(tx))]),
  );
}

async function verifyKeys(db: Kysely<SqlSchema>): Promise<LedgerDifference[]> {
  const differences: LedgerDifference[] = [];
  for (let after = ""; ;) {
    const keys = await db.selectFrom("keys").selectAll().where("id", ">", after).orderBy("id").limit(PAGE).execute();
    const last = keys.at(-1);
    if (!last) return differences;
    after = last.id;
    const sums = await db
      .selectFrom("journal")
      .select("key_id")
      .select((eb) => BOOKS.map((column) => eb.fn.sum<StoredInteger>(column).as(column)))
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

function keyDifferences(
  key: Selectable<KeyTable>,
  sums: Readonly<Record<(typeof BOOKS)[number], StoredInteger>> | undefined,
): LedgerDifference[] {
  const found = BOOKS.flatMap((field) =>
    differing("keys", key.id, field, numberOf(key[field]), numberOf(sums?.[field] ?? 0)),
  );
  const [granted, taken] = [numberOf(key.granted), numberOf(key.charged) + numberOf(key.held)];
  const overspent = numberOf(key.unlimited) === 0 && taken > granted;
  return overspent ? [...found, { table: "keys", id: key.id, field: "used", stored: taken, expected: granted }] : found;
}

async function verifyHolds(db: Kysely<SqlSchema>): Promise<LedgerDifference[]> {
  const differences: LedgerDifference[] = [];
  for (let after = ""; ;) {
    const holds = await db.selectFrom("holds").selectAll().where("id", ">", after).orderBy("id").limit(PAGE).execute();
    const last = holds.at(-1);
    if (!last) return differences;
    after = last.id;
    const entries = await db
      .selectFrom("journal")
      .select(["hold_id", "key_id", "kind"])
      .select((eb) => [
        eb.fn.countAll<StoredInteger>().as("entries"),
        eb.fn.sum<StoredInteger>("held").as("held"),
        eb.fn.sum<StoredInteger>("charged").as("charged"),
        eb.fn.sum<StoredInteger>("overdraft").as("overdraft"),
        eb.fn.sum<StoredInteger>("noted").as("noted"),
      ])
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

/** The entries of one hold of one kind, added up. */
interface EntrySums extends Record<"entries" | "held" | "charged" | "overdraft" | "noted", StoredInteger> {
  readonly key_id: string;
  readonly kind: string;
}

function holdDifferences(hold: Selectable<HoldTable>, sums: readonly EntrySums[]): LedgerDifference[] {
  const { id } = hold;
  const sum = (column: Exclude<keyof EntrySums, "key_id" | "kind">, kind?: string): number =>
    sums
      .filter((entry) => kind === undefined || entry.kind === kind)
      .reduce((total, entry) => total + numberOf(entry[column]), 0);
  const live = hold.state === "live";
  const [granted, used, overdraft] = [numberOf(hold.granted), numberOf(hold.used), numberOf(hold.overdraft)];
  const endings = sums.flatMap(({ kind, entries }) =>
    kind in NOT_ENDINGS ? [] : Array.from({ length: numberOf(entries) }, () => kind),
  );
  const pairs: readonly [field: string, stored: number | string, expected: number | string][] = [
    ["entries", 1, sum("entries", "hold")],
    ["granted", granted, sum("held", "hold")],
    ["held", live ? granted : 0, sum("held")],
    ["used", used, sum("charged") + sum("overdraft")],
    ["overdraft", overdraft, sum("overdraft")],
    ["noted", numberOf(hold.noted), sum("noted")],
    ["renewals", numberOf(hold.renewals), sum("entries", "renew")],
    ["state", (ENDINGS[hold.state] ?? [hold.state]).join(), endings.toSorted().join()],
    ["key_id", hold.key_id, Array.from(new Set(sums.map(({ key_id }) => key_id))).join()],
  ];
  return pairs.flatMap(([field, stored, expected]) => differing("holds", id, field, stored, expected));
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

const differing = (
  table: LedgerDifference["table"],
  id: string,
  field: string,
  stored: number | string,
  expected: number | string,
): LedgerDifference[] => (stored === expected ? [] : [{ table, id, field, stored, expected }]);
