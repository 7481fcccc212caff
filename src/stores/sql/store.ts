/** The SQL store: each verb is one statement or one short transaction. */

import type { Kysely } from "kysely";
import type { CallInfo } from "../../ports/call-info.ts";
import type { ApiKey, Balance, HoldRequest, Outcome, Renewal, Reservation } from "../../ports/quota-store.ts";
import { hashApiKey } from "../api-key-hash.ts";
import type { DurableKeyOptions, DurableQuotaStore, KeyPage, KeyReport, Retention } from "../durable.ts";
import {
  assertHoldRequest,
  assertOutcome,
  assertRenewal,
  assertSpan,
  foreignHold,
  hashOfSecret,
  isStorableId,
  pageOf,
} from "../durable-input.ts";
import { assertUnits } from "../units.ts";
import { type Attempt, attemptsOn } from "./attempts.ts";
import { DATABASE_TIME, type SqlDialect, type TimeExpression } from "./dialects.ts";
import { addKey, addSecret, findKey, grantUnits, readBalance, reportKeys, revokeKey } from "./directory.ts";
import { type LedgerAccess, type KeyOf, type LockedKey, lockKey, SWEEP_BATCH } from "./locked-key.ts";
import { renewAtOnce, reserveAtOnce, settleAtOnce } from "./postgres.ts";
import { pruneKey, prunableKeys } from "./prune.ts";
import { numberOf, type SqlDatabase, type SqlSchema, type TableOptions, tablesOf, withTables } from "./schema.ts";

export interface SqlQuotaStoreOptions<Context = unknown> extends TableOptions {
  /** The database, over a pool that the host opens and closes. */
  readonly db: SqlDatabase;
  /** Which database that is. MariaDB is `mysql`. */
  readonly dialect: SqlDialect;
  /**
   * Finds keys in place of the store, where a host has a table of keys already. Each id that it tells must have been added to the
   * store, without a secret.
   */
  readonly find?: (apiKey: string, call?: CallInfo<Context>) => Promise<ApiKey | undefined>;
  /** Changes the time that leases end by. For tests: `(now) => sql`${now} + 60000``. */
  readonly clock?: (now: TimeExpression) => TimeExpression;
}

/** A hold as a verb finds it. */
type FoundHold = Awaited<ReturnType<LockedKey["holds"]>>["asked"];

/**
 * Quota in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its tables must have been made by `migrate`.
 * Leases end by the database's clock. Deadlocks and conflicts are tried again, a bounded number of times.
 *
 * @example
 * const quotas = sqlQuotaStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" });
 */
export const sqlQuotaStore = <Context = unknown>(options: SqlQuotaStoreOptions<Context>): DurableQuotaStore<Context> =>
  new SqlLedger(options);

class SqlLedger<Context> implements DurableQuotaStore<Context> {
  readonly #ground: LedgerAccess;
  readonly #find: SqlQuotaStoreOptions<Context>["find"];
  /** Whether the database can write several tables in one statement. */
  readonly #oneStatement: boolean;
  readonly #attempt: Attempt;

  constructor({ db, dialect, find, clock = (now) => now, ...names }: SqlQuotaStoreOptions<Context>) {
    this.#ground = {
      db: withTables(db, tablesOf(names)),
      dialect,
      get time() {
        return clock(DATABASE_TIME[dialect]);
      },
    };
    this.#find = find;
    this.#oneStatement = dialect === "postgres";
    this.#attempt = attemptsOn(this.#ground.db, dialect);
  }

  async find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined> {
    if (this.#find) return this.#find(apiKey, call);
    return this.#attempt(() => findKey(this.#ground, hashApiKey(apiKey)));
  }

  async balance(keyId: string): Promise<Balance | undefined> {
    if (!isStorableId(keyId)) return undefined;
    return this.#balance(keyId);
  }

  async reserve(request: HoldRequest): Promise<Reservation> {
    assertHoldRequest(request);
    const { id, keyId, atLeast, atMost, leaseMs } = request;
    if (!isStorableId(keyId)) return NOTHING;
    const atOnce = this.#oneStatement && (await this.#attempt(() => reserveAtOnce(this.#ground, request)));
    if (atOnce) return atOnce;
    const reservation = await this.#withKey({ keyId }, id, async (key, hold) => {
      if (!hold) return key.reserve(id, atLeast, atMost, leaseMs);
      if (hold.key_id !== keyId) throw foreignHold();
      // What is resolved is no leave to run another call.
      return hold.state === "live" ? { granted: numberOf(hold.granted) } : key.refusal();
    });
    if (reservation) return reservation;
    const hold = await this.#attempt(() =>
      this.#ground.db.selectFrom("holds").select("id").where("id", "=", id).executeTakeFirst(),
    );
    if (hold) throw foreignHold();
    return NOTHING;
  }

  async renew(id: string, renewal: Renewal): Promise<void> {
    assertRenewal(renewal);
    if (!isStorableId(id)) return;
    if (this.#oneStatement && (await this.#attempt(() => renewAtOnce(this.#ground, id, renewal)))) return;
    await this.#withHold(id, (key, hold) => key.renew(hold, renewal.leaseMs, renewal.used));
  }

  async settle(id: string, outcome: Outcome): Promise<void> {
    assertOutcome(outcome);
    if (!isStorableId(id)) return;
    if (this.#oneStatement && (await this.#attempt(() => settleAtOnce(this.#ground, id, outcome)))) return;
    await this.#withHold(id, (key, hold) => key.settle(hold, outcome.used, outcome.certainty));
  }

  async add(key: DurableKeyOptions = {}): Promise<string> {
    return this.#transact((ground) => addKey(ground, key));
  }

  async addSecret(keyId: string, apiKey: string): Promise<void> {
    const hash = hashOfSecret(apiKey);
    await this.#transact((ground) => addSecret(ground, keyId, hash));
  }

  async rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void> {
    assertSpan("overlapMs", overlapMs);
    const hash = hashOfSecret(apiKey);
    await this.#transact((ground) => addSecret(ground, keyId, hash, overlapMs));
  }

  async removeSecret(apiKey: string): Promise<void> {
    const hash = hashOfSecret(apiKey);
    await this.#attempt(() => this.#ground.db.deleteFrom("secrets").where("hash", "=", hash).execute());
  }

  async revoke(keyId: string): Promise<void> {
    await this.#transact((ground) => revokeKey(ground, keyId));
  }

  async grant(keyId: string, units: number): Promise<void> {
    assertUnits("units", units);
    await this.#transact((ground) => grantUnits(ground, keyId, units));
  }

  async report(keyId: string): Promise<KeyReport | undefined> {
    if (!isStorableId(keyId)) return undefined;
    if (!(await this.#balance(keyId))) return undefined;
    const [report] = await this.#attempt(() => reportKeys(this.#ground, { keyId }));
    return report;
  }

  async list(page?: KeyPage): Promise<readonly KeyReport[]> {
    const wanted = pageOf(page);
    return this.#attempt(() => reportKeys(this.#ground, wanted));
  }

  async sweep(): Promise<number> {
    let swept = 0;
    for (;;) {
      const keyIds = await this.#expiredKeys();
      let progress = 0;
      for (const keyId of keyIds) progress += await this.#sweepOnce(keyId, true);
      swept += progress;
      // Whoever has locked the others sweeps them.
      if (progress === 0) return swept;
    }
  }

  async prune({ olderThanMs }: Retention): Promise<number> {
    assertSpan("olderThanMs", olderThanMs);
    let pruned = 0;
    for (;;) {
      const keyIds = await this.#attempt(() => prunableKeys(this.#ground, olderThanMs));
      let progress = 0;
      for (const keyId of keyIds) progress += await this.#transact((ground) => pruneKey(ground, keyId, olderThanMs));
      pruned += progress;
      if (progress === 0) return pruned;
    }
  }

  async #expiredKeys(): Promise<readonly string[]> {
    const { db, time } = this.#ground;
    const rows = await this.#attempt(() =>
      db
        .selectFrom("holds")
        .select("key_id")
        .distinct()
        .where("state", "=", "live")
        .where("expires_at", "<=", time)
        .limit(SWEEP_BATCH)
        .execute(),
    );
    return rows.map(({ key_id }) => key_id);
  }

  async #withHold(id: string, work: (key: LockedKey, hold: NonNullable<FoundHold>) => Promise<void>): Promise<void> {
    await this.#withKey({ holdId: id }, id, async (key, hold) => hold && work(key, hold));
  }

  /** Works on a key under its lock, with every lease of it that has run out accounted for; undefined when there is none. */
  async #withKey<T>(
    of: KeyOf,
    holdId: string,
    work: (key: LockedKey, hold: FoundHold) => Promise<T>,
  ): Promise<T | undefined> {
    for (;;) {
      const done = await this.#transact(async (ground) => {
        const key = await lockKey(ground, of);
        if (!key) return { answer: undefined };
        const { asked, expired } = await key.holds(holdId);
        await key.expire(expired);
        // There may be more than one transaction should charge.
        const answer = expired.length < SWEEP_BATCH ? { answer: await work(key, asked) } : undefined;
        await key.write();
        return answer;
      });
      if (done) return done.answer;
    }
  }

  /** A key's balance, with every lease that has run out accounted for. */
  async #balance(keyId: string): Promise<Balance | undefined> {
    for (;;) {
      const found = await this.#attempt(() => readBalance(this.#ground, keyId));
      if (!found) return undefined;
      const { stale, ...balance } = found;
      if (!stale) return balance;
      await this.#sweepOnce(keyId);
    }
  }

  /** Charges some expired holds of a key, and returns how many. */
  async #sweepOnce(keyId: string, skipLocked = false): Promise<number> {
    return this.#transact(async (ground) => {
      const key = await lockKey(ground, { keyId }, skipLocked);
      if (!key) return 0;
      const { expired } = await key.holds();
      await key.expire(expired);
      await key.write();
      return expired.length;
    });
  }

  async #transact<T>(work: (ground: LedgerAccess) => Promise<T>): Promise<T> {
    const { db, dialect } = this.#ground;
    // Each statement must see what was committed before it: the lock that it waited for was held by somebody who wrote.
    const transaction = () =>
      dialect === "sqlite" ? db.transaction() : db.transaction().setIsolationLevel("read committed");
    return this.#attempt(() =>
      transaction().execute((tx: Kysely<SqlSchema>) => work({ db: tx, dialect, time: this.#ground.time })),
    );
  }
}

const NOTHING: Reservation = { refused: true, available: 0, held: 0 };
