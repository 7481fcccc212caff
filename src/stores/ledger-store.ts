/** The quota store of any driver: runs the rules on the rows of a driver, and lets verbs that wait for the same key share a transaction. */

import { given } from "../model/json.ts";
import { assertMethods, assertOptions, integer, type Shapes } from "../options.ts";
import type { CallInfo } from "../ports/call-info.ts";
import type { ApiKey, Balance, HoldRequest, Outcome, Renewal, Reservation } from "../ports/quota-store.ts";
import {
  Budget,
  type BudgetChanges,
  type BudgetEvent,
  type BudgetOptions,
  type BudgetPeriodReport,
  type BudgetReport,
  NEVER,
  type OnBudget,
  tellAll,
} from "./budgets.ts";
import {
  type DueHolds,
  type KeyRow,
  type LedgerDriver,
  type LedgerRows,
  type LedgerScope,
  type RowPage,
  toApiKey,
  type Worked,
} from "./driver.ts";
import {
  assertHoldRequest,
  assertRetention,
  assertStorableBudget,
  assertStorableChanges,
  type BudgetPage,
  type DurableKeyOptions,
  type DurableQuotaStore,
  HOLDS_AT_ONCE,
  isStorableId,
  type KeyPage,
  type KeyReport,
  keyReportOf,
  MOST_REMEMBERED,
  newDurableKeyOf,
  onEachKey,
  pageOf,
  type PeriodPage,
  type Retention,
  secretEndOf,
} from "./durable.ts";
import { grouped, MOST_AT_ONCE } from "./grouped.ts";
import {
  assertInteger,
  assertKeyChanges,
  assertOutcome,
  assertRenewal,
  BOOKS,
  hashApiKey,
  hashOfSecret,
  type KeyChanges,
  noSuchBudget,
  TwoGenerationMap,
  UNKNOWN_KEY,
  type NewKey,
} from "./ledger.ts";
import { budgetOf, LoadedLedger, windowOf } from "./loaded.ts";

/** Options of the quota store over a driver. */
export interface LedgerQuotaStoreOptions<Context = unknown> {
  /**
   * Looks keys up in place of the store, for a host that already has a table of keys. The host must also add each key to the store,
   * with the same id and without a secret.
   */
  readonly find?: (apiKey: string, call?: CallInfo<Context>) => Promise<ApiKey | undefined>;
  /**
   * The most verbs of this process that share one transaction while they wait for the same key: an integer from 1 to 1,000, 64 by
   * default. With 1, each verb has a transaction of its own. Any other number is a RangeError.
   */
  readonly maxVerbsPerTransaction?: number;
  /** Is told when a budget reaches 50, 80 and 100 percent. Give it to each process that serves calls. */
  readonly onBudget?: OnBudget;
}

export const LEDGER_SHAPES: Shapes<LedgerQuotaStoreOptions> = {
  find: "function?",
  maxVerbsPerTransaction: { optional: integer(1, 1_000) },
  onBudget: "function?",
};

const PERIOD_SHAPES: Shapes<PeriodPage> = { before: "number?", limit: "number?" };

const DRIVER_METHODS = [
  "change",
  "read",
  "find",
  "ownerOf",
  "listKeys",
  "listBudgets",
  "listPeriods",
  "keysWith",
  "recall",
  "recalled",
] as const satisfies readonly (keyof LedgerDriver)[];

/**
 * Makes a quota store of a driver, with keys, budgets, reports and maintenance. The driver keeps the rows; all rules are the store's.
 *
 * @example
 * const quotas = ledgerQuotaStore(myDriver(pool), { onBudget: tellTheTeam });
 */
export function ledgerQuotaStore<Context = unknown>(
  driver: LedgerDriver,
  options: LedgerQuotaStoreOptions<Context> = {},
): DurableQuotaStore<Context> {
  assertMethods("ledgerQuotaStore", "driver", driver, DRIVER_METHODS, "a LedgerDriver");
  assertOptions<LedgerQuotaStoreOptions>("ledgerQuotaStore", options, LEDGER_SHAPES);
  return new DrivenQuotaStore(driver, options);
}

/** A verb that waits for its turn. */
interface WaitingVerb {
  readonly keyId: string;
  readonly holdId: string;
  /** Runs the verb on the rows of its key. Runs again after a conflict. */
  readonly work: (ledger: LoadedLedger) => unknown;
  /** Resolves the verb's promise with its answer, or with `LEAD`: the verb then runs the transaction of the next group. */
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const LEAD = Symbol("lead");

interface Group {
  /** Answer the verbs once the transaction is committed. */
  readonly answers: readonly (() => void)[];
  /** The verbs of keys with more expired holds than one transaction charges, which must run again. */
  readonly again: ReadonlyMap<string, readonly WaitingVerb[]>;
  /** The thresholds that budgets have reached. */
  readonly events: readonly BudgetEvent[];
}

class DrivenQuotaStore<Context> implements DurableQuotaStore<Context> {
  readonly #driver: LedgerDriver;
  readonly #find: LedgerQuotaStoreOptions<Context>["find"];
  readonly #onBudget: OnBudget | undefined;
  readonly #maxVerbs: number;
  readonly #addKey: (added: NewKey) => Promise<void>;
  /**
   * The topmost budgets of keys that had a budget when they were last seen, by the keys' ids. These keys need no fast verb, and those
   * of one budget share transactions.
   */
  readonly #withBudget = new TwoGenerationMap<string>(MOST_REMEMBERED);
  /** The ids of the api keys that holds belong to, by the holds' ids. */
  readonly #keyIds = new TwoGenerationMap<string>(MOST_REMEMBERED);
  /** The number of running fast verbs, by key. */
  readonly #running = new Map<string, number>();
  /** The waiting verbs, by their turn. A turn is in the map while its transaction runs. */
  readonly #waiting = new Map<string, WaitingVerb[]>();

  constructor(driver: LedgerDriver, { find, maxVerbsPerTransaction = 64, onBudget }: LedgerQuotaStoreOptions<Context>) {
    this.#driver = driver;
    this.#find = find;
    this.#onBudget = onBudget;
    this.#maxVerbs = maxVerbsPerTransaction;
    this.#addKey = grouped(driver.oneWriter ? MOST_AT_ONCE : 1, (added) => this.#addKeys(added));
  }

  async find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined> {
    return this.#find ? this.#find(apiKey, call) : this.#driver.find(hashApiKey(apiKey));
  }

  async reserve(request: HoldRequest): Promise<Reservation> {
    assertHoldRequest(request);
    const { id, keyId } = request;
    if (!isStorableId(keyId)) return UNKNOWN_KEY;
    const reserve = () => this.#inGroup(keyId, id, (ledger) => ledger.reserve(request));
    let reservation = (await this.#fast(keyId, (verbs) => verbs.reserve(request))) ?? (await reserve());
    // Expired holds of other keys, which no verb of this key charges, may hold the missing units of a budget.
    if (
      reservation.refused &&
      reservation.held > 0 &&
      this.#withBudget.get(keyId) &&
      (await this.#chargeExpired(keyId))
    )
      reservation = await reserve();
    if (!reservation.refused) this.#keyIds.add(id, keyId);
    return reservation;
  }

  async renew(id: string, renewal: Renewal): Promise<void> {
    assertRenewal(renewal);
    if (!isStorableId(id)) return;
    const keyId = this.#keyIds.get(id);
    if (await this.#fast(keyId, (verbs) => verbs.renew(id, renewal, keyId))) return;
    await this.#onHold(id, renewal.leaseMs, (ledger) => ledger.renew(id, renewal));
  }

  async settle(id: string, outcome: Outcome): Promise<void> {
    assertOutcome(outcome);
    if (!isStorableId(id)) return;
    const [keyId, tells] = [this.#keyIds.get(id), this.#onBudget !== undefined];
    if (await this.#fast(keyId, (verbs) => verbs.settle(id, outcome, keyId, tells))) return;
    await this.#onHold(id, 0, (ledger) => ledger.settle(id, outcome));
  }

  async recall(keyId: string): Promise<void> {
    if (isStorableId(keyId)) await this.#driver.recall(keyId);
  }

  async recalled(withinMs: number): Promise<readonly string[]> {
    assertInteger("withinMs", withinMs, 0);
    return this.#driver.recalled(withinMs);
  }

  async balance(keyId: string): Promise<Balance | undefined> {
    for (;;) {
      const ledger = await this.#current(keyId);
      const account = ledger.accounts.get(keyId);
      if (!account) return undefined;
      const balance = ledger.tightestOf(account).balance;
      // The held units of a budget may belong to expired holds of other keys.
      if (account.budgets.length === 0 || balance.held === 0 || !(await this.#chargeExpired())) return balance;
    }
  }

  /** Reads a key and its budgets after charging all expired holds of the key. */
  async #current(keyId: string): Promise<LoadedLedger> {
    for (;;) {
      const ledger = new LoadedLedger(await this.#driver.read(scopeOf(keyId)));
      // If an expired hold cannot be charged, its row is corrupt; leave it.
      if (ledger.expired.length === 0 || (await this.#expireSome(keyId)) === 0) return ledger;
    }
  }

  async add(options: DurableKeyOptions = {}): Promise<string> {
    const added = newDurableKeyOf(options);
    await this.#addKey(added);
    return added.key.id;
  }

  async #addKeys(added: readonly NewKey[]): Promise<void> {
    const keys = added.flatMap(({ key }) => scopeOf(key.id).keys);
    const budgets = new Set(added.flatMap(({ key }) => key.budget ?? []));
    const scope = { keys, secrets: added.flatMap(({ hashes }) => hashes), budgets: [...budgets] };
    await this.#change(scope, (ledger) => {
      for (const one of added) ledger.addKey(one);
    });
  }

  async addSecret(keyId: string, apiKey: string, expiresAt = 0): Promise<void> {
    const [hash, endsAt] = [hashOfSecret(apiKey), secretEndOf(expiresAt)];
    await this.#change({ ...scopeOf(keyId), secrets: [hash] }, (ledger) => ledger.addSecret(keyId, hash, endsAt));
  }

  async rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void> {
    assertInteger("overlapMs", overlapMs, 0);
    const hash = hashOfSecret(apiKey);
    const scope = { ...withSecretsOf(keyId), secrets: [hash] };
    await this.#change(scope, (ledger) => ledger.rotateSecret(keyId, hash, overlapMs));
  }

  async removeSecret(apiKey: string): Promise<string | undefined> {
    const hash = hashOfSecret(apiKey);
    return this.#change({ keys: [], secrets: [hash] }, (ledger) => ledger.removeSecret(hash));
  }

  async revoke(keyId: string): Promise<void> {
    await this.#change(withSecretsOf(keyId), (ledger) => ledger.revoke(keyId));
  }

  async update(keyId: string, changes: KeyChanges, isExpected?: (key: ApiKey) => boolean): Promise<void> {
    assertKeyChanges(changes);
    await this.#change(scopeOf(keyId), (ledger) => ledger.update(keyId, changes, isExpected));
  }

  async grant(keyId: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    await this.#change(scopeOf(keyId), (ledger) => ledger.grant(keyId, units));
  }

  async lower(keyId: string, units: number): Promise<void> {
    assertInteger("units", units, 0);
    await this.#change(scopeOf(keyId), (ledger) => ledger.grant(keyId, -units));
  }

  async report(keyId: string): Promise<KeyReport | undefined> {
    if (!isStorableId(keyId)) return undefined;
    await this.#current(keyId);
    const [report] = await this.#reportKeys({ ids: [keyId] });
    return report;
  }

  async list(page?: KeyPage): Promise<readonly KeyReport[]> {
    return this.#reportKeys(pageOf(page));
  }

  async #reportKeys(page: RowPage): Promise<readonly KeyReport[]> {
    return (await this.#driver.listKeys(page)).map(reportOf);
  }

  async sweep(): Promise<number> {
    return onEachKey(
      (after) => this.#driver.keysWith({ expired: true }, after),
      // Skip a key whose row is locked: the transaction that holds the lock charges the key's expired holds.
      (keyId) => this.#expireSome(keyId, true),
    );
  }

  async prune(retention: Retention): Promise<number> {
    assertRetention(retention);
    const { now } = await this.#driver.read({ keys: [] });
    // Use one cutoff for the whole run: holds that are resolved during the run are left to the next run.
    const resolvedBefore = now - retention.olderThanMs;
    return onEachKey(
      (after) => this.#driver.keysWith({ resolvedBefore }, after),
      (keyId) => this.#change({ ...scopeOf(keyId), resolvedBefore }, (ledger) => ledger.prune(resolvedBefore)),
    );
  }

  async addBudget(budget: BudgetOptions): Promise<BudgetReport> {
    assertStorableBudget(budget);
    const { id, parent } = budget;
    const budgets = parent === undefined ? [id] : [id, parent];
    return this.#change({ keys: [], budgets }, (ledger) => ledger.addBudget(budget));
  }

  async removeBudget(id: string): Promise<void> {
    while (await this.#chargeExpired());
    await this.#change({ keys: [], budgets: [id], usersOf: id }, (ledger) => ledger.removeBudget(id));
  }

  async updateBudget(
    id: string,
    ...change: [BudgetChanges, ((budget: BudgetReport) => boolean)?]
  ): Promise<BudgetReport> {
    assertStorableChanges(change[0]);
    return this.#changeBudget(id, (ledger) => ledger.updateBudget(id, ...change));
  }

  async topUpBudget(id: string, units: number): Promise<BudgetReport> {
    assertInteger("units", units, 0);
    return this.#changeBudget(id, (ledger) => ledger.topUpBudget(id, units));
  }

  async lowerBudget(id: string, units: number): Promise<BudgetReport> {
    assertInteger("units", units, 0);
    return this.#changeBudget(id, (ledger) => ledger.topUpBudget(id, -units));
  }

  /** Changes a budget after all expired holds are charged: its report would have them as held. */
  async #changeBudget(id: string, work: (ledger: LoadedLedger) => BudgetReport): Promise<BudgetReport> {
    while (await this.#chargeExpired());
    return this.#change({ keys: [], budgets: [id] }, work);
  }

  async assignBudget(
    keyId: string,
    budgetId: string | undefined,
    isExpected?: (key: ApiKey) => boolean,
  ): Promise<void> {
    const scope = { ...scopeOf(keyId), budgets: budgetId === undefined ? [] : [budgetId] };
    await this.#change(scope, (ledger) => ledger.assignBudget(keyId, budgetId, isExpected));
  }

  async budgetReport(id: string): Promise<BudgetReport | undefined> {
    if (!isStorableId(id)) return undefined;
    const [report] = await this.#reportBudgets({ ids: [id] });
    return report;
  }

  async listBudgets(page?: BudgetPage): Promise<readonly BudgetReport[]> {
    return this.#reportBudgets(pageOf(page));
  }

  async #reportBudgets(page: RowPage): Promise<readonly BudgetReport[]> {
    while (await this.#chargeExpired());
    const { now } = await this.#driver.read({ keys: [] });
    return (await this.#driver.listBudgets(page)).map((row) => {
      const budget = budgetOf(row);
      budget.turn(now);
      return budget.report;
    });
  }

  async budgetPeriods(id: string, page: PeriodPage = {}): Promise<readonly BudgetPeriodReport[]> {
    assertOptions<PeriodPage>("budgetPeriods", page, PERIOD_SHAPES);
    const { before = NEVER, limit } = { ...page, ...pageOf(given({ limit: page.limit })) };
    assertInteger("before", before, 0);
    while (await this.#chargeExpired());
    const [row] = isStorableId(id) ? await this.#driver.listBudgets({ ids: [id] }) : [];
    if (!row) throw noSuchBudget(id);
    const { now } = await this.#driver.read({ keys: [] });
    const budget = budgetOf(row);
    const closed = budget.turn(now);
    const { terms } = budget;
    const stored = terms.period ? await this.#driver.listPeriods(id, { before, limit }) : [];
    // A period that another process closes meanwhile is found twice.
    const windows = [...stored.map((period) => windowOf(id, period)), ...(closed ? [closed] : []), budget.window];
    return Array.from(new Map(windows.map((window) => [window.startsAt, window])).values())
      .filter(({ startsAt }) => startsAt < before)
      .toSorted((one, other) => other.startsAt - one.startsAt)
      .slice(0, limit)
      .map((window) => {
        const { amount: _amount, removed: _removed, ...report } = new Budget(terms, window).report;
        return { ...report, ...(window.endsAt <= now && { ended: true as const }) };
      });
  }

  /** Charges some expired holds of some keys. Returns false when there was none to charge. */
  async #chargeExpired(except?: string): Promise<boolean> {
    const due: DueHolds = { expired: true, inBudgets: true };
    let charged = 0;
    for (const keyId of await this.#driver.keysWith(due, ""))
      // A corrupt key must not make the others fail. `sweep` reports it.
      if (keyId !== except) charged += await this.#expireSome(keyId, true).catch(() => 0);
    return charged > 0;
  }

  /** Charges some expired holds of a key, and returns their number. */
  #expireSome(keyId: string, skipLocked = false): Promise<number> {
    return this.#change({ ...scopeOf(keyId), skipLocked }, (_ledger, expired) => expired);
  }

  /** Runs `work` on the rows of a scope, after charging expired holds of its keys. */
  async #change<Answer>(scope: LedgerScope, work: (ledger: LoadedLedger, expired: number) => Answer): Promise<Answer> {
    const { answer, events } = await this.#driver.change(scope, (rows) => {
      const ledger = new LoadedLedger(rows);
      const { expired } = ledger;
      ledger.expire(expired);
      return this.#worked(ledger, work(ledger, expired.length));
    });
    this.#tell(events);
    return answer;
  }

  /** Returns an answer with the changes of the ledger, and with the thresholds that budgets have reached. */
  #worked<Answer>(
    ledger: LoadedLedger,
    answer: Answer,
  ): Worked<{ readonly answer: Answer; readonly events: readonly BudgetEvent[] }> {
    const events = this.#onBudget ? ledger.news() : [];
    return { answer: { answer, events }, changes: ledger.changes };
  }

  #tell(events: readonly BudgetEvent[]): void {
    if (this.#onBudget) tellAll(this.#onBudget, events);
  }

  /** Runs a verb on the key of a hold; does nothing when there is no such hold. */
  async #onHold(id: string, leaseMs: number, work: (ledger: LoadedLedger) => void): Promise<void> {
    const remembered = this.#keyIds.get(id);
    const workOnOwn =
      (keyId: string) =>
      (ledger: LoadedLedger): boolean => {
        if (ledger.hold(id)?.keyId !== keyId) return false;
        work(ledger);
        return true;
      };
    if (remembered !== undefined && (await this.#inGroup(remembered, id, workOnOwn(remembered)))) return;
    const keyId = await this.#driver.ownerOf(id, leaseMs);
    if (keyId !== undefined) await this.#inGroup(keyId, id, workOnOwn(keyId));
  }

  /**
   * Runs a verb by the driver's fast way. Returns undefined when the verb needs a transaction instead: the driver has no such way, the
   * key has a budget, or is busy, so that its verbs share transactions.
   */
  async #fast<T>(
    keyId: string | undefined,
    run: (verbs: NonNullable<LedgerDriver["fast"]>) => Promise<T>,
  ): Promise<T | undefined> {
    const { fast } = this.#driver;
    if (!fast) return undefined;
    const { most, withBudgets = false } = fast;
    if (keyId === undefined) return run(fast);
    if (!withBudgets && this.#withBudget.get(keyId)) return undefined;
    if (most === undefined) return run(fast);
    const running = this.#running.get(keyId) ?? 0;
    if (running >= most) return undefined;
    this.#running.set(keyId, running + 1);
    try {
      return await run(fast);
    } finally {
      const remaining = (this.#running.get(keyId) ?? 1) - 1;
      if (remaining > 0) this.#running.set(keyId, remaining);
      else this.#running.delete(keyId);
    }
  }

  /**
   * Runs a verb on the rows of a key, after charging the key's expired holds. Verbs that arrive meanwhile wait, and share the next
   * transaction: its lock, its reads and its writes.
   */
  async #inGroup<T>(keyId: string, holdId: string, work: (ledger: LoadedLedger) => T): Promise<T> {
    // Keys of one budget would wait for its row, so they share a turn.
    const root = this.#withBudget.get(keyId);
    const turn = this.#driver.oneWriter ? "" : root === undefined ? keyId : `\0${root}`;
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
        const keys = Array.from(verbs, ([id, waiting]) => {
          return { id, holds: Array.from(new Set(waiting.map(({ holdId }) => holdId))) };
        });
        const { answer, events } = await this.#driver.change({ keys }, (rows) => this.#runVerbs(rows, verbs));
        for (const tell of answer.answers) tell();
        this.#tell(events);
        remaining = answer.again;
      }
    } catch (error) {
      // Run each key in its own transaction: a key whose row is corrupt must not make the other keys fail.
      if (remaining.size > 1) for (const entry of remaining) await this.#commit(new Map([entry]));
      else for (const { reject } of Array.from(remaining.values()).flat()) reject(error);
    }
  }

  #runVerbs(rows: LedgerRows, byKey: ReadonlyMap<string, readonly WaitingVerb[]>) {
    const ledger = new LoadedLedger(rows);
    const answers: (() => void)[] = [];
    const again = new Map<string, readonly WaitingVerb[]>();
    const expired = Map.groupBy(ledger.expired, ({ keyId }) => keyId);
    for (const [keyId, verbs] of byKey) {
      const account = ledger.accounts.get(keyId);
      const root = account?.budgets.at(-1);
      if (root !== undefined && this.#withBudget.get(keyId) !== root) this.#withBudget.add(keyId, root);
      const due = expired.get(keyId) ?? [];
      ledger.expire(due);
      if (due.length >= HOLDS_AT_ONCE) again.set(keyId, verbs);
      else
        for (const { work, resolve, reject } of verbs)
          try {
            const answer = work(ledger);
            answers.push(() => resolve(answer));
          } catch (error) {
            // A verb that throws has changed nothing, so the other verbs of its group continue.
            answers.push(() => reject(error));
          }
    }
    return this.#worked(ledger, { answers, again } satisfies Omit<Group, "events">);
  }
}

const scopeOf = (keyId: string): LedgerScope => ({ keys: isStorableId(keyId) ? [{ id: keyId, holds: [] }] : [] });

const withSecretsOf = (keyId: string): LedgerScope => ({
  ...scopeOf(keyId),
  ...(isStorableId(keyId) && { secretsOf: keyId }),
});

/** Makes the report of a key. Numbers are given as text, because one that is corrupt must not make a list of keys fail. */
function reportOf(row: KeyRow & { readonly secrets: number }): KeyReport {
  const { unlimited, secrets, revokedAt, spoilt = [] } = row;
  const [granted, charged, held, overdraft, estimated] = BOOKS.map((book) => String(row[book]));
  const books = { granted, charged, held, overdraft, estimated } as Record<(typeof BOOKS)[number], string>;
  return keyReportOf(toApiKey(row), books, { unlimited, secrets, revoked: revokedAt !== null, spoilt });
}
