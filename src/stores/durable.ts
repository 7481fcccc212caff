/** The methods of a quota store that only the host calls: keys, secrets, reports and maintenance. */

import { utf8Length } from "../model/json.ts";
import { RefusedChange } from "../model/refused-units.ts";
import { assertOptions, quoted, type Shapes } from "../options.ts";
import type { ApiKey, HoldRequest, QuotaRecalls, QuotaStore } from "../ports/quota-store.ts";
import {
  assertBudgetChanges,
  assertBudgetOptions,
  type BudgetChanges,
  type BudgetOptions,
  type BudgetPeriodReport,
  type BudgetReport,
} from "./budgets.ts";
import {
  type ApiKeyOptions,
  assertExpiry,
  assertHoldAmounts,
  assertInteger,
  assertKeyOptions,
  type Book,
  BOOKS,
  changedKeyOf,
  type KeyChanges,
  newKeyOf,
} from "./ledger.ts";

/** A key to add. A key without a secret is for a host that looks keys up by itself, or that adds the secret later. */
export interface DurableKeyOptions extends Omit<ApiKeyOptions, "apiKey"> {
  /** The key's secret, or each of its secrets, with or without `sk-`. Only their hashes are kept. */
  readonly apiKey?: string | readonly string[];
}

/** A key and its books, in units. `granted` is the sum of `used` and `available`. */
export interface KeyReport extends ApiKey {
  /** Null for a key without a quota of its own. */
  readonly granted: number | null;
  /** Includes the units of live holds. */
  readonly used: number;
  /** Null for a key without a quota of its own. */
  readonly available: number | null;
  /** Units of live holds, which `used` includes. */
  readonly held: number;
  /** Units that were consumed beyond the key's quota. */
  readonly overdraft: number;
  /** Units of `used` that rest on estimates. */
  readonly estimated: number;
  /** True for a key without a quota of its own. A budget may still limit it. */
  readonly unlimited: boolean;
  /** The number of valid secrets of the key. */
  readonly secrets: number;
  /** True for a key that was revoked: it works never again. */
  readonly revoked: boolean;
  /**
   * The names of corrupt stored numbers: negative ones, or ones beyond 2^53 - 1. The numbers of such a report are not exact, and the
   * verbs reject for such a key. Undefined when all numbers are valid.
   */
  readonly spoilt?: readonly string[];
}

/** A page of keys or budgets, in the order of their ids. */
export interface KeyPage {
  /** The last id of the page before. Default: the first page. */
  readonly after?: string;
  /** The most entries of the page: 1 to 1,000. Default: 100. */
  readonly limit?: number;
}

/** Decides which resolved holds `prune` deletes. */
export interface Retention {
  /** Holds that were resolved more than this many milliseconds ago are deleted: an integer from 0 up. */
  readonly olderThanMs: number;
}

/** The methods of a store that manage its keys. They reject with a RangeError for an id or a secret that breaks a rule below. */
export interface KeyDirectory {
  /**
   * Adds a key and returns its id, which is random by default. Rejects when the key's numbers are not a valid quota, or when its id
   * or one of its secrets exists already. An id is 1 to 190 characters without control characters and without spaces at its ends.
   */
  add(key?: DurableKeyOptions): Promise<string>;
  /**
   * Gives a key one more secret, which expires at a Unix time in whole seconds; with 0 (the default) or -1, it never expires. Rejects
   * when there is no such key, it is revoked, or the secret exists already.
   */
  addSecret(keyId: string, apiKey: string, expiresAt?: number): Promise<void>;
  /**
   * Gives a key a new secret. All other secrets of the key expire after `overlapMs` (an integer from 0 up) by the store's clock.
   * Rejects as `addSecret` does.
   */
  rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void>;
  /**
   * Deletes a secret, given with or without `sk-`. Its key and the key's holds stay. Returns the id of the key; undefined for an unknown
   * secret, which changes nothing.
   */
  removeSecret(apiKey: string): Promise<string | undefined>;
  /** Deletes all secrets of a key for good. Running calls are still charged. Rejects when there is no such key. */
  revoke(keyId: string): Promise<void>;
  /**
   * Changes a key. Calls that already run keep the rights that they began with. Rejects when there is no such key, it is revoked, or a
   * value is wrong. If it rejects for any other reason, run it again: in Redis, only some of the key's secrets may have the new rights.
   *
   * @param isExpected Is given the key as it is before the changes, in one step with them, with `unlimited` as in its report. When it returns
   * false, `update` rejects with a RangeError and changes nothing. It may be called more than once.
   */
  update(keyId: string, changes: KeyChanges, isExpected?: (key: ApiKey) => boolean): Promise<void>;
  /**
   * Adds units to a key's quota: an integer from 0 up. Rejects for an unlimited or revoked key, when there is no such key, and when the
   * sum would be beyond 2^53 - 1.
   */
  grant(keyId: string, units: number): Promise<void>;
  /** Takes available units back: an integer from 0 up. Rejects as `grant` does, and takes nothing when fewer units are available. */
  lower(keyId: string, units: number): Promise<void>;
  /** Returns a key and its books; undefined when there is no such key. */
  report(keyId: string): Promise<KeyReport | undefined>;
  /** Lists keys in the order of their ids. */
  list(page?: KeyPage): Promise<readonly KeyReport[]>;
}

/** A quota store that keeps its data when the process ends. */
export interface DurableQuotaStore<Context = unknown>
  extends QuotaStore<Context>, QuotaRecalls, KeyDirectory, BudgetDirectory {
  /**
   * Charges all holds whose leases have expired, and returns their number. The verbs do this only for the key that they work on, so a
   * host calls `sweep` regularly for idle keys.
   */
  sweep(): Promise<number>;
  /** Deletes resolved holds and their journal entries, and returns the number of holds. Balances do not change. */
  prune(retention: Retention): Promise<number>;
}

/** A page of budgets, in the order of their ids. */
export type BudgetPage = KeyPage;

/** A page of periods: `limit` of them (1 to 1,000, default 100) that began before a time, the latest first. */
export interface PeriodPage {
  /** Unix time in milliseconds: the `startsAt` of the last period of the page before. Default: all periods. */
  readonly before?: number;
  readonly limit?: number;
}

/** The methods for limits that several keys share. They reject with a RangeError for an unknown id or a wrong value. */
export interface BudgetDirectory {
  /**
   * Adds a budget, and returns its report. Rejects for a known or removed id, and for a parent that does not exist. An id is as that of a
   * key.
   */
  addBudget(budget: BudgetOptions): Promise<BudgetReport>;
  /**
   * Removes a budget. Rejects while a key that is not revoked, a child budget or a running call draws on it. Its books stay for audits:
   * `budgetReport` still returns them, and its id cannot be used again.
   */
  removeBudget(id: string): Promise<void>;
  /**
   * Changes the name or the amount of a budget, and returns its new report. Its period and its parent stay: the books of its periods, and the
   * holds of running calls, depend on them.
   *
   * @param isExpected Is given the budget as it is before the change, in one step with it. When it returns false, the method rejects with a
   * RangeError and changes nothing. It may be called more than once.
   */
  updateBudget(
    id: string,
    changes: BudgetChanges,
    isExpected?: (budget: BudgetReport) => boolean,
  ): Promise<BudgetReport>;
  /** Adds units to the current period of a budget, and returns its new report. */
  topUpBudget(id: string, units: number): Promise<BudgetReport>;
  /**
   * Takes units of the current period back, such as those of a mistaken top-up, and returns the new report. Rejects, and takes nothing, when
   * fewer are available.
   */
  lowerBudget(id: string, units: number): Promise<BudgetReport>;
  /**
   * Lets a key draw on a budget from now on, or on none. Running calls are charged to the budgets that they were reserved in. A key
   * with a budget is no longer unlimited.
   *
   * @param isExpected As that of `update`.
   */
  assignBudget(keyId: string, budgetId: string | undefined, isExpected?: (key: ApiKey) => boolean): Promise<void>;
  /** Returns a budget and the books of its current period; undefined when there is no such budget. */
  budgetReport(id: string): Promise<BudgetReport | undefined>;
  /** Lists budgets in the order of their ids, without removed ones. */
  listBudgets(page?: BudgetPage): Promise<readonly BudgetReport[]>;
  /**
   * Lists the current period of a budget and those that have ended, the latest first. A period in which no call came and nobody changed the
   * budget is not kept. Rejects when there never was such a budget.
   */
  budgetPeriods(id: string, page?: PeriodPage): Promise<readonly BudgetPeriodReport[]>;
}

export const revokedKey = (keyId: string): RefusedChange =>
  new RefusedChange("conflict", `The API key ${keyId} is revoked, and cannot be changed any more.`);

export const unlimitedKey = (keyId: string): RefusedChange =>
  new RefusedChange("conflict", `The API key ${keyId} has no quota of its own: a change of granted gives it one.`);

export const knownQuota = (keyId: string): RefusedChange =>
  new RefusedChange("conflict", `The API key ${keyId} has a quota already: grant adds to it, and lower takes from it.`);

/** The error for a key with corrupt numbers, for example after a change by hand. */
export const spoiltKey = (keyId: string, book: string, stored: unknown): Error =>
  new Error(`The key ${keyId} is spoilt: its ${book} units are ${String(stored)}.`);

/** Makes the report of a key. Does not throw for corrupt numbers, because one corrupt key must not make a list of keys fail. */
export function keyReportOf(
  key: ApiKey,
  books: Readonly<Record<Book, string>>,
  { spoilt = [], ...described }: Pick<KeyReport, "unlimited" | "secrets" | "revoked" | "spoilt">,
): KeyReport {
  const hasQuota = !described.unlimited;
  const unitsOf = (book: Book): number => Number(books[book]) || 0;
  const used = unitsOf("charged") + unitsOf("held");
  const available = Math.max(0, unitsOf("granted") - used);
  const unsound: string[] = BOOKS.filter((book) => !/^\d+$/.test(books[book]) || !isUnits(Number(books[book])));
  if (unsound.length === 0 && !isUnits(used)) unsound.push("charged", "held");
  const all = [...spoilt, ...unsound];
  return {
    ...key,
    granted: hasQuota ? used + available : null,
    used,
    available: hasQuota ? available : null,
    held: unitsOf("held"),
    overdraft: unitsOf("overdraft"),
    estimated: unitsOf("estimated"),
    ...described,
    ...(all.length > 0 && { spoilt: all }),
  };
}

/** True for a valid amount of units: an integer from 0 to 2^53 - 1. */
export const isUnits = (units: number): boolean => Number.isSafeInteger(units) && units >= 0;

// The checks below reject values that a database cannot store, or would return changed.

const MAX_ID_LENGTH = 190;

/** Some databases ignore spaces at the end of an id when they compare ids, and some cannot store control characters. */
const UNSAFE = /^\s|\s$|\p{Cc}/u;

/** True for an id that every database can store. Stores treat any other id as unknown. */
export const isStorableId = (id: string): boolean =>
  id.length > 0 && id.length <= MAX_ID_LENGTH && !UNSAFE.test(id) && id.isWellFormed();

/** Throws a RangeError for wrong amounts, or for an id that a database cannot store. */
export function assertHoldRequest(request: HoldRequest): void {
  assertHoldAmounts(request);
  if (!isStorableId(request.id)) throw new RangeError(`A hold's id must be 1 to ${MAX_ID_LENGTH} plain characters.`);
}

/** Throws a RangeError for the id of a new key or budget that a database or an address of the admin cannot hold. */
function assertNewId(owner: "key" | "budget", id: string): void {
  if (!isStorableId(id)) throw new RangeError(`A ${owner}'s id must be 1 to ${MAX_ID_LENGTH} plain characters.`);
  if (id === "." || id === "..") throw new RangeError(`A ${owner}'s id cannot be . or .., which no address can hold.`);
}

/** Returns a random id for a new key. */
export const newKeyId = (): string => `key-${crypto.randomUUID()}`;

/** Checks a key to add, and gives it a random id unless it has one. */
export function newDurableKeyOf(options: DurableKeyOptions): ReturnType<typeof newKeyOf> {
  assertKeyOptions("An API key", options);
  const { id = newKeyId(), name = id } = options;
  assertNewId("key", id);
  assertName(name);
  assertModels(options.models);
  return newKeyOf(id, options);
}

/** Returns a key after its changes. Throws a RangeError for a value that is wrong, or that a database cannot store. */
export function changedDurableKeyOf(key: ApiKey, changes: KeyChanges): ApiKey {
  const changed = changedKeyOf(key, changes);
  assertName(changed.name);
  assertModels(changes.models);
  return changed;
}

/** Throws for models whose JSON is too long for a text of MySQL. */
function assertModels(models: readonly string[] | null | undefined): void {
  if (models && utf8Length(JSON.stringify(models)) > 65_535)
    throw new RangeError("The models of a key must have at most 65,535 bytes as JSON.");
}

function assertName(name: string): void {
  if (!isStorableName(name)) throw new RangeError("A key's name must be text of at most 1,000 characters.");
}

/** Returns the time when a secret expires, in milliseconds since the Unix epoch; undefined when it never expires. */
export function secretEndOf(expiresAt: number): number | undefined {
  assertExpiry(expiresAt);
  return expiresAt > 0 ? expiresAt * 1_000 : undefined;
}

/** Throws a RangeError for the id or the name of a budget that a database cannot store. */
export function assertStorableBudget(options: BudgetOptions): void {
  assertBudgetOptions("A budget", options);
  const { id, name } = options;
  assertNewId("budget", id);
  assertBudgetName(name);
}

/** Throws an error for changes that are wrong, or a name that a database cannot store. */
export function assertStorableChanges(changes: BudgetChanges): void {
  assertBudgetChanges(changes);
  assertBudgetName(changes.name);
}

function assertBudgetName(name = ""): void {
  if (!isStorableName(name)) throw new RangeError("A budget's name must be text of at most 1,000 characters.");
}

const isStorableName = (name: string): boolean => name.isWellFormed() && name.length <= 1_000 && !name.includes("\0");

export const MOST_LISTED = 1_000;

export const PAGE_SHAPES: Shapes<KeyPage> = { after: "string?", limit: "number?" };

/** Throws a TypeError or a RangeError for wrong options of `prune`. */
export function assertRetention(retention: Retention): void {
  assertOptions<Retention>("prune", retention, { olderThanMs: "number" });
  assertInteger("olderThanMs", retention.olderThanMs, 0);
}

/** Fills in the defaults of a page. Throws a RangeError for a limit out of range, and for an `after` that no database can compare. */
export function pageOf(page: KeyPage = {}): Required<KeyPage> {
  assertOptions<KeyPage>("list", page, PAGE_SHAPES);
  const { after = "", limit = 100 } = page;
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > MOST_LISTED)
    throw new RangeError(`limit must be an integer from 1 to ${MOST_LISTED}, not ${quoted(limit)}`);
  if (!after.isWellFormed() || after.includes("\0"))
    throw new RangeError(`after must be the id of the last key or budget, not ${quoted(after)}`);
  return { after, limit };
}

/** A transaction or script charges or deletes at most this many holds. */
export const HOLDS_AT_ONCE = 100;

/** A process remembers the keys of at least this many holds. For other holds it asks the database. */
export const MOST_REMEMBERED = 10_000;

/**
 * Runs `work` for each key, again as long as it returns `HOLDS_AT_ONCE` holds, and returns the total number of holds. When a key
 * fails, the other keys are still processed; the first error is thrown at the end.
 */
export async function onEachKey(
  keysAfter: (after: string) => Promise<readonly string[]>,
  work: (keyId: string) => Promise<number>,
): Promise<number> {
  let total = 0;
  const errors: unknown[] = [];
  for (let keyIds = await keysAfter(""); keyIds.length > 0; keyIds = await keysAfter(keyIds.at(-1) ?? ""))
    for (const keyId of keyIds)
      try {
        for (let done = HOLDS_AT_ONCE; done >= HOLDS_AT_ONCE; total += done) done = await work(keyId);
      } catch (error) {
        errors.push(error);
      }
  if (errors.length > 0) throw errors[0];
  return total;
}
