/** A streamed body: frames made only as they are read, keep-alives while their source is quiet, one end whatever ends it. */

import type { Cancel, Clock } from "../ports/clock.ts";

export interface EventStreamOptions {
  /**
   * Makes frames, and gives them to `write` until that returns false: nobody reads more for now. Resolves with whether there may be
   * more. Called again only once its promise has settled.
   */
  readonly frames: (write: (frames: string) => boolean) => Promise<boolean>;
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

/** How many characters of one turn are handed on as one piece at the most. */
const MAX_PIECE_CHARS = 64 * 1024;

/** Calls back when the promises of this turn have settled. Without it, as in Workers, every frame is a piece of its own. */
const nextTick = (globalThis as { process?: { nextTick?: (callback: () => void) => void } }).process?.nextTick;

const DONE: Step = { done: true, value: undefined };

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
  /** Who waits for the next frames. */
  #reader: ((step: Step) => void) | undefined;
  /** The frames that are still unread. */
  #ready = "";
  #pulling = false;
  /** Whether what is ready is handed on at the end of this turn. */
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
    this.#options.frames(this.#write).then(this.#onPulled, this.#onFailure);
  }

  /** Takes frames. Those of one turn are one piece: to hand on a piece costs more than to make a frame. */
  readonly #write = (frames: string): boolean => {
    if (this.#ended) return false;
    if (!this.#draining) this.#ready += frames;
    // At once, not when the reader comes back: a reader that has gone meanwhile never does.
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
    // A clock may fire what was cancelled in the same turn.
    if (this.#ended) return;
    const { clock, keepAlive } = this.#options;
    const isSilent = clock.now() - this.#lastFrameAt >= keepAlive.afterMs;
    // A client that does not read needs no keep-alive: what it has not read yet is one.
    if (isSilent && this.#reader) this.#ready += keepAlive.frame;
    if (isSilent) this.#written();
    this.#armKeepAlive();
  };
}
