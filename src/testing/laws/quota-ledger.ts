/** A law of the QuotaStore: the store that a host brings, and short verbs to write laws with. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { ApiKeyOptions, Balance, Certainty, QuotaStore, Refusal, Reservation } from "../../index.ts";
import { closing, type Law } from "./law.ts";

/** The setup of a store for one law. */
export interface QuotaStoreSetup {
  /**
   * The keys that the store must know. Their secrets have no `sk-`, like the secrets that `find` gets. The store chooses their ids.
   * Secrets, and the ids of holds, are unique to each law: one database may serve all laws.
   */
  readonly keys: readonly ApiKeyOptions[];
}

/** A store under test, and the actions that the laws need beside its verbs. */
export interface OpenedQuotaStore {
  readonly store: QuotaStore;
  /**
   * Lets `ms` milliseconds pass on the clock by which the store's leases end. A store with an injected clock winds that clock by
   * hand; a store over a database may add an offset to the database's time. The clock may run on by itself as well.
   */
  advance(ms: number): void | Promise<void>;
  /** Reads the books of a key, with every lease that has run out accounted for. */
  audit(keyId: string): QuotaAudit | Promise<QuotaAudit>;
  /** Removes one secret of a key, as the store's host would when the secret leaked. The key itself stays. */
  removeSecret(apiKey: string): void | Promise<unknown>;
  /** Closes the store. It is called once for each store, also when the law was broken. */
  close?(): void | Promise<void>;
}

/** A key's books, in units. */
export interface QuotaAudit {
  /** Live holds included. */
  readonly used: number;
  /** May be null for an unlimited key. */
  readonly available: number | null;
  /** Units of live holds; a part of `used`. */
  readonly held: number;
  /** Units that were consumed beyond what the key had. */
  readonly overdraft: number;
  /** Units of `used` that rest on estimates. */
  readonly estimated: number;
}

/**
 * Opens a store for one law.
 *
 * @example
 * const open: OpenQuotaStore = async ({ keys }) => {
 *   const database = await connect();
 *   const store = myQuotaStore(database);
 *   for (const key of keys) await store.addKey(key);
 *   return {
 *     store,
 *     advance: (ms) => store.shiftClock(ms),
 *     audit: (keyId) => store.audit(keyId),
 *     removeSecret: (apiKey) => store.removeSecret(apiKey),
 *     close: () => database.end(),
 *   };
 * };
 */
export type OpenQuotaStore = (setup: QuotaStoreSetup) => OpenedQuotaStore | Promise<OpenedQuotaStore>;

/** A promise of the QuotaStore port. */
export type QuotaStoreLaw = Law<OpenQuotaStore>;

/**
 * The length of the laws' leases, in milliseconds. A real store's clock runs on while a law is at work, so that the leases are long:
 * "before the end of the lease" is always minutes before it.
 */
export const LEASE_MS = 600_000;

/** A key that a law needs. Its secret is `one`, `two` and so on unless told, made unique. */
export type Declared = Omit<ApiKeyOptions, "apiKey" | "id"> & { readonly secrets?: readonly string[] };

const ORDINALS = ["one", "two", "three"];

/**
 * Makes a law on a fresh store with one key for each declaration. The store is always closed.
 */
export function law(
  name: string,
  declared: readonly Declared[],
  body: (...ledgers: Ledger[]) => Promise<void>,
): QuotaStoreLaw {
  return {
    name,
    async verify(open) {
      const suffix = randomUUID().slice(0, 8);
      const keys = declared.map(({ secrets, ...key }, index): ApiKeyOptions => {
        const named = (secrets ?? [ORDINALS[index] ?? `${index}`]).map((secret) => `${secret}-${suffix}`);
        return { ...key, apiKey: named.length === 1 && named[0] !== undefined ? named[0] : named };
      });
      const opened = await open({ keys });
      await closing(opened, async () =>
        body(...(await Promise.all(keys.map((key) => ledgerOf(opened, suffix, [key.apiKey].flat(), key.granted))))),
      );
    },
  };
}

/** Finds a key of the store by its first secret. */
export async function ledgerOf(
  opened: OpenedQuotaStore,
  suffix: string,
  secrets: readonly string[],
  granted: number | undefined,
): Promise<Ledger> {
  const found = await opened.store.find(secrets[0] ?? "");
  assert.ok(found, "find must know the keys that the store was opened with");
  return new Ledger(opened, suffix, found.id, secrets, granted);
}

/** A key of a store under test, with short verbs for its holds. */
export class Ledger {
  readonly store: QuotaStore;
  readonly keyId: string;
  readonly secrets: readonly string[];
  readonly #opened: OpenedQuotaStore;
  readonly #suffix: string;
  readonly #granted: number | undefined;

  constructor(opened: OpenedQuotaStore, suffix: string, keyId: string, secrets: readonly string[], granted?: number) {
    this.store = opened.store;
    this.keyId = keyId;
    this.secrets = secrets;
    this.#opened = opened;
    this.#suffix = suffix;
    this.#granted = granted;
  }

  /** The id of a hold, which no other law uses. */
  id(hold: string): string {
    return `${hold}-${this.#suffix}`;
  }

  reserve(hold: string, atLeast: number, atMost: number = atLeast, leaseMs: number = LEASE_MS): Promise<Reservation> {
    return this.store.reserve({ id: this.id(hold), keyId: this.keyId, atLeast, atMost, leaseMs });
  }

  renew(hold: string, used: number, leaseMs: number = LEASE_MS): Promise<void> {
    return this.store.renew(this.id(hold), { leaseMs, used });
  }

  /** Renews a hold, and lowers it to `keep` units. */
  lower(hold: string, used: number, keep: number): Promise<void> {
    return this.store.renew(this.id(hold), { leaseMs: LEASE_MS, used, keep });
  }

  settle(hold: string, used: number, certainty: Certainty = "exact"): Promise<void> {
    return this.store.settle(this.id(hold), { used, certainty });
  }

  async advance(ms: number): Promise<void> {
    await this.#opened.advance(ms);
  }

  async removeSecret(apiKey: string): Promise<void> {
    await this.#opened.removeSecret(apiKey);
  }

  async balance(): Promise<Balance> {
    const balance = await this.store.balance(this.keyId);
    assert.ok(balance, "balance must know a key that the store was opened with");
    return { used: balance.used, available: balance.available, held: balance.held };
  }

  /** Reserves units that must be granted. */
  async hold(hold: string, units: number): Promise<void> {
    await this.expectGrant(this.reserve(hold, units), units, "what is available must be granted");
  }

  /** Makes a call that holds units and uses all of them. */
  async spend(hold: string, units: number): Promise<void> {
    await this.hold(hold, units);
    await this.settle(hold, units);
  }

  async expectGrant(reservation: Promise<Reservation>, granted: number, why: string): Promise<void> {
    const answer = await reservation;
    assert.deepEqual(answer.refused ? answer : { granted: answer.granted }, { granted }, why);
  }

  async expectRefusal(reservation: Promise<Reservation>, units: Omit<Refusal, "refused">, why: string): Promise<void> {
    const answer = await reservation;
    assert.ok(answer.refused, why);
    assert.deepEqual(unitsOf(answer), units, `${why}; a refusal says what the store saw`);
  }

  /** Asserts the used units, live holds included, and that all the rest of the grant is available. */
  async expectUsed(used: number, why: string): Promise<void> {
    const balance = await this.balance();
    if (this.#granted === undefined) assert.equal(balance.used, used, why);
    else assert.deepEqual(balance, { ...balance, used, available: this.#granted - used }, why);
  }

  /** Asserts entries of the books, and that the books agree with the balance. */
  async expectBooks(expected: Partial<QuotaAudit>, why: string): Promise<void> {
    const audit = await this.#opened.audit(this.keyId);
    const entries = Object.fromEntries(Object.keys(expected).map((field) => [field, audit[field as keyof QuotaAudit]]));
    assert.deepEqual(entries, expected, why);
    const { used, available, held } = audit;
    const balance = await this.balance();
    const told = { used, available: available ?? balance.available, held };
    assert.deepEqual(balance, told, "the books and the balance tell the same");
  }
}

export const unitsOf = ({ available, held }: Refusal): Omit<Refusal, "refused"> => ({ available, held });

/** The granted units, the most first. */
export const grantsOf = (reservations: readonly Reservation[]): number[] =>
  reservations.flatMap((answer) => (answer.refused ? [] : [answer.granted])).toSorted((a, b) => b - a);

/** Asserts a rejection with a RangeError, also with one of another realm or process. */
export const expectRangeError = (work: () => Promise<unknown>, why: string): Promise<void> =>
  assert.rejects(
    work,
    (error: unknown) => {
      assert.equal((error as Error | undefined)?.name, "RangeError", why);
      return true;
    },
    why,
  );
