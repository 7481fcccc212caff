/** Pieces of a body that come faster than they are read: a few wait here, then the connection is told to pause. */

/** What a connection can be told. */
export interface Tap {
  pause(): void;
  resume(): void;
}

/** How many bytes may wait before the connection pauses. */
const MAX_WAITING_BYTES = 256 * 1024;

/** What each piece counts for at least, in bytes: an upstream that sends single bytes must not fill the memory with pieces. */
const MIN_PIECE_BYTES = 1024;

const weightOf = ({ byteLength }: Uint8Array): number => Math.max(MIN_PIECE_BYTES, byteLength);

interface Reader {
  resolve(piece: Uint8Array | undefined): void;
  reject(error: unknown): void;
}

export class IncomingBytes {
  readonly #tap: Tap;
  readonly #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #paused = false;
  #reader: Reader | undefined;
  #end: { readonly error?: unknown } | undefined;

  constructor(tap: Tap) {
    this.#tap = tap;
  }

  push(piece: Uint8Array): void {
    if (this.#end) return;
    const reader = this.#reader;
    if (reader) {
      this.#reader = undefined;
      return reader.resolve(piece);
    }
    this.#waiting.push(piece);
    this.#waitingBytes += weightOf(piece);
    if (this.#paused || this.#waitingBytes < MAX_WAITING_BYTES) return;
    this.#paused = true;
    this.#tap.pause();
  }

  /** The body is complete. What has come can still be read. */
  end(): void {
    this.#finish({});
  }

  /** The body broke off. What has come can still be read, and then the error. */
  fail(error: unknown): void {
    this.#finish({ error });
  }

  /** The exchange was cut: nobody wants what has come. */
  cut(error: unknown): void {
    this.#waiting.length = 0;
    this.#end = undefined;
    this.#finish({ error });
  }

  #finish(end: { readonly error?: unknown }): void {
    if (this.#end) return;
    this.#end = end;
    const reader = this.#reader;
    this.#reader = undefined;
    if (!reader) return;
    if ("error" in end) reader.reject(end.error);
    else reader.resolve(undefined);
  }

  read(): Promise<Uint8Array | undefined> {
    const piece = this.#waiting.shift();
    if (piece) {
      this.#waitingBytes -= weightOf(piece);
      this.#resume();
      return Promise.resolve(piece);
    }
    if (this.#end) return "error" in this.#end ? Promise.reject(this.#end.error) : Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
    });
  }

  #resume(): void {
    if (!this.#paused || this.#waitingBytes > 0) return;
    this.#paused = false;
    this.#tap.resume();
  }
}
