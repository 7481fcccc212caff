/** Bounds what all bodies of a gateway together may hold in memory, and what those of one key may. */

import { GatewayError } from "../errors.ts";
import { SharedRoom } from "../ports/shared-room.ts";

/** How long a caller should wait who found no room, in milliseconds: about as long as a large body takes. */
const RETRY_AFTER_MS = 2_000;

/** What one request holds of the room. Disposing of it gives everything back; a second time changes nothing. */
export interface BodyLease extends Disposable {
  /**
   * Takes so many bytes more. Throws `busy` when the others leave too little, and `body_too_large` when the request would
   * not fit even if it were alone; what was taken before stays taken until the lease is disposed of.
   */
  take(bytes: number): void;
}

/**
 * The body bytes in flight of a whole gateway: from when they arrive until their request has been handled.
 *
 * @example
 * const lease = room.lease(key.id);
 * try {
 *   for await (const chunk of body) lease.take(chunk.length);
 *   …
 * } finally {
 *   lease[Symbol.dispose]();
 * }
 */
export class BodyRoom {
  readonly #booked: Booked;

  /**
   * @param maxBytes The bytes that all bodies may take, a positive integer; anything else is a RangeError.
   * @param maxBytesPerKey The most that the bodies of one key may take. The whole room means that one key may keep all others out.
   */
  constructor(maxBytes: number, maxBytesPerKey: number = maxBytes) {
    const names = ["maxBodyBytesInFlight", "maxBodyBytesPerKey"];
    this.#booked = { room: new SharedRoom(maxBytes, maxBytesPerKey, names), bodies: 0 };
  }

  /** What is taken now, in bytes: 0 when no body is in flight. */
  get takenBytes(): number {
    return this.#booked.room.taken;
  }

  /** How many requests hold any of it. */
  get bodies(): number {
    return this.#booked.bodies;
  }

  /** Opens an empty lease, for one request of a key. */
  lease(keyId: string): BodyLease {
    return new Lease(this.#booked, keyId);
  }
}

/** What all leases of a room hold together. */
interface Booked {
  readonly room: SharedRoom;
  /** How many leases hold any bytes. */
  bodies: number;
}

class Lease implements BodyLease {
  readonly #booked: Booked;
  readonly #keyId: string;
  #held = 0;
  #open = true;

  constructor(booked: Booked, keyId: string) {
    this.#booked = booked;
    this.#keyId = keyId;
  }

  take(bytes: number): void {
    if (!this.#open) throw new RangeError("This lease was given back already.");
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`Bytes must be an integer from 0 up, not ${bytes}`);
    const { room } = this.#booked;
    if (this.#held + bytes > room.mostPerKey)
      throw new GatewayError("body_too_large", `The request body takes more than ${room.mostPerKey} bytes of memory.`);
    const refusal = room.refuses(this.#keyId, bytes);
    if (refusal) throw busy(refusal);
    room.add(this.#keyId, bytes);
    if (this.#held === 0 && bytes > 0) this.#booked.bodies++;
    this.#held += bytes;
  }

  [Symbol.dispose](): void {
    if (!this.#open) return;
    this.#open = false;
    this.#booked.room.remove(this.#keyId, this.#held);
    if (this.#held > 0) this.#booked.bodies--;
  }
}

const BUSY = {
  room: "The gateway is receiving as many bodies as it can hold.",
  share: "This API key is sending as many bodies at once as it may.",
} as const;

const busy = (why: keyof typeof BUSY): GatewayError =>
  new GatewayError("busy", `${BUSY[why]} Try again shortly.`, { retryAfterMs: RETRY_AFTER_MS });
