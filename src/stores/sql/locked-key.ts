/** One key whose row a transaction has locked: its arithmetic, and the rows that come of it. */

import { type Insertable, type Kysely, type Selectable, sql } from "kysely";
import type { Certainty } from "../../model/usage.ts";
import type { Reservation } from "../../ports/quota-store.ts";
import { Account, type Hold } from "../account.ts";
import { apiKeyOf } from "./api-key.ts";
import type { SqlDialect, TimeExpression } from "./dialects.ts";
import {
  type Books,
  booksWith,
  type EntryKind,
  type HoldTable,
  type JournalTable,
  type KeyTable,
  numberOf,
  type SqlSchema,
} from "./schema.ts";

/** The most expired holds that one transaction charges. */
export const SWEEP_BATCH = 100;

/** What verbs work with: the tables, and how the database tells its time and locks a row. */
export interface LedgerAccess {
  readonly db: Kysely<SqlSchema>;
  readonly dialect: SqlDialect;
  readonly time: TimeExpression;
}

/** The key to lock: by its id, or as the owner of a hold. */
export type KeyOf = { readonly keyId: string } | { readonly holdId: string };

type StoredHold = Selectable<HoldTable>;

/**
 * Locks a key's row until the transaction ends; undefined when there is no such key, or when it is locked already and `skipLocked`
 * is set. Every change of a key, its holds and its journal is made under this lock.
 */
export async function lockKey(
  { db, dialect, time }: LedgerAccess,
  of: KeyOf,
  skipLocked = false,
): Promise<LockedKey | undefined> {
  const row = await (dialect === "sqlite"
    ? // The first statement must write: a lock that is taken later could find that somebody else has written since.
      db
        .updateTable("keys")
        .set((eb) => ({ held: eb.ref("held") }))
        .where("id", "=", keyIdIn(db, of))
        .returningAll()
        .returning(time.as("now"))
        .executeTakeFirst()
    : db
        .selectFrom("keys")
        .selectAll()
        .select(time.as("now"))
        .where("id", "=", keyIdIn(db, of))
        .forUpdate()
        .$if(skipLocked, (query) => query.skipLocked())
        .executeTakeFirst());
  return row && new LockedKey(db, row, numberOf(row.now));
}

const keyIdIn = (db: Kysely<SqlSchema>, of: KeyOf) =>
  "keyId" in of ? sql.val(of.keyId) : db.selectFrom("holds").select("key_id").where("id", "=", of.holdId);

/** A key under the lock of a transaction. What is done to it is written at the end, by `write`. */
export class LockedKey {
  readonly id: string;
  readonly account: Account;
  /** Unix time in milliseconds, by the database's clock. */
  readonly now: number;
  readonly revoked: boolean;
  readonly #db: Kysely<SqlSchema>;
  readonly #entries: Insertable<JournalTable>[] = [];

  constructor(db: Kysely<SqlSchema>, row: Selectable<KeyTable>, now: number) {
    this.#db = db;
    this.id = row.id;
    this.now = now;
    this.revoked = row.revoked_at !== null;
    this.account = accountOf(row);
  }

  /** The hold of an id, whoever it belongs to, and holds of this key whose lease has run out, the first to end first. */
  async holds(holdId?: string): Promise<{ readonly asked: StoredHold | undefined; readonly expired: StoredHold[] }> {
    const expired = this.#db
      .selectFrom("holds")
      .selectAll()
      .where("key_id", "=", this.id)
      .where("state", "=", "live")
      .where("expires_at", "<=", this.now)
      .orderBy("expires_at")
      .limit(SWEEP_BATCH);
    if (holdId === undefined) return { asked: undefined, expired: await expired.execute() };
    const rows = await this.#db
      .selectFrom("holds")
      .selectAll()
      .where("id", "=", holdId)
      .unionAll((eb) => eb.selectFrom(expired.as("expired")).selectAll())
      .execute();
    const asked = rows.find(({ id }) => id === holdId);
    const ended = rows.filter((row) => row !== asked && row.id !== holdId);
    if (asked && this.#hasEnded(asked)) ended.push(asked);
    return { asked, expired: ended.toSorted((a, b) => numberOf(a.expires_at) - numberOf(b.expires_at)) };
  }

  #hasEnded(hold: StoredHold): boolean {
    return hold.key_id === this.id && hold.state === "live" && numberOf(hold.expires_at) <= this.now;
  }

  /** Charges holds whose lease has run out what their last renewals noted. */
  async expire(holds: readonly StoredHold[]): Promise<void> {
    if (holds.length === 0) return;
    await this.#db
      .updateTable("holds")
      .set((eb) => ({ state: "expired", used: eb.ref("noted"), resolved_at: this.now }))
      .where(
        "id",
        "in",
        holds.map(({ id }) => id),
      )
      .execute();
    for (const row of holds) {
      const hold = this.#holdOf(row);
      this.#journal("expire", row.id, () => this.account.resolve(hold, numberOf(row.noted), "estimated"));
      Object.assign(row, { state: "expired", used: row.noted, overdraft: hold.overdraft });
      // Seldom: a hold covers what it notes.
      if (hold.overdraft > 0)
        await this.#db.updateTable("holds").set({ overdraft: hold.overdraft }).where("id", "=", row.id).execute();
    }
  }

  /** Opens a hold with what there is between the two; refuses when that is too little. */
  async reserve(id: string, atLeast: number, atMost: number, leaseMs: number): Promise<Reservation> {
    const granted = this.account.grantable(atLeast, atMost);
    if (granted < atLeast) return this.refusal();
    const expires_at = this.now + leaseMs;
    const unresolved = { noted: 0, renewals: 0, used: 0, overdraft: 0, resolved_at: null };
    await this.#db
      .insertInto("holds")
      .values({ id, key_id: this.id, state: "live", granted, expires_at, ...unresolved })
      .execute();
    this.#journal("hold", id, () => this.account.hold(id, granted, expires_at));
    return { granted };
  }

  refusal(): Reservation {
    return { refused: true, available: this.account.available, held: this.account.held };
  }

  async renew(row: StoredHold, leaseMs: number, noted: number): Promise<void> {
    if (row.state !== "live") return;
    await this.#db
      .updateTable("holds")
      .set((eb) => ({ noted, renewals: eb("renewals", "+", 1), expires_at: this.now + leaseMs }))
      .where("id", "=", row.id)
      .execute();
    this.#enter("renew", row.id, { noted: noted - numberOf(row.noted) });
  }

  /** Charges a live hold, or corrects what its expiry charged. */
  async settle(row: StoredHold, used: number, certainty: Certainty): Promise<void> {
    if (row.state !== "live" && row.state !== "expired") return;
    const live = row.state === "live";
    const hold = this.#holdOf(row);
    this.#journal(live ? "settle" : "correct", row.id, () =>
      live ? this.account.resolve(hold, used, certainty) : this.account.correct(hold, used, certainty),
    );
    await this.#db
      .updateTable("holds")
      .set({ state: live ? "settled" : "corrected", used, overdraft: hold.overdraft, resolved_at: this.now })
      .where("id", "=", row.id)
      .execute();
  }

  /** Adds units to the quota. */
  grant(units: number): void {
    this.account.granted += units;
    this.#enter("grant", null, { granted: units });
  }

  #holdOf(row: StoredHold): Hold {
    const [granted, expiresAt] = [numberOf(row.granted), numberOf(row.expires_at)];
    const [used, overdraft] = [numberOf(row.used), numberOf(row.overdraft)];
    return { id: row.id, account: this.account, granted, expiresAt, used, overdraft, corrected: false };
  }

  /** Enters what the work changes. */
  #journal(kind: EntryKind, holdId: string, work: () => unknown): void {
    const before = booksOf(this.account);
    work();
    const after = booksOf(this.account);
    const { overdraft, ...changes } = Object.fromEntries(
      Object.entries(after).map(([name, value]) => [name, value - before[name as keyof Books]]),
    ) as Books;
    this.#enter(kind, holdId, changes);
    if (overdraft !== 0) this.#enter("overdraft", holdId, { overdraft });
  }

  #enter(kind: EntryKind, holdId: string | null, changes: Partial<Books & { noted: number }>): void {
    const nothing = booksWith(() => 0);
    this.#entries.push({ key_id: this.id, hold_id: holdId, kind, at: this.now, ...nothing, noted: 0, ...changes });
  }

  /** Writes the key's books and the journal. Rejects with a RangeError where a number would be beyond 2^53. */
  async write(): Promise<void> {
    if (this.#entries.length === 0) return;
    const books = booksOf(this.account);
    for (const [name, units] of Object.entries(books))
      if (!Number.isSafeInteger(units)) throw new RangeError(`The key's ${name} would be beyond 2^53.`);
    await this.#db.insertInto("journal").values(this.#entries).execute();
    if (this.#entries.some(({ kind }) => kind !== "renew"))
      await this.#db.updateTable("keys").set(books).where("id", "=", this.id).execute();
  }
}

function accountOf(row: Selectable<KeyTable>): Account {
  const account = new Account(apiKeyOf(row), numberOf(row.granted), numberOf(row.charged));
  account.held = numberOf(row.held);
  account.overdraft = numberOf(row.overdraft);
  account.estimated = numberOf(row.estimated);
  return account;
}

const booksOf = (account: Account): Books => booksWith((book) => account[book]);
