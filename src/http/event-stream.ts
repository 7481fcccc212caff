/** Turns frames of text into a response body: back-pressure to the producer, keep-alives while it is quiet, a clean end. */

import type { Clock } from "../ports/clock.ts";

export interface EventStreamOptions {
  /** The frames, each a whole piece of the wire format. Pulled one at a time, and only while the client reads. */
  readonly frames: AsyncIterator<string, unknown>;
  /** Fires when the call is cut short. The frames are then run to their end at once, whether or not the client reads. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** The frame that says nothing, and after how many milliseconds of silence it is written. */
  readonly keepAlive: { readonly frame: string; readonly afterMs: number };
  /** The frame that tells the client of a failure. */
  readonly failed: (error: unknown) => string;
  /** The client has stopped reading. */
  readonly cancelled: () => void;
  /** The last frame was written, or no one is left to read it. */
  readonly ended: () => void;
}

const encoder = new TextEncoder();

export function eventStream(options: EventStreamOptions): ReadableStream<Uint8Array> {
  const pump = new Pump(options);
  return new ReadableStream(pump);
}

class Pump implements UnderlyingDefaultSource<Uint8Array> {
  readonly #options: EventStreamOptions;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #lastWrite = 0;
  #cancelKeepAlive: () => void = () => {};
  #waiting = false;
  #open = true;
  #readable = true;

  constructor(options: EventStreamOptions) {
    this.#options = options;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.#options.signal.addEventListener("abort", this.#drain, { once: true });
    this.#lastWrite = this.#options.clock.now();
    this.#armKeepAlive(this.#options.keepAlive.afterMs);
  }

  async pull(): Promise<void> {
    if (this.#waiting) return;
    this.#waiting = true;
    // Once the call is cut short, all that is left is written at once: it must settle now, not when someone reads.
    do await this.#step();
    while (this.#open && this.#options.signal.aborted);
    this.#waiting = false;
  }

  cancel(): void {
    this.#readable = false;
    this.#options.cancelled();
  }

  async #step(): Promise<void> {
    if (!this.#open) return;
    try {
      const step = await this.#options.frames.next();
      if (step.done) this.#end();
      else this.#write(step.value);
    } catch (error) {
      this.#write(this.#options.failed(error));
      this.#end();
    }
  }

  readonly #drain = (): void => void this.pull();

  #write(frame: string): void {
    this.#lastWrite = this.#options.clock.now();
    if (this.#readable) this.#controller?.enqueue(encoder.encode(frame));
  }

  #end(): void {
    this.#open = false;
    this.#cancelKeepAlive();
    this.#options.signal.removeEventListener("abort", this.#drain);
    if (this.#readable) this.#controller?.close();
    this.#options.ended();
  }

  // One timer that is set anew only when it fires: a frame costs no timer.
  #armKeepAlive(ms: number): void {
    this.#cancelKeepAlive = this.#options.clock.after(ms, () => {
      const { clock, keepAlive } = this.#options;
      const silence = clock.now() - this.#lastWrite;
      const silent = silence >= keepAlive.afterMs;
      // A client that does not read needs no keep-alive: what it has not read yet is one.
      if (silent && (this.#controller?.desiredSize ?? 0) > 0) this.#write(keepAlive.frame);
      this.#armKeepAlive(silent ? keepAlive.afterMs : keepAlive.afterMs - silence);
    });
  }
}
