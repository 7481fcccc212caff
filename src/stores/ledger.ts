/** The rules that all quota stores share: the checks of their input, the declaration of keys, and the books of one key. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { MOST_UNITS } from "../model/money.ts";
import { RefusedChange, RefusedUnits } from "../model/refused-units.ts";
import { assertOptions, assertText, type Check, listOf, mapOf, quoted, type Shapes } from "../options.ts";
import type { ApiKey, Balance, HoldRequest, Outcome, Refusal, Renewal, TightestBudget } from "../ports/quota-store.ts";

export type BudgetUser = { readonly kind: "key" | "budget"; readonly id: string } | "calls";

/** The books of a key: its running totals, in units. */
export const BOOKS = ["granted", "charged", "held", "overdraft", "estimated"] as const;

export type Book = (typeof BOOKS)[number];

/** The upper limit of one hold of an unlimited key, in units. It is small, so that the sum of very many such holds stays exact. */
export const MOST_UNLIMITED: number = 2 ** 36;

/** The longest lease that a store writes down, in milliseconds: with it, the end of a lease is still an exact number. */
export const MOST_LEASE_MS: number = 2 ** 52;

/** The age at which a store may forget a recall, in milliseconds. */
export const RECALLS_MS = 60_000;

export type HoldState = "live" | "settled" | "expired" | "corrected";

export interface Hold {
  state: HoldState;
  granted: number;
  /** The units used so far, as the last renewal reported them. */
  noted: number;
  /** Units that a resolved hold has used; 0 while the hold lives. */
  used: number;
  /** The part of `used` that the key could not cover. */
  overdraft: number;
}

const NO_BUDGET: TightestBudget = {};

/** Running totals, in units, of a key or of one period of a budget. A method that throws a RangeError has changed nothing. */
export class Books implements Record<Book, number> {
  /** The owner of the books, as error messages name it. */
  readonly owner: string;
  /** True for a key that is metered only. */
  unlimited: boolean;
  granted: number;
  /** Units charged, without live holds. */
  charged: number;
  /** Units of live holds. */
  held = 0;
  overdraft = 0;
  /** Units of `charged` that rest on estimates. */
  estimated = 0;

  constructor(owner: string, unlimited: boolean, granted: number, charged: number) {
    this.owner = owner;
    this.unlimited = unlimited;
    this.granted = granted;
    this.charged = charged;
  }

  get used(): number {
    return this.charged + this.held;
  }

  /** 0 for an unlimited key. */
  get available(): number {
    return Math.max(0, this.granted - this.charged - this.held);
  }

  /** The budget of these books; empty for the books of a key. */
  get source(): TightestBudget {
    return NO_BUDGET;
  }

  get refusal(): Refusal {
    return { refused: true, available: this.available, held: this.held, ...this.source };
  }

  get balance(): Balance {
    return { used: this.used, available: this.available, held: this.held, ...this.source };
  }

  /**
   * Returns the most units up to `atMost` that can be held: fewer than `atLeast` when too few are available. Throws a RangeError when
   * `atLeast` more units would take the total of an unlimited key beyond `MOST_UNITS`.
   */
  grantable(atLeast: number, atMost: number): number {
    if (!this.unlimited) return Math.min(atMost, Math.max(0, this.granted - this.charged - this.held));
    const countable = MOST_UNITS - this.charged - this.held;
    if (atLeast > countable) throw beyondMost(this.owner, "used");
    return Math.max(atLeast, Math.min(atMost, MOST_UNLIMITED, countable));
  }

  /** Returns the part of `used` that the books cannot cover. Throws a RangeError when a book would pass `MOST_UNITS`. */
  overOf(hold: Readonly<Hold>, share: Readonly<Pick<Hold, "overdraft">>, used: number): number {
    const held = this.held - (hold.state === "live" ? hold.granted : 0);
    const charged = this.charged - (hold.used - share.overdraft);
    const over = this.unlimited ? 0 : Math.max(0, used - Math.max(0, this.granted - charged - held));
    if (used - over > MOST_UNITS - charged - held) throw beyondMost(this.owner, "used");
    if (over > MOST_UNITS - this.overdraft + share.overdraft) throw beyondMost(this.owner, "overdrawn");
    return over;
  }

  /**
   * Replaces the units that the books count for the hold by `used` units, of which `estimated` units rest on estimates. Units that
   * cannot be covered become overdraft of the share. Throws a RangeError when a book would pass `MOST_UNITS`.
   */
  charge(hold: Readonly<Hold>, share: Pick<Hold, "overdraft">, used: number, estimated: number): void {
    const over = this.overOf(hold, share, used);
    const chargedBefore = hold.used - share.overdraft;
    const charge = used - over;
    if (hold.state === "live") this.held -= hold.granted;
    this.charged += charge - chargedBefore;
    this.overdraft += over - share.overdraft;
    this.estimated += Math.min(estimated, charge) - chargedBefore;
    share.overdraft = over;
  }

  /** Returns the most units that the books can count for a live hold. */
  countable(hold: Readonly<Hold>): number {
    const others = this.charged + this.held - hold.granted;
    return this.unlimited ? MOST_UNITS - others : Math.max(0, this.granted - others) + (MOST_UNITS - this.overdraft);
  }

  /**
   * Adds units to the quota, or takes them back when `units` is negative. Throws a RangeError when the sum would pass `MOST_UNITS`, or
   * when fewer units are available than it takes.
   */
  grant(units: number): void {
    if (-units > this.available) throw new RefusedUnits({ owner: this.owner, available: this.available });
    this.shift(units);
  }

  /**
   * Gives books without a quota one of so many units beyond their use, or takes the quota away. Throws a RangeError when the sum would pass
   * `MOST_UNITS`.
   */
  setQuota(units: number | null): void {
    if (units !== null && units > MOST_UNITS - this.used) throw beyondMost(this.owner, "granted");
    this.granted = units === null ? 0 : this.used + units;
    this.unlimited = units === null;
  }

  /** Adds units to the quota, or takes them away, also more than there are. Throws a RangeError when the sum would pass `MOST_UNITS`. */
  shift(units: number): void {
    if (units > MOST_UNITS - this.granted) throw beyondMost(this.owner, "granted");
    this.granted += units;
  }
}

/** Returns the books alone, of an object that has more. */
export const booksIn = <Units>(books: Readonly<Record<Book, Units>>): Record<Book, Units> => {
  const { granted, charged, held, overdraft, estimated } = books;
  return { granted, charged, held, overdraft, estimated };
};

/** A budget that a hold draws on, with the books of the period in which the hold was reserved. */
export interface Share {
  readonly books: Books;
  /** The part of the hold's `used` that the budget could not cover. */
  overdraft: number;
}

/**
 * Holds between `atLeast` and `atMost` units in the books of a key and of all its budgets, and returns how many. Returns undefined,
 * and holds nothing, when too few are available in one of them.
 */
export function holdUnits(
  account: Books,
  budgets: readonly Books[] | undefined,
  atLeast: number,
  atMost: number,
): number | undefined {
  let units = account.grantable(atLeast, atMost);
  if (budgets) for (const books of budgets) units = books.grantable(atLeast, units);
  if (units < atLeast) return undefined;
  account.held += units;
  if (budgets) for (const books of budgets) books.held += units;
  return units;
}

/**
 * Charges a hold to its key and to its budgets, and sets the new state of the hold. Throws a RangeError, and changes nothing, when a
 * book would pass `MOST_UNITS`.
 */
export function resolveHold(
  account: Books,
  hold: Hold,
  shares: readonly Share[] | undefined,
  state: HoldState,
  outcome: Outcome,
): void {
  const { used } = outcome;
  const estimated = estimatedOf(outcome);
  if (shares) {
    // Check all books before the first is changed.
    for (const share of shares) share.books.overOf(hold, share, used);
    account.overOf(hold, hold, used);
    for (const share of shares) share.books.charge(hold, share, used, estimated);
  }
  account.charge(hold, hold, used, estimated);
  hold.state = state;
  hold.used = used;
}

/** The units of an outcome that rest on estimates. */
export const estimatedOf = ({ used, certainty, estimated = used }: Outcome): number =>
  certainty === "estimated" ? estimated : 0;

/** Notes the units that a live hold has used so far, and frees its units beyond `keep`. Returns the number of freed units. */
export function noteHold(
  account: Books,
  hold: Hold,
  shares: readonly Share[] | undefined,
  { used, keep }: Pick<Renewal, "used" | "keep">,
): number {
  hold.noted = used;
  const freed = keep === undefined ? 0 : Math.max(0, hold.granted - Math.max(keep, used));
  if (freed === 0) return 0;
  hold.granted -= freed;
  account.held -= freed;
  if (shares) for (const { books } of shares) books.held -= freed;
  return freed;
}

/**
 * Ends a live hold whose lease has expired. Charges the units that its last renewal reported, as an estimate, but never takes a book
 * beyond `MOST_UNITS`.
 */
export function expireHold(account: Books, hold: Hold, shares: readonly Share[] | undefined): void {
  let used = Math.min(hold.noted, account.countable(hold));
  if (shares) for (const { books } of shares) used = Math.min(used, books.countable(hold));
  resolveHold(account, hold, shares, "expired", { used, certainty: "estimated" });
}

/** Returns the books that limit a key the most: of those with a limit, the first with the fewest available units. */
export function tightestOf(account: Books, budgets: readonly Books[] | undefined): Books {
  if (!budgets) return account;
  return budgets.reduce(
    (tightest, books) => (tightest.unlimited || books.available < tightest.available ? books : tightest),
    account,
  );
}

// The first three checks below run in every call, so they call no other function for valid input.

export function assertHoldAmounts({ atLeast, atMost, leaseMs }: HoldRequest): void {
  if (!Number.isSafeInteger(atLeast) || atLeast < 0) throw outOfRange("atLeast", 0, atLeast);
  if (!Number.isSafeInteger(atMost) || atMost < 0) throw outOfRange("atMost", 0, atMost);
  if (atLeast > atMost) throw new RangeError("A hold's atLeast cannot be more than its atMost.");
  if (!Number.isSafeInteger(leaseMs) || leaseMs < 1) throw outOfRange("leaseMs", 1, leaseMs);
}

/** Throws a RangeError when the lease or an amount of a renewal is out of range. */
export function assertRenewal({ leaseMs, used, keep }: Renewal): void {
  if (!Number.isSafeInteger(leaseMs) || leaseMs < 1) throw outOfRange("leaseMs", 1, leaseMs);
  if (!Number.isSafeInteger(used) || used < 0) throw outOfRange("used", 0, used);
  if (keep !== undefined && (!Number.isSafeInteger(keep) || keep < 0)) throw outOfRange("keep", 0, keep);
}

/** Throws a RangeError when an amount or the certainty of a settlement is wrong. */
export function assertOutcome({ used, certainty, estimated }: Outcome): void {
  if (!Number.isSafeInteger(used) || used < 0) throw outOfRange("used", 0, used);
  if (certainty !== "exact" && certainty !== "estimated")
    throw new RangeError(`certainty must be "exact" or "estimated", not ${quoted(certainty)}`);
  if (estimated === undefined) return;
  if (!Number.isSafeInteger(estimated) || estimated < 0) throw outOfRange("estimated", 0, estimated);
  if (estimated > (certainty === "exact" ? 0 : used))
    throw new RangeError("The estimated units must be a part of the used units of an estimated outcome.");
}

/** Throws a RangeError unless the value is a safe integer from `least` up. */
export function assertInteger(name: string, value: number, least: 0 | 1): void {
  if (!Number.isSafeInteger(value) || value < least) throw outOfRange(name, least, value);
}

const outOfRange = (name: string, least: number, value: number): RangeError =>
  new RangeError(`${name} must be an integer from ${least} up, not ${quoted(value)}`);

/** The error for a change after which a book would pass `MOST_UNITS`. */
const beyondMost = (owner: string, book: string): RangeError => new RefusedUnits({ owner, book, most: MOST_UNITS });
export const noSuchBudget = (id: string): RefusedChange => new RefusedChange("not_found", `${NO_SUCH_BUDGET} ${id}.`);

/** The beginnings of the messages of `noSuchBudget` and `noSuchKey`. */
export const NO_SUCH_BUDGET = "There is no budget of the id";
export const NO_SUCH_KEY = "There is no API key of the id";
/** Returns the id in a message with one of these beginnings; undefined for any other message. */
export const unknownIdIn = (message: string, beginning: string): string | undefined =>
  message.startsWith(beginning) ? message.slice(beginning.length + " ".length, -".".length) : undefined;
/** The error for an id that cannot be given to a new budget. */
export const removedBudget = (id: string): RefusedChange =>
  new RefusedChange("conflict", `The budget ${id} was removed. Choose another id: its history stays.`);
/** The error for a budget that cannot be removed. */
export const budgetInUse = (id: string, user: BudgetUser): RefusedChange =>
  new RefusedChange(
    "conflict",
    `The budget ${id} cannot be removed: ${user === "calls" ? "running calls draw" : `the ${user.kind} ${user.id} draws`} on it.`,
  );
export const knownBudget = (id: string): RefusedChange =>
  new RefusedChange("conflict", `A budget of the id ${id} is known already.`);
/** The error for a change of something that is no longer as its editor has seen it. */
export const changedMeanwhile = (what: string): RefusedChange =>
  new RefusedChange("changed_meanwhile", `${what} has been changed meanwhile.`);
export const noSuchKey = (keyId: string): RefusedChange => new RefusedChange("not_found", `${NO_SUCH_KEY} ${keyId}.`);
export const knownKey = (keyId: string): RefusedChange =>
  new RefusedChange("conflict", `An API key of the id ${keyId} is known already.`);
export const knownSecret = (): RefusedChange => new RefusedChange("conflict", "This API key is known already.");
export const foreignHold = (): RangeError => new RangeError("A hold of this id belongs to another key.");

/** The answer to a reservation for a key that does not exist. */
export const UNKNOWN_KEY: Refusal = { refused: true, available: 0, held: 0 };

/** An api key and its quota, as a host declares it. */
export interface ApiKeyOptions {
  /** The key's secret, or each of its secrets, with or without `sk-`. Only their hashes are kept. */
  readonly apiKey: string | readonly string[];
  /** The key's id, which is not secret. The default is the key's position: `key-1`. */
  readonly id?: string;
  /** The key's name, which its owner sees. The default is the key's id. */
  readonly name?: string;
  /**
   * Quota in units, a non-negative integer; a key without `granted` is unlimited. With prices in a currency, a unit is a millionth of it:
   * `unitsOfMoney(50)` of `polygate/prices` is a quota of 50 dollars.
   */
  readonly granted?: number;
  /** Units of the quota that are already used, from 0. Default: 0. */
  readonly used?: number;
  /**
   * The models that the key may use; a key without this list may use every model. Durable stores take at most 65,535 bytes as JSON: some
   * thousand names.
   */
  readonly models?: readonly string[];
  /** Unix time in whole seconds; 0 or -1 (default 0) never expires. */
  readonly expiresAt?: number;
  /** True for a key that is refused until an operator lets it work again. Default: false. */
  readonly paused?: boolean;
  /** The id of the budget that the key draws on, beside its own quota. The budget must exist already. */
  readonly budget?: string;
  /**
   * The host's own notes on the key, such as its team: up to 16 texts of at most 512 characters. Their names have 1 to 64 letters,
   * digits, `_`, `.`, `:` or `-`, and begin with a letter or a digit.
   */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Changes of a key. A field that is absent leaves the key as it is. */
export interface KeyChanges {
  /** The new name that people read. */
  readonly name?: string;
  /** The models that the key may use; null allows every model. */
  readonly models?: readonly string[] | null;
  /** Unix time in whole seconds; 0 or -1 never expires. */
  readonly expiresAt?: number;
  /** True stops the key for a while, and false lets it work again. Its secrets, quota and expiry stay. */
  readonly paused?: boolean;
  /**
   * For a key without a quota: gives it one of so many units (of money: `unitsOfMoney(50)`) beyond what it has used and what its running calls
   * hold, an integer from 0 up. Null takes the quota of a key away, and its use stays. Any other change of a quota is `grant` or `lower`.
   */
  readonly granted?: number | null;
  /** Entries to set. An entry with null is deleted; entries that are not named stay. */
  readonly metadata?: Readonly<Record<string, string | null>>;
}

/** A key whose declaration was checked, with the hashes of its secrets. */
export interface NewKey {
  readonly key: ApiKey;
  /** True for a key without a quota of its own. A budget may still limit it. */
  readonly unlimited: boolean;
  /** 0 for an unlimited key. */
  readonly granted: number;
  readonly used: number;
  readonly hashes: readonly string[];
}

const assertSecrets: Check = (path, secrets) => typeof secrets === "string" || listOf("string")(path, secrets);

/** `assertExpiry` checks the number itself. */
const UNIX_SECONDS = { optional: { words: "a Unix time in seconds", allows: () => true } } as const;

export const KEY_SHAPES: Shapes<Partial<ApiKeyOptions>> = {
  apiKey: { optional: assertSecrets },
  id: "string?",
  name: "string?",
  granted: "number?",
  used: "number?",
  budget: "string?",
  metadata: { optional: mapOf("string") },
  models: { optional: listOf("string") },
  expiresAt: UNIX_SECONDS,
  paused: "boolean?",
};

/** Throws a TypeError for a key with an unknown option, or with one of a wrong shape. */
export const assertKeyOptions: Check = (path, options) =>
  assertOptions<Partial<ApiKeyOptions>>(path, options, KEY_SHAPES);

/** Checks a key that a host declares. Throws a RangeError for a wrong number or an empty secret. */
export function newKeyOf(id: string, options: Partial<ApiKeyOptions>): NewKey {
  const { apiKey = [], name = id, granted = 0, used = 0, models, expiresAt = 0, paused, budget, metadata } = options;
  const unlimited = options.granted === undefined;
  assertExpiry(expiresAt);
  if (metadata) assertMetadata(metadata);
  assertInteger("granted", granted, 0);
  assertInteger("used", used, 0);
  if (!unlimited && used > granted) throw new RangeError("An API key cannot have used more than it was granted.");
  const hashes = Array.from(new Set([apiKey].flat().map(hashOfSecret)));
  const described = { id, name, unlimited: unlimited && budget === undefined, expiresAt, budget, paused };
  return { key: apiKeyOf(described, models, metadata), unlimited, granted, used, hashes };
}

const assertQuota: Check = (path, granted) => {
  if (typeof granted !== "number") throw new TypeError(`${path} must be a number or null, not ${quoted(granted)}`);
  assertInteger(path, granted, 0);
};

const CHANGES_SHAPES: Shapes<KeyChanges> = {
  name: "string?",
  granted: { optional: (path, granted) => granted === null || assertQuota(path, granted) },
  models: { optional: (path, models) => models === null || listOf("string")(path, models) },
  expiresAt: UNIX_SECONDS,
  paused: "boolean?",
  metadata: { optional: mapOf((path, value) => value === null || assertText(path, value)) },
};

/** Throws a TypeError for changes with an unknown name or one of a wrong shape, and a RangeError for a wrong quota. */
export const assertKeyChanges = (changes: unknown): void =>
  assertOptions<KeyChanges>("The changes of an API key", changes, CHANGES_SHAPES);

/** Returns a key after its changes. Throws a RangeError for a wrong value. */
export function changedKeyOf(key: ApiKey, changes: KeyChanges): ApiKey {
  const { name = key.name, expiresAt = key.expiresAt, models: changed, metadata: entries = {} } = changes;
  // A key of an earlier version may have an expiry that is wrong now.
  if (expiresAt !== key.expiresAt) assertExpiry(expiresAt);
  const models = changed === undefined ? modelsOf(key) : (changed ?? undefined);
  const metadata = Object.fromEntries(
    Object.entries({ ...key.metadata, ...entries }).filter((entry): entry is [string, string] => entry[1] !== null),
  );
  assertMetadata(metadata);
  return apiKeyOf({ ...key, name, expiresAt, paused: changes.paused ?? key.paused }, models, metadata);
}

/** Returns the models that a key may use; undefined when it may use every model. */
export const modelsOf = ({
  modelLimits,
  modelLimitsEnabled,
}: Pick<ApiKey, "modelLimits" | "modelLimitsEnabled">): readonly string[] | undefined =>
  modelLimitsEnabled ? Object.keys(modelLimits) : undefined;

/** Throws a RangeError unless the value is a Unix time in whole seconds, or 0 or -1 for never. */
export function assertExpiry(expiresAt: number): void {
  if (!Number.isSafeInteger(expiresAt)) throw new RangeError("expiresAt must be a Unix time in whole seconds.");
  if (expiresAt < -1) throw new RangeError("expiresAt must not be below 0, except -1, which never expires as 0 does.");
  if (expiresAt > LATEST_S) throw new RangeError("expiresAt must be a Unix time in seconds, not in milliseconds.");
}

const MOST_METADATA = 16;
const LONGEST_METADATA = 512;

function assertMetadata(metadata: Readonly<Record<string, unknown>>): void {
  const entries = Object.entries(metadata);
  if (entries.length > MOST_METADATA) throw new RangeError(`A key has at most ${MOST_METADATA} entries of metadata.`);
  for (const [name, value] of entries) {
    if (!/^[a-z\d][\w.:-]{0,63}$/i.test(name)) throw new RangeError(`${JSON.stringify(name)} is no name of metadata.`);
    if (typeof value !== "string" || value.length > LONGEST_METADATA || !value.isWellFormed() || value.includes("\0"))
      throw new RangeError(`The metadata ${name} must be text of at most ${LONGEST_METADATA} characters.`);
  }
}

/** The latest allowed expiry, in seconds: more than thirty thousand years ahead. A larger number was meant in milliseconds. */
const LATEST_S = 1_000_000_000_000;

/** Makes the record of a key that calls receive. The record is frozen, because all calls share it. */
export function apiKeyOf(
  {
    id,
    name,
    unlimited,
    expiresAt,
    budget,
    paused,
  }: Pick<ApiKey, "id" | "name" | "unlimited" | "expiresAt"> & {
    readonly budget?: string | undefined;
    readonly paused?: boolean | undefined;
  },
  models: readonly string[] | undefined,
  metadata: Readonly<Record<string, string>> = {},
): ApiKey {
  const modelLimits = Object.freeze(Object.fromEntries((models ?? []).map((model) => [model, true])));
  const modelLimitsEnabled = models !== undefined;
  const key = { id, name, unlimited, modelLimits, modelLimitsEnabled, expiresAt };
  const hasMetadata = Object.keys(metadata).length > 0;
  return Object.freeze({
    ...key,
    ...(paused && { paused }),
    ...(budget !== undefined && { budget }),
    ...(hasMetadata && { metadata: Object.freeze({ ...metadata }) }),
  });
}

/** Returns the record of a key that draws on a budget, or on none. `unlimited` is true for a key without a quota of its own. */
export function keyWithBudget(
  { budget: _before, ...key }: ApiKey,
  unlimited: boolean,
  budget: string | undefined,
): ApiKey {
  if (budget === undefined) return Object.freeze({ ...key, unlimited });
  return Object.freeze({ ...key, unlimited: false, budget });
}

/** Returns the hash of a secret that a host gives with or without `sk-`. Throws a RangeError for an empty secret. */
export function hashOfSecret(apiKey: string): string {
  if (/^(sk-)?$/.test(apiKey)) throw new RangeError("An API key cannot be empty.");
  return hashApiKey(apiKey.replace(/^sk-/, ""));
}

// Stores look secrets up by hash, so that no store contains a secret, and the time of a look-up reveals nothing about a secret.

interface NativeCrypto {
  hash?(algorithm: "sha256", data: string, encoding: "hex"): string;
}

// Load the native hash at run time: a bundle for a runtime without Node's modules must not import one. Every request hashes a key,
// and the native hash takes a tenth of the time.
const native = globalThis.process?.getBuiltinModule?.("node:crypto") as NativeCrypto | undefined;

/** Returns the SHA-256 of an api key (given without its `sk-` prefix), in hex. Keys are random, so no salt is needed. */
export const hashApiKey = (apiKey: string): string =>
  native?.hash?.("sha256", apiKey, "hex") ?? bytesToHex(sha256(utf8ToBytes(apiKey)));

/**
 * A map that forgets old entries. New entries go into one map; another map keeps the entries before them. When the newer map is full
 * or old, it replaces the older map, whose entries are dropped together. Therefore dropping costs nothing per entry.
 *
 * An entry stays until `capacity` further entries were added or `ageMs` have passed, whichever is first, and at most twice as long.
 */
export class TwoGenerationMap<Item> {
  readonly #capacity: number;
  readonly #ageMs: number;
  #newer = new Map<string, Item>();
  #older = new Map<string, Item>();
  /** The time at which the newer map was begun, in milliseconds since the Unix epoch. */
  #begunAt: number;

  constructor(capacity: number, ageMs: number = Number.POSITIVE_INFINITY, now = 0) {
    this.#capacity = capacity;
    this.#ageMs = ageMs;
    this.#begunAt = now;
  }

  get(id: string, now = 0): Item | undefined {
    if (now - this.#begunAt >= this.#ageMs) this.#age(now);
    return this.#newer.get(id) ?? this.#older.get(id);
  }

  add(id: string, item: Item, now = 0): void {
    if (this.#capacity === 0) return;
    if (now - this.#begunAt >= this.#ageMs) this.#age(now);
    if (this.#newer.size >= this.#capacity) this.#rotate(now);
    this.#newer.set(id, item);
  }

  #age(now: number): void {
    const isAllOld = now - this.#begunAt >= 2 * this.#ageMs;
    this.#rotate(now);
    if (isAllOld) this.#older = new Map();
  }

  #rotate(now: number): void {
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#begunAt = now;
  }
}
