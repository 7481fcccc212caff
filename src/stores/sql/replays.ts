/** The ReplayStore in SQL: an entry is a row, and every step on it one statement. */

import { type Kysely, type RawBuilder, sql } from "kysely";
import { parseJson } from "../../model/json.ts";
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
} from "../replay-input.ts";
import { type Attempt, attemptsOn } from "./attempts.ts";
import { DATABASE_TIME, type SqlDialect, type TimeExpression } from "./dialects.ts";
import {
  numberOf,
  type ReplayTable,
  type SqlDatabase,
  type SqlSchema,
  type TableOptions,
  tablesOf,
  withTables,
} from "./schema.ts";

export interface SqlReplayStoreOptions extends TableOptions, Partial<KeyBounds> {
  /** The database, over a pool that the host opens and closes. */
  readonly db: SqlDatabase;
  /** Which database that is. MariaDB is `mysql`. */
  readonly dialect: SqlDialect;
  /** Changes the time that entries end by. For tests: `(now) => sql`${now} + 60000``. */
  readonly clock?: (now: TimeExpression) => TimeExpression;
}

export interface SqlReplayStore extends ReplayStore {
  /** Deletes all entries whose time is over, and tells how many. The store itself deletes some as answers are recorded. */
  sweep(): Promise<number>;
}

/** How many entries are deleted at once. */
const BATCH = 100;
/** Every so many records the key's bounds are held, so that they are passed by so many entries at most. */
const RECORDS_A_SWEEP = 16;
/** How often a claim is tried whose entry ends under it. */
const MAX_TRIES = 20;

/**
 * Answers in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its table must have been made by `migrate`. Entries
 * end by the database's clock. MySQL takes a statement of up to `max_allowed_packet` bytes alone, which must be one and a half times
 * `limits.maxReplayBytes`.
 *
 * @throws RangeError for a bound that is no positive integer.
 * @example
 * const replayStore = sqlReplayStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" });
 */
export const sqlReplayStore = (options: SqlReplayStoreOptions): SqlReplayStore => new SqlReplays(options);

class SqlReplays implements SqlReplayStore {
  readonly #db: Kysely<SqlSchema>;
  readonly #dialect: SqlDialect;
  readonly #bounds: KeyBounds;
  readonly #clock: (now: TimeExpression) => TimeExpression;
  readonly #attempt: Attempt;
  #records = 0;

  constructor({ db, dialect, clock = (now) => now, prefix, tables, ...bounds }: SqlReplayStoreOptions) {
    this.#db = withTables(
      db,
      tablesOf({ ...(prefix !== undefined && { prefix }), ...(tables !== undefined && { tables }) }),
    );
    this.#dialect = dialect;
    this.#bounds = keyBoundsOf(bounds);
    this.#clock = clock;
    this.#attempt = attemptsOn(this.#db, dialect);
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
      // The claim has run out, and somebody has deleted it.
      await this.#deleteEnded([id]);
      await this.#insert({ id, key_id: keyId, call_id: callId, ...answered });
    }
    if (this.#records++ % RECORDS_A_SWEEP > 0) return;
    await this.#sweepOnce();
    await this.#holdBounds(keyId);
  }

  async release(holder: ReplayHolder): Promise<void> {
    assertReplayHolder(holder);
    await this.#attempt(() =>
      this.#db
        .deleteFrom("replays")
        .where("id", "=", holder.id)
        .where("call_id", "=", holder.callId)
        .where("head", "is", null)
        .execute(),
    );
  }

  async sweep(): Promise<number> {
    let total = 0;
    for (;;) {
      const swept = await this.#sweepOnce();
      total += swept;
      if (swept === 0) return total;
    }
  }

  get #now(): TimeExpression {
    return this.#clock(DATABASE_TIME[this.#dialect]);
  }

  #after(ms: number): RawBuilder<number> {
    return sql<number>`${this.#now} + ${sql.lit(ms)}`;
  }

  /** Inserts an entry unless there is one. */
  async #insert(row: Omit<ReplayRow, "head" | "body"> & Partial<ReplayRow>): Promise<boolean> {
    const insert = this.#db.insertInto("replays").values({ head: null, body: null, ...row });
    const insertFree = this.#dialect === "mysql" ? insert.ignore() : insert.onConflict((on) => on.doNothing());
    const [done] = await this.#attempt(() => insertFree.execute());
    return Number(done?.numInsertedOrUpdatedRows) > 0;
  }

  /** Changes the entry of a call that runs. */
  async #update({ id, callId }: ReplayHolder, change: Partial<ReplayRow>): Promise<boolean> {
    const update = this.#db
      .updateTable("replays")
      .set(change)
      .where("id", "=", id)
      .where("call_id", "=", callId)
      .where("head", "is", null);
    const [done] = await this.#attempt(() => update.execute());
    return Number(done?.numUpdatedRows) > 0;
  }

  #find(id: string) {
    return this.#attempt(() =>
      this.#db
        .selectFrom("replays")
        .select(["call_id", "fingerprint", "ends_at", "head", "body", this.#now.as("now")])
        .where("id", "=", id)
        .executeTakeFirst(),
    );
  }

  /** Deletes those of some entries whose time is over. */
  async #deleteEnded(ids: readonly string[]): Promise<number> {
    const ended = this.#db.deleteFrom("replays").where("id", "in", ids).where("ends_at", "<=", this.#now);
    const [done] = await this.#attempt(() => ended.execute());
    return Number(done?.numDeletedRows ?? 0);
  }

  async #sweepOnce(): Promise<number> {
    const ended = await this.#attempt(() =>
      this.#db.selectFrom("replays").select("id").where("ends_at", "<=", this.#now).limit(BATCH).execute(),
    );
    return ended.length === 0 ? 0 : this.#deleteEnded(ended.map(({ id }) => id));
  }

  /** Deletes the oldest answers of a key that has too many. */
  async #holdBounds(keyId: string): Promise<void> {
    const { maxEntriesPerKey, maxBytesPerKey } = this.#bounds;
    const answers = await this.#attempt(() =>
      this.#db
        .selectFrom("replays")
        .select(["id", "bytes"])
        .where("key_id", "=", keyId)
        .where("bytes", ">", 0)
        .orderBy("ends_at", "desc")
        .limit(maxEntriesPerKey + BATCH)
        .execute(),
    );
    let bytes = 0;
    const surplus = answers.filter(
      (answer, index) => (bytes += numberOf(answer.bytes)) > maxBytesPerKey || index >= maxEntriesPerKey,
    );
    const ids = surplus.map(({ id }) => id);
    if (ids.length > 0) await this.#attempt(() => this.#db.deleteFrom("replays").where("id", "in", ids).execute());
  }
}

/** A row as it is written. */
type ReplayRow = Omit<ReplayTable, "ends_at"> & { readonly ends_at: RawBuilder<number> };

function answeredBy(found: { fingerprint: string; body: string | null }, head: string): ReplayState {
  const body = found.body === null ? undefined : Buffer.from(found.body, "base64").toString();
  const answer = { ...(parseJson(head) as Omit<RecordedAnswer, "body">), body };
  return { state: "answered", fingerprint: found.fingerprint, answer };
}
