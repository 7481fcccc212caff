/** Bounds the memory of all request bodies of a gateway, and of the bodies of one key. */

import { GatewayError } from "../errors.ts";
import { SharedRoom } from "../ports/shared-room.ts";

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
