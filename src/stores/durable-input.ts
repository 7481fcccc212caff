/** Checks what durable stores are given, so that nothing reaches a database that it could not hold or would read otherwise. */

import type { ApiKey, HoldRequest, Outcome, Renewal } from "../ports/quota-store.ts";
import { hashApiKey } from "./api-key-hash.ts";
import type { DurableKeyOptions, KeyPage } from "./durable.ts";
import { assertExpiresAt } from "./expires-at.ts";
import { assertUnits, isLease, isUnits, unitsMessage } from "./units.ts";

const MAX_ID_LENGTH = 190;

/** Databases compare ids that end in spaces alike, and some hold no control characters. */
const UNSAFE = /^\s|\s$|\p{Cc}/u;

/** Whether every store can hold this id; no other can be known to one. */
export const isStorableId = (id: string): boolean =>
  id.length > 0 && id.length <= MAX_ID_LENGTH && !UNSAFE.test(id) && id.isWellFormed();

export function assertHoldRequest({ id, atLeast, atMost, leaseMs }: HoldRequest): void {
  assertUnits("atLeast", atLeast);
  assertUnits("atMost", atMost);
  if (atLeast > atMost) throw new RangeError("A hold's atLeast cannot be more than its atMost.");
  assertLease(leaseMs);
  if (!isStorableId(id)) throw new RangeError(`A hold's id must be 1 to ${MAX_ID_LENGTH} plain characters.`);
}

export function assertRenewal({ leaseMs, used }: Renewal): void {
  assertLease(leaseMs);
  assertUnits("used", used);
}

export function assertOutcome({ used, certainty }: Outcome): void {
  assertUnits("used", used);
  if (certainty !== "exact" && certainty !== "estimated")
    throw new RangeError(`certainty must be "exact" or "estimated", not ${String(certainty)}`);
}

function assertLease(leaseMs: number): void {
  if (!isLease(leaseMs)) throw new RangeError(`leaseMs must be an integer from 1 up, not ${leaseMs}`);
}

/** A span of time from 0 up, in milliseconds. */
export function assertSpan(name: string, spanMs: number): void {
  if (!isUnits(spanMs)) throw new RangeError(unitsMessage(name, spanMs));
}

/** A key as it is stored: checked, with the hashes of its secrets. */
export interface NewKey {
  readonly key: ApiKey;
  /** 0 for an unlimited key. */
  readonly granted: number;
  readonly used: number;
  readonly hashes: readonly string[];
}

/** Checks a key to add, and makes up what it was not told. */
export function newKeyOf({ apiKey = [], granted, used = 0, ...described }: DurableKeyOptions): NewKey {
  const { id = `key-${crypto.randomUUID()}`, name = id, models, expiresAt = 0 } = described;
  if (!isStorableId(id)) throw new RangeError(`A key's id must be 1 to ${MAX_ID_LENGTH} plain characters.`);
  if (!name.isWellFormed() || name.length > 1_000 || name.includes("\0"))
    throw new RangeError("A key's name must be text of at most 1,000 characters.");
  assertExpiresAt(expiresAt);
  assertUnits("granted", granted ?? 0);
  assertUnits("used", used);
  if (granted !== undefined && used > granted)
    throw new RangeError("An API key cannot have used more than it was granted.");
  const hashes = Array.from(new Set([apiKey].flat().map(hashOfSecret)));
  const modelLimits = Object.fromEntries((models ?? []).map((model) => [model, true]));
  const unlimited = granted === undefined;
  const key = { id, name, unlimited, modelLimits, modelLimitsEnabled: models !== undefined, expiresAt };
  return { key, granted: granted ?? 0, used, hashes };
}

/** The hash of a secret as its host writes it: with or without `sk-`. */
export function hashOfSecret(apiKey: string): string {
  if (/^(sk-)?$/.test(apiKey)) throw new RangeError("An API key cannot be empty.");
  return hashApiKey(apiKey.replace(/^sk-/, ""));
}

/** The most keys of one list. */
export const MOST_LISTED = 1_000;

/** The page to list, with its limit. */
export function pageOf({ after = "", limit = 100 }: KeyPage = {}): Required<KeyPage> {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > MOST_LISTED)
    throw new RangeError(`limit must be an integer from 1 to ${MOST_LISTED}, not ${limit}`);
  return { after, limit };
}

export const noSuchKey = (keyId: string): RangeError => new RangeError(`There is no API key of the id ${keyId}.`);
export const revokedKey = (keyId: string): RangeError => new RangeError(`The API key ${keyId} is revoked.`);
export const knownKey = (keyId: string): RangeError =>
  new RangeError(`An API key of the id ${keyId} is known already.`);
export const knownSecret = (): RangeError => new RangeError("This API key is known already.");
export const foreignHold = (): RangeError => new RangeError("A hold of this id belongs to another key.");
