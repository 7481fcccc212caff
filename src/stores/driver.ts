/** The interface between the rules of the ledger and a place that keeps its rows: a database, or Redis. */

import { parseJson } from "../model/json.ts";
import type { ApiKey, HoldRequest, Outcome, Renewal, Reservation } from "../ports/quota-store.ts";
import type { BudgetPeriod } from "./budgets.ts";
import { isUnits } from "./durable.ts";
import { apiKeyOf, type Book, type BudgetUser, type HoldState } from "./ledger.ts";

/** A stored integer. The rules check its precision and its range. */
export type StoredInteger = number | string | bigint;

/** The books of a key or of a period: its running totals, in units. */
export type StoredBooks = Readonly<Record<Book, StoredInteger>>;

/** An api key and its books. */
export interface KeyRow extends StoredBooks {
  readonly id: string;
  readonly name: string;
  /** True for a key without a quota of its own. A budget may still limit it. */
  readonly unlimited: boolean;
  /** The models that the key may use; null allows every model. */
  readonly models: readonly string[] | null;
  /** Unix time in seconds. */
  readonly expiresAt: number;
  /** Unix time in milliseconds; null while the key is in use. */
  readonly revokedAt: number | null;
  /** The ids of the key's budget, its parent, and so on. Empty without a budget. */
  readonly budgets: readonly string[];
  /** The host's own notes. For a paused key, an entry of another name marks it. */
  readonly metadata: Readonly<Record<string, string>> | null;
  /** The names of columns that could not be read. A report lists them. */
  readonly spoilt?: readonly string[];
}

/** A secret of a key. */
export interface SecretRow {
  /** SHA-256 in hex. */
  readonly hash: string;
  readonly keyId: string;
  /** The time when the secret expires: Unix time in milliseconds; null when it never expires. */
  readonly endsAt: number | null;
}

/** A period of a budget that covers a hold, and the units that it could not cover. */
export type StoredShare = readonly [budgetId: string, startsAt: number, overdraft: number];

/** A hold. */
export interface HoldRow {
  readonly id: string;
  readonly keyId: string;
  readonly state: HoldState;
  readonly granted: StoredInteger;
  /** The units used so far, as the last renewal reported them. */
  readonly noted: StoredInteger;
  readonly renewals: StoredInteger;
  /** Units that a resolved hold has used. */
  readonly used: StoredInteger;
  /** The units of `used` that the key could not cover. */
  readonly overdraft: StoredInteger;
  /** The end of the lease: Unix time in milliseconds. */
  readonly expiresAt: StoredInteger;
  /** Unix time in milliseconds; null while the hold lives. */
  readonly resolvedAt: number | null;
  /** The periods of budgets that cover the hold; null without a budget. */
  readonly shares: readonly StoredShare[] | null;
}

/** A closed period of a budget. Its `granted` may be below 0, after the amount was lowered. */
export interface PeriodRow extends StoredBooks {
  readonly budgetId: string;
  /** Unix time in milliseconds. */
  readonly startsAt: number;
  readonly endsAt: number;
  /** The charges of holds that were deleted. */
  readonly pruned: number;
}

/** A budget and its current period. */
export interface BudgetRow extends Omit<PeriodRow, "budgetId"> {
  readonly id: string;
  readonly name: string;
  readonly amount: number;
  readonly period: BudgetPeriod | null;
  readonly timeZone: string;
  readonly rollover: boolean;
  /** The ids of the budget, its parent, and so on. Empty for a removed budget. */
  readonly chain: readonly string[];
  /** The highest threshold that the host was told of, in percent. */
  readonly told: number;
}

/** The kind of a journal entry. */
export type EntryKind = "grant" | "hold" | "renew" | "settle" | "expire" | "correct" | "overdraft";

/** A journal entry, for a driver that keeps a journal. Each number is a change, not a total. */
export interface EntryRow extends Readonly<Record<Book, number>> {
  readonly keyId: string;
  readonly holdId: string | null;
  readonly kind: EntryKind;
  /** Unix time in milliseconds. */
  readonly at: number;
  readonly noted: number;
}

/** The rows that a transaction needs. */
export interface LedgerScope {
  /** The keys, and the ids of the holds that verbs of each key name. */
  readonly keys: readonly { readonly id: string; readonly holds: readonly string[] }[];
  /** Budgets, beside those of the keys and of the holds. */
  readonly budgets?: readonly string[];
  /** The hashes of secrets. */
  readonly secrets?: readonly string[];
  /** The id of a key all of whose secrets are needed. */
  readonly secretsOf?: string;
  /** The id of a budget: the transaction needs anything that draws on it. */
  readonly usersOf?: string;
  /** Reads up to `HOLDS_AT_ONCE` holds of the keys that were resolved before this time, to delete them. */
  readonly resolvedBefore?: number;
  /** Leaves out a key whose row another transaction has locked. A driver without locks ignores this. */
  readonly skipLocked?: boolean;
}

/**
 * The rows of a scope. Ids that do not exist are left out. Of each key, the holds of the scope with any owner, and up to `HOLDS_AT_ONCE`
 * live holds whose leases have ended by `now`, those first that ended first. Of the keys and these holds, all budgets, and the closed
 * periods that the holds' shares name.
 */
export interface LedgerRows {
  /** The store's own time: Unix time in milliseconds. */
  readonly now: number;
  readonly keys: readonly KeyRow[];
  readonly holds: readonly HoldRow[];
  readonly budgets: readonly BudgetRow[];
  readonly periods: readonly PeriodRow[];
  readonly secrets: readonly SecretRow[];
  readonly user?: BudgetUser | undefined;
}

/** A change of a row: a new row has no `before`, a deleted row no `after`. */
export interface RowChange<Row> {
  readonly before: Row | undefined;
  readonly after: Row | undefined;
}

/** All changes of a transaction. */
export interface LedgerChanges {
  readonly keys: readonly RowChange<KeyRow>[];
  readonly holds: readonly RowChange<HoldRow>[];
  readonly budgets: readonly RowChange<BudgetRow>[];
  readonly periods: readonly RowChange<PeriodRow>[];
  readonly secrets: readonly RowChange<SecretRow>[];
  readonly entries: readonly EntryRow[];
}

/** The answer of the work in a transaction, and its changes; undefined when nothing has changed. */
export interface Worked<Answer> {
  readonly answer: Answer;
  readonly changes?: LedgerChanges | undefined;
}

/** A page of rows in the order of their ids, or the rows of some ids. */
export type RowPage = { readonly after: string; readonly limit: number } | { readonly ids: readonly string[] };

/** A page of the closed periods of a budget: at most `limit`, which began before a time, the latest first. */
export interface PeriodRowPage {
  /** Unix time in milliseconds. */
  readonly before: number;
  readonly limit: number;
}

/** Chooses keys with holds to work on. */
export type DueHolds =
  /** Live holds whose leases have ended; with `inBudgets`, only holds with shares in budgets are of interest. */
  | { readonly expired: true; readonly inBudgets?: boolean }
  /** Holds that were resolved before a time. */
  | { readonly resolvedBefore: number };

/**
 * A place that keeps the rows of a ledger. `ledgerQuotaStore` makes a quota store of any driver. A driver knows no rule: it reads rows,
 * and writes the rows that the rules have changed.
 */
export interface LedgerDriver {
  /**
   * Reads the rows of a scope, runs `work` on them, and writes its changes, all in one atomic step: under locks, or only if no row
   * has changed since it was read. After a conflict, reads and works again. `work` is synchronous, and has no side effect. When `work`
   * throws, nothing is written, and `change` rejects with the same error.
   */
  change<Answer>(scope: LedgerScope, work: (rows: LedgerRows) => Worked<Answer>): Promise<Answer>;
  /** Reads the rows of a scope, without locks, as of one moment for each key. */
  read(scope: LedgerScope): Promise<LedgerRows>;
  /** Finds the key of a secret by its hash. Undefined for an unknown or expired secret, and for one of a revoked key. */
  find(hash: string): Promise<ApiKey | undefined>;
  /** Returns the id of the key that a hold belongs to. `leaseMs` is the lease that the hold is about to get, or 0. */
  ownerOf(holdId: string, leaseMs: number): Promise<string | undefined>;
  /** Lists keys, with the number of their valid secrets, even when their numbers are corrupt. */
  listKeys(page: RowPage): Promise<readonly (KeyRow & { readonly secrets: number })[]>;
  /** Lists budgets. A page leaves removed budgets out. */
  listBudgets(page: RowPage): Promise<readonly BudgetRow[]>;
  /** Lists closed periods of a budget. */
  listPeriods(budgetId: string, page: PeriodRowPage): Promise<readonly PeriodRow[]>;
  /** Returns the ids of some keys after an id that may have such holds, in the order of their ids. */
  keysWith(due: DueHolds, after: string): Promise<readonly string[]>;
  /** Notes a recall of a key, and forgets recalls that are older than a minute. */
  recall(keyId: string): Promise<void>;
  /** Returns the ids of keys that were recalled within the last milliseconds. */
  recalled(withinMs: number): Promise<readonly string[]>;
  /** True for a driver that admits one writer at a time: verbs of all keys then share transactions. Default: verbs of one key. */
  readonly oneWriter?: boolean;
  /**
   * A faster way for a verb alone, without the rules. Each resolves with undefined, and changes nothing, when the verb needs a
   * transaction instead. The laws hold it to the rules.
   */
  readonly fast?: FastVerbs;
}

/** Verbs that a driver can do in one step. `keyId` is the key of the hold, if it is remembered. */
export interface FastVerbs {
  /** The most verbs of one key to run in this way at the same time; further verbs share transactions. Default: any number. */
  readonly most?: number;
  /** True when keys with budgets can have this way, too. */
  readonly withBudgets?: boolean;
  reserve(request: HoldRequest): Promise<Reservation | undefined>;
  renew(id: string, renewal: Renewal, keyId: string | undefined): Promise<true | undefined>;
  /** `tells` is true when the host is told of thresholds: a settlement that reaches one needs the rules. */
  settle(id: string, outcome: Outcome, keyId: string | undefined, tells: boolean): Promise<true | undefined>;
}

/** The entry of a row's metadata that marks a paused key, so that each driver keeps it. A host's own entry cannot have this name. */
const PAUSED = "(paused)";

/** Returns the metadata of a key's row. */
export function rowMetadataOf({ metadata, paused }: Pick<ApiKey, "metadata" | "paused">): KeyRow["metadata"] {
  return paused ? { ...metadata, [PAUSED]: "yes" } : (metadata ?? null);
}

/** Makes the api key that calls receive from its row. */
export function toApiKey(
  row: Pick<KeyRow, "id" | "name" | "unlimited" | "models" | "expiresAt" | "budgets" | "metadata">,
): ApiKey {
  const { id, name, expiresAt } = row;
  const [budget] = row.budgets;
  const unlimited = row.unlimited && budget === undefined;
  const { [PAUSED]: mark, ...metadata } = row.metadata ?? {};
  return apiKeyOf(
    { id, name, unlimited, expiresAt, budget, paused: mark !== undefined },
    row.models ?? undefined,
    metadata,
  );
}

/** Reads the shares of a hold from JSON. Undefined for anything else: a driver leaves out such a hold. */
export function toShares(json: string): readonly StoredShare[] | undefined {
  try {
    const shares = parseJson(json);
    const areShares =
      Array.isArray(shares) &&
      shares.every(
        (share) => Array.isArray(share) && typeof share[0] === "string" && isUnits(share[1]) && isUnits(share[2]),
      );
    return areShares ? (shares as StoredShare[]) : undefined;
  } catch {
    return undefined;
  }
}
