/** An answer whose bytes come in pieces, from any kind of connection, and wait until they are read. */

import { concatenated } from "../../http/body.ts";
import type { UpstreamResponse } from "./transport.ts";

/** The headers of an answer by their names in lower case. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The connection of an answer. */
export interface Pausable {
  pause(): void;
  resume(): void;
}

/** When this many bytes wait to be read, the connection is paused. */
const MAX_WAITING_BYTES = 256 * 1024;

/**
 * Each waiting piece counts as this many bytes at least, so that an upstream that sends single bytes cannot fill the memory with
 * pieces.
 */
const MIN_PIECE_BYTES = 1024;

/** An answer whose bytes may come faster than they are read. Some bytes wait here; when there are too many, the connection is paused. */
export class QueuedResponse implements UpstreamResponse {
  readonly status: number;
  readonly #headers: AnswerHeaders;
  readonly #connection: Pausable;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #isPaused = false;
  #isCut = false;
  /** Wakes the reader that waits for a piece, or for the end. */
  #wake: (() => void) | undefined;
  #ended: { readonly error?: unknown } | undefined;

  constructor(status: number, headers: AnswerHeaders, connection: Pausable) {
    this.status = status;
    this.#headers = headers;
    this.#connection = connection;
  }

  header(name: string): string | undefined {
    const value = this.#headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  headers(): Headers {
    const headers = new Headers();
    for (const name of Object.keys(this.#headers)) headers.set(name, this.header(name) ?? "");
    return headers;
  }

  /** The bytes that wait to be read. A connection that cannot pause may send any number. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  push(piece: Uint8Array): void {
    if (this.#ended) return;
    this.#waiting.push(piece);
    this.#waitingBytes += Math.max(MIN_PIECE_BYTES, piece.byteLength);
    this.#wake?.();
    if (this.#isPaused || this.#waitingBytes < MAX_WAITING_BYTES) return;
    this.#isPaused = true;
    this.#connection.pause();
  }

  /** Ends the body. The pieces that wait can still be read. */
  end(): void {
    this.#ended ??= {};
    this.#wake?.();
  }

  /** Ends the body with an error. The pieces that wait can be read before the error is thrown. */
  fail(error: unknown): void {
    this.#ended ??= { error };
    this.#wake?.();
  }

  /** Ends the body with an error at once. Only `arrived` still returns the pieces that wait. */
  cut(error: unknown): void {
    this.#isCut = true;
    this.#ended = { error };
    this.#wake?.();
  }

  arrived(): Uint8Array {
    return concatenated(this.#waiting.splice(0));
  }

  /** Returns all waiting pieces as one, because a parser may deliver each chunk of a body alone, even when many arrive together. */
  async read(): Promise<Uint8Array | undefined> {
    if (this.#waiting.length === 0 && !this.#ended) await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#waiting.length === 0 || this.#isCut) {
      if (this.#ended && "error" in this.#ended) throw this.#ended.error;
      return undefined;
    }
    const pieces = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#connection.resume();
    }
    return concatenated(pieces);
  }
}
