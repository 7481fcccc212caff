/** Manages the api keys of a quota store: makes their secrets, and shows them once. */

import { given } from "../model/json.ts";
import { visible } from "../model/visible.ts";
import { assertMethods, assertOptions, CLOCK, mapOf, type Shapes } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import {
  type DurableKeyOptions,
  type KeyDirectory,
  type KeyPage,
  type KeyReport,
  MOST_LISTED,
  PAGE_SHAPES,
  pageOf,
} from "../stores/durable.ts";
import { KEY_SHAPES, type KeyChanges, noSuchKey } from "../stores/ledger.ts";
import { KEY_STATES, type KeyState, stateOf } from "./key-state.ts";
import { withoutSecretNames } from "./masked.ts";
import { pagesOf, roomFor, ROWS_AT_ONCE } from "./pages.ts";

export type { KeyState } from "./key-state.ts";

/** The key that `create` makes. Its secret is random. */
export type NewKeyOptions = Omit<DurableKeyOptions, "apiKey">;

/** A new key as JSON has it: null stands for a key without a quota of its own, and for every model. */
export interface NewKeyTold extends Omit<NewKeyOptions, "granted" | "models"> {
  readonly granted?: number | null;
  readonly models?: readonly string[] | null;
}

/** Returns the options of a new key of JSON. */
export const withoutNulls = <Key extends NewKeyTold>({
  granted,
  models,
  ...key
}: Key): Omit<Key, "granted" | "models"> & Pick<NewKeyOptions, "granted" | "models"> => ({
  ...key,
  ...given({ granted: granted ?? undefined, models: models ?? undefined }),
});

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

/** The new secret of a rotated key. */
export interface RotatedKey extends IssuedKey {
  /** The time when the key's older secrets have all ended: Unix time in milliseconds. */
  readonly olderEndAt: number;
}

/** Options of `addSecret`. */
export interface NewSecret {
  /** The time when the secret expires: Unix time in whole seconds; 0 or -1 (default 0) never expires. */
  readonly expiresAt?: number;
}

/** A page of the keys that match all conditions. */
export interface KeyFilter extends KeyPage {
  readonly state?: KeyState;
  /** The id of the budget that a key draws on itself: keys of its child budgets are not listed. */
  readonly budget?: string;
  /** The entries that a key's metadata must have. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Options of `keyAdmin`. */
export interface KeyAdminOptions {
  /** Decides which keys have expired, and tells when older secrets end. Default: the machine's clock. */
  readonly clock?: Clock;
}

/**
 * Methods to manage keys. They reject with a `RefusedChange`, which has a `code`, for an unknown id and for a change that the state of a key
 * refuses, and with another RangeError or a TypeError for a wrong value.
 */
export interface KeyAdmin {
  /** Makes a key. Without `granted` it is unlimited. */
  create(key?: NewKeyOptions): Promise<IssuedKey>;
  /**
   * Changes a key, and returns its new report. Rejects for a revoked key.
   *
   * @param isExpected Is given the key as it is before the changes, in one step with them. When it returns false, nothing changes, and
   * `update` rejects.
   */
  update(keyId: string, changes: KeyChanges, isExpected?: (key: ApiKey) => boolean): Promise<KeyReport>;
  /** Gives a key a new secret. Its other secrets stay valid until the overlap is over. */
  rotate(keyId: string, rotation?: Rotation): Promise<RotatedKey>;
  /** Gives a key one more secret. Its other secrets stay as they are. */
  addSecret(keyId: string, secret?: NewSecret): Promise<IssuedKey>;
  /**
   * Deletes one secret, given with or without `sk-`. Its key stays. Returns the id of the key; undefined for an unknown secret, which changes
   * nothing.
   */
  removeSecret(apiKey: string): Promise<string | undefined>;
  /** Deletes all secrets of a key for good. Running calls are still charged. Changes nothing for a key that is revoked already. */
  revoke(keyId: string): Promise<void>;
  /** Adds units to a key's quota, and returns the key's new report. */
  grant(keyId: string, units: number): Promise<KeyReport>;
  /**
   * Takes available units back from a key's quota, and returns the key's new report. Rejects, and takes nothing, when fewer units are
   * available.
   */
  lower(keyId: string, units: number): Promise<KeyReport>;
  /** Lists keys in the order of their ids, 100 at a time by default. A filter reads all keys until the page is full. */
  list(filter?: KeyFilter): Promise<readonly KeyReport[]>;
  /** Reports the units that a key has used and has left. */
  usage(keyId: string): Promise<KeyReport>;
}

const DAY_MS = 86_400_000;

const { apiKey: _secret, ...NEW_KEY_SHAPES } = KEY_SHAPES;

/** Throws a TypeError for a first argument of a factory that is no store of keys. */
export function assertKeyDirectory(factory: string, keys: unknown): void {
  const known = "a store over SQL or Redis, such as stores.ports.quotas, or the keys of a store in memory";
  assertMethods(factory, "the first argument", keys, ["add", "rotateSecret", "report", "lower"], known);
}

const FILTER_SHAPES: Shapes<KeyFilter> = {
  ...PAGE_SHAPES,
  state: { optional: KEY_STATES },
  budget: "string?",
  metadata: { optional: mapOf("string") },
};

/**
 * Manages the keys of a durable store, or of a store in memory (its `keys`).
 *
 * @example
 * const { id, apiKey } = await keyAdmin(quotas).create({ name: "Team A", granted: 1_000_000 });
 */
export function keyAdmin(store: KeyDirectory, options: KeyAdminOptions = {}): KeyAdmin {
  assertKeyDirectory("keyAdmin", store);
  const keys = withoutSecretNames(store);
  assertOptions<KeyAdminOptions>("keyAdmin", options, { clock: CLOCK });
  const { clock = systemClock } = options;
  const usage = async (keyId: string): Promise<KeyReport> => {
    const report = await keys.report(keyId);
    if (!report) throw noSuchKey(keyId);
    return report;
  };
  return {
    async create(key = {}) {
      assertOptions<NewKeyOptions>("create", key, NEW_KEY_SHAPES);
      const apiKey = newApiKey();
      return { id: await keys.add({ ...key, apiKey }), apiKey };
    },
    async update(keyId, changes, isExpected) {
      await keys.update(keyId, changes, isExpected);
      return usage(keyId);
    },
    async rotate(keyId, rotation = {}) {
      assertOptions<Rotation>("rotate", rotation, { overlapMs: "number?" });
      const { overlapMs = DAY_MS } = rotation;
      // An answer that could not write this time would lose the secret.
      if (overlapMs > 0 && Number.isNaN(new Date(clock.now() + overlapMs).getTime()))
        throw new RangeError("overlapMs must end at a time that a date can hold.");
      const apiKey = newApiKey();
      await keys.rotateSecret(keyId, apiKey, overlapMs);
      return { id: keyId, apiKey, olderEndAt: clock.now() + overlapMs };
    },
    async addSecret(keyId, secret = {}) {
      assertOptions<NewSecret>("addSecret", secret, { expiresAt: "number?" });
      const { expiresAt = 0 } = secret;
      const apiKey = newApiKey();
      await keys.addSecret(keyId, apiKey, expiresAt);
      return { id: keyId, apiKey };
    },
    removeSecret: (apiKey) => keys.removeSecret(apiKey),
    revoke: (keyId) => keys.revoke(keyId),
    async grant(keyId, units) {
      await keys.grant(keyId, units);
      return usage(keyId);
    },
    async lower(keyId, units) {
      await keys.lower(keyId, units);
      return usage(keyId);
    },
    async list(filter = {}) {
      assertOptions<KeyFilter>("list", filter, FILTER_SHAPES);
      return (await keysWith(filter, keys, clock.now())).found;
    },
    usage,
  };
}

/** A page of the keys that match a filter. */
interface FoundKeys {
  readonly found: readonly KeyReport[];
  /** The id behind which more keys may match. Undefined at the end of the list. */
  readonly next?: string | undefined;
}

/**
 * Finds keys by a filter.
 *
 * @param most The number of keys after which a search with conditions ends before its page is full, over HTTP, where a page of long keys ends
 *   early, too. Default: any, and pages are whole.
 */
export async function keysWith(
  { state, budget, metadata = {}, ...page }: KeyFilter,
  keys: Pick<KeyDirectory, "list">,
  now: number,
  most?: number,
): Promise<FoundKeys> {
  const wanted = Object.entries(metadata);
  const { limit, after } = pageOf(page);
  const isWhole = state === undefined && budget === undefined && wanted.length === 0;
  const atOnce = most === undefined ? MOST_LISTED : ROWS_AT_ONCE;
  const size = isWhole ? Math.min(limit, atOnce) : atOnce;
  const matches = (key: KeyReport): boolean =>
    (state === undefined || stateOf(key, now) === state) &&
    (budget === undefined || key.budget === budget) &&
    wanted.every(([name, value]) => key.metadata?.[name] === value);
  const found: KeyReport[] = [];
  const add = most === undefined ? (key: KeyReport) => found.push(key) < limit : roomFor(found, limit);
  let looked = 0;
  for await (const reports of pagesOf((next) => keys.list(next), after, size)) {
    const end = reports.find((key) => matches(key) && !add(key));
    if (end) return { found, next: end.id };
    looked += reports.length;
    if (isWhole && reports.length < size) break;
    if (!isWhole && looked >= (most ?? Infinity)) return { found, next: reports.at(-1)?.id };
  }
  return { found };
}

/**
 * Names the models that a key may use; null for every model.
 *
 * @param most The most models to name.
 */
export function modelsInWords(models: readonly string[] | null, most: number = Infinity): string {
  if (!models) return "every model";
  const more = models.length > most ? ` and ${models.length - most} more` : "";
  return models.length === 0 ? "no model" : `${models.slice(0, most).map(visible).join(", ")}${more}`;
}

const SECRET_BYTES = 32;

/** Makes a new secret: `sk-` and 256 random bits in URL-safe characters. */
export function newApiKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  const text = btoa(String.fromCharCode(...bytes));
  return `sk-${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}
