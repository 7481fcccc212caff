/** A streamed body: frames made only as they are read, keep-alives while their source is quiet, one end whatever ends it. */

import type { Cancel, Clock } from "../ports/clock.ts";

export interface EventStreamOptions {
  /** Makes the next frames, as one text; undefined at the end. Called again only once its promise has settled. */
  readonly frames: () => Promise<string | undefined>;
  /** Whether the frames that came last are the last there are: then the source is not asked again. */
  readonly isLast: () => boolean;
  readonly clock: Clock;
  /** Since when the client has heard nothing, in milliseconds since the Unix epoch. */
  readonly silentSince: number;
  /** The frame that says nothing, and after how many milliseconds of silence it is written. */
  readonly keepAlive: { readonly frame: string; readonly afterMs: number };
  /** The frame that tells the client of a failure. */
  readonly failed: (error: unknown) => string;
  /** The client has stopped reading. */
  readonly cancelled: () => void;
  /** No frame will be made any more. Called once. */
  readonly ended: () => void;
}

type Step = IteratorResult<string, undefined>;

const DONE: Step = { done: true, value: undefined };

/** The options of a stream that has ended. */
const OVER: Omit<EventStreamOptions, "clock"> = {
  frames: () => Promise.resolve(undefined),
  isLast: () => true,
  silentSince: 0,
  keepAlive: { frame: "", afterMs: 0 },
  failed: () => "",
  cancelled: () => {},
  ended: () => {},
};

export class EventStream implements AsyncIterableIterator<string, undefined> {
  #options: EventStreamOptions;
  /** Who waits for the next frames. */
  #reader: ((step: Step) => void) | undefined;
  /** Frames that nobody has read yet. */
  #ready = "";
  #pulling = false;
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

  next(): Promise<Step> {
    return new Promise((resolve) => {
      this.#reader = resolve;
      if (!this.#deliver()) this.#pull();
    });
  }

  /** The client has stopped reading. */
  return(): Promise<Step> {
    this.#options.cancelled();
    return Promise.resolve(DONE);
  }

  /** Ends the body with the frame that tells of a failure. */
  fail(error: unknown): void {
    if (this.#ended) return;
    // Also where nobody reads the frame: it is by making it that the failure is reported.
    const frame = this.#options.failed(error);
    if (!this.#draining) this.#ready += frame;
    this.#end();
  }

  /** Nobody reads any more: runs the source to its end at once. */
  drain(): void {
    this.#draining = true;
    this.#pull();
  }

  /** Gives the reader what there is for it, if anything. */
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
    this.#options.frames().then(this.#onFrames, this.#onFailure);
  }

  readonly #onFrames = (frames: string | undefined): void => {
    this.#pulling = false;
    if (this.#ended) return;
    if (frames === undefined) return this.#end();
    if (!this.#draining) this.#ready += frames;
    // At once, not when the reader comes back: one that has gone meanwhile never does.
    if (this.#options.isLast()) return this.#end();
    if (this.#draining) return this.#pull();
    this.#written();
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
    // Its reader may never come back, and keep it as long as its connection lives.
    this.#options = { ...OVER, clock: this.#options.clock };
    ended();
    this.#deliver();
  }

  /** One timer, set anew only when it fires: a frame costs none. */
  #armKeepAlive(): void {
    const { clock, keepAlive } = this.#options;
    const now = clock.now();
    // A clock that has jumped back must make the timer neither fire in a storm nor fall silent until it has caught up.
    this.#lastFrameAt = Math.min(this.#lastFrameAt, now);
    const silentMs = now - this.#lastFrameAt;
    this.#cancelKeepAlive = clock.after(Math.max(0, keepAlive.afterMs - silentMs), this.#onQuiet);
  }

  readonly #onQuiet = (): void => {
    // A clock may fire what was cancelled.
    if (this.#ended) return;
    const { clock, keepAlive } = this.#options;
    const isSilent = clock.now() - this.#lastFrameAt >= keepAlive.afterMs;
    // A client that does not read needs no keep-alive: what it has not read yet is one.
    if (isSilent && this.#reader) this.#ready += keepAlive.frame;
    if (isSilent) this.#written();
    this.#armKeepAlive();
  };
}
