/** The quota store over SQL: each verb is one statement, or shares a short transaction with verbs that wait for the same key. */

import { assertOptions, integer } from "../../options.ts";
import type { CallInfo } from "../../ports/call-info.ts";
import type { ApiKey, Balance, HoldRequest, Outcome, Renewal, Reservation } from "../../ports/quota-store.ts";
import { type BudgetEvent, type BudgetOptions, type BudgetReport, type OnBudget, tellAll } from "../budgets.ts";
import {
  assertHoldRequest,
  assertStorableBudget,
  type BudgetPage,
  type DurableKeyOptions,
  type DurableQuotaStore,
  HOLDS_AT_ONCE,
  isStorableId,
  type KeyPage,
  type KeyReport,
  MOST_REMEMBERED,
  onEachKey,
  assertRetention,
  pageOf,
  type Retention,
  secretEndOf,
} from "../durable.ts";
import {
  assertKeyChanges,
  assertKeyOptions,
  assertInteger,
  assertOutcome,
  assertRenewal,
  foreignHold,
  hashApiKey,
  hashOfSecret,
  type KeyChanges,
  TwoGenerationMap,
  UNKNOWN_KEY,
} from "../ledger.ts";
import { addBudget, changeBudget, LockedBudgets, readBudgets, removeBudget } from "./budgets.ts";
import { slot, SQL_SHAPES, SqlAccess, type SqlStoreOptions, type Statement } from "./database.ts";
import {
  addKey,
  addSecret,
  assignBudget,
  expiredKeys,
  findKey,
  grantUnits,
  prunableKeys,
  pruneKey,
  readBalance,
  recalledKeys,
  recallKey,
  reportKeys,
  revokeKey,
  rotateSecret,
  timeOf,
  updateKey,
} from "./directory.ts";
import { type LockedKey, lockKey } from "./locked-key.ts";
import { renewAtOnce, reserveAtOnce, settleAtOnce } from "./postgres.ts";

/** Options of the quota store over SQL. */
export interface SqlQuotaStoreOptions<Context = unknown> extends SqlStoreOptions {
  /**
   * Looks keys up in place of the store, for a host that already has a table of keys. The host must also add each key to the store,
   * with the same id and without a secret.
   */
  readonly find?: (apiKey: string, call?: CallInfo<Context>) => Promise<ApiKey | undefined>;
  /**
   * The most verbs of this process that share one transaction while they wait for the same key (in SQLite, for any key): an integer
   * from 1 to 1,000, 64 by default. With 1, each verb has a transaction of its own. Any other number is a RangeError.
   */
  readonly maxVerbsPerTransaction?: number;
  /** Is told when a budget reaches 50, 80 and 100 percent. Give it to each process that serves calls. */
  readonly onBudget?: OnBudget;
}

/**
 * Makes a quota store in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its tables must have been made by
 * `migrate`. Leases expire by the database's clock. After a deadlock or a conflict the store retries, a limited number of times.
 *
 * @example
 * const quotas = sqlQuotaStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" });
 */
export function sqlQuotaStore<Context = unknown>(options: SqlQuotaStoreOptions<Context>): DurableQuotaStore<Context> {
  assertOptions<SqlQuotaStoreOptions>("sqlQuotaStore", options, {
    ...SQL_SHAPES,
    find: "function?",
    maxVerbsPerTransaction: { optional: integer(1, 1_000) },
    onBudget: "function?",
  });
  return new SqlLedger(options);
}

/** The most one-statement verbs of a key that run at the same time. Further verbs of the key wait, and share transactions. */
const MOST_ALONE = 2;

/** A verb that waits for its turn. */
interface WaitingVerb {
  readonly keyId: string;
  readonly holdId: string;
  /** Runs the verb on its locked key, or on undefined when the key does not exist. Runs again after a conflict. */
  readonly work: (key: LockedKey | undefined) => unknown;
  /** Resolves the verb's promise with its answer, or with `LEAD`: the verb then runs the transaction of the next group. */
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const LEAD = Symbol("lead");

class SqlLedger<Context> implements DurableQuotaStore<Context> {
  readonly #access: SqlAccess;
  readonly #find: SqlQuotaStoreOptions<Context>["find"];
  readonly #onBudget: OnBudget | undefined;
  /**
   * The topmost budgets of keys that had a budget when they were last seen, by the keys' ids. These keys need no attempt in one statement,
   * and those of one budget share transactions.
   */
  readonly #withBudget = new TwoGenerationMap<string>(MOST_REMEMBERED);
  /** The ids of the api keys that holds belong to, by the holds' ids. */
  readonly #keyIds = new TwoGenerationMap<string>(MOST_REMEMBERED);
  /** The number of running one-statement verbs, by key. */
  readonly #alone = new Map<string, number>();
  readonly #maxVerbs: number;
  /**
   * The waiting verbs, by their turn: the key's id, or in SQLite one turn for all keys. A turn is in the map while its transaction
   * runs.
   */
  readonly #waiting = new Map<string, WaitingVerb[]>();

  constructor({ find, maxVerbsPerTransaction = 64, onBudget, ...options }: SqlQuotaStoreOptions<Context>) {
    this.#access = SqlAccess.open(options);
    this.#find = find;
    this.#onBudget = onBudget;
    this.#maxVerbs = maxVerbsPerTransaction;
  }

  async find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined> {
    if (this.#find) return this.#find(apiKey, call);
    return this.#access.attempt(() => findKey(this.#access, hashApiKey(apiKey)));
  }

  async reserve(request: HoldRequest): Promise<Reservation> {
    assertHoldRequest(request);
    const { id, keyId, atLeast, atMost, leaseMs } = request;
    if (!isStorableId(keyId)) return UNKNOWN_KEY;
    const reserve = () => this.#inGroup(keyId, id, (key) => this.#seen(key)?.reserve(id, atLeast, atMost, leaseMs));
    let reservation =
      (await this.#inOneStatement(keyId, () => reserveAtOnce(this.#access, request))) ?? (await reserve());
    // What a budget lacks may be held by expired holds of other keys, which no verb of this key charges.
    if (
      reservation?.refused &&
      reservation.held > 0 &&
      this.#withBudget.get(keyId) &&
      (await this.#chargeExpired(keyId))
    )
      reservation = await reserve();
    if (!reservation) {
      if ((await this.#ownerOf(id)) !== undefined) throw foreignHold();
      return UNKNOWN_KEY;
    }
    if (!reservation.refused) this.#keyIds.add(id, keyId);
    return reservation;
  }

  async renew(id: string, renewal: Renewal): Promise<void> {
    assertRenewal(renewal);
    if (!isStorableId(id)) return;
    if (await this.#inOneStatement(this.#keyIds.get(id), () => renewAtOnce(this.#access, id, renewal))) return;
    await this.#onHold(id, (key) => key.renew(id, renewal));
  }

  async settle(id: string, outcome: Outcome): Promise<void> {
    assertOutcome(outcome);
    if (!isStorableId(id)) return;
    if (await this.#inOneStatement(this.#keyIds.get(id), () => settleAtOnce(this.#access, id, outcome))) return;
    await this.#onHold(id, (key) => key.settle(id, outcome));
  }

  async recall(keyId: string): Promise<void> {
    if (isStorableId(keyId)) await this.#access.attempt(() => recallKey(this.#access, keyId));
  }

  async recalled(withinMs: number): Promise<readonly string[]> {
    assertInteger("withinMs", withinMs, 0);
    return this.#access.attempt(() => recalledKeys(this.#access, withinMs));
  }

  /** Returns a key's balance after charging all expired holds. */
  async balance(keyId: string): Promise<Balance | undefined> {
    if (!isStorableId(keyId)) return undefined;
    for (;;) {
      const found = await this.#access.attempt(() => readBalance(this.#access, keyId));
      if (!found) return undefined;
      const { stale, hasBudget, ...balance } = found;
      // If an expired hold cannot be charged, its row is corrupt; leave it.
      if (stale && (await this.#expireSome(keyId)) > 0) continue;
      // What a budget holds may belong to expired holds of other keys.
      if (!hasBudget || balance.held === 0 || !(await this.#chargeExpired())) return balance;
    }
  }

  async add(key: DurableKeyOptions = {}): Promise<string> {
    assertKeyOptions(key);
    return this.#access.transact((access) => addKey(access, key));
  }

  async addSecret(keyId: string, apiKey: string, expiresAt = 0): Promise<void> {
    const [hash, endsAt] = [hashOfSecret(apiKey), secretEndOf(expiresAt)];
    await this.#access.transact((access) => addSecret(access, keyId, hash, endsAt));
  }

  async rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void> {
    assertInteger("overlapMs", overlapMs, 0);
    const hash = hashOfSecret(apiKey);
    await this.#access.transact((access) => rotateSecret(access, keyId, hash, overlapMs));
  }

  async removeSecret(apiKey: string): Promise<void> {
    const hash = hashOfSecret(apiKey);
    await this.#access.attempt(() => this.#access.db.deleteFrom("secrets").where("hash", "=", hash).execute());
  }

  async revoke(keyId: string): Promise<void> {
    await this.#access.transact((access) => revokeKey(access, keyId));
  }

  async update(keyId: string, changes: KeyChanges): Promise<void> {
    assertKeyChanges(changes);
    await this.#access.transact((access) => updateKey(access, keyId, changes));
  }

  async grant(keyId: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    await this.#access.transact((access) => grantUnits(access, keyId, units));
  }

  async lower(keyId: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    await this.#access.transact((access) => grantUnits(access, keyId, -units));
  }

  async report(keyId: string): Promise<KeyReport | undefined> {
    // Read the balance first, which charges expired holds.
    if (!(await this.balance(keyId))) return undefined;
    const [report] = await this.#access.attempt(() => reportKeys(this.#access, { keyId }));
    return report;
  }

  async list(page?: KeyPage): Promise<readonly KeyReport[]> {
    const checked = pageOf(page);
    return this.#access.attempt(() => reportKeys(this.#access, checked));
  }

  async sweep(): Promise<number> {
    return onEachKey(
      (after) => this.#access.attempt(() => expiredKeys(this.#access, after)),
      // Skip a key whose row is locked: the transaction that holds the lock charges the key's expired holds.
      (keyId) => this.#expireSome(keyId, true),
    );
  }

  async prune(retention: Retention): Promise<number> {
    assertRetention(retention);
    const { olderThanMs } = retention;
    // Use one cutoff for the whole run: holds that are resolved during the run are left to the next run.
    const before = (await this.#access.attempt(() => timeOf(this.#access))) - olderThanMs;
    return onEachKey(
      (after) => this.#access.attempt(() => prunableKeys(this.#access, before, after)),
      (keyId) => this.#access.transact((access) => pruneKey(access, keyId, before)),
    );
  }

  async addBudget(budget: BudgetOptions): Promise<void> {
    assertStorableBudget(budget);
    await this.#access.transact(async (access) => addBudget(access, budget, await timeOf(access)));
  }

  async removeBudget(id: string): Promise<void> {
    while (await this.#chargeExpired());
    await this.#access.transact((access) => removeBudget(access, id));
  }

  async setBudgetAmount(id: string, amount: number): Promise<void> {
    assertInteger("amount", amount, 0);
    await this.#changeBudget(id, (budget) => budget.setAmount(amount));
  }

  async topUpBudget(id: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    await this.#changeBudget(id, (budget) => budget.topUp(units));
  }

  async assignBudget(keyId: string, budgetId: string | undefined): Promise<void> {
    await this.#access.transact((access) => assignBudget(access, keyId, budgetId));
  }

  async budgetReport(id: string): Promise<BudgetReport | undefined> {
    if (!isStorableId(id)) return undefined;
    const [report] = await this.#reportBudgets({ ids: [id] });
    return report;
  }

  async listBudgets(page?: BudgetPage): Promise<readonly BudgetReport[]> {
    return this.#reportBudgets(pageOf(page));
  }

  async #changeBudget(id: string, change: Parameters<typeof changeBudget>[3]): Promise<void> {
    const tells = this.#onBudget !== undefined;
    this.#tell(
      await this.#access.transact(async (access) =>
        changeBudget(access, id, { now: await timeOf(access), tells }, change),
      ),
    );
  }

  async #reportBudgets(page: Parameters<typeof readBudgets>[2]): Promise<readonly BudgetReport[]> {
    while (await this.#chargeExpired());
    const budgets = await this.#access.attempt(async () => readBudgets(this.#access, await timeOf(this.#access), page));
    return budgets.map(({ report }) => report);
  }

  /** Charges some expired holds of some keys. Returns false when there was none to charge. */
  async #chargeExpired(except?: string): Promise<boolean> {
    let charged = 0;
    for (const keyId of await this.#access.attempt(() => expiredKeys(this.#access, "")))
      // A corrupt key must not make the others fail. `sweep` reports it.
      if (keyId !== except) charged += await this.#expireSome(keyId, true).catch(() => 0);
    return charged > 0;
  }

  /** Remembers whether a key has a budget, and returns the key. */
  #seen(key: LockedKey | undefined): LockedKey | undefined {
    const root = key?.chain.at(-1);
    if (key && root !== undefined && this.#withBudget.get(key.id) !== root) this.#withBudget.add(key.id, root);
    return key;
  }

  /** Charges some expired holds of a key, and returns their number. */
  async #expireSome(keyId: string, skipLocked = false): Promise<number> {
    const { charged, events } = await this.#access.transact(async (access) => {
      const key = await lockKey(access, keyId, skipLocked);
      if (!key) return { charged: 0, events: undefined };
      const budgets = await lockBudgets(access, [key]);
      const charged = await key.load([], budgets);
      const events = this.#onBudget && charged > 0 ? key.news() : undefined;
      await key.write();
      return { charged, events };
    });
    this.#tell(events);
    return charged;
  }

  #tell(events: readonly BudgetEvent[] | undefined): void {
    if (this.#onBudget && events) tellAll(this.#onBudget, events);
  }

  /** Reads the id of the key that a hold belongs to. A hold never changes its key. */
  async #ownerOf(id: string): Promise<string | undefined> {
    const [row] = await this.#access.attempt(() => this.#access.run(OWNER, [id]));
    return row?.key_id;
  }

  /** Runs a verb on the key of a hold; does nothing when there is no such hold. */
  async #onHold(id: string, work: (key: LockedKey) => void): Promise<void> {
    const workOnOwn = (key: LockedKey | undefined): boolean => {
      if (!key || key.isForeign(id)) return false;
      work(key);
      return true;
    };
    const remembered = this.#keyIds.get(id);
    if (remembered !== undefined && (await this.#inGroup(remembered, id, workOnOwn))) return;
    const keyId = await this.#ownerOf(id);
    if (keyId !== undefined) await this.#inGroup(keyId, id, workOnOwn);
  }

  /**
   * Runs a verb in one statement. Returns undefined when the verb needs a transaction instead: in databases other than PostgreSQL, in
   * the cases that `postgres.ts` lists, and when the key is busy, so that its verbs share transactions.
   */
  async #inOneStatement<T>(keyId: string | undefined, work: () => Promise<T>): Promise<T | undefined> {
    if (this.#access.dialect !== "postgres") return undefined;
    if (keyId !== undefined && this.#withBudget.get(keyId)) return undefined;
    if (keyId === undefined) return this.#access.attempt(work);
    const underWay = this.#alone.get(keyId) ?? 0;
    if (underWay >= MOST_ALONE) return undefined;
    this.#alone.set(keyId, underWay + 1);
    try {
      return await this.#access.attempt(work);
    } finally {
      const remaining = (this.#alone.get(keyId) ?? 1) - 1;
      if (remaining > 0) this.#alone.set(keyId, remaining);
      else this.#alone.delete(keyId);
    }
  }

  /**
   * Runs a verb on a locked key after charging the key's expired holds. Verbs that arrive meanwhile wait, and share the next
   * transaction: its lock, its reads and its writes.
   */
  async #inGroup<T>(keyId: string, holdId: string, work: (key: LockedKey | undefined) => T): Promise<T> {
    // SQLite admits one writer at a time, so all keys share one turn. Keys of one budget would wait for its row, so they share a turn, too.
    const root = this.#withBudget.get(keyId);
    const turn = this.#access.dialect === "sqlite" ? "" : root === undefined ? keyId : `\0${root}`;
    const waiting = this.#waiting.get(turn);
    if (waiting) {
      const answer = await new Promise<unknown>((resolve, reject) => {
        waiting.push({ keyId, holdId, work, resolve, reject });
      });
      // The cast is safe: any other answer is the value that `work` has returned.
      if (answer !== LEAD) return answer as T;
    } else this.#waiting.set(turn, []);
    // The first verb of a group queries the database in its own asynchronous context, so that tracing shows the queries under its
    // call.
    return new Promise<T>((resolve, reject) => {
      void this.#lead(turn, { keyId, holdId, work, resolve: (answer) => resolve(answer as T), reject });
    });
  }

  /** Runs a verb and the verbs that wait with it, then gives the turn to the next waiting verb. */
  async #lead(turn: string, verb: WaitingVerb): Promise<void> {
    const waiting = this.#waiting.get(turn) ?? [];
    const others = waiting.splice(0, this.#maxVerbs - 1);
    await this.#commit(Map.groupBy([verb, ...others], ({ keyId }) => keyId));
    const next = waiting.shift();
    if (next) next.resolve(LEAD);
    else this.#waiting.delete(turn);
  }

  /** Runs verbs in one transaction, and resolves or rejects the promise of each verb. Never rejects itself. */
  async #commit(byKey: ReadonlyMap<string, readonly WaitingVerb[]>): Promise<void> {
    let remaining = byKey;
    try {
      // Repeat for keys with more expired holds than one transaction charges.
      while (remaining.size > 0) {
        const verbs = remaining;
        const tells = this.#onBudget !== undefined;
        const { answers, again, events } = await this.#access.transact((access) => runVerbs(access, verbs, tells));
        for (const answer of answers) answer();
        this.#tell(events);
        remaining = again;
      }
    } catch (error) {
      // Run each key in its own transaction: a key whose row is corrupt must not make the other keys fail.
      if (remaining.size > 1) for (const entry of remaining) await this.#commit(new Map([entry]));
      else for (const { reject } of Array.from(remaining.values()).flat()) reject(error);
    }
  }
}

/**
 * Runs verbs on their keys. Returns functions that answer the verbs once the transaction is committed, and the verbs that must run
 * again. Returns the thresholds that budgets have reached when `tells` is set.
 */
async function runVerbs(access: SqlAccess, byKey: ReadonlyMap<string, readonly WaitingVerb[]>, tells: boolean) {
  const answers: (() => void)[] = [];
  const events: BudgetEvent[] = [];
  const again = new Map<string, readonly WaitingVerb[]>();
  const keys = new Map<string, LockedKey | undefined>();
  // Lock all keys in one order, and their budgets after them, so that no two transactions wait for each other.
  for (const keyId of Array.from(byKey.keys()).toSorted()) keys.set(keyId, await lockKey(access, keyId));
  const budgets = await lockBudgets(access, Array.from(keys.values()));
  for (const [keyId, verbs] of byKey) {
    const key = keys.get(keyId);
    const charged = await key?.load(Array.from(new Set(verbs.map(({ holdId }) => holdId))), budgets);
    if (charged !== undefined && charged >= HOLDS_AT_ONCE) again.set(keyId, verbs);
    else
      for (const { work, resolve, reject } of verbs)
        try {
          const answer = work(key);
          answers.push(() => resolve(answer));
        } catch (error) {
          // A verb that throws has changed nothing, so the other verbs of its group continue.
          answers.push(() => reject(error));
        }
    if (tells && key) events.push(...key.news());
    await key?.write(budgets);
  }
  await budgets?.write();
  return { answers, again, events };
}

/** Locks the budgets of keys. Returns undefined when they have none. */
async function lockBudgets(
  access: SqlAccess,
  keys: readonly (LockedKey | undefined)[],
): Promise<LockedBudgets | undefined> {
  const ids = new Set(keys.flatMap((key) => key?.chain ?? []));
  if (ids.size === 0) return undefined;
  return LockedBudgets.lock(access, Array.from(ids), Math.max(...keys.map((key) => key?.now ?? 0)));
}

const OWNER: Statement<{ readonly key_id: string }> = {
  build: ({ db }) => db.selectFrom("holds").select("key_id").where("id", "=", slot<string>(0)).compile(),
};
