/** The rules of the ledger, for every store: what each verb does to the rows at hand. Without I/O, and without a clock of its own. */

import type { ApiKey, HoldRequest, Outcome, Renewal, Reservation } from "../ports/quota-store.ts";
import { Budget, type BudgetChanges, type BudgetOptions, type BudgetReport, termsOf, type Window } from "./budgets.ts";
import type { EntryKind } from "./driver.ts";
import { changedDurableKeyOf, knownQuota, revokedKey, unlimitedKey } from "./durable.ts";
import {
  type Book,
  Books,
  booksIn,
  budgetInUse,
  type BudgetUser,
  expireHold,
  foreignHold,
  changedMeanwhile,
  type Hold,
  holdUnits,
  type KeyChanges,
  keyWithBudget,
  knownBudget,
  knownKey,
  knownSecret,
  MOST_LEASE_MS,
  type NewKey,
  noSuchBudget,
  noSuchKey,
  noteHold,
  removedBudget,
  resolveHold,
  type Share,
  tightestOf,
  UNKNOWN_KEY,
} from "./ledger.ts";

/** A key, its books, and the budgets that it draws on. */
export class Account extends Books {
  key: ApiKey;
  /** The ids of the key's budget, its parent, and so on. Empty without a budget. */
  budgets: readonly string[];
  /** Unix time in milliseconds; undefined while the key is in use. */
  revokedAt: number | undefined;

  /** `unlimited` is true for a key without a quota of its own. */
  constructor(key: ApiKey, unlimited: boolean, granted: number, charged: number, budgets: readonly string[] = []) {
    super(`key ${key.id}`, unlimited, granted, charged);
    this.key = key;
    this.budgets = budgets;
  }
}

export interface KeyHold extends Hold {
  readonly id: string;
  readonly keyId: string;
  /** Undefined for a hold of a key that is not at hand: it can only be rejected. */
  readonly account: Account | undefined;
  /** The periods of budgets that cover the hold. Undefined for a hold of a key without a budget. */
  readonly shares: readonly PeriodShare[] | undefined;
  renewals: number;
  /** The end of the lease: Unix time in milliseconds. */
  expiresAt: number;
  /** Unix time in milliseconds; undefined while the hold lives. */
  resolvedAt: number | undefined;
}

/** A share of a hold, with the budget and the beginning of the period. */
export interface PeriodShare extends Share {
  readonly budgetId: string;
  readonly startsAt: number;
}

export interface Secret {
  readonly hash: string;
  readonly keyId: string;
  /** Unix time in milliseconds; undefined when the secret never expires. */
  endsAt: number | undefined;
}

/**
 * The verbs of a ledger over the rows at hand. A verb that throws has changed nothing. The memory store keeps all rows at hand for good;
 * any other store loads those of one transaction.
 */
export abstract class Ledger {
  readonly accounts: Map<string, Account> = new Map();
  readonly budgets: Map<string, Budget> = new Map();
  /** The secrets, by their hashes. */
  readonly secrets: Map<string, Secret> = new Map();
  /** The time of the verbs: Unix time in milliseconds. */
  now = 0;

  /** Finds a hold of any key. */
  abstract hold(id: string): KeyHold | undefined;
  /** Finds something that draws on a budget. */
  protected abstract userOf(budgetId: string): BudgetUser | undefined;
  /** Keeps a new hold. */
  protected abstract opened(hold: KeyHold): void;
  /** Notes that a live hold has another lease, or other units. */
  protected abstract renewed(hold: KeyHold): void;
  /** Notes that a hold was settled, has expired, or that its charge was corrected. */
  protected abstract resolved(hold: KeyHold): void;
  /** Notes that a call of at least so many units was refused. */
  protected refused(_account: Account, _atLeast: number): void {}
  /** Notes that a budget has begun a new period. */
  protected closed(_budget: Budget, _period: Window): void {}
  /** Enters changes of the books of a key. Absent for a ledger without a journal, which so makes no entries. */
  protected readonly enter?: (
    kind: EntryKind,
    keyId: string,
    holdId: string | null,
    changes: Partial<Record<Book | "noted", number>>,
  ) => void;

  reserve({ id, keyId, atLeast, atMost, leaseMs }: HoldRequest): Reservation {
    const known = this.hold(id);
    if (known && known.keyId !== keyId) throw foreignHold();
    const account = this.accounts.get(keyId);
    if (!account) return UNKNOWN_KEY;
    if (known?.state === "live") return { granted: known.granted };
    const windows = this.windowsOf(account);
    // A resolved hold does not admit another call.
    const granted = known ? undefined : holdUnits(account, windows, atLeast, atMost);
    if (granted === undefined) {
      if (!known) this.refused(account, atLeast);
      return tightestOf(account, windows).refusal;
    }
    this.opened({
      id,
      keyId,
      account,
      shares: windows && sharesIn(account, windows),
      state: "live",
      granted,
      noted: 0,
      renewals: 0,
      used: 0,
      overdraft: 0,
      expiresAt: this.now + Math.min(leaseMs, MOST_LEASE_MS),
      resolvedAt: undefined,
    });
    this.enter?.("hold", keyId, id, { held: granted });
    return { granted };
  }

  renew(id: string, renewal: Renewal): void {
    const hold = this.hold(id);
    if (hold?.state !== "live" || !hold.account) return;
    const notedBefore = hold.noted;
    const freed = noteHold(hold.account, hold, hold.shares, renewal);
    hold.renewals++;
    hold.expiresAt = this.now + Math.min(renewal.leaseMs, MOST_LEASE_MS);
    this.renewed(hold);
    this.enter?.("renew", hold.keyId, id, { noted: hold.noted - notedBefore, held: -freed });
  }

  /** Charges a live hold, or corrects the charge of an expired hold. */
  settle(id: string, outcome: Outcome): void {
    const hold = this.hold(id);
    if (!hold?.account || (hold.state !== "live" && hold.state !== "expired")) return;
    const before = this.enter && booksIn(hold.account);
    const isLive = hold.state === "live";
    resolveHold(hold.account, hold, hold.shares, isLive ? "settled" : "corrected", outcome);
    this.#resolved(hold, isLive ? "settle" : "correct", before);
  }

  /** Charges holds whose leases have ended, those first that ended first. */
  expire(holds: readonly KeyHold[]): void {
    for (const hold of holds.toSorted((one, other) => one.expiresAt - other.expiresAt)) {
      if (!hold.account) continue;
      const before = this.enter && booksIn(hold.account);
      expireHold(hold.account, hold, hold.shares);
      this.#resolved(hold, "expire", before);
    }
  }

  #resolved(hold: KeyHold, kind: EntryKind, before: Record<Book, number> | undefined): void {
    hold.resolvedAt = this.now;
    this.resolved(hold);
    const { account, keyId, id } = hold;
    if (!account || !before) return;
    this.enter?.(kind, keyId, id, {
      charged: account.charged - before.charged,
      held: account.held - before.held,
      estimated: account.estimated - before.estimated,
    });
    const overdrawn = account.overdraft - before.overdraft;
    if (overdrawn !== 0) this.enter?.("overdraft", keyId, id, { overdraft: overdrawn });
  }

  /** Returns the books that limit a key the most, of its own quota and its budgets. */
  tightestOf(account: Account): Books {
    return tightestOf(account, this.windowsOf(account));
  }

  /** Returns the books of the current periods of a key's budgets. Undefined for a key without a budget. */
  protected windowsOf({ budgets }: Account): readonly Window[] | undefined {
    if (budgets.length === 0) return undefined;
    return budgets.map((id) => {
      const budget = this.budgets.get(id);
      if (!budget) throw noSuchBudget(id);
      if (this.now >= budget.window.endsAt) this.turn(budget);
      return budget.window;
    });
  }

  /** Begins the period of a budget that is due. */
  protected turn(budget: Budget): void {
    const closed = budget.turn(this.now);
    if (closed) this.closed(budget, closed);
  }

  addKey({ key, unlimited, granted, used, hashes }: NewKey): string {
    const { id, budget } = key;
    if (this.accounts.has(id)) throw knownKey(id);
    for (const hash of hashes) if (this.secrets.has(hash)) throw knownSecret();
    const account = new Account(key, unlimited, granted, used, budget === undefined ? [] : this.#chainOf(budget));
    this.accounts.set(id, account);
    for (const hash of hashes) this.secrets.set(hash, { hash, keyId: id, endsAt: undefined });
    this.enter?.("grant", id, null, { granted, charged: used });
    return id;
  }

  addSecret(keyId: string, hash: string, endsAt: number | undefined): void {
    this.#usable(keyId);
    if (this.secrets.has(hash)) throw knownSecret();
    this.secrets.set(hash, { hash, keyId, endsAt });
  }

  /** Gives a key a new secret. All its other secrets expire after `overlapMs`. */
  rotateSecret(keyId: string, hash: string, overlapMs: number): void {
    this.addSecret(keyId, hash, undefined);
    const endsAt = this.now + overlapMs;
    for (const secret of this.secrets.values())
      if (secret.keyId === keyId && secret.hash !== hash) secret.endsAt = Math.min(secret.endsAt ?? endsAt, endsAt);
  }

  /** Deletes a secret, and returns the id of its key; undefined for an unknown secret. */
  removeSecret(hash: string): string | undefined {
    const secret = this.secrets.get(hash);
    this.secrets.delete(hash);
    return secret?.keyId;
  }

  /** Deletes all secrets of a key for good. */
  revoke(keyId: string): void {
    const account = this.accounts.get(keyId);
    if (!account) throw noSuchKey(keyId);
    account.revokedAt ??= this.now;
    this.removeSecretsOf(keyId);
  }

  protected removeSecretsOf(keyId: string): void {
    for (const secret of this.secrets.values()) if (secret.keyId === keyId) this.secrets.delete(secret.hash);
  }

  update(keyId: string, changes: KeyChanges, isExpected?: (key: ApiKey) => boolean): void {
    const account = this.#expected(keyId, isExpected);
    const key = changedDurableKeyOf(account.key, changes);
    if (changes.granted !== undefined) this.#setQuota(account, changes.granted);
    account.key = changes.granted === undefined ? key : keyWithBudget(key, account.unlimited, account.budgets[0]);
  }

  /** Returns the account of a key that is as its editor expects it. */
  #expected(keyId: string, isExpected?: (key: ApiKey) => boolean): Account {
    const account = this.#usable(keyId);
    const seen = { ...account.key, unlimited: account.unlimited };
    if (isExpected?.(seen) === false) throw changedMeanwhile(`The API key ${keyId}`);
    return account;
  }

  #setQuota(account: Account, units: number | null): void {
    const { unlimited, granted, key } = account;
    if (unlimited && units === null) return;
    if (!unlimited && units !== null) throw knownQuota(key.id);
    account.setQuota(units);
    this.enter?.("grant", key.id, null, { granted: account.granted - granted });
  }

  /** Adds units to a key's quota, or takes available units back when `units` is negative. */
  grant(keyId: string, units: number): void {
    const account = this.#usable(keyId);
    if (account.unlimited) throw unlimitedKey(keyId);
    account.grant(units);
    this.enter?.("grant", keyId, null, { granted: units });
  }

  assignBudget(keyId: string, budgetId: string | undefined, isExpected?: (key: ApiKey) => boolean): void {
    const account = this.#expected(keyId, isExpected);
    account.budgets = budgetId === undefined ? [] : this.#chainOf(budgetId);
    account.key = keyWithBudget(account.key, account.unlimited, budgetId);
  }

  addBudget(options: BudgetOptions): BudgetReport {
    const { id, parent } = options;
    const known = this.budgets.get(id);
    if (known) throw known.isRemoved ? removedBudget(id) : knownBudget(id);
    const chain = parent === undefined ? [] : this.#chainOf(parent);
    const zone = this.budgets.get(parent ?? "")?.terms.timeZone;
    const budget = Budget.begun(termsOf(options, chain, zone), this.now, options.books);
    this.budgets.set(id, budget);
    return budget.report;
  }

  /** Removes a budget on which nothing draws. It stays for its history. */
  removeBudget(id: string): void {
    const budget = this.#currentBudget(id);
    const user = this.userOf(id);
    if (user) throw budgetInUse(id, user);
    budget.terms.chain = [];
  }

  updateBudget(id: string, changes: BudgetChanges, isExpected?: (budget: BudgetReport) => boolean): BudgetReport {
    const budget = this.#currentBudget(id);
    if (isExpected?.(budget.report) === false) throw changedMeanwhile(`The budget ${id}`);
    budget.update(changes);
    return budget.report;
  }

  topUpBudget(id: string, units: number): BudgetReport {
    const budget = this.#currentBudget(id);
    budget.topUp(units);
    return budget.report;
  }

  budgetReport(id: string): BudgetReport | undefined {
    const budget = this.budgets.get(id);
    if (!budget) return undefined;
    this.turn(budget);
    return budget.report;
  }

  /** Returns a budget in its current period. Throws a RangeError when there is no such budget. */
  #currentBudget(id: string): Budget {
    const budget = this.budgets.get(id);
    if (!budget || budget.isRemoved) throw noSuchBudget(id);
    this.turn(budget);
    return budget;
  }

  /** Returns the ids of a budget, its parent, and so on. */
  #chainOf(id: string): readonly string[] {
    const budget = this.budgets.get(id);
    if (!budget || budget.isRemoved) throw noSuchBudget(id);
    return budget.terms.chain;
  }

  #usable(keyId: string): Account {
    const account = this.accounts.get(keyId);
    if (!account) throw noSuchKey(keyId);
    if (account.revokedAt !== undefined) throw revokedKey(keyId);
    return account;
  }
}

/** Makes the shares of a new hold in the periods of its key's budgets. */
const sharesIn = ({ budgets }: Account, windows: readonly Window[]): readonly PeriodShare[] =>
  windows.map((books, level) => {
    return { books, overdraft: 0, budgetId: budgets[level] ?? "", startsAt: books.startsAt };
  });
