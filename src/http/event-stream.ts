/**
 * A streamed body: makes frames only as they are read, writes keep-alives while the source is quiet, and has one end.
 */

import type { Cancel, Clock } from "../ports/clock.ts";

export interface EventStreamOptions {
  /**
   * Makes frames and passes them to `write` until `write` returns false, because nobody reads more for now. Resolves with whether more
   * frames may follow. Called again only after its promise has settled.
   */
  readonly frames: (write: (frames: string) => boolean) => Promise<boolean>;
  /** True after the last frame: the source is not asked again. */
  readonly isLast: () => boolean;
  readonly clock: Clock;
  /** The time of the last sign of life to the client, in milliseconds since the Unix epoch. */
  readonly silentSince: number;
  /** The frame without content, and the silence after which it is written, in milliseconds. */
  readonly keepAlive: { readonly frame: string; readonly afterMs: number };
  /** Returns the frame that tells the client of a failure. */
  readonly failed: (error: unknown) => string;
  /** Called when the client has stopped reading. */
  readonly cancelled: () => void;
  /** Called once, when no more frames will be made. */
  readonly ended: () => void;
}

/** A piece of a streamed body, or its end. */
export type TextStep = IteratorResult<string, undefined>;

/** The longest piece that is made of one turn's frames, in characters. */
const MAX_PIECE_CHARS = 64 * 1024;

/** Calls back when the promises of this turn have settled. Without it, as in Workers, every frame is its own piece. */
const nextTick = (globalThis as { process?: { nextTick?: (callback: () => void) => void } }).process?.nextTick;

const DONE: TextStep = { done: true, value: undefined };

/** The options of a stream that has ended. */
const OVER: Omit<EventStreamOptions, "clock"> = {
  frames: () => Promise.resolve(false),
  isLast: () => true,
  silentSince: 0,
  keepAlive: { frame: "", afterMs: 0 },
  failed: () => "",
  cancelled: () => {},
  ended: () => {},
};

export class EventStream implements AsyncIterableIterator<string, undefined> {
  #options: EventStreamOptions;
  /** The reader that waits for the next frames. */
  #reader: ((step: TextStep) => void) | undefined;
  /** The unread frames. */
  #ready = "";
  #pulling = false;
  /** True when the ready frames go out at the end of this turn. */
  #isDue = false;
  #draining = false;
  #ended = false;
  #lastFrameAt: number;
  #cancelKeepAlive: Cancel | undefined;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#lastFrameAt = options.silentSince;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<TextStep> {
    return new Promise((resolve) => {
      this.#reader = resolve;
      if (!this.#deliver()) this.#pull();
    });
  }

  /** Called when the client has stopped reading. */
  return(): Promise<TextStep> {
    this.#options.cancelled();
    return Promise.resolve(DONE);
  }

  /** Ends the body with the frame that tells of a failure. */
  fail(error: unknown): void {
    if (this.#ended) return;
    // Make the frame even after the client has left: `failed` also reports the failure.
    const frame = this.#options.failed(error);
    if (!this.#draining) this.#ready += frame;
    this.#end();
  }

  /** Runs the source to its end, and drops its frames: the client has left. */
  drain(): void {
    this.#draining = true;
    this.#pull();
  }

  /** Gives the reader the ready frames. Returns false when there are none. */
  #deliver(): boolean {
    const reader = this.#reader;
    if (!reader || (this.#ready === "" && !this.#ended)) return false;
    this.#reader = undefined;
    const value = this.#ready;
    this.#ready = "";
    reader(value === "" ? DONE : { done: false, value });
    return true;
  }

  #pull(): void {
    if (this.#pulling || this.#ended) return;
    this.#pulling = true;
    if (!this.#cancelKeepAlive) this.#armKeepAlive();
    this.#options.frames(this.#write).then(this.#onPulled, this.#onFailure);
  }

  /**
   * Takes frames. The frames of one turn become one piece, because passing on a piece costs more than making a frame.
   */
  readonly #write = (frames: string): boolean => {
    if (this.#ended) return false;
    if (!this.#draining) this.#ready += frames;
    // End at once, not at the next read: a client that has left never reads again.
    if (this.#options.isLast()) {
      this.#end();
      return false;
    }
    if (this.#draining) return true;
    if (this.#reader && nextTick && this.#ready.length <= MAX_PIECE_CHARS) {
      if (!this.#isDue) nextTick(this.#onTurnEnd);
      this.#isDue = true;
      return true;
    }
    this.#written();
    return false;
  };

  readonly #onTurnEnd = (): void => {
    this.#isDue = false;
    if (this.#ready !== "" && !this.#ended) this.#written();
  };

  readonly #onPulled = (mayGoOn: boolean): void => {
    this.#pulling = false;
    if (this.#ended) return;
    if (!mayGoOn) return this.#end();
    // The reader may have come back meanwhile.
    if (this.#draining || (this.#reader && this.#ready === "")) this.#pull();
  };

  readonly #onFailure = (error: unknown): void => {
    this.#pulling = false;
    this.fail(error);
  };

  #written(): void {
    this.#lastFrameAt = this.#options.clock.now();
    this.#deliver();
  }

  #end(): void {
    this.#ended = true;
    this.#cancelKeepAlive?.();
    const { ended } = this.#options;
    // A reader may never come back, and keep this object as long as its connection lives.
    this.#options = { ...OVER, clock: this.#options.clock };
    ended();
    this.#deliver();
  }

  /** Uses one timer, set again only when it fires: a frame costs no timer. */
  #armKeepAlive(): void {
    const { clock, keepAlive } = this.#options;
    const now = clock.now();
    // After a clock has jumped back, the timer must neither fire in a storm nor stay silent for long.
    this.#lastFrameAt = Math.min(this.#lastFrameAt, now);
    const silentMs = now - this.#lastFrameAt;
    this.#cancelKeepAlive = clock.after(Math.max(0, keepAlive.afterMs - silentMs), this.#onQuiet);
  }

  readonly #onQuiet = (): void => {
    // A clock may fire a timer that was cancelled in the same turn.
    if (this.#ended) return;
    const { clock, keepAlive } = this.#options;
    const isSilent = clock.now() - this.#lastFrameAt >= keepAlive.afterMs;
    // A client that does not read needs no keep-alive: unread frames wait for it.
    if (isSilent && this.#reader) this.#ready += keepAlive.frame;
    if (isSilent) this.#written();
    this.#armKeepAlive();
  };
}
