/** What a host brings to the laws of the QuotaStore, and what a law is. */

import type { ApiKeyOptions, QuotaStore } from "../../../src/index.ts";

/** What a law asks a store to be opened with. */
export interface QuotaStoreSetup {
  /**
   * The keys that the store must know. Their secrets stand without `sk-`, as `find` is given them. The store gives them their
   * ids. Secrets, and the ids of holds, are unique to each law: one database may serve all laws.
   */
  readonly keys: readonly ApiKeyOptions[];
}

/** A store under test, and what the laws need beyond its verbs. */
export interface OpenedQuotaStore {
  readonly store: QuotaStore;
  /**
   * Lets `ms` milliseconds pass on the clock by which the store's leases end. A store with an injected clock winds that clock by
   * hand; a store over a database may add an offset to the database's time. The clock may run on by itself as well.
   */
  advance(ms: number): void | Promise<void>;
  /** What the store's books say about a key, with every lease that has run out accounted for. */
  audit(keyId: string): QuotaAudit | Promise<QuotaAudit>;
  /** Removes one secret of a key, as the store's host would when the secret leaked. The key itself stays. */
  removeSecret(apiKey: string): void | Promise<void>;
  /** Lets go of what was opened. It is called once for each store, also when the law was broken. */
  close?(): void | Promise<void>;
}

/** A key's books, in units. */
export interface QuotaAudit {
  /** Live holds included. */
  readonly used: number;
  readonly available: number;
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

/** One promise of the QuotaStore port. */
export interface QuotaStoreLaw {
  /** The promise as a sentence, fit for a test's name. */
  readonly name: string;
  /**
   * Opens a store, holds it to the promise and closes it. Rejects with an AssertionError that says how the promise was broken,
   * or with what the store itself rejected with.
   */
  verify(open: OpenQuotaStore): Promise<void>;
}
