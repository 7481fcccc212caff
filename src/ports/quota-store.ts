/** The port behind which api keys and their quota live: a two-phase ledger, race-safe by its verbs. */

import type { Certainty } from "../model/usage.ts";

/**
 * Where quota lives. Amounts are integers in a unit of the host's choice (by default one unit is one token).
 *
 * Laws, which `polygate/testing` checks:
 * - granted = used + available at every instant; a live hold counts as used.
 * - Of concurrent reservations exactly those that fit are admitted; available never falls below zero.
 * - A hold is resolved once: settled, or expired. Settling above the hold takes what is still available, and records the
 *   rest as overdraft. Settling after expiry is a correction of what expiry charged.
 * - Unlimited keys are metered, never refused.
 */
export interface QuotaStore {
  /** The record of an api key (given without its `sk-` prefix), or undefined when it is unknown or deleted. */
  find(apiKey: string): Promise<ApiKeyRecord | undefined>;
  /**
   * Atomically holds as much as is available between `atLeast` and `atMost` until `expiresAt`; undefined when less than
   * `atLeast` is available, or the key is gone.
   *
   * The same id again holds nothing more. It gets the same answer: a live hold's grant, and undefined where it was refused,
   * whatever has become available since. Once its hold is settled or has expired it gets undefined too, for nothing is held
   * any more on which a call could run. A store may forget ids that are over after a while. Rejects with a RangeError for
   * amounts that are no integers from 0 up, for a time that is no integer, and for an id that belongs to another key.
   */
  reserve(hold: HoldRequest): Promise<Reservation | undefined>;
  /** Renews the lease of a live hold and notes what it has used so far, which is what an expired lease is charged. */
  extend(id: string, renewal: { expiresAt: number; used: number }): Promise<void>;
  /** Charges `used` (0 voids) and returns the rest of the hold, once: a second call changes nothing. */
  settle(id: string, used: number, how: Certainty): Promise<void>;
}

export interface HoldRequest {
  /** Unique to one call. */
  readonly id: string;
  readonly keyId: string;
  readonly atLeast: number;
  readonly atMost: number;
  /** When the lease ends, in milliseconds since the Unix epoch. */
  readonly expiresAt: number;
}

export interface Reservation {
  /** What is held: between `atLeast` and `atMost`. */
  readonly granted: number;
}

/** What a store tells about an api key (spec 2.5). It never holds the secret. */
export interface ApiKeyRecord {
  /** Identifies the key towards `reserve`; not the secret. */
  readonly id: string;
  /** The name that its owner gave it. */
  readonly name: string;
  readonly used: number;
  readonly available: number;
  /** Metered, but never refused. */
  readonly unlimited: boolean;
  /** Model name to whether it is allowed; consulted when `modelLimitsEnabled`. */
  readonly modelLimits: Readonly<Record<string, boolean>>;
  readonly modelLimitsEnabled: boolean;
  /** Unix time in seconds; 0 or -1 never expires. */
  readonly expiresAt: number;
}
