/** The port for stores of api keys and their quota: a ledger that first reserves units and later settles them, safe against races. */

import type { Certainty } from "../model/usage.ts";
import type { CallInfo } from "./call-info.ts";

/**
 * Stores api keys and their quota. Amounts are integers from 0 up, in a unit of the host's choice. By default, one unit is one token.
 *
 * Laws, which `polygate/testing` checks:
 * - granted = used + available at every instant. A live hold counts as used.
 * - Of concurrent reservations, the store admits those that fit together, and refuses the others. Available units never fall below zero.
 * - A hold is resolved once: it is settled, or it expires. A settlement of more units than the hold takes available units, and records the
 *   rest as overdraft. When a lease expires, the store charges the amount of the last renewal, as an estimate. A settlement after expiry
 *   corrects that charge.
 * - Unlimited keys are metered, but never refused.
 * - Holds belong to a key, not to a secret. A key may have several secrets, and removing a secret loses no charge.
 * - A key counts at most 2^53 - 1 units of usage, and as many of overdraft. A verb that would exceed this maximum rejects with a RangeError
 *   and changes nothing; after such a settlement, the hold remains. The charge of an expired lease stops at the maximum.
 *
 * `reserve`, `renew` and `settle` reject with a RangeError, and change nothing, when an amount is not an integer from 0 up, or a lease is
 * not an integer from 1 up. Any other rejection means that the store is down. An error with the `code` `STORE_UNMIGRATED` says that the
 * store's tables are not of this release; `gateway.health()` shows its message, which must not contain a secret.
 *
 * Each verb receives the details of the call that needs it, with the host's own context. `call` is undefined for work outside a call.
 */
export interface QuotaStore<Context = unknown> {
  /**
   * Finds an api key by its secret, which is passed without the `sk-` prefix. Resolves with undefined for an unknown or deleted key. Calls
   * do not change the result, so a host may cache it. Fields may be as databases write them: 0 and 1 for a flag, a text for a number, and
   * null for a field that the key does not have. Any other wrong type, here or in a balance, refuses the call with 503.
   */
  find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined>;
  /** Returns the used and the available units of a key; undefined for an unknown key. */
  balance(keyId: string, call?: CallInfo<Context>): Promise<Balance | undefined>;
  /**
   * Atomically holds as many available units as possible between `atLeast` and `atMost`, for one lease by the store's own clock. Refuses
   * when fewer than `atLeast` units are available, and returns the state of that moment: `{ refused: true, available, held }`. An unknown
   * key has no available units. A key that has almost counted 2^53 - 1 units is granted no more than can still be counted: `reserve` rejects
   * with a RangeError only when `atLeast` does not fit.
   *
   * Reserving an id again does not hold more units. If the hold is live, its grant is returned again. If the hold was settled or has
   * expired, the reservation is refused, because no units are held for the call. A store may forget resolved ids after a while. A refused
   * id may be reserved later, by any key.
   *
   * Also rejects with a RangeError when `atLeast` is more than `atMost`, and for an id that belongs to another key, even when both keys
   * reserve it at once.
   */
  reserve(hold: HoldRequest, call?: CallInfo<Context>): Promise<Reservation>;
  /**
   * Renews the lease of a live hold from now on, and records the units used so far. If the lease expires, the store charges the last
   * recorded amount. Changes nothing for a resolved or unknown hold. A call whose usage grows renews its lease every `limits.usageNoteMs`.
   * With `keep`, the hold becomes smaller, and the units that it loses are available at once.
   */
  renew(id: string, renewal: Renewal, call?: CallInfo<Context>): Promise<void>;
  /**
   * Charges `used` units and frees the rest of the hold; 0 frees the whole hold. A second settlement changes nothing. The first settlement
   * after expiry replaces the charge of the expiry. Changes nothing for an unknown hold.
   */
  settle(id: string, outcome: Outcome, call?: CallInfo<Context>): Promise<void>;
}

/** The `code` of the error of a store whose tables are not of this release. */
export const UNMIGRATED = "STORE_UNMIGRATED";

const DATABASES = new WeakMap<object, object>();

/** Notes that a store, a counter or a rate limiter is in a database. Stores in one database are away together. */
export function noteDatabase(store: object, database: object | undefined): void {
  if (database) DATABASES.set(store, database);
}

/** Returns the noted database of a store; undefined without a note. */
export const databaseOf = (store: object): object | undefined => DATABASES.get(store);

/**
 * Returns the id of a further hold of a call: the first hold has the id of the call.
 *
 * @param number Counts the holds of the call, from 2 on.
 */
export const furtherHoldId = (callId: string, number: number): string => `${callId}-${number}`;

/** The id of a further hold of a call of the gateway. */
const FURTHER_HOLD = /^(req_[\da-f]{32})-\d+$/;

/** Returns the id of the call that a hold belongs to. A hold of another kind is returned as it is. */
export const callOfHold = (holdId: string): string => FURTHER_HOLD.exec(holdId)?.[1] ?? holdId;

/** A request for a hold. */
export interface HoldRequest {
  /**
   * The id of the hold, unique to one call: the `requestId` of the call. A call that holds again for its rest, such as for the next turn of
   * a model that runs code, adds `-2`, `-3` and so on.
   */
  readonly id: string;
  /** The `ApiKey.id` of the key that pays. */
  readonly keyId: string;
  /** The fewest units that the call needs. */
  readonly atLeast: number;
  /** The most units that the call can use. */
  readonly atMost: number;
  /** The lifetime of the hold without a renewal, in milliseconds. */
  readonly leaseMs: number;
}

/** The result of a reservation. */
export type Reservation =
  /** The held units, between `atLeast` and `atMost`. */
  { readonly granted: number; readonly refused?: never } | Refusal;

/** The budget whose numbers a store tells. */
export interface TightestBudget {
  /** The id of the budget, if these are the numbers of a budget, not of the key's own quota. */
  readonly budget?: string;
  /** The end of the budget's current period, when it begins anew: Unix time in milliseconds. Absent without a period. */
  readonly endsAt?: number;
}

/** The state of the key at the moment of the refusal. */
export interface Refusal extends TightestBudget {
  /** Tells a refusal from a grant. */
  readonly refused: true;
  /** The available units. */
  readonly available: number;
  /** The units of the key's live holds. Some of them may become available again. */
  readonly held: number;
}

/** A renewal of a hold. */
export interface Renewal {
  /** The lifetime of the hold from now on without another renewal, in milliseconds. */
  readonly leaseMs: number;
  /** The units used so far. They may exceed the hold. */
  readonly used: number;
  /**
   * Lowers the hold to this many units, but not below `used`: an integer from 0 up. A hold that has no more than this keeps its units.
   * Default: the hold keeps its units.
   */
  readonly keep?: number;
}

/** The final charge of a hold. */
export interface Outcome {
  /** The units to charge. They may exceed the hold. */
  readonly used: number;
  /** The basis of `used`. A store keeps the sum of estimated charges. */
  readonly certainty: Certainty;
  /**
   * The units of `used` that rest on estimates, for an estimated outcome of several calls together: an integer from 0 to `used`. If the
   * store cannot charge all of `used`, the estimates are charged first. Default: all of `used` when `certainty` is "estimated".
   */
  readonly estimated?: number;
}

/** The part of a store that recalls the borrowed units of a key from all processes, for `borrowingQuotaStore`. */
export interface QuotaRecalls {
  /** Asks all processes to give back the units of a key that they have borrowed and do not use. */
  recall(keyId: string): Promise<void>;
  /**
   * Returns the ids of the keys that were recalled within the last `withinMs` milliseconds (an integer from 0 up, at most a minute), by the
   * store's clock.
   */
  recalled(withinMs: number): Promise<readonly string[]>;
}

/** The owner and the rights of an api key (spec 2.5), without its secret. */
export interface ApiKey {
  /** Identifies the key in the other verbs. It is not the secret. */
  readonly id: string;
  /** The name that its owner gave it. */
  readonly name: string;
  /** True for a key that is metered, but never refused: it has no quota, and draws on no budget. */
  readonly unlimited: boolean;
  /** The allowed models, by name. Applies when `modelLimitsEnabled` is true. */
  readonly modelLimits: Readonly<Record<string, boolean>>;
  /** True when the key may use only the models in `modelLimits`. */
  readonly modelLimitsEnabled: boolean;
  /** The expiry, as Unix time in seconds. A key with 0 or -1 never expires. */
  readonly expiresAt: number;
  /** True for a key that is refused until an operator lets it work again. Absent for any other key. */
  readonly paused?: boolean;
  /** The id of the budget that the key draws on, beside its own quota. Absent without a budget. */
  readonly budget?: string;
  /** The host's own notes on the key, such as its team. The gateway does not read them. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/**
 * A key's quota, in units. Its granted units are the sum of `used` and `available`. For a key with a budget, these are the numbers of
 * the tightest: of the key's own quota and its budgets, the one with the fewest available units.
 */
export interface Balance extends TightestBudget {
  /** The used units, with those of live holds. */
  readonly used: number;
  /** The units that a call can hold now. */
  readonly available: number;
  /** The units of live holds: a part of `used`. Some of them may become available again. */
  readonly held: number;
}
