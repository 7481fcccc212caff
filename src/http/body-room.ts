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
  readonly #maxBytes: number;
  readonly #maxBytesPerKey: number;
  readonly #byKey = new Map<string, number>();
  #takenBytes = 0;
  #bodies = 0;

  /**
   * @param maxBytes What there is for all, a positive integer; anything else is a RangeError.
   * @param maxBytesPerKey The share of one key.
   */
  constructor(maxBytes: number, maxBytesPerKey: number = maxBytes) {
    for (const bytes of [maxBytes, maxBytesPerKey])
      if (!Number.isSafeInteger(bytes) || bytes < 1)
        throw new RangeError(`The room for bodies must be a positive integer of bytes, not ${bytes}`);
    this.#maxBytes = maxBytes;
    this.#maxBytesPerKey = Math.min(maxBytes, maxBytesPerKey);
  }

  /** What is taken now, in bytes: 0 when no body is in flight. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** How many requests hold any of it. */
  get bodies(): number {
    return this.#bodies;
  }

  /** Opens an empty lease, for one request of a key. */
  lease(keyId: string): BodyLease {
    let held = 0;
    let open = true;
    return {
      take: (bytes) => {
        if (!open) throw new RangeError("This lease was given back already.");
        this.#take(keyId, bytes, held);
        if (held === 0 && bytes > 0) this.#bodies++;
        held += bytes;
      },
      [Symbol.dispose]: () => {
        if (open) this.#giveBack(keyId, held);
        if (open && held > 0) this.#bodies--;
        open = false;
      },
    };
  }

  #take(keyId: string, bytes: number, held: number): void {
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`Bytes must be an integer from 0 up, not ${bytes}`);
    if (held + bytes > this.#maxBytesPerKey)
      throw new GatewayError("body_too_large", `The request body is larger than ${this.#maxBytesPerKey} bytes.`);
    const ofKey = (this.#byKey.get(keyId) ?? 0) + bytes;
    if (this.#takenBytes + bytes > this.#maxBytes)
      throw busy("The gateway is receiving as many bodies as it can hold.");
    if (ofKey > this.#maxBytesPerKey) throw busy("This API key is sending as many bodies at once as it may.");
    this.#takenBytes += bytes;
    this.#byKey.set(keyId, ofKey);
  }

  #giveBack(keyId: string, bytes: number): void {
    this.#takenBytes -= bytes;
    const left = (this.#byKey.get(keyId) ?? 0) - bytes;
    if (left > 0) this.#byKey.set(keyId, left);
    else this.#byKey.delete(keyId);
  }
}

const busy = (why: string): GatewayError =>
  new GatewayError("busy", `${why} Try again shortly.`, { retryAfterMs: RETRY_AFTER_MS });
