/** What a durable quota store offers its host beside the port: keys, their secrets, reports and housekeeping. */

import type { ApiKey, QuotaStore } from "../ports/quota-store.ts";
import type { ApiKeyOptions } from "./keyring.ts";
import { isUnits } from "./units.ts";

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
  /**
   * The stored numbers that no verb can have written, by their names: negative ones, or ones beyond 2^53 - 1. The report's own numbers
   * are not exact then, and the verbs reject for this key. Undefined for any other key.
   */
  readonly spoilt?: readonly string[];
}

const BOOKS = ["granted", "charged", "held", "overdraft", "estimated"] as const;

/** The books of a key as they are stored. */
export type StoredBooks = Readonly<Record<(typeof BOOKS)[number], string>>;

const numberOf = (stored: string): number => (Number.isNaN(Number(stored)) ? 0 : Number(stored));

/** Makes the report of a key, whatever its books are: one that a hand has spoilt must not hide the others of a list. */
export function keyReportOf(
  key: ApiKey,
  books: StoredBooks,
  { spoilt = [], ...described }: Pick<KeyReport, "secrets" | "revoked" | "spoilt">,
): KeyReport {
  const { charged, held } = books;
  const used = numberOf(charged) + numberOf(held);
  const available = Math.max(0, numberOf(books.granted) - used);
  const unsound = BOOKS.filter((name) => !/^\d+$/.test(books[name]) || !isUnits(Number(books[name])));
  const all = [...spoilt, ...unsound, ...(unsound.length === 0 && !isUnits(used) ? ["charged", "held"] : [])];
  return {
    ...key,
    granted: used + available,
    used,
    available,
    held: numberOf(held),
    overdraft: numberOf(books.overdraft),
    estimated: numberOf(books.estimated),
    ...described,
    ...(all.length > 0 && { spoilt: all }),
  };
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
