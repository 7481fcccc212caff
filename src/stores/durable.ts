/** What a durable quota store offers its host beside the port: keys, their secrets, reports and housekeeping. */

import type { ApiKey, QuotaStore } from "../ports/quota-store.ts";
import type { ApiKeyOptions } from "./keyring.ts";

/** A key to add. Without a secret it is for a host that finds keys by itself, or whose secret comes later. */
export interface DurableKeyOptions extends Omit<ApiKeyOptions, "apiKey"> {
  /** The key's secret, or each of its secrets, with or without `sk-`. Only their hashes are kept. */
  readonly apiKey?: string | readonly string[];
}

/** A key and what its ledger holds, in units. What was granted is `used` and `available` together. */
export interface KeyReport extends ApiKey {
  readonly granted: number;
  /** Live holds included. */
  readonly used: number;
  readonly available: number;
  /** Units of live holds; a part of `used`. */
  readonly held: number;
  /** Units that were consumed beyond what the key had. */
  readonly overdraft: number;
  /** Units of `used` that rest on estimates. */
  readonly estimated: number;
  /** How many secrets find the key now. */
  readonly secrets: number;
  readonly revoked: boolean;
}

/** Which keys to list: those whose ids come after `after`, `limit` of them (1 to 1,000, default 100). */
export interface KeyPage {
  readonly after?: string;
  readonly limit?: number;
}

/** Which resolved holds to forget. */
export interface Retention {
  /** Holds that were resolved longer ago than this are forgotten, in milliseconds: an integer from 0 up. */
  readonly olderThanMs: number;
}

/** The host's side of a durable store. Ids and secrets that break a rule below are rejected with a RangeError. */
export interface KeyDirectory {
  /**
   * Adds a key and returns its id, which is made up unless told. Rejects when its numbers are no quota, or when its id or a
   * secret is known already. An id is 1 to 190 characters without control characters and without spaces at its ends.
   */
  add(key?: DurableKeyOptions): Promise<string>;
  /** Gives a key one more secret. Rejects when there is no such key, it is revoked, or the secret is known already. */
  addSecret(keyId: string, apiKey: string): Promise<void>;
  /**
   * Gives a key a new secret, and ends all others after `overlapMs` (an integer from 0 up) by the store's clock. Rejects as
   * `addSecret` does.
   */
  rotateSecret(keyId: string, apiKey: string, overlapMs: number): Promise<void>;
  /** Forgets a secret, with or without `sk-`. Its key and the key's holds stay. An unknown secret changes nothing. */
  removeSecret(apiKey: string): Promise<void>;
  /** Forgets all secrets of a key for good. Calls under way are still charged. Rejects when there is no such key. */
  revoke(keyId: string): Promise<void>;
  /** Adds units to a key's quota. Rejects for an unlimited key, and when there is no such key. */
  grant(keyId: string, units: number): Promise<void>;
  /** A key and its ledger; undefined when there is no such key. */
  report(keyId: string): Promise<KeyReport | undefined>;
  /** Keys in the order of their ids. */
  list(page?: KeyPage): Promise<readonly KeyReport[]>;
  /**
   * Charges the holds of all keys whose leases have run out, and returns how many there were. The verbs do this for the key
   * at hand; a host calls it now and then for idle keys.
   */
  sweep(): Promise<number>;
  /** Forgets resolved holds and their entries in the journal, and returns how many holds there were. Balances stay. */
  prune(retention: Retention): Promise<number>;
}

/** A quota store that survives its process. */
export interface DurableQuotaStore<Context = unknown> extends QuotaStore<Context>, KeyDirectory {}
