/** The reference QuotaStore: a ledger in memory, for one process, tests and playgrounds. */

import { assertOptions, CLOCK, listOf } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import type {
  ApiKey,
  Balance,
  HoldRequest,
  Outcome,
  QuotaRecalls,
  QuotaStore,
  Renewal,
  Reservation,
} from "../ports/quota-store.ts";
import {
  assertBudgetOptions,
  Budget,
  type BudgetOptions,
  type BudgetReport,
  type OnBudget,
  tellAll,
  termsOf,
  type Window,
} from "./budgets.ts";
import {
  changedDurableKeyOf,
  type KeyDirectory,
  type KeyReport,
  keyReportOf,
  newDurableKeyOf,
  pageOf,
  revokedKey,
  secretEndOf,
  unlimitedKey,
} from "./durable.ts";
import {
  assertKeyChanges,
  Account,
  type ApiKeyOptions,
  assertHoldAmounts,
  assertInteger,
  assertKeyOptions,
  assertOutcome,
  assertRenewal,
  type Book,
  BOOKS,
  budgetInUse,
  expireHold,
  foreignHold,
  hashApiKey,
  hashOfSecret,
  type Hold,
  holdUnits,
  keyWithBudget,
  knownBudget,
  knownKey,
  knownSecret,
  newKeyOf,
  noSuchBudget,
  noSuchKey,
  removedBudget,
  noteHold,
  RECALLS_MS,
  resolveHold,
  type Share,
  tightestOf,
  TwoGenerationMap,
  UNKNOWN_KEY,
} from "./ledger.ts";

/** The books of a key, in units. Hosts read them for audits. */
export interface LedgerReport {
  readonly granted: number;
  /** Includes the units of live holds. */
  readonly used: number;
  readonly available: number;
  /** Units of live holds, which `used` includes. */
  readonly held: number;
  readonly liveHolds: number;
  /** Units that were consumed beyond the key's quota. */
  readonly overdraft: number;
  /** Units of `used` that rest on estimates. */
  readonly estimated: number;
}

/** Options of the ledger in memory. */
export interface MemoryQuotaStoreOptions {
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /**
   * The most settled holds that are remembered, so that settling a hold twice changes nothing: an integer from 0 up, default 10,000.
   * A hold is remembered for an hour, or until half this number of holds were settled after it. The more holds are remembered, the
   * longer the look-up in each call takes. Live holds, and holds whose lease expired less than an hour ago, are not counted.
   */
  readonly maxRetained?: number;
  /** Limits that several keys share. A parent comes before the budgets that draw on it. */
  readonly budgets?: readonly BudgetOptions[];
  /** Is told when a budget reaches 50, 80 and 100 percent. */
  readonly onBudget?: OnBudget;
}

/** A quota store in memory, with the methods by which a host manages keys and secrets. */
export interface MemoryQuotaStore extends QuotaStore, QuotaRecalls {
  /**
   * Adds a key and returns its id. Throws a RangeError when the key's numbers are not a valid quota, when its id or a secret exists
   * already, and when it has no secret.
   */
  add(key: ApiKeyOptions): string;
  /** Deletes a key and its secrets. Its live holds end without a charge. An unknown id changes nothing. */
  remove(keyId: string): void;
  /**
   * Gives a key one more secret, which expires at a Unix time in whole seconds; with 0 (the default) or -1, it never expires. Throws a
   * RangeError when there is no such key, it is revoked, or the secret exists already.
   */
  addSecret(keyId: string, apiKey: string, expiresAt?: number): void;
  /**
   * Deletes a secret, given with or without `sk-`. Its key stays, even without any secret, because running calls are charged to the
   * key. An unknown secret changes nothing.
   */
  removeSecret(apiKey: string): void;
  /** Returns the books of a key; undefined when there is no such key. */
  report(keyId: string): LedgerReport | undefined;
  /** Adds a budget. Throws a RangeError for a wrong value, a known or removed id, or a parent that does not exist. */
  addBudget(budget: BudgetOptions): void;
  /**
   * Removes a budget. Throws a RangeError when there is no such budget, and while a key that is not revoked, a child budget or a running
   * call draws on it. Its books stay for audits: `budgetReport` still returns them, and its id cannot be used again.
   */
  removeBudget(id: string): void;
  /**
   * Sets the amount of a budget, for the current period and all later ones: an integer from 0 up, also less than what is used already.
   * Units that the budget then lacks for running calls become overdraft. Throws a RangeError when there is no such budget.
   */
  setBudgetAmount(id: string, amount: number): void;
  /** Adds units to the current period of a budget. Throws a RangeError when there is no such budget. */
  topUpBudget(id: string, units: number): void;
  /**
   * Lets a key draw on a budget from now on, or on none. Running calls are charged to the budgets that they were reserved in. Throws
   * a RangeError when there is no such key or budget, or the key is revoked.
   */
  assignBudget(keyId: string, budgetId: string | undefined): void;
  /** Returns a budget and the books of its current period; undefined when there is no such budget. */
  budgetReport(id: string): BudgetReport | undefined;
  /** The keys as `keyAdmin` of `polygate/admin` manages them. A key that is added here may have no secret. */
  readonly keys: KeyDirectory;
}

/**
 * Makes a quota store in memory. Each verb runs synchronously, so two verbs can never race.
 *
 * @example
 * const quotas = memoryQuotaStore([{ apiKey: "sk-team-a", granted: 1_000_000 }]);
 */
export function memoryQuotaStore(
  keys: readonly ApiKeyOptions[] = [],
  options: MemoryQuotaStoreOptions = {},
): MemoryQuotaStore {
  if (!Array.isArray(keys))
    throw new TypeError(
      'memoryQuotaStore: the first argument must be a list, such as memoryQuotaStore([{ apiKey: "sk-…" }]).',
    );
  assertOptions<MemoryQuotaStoreOptions>("memoryQuotaStore", options, {
    clock: CLOCK,
    maxRetained: "fromZero?",
    budgets: { optional: listOf(assertBudgetOptions) },
    onBudget: "function?",
  });
  const { clock = systemClock, maxRetained = 10_000, budgets = [], onBudget } = options;
  const store = new MemoryLedger(clock, maxRetained, onBudget);
  for (const budget of budgets) store.addBudget(budget);
  for (const key of keys) store.add(key);
  return store;
}

/**
 * The time for which a resolved hold is remembered, in milliseconds. During this time, settling a settled hold again changes nothing,
 * and settling an expired hold corrects its charge.
 */
const RETAINED_MS = 3_600_000;

/** A key, its books, and the budgets that it draws on: its own budget, its parent, and so on. */
class MemoryAccount extends Account {
  budgets: readonly Budget[] | undefined;
}

interface MemoryHold extends Hold {
  readonly id: string;
  readonly account: MemoryAccount;
  /** The budgets that cover the hold, and the periods that it was reserved in. Undefined for a key without a budget. */
  readonly budgets: readonly Budget[] | undefined;
  readonly shares: readonly Share[] | undefined;
  /** The end of the lease, in milliseconds since the Unix epoch. */
  expiresAt: number;
}

interface Secret {
  readonly account: MemoryAccount;
  /** Unix time in milliseconds; undefined when the secret never expires. */
  endsAt: number | undefined;
}

// Every request runs these verbs, so they are plain functions that return promises: an async function costs more.
class MemoryLedger implements MemoryQuotaStore {
  readonly #clock: Clock;
  readonly #accounts = new Map<string, MemoryAccount>();
  /** The secrets, by their hashes. */
  readonly #bySecret = new Map<string, Secret>();
  /** The ids of revoked keys. */
  readonly #revoked = new Set<string>();
  readonly #budgets = new Map<string, Budget>();
  readonly #onBudget: OnBudget | undefined;
  readonly #live = new Map<string, MemoryHold>();
  /** Holds whose lease has expired, each for a full hour: a late `settle` may still bring the true count. */
  readonly #expired: TwoGenerationMap<MemoryHold>;
  /** The accounts of settled holds, by the holds' ids, for an hour or until too many holds were settled after them. */
  readonly #settled: TwoGenerationMap<MemoryAccount>;
  /** The times of the last recalls, by the keys' ids. */
  readonly #recalls = new Map<string, number>();
  /** No live hold expires before this time. */
  #nextExpiry = Number.POSITIVE_INFINITY;
  #named = 0;

  constructor(clock: Clock, maxRetained: number, onBudget: OnBudget | undefined) {
    this.#clock = clock;
    this.#onBudget = onBudget;
    this.#expired = new TwoGenerationMap(Number.POSITIVE_INFINITY, RETAINED_MS, clock.now());
    this.#settled = new TwoGenerationMap(Math.floor(maxRetained / 2), RETAINED_MS, clock.now());
  }

  find(apiKey: string): Promise<ApiKey | undefined> {
    const secret = this.#bySecret.get(hashApiKey(apiKey));
    return Promise.resolve(secret && this.#isValid(secret) ? secret.account.key : undefined);
  }

  reserve(request: HoldRequest): Promise<Reservation> {
    try {
      assertHoldAmounts(request);
      const { id, keyId, atLeast, atMost, leaseMs } = request;
      const now = this.#clock.now();
      if (now >= this.#nextExpiry) this.#expire(now);
      const live = this.#live.get(id);
      const owner = live?.account ?? this.#expired.get(id, now)?.account ?? this.#settled.get(id, now);
      if (owner && owner.key.id !== keyId) throw foreignHold();
      const account = this.#accounts.get(keyId);
      if (!account) return Promise.resolve(UNKNOWN_KEY);
      if (live) return Promise.resolve({ granted: live.granted });
      const { budgets } = account;
      const windows = budgets?.map((budget) => windowAt(budget, now));
      // A resolved hold does not admit another call.
      const granted = owner ? undefined : holdUnits(account, windows, atLeast, atMost);
      if (granted === undefined) {
        if (budgets && !owner) this.#tell(budgets, atLeast);
        return Promise.resolve(tightestOf(account, windows).refusal);
      }
      const expiresAt = now + leaseMs;
      const shares = windows?.map((books) => ({ books, overdraft: 0 }));
      this.#live.set(id, {
        id,
        account,
        budgets,
        shares,
        expiresAt,
        state: "live",
        granted,
        noted: 0,
        used: 0,
        overdraft: 0,
      });
      if (expiresAt < this.#nextExpiry) this.#nextExpiry = expiresAt;
      return Promise.resolve({ granted });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  renew(id: string, renewal: Renewal): Promise<void> {
    try {
      assertRenewal(renewal);
    } catch (error) {
      return Promise.reject(error);
    }
    const now = this.#clock.now();
    if (now >= this.#nextExpiry) this.#expire(now);
    const hold = this.#live.get(id);
    if (!hold) return DONE;
    noteHold(hold.account, hold, hold.shares, renewal);
    hold.expiresAt = now + renewal.leaseMs;
    if (hold.expiresAt < this.#nextExpiry) this.#nextExpiry = hold.expiresAt;
    return DONE;
  }

  settle(id: string, outcome: Outcome): Promise<void> {
    try {
      assertOutcome(outcome);
      const now = this.#clock.now();
      if (now >= this.#nextExpiry) this.#expire(now);
      const live = this.#live.get(id);
      if (live) {
        this.#resolve(live, "settled", outcome);
        this.#live.delete(id);
        this.#settled.add(id, live.account, now);
        return DONE;
      }
      const expired = this.#expired.get(id, now);
      if (expired?.state === "expired") this.#resolve(expired, "corrected", outcome);
      return DONE;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #resolve(hold: MemoryHold, state: "settled" | "corrected", outcome: Outcome): void {
    resolveHold(hold.account, hold, hold.shares, state, outcome);
    if (hold.budgets) this.#tell(hold.budgets);
  }

  recall(keyId: string): Promise<void> {
    const now = this.#clock.now();
    for (const [id, at] of this.#recalls) if (at < now - RECALLS_MS) this.#recalls.delete(id);
    this.#recalls.set(keyId, now);
    return DONE;
  }

  async recalled(withinMs: number): Promise<readonly string[]> {
    assertInteger("withinMs", withinMs, 0);
    const since = this.#clock.now() - withinMs;
    return Array.from(this.#recalls).flatMap(([keyId, at]) => (at >= since ? keyId : []));
  }

  /** Tells the host of the thresholds that budgets have reached. */
  #tell(budgets: readonly Budget[], refused?: number): void {
    const onBudget = this.#onBudget;
    if (onBudget) for (const budget of budgets) tellAll(onBudget, budget.news(refused));
  }

  // Looks at every live hold. This is rare, because most holds are renewed or settled long before their lease ends.
  #expire(now: number): void {
    const ended: MemoryHold[] = [];
    this.#nextExpiry = Number.POSITIVE_INFINITY;
    for (const hold of this.#live.values()) {
      if (hold.expiresAt <= now) ended.push(hold);
      else this.#nextExpiry = Math.min(this.#nextExpiry, hold.expiresAt);
    }
    for (const hold of ended.toSorted((one, other) => one.expiresAt - other.expiresAt)) {
      this.#live.delete(hold.id);
      this.#expired.add(hold.id, hold, now);
      expireHold(hold.account, hold, hold.shares);
      if (hold.budgets) this.#tell(hold.budgets);
    }
  }

  balance(keyId: string): Promise<Balance | undefined> {
    const account = this.#currentAccount(keyId);
    if (!account) return Promise.resolve(undefined);
    const now = this.#clock.now();
    const windows = account.budgets?.map((budget) => windowAt(budget, now));
    const { used, available, held } = tightestOf(account, windows);
    return Promise.resolve({ used, available, held });
  }

  report(keyId: string): LedgerReport | undefined {
    const account = this.#currentAccount(keyId);
    if (!account) return undefined;
    let liveHolds = 0;
    for (const hold of this.#live.values()) if (hold.account === account) liveHolds++;
    const { used, available, held, overdraft, estimated } = account;
    return { granted: used + available, used, available, held, liveHolds, overdraft, estimated };
  }

  /** Returns the account of a key after charging all expired holds. */
  #currentAccount(keyId: string): MemoryAccount | undefined {
    const now = this.#clock.now();
    if (now >= this.#nextExpiry) this.#expire(now);
    return this.#accounts.get(keyId);
  }

  add(options: ApiKeyOptions): string {
    assertKeyOptions(options);
    const { id = this.#nextId() } = options;
    const key = newKeyOf(id, options);
    if (key.hashes.length === 0) throw new RangeError("An API key needs a secret.");
    return this.#add(key);
  }

  #add({ key, unlimited, granted, used, hashes }: ReturnType<typeof newKeyOf>): string {
    if (this.#accounts.has(key.id)) throw knownKey(key.id);
    if (hashes.some((hash) => this.#bySecret.has(hash))) throw knownSecret();
    const account = new MemoryAccount(key, unlimited, granted, used);
    account.budgets = key.budget === undefined ? undefined : this.#chainOf(key.budget);
    this.#accounts.set(key.id, account);
    for (const hash of hashes) this.#bySecret.set(hash, { account, endsAt: undefined });
    return key.id;
  }

  #nextId(): string {
    let id: string;
    do id = `key-${++this.#named}`;
    while (this.#accounts.has(id));
    return id;
  }

  remove(keyId: string): void {
    const account = this.#accounts.get(keyId);
    if (!account) return;
    this.#accounts.delete(keyId);
    this.#revoked.delete(keyId);
    this.#removeSecrets(account);
    for (const [id, hold] of this.#live) {
      if (hold.account !== account) continue;
      this.#live.delete(id);
      for (const { books } of hold.shares ?? []) books.held -= hold.granted;
    }
  }

  addSecret(keyId: string, apiKey: string, expiresAt = 0): void {
    const account = this.#usable(keyId);
    const [hash, endsAt] = [hashOfSecret(apiKey), secretEndOf(expiresAt)];
    if (this.#bySecret.has(hash)) throw knownSecret();
    this.#bySecret.set(hash, { account, endsAt });
  }

  addBudget(options: BudgetOptions): void {
    assertBudgetOptions("A budget", options);
    const { id, parent } = options;
    if (id === "") throw new RangeError("A budget needs an id.");
    const known = this.#budgets.get(id);
    if (known) throw known.isRemoved ? removedBudget(id) : knownBudget(id);
    const chain = parent === undefined ? [] : this.#chainOf(parent);
    const terms = termsOf(
      options,
      chain.map((budget) => budget.terms.id),
      chain[0]?.terms.timeZone,
    );
    this.#budgets.set(id, Budget.begun(terms, this.#clock.now()));
  }

  removeBudget(id: string): void {
    const budget = this.#currentBudget(id);
    for (const [keyId, { budgets }] of this.#accounts)
      if (budgets?.[0] === budget && !this.#revoked.has(keyId)) throw budgetInUse(id, { kind: "key", id: keyId });
    for (const [childId, { terms }] of this.#budgets)
      if (terms.chain[1] === id) throw budgetInUse(id, { kind: "budget", id: childId });
    for (const hold of this.#live.values()) if (hold.budgets?.includes(budget)) throw budgetInUse(id, "calls");
    budget.terms.chain = [];
  }

  setBudgetAmount(id: string, amount: number): void {
    assertInteger("amount", amount, 0);
    const budget = this.#currentBudget(id);
    budget.setAmount(amount);
    this.#tell([budget]);
  }

  topUpBudget(id: string, units: number): void {
    assertInteger("units", units, 0);
    this.#currentBudget(id).topUp(units);
  }

  assignBudget(keyId: string, budgetId: string | undefined): void {
    const account = this.#usable(keyId);
    account.budgets = budgetId === undefined ? undefined : this.#chainOf(budgetId);
    account.key = keyWithBudget(account.key, account.unlimited, budgetId);
  }

  budgetReport(id: string): BudgetReport | undefined {
    const budget = this.#budgets.get(id);
    return budget && this.#atPresent(budget).report;
  }

  /** Returns a budget in its current period. Throws a RangeError when there is no such budget. */
  #currentBudget(id: string): Budget {
    const budget = this.#budgets.get(id);
    if (!budget || budget.isRemoved) throw noSuchBudget(id);
    return this.#atPresent(budget);
  }

  /** Returns a budget in its current period, after charging all expired holds. */
  #atPresent(budget: Budget): Budget {
    const now = this.#clock.now();
    if (now >= this.#nextExpiry) this.#expire(now);
    budget.turn(now);
    return budget;
  }

  /** Returns a budget, its parent, and so on. */
  #chainOf(id: string): readonly Budget[] {
    const budget = this.#budgets.get(id);
    if (!budget || budget.isRemoved) throw noSuchBudget(id);
    // A parent exists for as long as its children.
    return budget.terms.chain.flatMap((id) => this.#budgets.get(id) ?? []);
  }

  removeSecret(apiKey: string): void {
    // Do not use `hashOfSecret`, which throws for an empty secret: an unknown secret must change nothing.
    this.#bySecret.delete(hashApiKey(apiKey.replace(/^sk-/, "")));
  }

  readonly keys: KeyDirectory = {
    add: async (options = {}) => this.#add(newDurableKeyOf(options)),
    addSecret: async (keyId, apiKey, expiresAt) => this.addSecret(keyId, apiKey, expiresAt),
    rotateSecret: async (keyId, apiKey, overlapMs) => {
      assertInteger("overlapMs", overlapMs, 0);
      this.addSecret(keyId, apiKey);
      const [account, hash, endsAt] = [this.#usable(keyId), hashOfSecret(apiKey), this.#clock.now() + overlapMs];
      for (const [other, secret] of this.#bySecret)
        if (secret.account === account && other !== hash) secret.endsAt = Math.min(secret.endsAt ?? endsAt, endsAt);
    },
    removeSecret: async (apiKey) => void this.#bySecret.delete(hashOfSecret(apiKey)),
    revoke: async (keyId) => {
      const account = this.#accounts.get(keyId);
      if (!account) throw noSuchKey(keyId);
      this.#removeSecrets(account);
      this.#revoked.add(keyId);
    },
    update: async (keyId, changes) => {
      assertKeyChanges(changes);
      const account = this.#usable(keyId);
      account.key = changedDurableKeyOf(account.key, changes);
    },
    grant: async (keyId, units) => {
      assertInteger("units", units, 0);
      this.#grant(keyId, units);
    },
    lower: async (keyId, units) => {
      assertInteger("units", units, 0);
      this.#grant(keyId, -units);
    },
    report: async (keyId) => {
      const account = this.#currentAccount(keyId);
      return account && this.#keyReport(account);
    },
    list: async (page) => {
      const { after, limit } = pageOf(page);
      this.#currentAccount("");
      const ids = Array.from(this.#accounts.keys()).filter((id) => id > after);
      return ids
        .toSorted()
        .slice(0, limit)
        .flatMap((id) => this.#accounts.get(id) ?? [])
        .map((account) => this.#keyReport(account));
    },
  };

  /** Adds units to a key's quota, or takes them back when `units` is negative. */
  #grant(keyId: string, units: number): void {
    const account = this.#usable(keyId);
    if (account.unlimited) throw unlimitedKey(keyId);
    // Charge expired holds first: they may leave more units to take back.
    this.#currentAccount(keyId);
    account.grant(units);
  }

  #usable(keyId: string): MemoryAccount {
    const account = this.#accounts.get(keyId);
    if (!account) throw noSuchKey(keyId);
    if (this.#revoked.has(keyId)) throw revokedKey(keyId);
    return account;
  }

  #isValid({ endsAt }: Secret): boolean {
    return endsAt === undefined || endsAt > this.#clock.now();
  }

  #removeSecrets(account: Account): void {
    for (const [hash, secret] of this.#bySecret) if (secret.account === account) this.#bySecret.delete(hash);
  }

  #keyReport(account: Account): KeyReport {
    const books = Object.fromEntries(BOOKS.map((book) => [book, String(account[book])])) as Record<Book, string>;
    let secrets = 0;
    for (const secret of this.#bySecret.values()) if (secret.account === account && this.#isValid(secret)) secrets++;
    const revoked = this.#revoked.has(account.key.id);
    return keyReportOf(account.key, books, { unlimited: account.unlimited, secrets, revoked });
  }
}

/** Returns the books of a budget's current period. */
function windowAt(budget: Budget, now: number): Window {
  budget.turn(now);
  return budget.window;
}

/** The result of all verbs that return no value. */
const DONE: Promise<void> = Promise.resolve();
