/** Checks what replay stores are given, so that nothing reaches a database that it could not hold or would read otherwise. */

import { utf8Length } from "../model/utf8-length.ts";
import type { RecordedAnswer, ReplayClaim, ReplayHolder, ReplayRecord } from "../ports/replay-store.ts";

/** What an answer takes beside its body, in bytes. */
const ANSWER_BYTES = 1_024;

/** What an answer takes of a store's room, in bytes. */
export const bytesOf = ({ body }: RecordedAnswer): number => ANSWER_BYTES + utf8Length(body ?? "");

/** The answer as a store can keep it: of one that is larger than all room of its key, that it was given. */
export const fitting = (answer: RecordedAnswer, maxBytes: number): RecordedAnswer =>
  bytesOf(answer) > maxBytes ? { ...answer, body: undefined } : answer;

/**
 * What one api key may fill of a shared store. Beyond it the oldest answers of the key are forgotten. Of an answer that alone takes more, no more is kept than that it was
 * given: its repetition is 409.
 */
export interface KeyBounds {
  /** The most answers: a positive integer, 1,000 unless told. */
  readonly maxEntriesPerKey: number;
  /** The most that they take together, in bytes: a positive integer, 64 MiB unless told. */
  readonly maxBytesPerKey: number;
}

const DEFAULT_BOUNDS: KeyBounds = { maxEntriesPerKey: 1_000, maxBytesPerKey: 64 * 1024 * 1024 };

/** The bounds that a host sets, and the defaults of the others. Throws a RangeError for one that is no positive integer. */
export function keyBoundsOf({
  maxEntriesPerKey = DEFAULT_BOUNDS.maxEntriesPerKey,
  maxBytesPerKey = DEFAULT_BOUNDS.maxBytesPerKey,
}: Partial<KeyBounds>): KeyBounds {
  const bounds = { maxEntriesPerKey, maxBytesPerKey };
  for (const [name, value] of Object.entries(bounds)) assertSpan(name, value);
  return bounds;
}

const HASH = /^[0-9a-f]{64}$/;
const MAX_ID_LENGTH = 190;

export function assertReplayClaim(claim: ReplayClaim): void {
  assertReplayHolder(claim);
  assertHash("fingerprint", claim.fingerprint);
  assertSpan("leaseMs", claim.leaseMs);
}

export function assertReplayRecord(record: ReplayRecord): void {
  assertReplayHolder(record);
  assertHash("fingerprint", record.fingerprint);
  assertSpan("retainMs", record.retainMs);
}

export function assertReplayHolder({ id, keyId, callId }: ReplayHolder): void {
  assertHash("id", id);
  for (const [name, text] of Object.entries({ keyId, callId }))
    if (text.length === 0 || text.length > MAX_ID_LENGTH || !text.isWellFormed() || text.includes("\0"))
      throw new RangeError(`${name} must be 1 to ${MAX_ID_LENGTH} plain characters.`);
}

function assertHash(name: string, text: string): void {
  if (!HASH.test(text)) throw new RangeError(`${name} must be 64 hexadecimal digits.`);
}

function assertSpan(name: string, ms: number): void {
  if (!Number.isSafeInteger(ms) || ms < 1) throw new RangeError(`${name} must be an integer from 1 up, not ${ms}`);
}
