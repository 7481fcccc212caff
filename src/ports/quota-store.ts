/** The port behind which api keys and their quota live: a two-phase ledger, race-safe by its verbs. */

import type { Certainty } from "../model/usage.ts";
import type { CallInfo } from "./call-info.ts";

/**
 * Where quota lives. Amounts are integers from 0 up, in a unit of the host's choice (by default one unit is one token).
 *
 * Laws, which `polygate/testing` checks:
 * - granted = used + available at every instant; a live hold counts as used.
 * - Of concurrent reservations exactly those that fit are admitted; available never falls below zero.
 * - A hold is resolved once: settled, or expired. Settling above the hold takes what is still available, and records the
 *   rest as overdraft. An expired lease is charged what its last renewal noted, as an estimate. Settling after expiry corrects
 *   that charge.
 * - Unlimited keys are metered, never refused.
 * - Holds belong to a key, not to a secret: a key may have several secrets, and removing one loses no charge.
 * - A key counts up to 2^53 - 1 units of usage and of overdraft. What would pass that is rejected with a RangeError, and changes
 *   nothing: the hold of a settlement stays. An expired lease is charged as much of its note as can be counted.
 *
 * `reserve`, `renew` and `settle` reject with a RangeError, and change nothing, for an amount that is no integer from 0 up and
 * for a lease that is no integer from 1 up. Whatever else a verb rejects with is taken for a store that is down.
 *
 * Each verb is told about the call that it works for, with the host's own context; work outside of any call leaves it out.
 */
export interface QuotaStore<Context = unknown> {
  /**
   * Who an api key (given without its `sk-` prefix) belongs to; undefined when it is unknown or deleted. It tells nothing that a
   * call changes, so that a host may cache it.
   */
  find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined>;
  /** What a key has used and what it has left; undefined when there is no such key. */
  balance(keyId: string, call?: CallInfo<Context>): Promise<Balance | undefined>;
  /**
   * Atomically holds as much as is available between `atLeast` and `atMost`, for one lease by the store's own clock. Refuses
   * when less than `atLeast` is available, and says what it saw at that moment. A key that there is not has nothing available.
   *
   * The same id again holds nothing more: a live hold's grant is told again; one that was settled or has expired is refused, for
   * nothing is held any more on which a call could run. A store may forget resolved ids after a while. A refusal leaves no trace:
   * its id may be reserved later, by any key. Rejects with a RangeError, beside the above, when `atLeast` is more
   * than `atMost`, and for an id that belongs to another key, also when both keys ask for it at once.
   */
  reserve(hold: HoldRequest, call?: CallInfo<Context>): Promise<Reservation>;
  /**
   * Renews the lease of a live hold, from now on, and notes what it has used so far: an expired lease is charged the last note.
   * Changes nothing when the hold is resolved or unknown. A call that goes on generating asks for it every `limits.usageNoteMs`.
   */
  renew(id: string, renewal: Renewal, call?: CallInfo<Context>): Promise<void>;
  /**
   * Charges `used` (0 voids the hold) and returns the rest, once: a second call changes nothing. Of a hold whose lease ran out
   * before, it replaces what expiry charged, once. Changes nothing when the hold is unknown.
   */
  settle(id: string, outcome: Outcome, call?: CallInfo<Context>): Promise<void>;
}

/** What a call asks to be held. */
export interface HoldRequest {
  /** Unique to one call. */
  readonly id: string;
  /** The `ApiKey.id` of the key that pays. */
  readonly keyId: string;
  /** The fewest units with which the call can run. */
  readonly atLeast: number;
  /** The most units that the call can use. */
  readonly atMost: number;
  /** How long the hold lives unless it is renewed, in milliseconds. */
  readonly leaseMs: number;
}

/** What came of a reservation. */
export type Reservation =
  /** Units that are held: between `atLeast` and `atMost`. */
  { readonly granted: number; readonly refused?: never } | Refusal;

/** What the store saw of the key at the moment in which it refused. */
export interface Refusal {
  readonly refused: true;
  /** Units that were available. */
  readonly available: number;
  /** Units of the key's live holds, some of which may come back. */
  readonly held: number;
}

/** What a live call tells of itself. */
export interface Renewal {
  /** How long the hold lives from now on unless it is renewed again, in milliseconds. */
  readonly leaseMs: number;
  /** Units used so far; may exceed the hold. */
  readonly used: number;
}

/** How a hold ends. */
export interface Outcome {
  /** Units to charge; may exceed the hold. */
  readonly used: number;
  /** Whether that count is the backend's own or the gateway's estimate. A store keeps the sum of what rests on estimates. */
  readonly certainty: Certainty;
}

/** Who an api key belongs to and what it may do (spec 2.5). It never holds the secret. */
export interface ApiKey {
  /** Identifies the key towards the other verbs; not the secret. */
  readonly id: string;
  /** The name that its owner gave it. */
  readonly name: string;
  /** Metered, but never refused. */
  readonly unlimited: boolean;
  /** Model name to whether it is allowed; consulted when `modelLimitsEnabled`. */
  readonly modelLimits: Readonly<Record<string, boolean>>;
  readonly modelLimitsEnabled: boolean;
  /** Unix time in seconds; 0 or -1 never expires. */
  readonly expiresAt: number;
}

/** A key's quota, in units. What was granted is the sum of the two. */
export interface Balance {
  /** Live holds included. */
  readonly used: number;
  readonly available: number;
  /** Units of live holds: a part of `used`, some of which may come back. */
  readonly held: number;
}
