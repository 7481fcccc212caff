/** Divides a bounded room among API keys, so that no key can take the room that another key needs; and the room of request bodies. */

import { GatewayError } from "../errors.ts";

/**
 * Uses the dynamic thresholds of a shared buffer (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
 * 1998). A key may hold a fixed multiple of the free room, and never more than `mostPerKey`. With `mostPerKey` at half of the room, the
 * multiple is 1: the first key can take half of the room, the second key half of the rest, and a key that holds nothing always finds some
 * room.
 *
 * This class only counts. Its callers choose the error of a refusal.
 *
 * @example
 * const room = new SharedRoom(100, 50);
 * if (room.take(key.id, 30)) throw busy();
 * …
 * room.remove(key.id, 30);
 */
export class SharedRoom {
  readonly capacity: number;
  /** The most that one key can hold. A key can take this much only while other keys hold nothing. */
  readonly mostPerKey: number;
  /** The amount that all keys hold together. */
  taken = 0;
  /** A key may hold this multiple of the free room. */
  readonly #multiple: number;
  readonly #byKey = new Map<string, number>();

  /**
   * @param mostPerKey The limit of one key. If it is the whole capacity, sharing is off, and one key may keep all others out.
   * @param names The names of the two numbers in errors.
   * @throws RangeError for a number that is not a positive integer.
   */
  constructor(
    capacity: number,
    mostPerKey: number = Math.ceil(capacity / 2),
    names: readonly string[] = ["capacity", "mostPerKey"],
  ) {
    for (const [index, value] of [capacity, mostPerKey].entries())
      if (!Number.isSafeInteger(value) || value < 1)
        throw new RangeError(`${names[index]} must be a positive integer, not ${value}`);
    this.capacity = capacity;
    this.mostPerKey = Math.min(capacity, mostPerKey);
    this.#multiple = Math.max(1, this.mostPerKey / (capacity - this.mostPerKey));
  }

  get free(): number {
    return this.capacity - this.taken;
  }

  heldBy(keyId: string): number {
    return this.#byKey.get(keyId) ?? 0;
  }

  /**
   * Returns the reason why a key cannot take `amount` more; undefined if it can. `room`: too little is free. `share`: the key would exceed
   * its share.
   */
  refuses(keyId: string, amount: number): "room" | "share" | undefined {
    const free = this.capacity - this.taken - amount;
    if (free < 0) return "room";
    const held = this.#byKey.get(keyId) ?? 0;
    if (held + amount > this.mostPerKey) return "share";
    // Allow one more than the threshold, so that a room with a small capacity can be filled.
    if (held + amount <= this.#multiple * free + 1 || this.mostPerKey === this.capacity) return undefined;
    return held === 0 ? "room" : "share";
  }

  /** Gives a key `amount` more, or returns the reason of a refusal, like `refuses`. */
  take(keyId: string, amount: number): "room" | "share" | undefined {
    const refusal = this.refuses(keyId, amount);
    if (!refusal) this.add(keyId, amount);
    return refusal;
  }

  /** Counts an amount without a check. An amount without a key counts only toward the whole room. */
  add(keyId: string | undefined, amount: number): void {
    if (amount === 0) return;
    this.taken += amount;
    if (keyId === undefined) return;
    const held = (this.#byKey.get(keyId) ?? 0) + amount;
    if (held === 0) this.#byKey.delete(keyId);
    else this.#byKey.set(keyId, held);
  }

  /** Frees an amount that was counted. */
  remove(keyId: string | undefined, amount: number): void {
    this.add(keyId, -amount);
  }
}

/** The pause before a caller that found no room should retry, in milliseconds: about the time of a large body. */
const RETRY_AFTER_MS = 2_000;

/** The bytes of one request. Dispose of the lease to give them back; disposing twice is harmless. */
export interface BodyLease extends Disposable {
  /**
   * Books `bytes` more. Throws `busy` when the other bodies leave too little room, and `body_too_large` when the body would not fit even
   * alone. Bytes that were booked before stay booked until the lease is disposed of.
   */
  take(bytes: number): void;
}

/**
 * The bytes of all bodies in flight, from their arrival until their request is handled.
 *
 * @example
 * using lease = room.lease(key.id);
 * for await (const chunk of body) lease.take(chunk.length);
 */
export class BodyRoom {
  /** The number of leases that hold any bytes. */
  bodies = 0;
  readonly room: SharedRoom;

  /**
   * @param maxBytes The bytes of all bodies together, a positive integer; anything else is a RangeError.
   * @param maxBytesPerKey The bytes of the bodies of one key. The whole room means that one key may keep all others out.
   */
  constructor(maxBytes: number, maxBytesPerKey: number = maxBytes) {
    this.room = new SharedRoom(maxBytes, maxBytesPerKey, ["maxBodyBytesInFlight", "maxBodyBytesPerKey"]);
  }

  /** The booked bytes: 0 when no body is in flight. */
  get takenBytes(): number {
    return this.room.taken;
  }

  /** Opens an empty lease for one request of a key. */
  lease(keyId: string): BodyLease {
    return new Lease(this, keyId);
  }
}

class Lease implements BodyLease {
  readonly #bodies: BodyRoom;
  readonly #keyId: string;
  #held = 0;
  #open = true;

  constructor(bodies: BodyRoom, keyId: string) {
    this.#bodies = bodies;
    this.#keyId = keyId;
  }

  take(bytes: number): void {
    if (!this.#open) throw new RangeError("This lease was given back already.");
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`Bytes must be an integer from 0 up, not ${bytes}`);
    const { room } = this.#bodies;
    if (this.#held + bytes > room.mostPerKey)
      throw new GatewayError("body_too_large", `The request body takes more than ${room.mostPerKey} bytes of memory.`);
    const refusal = room.take(this.#keyId, bytes);
    if (refusal)
      throw new GatewayError("busy", `${BUSY[refusal]} Try again shortly.`, { retryAfterMs: RETRY_AFTER_MS });
    if (this.#held === 0 && bytes > 0) this.#bodies.bodies++;
    this.#held += bytes;
  }

  [Symbol.dispose](): void {
    if (!this.#open) return;
    this.#open = false;
    this.#bodies.room.remove(this.#keyId, this.#held);
    if (this.#held > 0) this.#bodies.bodies--;
  }
}

const BUSY = {
  room: "The gateway is receiving as many bodies as it can hold.",
  share: "This API key is sending as many bodies at once as it may.",
} as const;
