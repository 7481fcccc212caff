/** A key whose row a transaction has locked: the verbs change it in memory, and `write` stores all changes at once. */

import { type Insertable, type Selectable, sql } from "kysely";
import { parseJson } from "../../model/json.ts";
import type { ApiKey, Outcome, Renewal, Reservation } from "../../ports/quota-store.ts";
import type { BudgetEvent, Window } from "../budgets.ts";
import { HOLDS_AT_ONCE, isUnits, spoiltKey } from "../durable.ts";
import {
  Account,
  apiKeyOf,
  BOOKS,
  expireHold,
  foreignHold,
  type Hold,
  holdUnits,
  MOST_LEASE_MS,
  noteHold,
  resolveHold,
  type Share,
  tightestOf,
} from "../ledger.ts";
import { chainOf, LockedBudgets, type StoredShare } from "./budgets.ts";
import { byCount, slot, slotRows, type SqlAccess, type Statement } from "./database.ts";
import {
  type EntryKind,
  type HoldTable,
  type JournalTable,
  type KeyTable,
  numberOf,
  type StoredInteger,
} from "./tables.ts";

/**
 * Locks a key's row until the transaction ends. Returns undefined when there is no such key, or when `skipLocked` is set and the row
 * is locked already. Every change of a key, its holds and its journal is made under this lock.
 */
export async function lockKey(access: SqlAccess, keyId: string, skipLocked = false): Promise<LockedKey | undefined> {
  const [row] = await access.run(skipLocked ? LOCK_IF_FREE : LOCK, [keyId]);
  return row && new LockedKey(access, row);
}

/** A key under the lock of a transaction. */
export class LockedKey {
  readonly id: string;
  readonly account: Account;
  /** Unix time in milliseconds, by the database's clock. */
  readonly now: number;
  readonly revoked: boolean;
  /** The ids of the key's budget, its parent, and so on. Empty without a budget. */
  readonly chain: readonly string[];
  /** The locked budgets of the key and of its holds. Undefined while there are none. */
  #budgets: LockedBudgets | undefined;
  /** The least units of the largest refused call. */
  #refused = 0;
  readonly #access: SqlAccess;
  /** The holds that were read or opened, by their ids. */
  readonly #holds = new Map<string, StoredHold>();
  readonly #opened = new Set<StoredHold>();
  readonly #changed = new Set<StoredHold>();
  readonly #entries: Insertable<JournalTable>[] = [];

  constructor(access: SqlAccess, row: LockedRow) {
    this.#access = access;
    this.id = row.id;
    this.now = numberOf(row.now);
    this.revoked = row.revoked_at !== null;
    this.account = accountOf(row);
    this.chain = chainOf(row.budgets);
  }

  /**
   * Reads the holds with the given ids, and charges expired holds of this key. Returns the number of charged holds. When that is
   * `HOLDS_AT_ONCE`, there may be more.
   */
  async load(holdIds: readonly string[], budgets: LockedBudgets | undefined): Promise<number> {
    const rows = await this.#access.run(HOLDS(holdIds.length), [this.id, this.now, ...holdIds]);
    const expired = new Set<StoredHold>();
    for (const row of rows) {
      // Skip a row with corrupt numbers, so that it does not block other rows. An audit reports it.
      const hold = this.#holds.get(row.id) ?? storedHoldOf(row);
      if (!hold) continue;
      this.#holds.set(hold.id, hold);
      if (hold.key_id === this.id && hold.state === "live" && hold.expires_at <= this.now) expired.add(hold);
    }
    this.#budgets = await this.#lockShares(budgets);
    for (const hold of Array.from(expired).toSorted((one, other) => one.expires_at - other.expires_at)) {
      this.#charge(hold, "expire", (shares) => expireHold(this.account, hold, shares));
    }
    return expired.size;
  }

  /** Locks the budgets of holds that may still be charged, beside the locked budgets of the key. */
  async #lockShares(budgets: LockedBudgets | undefined): Promise<LockedBudgets | undefined> {
    const shares: StoredShare[] = [];
    for (const { key_id, state, shares: own } of this.#holds.values())
      if (own && key_id === this.id && (state === "live" || state === "expired"))
        shares.push(...(parseJson(own) as StoredShare[]));
    if (shares.length === 0) return budgets;
    const locked = budgets ?? (await LockedBudgets.lock(this.#access, [], this.now));
    await locked.load(shares);
    return locked;
  }

  /** The books that cover a hold beside the key's own. Undefined when there are none. */
  #sharesOf({ shares }: StoredHold): readonly OwnedShare[] | undefined {
    if (shares === null) return undefined;
    return (parseJson(shares) as StoredShare[]).flatMap(([id, startsAt, overdraft]) => {
      const books = this.#budgets?.booksOf(id, startsAt);
      return books ? { id, startsAt, books, overdraft } : [];
    });
  }

  /** Charges a hold to the key and its budgets by `work`, and keeps the overdraft of each share. */
  #charge(hold: StoredHold, kind: EntryKind, work: (shares: readonly Share[] | undefined) => void): void {
    const shares = this.#sharesOf(hold);
    this.#enterChange(kind, hold.id, () => work(shares));
    const stored = shares && JSON.stringify(shares.map(({ id, startsAt, overdraft }) => [id, startsAt, overdraft]));
    this.#change(hold, { resolved_at: this.now, ...(stored !== undefined && { shares: stored }) });
  }

  /** Returns the thresholds that the key's budgets have reached, and remembers them. */
  news(): readonly BudgetEvent[] {
    return this.#budgets?.news(this.#refused, this.chain) ?? [];
  }

  /** True when a hold that was read belongs to another key. */
  isForeign(holdId: string): boolean {
    const hold = this.#holds.get(holdId);
    return hold !== undefined && hold.key_id !== this.id;
  }

  /** Opens a hold of between `atLeast` and `atMost` units. Refuses when fewer than `atLeast` units are available. */
  reserve(id: string, atLeast: number, atMost: number, leaseMs: number): Reservation {
    if (this.isForeign(id)) throw foreignHold();
    const known = this.#holds.get(id);
    // A resolved hold does not admit another call.
    const windows = this.#windows;
    if (known) return known.state === "live" ? { granted: known.granted } : tightestOf(this.account, windows).refusal;
    const granted = holdUnits(this.account, windows, atLeast, atMost);
    if (granted === undefined) {
      this.#refused = Math.max(this.#refused, atLeast);
      return tightestOf(this.account, windows).refusal;
    }
    const units = { granted, noted: 0, renewals: 0, used: 0, overdraft: 0 };
    const times = { expires_at: this.now + Math.min(leaseMs, MOST_LEASE_MS), resolved_at: null };
    const shares = windows && JSON.stringify(windows.map(({ startsAt }, index) => [this.chain[index], startsAt, 0]));
    const hold: StoredHold = { id, key_id: this.id, state: "live", ...units, ...times, shares: shares ?? null };
    this.#enter("hold", id, { held: granted });
    this.#holds.set(id, hold);
    this.#opened.add(hold);
    return { granted };
  }

  get #windows(): readonly Window[] | undefined {
    return this.chain.length > 0 ? this.#budgets?.windowsOf(this.chain) : undefined;
  }

  renew(id: string, renewal: Renewal): void {
    const hold = this.#holds.get(id);
    if (hold?.state !== "live") return;
    const notedBefore = hold.noted;
    const freed = noteHold(this.account, hold, this.#sharesOf(hold), renewal);
    this.#enter("renew", id, { noted: hold.noted - notedBefore, held: -freed });
    const expires_at = this.now + Math.min(renewal.leaseMs, MOST_LEASE_MS);
    this.#change(hold, { renewals: hold.renewals + 1, expires_at });
  }

  /**
   * Charges a live hold, or corrects the charge of an expired hold. Throws a RangeError, and changes nothing, when a book would pass
   * 2^53 - 1.
   */
  settle(id: string, outcome: Outcome): void {
    const hold = this.#holds.get(id);
    if (!hold || (hold.state !== "live" && hold.state !== "expired")) return;
    const [kind, state] =
      hold.state === "live" ? (["settle", "settled"] as const) : (["correct", "corrected"] as const);
    this.#charge(hold, kind, (shares) => resolveHold(this.account, hold, shares, state, outcome));
  }

  /** Adds units to the quota, or takes them back. Throws a RangeError, and changes nothing, as `Account.grant` does. */
  grant(units: number): void {
    this.account.grant(units);
    this.#enter("grant", null, { granted: units });
  }

  #change(hold: StoredHold, changes: Partial<StoredHold>): void {
    Object.assign(hold, changes);
    if (!this.#opened.has(hold)) this.#changed.add(hold);
  }

  /** Runs `work`, which changes the books, and adds the differences to the journal. */
  #enterChange(kind: EntryKind, holdId: string, work: () => void): void {
    const { charged, held, overdraft, estimated } = this.account;
    work();
    this.#enter(kind, holdId, {
      charged: this.account.charged - charged,
      held: this.account.held - held,
      estimated: this.account.estimated - estimated,
    });
    const overdrawn = this.account.overdraft - overdraft;
    if (overdrawn !== 0) this.#enter("overdraft", holdId, { overdraft: overdrawn });
  }

  #enter(kind: EntryKind, holdId: string | null, changes: Partial<Insertable<JournalTable>>): void {
    const nothing = { granted: 0, charged: 0, held: 0, overdraft: 0, estimated: 0, noted: 0 };
    this.#entries.push({ key_id: this.id, hold_id: holdId, kind, at: this.now, ...nothing, ...changes });
  }

  /**
   * Writes the changed holds, the new journal entries and, if they have changed, the key's books and its budgets. Leaves out `shared`,
   * the budgets of several keys, which the caller writes after the last key.
   */
  async write(shared?: LockedBudgets): Promise<void> {
    const isChanged = this.#entries.some(({ kind, held }) => kind !== "renew" || held !== 0);
    if (isChanged) this.#budgets?.change();
    if (this.#budgets !== shared) await this.#budgets?.write();
    if (this.#entries.length === 0) return;
    await this.#insert(OPEN, HOLD_COLUMNS, Array.from(this.#opened));
    await this.#insert(CHANGE, HOLD_COLUMNS, Array.from(this.#changed));
    await this.#insert(ENTER, ENTRY_COLUMNS, this.#entries);
    if (!isChanged) return;
    await this.#access.run(WRITE_BOOKS, [this.id, ...BOOKS.map((book) => this.account[book])]);
  }

  async #insert<Columns extends object>(
    statement: (count: number) => Statement<unknown>,
    columns: readonly (keyof Columns)[],
    rows: readonly Columns[],
  ): Promise<void> {
    for (let at = 0; at < rows.length;) {
      const remaining = rows.length - at;
      // In SQLite, insert rows in groups of 1, 2, 4 and so on: few statements stay prepared, and a further statement costs no round
      // trip.
      const fitting = this.#access.dialect === "sqlite" ? 2 ** Math.floor(Math.log2(remaining)) : remaining;
      const count = Math.min(MOST_ROWS, fitting);
      const values = rows.slice(at, at + count).flatMap((row) => columns.map((name) => row[name]));
      await this.#access.run(statement(count), values);
      at += count;
    }
  }
}

/** One statement inserts at most this many rows. */
const MOST_ROWS = 128;

/** The row of a hold, after its numbers were checked. */
interface StoredHold extends Hold {
  readonly id: string;
  readonly key_id: string;
  renewals: number;
  expires_at: number;
  resolved_at: number | null;
  /** The periods of budgets that cover the hold, as JSON; null without a budget. */
  shares: string | null;
}

/** A share of a hold, with the budget and the beginning of the period. */
interface OwnedShare extends Share {
  readonly id: string;
  readonly startsAt: number;
}

const HOLD_NUMBERS = ["granted", "noted", "renewals", "used", "overdraft", "expires_at"] as const;
const HOLD_COLUMNS = ["id", "key_id", "state", ...HOLD_NUMBERS, "resolved_at", "shares"] as const;
/** The columns of a hold that change. */
const HOLD_CHANGES = [
  "state",
  "granted",
  "noted",
  "renewals",
  "used",
  "overdraft",
  "expires_at",
  "resolved_at",
  "shares",
] as const;
const ENTRY_COLUMNS = ["key_id", "hold_id", "kind", "at", ...BOOKS, "noted"] as const;

/** Converts the row of a hold. Returns undefined when one of its numbers, or its shares, are corrupt. */
function storedHoldOf(row: Selectable<HoldTable>): StoredHold | undefined {
  if (HOLD_NUMBERS.some((name) => !isUnits(Number(row[name])))) return undefined;
  if (row.shares !== null && !areShares(row.shares)) return undefined;
  const numbers = Object.fromEntries(HOLD_NUMBERS.map((name) => [name, Number(row[name])]));
  const resolved_at = row.resolved_at === null ? null : Number(row.resolved_at);
  // The cast is safe: the names are those of the row's columns.
  return {
    id: row.id,
    key_id: row.key_id,
    state: row.state,
    ...numbers,
    resolved_at,
    shares: row.shares,
  } as StoredHold;
}

function areShares(stored: string): boolean {
  try {
    const shares = parseJson(stored);
    return (
      Array.isArray(shares) &&
      shares.every(
        (share) => Array.isArray(share) && typeof share[0] === "string" && isUnits(share[1]) && isUnits(share[2]),
      )
    );
  } catch {
    return false;
  }
}

type LockedRow = Selectable<KeyTable> & { readonly now: StoredInteger };

/** Reads a key and its books. Throws an Error that names the key when a number in its row is corrupt. */
function accountOf(row: LockedRow): Account {
  for (const book of BOOKS) if (!isUnits(Number(row[book]))) throw spoiltKey(row.id, book, row[book]);
  const account = new Account(
    storedKeyOf(row),
    numberOf(row.unlimited) === 1,
    Number(row.granted),
    Number(row.charged),
  );
  account.held = Number(row.held);
  account.overdraft = Number(row.overdraft);
  account.estimated = Number(row.estimated);
  return account;
}

/** Reads an api key from its row. */
export function storedKeyOf(
  row: Pick<Selectable<KeyTable>, "id" | "name" | "unlimited" | "models" | "expires_at" | "budgets" | "metadata">,
): ApiKey {
  const { id, name } = row;
  const [budget] = chainOf(row.budgets);
  const models = row.models === null ? undefined : (parseJson(row.models) as string[]);
  const unlimited = numberOf(row.unlimited) === 1 && budget === undefined;
  const metadata = row.metadata === null ? undefined : (parseJson(row.metadata) as Record<string, string>);
  return apiKeyOf({ id, name, unlimited, expiresAt: numberOf(row.expires_at), budget }, models, metadata);
}

// In SQLite the first statement of a transaction must write, so that it takes the write lock at once. If the transaction read first,
// another transaction could write before the lock is taken, and the lock would then fail.
const lockStatement = (skipLocked: boolean): Statement<LockedRow> => ({
  build: ({ db, dialect, time }) =>
    dialect === "sqlite"
      ? db
          .updateTable("keys")
          .set((eb) => ({ held: eb.ref("held") }))
          .where("id", "=", slot<string>(0))
          .returningAll()
          .returning(time.as("now"))
          .compile()
      : db
          .selectFrom("keys")
          .selectAll()
          .select(time.as("now"))
          .where("id", "=", slot<string>(0))
          .forUpdate()
          .$if(skipLocked, (query) => query.skipLocked())
          .compile(),
});

const LOCK = lockStatement(false);
const LOCK_IF_FREE = lockStatement(true);

/** Reads the holds with some ids, of any key, and the expired holds of one key. Values: the key's id, the current time, the holds' ids. */
const HOLDS = byCount<Selectable<HoldTable>>(({ db }, count) => {
  const expired = db
    .selectFrom("holds")
    .selectAll()
    .where("key_id", "=", slot<string>(0))
    .where("state", "=", "live")
    .where("expires_at", "<=", slot<number>(1))
    .orderBy("expires_at")
    .limit(HOLDS_AT_ONCE);
  if (count === 0) return expired.compile();
  const ids = Array.from({ length: count }, (_, index) => slot<string>(index + 2));
  return db
    .selectFrom("holds")
    .selectAll()
    .where("id", "in", ids)
    .unionAll((eb) => eb.selectFrom(expired.as("expired")).selectAll())
    .compile();
});

/** Inserts new holds. Fails with a conflict when an id exists already. */
const OPEN = byCount(({ db }, count) =>
  db.insertInto("holds").values(slotRows<Insertable<HoldTable>>(HOLD_COLUMNS, count)).compile(),
);

/** Updates holds that were read under the same lock of their key. */
const CHANGE = byCount(({ db, dialect }, count) => {
  const insert = db.insertInto("holds").values(slotRows<Insertable<HoldTable>>(HOLD_COLUMNS, count));
  const given = (column: string) =>
    dialect === "mysql" ? sql`VALUES(${sql.ref(column)})` : sql.ref(`excluded.${column}`);
  const changes = Object.fromEntries(HOLD_CHANGES.map((column) => [column, given(column)]));
  return dialect === "mysql"
    ? insert.onDuplicateKeyUpdate(changes).compile()
    : insert.onConflict((conflict) => conflict.column("id").doUpdateSet(changes)).compile();
});

const ENTER = byCount(({ db }, count) =>
  db.insertInto("journal").values(slotRows<Insertable<JournalTable>>(ENTRY_COLUMNS, count)).compile(),
);

const WRITE_BOOKS: Statement<unknown> = {
  build: ({ db }) =>
    db
      .updateTable("keys")
      .set(Object.fromEntries(BOOKS.map((book, index) => [book, slot<number>(index + 1)])))
      .where("id", "=", slot<string>(0))
      .compile(),
};
