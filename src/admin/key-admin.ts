/** Manages api keys over any durable quota store: the secrets are made here, and shown once. */

import type { DurableKeyOptions, KeyDirectory, KeyPage, KeyReport } from "../stores/durable.ts";
import { newApiKey } from "./api-key.ts";

/** A key to make. Its secret is made up. */
export type NewKeyOptions = Omit<DurableKeyOptions, "apiKey">;

/** A key's id and a new secret, which nobody can be shown again. */
export interface IssuedKey {
  readonly id: string;
  /** With `sk-`. */
  readonly apiKey: string;
}

/** How a key is given a new secret. */
export interface Rotation {
  /** How long its other secrets still find the key, in milliseconds: an integer from 0 up, a day unless told. */
  readonly overlapMs?: number;
}

/** What can be done with keys. An id that there is not, or an amount that is none, is rejected with a RangeError. */
export interface KeyAdmin {
  /** Makes a key. Without `granted` it is unlimited. */
  create(key?: NewKeyOptions): Promise<IssuedKey>;
  /** Gives a key a new secret. Its other secrets find it until the overlap is over. */
  rotate(keyId: string, rotation?: Rotation): Promise<IssuedKey>;
  /** Takes all secrets from a key for good. Calls under way are still charged. */
  revoke(keyId: string): Promise<void>;
  /** Adds units to a key's quota, and returns what it has then. */
  grant(keyId: string, units: number): Promise<KeyReport>;
  /** Keys in the order of their ids, 100 at a time unless told. */
  list(page?: KeyPage): Promise<readonly KeyReport[]>;
  /** What a key has used, and what it has left. */
  usage(keyId: string): Promise<KeyReport>;
}

const DAY_MS = 86_400_000;

/**
 * Manages the keys of a store.
 *
 * @example
 * const { id, apiKey } = await keyAdmin(quotas).create({ name: "Team A", granted: 1_000_000 });
 */
export function keyAdmin(keys: KeyDirectory): KeyAdmin {
  const usage = async (keyId: string): Promise<KeyReport> => {
    const report = await keys.report(keyId);
    if (!report) throw new RangeError(`There is no API key of the id ${keyId}.`);
    return report;
  };
  return {
    async create(key = {}) {
      const apiKey = newApiKey();
      return { id: await keys.add({ ...key, apiKey }), apiKey };
    },
    async rotate(keyId, { overlapMs = DAY_MS } = {}) {
      const apiKey = newApiKey();
      await keys.rotateSecret(keyId, apiKey, overlapMs);
      return { id: keyId, apiKey };
    },
    revoke: (keyId) => keys.revoke(keyId),
    async grant(keyId, units) {
      await keys.grant(keyId, units);
      return usage(keyId);
    },
    list: (page) => keys.list(page),
    usage,
  };
}
