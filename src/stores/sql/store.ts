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
import { Generations } from "../generations.ts";
import { assertUnits } from "../units.ts";
import { type Attempt, attemptsOn } from "./attempts.ts";
import { DATABASE_TIME, type SqlDialect, type TimeExpression } from "./dialects.ts";
import { addKey, addSecret, findKey, grantUnits, readBalance, reportKeys, revokeKey } from "./directory.ts";
import { GroupCommit } from "./group-commit.ts";
import { type LedgerAccess, type LockedKey, lockKey, SWEEP_BATCH } from "./locked-key.ts";
import { renewAtOnce, reserveAtOnce, settleAtOnce } from "./postgres.ts";
import { cutoffOf, expiredKeys, prunableKeys, pruneKey } from "./prune.ts";
import { type SqlDatabase, type SqlSchema, type TableOptions, tablesOf, withTables } from "./schema.ts";
import { slot, type Statement, Statements } from "./statements.ts";

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
  /**
   * The most verbs of this process that share a transaction when they wait for one key, or in SQLite for any: an integer from 1 to
   * 1,000, 64 unless told. With 1 each verb has a transaction of its own. Any other number is a RangeError.
   */
  readonly maxVerbsPerTransaction?: number;
  /** Changes the time that leases end by. For tests: `(now) => sql`${now} + 60000``. */
  readonly clock?: (now: TimeExpression) => TimeExpression;
}

/**
 * Quota in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its tables must have been made by `migrate`.
 * Leases end by the database's clock. Deadlocks and conflicts are tried again, a bounded number of times.
 *
 * @example
 * const quotas = sqlQuotaStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" });
 */
export const sqlQuotaStore = <Context = unknown>(options: SqlQuotaStoreOptions<Context>): DurableQuotaStore<Context> =>
  new SqlLedger(options);

/** How many holds a process remembers the keys of, at least: a hold of another process is looked up. */
const MOST_REMEMBERED = 10_000;

/** How many statements of one key are under way at once, each by itself; more verbs of the key wait, and share transactions. */
const MOST_ALONE = 2;

class SqlLedger<Context> implements DurableQuotaStore<Context> {
  readonly #access: LedgerAccess;
  readonly #find: SqlQuotaStoreOptions<Context>["find"];
  readonly #attempt: Attempt;
  readonly #groups: GroupCommit;
  /** The keys of holds, by the holds' ids. */
  readonly #keyIds = new Generations<string>(MOST_REMEMBERED, Number.POSITIVE_INFINITY, 0);
  /** How many statements of a key are under way, where the database can do a verb in one. */
  readonly #alone = new Map<string, number>();

  constructor(options: SqlQuotaStoreOptions<Context>) {
    const { db, dialect, find, clock, maxVerbsPerTransaction = 64, ...names } = options;
    if (!Number.isSafeInteger(maxVerbsPerTransaction) || maxVerbsPerTransaction < 1 || maxVerbsPerTransaction > 1_000)
      throw new RangeError(`maxVerbsPerTransaction must be an integer from 1 to 1000, not ${maxVerbsPerTransaction}`);
    const tables = withTables(db, tablesOf(names));
    const now = DATABASE_TIME[dialect];
    this.#access = {
      db: tables,
      statements: new Statements(tables, dialect, clock),
      dialect,
      get time() {
        return clock ? clock(now) : now;
      },
    };
    this.#find = find;
    this.#attempt = attemptsOn(tables, dialect);
    this.#groups = new GroupCommit({
      transact: (work) => this.#transact(work),
      maxVerbs: maxVerbsPerTransaction,
      oneWriter: dialect === "sqlite",
    });
  }

  async find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined> {
    if (this.#find) return this.#find(apiKey, call);
    return this.#attempt(() => findKey(this.#access, hashApiKey(apiKey)));
  }

  async balance(keyId: string): Promise<Balance | undefined> {
    if (!isStorableId(keyId)) return undefined;
    return this.#balance(keyId);
  }

  async reserve(request: HoldRequest): Promise<Reservation> {
    assertHoldRequest(request);
    const { id, keyId, atLeast, atMost, leaseMs } = request;
    if (!isStorableId(keyId)) return NOTHING;
    const reservation =
      (await this.#inOneStatement(keyId, () => reserveAtOnce(this.#access, request))) ??
      (await this.#groups.do(keyId, id, (key) => key?.reserve(id, atLeast, atMost, leaseMs)));
    if (!reservation) {
      if ((await this.#ownerOf(id)) !== undefined) throw foreignHold();
      return NOTHING;
    }
    if (!reservation.refused) this.#keyIds.add(id, keyId, 0);
    return reservation;
  }

  async renew(id: string, renewal: Renewal): Promise<void> {
    assertRenewal(renewal);
    if (!isStorableId(id)) return;
    const known = this.#keyIds.get(id);
    if (await this.#inOneStatement(known, () => renewAtOnce(this.#access, id, renewal))) return;
    await this.#onHold(id, (key) => key.renew(id, renewal.leaseMs, renewal.used));
  }

  async settle(id: string, outcome: Outcome): Promise<void> {
    assertOutcome(outcome);
    if (!isStorableId(id)) return;
    const known = this.#keyIds.get(id);
    if (await this.#inOneStatement(known, () => settleAtOnce(this.#access, id, outcome))) return;
    await this.#onHold(id, (key) => key.settle(id, outcome.used, outcome.certainty));
  }

  async add(key: DurableKeyOptions = {}): Promise<string> {
    return this.#transact((access) => addKey(access, key));
  }

  async addSecret(keyId: string, apiKey: string): Promise<void> {
    const hash = hashOfSecret(apiKey);
    await this.#transact((access) => addSecret(access, keyId, hash));
  }

  async rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void> {
    assertSpan("overlapMs", overlapMs);
    const hash = hashOfSecret(apiKey);
    await this.#transact((access) => addSecret(access, keyId, hash, overlapMs));
  }

  async removeSecret(apiKey: string): Promise<void> {
    const hash = hashOfSecret(apiKey);
    await this.#attempt(() => this.#access.db.deleteFrom("secrets").where("hash", "=", hash).execute());
  }

  async revoke(keyId: string): Promise<void> {
    await this.#transact((access) => revokeKey(access, keyId));
  }

  async grant(keyId: string, units: number): Promise<void> {
    assertUnits("units", units);
    await this.#transact((access) => grantUnits(access, keyId, units));
  }

  async report(keyId: string): Promise<KeyReport | undefined> {
    if (!isStorableId(keyId)) return undefined;
    if (!(await this.#balance(keyId))) return undefined;
    const [report] = await this.#attempt(() => reportKeys(this.#access, { keyId }));
    return report;
  }

  async list(page?: KeyPage): Promise<readonly KeyReport[]> {
    const wanted = pageOf(page);
    return this.#attempt(() => reportKeys(this.#access, wanted));
  }

  async sweep(): Promise<number> {
    return this.#onEachKey(
      (after) => expiredKeys(this.#access, after),
      // Sweep a key only while its row is locked.
      (keyId) => this.#sweepOnce(keyId, true),
    );
  }

  async prune({ olderThanMs }: Retention): Promise<number> {
    assertSpan("olderThanMs", olderThanMs);
    // One cutoff for the whole run: holds that are resolved meanwhile are for the next.
    const before = await this.#attempt(() => cutoffOf(this.#access, olderThanMs));
    return this.#onEachKey(
      (after) => prunableKeys(this.#access, before, after),
      (keyId) => this.#transact((access) => pruneKey(access, keyId, before)),
    );
  }

  /**
   * Works on each of some keys until nothing of it is left to do, and adds up what was done. A key that fails holds up no other: its
   * error is thrown at the end.
   */
  async #onEachKey(
    keysAfter: (after: string) => Promise<readonly string[]>,
    work: (keyId: string) => Promise<number>,
  ): Promise<number> {
    let total = 0;
    const errors: unknown[] = [];
    for (let after: string | undefined = ""; after !== undefined;) {
      const from: string = after;
      const keyIds = await this.#attempt(() => keysAfter(from));
      for (const keyId of keyIds)
        try {
          for (let done = SWEEP_BATCH; done >= SWEEP_BATCH; total += done) done = await work(keyId);
        } catch (error) {
          errors.push(error);
        }
      after = keyIds.at(-1);
    }
    if (errors.length > 0) throw errors[0];
    return total;
  }

  /**
   * Does a verb in one statement, where the database can; undefined where it cannot, where the key or the hold needs a closer look,
   * and where the key is busy: its verbs share transactions.
   */
  async #inOneStatement<T>(keyId: string | undefined, work: () => Promise<T>): Promise<T | undefined> {
    if (this.#access.dialect !== "postgres") return undefined;
    if (keyId === undefined) return this.#attempt(work);
    const underWay = this.#alone.get(keyId) ?? 0;
    if (underWay >= MOST_ALONE) return undefined;
    this.#alone.set(keyId, underWay + 1);
    try {
      return await this.#attempt(work);
    } finally {
      const left = (this.#alone.get(keyId) ?? 1) - 1;
      if (left > 0) this.#alone.set(keyId, left);
      else this.#alone.delete(keyId);
    }
  }

  /** Does a verb on the key of a hold; nothing where there is no such hold. */
  async #onHold(id: string, work: (key: LockedKey) => void): Promise<void> {
    const workOnOwn = (key: LockedKey | undefined): boolean => {
      if (!key || key.isForeign(id)) return false;
      work(key);
      return true;
    };
    const remembered = this.#keyIds.get(id);
    if (remembered !== undefined && (await this.#groups.do(remembered, id, workOnOwn))) return;
    const keyId = await this.#ownerOf(id);
    if (keyId !== undefined) await this.#groups.do(keyId, id, workOnOwn);
  }

  /** The key that a hold belongs to, which never changes. */
  async #ownerOf(id: string): Promise<string | undefined> {
    const { statements, db } = this.#access;
    const [row] = (await this.#attempt(() => statements.run(db, OWNER, [id]))).rows;
    return row?.key_id;
  }

  /** A key's balance, with every lease that has run out accounted for. */
  async #balance(keyId: string): Promise<Balance | undefined> {
    for (;;) {
      const found = await this.#attempt(() => readBalance(this.#access, keyId));
      if (!found) return undefined;
      const { stale, ...balance } = found;
      // A hold whose row a hand has spoilt stays as it is.
      if (!stale || (await this.#sweepOnce(keyId)) === 0) return balance;
    }
  }

  /** Charges some expired holds of a key, and returns how many. */
  async #sweepOnce(keyId: string, skipLocked = false): Promise<number> {
    return this.#transact(async (access) => {
      const key = await lockKey(access, keyId, skipLocked);
      const charged = (await key?.load()) ?? 0;
      await key?.write();
      return charged;
    });
  }

  async #transact<T>(work: (access: LedgerAccess) => Promise<T>): Promise<T> {
    const { db, dialect, statements } = this.#access;
    // Each statement must see what was committed before it: the lock that it waited for was held by somebody who wrote.
    const transaction = () =>
      dialect === "sqlite" ? db.transaction() : db.transaction().setIsolationLevel("read committed");
    return this.#attempt(() =>
      transaction().execute((tx: Kysely<SqlSchema>) => work({ db: tx, dialect, statements, time: this.#access.time })),
    );
  }
}

const OWNER: Statement<{ readonly key_id: string }> = {
  build: ({ db }) => db.selectFrom("holds").select("key_id").where("id", "=", slot<string>(0)).compile(),
};

const NOTHING: Reservation = { refused: true, available: 0, held: 0 };
