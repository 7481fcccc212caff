/** The reference ReplayStore: answers in memory, for one process. */

import { GatewayError } from "../errors.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import type {
  RecordedAnswer,
  ReplayClaim,
  ReplayHolder,
  ReplayRecord,
  ReplayState,
  ReplayStore,
} from "../ports/replay-store.ts";
import { assertReplayClaim, assertReplayRecord, bytesOf, fitting } from "./replay-input.ts";

/** How much answers in memory may take. */
export interface MemoryReplayStoreOptions {
  /** The most entries, of calls that run and of answers: a positive integer, 10,000 unless told. */
  readonly maxEntries?: number;
  /** The most answers of one api key: a positive integer, half of `maxEntries` unless told. */
  readonly maxEntriesPerKey?: number;
  /** The most that all answers together may take, in bytes: a positive integer, 64 MiB unless told. */
  readonly maxBytes?: number;
  /** The most that the answers of one api key may take, in bytes: a positive integer, half of `maxBytes` unless told. */
  readonly maxBytesPerKey?: number;
  readonly clock?: Clock;
}

export interface MemoryReplayStore extends ReplayStore {
  /** How many entries there are now, those of which the time is over included until they are met. */
  readonly entries: number;
  /** What the answers take now, in bytes. */
  readonly bytes: number;
}

const DEFAULT_MAX_ENTRIES = 10_000;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;
/** When a caller may come back for whom there is no room, in milliseconds. */
const COME_BACK_MS = 1_000;

interface Entry {
  readonly keyId: string;
  readonly callId: string;
  readonly fingerprint: string;
  /** Undefined while its call runs. */
  readonly answer: RecordedAnswer | undefined;
  readonly bytes: number;
  /** The first moment at which it is over, in milliseconds since the Unix epoch. */
  readonly endsAt: number;
}

/** What the answers of one api key take. */
interface Filled {
  readonly entries: number;
  readonly bytes: number;
}

const NOTHING: Filled = { entries: 0, bytes: 0 };

/**
 * Answers in memory. Where there is no room, the oldest answers are forgotten, first of the key that has more than its share; a
 * claim finds room, or is refused as `busy` where calls that still run take all of it.
 *
 * @throws RangeError for a bound that is no positive integer.
 * @example
 * const replayStore = memoryReplayStore({ maxBytes: 16 * 1024 * 1024 });
 */
export function memoryReplayStore(options: MemoryReplayStoreOptions = {}): MemoryReplayStore {
  const { maxEntries = DEFAULT_MAX_ENTRIES, maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options;
  const { maxBytesPerKey = Math.ceil(maxBytes / 2), maxEntriesPerKey = Math.ceil(maxEntries / 2) } = options;
  const bounds = { maxEntries, maxEntriesPerKey, maxBytes, maxBytesPerKey };
  for (const [name, value] of Object.entries(bounds))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`${name} must be a positive integer, not ${value}`);
  return new Replays({ ...bounds, clock });
}

class Replays implements MemoryReplayStore {
  readonly #options: Required<MemoryReplayStoreOptions>;
  readonly #running = new Map<string, Entry>();
  /** In the order in which they were recorded. */
  readonly #answered = new Map<string, Entry>();
  readonly #filled = new Map<string, Filled>();
  #bytes = 0;

  constructor(options: Required<MemoryReplayStoreOptions>) {
    this.#options = options;
  }

  get entries(): number {
    return this.#running.size + this.#answered.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async claim(claim: ReplayClaim): Promise<ReplayState> {
    assertReplayClaim(claim);
    const { id, keyId, callId, fingerprint, leaseMs } = claim;
    const found = this.#find(id);
    if (found?.answer) return { state: "answered", fingerprint: found.fingerprint, answer: found.answer };
    if (found && found.callId !== callId) return { state: "running", fingerprint: found.fingerprint };
    if (!found) this.#makeRoom();
    const endsAt = this.#now + leaseMs;
    this.#running.set(id, { keyId, callId, fingerprint, answer: undefined, bytes: 0, endsAt });
    return { state: "claimed" };
  }

  async record(record: ReplayRecord): Promise<void> {
    assertReplayRecord(record);
    const { id, keyId, callId, fingerprint, retainMs } = record;
    const found = this.#find(id);
    if (found && (found.answer || found.callId !== callId)) return;
    this.#running.delete(id);
    const { maxBytes, maxBytesPerKey, maxEntries, maxEntriesPerKey } = this.#options;
    const room = Math.min(maxBytes, maxBytesPerKey);
    const answer = fitting(record.answer, room);
    const bytes = bytesOf(answer);
    // What does not fit alone would only push out all others.
    if (bytes > room) return;
    const isFull = ({ entries, bytes: filled }: Filled): boolean =>
      filled + bytes > maxBytesPerKey || entries >= maxEntriesPerKey;
    this.#forget(
      ({ keyId: of }) => of === keyId,
      () => isFull(this.#filledBy(keyId)),
    );
    this.#forget(
      () => true,
      () => this.#bytes + bytes > maxBytes || this.entries >= maxEntries,
    );
    this.#answered.set(id, { keyId, callId, fingerprint, answer, bytes, endsAt: this.#now + retainMs });
    this.#count(keyId, 1, bytes);
  }

  async release({ id, callId }: ReplayHolder): Promise<void> {
    if (this.#running.get(id)?.callId === callId) this.#running.delete(id);
  }

  get #now(): number {
    return this.#options.clock.now();
  }

  /** The entry, unless its time is over. */
  #find(id: string): Entry | undefined {
    const entry = this.#running.get(id) ?? this.#answered.get(id);
    if (!entry || entry.endsAt > this.#now) return entry;
    this.#remove(id, entry);
    return undefined;
  }

  /** Makes room for one more entry. */
  #makeRoom(): void {
    const { maxEntries } = this.#options;
    if (this.entries < maxEntries) return;
    const now = this.#now;
    for (const [id, entry] of this.#running) if (entry.endsAt <= now) this.#remove(id, entry);
    this.#forget(
      () => true,
      () => this.entries >= maxEntries,
    );
    if (this.entries >= maxEntries)
      throw new GatewayError("busy", "The gateway is full.", { retryAfterMs: COME_BACK_MS });
  }

  /** Forgets answers, the oldest first, for as long as there is need. */
  #forget(which: (entry: Entry) => boolean, isNeeded: () => boolean): void {
    if (!isNeeded()) return;
    for (const [id, entry] of this.#answered) {
      if (which(entry)) this.#remove(id, entry);
      if (!isNeeded()) return;
    }
  }

  #remove(id: string, entry: Entry): void {
    if (this.#running.delete(id)) return;
    this.#answered.delete(id);
    this.#count(entry.keyId, -1, -entry.bytes);
  }

  #filledBy(keyId: string): Filled {
    return this.#filled.get(keyId) ?? NOTHING;
  }

  #count(keyId: string, entries: number, bytes: number): void {
    const before = this.#filledBy(keyId);
    const filled = { entries: before.entries + entries, bytes: before.bytes + bytes };
    if (filled.entries > 0) this.#filled.set(keyId, filled);
    else this.#filled.delete(keyId);
    this.#bytes += bytes;
  }
}
