/** The reference QuotaStore: a ledger in memory, for one process, tests and playgrounds. */

import { assertOptions, CLOCK, givenInstead, listOf, shown } from "../options.ts";
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
  assertBudgetChanges,
  assertBudgetOptions,
  type BudgetChanges,
  type BudgetOptions,
  type BudgetReport,
  type OnBudget,
  tellAll,
} from "./budgets.ts";
import {
  type BudgetPage,
  type KeyDirectory,
  type KeyReport,
  keyReportOf,
  assertStorableBudget,
  newDurableKeyOf,
  pageOf,
  secretEndOf,
} from "./durable.ts";
import {
  type ApiKeyOptions,
  assertHoldAmounts,
  assertInteger,
  assertKeyChanges,
  assertKeyOptions,
  assertOutcome,
  assertRenewal,
  type Book,
  BOOKS,
  type BudgetUser,
  hashApiKey,
  hashOfSecret,
  newKeyOf,
  RECALLS_MS,
  TwoGenerationMap,
} from "./ledger.ts";
import { type Account, type KeyHold, Ledger } from "./rules.ts";

/** The books of a key, in units. Hosts read them for audits. */
export interface LedgerReport {
  /** Null for a key without a quota of its own. */
  readonly granted: number | null;
  /** Includes the units of live holds. */
  readonly used: number;
  /** Null for a key without a quota of its own. */
  readonly available: number | null;
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

/** A quota store in memory. A host adds and changes keys and secrets with its further methods. */
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
  /**
   * Adds a budget, and returns its report. Throws a RangeError for a wrong value, a known or removed id, or a parent that does not exist.
   */
  addBudget(budget: BudgetOptions): BudgetReport;
  /**
   * Removes a budget. Throws a RangeError when there is no such budget, and while a key that is not revoked, a child budget or a running
   * call draws on it. Its books stay for audits: `budgetReport` still returns them, and its id cannot be used again.
   */
  removeBudget(id: string): void;
  /**
   * Changes the name or the amount of a budget, and returns its new report. Throws a RangeError when there is no such budget, or `isExpected`
   * returns false.
   */
  updateBudget(id: string, changes: BudgetChanges, isExpected?: (budget: BudgetReport) => boolean): BudgetReport;
  /** Adds units to the current period of a budget, and returns its new report. Throws a RangeError when there is no such budget. */
  topUpBudget(id: string, units: number): BudgetReport;
  /**
   * Takes available units of the current period back, and returns the new report. Throws a RangeError, and takes nothing, when fewer are
   * available.
   */
  lowerBudget(id: string, units: number): BudgetReport;
  /**
   * Lets a key draw on a budget from now on, or on none. Running calls are charged to the budgets that they were reserved in. Throws
   * a RangeError when there is no such key or budget, the key is revoked, or `isExpected` returns false.
   */
  assignBudget(keyId: string, budgetId: string | undefined, isExpected?: (key: ApiKey) => boolean): void;
  /** Returns a budget and the books of its current period; undefined when there is no such budget. */
  budgetReport(id: string): BudgetReport | undefined;
  /** Lists a page of budgets in the order of their ids, without removed ones: 100 by default, from the first id behind `after`. */
  listBudgets(page?: BudgetPage): readonly BudgetReport[];
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
      `memoryQuotaStore: the first argument must be a list, such as memoryQuotaStore([{ apiKey: "sk-…" }]), not ${givenInstead(keys) ?? shown(keys)}.`,
    );
  listOf(assertKeyOptions)("memoryQuotaStore: keys", keys);
  assertOptions<MemoryQuotaStoreOptions>("memoryQuotaStore", options, {
    clock: CLOCK,
    maxRetained: "fromZero?",
    budgets: { optional: listOf(assertBudgetOptions) },
    onBudget: "function?",
  });
  const { clock = systemClock, maxRetained = 10_000, budgets = [], onBudget } = options;
  const store = new MemoryStore(clock, maxRetained, onBudget);
  addEach("budgets", budgets, (budget) => store.addBudget(budget));
  addEach("keys", keys, (key) => store.add(key));
  return store;
}

/** Adds the entries of a list. The error of an entry names it. */
function addEach<Entry>(list: string, entries: readonly Entry[], add: (entry: Entry) => unknown): void {
  for (const [index, entry] of entries.entries())
    try {
      add(entry);
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause;
      throw new RangeError(`memoryQuotaStore: ${list}[${index}]: ${cause.message}`, { cause });
    }
}

/**
 * The time for which a resolved hold is remembered, in milliseconds. During this time, settling a settled hold again changes nothing,
 * and settling an expired hold corrects its charge.
 */
const RETAINED_MS = 3_600_000;

/** The fields of every settled hold: the store remembers only the API key of such a hold. */
const SETTLED = {
  state: "settled",
  granted: 0,
  noted: 0,
  renewals: 0,
  used: 0,
  overdraft: 0,
  shares: undefined,
  expiresAt: 0,
  resolvedAt: undefined,
} as const;

/** All rows of a ledger, in memory for good. */
class MemoryLedger extends Ledger {
  readonly #clock: Clock;
  readonly #onBudget: OnBudget | undefined;
  readonly live: Map<string, KeyHold> = new Map();
  /** Holds whose lease has expired, each for a full hour: a late `settle` may still bring the true count. */
  readonly #expired: TwoGenerationMap<KeyHold>;
  /** The accounts of settled holds, by the holds' ids, for an hour or until too many holds were settled after them. */
  readonly #settled: TwoGenerationMap<Account>;
  /** No live hold expires before this time. */
  #nextExpiry = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, maxRetained: number, onBudget: OnBudget | undefined) {
    super();
    this.#clock = clock;
    this.#onBudget = onBudget;
    this.#expired = new TwoGenerationMap(Number.POSITIVE_INFINITY, RETAINED_MS, clock.now());
    this.#settled = new TwoGenerationMap(Math.floor(maxRetained / 2), RETAINED_MS, clock.now());
  }

  /** Reads the clock, and charges all expired holds. */
  advance(): this {
    this.now = this.#clock.now();
    if (this.now >= this.#nextExpiry) this.#expire();
    return this;
  }

  // Looks at every live hold. This is rare, because most holds are renewed or settled long before their lease ends.
  #expire(): void {
    const ended: KeyHold[] = [];
    this.#nextExpiry = Number.POSITIVE_INFINITY;
    for (const hold of this.live.values()) {
      if (hold.expiresAt <= this.now) ended.push(hold);
      else this.renewed(hold);
    }
    this.expire(ended);
  }

  override hold(id: string): KeyHold | undefined {
    const known = this.live.get(id) ?? this.#expired.get(id, this.now);
    if (known) return known;
    const account = this.#settled.get(id, this.now);
    return account && { ...SETTLED, id, keyId: account.key.id, account };
  }

  protected override userOf(budgetId: string): BudgetUser | undefined {
    for (const [id, { budgets, revokedAt }] of this.accounts)
      if (budgets[0] === budgetId && revokedAt === undefined) return { kind: "key", id };
    for (const [id, { terms }] of this.budgets) if (terms.chain[1] === budgetId) return { kind: "budget", id };
    for (const { shares } of this.live.values())
      if (shares?.some((share) => share.budgetId === budgetId)) return "calls";
    return undefined;
  }

  protected override opened(hold: KeyHold): void {
    this.live.set(hold.id, hold);
    this.renewed(hold);
  }

  protected override renewed({ expiresAt }: KeyHold): void {
    if (expiresAt < this.#nextExpiry) this.#nextExpiry = expiresAt;
  }

  protected override resolved(hold: KeyHold): void {
    if (this.live.delete(hold.id)) {
      if (hold.state === "expired") this.#expired.add(hold.id, hold, this.now);
      else if (hold.account) this.#settled.add(hold.id, hold.account, this.now);
    }
    if (this.#onBudget) for (const { budgetId } of hold.shares ?? []) this.tell(budgetId);
  }

  protected override refused({ budgets }: Account, atLeast: number): void {
    if (this.#onBudget) for (const budgetId of budgets) this.tell(budgetId, atLeast);
  }

  /** Tells the host of the thresholds that a budget has reached. */
  tell(budgetId: string, refused?: number): void {
    if (this.#onBudget) tellAll(this.#onBudget, this.budgets.get(budgetId)?.news(refused) ?? []);
  }

  /** Deletes a key and its secrets. Its live holds end without a charge. */
  remove(keyId: string): void {
    const account = this.accounts.get(keyId);
    if (!account) return;
    this.accounts.delete(keyId);
    this.removeSecretsOf(keyId);
    for (const [id, hold] of this.live) {
      if (hold.account !== account) continue;
      this.live.delete(id);
      for (const { books } of hold.shares ?? []) books.held -= hold.granted;
    }
  }

  isValid({ endsAt }: { readonly endsAt: number | undefined }): boolean {
    return endsAt === undefined || endsAt > this.#clock.now();
  }
}

// Every request runs these verbs, so they are plain functions that return promises: an async function costs more.
class MemoryStore implements MemoryQuotaStore {
  readonly #ledger: MemoryLedger;
  readonly #clock: Clock;
  /** The times of the last recalls, by the keys' ids. */
  readonly #recalls = new Map<string, number>();
  #named = 0;

  constructor(clock: Clock, maxRetained: number, onBudget: OnBudget | undefined) {
    this.#clock = clock;
    this.#ledger = new MemoryLedger(clock, maxRetained, onBudget);
  }

  find(apiKey: string): Promise<ApiKey | undefined> {
    const secret = this.#ledger.secrets.get(hashApiKey(apiKey));
    const isValid = secret !== undefined && this.#ledger.isValid(secret);
    return Promise.resolve(isValid ? this.#ledger.accounts.get(secret.keyId)?.key : undefined);
  }

  reserve(request: HoldRequest): Promise<Reservation> {
    try {
      assertHoldAmounts(request);
      return Promise.resolve(this.#ledger.advance().reserve(request));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  renew(id: string, renewal: Renewal): Promise<void> {
    try {
      assertRenewal(renewal);
      this.#ledger.advance().renew(id, renewal);
      return DONE;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  settle(id: string, outcome: Outcome): Promise<void> {
    try {
      assertOutcome(outcome);
      this.#ledger.advance().settle(id, outcome);
      return DONE;
    } catch (error) {
      return Promise.reject(error);
    }
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

  balance(keyId: string): Promise<Balance | undefined> {
    const ledger = this.#ledger.advance();
    const account = ledger.accounts.get(keyId);
    if (!account) return Promise.resolve(undefined);
    return Promise.resolve(ledger.tightestOf(account).balance);
  }

  report(keyId: string): LedgerReport | undefined {
    const ledger = this.#ledger.advance();
    const account = ledger.accounts.get(keyId);
    if (!account) return undefined;
    let liveHolds = 0;
    for (const hold of ledger.live.values()) if (hold.account === account) liveHolds++;
    const { unlimited, used, available, held, overdraft, estimated } = account;
    const [granted, rest] = unlimited ? [null, null] : [used + available, available];
    return { granted, used, available: rest, held, liveHolds, overdraft, estimated };
  }

  add(options: ApiKeyOptions): string {
    assertKeyOptions("An API key", options);
    const { id = this.#nextId() } = options;
    const key = newKeyOf(id, options);
    if (key.hashes.length === 0) throw new RangeError("An API key needs a secret: apiKey is missing.");
    return this.#ledger.addKey(key);
  }

  #nextId(): string {
    let id: string;
    do id = `key-${++this.#named}`;
    while (this.#ledger.accounts.has(id));
    return id;
  }

  remove(keyId: string): void {
    this.#ledger.remove(keyId);
  }

  addSecret(keyId: string, apiKey: string, expiresAt = 0): void {
    this.#ledger.addSecret(keyId, hashOfSecret(apiKey), secretEndOf(expiresAt));
  }

  removeSecret(apiKey: string): void {
    // Do not use `hashOfSecret`, which throws for an empty secret: an unknown secret must change nothing.
    this.#ledger.removeSecret(hashApiKey(apiKey.replace(/^sk-/, "")));
  }

  addBudget(options: BudgetOptions): BudgetReport {
    assertStorableBudget(options);
    return this.#ledger.advance().addBudget(options);
  }

  removeBudget(id: string): void {
    this.#ledger.advance().removeBudget(id);
  }

  updateBudget(id: string, changes: BudgetChanges, isExpected?: (budget: BudgetReport) => boolean): BudgetReport {
    assertBudgetChanges(changes);
    const report = this.#ledger.advance().updateBudget(id, changes, isExpected);
    this.#ledger.tell(id);
    return report;
  }

  topUpBudget(id: string, units: number): BudgetReport {
    assertInteger("units", units, 0);
    return this.#ledger.advance().topUpBudget(id, units);
  }

  lowerBudget(id: string, units: number): BudgetReport {
    assertInteger("units", units, 0);
    const report = this.#ledger.advance().topUpBudget(id, -units);
    this.#ledger.tell(id);
    return report;
  }

  assignBudget(keyId: string, budgetId: string | undefined, isExpected?: (key: ApiKey) => boolean): void {
    this.#ledger.assignBudget(keyId, budgetId, isExpected);
  }

  budgetReport(id: string): BudgetReport | undefined {
    return this.#ledger.advance().budgetReport(id);
  }

  listBudgets(page?: BudgetPage): readonly BudgetReport[] {
    const { after, limit } = pageOf(page);
    const ledger = this.#ledger.advance();
    const ids = Array.from(ledger.budgets.values(), ({ isRemoved, terms }) => (isRemoved ? "" : terms.id));
    return ids
      .filter((id) => id > after)
      .toSorted()
      .slice(0, limit)
      .flatMap((id) => ledger.budgetReport(id) ?? []);
  }

  readonly keys: KeyDirectory = {
    add: async (options = {}) => this.#ledger.addKey(newDurableKeyOf(options)),
    addSecret: async (keyId, apiKey, expiresAt) => this.addSecret(keyId, apiKey, expiresAt),
    rotateSecret: async (keyId, apiKey, overlapMs) => {
      assertInteger("overlapMs", overlapMs, 0);
      this.#ledger.advance().rotateSecret(keyId, hashOfSecret(apiKey), overlapMs);
    },
    removeSecret: async (apiKey) => this.#ledger.removeSecret(hashOfSecret(apiKey)),
    revoke: async (keyId) => this.#ledger.advance().revoke(keyId),
    update: async (keyId, changes, isExpected) => {
      assertKeyChanges(changes);
      this.#ledger.advance().update(keyId, changes, isExpected);
    },
    grant: async (keyId, units) => {
      assertInteger("units", units, 0);
      this.#ledger.advance().grant(keyId, units);
    },
    lower: async (keyId, units) => {
      assertInteger("units", units, 0);
      this.#ledger.advance().grant(keyId, -units);
    },
    report: async (keyId) => {
      const account = this.#ledger.advance().accounts.get(keyId);
      return account && this.#keyReports([account])[0];
    },
    list: async (page) => {
      const { after, limit } = pageOf(page);
      const { accounts } = this.#ledger.advance();
      const ids = Array.from(accounts.keys()).filter((id) => id > after);
      return this.#keyReports(
        ids
          .toSorted()
          .slice(0, limit)
          .flatMap((id) => accounts.get(id) ?? []),
      );
    },
  };

  #keyReports(accounts: readonly Account[]): readonly KeyReport[] {
    const counts = new Map(accounts.map(({ key }) => [key.id, 0]));
    for (const secret of this.#ledger.secrets.values()) {
      const count = counts.get(secret.keyId);
      if (count !== undefined && this.#ledger.isValid(secret)) counts.set(secret.keyId, count + 1);
    }
    return accounts.map(({ key, unlimited, revokedAt, ...books }) => {
      const texts = Object.fromEntries(BOOKS.map((book) => [book, String(books[book])])) as Record<Book, string>;
      return keyReportOf(key, texts, { unlimited, secrets: counts.get(key.id) ?? 0, revoked: revokedAt !== undefined });
    });
  }
}

/** The result of all verbs that return no value. */
const DONE: Promise<void> = Promise.resolve();
