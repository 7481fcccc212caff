/** A streamed body with several readers. Each reads from the beginning, at its own pace. */

import { GatewayError } from "../errors.ts";
import { utf8Length } from "../model/json.ts";
import { Wait } from "../ports/clock.ts";
import type { TextStep } from "./event-stream.ts";

const DONE: TextStep = { done: true, value: undefined };

/** A text of the source, in a linked list. A reader holds the piece that it has read last, so pieces that all have read are freed. */
interface TextPiece {
  readonly text: string;
  readonly isKeepAlive: boolean;
  /** The bytes of the source up to the end of this piece. */
  readonly endsAt: number;
  next: TextPiece | undefined;
}

interface SharedStreamOptions {
  /**
   * The most bytes that are kept: of the beginning, for readers who come later, and for a reader who is slower than others. A reader who falls
   * further behind is broken off.
   */
  readonly maxBytes: number;
  /** The text of a keep-alive, which is only for readers who wait while it arrives. */
  readonly keepAlive: string;
}

/** Asks the source for its next piece as soon as one of the readers wants one. */
export class SharedStream {
  readonly #source: AsyncIterator<string, undefined>;
  readonly #options: SharedStreamOptions;
  /** An empty piece before the first one; undefined once the beginning is no longer kept. */
  #beginning: TextPiece | undefined;
  #last: TextPiece;
  #isDone = false;
  readonly #readers = new Set<SharedReader>();
  #runsOn = false;
  #pulling: Promise<void> | undefined;

  /** @param source Must not reject: it reports a failure in its last piece. */
  constructor(source: AsyncIterator<string, undefined>, options: SharedStreamOptions) {
    this.#source = source;
    this.#options = options;
    this.#last = this.#beginning = { text: "", isKeepAlive: false, endsAt: 0, next: undefined };
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Adds a reader. Returns undefined if the beginning is no longer kept.
   *
   * @param onLeave Called once, when the reader stops or has read everything.
   */
  reader(onLeave: (isThrough: boolean) => void): SharedReader | undefined {
    if (!this.#beginning) return undefined;
    const reader = new SharedReader(this, this.#beginning, (isThrough) => {
      this.#readers.delete(reader);
      onLeave(isThrough);
      if (this.#runsOn) void this.runOn();
    });
    this.#readers.add(reader);
    return reader;
  }

  /** Reads the rest of the source, whenever there are no readers. While there are readers, they set the pace. */
  async runOn(): Promise<void> {
    this.#runsOn = true;
    while (!this.#isDone && this.#readers.size === 0) await this.more();
  }

  /** Reads the rest of the source, with or without readers. */
  async drain(): Promise<void> {
    while (!this.#isDone) await this.more();
  }

  /** Returns the whole text without keep-alives; undefined before the end, or if the text was too long to be kept. */
  text(): string | undefined {
    if (!this.#beginning || !this.#isDone) return undefined;
    const texts: string[] = [];
    for (let piece = this.#beginning.next; piece; piece = piece.next) if (!piece.isKeepAlive) texts.push(piece.text);
    return texts.join("");
  }

  /** Resolves when there is a further piece, or the end. */
  more(): Promise<void> {
    return (this.#pulling ??= this.#source.next().then((step) => this.#take(step)));
  }

  #take(step: TextStep): void {
    this.#pulling = undefined;
    if (step.done) {
      this.#isDone = true;
      return;
    }
    const { maxBytes, keepAlive } = this.#options;
    const { endsAt } = this.#last;
    // The new piece does not count as unread yet: no reader can have read it.
    for (const reader of this.#readers) if (endsAt - reader.readBytes > maxBytes) reader.fail(tooSlow());
    const text = step.value;
    const piece = { text, isKeepAlive: text === keepAlive, endsAt: endsAt + utf8Length(text), next: undefined };
    this.#last = this.#last.next = piece;
    if (piece.endsAt > maxBytes) this.#beginning = undefined;
  }
}

const tooSlow = (): GatewayError => new GatewayError("client_closed", "The client reads too slowly.");

/** A reader of a shared stream. Drops its references when it leaves: a connection may keep this object for as long as it lives. */
class SharedReader implements AsyncIterableIterator<string, undefined> {
  #stream: SharedStream | undefined;
  #at: TextPiece;
  #onLeave: ((isThrough: boolean) => void) | undefined;
  #failure: { readonly reason: unknown } | undefined;
  /** The wait for the next piece. */
  #wait: Wait<void> | undefined;

  constructor(stream: SharedStream, beginning: TextPiece, onLeave: (isThrough: boolean) => void) {
    this.#stream = stream;
    this.#at = beginning;
    this.#onLeave = onLeave;
  }

  /** The bytes that were read so far. */
  get readBytes(): number {
    return this.#at.endsAt;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<TextStep> {
    for (;;) {
      if (this.#failure) throw this.#failure.reason;
      const stream = this.#stream;
      const text = stream ? this.#unread() : "";
      if (text !== "") return { done: false, value: text };
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

  async return(): Promise<TextStep> {
    this.#leave(false);
    return DONE;
  }

  /** Breaks the reader off with a reason. */
  fail(reason: unknown): void {
    this.#failure = { reason };
    this.#leave(false);
  }

  /** Returns all pieces since the last call, without keep-alives that are out of date. */
  #unread(): string {
    let text = "";
    for (let next = this.#at.next; next; next = next.next) {
      this.#at = next;
      if (!next.isKeepAlive || !next.next) text += next.text;
    }
    return text;
  }

  #leave(isThrough: boolean): void {
    const onLeave = this.#onLeave;
    this.#onLeave = this.#stream = undefined;
    // Release the pieces that were not read.
    this.#at = { ...this.#at, next: undefined };
    this.#wait?.resolve();
    onLeave?.(isThrough);
  }
}
