/** Pieces of a body that come faster than they are read: a few wait here, then the connection is told to pause. */

import { concatenated } from "../../http/concatenated.ts";

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

export class IncomingBytes {
  readonly #tap: Tap;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #paused = false;
  /** Wakes who waits for a piece, or for the end. */
  #wake: (() => void) | undefined;
  #end: { readonly error?: unknown } | undefined;

  constructor(tap: Tap) {
    this.#tap = tap;
  }

  push(piece: Uint8Array): void {
    if (this.#end) return;
    this.#waiting.push(piece);
    this.#waitingBytes += weightOf(piece);
    this.#wake?.();
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
    this.#waiting = [];
    this.#end = undefined;
    this.#finish({ error });
  }

  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#wake?.();
  }

  /** All that has come by now, as one piece: a parser tells of each chunk of a body apart, though many come at once. */
  read(): Promise<Uint8Array | undefined> {
    if (this.#waiting.length > 0) return Promise.resolve(this.#take());
    if (!this.#end) return new Promise<void>((resolve) => (this.#wake = resolve)).then(() => this.read());
    return "error" in this.#end ? Promise.reject(this.#end.error) : Promise.resolve(undefined);
  }

  #take(): Uint8Array {
    const pieces = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (this.#paused) {
      this.#paused = false;
      this.#tap.resume();
    }
    return concatenated(pieces);
  }
}
