/** Bounds what all bodies of a gateway together may hold in memory, and what those of one key may. */

import { GatewayError } from "../errors.ts";

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
  readonly #taken: Taken;

  /**
   * @param maxBytes What there is for all, a positive integer; anything else is a RangeError.
   * @param maxBytesPerKey The share of one key.
   */
  constructor(maxBytes: number, maxBytesPerKey: number = maxBytes) {
    for (const bytes of [maxBytes, maxBytesPerKey])
      if (!Number.isSafeInteger(bytes) || bytes < 1)
        throw new RangeError(`The room for bodies must be a positive integer of bytes, not ${bytes}`);
    this.#taken = new Taken(maxBytes, Math.min(maxBytes, maxBytesPerKey));
  }

  /** What is taken now, in bytes: 0 when no body is in flight. */
  get takenBytes(): number {
    return this.#taken.bytes;
  }

  /** How many requests hold any of it. */
  get bodies(): number {
    return this.#taken.bodies;
  }

  /** Opens an empty lease, for one request of a key. */
  lease(keyId: string): BodyLease {
    return new Lease(this.#taken, keyId);
  }
}

class Lease implements BodyLease {
  readonly #taken: Taken;
  readonly #keyId: string;
  #held = 0;
  #open = true;

  constructor(taken: Taken, keyId: string) {
    this.#taken = taken;
    this.#keyId = keyId;
  }

  take(bytes: number): void {
    if (!this.#open) throw new RangeError("This lease was given back already.");
    this.#taken.add(this.#keyId, bytes, this.#held);
    this.#held += bytes;
  }

  [Symbol.dispose](): void {
    if (this.#open) this.#taken.remove(this.#keyId, this.#held);
    this.#open = false;
  }
}

/** What all leases hold together, and those of each key. */
class Taken {
  bytes = 0;
  /** How many leases hold any. */
  bodies = 0;
  readonly #maxBytes: number;
  readonly #maxBytesPerKey: number;
  readonly #byKey = new Map<string, number>();

  constructor(maxBytes: number, maxBytesPerKey: number) {
    this.#maxBytes = maxBytes;
    this.#maxBytesPerKey = maxBytesPerKey;
  }

  /** Adds bytes to a lease that holds `held` already. */
  add(keyId: string, bytes: number, held: number): void {
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`Bytes must be an integer from 0 up, not ${bytes}`);
    if (held + bytes > this.#maxBytesPerKey)
      throw new GatewayError("body_too_large", `The request body is larger than ${this.#maxBytesPerKey} bytes.`);
    const ofKey = (this.#byKey.get(keyId) ?? 0) + bytes;
    if (this.bytes + bytes > this.#maxBytes) throw busy("The gateway is receiving as many bodies as it can hold.");
    if (ofKey > this.#maxBytesPerKey) throw busy("This API key is sending as many bodies at once as it may.");
    this.bytes += bytes;
    this.#byKey.set(keyId, ofKey);
    if (held === 0 && bytes > 0) this.bodies++;
  }

  /** Gives back all that a lease holds. */
  remove(keyId: string, held: number): void {
    this.bytes -= held;
    const left = (this.#byKey.get(keyId) ?? 0) - held;
    if (left > 0) this.#byKey.set(keyId, left);
    else this.#byKey.delete(keyId);
    if (held > 0) this.bodies--;
  }
}

const busy = (why: string): GatewayError =>
  new GatewayError("busy", `${why} Try again shortly.`, { retryAfterMs: RETRY_AFTER_MS });
