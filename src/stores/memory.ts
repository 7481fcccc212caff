/** The reference QuotaStore: a ledger in memory, for one process, tests and playgrounds. */

import { type Clock, systemClock } from "../ports/clock.ts";
import type { ApiKey, Balance, HoldRequest, Outcome, QuotaStore, Renewal, Reservation } from "../ports/quota-store.ts";
import type { Account, Hold } from "./account.ts";
import { Holds } from "./holds.ts";
import { type ApiKeyOptions, Keyring } from "./keyring.ts";
import { assertUnits, isLease, isUnits, unitsMessage } from "./units.ts";

/** What a key's ledger holds, for audits: `used` counts live holds as well. */
export interface LedgerReport {
  readonly granted: number;
  readonly used: number;
  readonly available: number;
  /** Units of live holds; a part of `used`. */
  readonly held: number;
  readonly liveHolds: number;
  /** Units that were consumed beyond what the key had. */
  readonly overdraft: number;
  /** Units of `used` that rest on estimates. */
  readonly estimated: number;
}

/** What a host may set for a ledger in memory. */
export interface MemoryQuotaStoreOptions {
  /** Default: the machine's own. */
  readonly clock?: Clock;
  /**
   * The most settled holds that are retained, so that a repeated call changes nothing. Each is retained until an hour has passed
   * or half this number have been settled after it. Default 10,000; the more there are, the longer each call takes to look up its
   * id. Live holds, and those whose lease ran out less than an hour ago, are retained beside them, however many they are.
   */
  readonly maxRetained?: number;
}

/** The host's side of the ledger: its keys and their secrets. */
export interface MemoryQuotaStore extends QuotaStore {
  /**
   * Adds a key and returns its id. Throws a RangeError when its numbers are no quota, or its id or a secret is known already, or
   * it has no secret.
   */
  add(key: ApiKeyOptions): string;
  /** Forgets a key and its secrets. Its live holds end without a charge. An id that is unknown changes nothing. */
  remove(keyId: string): void;
  /** Gives a key one more secret. Throws a RangeError when there is no such key, or the secret is known already. */
  addSecret(keyId: string, apiKey: string): void;
  /**
   * Forgets a secret, with or without `sk-`. Its key stays, even without any secret: calls under way are charged to it. A secret
   * that is unknown changes nothing.
   */
  removeSecret(apiKey: string): void;
  /** The ledger of a key, or undefined when there is no such key. */
  report(keyId: string): LedgerReport | undefined;
}

/**
 * Quota in memory. Its verbs run to their end without waiting, so no two can race.
 *
 * @example
 * const quotas = memoryQuotaStore([{ apiKey: "sk-team-a", granted: 1_000_000 }]);
 */
export function memoryQuotaStore(
  keys: readonly ApiKeyOptions[] = [],
  { clock = systemClock, maxRetained = 10_000 }: MemoryQuotaStoreOptions = {},
): MemoryQuotaStore {
  assertUnits("maxRetained", maxRetained);
  const store = new Ledger(clock, maxRetained);
  for (const key of keys) store.add(key);
  return store;
}

// Every request runs these verbs, so they are plain functions: an async one costs more than the promise that it returns.
class Ledger implements MemoryQuotaStore {
  readonly #clock: Clock;
  readonly #keys = new Keyring();
  readonly #holds: Holds<Account, Hold>;

  constructor(clock: Clock, maxRetained: number) {
    this.#clock = clock;
    this.#holds = new Holds(maxRetained, clock.now());
  }

  add(key: ApiKeyOptions): string {
    return this.#keys.add(key);
  }

  remove(keyId: string): void {
    const account = this.#keys.remove(keyId);
    if (account) this.#holds.drop(account);
  }

  addSecret(keyId: string, apiKey: string): void {
    this.#keys.addSecret(keyId, apiKey);
  }

  removeSecret(apiKey: string): void {
    this.#keys.removeSecret(apiKey);
  }

  report(keyId: string): LedgerReport | undefined {
    this.#expire(this.#clock.now());
    const account = this.#keys.get(keyId);
    if (!account) return undefined;
    const { used, available, held, liveHolds, overdraft, estimated } = account;
    return { granted: used + available, used, available, held, liveHolds, overdraft, estimated };
  }

  find(apiKey: string): Promise<ApiKey | undefined> {
    return Promise.resolve(this.#keys.find(apiKey)?.key);
  }

  balance(keyId: string): Promise<Balance | undefined> {
    this.#expire(this.#clock.now());
    const account = this.#keys.get(keyId);
    return Promise.resolve(account && { used: account.used, available: account.available, held: account.held });
  }

  reserve({ id, keyId, atLeast, atMost, leaseMs }: HoldRequest): Promise<Reservation> {
    if (!isUnits(atLeast)) return notUnits("atLeast", atLeast);
    if (!isUnits(atMost)) return notUnits("atMost", atMost);
    if (atLeast > atMost) return rejected("A hold's atLeast cannot be more than its atMost.");
    if (!isLease(leaseMs)) return notLease(leaseMs);
    const now = this.#clock.now();
    this.#expire(now);
    const account = this.#keys.get(keyId);
    const owner = this.#holds.ownerOf(id);
    if (owner && owner.key.id !== keyId) return rejected("A hold of this id belongs to another key.");
    if (!account) return Promise.resolve({ refused: true, available: 0, held: 0 });
    if (owner) return Promise.resolve(this.#again(id, account));
    try {
      const granted = account.grantable(atLeast, atMost);
      if (granted < atLeast) return Promise.resolve(refusalOf(account));
      this.#holds.open(account.hold(id, granted, now + leaseMs));
      return Promise.resolve({ granted });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  renew(id: string, { leaseMs, used }: Renewal): Promise<void> {
    if (!isLease(leaseMs)) return notLease(leaseMs);
    if (!isUnits(used)) return notUnits("used", used);
    const now = this.#clock.now();
    this.#expire(now);
    const hold = this.#holds.live(id);
    if (!hold) return DONE;
    hold.used = used;
    this.#holds.lease(hold, now + leaseMs);
    return DONE;
  }

  settle(id: string, { used, certainty }: Outcome): Promise<void> {
    if (!isUnits(used)) return notUnits("used", used);
    if (certainty !== "exact" && certainty !== "estimated")
      return rejected(`certainty must be "exact" or "estimated", not ${String(certainty)}`);
    const now = this.#clock.now();
    this.#expire(now);
    try {
      const hold = this.#holds.live(id);
      if (hold) {
        hold.account.resolve(hold, used, certainty);
        this.#holds.settle(hold, now);
        return DONE;
      }
      const expired = this.#holds.expired(id);
      if (expired) expired.account.correct(expired, used, certainty);
      return DONE;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The answer to a reservation whose id is taken by the same key. */
  #again(id: string, account: Account): Reservation {
    const hold = this.#holds.live(id);
    // A resolved hold does not admit another call.
    return hold ? { granted: hold.granted } : refusalOf(account);
  }

  /** Charges every hold whose lease has run out what its last renewal noted. */
  #expire(now: number): void {
    for (const hold of this.#holds.expire(now)) hold.account.expire(hold);
  }
}

const refusalOf = ({ available, held }: Account): Reservation => ({ refused: true, available, held });

/** What every verb that has nothing to tell answers with. */
const DONE: Promise<void> = Promise.resolve();

const rejected = (message: string): Promise<never> => Promise.reject(new RangeError(message));
const notUnits = (name: string, units: number): Promise<never> => rejected(unitsMessage(name, units));
const notLease = (leaseMs: number): Promise<never> => rejected(`leaseMs must be an integer from 1 up, not ${leaseMs}`);
