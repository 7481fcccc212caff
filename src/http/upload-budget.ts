/** Bounds what all uploads of a gateway together may hold in memory. */

import { GatewayError } from "../errors.ts";

/** How long a caller should wait who found no room, in milliseconds: about as long as an upload takes. */
const RETRY_AFTER_MS = 2_000;

/** What one request holds of a budget. Disposing of it gives everything back; a second time changes nothing. */
export interface UploadLease extends Disposable {
  /**
   * Takes so many bytes more. Throws `busy` when the others leave too little, and `body_too_large` when the request would
   * not fit even if it were alone; what was taken before stays taken until the lease is disposed of.
   */
  take(bytes: number): void;
}

/**
 * The upload bytes in flight of a whole gateway: from when a body begins to arrive until its request has been handled.
 *
 * @example
 * const lease = budget.lease();
 * try {
 *   const form = await readMultipart(request, { …, lease });
 *   …
 * } finally {
 *   lease[Symbol.dispose]();
 * }
 */
export class UploadBudget {
  readonly #maxBytes: number;
  #takenBytes = 0;

  /** @param maxBytes A positive integer; anything else is a RangeError. */
  constructor(maxBytes: number) {
    if (!Number.isSafeInteger(maxBytes) || maxBytes < 1)
      throw new RangeError(`An upload budget must be a positive integer of bytes, not ${maxBytes}`);
    this.#maxBytes = maxBytes;
  }

  /** What is taken now, in bytes: 0 when no upload is in flight. */
  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** Opens an empty lease, for one request. */
  lease(): UploadLease {
    let held = 0;
    let open = true;
    return {
      take: (bytes) => {
        if (!open) throw new RangeError("This lease was given back already.");
        this.#take(bytes, held);
        held += bytes;
      },
      [Symbol.dispose]: () => {
        this.#takenBytes -= held;
        held = 0;
        open = false;
      },
    };
  }

  #take(bytes: number, held: number): void {
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`Bytes must be an integer from 0 up, not ${bytes}`);
    if (held + bytes > this.#maxBytes)
      throw new GatewayError("body_too_large", `The request body is larger than ${this.#maxBytes} bytes.`);
    if (this.#takenBytes + bytes > this.#maxBytes)
      throw new GatewayError("busy", "The gateway is receiving as many uploads as it can hold. Try again shortly.", {
        retryAfterMs: RETRY_AFTER_MS,
      });
    this.#takenBytes += bytes;
  }
}
