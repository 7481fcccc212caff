/** One key whose row a transaction has locked: its arithmetic, and the rows that come of it. */

import { type Insertable, type Kysely, type Selectable, sql } from "kysely";
import type { Certainty } from "../../model/usage.ts";
import type { Reservation } from "../../ports/quota-store.ts";
import { Account, type Hold } from "../account.ts";
import { foreignHold } from "../durable-input.ts";
import { apiKeyOf } from "./api-key.ts";
import type { SqlDialect, TimeExpression } from "./dialects.ts";
import {
  BOOKS,
  type EntryKind,
  type HoldState,
  type HoldTable,
  isCountable,
  type JournalTable,
  type KeyTable,
  numberOf,
  type SqlSchema,
  type StoredInteger,
} from "./schema.ts";
import { byCount, slot, slotRows, type Statement, type Statements, valuesOf } from "./statements.ts";

/** The upper bound of expired holds that one transaction charges. */
export const SWEEP_BATCH = 100;

/** What verbs work with: the tables, the store's statements, and how the database tells its time and locks a row. */
export interface LedgerAccess {
  readonly db: Kysely<SqlSchema>;
  readonly statements: Statements;
  readonly dialect: SqlDialect;
  readonly time: TimeExpression;
}

type KeyRow = Selectable<KeyTable> & { readonly now: StoredInteger };

// The first statement of a transaction in SQLite must write: a lock that is taken later could find that somebody else has written since.
const lockedRow = (skipLocked: boolean): Statement<KeyRow> => ({
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

const [LOCK, LOCK_IF_FREE] = [lockedRow(false), lockedRow(true)];

/**
 * Locks a key's row until the transaction ends; undefined when there is no such key, or when it is locked already and `skipLocked`
 * is set. Every change of a key, its holds and its journal is made under this lock.
 */
export async function lockKey(access: LedgerAccess, keyId: string, skipLocked = false): Promise<LockedKey | undefined> {
  const statement = skipLocked ? LOCK_IF_FREE : LOCK;
  const [row] = (await access.statements.run(access.db, statement, [keyId])).rows;
  return row && new LockedKey(access, row);
}

/** A hold as it is read and written, its numbers checked. */
interface HoldRow {
  readonly id: string;
  readonly key_id: string;
  state: HoldState;
  readonly granted: number;
  noted: number;
  renewals: number;
  used: number;
  overdraft: number;
  expires_at: number;
  resolved_at: number | null;
}

const HOLD_COLUMNS = [
  "id",
  "key_id",
  "state",
  "granted",
  "noted",
  "renewals",
  "used",
  "overdraft",
  "expires_at",
  "resolved_at",
] as const;

const HOLD_NUMBERS = ["granted", "noted", "renewals", "used", "overdraft", "expires_at"] as const;

/** The columns of a hold that change. */
const HOLD_CHANGES = ["state", "noted", "renewals", "used", "overdraft", "expires_at", "resolved_at"] as const;

const ENTRY_COLUMNS = [
  "key_id",
  "hold_id",
  "kind",
  "at",
  "granted",
  "charged",
  "held",
  "overdraft",
  "estimated",
  "noted",
] as const;

/** The holds of some ids, whoever they belong to, and those of a key whose lease has run out. Values: the key, its time, the ids. */
const HOLDS = byCount<Selectable<HoldTable>>(({ db }, count) => {
  const expired = db
    .selectFrom("holds")
    .selectAll()
    .where("key_id", "=", slot<string>(0))
    .where("state", "=", "live")
    .where("expires_at", "<=", slot<number>(1))
    .orderBy("expires_at")
    .limit(SWEEP_BATCH);
  if (count === 0) return expired.compile();
  const ids = Array.from({ length: count }, (_, index) => slot<string>(index + 2));
  return db
    .selectFrom("holds")
    .selectAll()
    .where("id", "in", ids)
    .unionAll((eb) => eb.selectFrom(expired.as("expired")).selectAll())
    .compile();
});

/** Writes new holds. Fails with a conflict where an id is taken. */
const OPEN = byCount(({ db }, count) =>
  db.insertInto("holds").values(slotRows<Insertable<HoldTable>>(HOLD_COLUMNS, count)).compile(),
);

/** Writes holds that were read before, under the lock of their key. */
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

/** A key under the lock of a transaction. What is done to it is written at the end, by `write`. */
export class LockedKey {
  readonly id: string;
  readonly account: Account;
  /** Unix time in milliseconds, by the database's clock. */
  readonly now: number;
  readonly revoked: boolean;
  readonly #access: LedgerAccess;
  /** The holds that were read or opened, by their ids. */
  readonly #holds = new Map<string, HoldRow>();
  readonly #opened = new Set<HoldRow>();
  readonly #changed = new Set<HoldRow>();
  readonly #entries: Insertable<JournalTable>[] = [];

  constructor(access: LedgerAccess, row: KeyRow) {
    this.#access = access;
    this.id = row.id;
    this.now = numberOf(row.now);
    this.revoked = row.revoked_at !== null;
    this.account = accountOf(row);
  }

  /**
   * Reads the holds of some ids, and charges some holds of this key whose lease has run out what their last renewals noted. Returns
   * how many it has charged; where that is `SWEEP_BATCH` there may be more.
   */
  async load(holdIds: readonly string[] = []): Promise<number> {
    const { statements, db } = this.#access;
    const { rows } = await statements.run(db, HOLDS(holdIds.length), [this.id, this.now, ...holdIds]);
    const expired = new Map<string, HoldRow>();
    for (const row of rows) {
      // A row that a hand has spoilt is left for an audit to name, and holds up no other.
      const hold = this.#holds.get(row.id) ?? holdOf(row);
      if (!hold) continue;
      this.#holds.set(hold.id, hold);
      if (hold.key_id === this.id && hold.state === "live" && hold.expires_at <= this.now) expired.set(hold.id, hold);
    }
    for (const hold of Array.from(expired.values()).toSorted((a, b) => a.expires_at - b.expires_at)) this.#expire(hold);
    return expired.size;
  }

  /** Whether a hold that was read belongs to another key. */
  isForeign(holdId: string): boolean {
    const hold = this.#holds.get(holdId);
    return hold !== undefined && hold.key_id !== this.id;
  }

  /** Opens a hold with what there is between the two; refuses when that is too little. */
  reserve(id: string, atLeast: number, atMost: number, leaseMs: number): Reservation {
    if (this.isForeign(id)) throw foreignHold();
    const known = this.#holds.get(id);
    // A resolved hold does not admit another call.
    if (known) return known.state === "live" ? { granted: known.granted } : this.#refusal();
    const granted = this.account.grantable(atLeast, atMost);
    if (granted < atLeast) return this.#refusal();
    const hold: HoldRow = {
      id,
      key_id: this.id,
      state: "live",
      granted,
      noted: 0,
      renewals: 0,
      used: 0,
      overdraft: 0,
      expires_at: this.now + leaseMs,
      resolved_at: null,
    };
    this.#journal("hold", id, () => this.account.hold(id, granted, hold.expires_at));
    this.#holds.set(id, hold);
    this.#opened.add(hold);
    return { granted };
  }

  #refusal(): Reservation {
    return { refused: true, available: this.account.available, held: this.account.held };
  }

  renew(id: string, leaseMs: number, noted: number): void {
    const hold = this.#holds.get(id);
    if (hold?.state !== "live") return;
    this.#enter("renew", id, { noted: noted - hold.noted });
    this.#change(hold, { noted, renewals: hold.renewals + 1, expires_at: this.now + leaseMs });
  }

  /** Charges a live hold, or corrects what its expiry charged. Throws a RangeError, and changes nothing, where that cannot be counted. */
  settle(id: string, used: number, certainty: Certainty): void {
    const row = this.#holds.get(id);
    if (!row || (row.state !== "live" && row.state !== "expired")) return;
    const live = row.state === "live";
    const hold = this.#accountHold(row);
    this.#journal(live ? "settle" : "correct", id, () =>
      live ? this.account.resolve(hold, used, certainty) : this.account.correct(hold, used, certainty),
    );
    const { overdraft } = hold;
    this.#change(row, { state: live ? "settled" : "corrected", used, overdraft, resolved_at: this.now });
  }

  #expire(row: HoldRow): void {
    const hold = { ...this.#accountHold(row), used: row.noted };
    this.#journal("expire", row.id, () => this.account.expire(hold));
    const { used, overdraft } = hold;
    this.#change(row, { state: "expired", used, overdraft, resolved_at: this.now });
  }

  /** Adds units to the quota. Throws a RangeError, and changes nothing, where they cannot be counted. */
  grant(units: number): void {
    this.account.grant(units);
    this.#enter("grant", null, { granted: units });
  }

  #accountHold({ id, granted, expires_at, used, overdraft }: HoldRow): Hold {
    return { id, account: this.account, granted, expiresAt: expires_at, used, overdraft, corrected: false };
  }

  #change(hold: HoldRow, changes: Partial<HoldRow>): void {
    Object.assign(hold, changes);
    if (!this.#opened.has(hold)) this.#changed.add(hold);
  }

  /** Does what changes the books, and enters by how much. */
  #journal(kind: EntryKind, holdId: string, work: () => unknown): void {
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

  /** Writes the holds, the journal and the key's books, as far as they have changed. */
  async write(): Promise<void> {
    if (this.#entries.length === 0) return;
    const { account } = this;
    await this.#insert(OPEN, HOLD_COLUMNS, Array.from(this.#opened));
    await this.#insert(CHANGE, HOLD_COLUMNS, Array.from(this.#changed));
    await this.#insert(ENTER, ENTRY_COLUMNS, this.#entries);
    if (this.#entries.every(({ kind }) => kind === "renew")) return;
    const { statements, db } = this.#access;
    await statements.run(db, WRITE_BOOKS, [this.id, ...BOOKS.map((book) => account[book])]);
  }

  async #insert<Row extends object>(
    statement: (count: number) => Statement<unknown>,
    columns: readonly (keyof Row)[],
    rows: readonly Row[],
  ): Promise<void> {
    const { statements, db, dialect } = this.#access;
    for (let at = 0; at < rows.length;) {
      const left = rows.length - at;
      // SQLite keeps few statements prepared, and takes no round trip for another one.
      const count = Math.min(MOST_ROWS, dialect === "sqlite" ? 2 ** Math.floor(Math.log2(left)) : left);
      await statements.run(db, statement(count), valuesOf(columns, rows.slice(at, at + count)));
      at += count;
    }
  }
}

/** The upper bound of rows that one statement inserts. */
const MOST_ROWS = 128;

/** A hold's row with its numbers checked; undefined where one is none that a verb has written. */
function holdOf(row: Selectable<HoldTable>): HoldRow | undefined {
  if (HOLD_NUMBERS.some((name) => !isCountable(row[name]))) return undefined;
  const numbers = Object.fromEntries(HOLD_NUMBERS.map((name) => [name, Number(row[name])]));
  const resolved_at = row.resolved_at === null ? null : Number(row.resolved_at);
  // The names are those of the columns that were read.
  return { id: row.id, key_id: row.key_id, state: row.state, ...numbers, resolved_at } as HoldRow;
}

/** Rejects with an Error that names the key where a hand has spoilt its row. */
function accountOf(row: Selectable<KeyTable>): Account {
  for (const book of BOOKS)
    if (!isCountable(row[book])) throw new Error(`The key ${row.id} is spoilt: its ${book} units are ${row[book]}.`);
  const account = new Account(apiKeyOf(row), numberOf(row.granted), numberOf(row.charged));
  account.held = numberOf(row.held);
  account.overdraft = numberOf(row.overdraft);
  account.estimated = numberOf(row.estimated);
  return account;
}
