/** Manages api keys over any durable quota store: makes their secrets, and shows them once. */

import { assertMethods } from "../options.ts";
import type { DurableKeyOptions, KeyDirectory, KeyPage, KeyReport } from "../stores/durable.ts";
import { noSuchKey } from "../stores/ledger.ts";

/** The key that `create` makes. Its secret is random. */
export type NewKeyOptions = Omit<DurableKeyOptions, "apiKey">;

/** A key's id and its new secret, which cannot be shown again. */
export interface IssuedKey {
  readonly id: string;
  /** The secret, with its prefix `sk-`. */
  readonly apiKey: string;
}

/** Options of `rotate`. */
export interface Rotation {
  /** The time in milliseconds for which the key's other secrets stay valid: an integer from 0 up, a day by default. */
  readonly overlapMs?: number;
}

/** Methods to manage keys. They reject with a RangeError for an unknown id or a wrong amount. */
export interface KeyAdmin {
  /** Makes a key. Without `granted` it is unlimited. */
  create(key?: NewKeyOptions): Promise<IssuedKey>;
  /** Gives a key a new secret. Its other secrets stay valid until the overlap is over. */
  rotate(keyId: string, rotation?: Rotation): Promise<IssuedKey>;
  /** Deletes all secrets of a key for good. Running calls are still charged. */
  revoke(keyId: string): Promise<void>;
  /** Adds units to a key's quota, and returns the key's new report. */
  grant(keyId: string, units: number): Promise<KeyReport>;
  /** Lists keys in the order of their ids, 100 at a time by default. */
  list(page?: KeyPage): Promise<readonly KeyReport[]>;
  /** Reports the units that a key has used and has left. */
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
  assertMethods("keyAdmin", "the first argument", keys, ["add", "rotateSecret", "report"], "a store over SQL or Redis");
  const usage = async (keyId: string): Promise<KeyReport> => {
    const report = await keys.report(keyId);
    if (!report) throw noSuchKey(keyId);
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

const SECRET_BYTES = 32;

/** Makes a new secret: `sk-` and 256 random bits in URL-safe characters. */
export function newApiKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  const text = btoa(String.fromCharCode(...bytes));
  return `sk-${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}
