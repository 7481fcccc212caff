/** The reference ReplayStore: answers in memory, for one process; and the rules that all replay stores share. */

import { GatewayError } from "../errors.ts";
import { utf8Length } from "../model/json.ts";
import { assertOptions, CLOCK } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import type {
  RecordedAnswer,
  ReplayClaim,
  ReplayHolder,
  ReplayRecord,
  ReplayState,
  ReplayStore,
} from "../ports/replay-store.ts";
import { SharedRoom } from "../ports/shared-room.ts";
import { assertInteger } from "./ledger.ts";

/** The room for answers in memory. */
export interface MemoryReplayStoreOptions {
  /** The most entries, of running calls and of stored answers: a positive integer, 10,000 by default. */
  readonly maxEntries?: number;
  /** The most entries of one api key, as long as other keys have few: a positive integer, half of `maxEntries` by default. */
  readonly maxEntriesPerKey?: number;
  /** The most bytes that all answers together may take: a positive integer, 64 MiB by default. */
  readonly maxBytes?: number;
  /** The most bytes of the answers of one api key, as long as other keys have few: a positive integer, half of `maxBytes` by default. */
  readonly maxBytesPerKey?: number;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

export interface MemoryReplayStore extends ReplayStore {
  /** The number of entries now, including expired entries that the store has not deleted yet. */
  readonly entries: number;
  /** The size of all answers now, in bytes. */
  readonly bytes: number;
}

const DEFAULT_MAX_ENTRIES = 10_000;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;
/** The retry time that a caller gets when the store is full, in milliseconds. */
const COME_BACK_MS = 1_000;

interface Replay {
  readonly keyId: string;
  readonly callId: string;
  readonly fingerprint: string;
  /** Undefined while its call runs. */
  readonly answer: RecordedAnswer | undefined;
  readonly bytes: number;
  /** The time at which the entry expires, in milliseconds since the Unix epoch. */
  readonly endsAt: number;
}

/**
 * Makes a store that keeps answers in memory. `SharedRoom` decides how much room a key may take. When a key lacks room, the oldest
 * answers are deleted: first its own, then those of keys that have more. A claim is refused as `busy` when running calls take all the
 * room of the store, or all that its key may have.
 *
 * @throws RangeError for a bound that is not a positive integer.
 * @example
 * const replayStore = memoryReplayStore({ maxBytes: 16 * 1024 * 1024 });
 */
export function memoryReplayStore(options: MemoryReplayStoreOptions = {}): MemoryReplayStore {
  assertOptions<MemoryReplayStoreOptions>("memoryReplayStore", options, {
    maxEntries: "positive?",
    maxEntriesPerKey: "positive?",
    maxBytes: "positive?",
    maxBytesPerKey: "positive?",
    clock: CLOCK,
  });
  return new MemoryReplays(options);
}

class MemoryReplays implements MemoryReplayStore {
  /** The shared room of the store, counted in entries. */
  readonly #slots: SharedRoom;
  /** The shared room of the store, counted in bytes. */
  readonly #room: SharedRoom;
  readonly #clock: Clock;
  readonly #running = new Map<string, Replay>();
  /** The entries in the order in which they were recorded. */
  readonly #answered = new Map<string, Replay>();

  constructor(options: MemoryReplayStoreOptions) {
    const { maxEntries = DEFAULT_MAX_ENTRIES, maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options;
    this.#slots = new SharedRoom(maxEntries, options.maxEntriesPerKey, ["maxEntries", "maxEntriesPerKey"]);
    this.#room = new SharedRoom(maxBytes, options.maxBytesPerKey, ["maxBytes", "maxBytesPerKey"]);
    this.#clock = clock;
  }

  get entries(): number {
    return this.#slots.taken;
  }

  get bytes(): number {
    return this.#room.taken;
  }

  async claim(claim: ReplayClaim): Promise<ReplayState> {
    assertReplayClaim(claim);
    const { id, keyId, callId, fingerprint, leaseMs } = claim;
    const found = this.#find(id);
    if (found?.answer) return { state: "answered", fingerprint: found.fingerprint, answer: found.answer };
    if (found && found.callId !== callId) return { state: "running", fingerprint: found.fingerprint };
    if (found) this.#remove(id, found);
    else if (!this.#makeRoom(keyId, 0))
      throw new GatewayError("busy", "The gateway is full.", { retryAfterMs: COME_BACK_MS });
    const endsAt = this.#clock.now() + leaseMs;
    this.#add(this.#running, id, { keyId, callId, fingerprint, answer: undefined, bytes: 0, endsAt });
    return { state: "claimed" };
  }

  async record(record: ReplayRecord): Promise<void> {
    assertReplayRecord(record);
    const { id, keyId, callId, fingerprint, retainMs } = record;
    const found = this.#find(id);
    if (found && (found.answer || found.callId !== callId)) return;
    if (found) this.#remove(id, found);
    const answer = fitting(record.answer, this.#room.mostPerKey);
    const bytes = bytesOf(answer);
    // Delete no other answers for an answer that is larger than the room that its key may have.
    if (bytes > this.#room.mostPerKey || !this.#makeRoom(keyId, bytes)) return;
    const endsAt = this.#clock.now() + retainMs;
    this.#add(this.#answered, id, { keyId, callId, fingerprint, answer, bytes, endsAt });
  }

  async release({ id, callId }: ReplayHolder): Promise<void> {
    const found = this.#running.get(id);
    if (found?.callId === callId) this.#remove(id, found);
  }

  /** Returns an entry. Deletes an expired entry instead. */
  #find(id: string): Replay | undefined {
    const entry = this.#running.get(id) ?? this.#answered.get(id);
    if (!entry || entry.endsAt > this.#clock.now()) return entry;
    this.#remove(id, entry);
    return undefined;
  }

  /** Makes room for one more entry of a key by deleting other entries. Returns false when that does not free enough room. */
  #makeRoom(keyId: string, bytes: number): boolean {
    if (!this.#lacks(keyId, bytes)) return true;
    const now = this.#clock.now();
    for (const [id, entry] of this.#running) if (entry.endsAt <= now) this.#remove(id, entry);
    for (const [id, entry] of this.#answered) {
      if (!this.#lacks(keyId, bytes)) return true;
      if (entry.keyId === keyId) this.#remove(id, entry);
    }
    for (const isAnyAllowed of [false, true])
      for (const [id, entry] of this.#answered) {
        // A key that has reached its own limit must not delete answers of other keys.
        if (this.#lacks(keyId, bytes) !== "room") break;
        if (isAnyAllowed || this.#hasMore(entry.keyId, keyId, bytes)) this.#remove(id, entry);
      }
    return !this.#lacks(keyId, bytes);
  }

  /** Returns why a key cannot have one more entry of this size: the store or the key's share is full. Undefined when there is room. */
  #lacks(keyId: string, bytes: number): "room" | "share" | undefined {
    return this.#slots.refuses(keyId, 1) ?? (bytes > 0 ? this.#room.refuses(keyId, bytes) : undefined);
  }

  /** True when the other key has more than this key would have with its new entry. */
  #hasMore(other: string, keyId: string, bytes: number): boolean {
    return (
      this.#slots.heldBy(other) > this.#slots.heldBy(keyId) + 1 ||
      this.#room.heldBy(other) > this.#room.heldBy(keyId) + bytes
    );
  }

  #add(entries: Map<string, Replay>, id: string, entry: Replay): void {
    entries.set(id, entry);
    this.#slots.add(entry.keyId, 1);
    this.#room.add(entry.keyId, entry.bytes);
  }

  #remove(id: string, { keyId, bytes }: Replay): void {
    if (!this.#running.delete(id)) this.#answered.delete(id);
    this.#slots.remove(keyId, 1);
    this.#room.remove(keyId, bytes);
  }
}

/** The size of an answer beside its body, in bytes. */
const ANSWER_BYTES = 1_024;

/** The room that an answer takes in a store, in bytes. */
export const bytesOf = ({ body }: RecordedAnswer): number => ANSWER_BYTES + utf8Length(body ?? "");

/** Removes the body of an answer that is larger than the room that its key may have. */
export const fitting = (answer: RecordedAnswer, maxBytes: number): RecordedAnswer =>
  bytesOf(answer) > maxBytes ? { ...answer, body: undefined } : answer;

/**
 * The limits of one api key in a store that several processes share. When a key exceeds them, its oldest answers are deleted. An
 * answer that exceeds them alone is stored without its body; a repetition of its request gets a 409.
 */
export interface KeyBounds {
  /** The most answers: a positive integer, 1,000 by default. */
  readonly maxEntriesPerKey: number;
  /** The most bytes of all answers together: a positive integer, 64 MiB by default. */
  readonly maxBytesPerKey: number;
}

/** Fills in the bounds that a host has not set. */
export function keyBoundsOf(options: { [Bound in keyof KeyBounds]?: number | undefined }): KeyBounds {
  const { maxEntriesPerKey = 1_000, maxBytesPerKey = DEFAULT_MAX_BYTES } = options;
  return { maxEntriesPerKey, maxBytesPerKey };
}

// The checks below reject values that a database cannot store, or would return changed.

export function assertReplayClaim(claim: ReplayClaim): void {
  assertReplayHolder(claim);
  assertHash("fingerprint", claim.fingerprint);
  assertInteger("leaseMs", claim.leaseMs, 1);
}

export function assertReplayRecord(record: ReplayRecord): void {
  assertReplayHolder(record);
  assertHash("fingerprint", record.fingerprint);
  assertInteger("retainMs", record.retainMs, 1);
}

export function assertReplayHolder({ id, keyId, callId }: ReplayHolder): void {
  assertHash("id", id);
  assertName("keyId", keyId);
  assertName("callId", callId);
}

function assertHash(name: string, text: string): void {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new RangeError(`${name} must be 64 hexadecimal digits.`);
}

const MAX_NAME_LENGTH = 190;

export function assertName(name: string, text: string): void {
  if (text.length === 0 || text.length > MAX_NAME_LENGTH || !text.isWellFormed() || text.includes("\0"))
    throw new RangeError(`${name} must be 1 to ${MAX_NAME_LENGTH} plain characters.`);
}
