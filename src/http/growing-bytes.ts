/** Bytes of a length that is not known before they have all arrived, in one buffer. */

/** Up to here a buffer doubles when it is full; then it is given all it may ever need. */
const DOUBLED_BYTES = 1024 * 1024;

/**
 * Collects bytes in one buffer. Chunks are copied at once, so that they can be reclaimed. Large bytes are never held twice:
 * a large buffer is allocated at its final size, of which an operating system gives only the pages that are written to.
 */
export class GrowingBytes {
  readonly #maxBytes: number;
  /** As long as the first chunk, to begin with: most bytes come in one. */
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array();
  #length = 0;

  /** @param maxBytes The most that will be appended, in bytes. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#length;
  }

  /** Appends a copy of a chunk; throws a RangeError when that is more than was announced. */
  append(chunk: Uint8Array): void {
    const length = this.#length + chunk.length;
    if (length > this.#buffer.length) this.#resize(this.#capacityFor(length));
    this.#buffer.set(chunk, this.#length);
    this.#length = length;
  }

  /** The bytes. Nothing may be appended after this. */
  seal(): Uint8Array<ArrayBuffer> {
    // Worth a copy only where it frees more than it moves.
    if (this.#length < this.#buffer.length / 2) this.#resize(this.#length);
    return this.#buffer.subarray(0, this.#length);
  }

  #capacityFor(length: number): number {
    return length > DOUBLED_BYTES
      ? this.#maxBytes
      : Math.min(this.#maxBytes, Math.max(length, 2 * this.#buffer.length));
  }

  #resize(length: number): void {
    // Frees what was outgrown at once, without waiting for the collector.
    this.#buffer = new Uint8Array(this.#buffer.buffer.transfer(length));
  }
}
