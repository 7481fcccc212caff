/** A streamed body with several readers: each reads it from its beginning, and then what comes, at its own pace. */

import { GatewayError } from "../errors.ts";
import { utf8Length } from "../model/utf8-length.ts";
import { Wait } from "./within.ts";

type Step = IteratorResult<string, undefined>;

const DONE: Step = { done: true, value: undefined };

/** What the source gave at once. Readers hold on to the piece that they have read last, so what all have read is freed. */
interface Piece {
  readonly text: string;
  /** Whether it says nothing, and is for those alone who wait while it comes. */
  readonly isKeepAlive: boolean;
  /** How many bytes the source had given with it. */
  readonly endsAt: number;
  next: Piece | undefined;
}

const pieceOf = (text: string, isKeepAlive: boolean, endsAt: number): Piece => ({
  text,
  isKeepAlive,
  endsAt,
  next: undefined,
});

export interface SharedStreamOptions {
  /**
   * Beyond so many bytes the beginning is not kept any more: who comes then comes too late. Nor is so much kept for a reader who is
   * slower than others: who is further behind is broken off.
   */
  readonly maxBytes: number;
  /** The piece of the source that says nothing. */
  readonly keepAlive: string;
}

/** The source is asked for its next piece as soon as one of the readers wants one. */
export class SharedStream {
  readonly #source: AsyncIterator<string, undefined>;
  readonly #options: SharedStreamOptions;
  /** What stands before the first piece; undefined once the beginning is not kept. */
  #beginning: Piece | undefined = pieceOf("", false, 0);
  #last: Piece;
  #bytes = 0;
  #isDone = false;
  readonly #readers = new Set<SharedReader>();
  #runsOn = false;
  #pulling: Promise<void> | undefined;

  /** @param source It must not reject: it tells of its failures in its last piece. */
  constructor(source: AsyncIterator<string, undefined>, options: SharedStreamOptions) {
    this.#source = source;
    this.#options = options;
    this.#last = this.#beginning ?? pieceOf("", false, 0);
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * One more reader; undefined where it would miss the beginning.
   *
   * @param left Is called once, when the reader stops before the end, or is through.
   */
  reader(left: (isThrough: boolean) => void): SharedReader | undefined {
    if (!this.#beginning) return undefined;
    const reader = new SharedReader(this, this.#beginning, (isThrough) => {
      this.#readers.delete(reader);
      left(isThrough);
      if (this.#runsOn) void this.runOn();
    });
    this.#readers.add(reader);
    return reader;
  }

  /** Reads the rest of the source whenever no reader is there. A reader sets the pace while it is there. */
  async runOn(): Promise<void> {
    this.#runsOn = true;
    while (!this.#isDone && this.#readers.size === 0) await this.more();
  }

  /** Asks the source for all that is left, whether anybody reads it or not. */
  async drain(): Promise<void> {
    while (!this.#isDone) await this.more();
  }

  /** All of it, without the keep-alives, once it is done; undefined where it was too long to be kept. */
  text(): string | undefined {
    if (!this.#beginning || !this.#isDone) return undefined;
    const texts: string[] = [];
    for (let piece = this.#beginning.next; piece; piece = piece.next) if (!piece.isKeepAlive) texts.push(piece.text);
    return texts.join("");
  }

  /** Resolves when there is one more piece, or the end. */
  more(): Promise<void> {
    return (this.#pulling ??= this.#source.next().then(this.#take));
  }

  readonly #take = (step: Step): void => {
    this.#pulling = undefined;
    if (step.done) {
      this.#isDone = true;
      return;
    }
    const { maxBytes, keepAlive } = this.#options;
    // The new piece does not count as unread yet: no reader can have read it.
    for (const reader of this.#readers) if (this.#bytes - reader.readBytes > maxBytes) reader.fail(tooSlow());
    this.#bytes += utf8Length(step.value);
    this.#last = this.#last.next = pieceOf(step.value, step.value === keepAlive, this.#bytes);
    if (this.#bytes > maxBytes) this.#beginning = undefined;
  };
}

const tooSlow = (): GatewayError => new GatewayError("client_closed", "The client reads too slowly.");

export class SharedReader implements AsyncIterableIterator<string, undefined> {
  /** Undefined once it has left: who reads may never come back, and keep this object as long as its connection lives. */
  #stream: SharedStream | undefined;
  #at: Piece;
  #left: ((isThrough: boolean) => void) | undefined;
  #failure: { readonly reason: unknown } | undefined;
  /** For the next piece. */
  #wait: Wait<void> | undefined;

  constructor(stream: SharedStream, beginning: Piece, left: (isThrough: boolean) => void) {
    this.#stream = stream;
    this.#at = beginning;
    this.#left = left;
  }

  /** How far it has read. */
  get readBytes(): number {
    return this.#at.endsAt;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Step> {
    for (;;) {
      if (this.#failure) throw this.#failure.reason;
      const text = this.#left ? this.#unread() : "";
      if (text !== "") return { done: false, value: text };
      const stream = this.#stream;
      if (!stream || stream.isDone) {
        this.#leave(true);
        return DONE;
      }
      await new Promise<void>((resolve, reject) => {
        const wait = new Wait<void>(resolve, reject);
        this.#wait = wait;
        wait.for(stream.more());
      });
    }
  }

  async return(): Promise<Step> {
    this.#leave(false);
    return DONE;
  }

  /** Breaks the reading off: who reads is told the reason. */
  fail(reason: unknown): void {
    this.#failure = { reason };
    this.#leave(false);
  }

  /** All that has come since, without keep-alives that are behind. */
  #unread(): string {
    let text = "";
    for (let next = this.#at.next; next; next = next.next) {
      this.#at = next;
      if (!next.isKeepAlive || !next.next) text += next.text;
    }
    return text;
  }

  #leave(isThrough: boolean): void {
    const left = this.#left;
    this.#left = this.#stream = undefined;
    // What it has not read is kept for it no longer.
    this.#at = { ...this.#at, next: undefined };
    this.#wait?.resolve();
    left?.(isThrough);
  }
}
