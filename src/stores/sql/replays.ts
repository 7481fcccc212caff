/** The replay store over SQL: each entry is a row, and each change of an entry is one statement. */

import { type RawBuilder, sql } from "kysely";
import { parseJson } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import type {
  RecordedAnswer,
  ReplayClaim,
  ReplayHolder,
  ReplayRecord,
  ReplayState,
  ReplayStore,
} from "../../ports/replay-store.ts";
import {
  assertReplayClaim,
  assertReplayHolder,
  assertReplayRecord,
  bytesOf,
  fitting,
  type KeyBounds,
  keyBoundsOf,
} from "../memory-replays.ts";
import { SQL_SHAPES, SqlAccess, type SqlStoreOptions } from "./database.ts";
import { numberOf, type ReplayTable } from "./tables.ts";

/** Options of the replay store over SQL. */
export interface SqlReplayStoreOptions extends SqlStoreOptions, Partial<KeyBounds> {}

export interface SqlReplayStore extends ReplayStore {
  /** Deletes all expired entries, and returns their number. The store itself deletes some of them when it records answers. */
  sweep(): Promise<number>;
}

/** The most expired entries that are deleted at once. */
const BATCH = 100;
/**
 * After this many recorded answers, a process deletes expired entries and checks the bounds of one key. Until then the key may exceed
 * its bounds.
 */
const RECORDS_A_SWEEP = 16;
/** The most attempts of one claim. An attempt fails when the entry that it found ends before the next statement. */
const MAX_TRIES = 20;

/**
 * Makes a store that keeps answers in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its table must have been
 * made by `migrate`. Entries expire by the database's clock. MySQL accepts only statements of up to `max_allowed_packet` bytes: set
 * this to one and a half times `limits.maxReplayBytes` at least.
 *
 * @throws RangeError for a bound that is not a positive integer.
 * @example
 * const replayStore = sqlReplayStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" });
 */
export function sqlReplayStore(options: SqlReplayStoreOptions): SqlReplayStore {
  assertOptions<SqlReplayStoreOptions>("sqlReplayStore", options, {
    ...SQL_SHAPES,
    maxEntriesPerKey: "positive?",
    maxBytesPerKey: "positive?",
  });
  return new SqlReplays(options);
}

class SqlReplays implements SqlReplayStore {
  readonly #access: SqlAccess;
  readonly #bounds: KeyBounds;
  #records = 0;

  constructor({ maxEntriesPerKey, maxBytesPerKey, ...options }: SqlReplayStoreOptions) {
    this.#access = SqlAccess.open(options);
    this.#bounds = keyBoundsOf({ maxEntriesPerKey, maxBytesPerKey });
  }

  async claim(claim: ReplayClaim): Promise<ReplayState> {
    assertReplayClaim(claim);
    const { id, keyId, callId, fingerprint, leaseMs } = claim;
    const row = { id, key_id: keyId, call_id: callId, fingerprint, ends_at: this.#after(leaseMs), bytes: 0 };
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (await this.#insert(row)) return { state: "claimed" };
      const found = await this.#find(id);
      if (!found) continue;
      if (numberOf(found.ends_at) <= numberOf(found.now)) await this.#deleteEnded([id]);
      else if (found.head !== null) return answeredBy(found, found.head);
      else if (found.call_id !== callId) return { state: "running", fingerprint: found.fingerprint };
      else if (await this.#update(claim, { ends_at: this.#after(leaseMs) })) return { state: "claimed" };
    }
    throw new Error("An entry ended again and again while it was claimed.");
  }

  async record(record: ReplayRecord): Promise<void> {
    assertReplayRecord(record);
    const { id, keyId, callId, fingerprint, retainMs } = record;
    const answer = fitting(record.answer, this.#bounds.maxBytesPerKey);
    const { body, ...head } = answer;
    const answered = {
      fingerprint,
      ends_at: this.#after(retainMs),
      head: JSON.stringify(head),
      body: body === undefined ? null : Buffer.from(body).toString("base64"),
      bytes: bytesOf(answer),
    };
    if (!(await this.#update(record, answered))) {
      // The claim has expired, and another call may have deleted its entry: insert the answer as a new entry.
      await this.#deleteEnded([id]);
      await this.#insert({ id, key_id: keyId, call_id: callId, ...answered });
    }
    if (this.#records++ % RECORDS_A_SWEEP > 0) return;
    await this.#sweepOnce();
    await this.#holdBounds(keyId);
  }

  async release(holder: ReplayHolder): Promise<void> {
    assertReplayHolder(holder);
    await this.#access.all(
      this.#access.db
        .deleteFrom("replays")
        .where("id", "=", holder.id)
        .where("call_id", "=", holder.callId)
        .where("head", "is", null),
    );
  }

  async sweep(): Promise<number> {
    let total = 0;
    for (let swept = await this.#sweepOnce(); swept > 0; swept = await this.#sweepOnce()) total += swept;
    return total;
  }

  #after(ms: number): RawBuilder<number> {
    return sql<number>`${this.#access.time} + ${sql.lit(ms)}`;
  }

  /** Inserts an entry unless its id is taken. Returns true when it was inserted. */
  async #insert(row: Omit<ReplayRow, "head" | "body"> & Partial<ReplayRow>): Promise<boolean> {
    const { db, dialect } = this.#access;
    const insert = db.insertInto("replays").values({ head: null, body: null, ...row });
    const insertFree = dialect === "mysql" ? insert.ignore() : insert.onConflict((on) => on.doNothing());
    const [done] = await this.#access.all(insertFree);
    return Number(done?.numInsertedOrUpdatedRows) > 0;
  }

  /** Updates the entry of a running call. Returns false when the call has no entry. */
  async #update({ id, callId }: ReplayHolder, change: Partial<ReplayRow>): Promise<boolean> {
    const update = this.#access.db
      .updateTable("replays")
      .set(change)
      .where("id", "=", id)
      .where("call_id", "=", callId)
      .where("head", "is", null);
    const [done] = await this.#access.all(update);
    return Number(done?.numUpdatedRows) > 0;
  }

  #find(id: string) {
    const { db, time } = this.#access;
    return this.#access.attempt(() =>
      db
        .selectFrom("replays")
        .select(["call_id", "fingerprint", "ends_at", "head", "body", time.as("now")])
        .where("id", "=", id)
        .executeTakeFirst(),
    );
  }

  /** Deletes those of the given entries that have expired, and returns their number. */
  async #deleteEnded(ids: readonly string[]): Promise<number> {
    const { db, time } = this.#access;
    const ended = db.deleteFrom("replays").where("id", "in", ids).where("ends_at", "<=", time);
    const [done] = await this.#access.all(ended);
    return Number(done?.numDeletedRows ?? 0);
  }

  async #sweepOnce(): Promise<number> {
    const { db, time } = this.#access;
    const ended = await this.#access.all(
      db.selectFrom("replays").select("id").where("ends_at", "<=", time).limit(BATCH),
    );
    return ended.length === 0 ? 0 : this.#deleteEnded(ended.map(({ id }) => id));
  }

  /** Deletes the oldest answers of a key that exceeds its bounds. */
  async #holdBounds(keyId: string): Promise<void> {
    const { db } = this.#access;
    const { maxEntriesPerKey, maxBytesPerKey } = this.#bounds;
    const answers = await this.#access.all(
      db
        .selectFrom("replays")
        .select(["id", "bytes"])
        .where("key_id", "=", keyId)
        .where("bytes", ">", 0)
        .orderBy("ends_at", "desc")
        .limit(maxEntriesPerKey + BATCH),
    );
    let bytes = 0;
    const surplus = answers.filter(
      (answer, index) => (bytes += numberOf(answer.bytes)) > maxBytesPerKey || index >= maxEntriesPerKey,
    );
    const ids = surplus.map(({ id }) => id);
    if (ids.length > 0) await this.#access.all(db.deleteFrom("replays").where("id", "in", ids));
  }
}

/** The row of an entry to write. The database computes the entry's end. */
type ReplayRow = Omit<ReplayTable, "ends_at"> & { readonly ends_at: RawBuilder<number> };

function answeredBy(found: { fingerprint: string; body: string | null }, head: string): ReplayState {
  const body = found.body === null ? undefined : Buffer.from(found.body, "base64").toString();
  const answer = { ...(parseJson(head) as Omit<RecordedAnswer, "body">), body };
  return { state: "answered", fingerprint: found.fingerprint, answer };
}
