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
import { SharedRoom } from "../ports/shared-room.ts";
import { assertReplayClaim, assertReplayRecord, bytesOf, fitting } from "./replay-input.ts";

/** How much answers in memory may take. */
export interface MemoryReplayStoreOptions {
  /** The most entries, of calls that run and of answers: a positive integer, 10,000 unless told. */
  readonly maxEntries?: number;
  /** The most entries of one api key, while others have few: a positive integer, half of `maxEntries` unless told. */
  readonly maxEntriesPerKey?: number;
  /** The most that all answers together may take, in bytes: a positive integer, 64 MiB unless told. */
  readonly maxBytes?: number;
  /** The most bytes of the answers of one api key, while others have few: a positive integer, half of `maxBytes` unless told. */
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

/**
 * Answers in memory. A key has room for as many as is still free (`SharedRoom`). Where it lacks room, the oldest answers are
 * forgotten: its own first, then those of keys that have more than it. A claim is refused as `busy` where calls that still run take
 * all the room, or all that its key may have.
 *
 * @throws RangeError for a bound that is no positive integer.
 * @example
 * const replayStore = memoryReplayStore({ maxBytes: 16 * 1024 * 1024 });
 */
export function memoryReplayStore(options: MemoryReplayStoreOptions = {}): MemoryReplayStore {
  const { maxEntries = DEFAULT_MAX_ENTRIES, maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options;
  return new Replays(
    new SharedRoom(maxEntries, options.maxEntriesPerKey, ["maxEntries", "maxEntriesPerKey"]),
    new SharedRoom(maxBytes, options.maxBytesPerKey, ["maxBytes", "maxBytesPerKey"]),
    clock,
  );
}

class Replays implements MemoryReplayStore {
  /** Room for entries, in their number. */
  readonly #slots: SharedRoom;
  /** Room for answers, in bytes. */
  readonly #room: SharedRoom;
  readonly #clock: Clock;
  readonly #running = new Map<string, Entry>();
  /** In the order in which they were recorded. */
  readonly #answered = new Map<string, Entry>();

  constructor(slots: SharedRoom, room: SharedRoom, clock: Clock) {
    this.#slots = slots;
    this.#room = room;
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
    if (!found && !this.#makeRoom(keyId, 0))
      throw new GatewayError("busy", "The gateway is full.", { retryAfterMs: COME_BACK_MS });
    if (found) this.#remove(id, found);
    const endsAt = this.#now + leaseMs;
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
    // An answer that does not fit alone would only push out all others.
    if (bytes > this.#room.mostPerKey || !this.#makeRoom(keyId, bytes)) return;
    this.#add(this.#answered, id, { keyId, callId, fingerprint, answer, bytes, endsAt: this.#now + retainMs });
  }

  async release({ id, callId }: ReplayHolder): Promise<void> {
    const found = this.#running.get(id);
    if (found?.callId === callId) this.#remove(id, found);
  }

  get #now(): number {
    return this.#clock.now();
  }

  /** The entry, unless its time is over. */
  #find(id: string): Entry | undefined {
    const entry = this.#running.get(id) ?? this.#answered.get(id);
    if (!entry || entry.endsAt > this.#now) return entry;
    this.#remove(id, entry);
    return undefined;
  }

  /** Forgets what it must so that a key has room for one more entry of so many bytes; false where it has none all the same. */
  #makeRoom(keyId: string, bytes: number): boolean {
    const lacks = (): "room" | "share" | undefined =>
      this.#slots.refuses(keyId, 1) ?? (bytes > 0 ? this.#room.refuses(keyId, bytes) : undefined);
    const hasMore = ({ keyId: other }: Entry): boolean =>
      this.#slots.heldBy(other) > this.#slots.heldBy(keyId) + 1 ||
      this.#room.heldBy(other) > this.#room.heldBy(keyId) + bytes;
    if (!lacks()) return true;
    const now = this.#now;
    for (const [id, entry] of this.#running) if (entry.endsAt <= now) this.#remove(id, entry);
    this.#forget(
      ({ keyId: other }) => other === keyId,
      () => lacks() !== undefined,
    );
    // A key that has its share pushes out no answer of another.
    this.#forget(hasMore, () => lacks() === "room");
    this.#forget(
      () => true,
      () => lacks() === "room",
    );
    return !lacks();
  }

  /** Forgets answers, the oldest first, for as long as there is need. */
  #forget(which: (entry: Entry) => boolean, isNeeded: () => boolean): void {
    if (!isNeeded()) return;
    for (const [id, entry] of this.#answered) {
      if (which(entry)) this.#remove(id, entry);
      if (!isNeeded()) return;
    }
  }

  #add(entries: Map<string, Entry>, id: string, entry: Entry): void {
    entries.set(id, entry);
    this.#slots.add(entry.keyId, 1);
    this.#room.add(entry.keyId, entry.bytes);
  }

  #remove(id: string, { keyId, bytes }: Entry): void {
    if (!this.#running.delete(id)) this.#answered.delete(id);
    this.#slots.remove(keyId, 1);
    this.#room.remove(keyId, bytes);
  }
}
