/** Turns events into a response body: back-pressure to the producer, keep-alives while it is quiet, a clean end. */

import type { Clock } from "../ports/clock.ts";

export interface EventStreamOptions<Event> {
  /** Pulled one at a time, and only while the client reads. */
  readonly events: AsyncIterator<Event, unknown>;
  /** What an event adds to the body: whole frames of the wire format, or an empty text. */
  readonly encode: (event: Event) => string;
  /** Fires when nobody waits for the answer. The events are then run to their end at once, whether or not the client reads. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Since when the client has heard nothing, in milliseconds since the Unix epoch. */
  readonly silentSince: number;
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

export function eventStream<Event>(options: EventStreamOptions<Event>): ReadableStream<Uint8Array> {
  return new ReadableStream(new Pump(options));
}

class Pump<Event> implements UnderlyingDefaultSource<Uint8Array> {
  readonly #options: EventStreamOptions<Event>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #lastWrite = 0;
  #cancelKeepAlive: () => void = () => {};
  #waiting = false;
  #open = true;
  #readable = true;

  constructor(options: EventStreamOptions<Event>) {
    this.#options = options;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    const { signal, clock, silentSince, keepAlive } = this.#options;
    signal.addEventListener("abort", this.#drain, { once: true });
    this.#lastWrite = silentSince;
    this.#armKeepAlive(Math.max(0, keepAlive.afterMs - (clock.now() - silentSince)));
  }

  async pull(): Promise<void> {
    if (this.#waiting) return;
    this.#waiting = true;
    const { events, encode, failed, signal } = this.#options;
    try {
      // Once nobody waits, all that is left is run through at once: it must settle now, not when someone reads.
      for (let wrote = false; this.#open && (!wrote || signal.aborted);) {
        const step = await events.next();
        if (step.done) this.#end();
        else wrote = this.#write(encode(step.value)) || wrote;
      }
    } catch (error) {
      // An event that cannot be encoded has left its producer waiting.
      await events.return?.().catch(ignore);
      this.#write(failed(error));
      this.#end();
    }
    this.#waiting = false;
  }

  cancel(): void {
    this.#readable = false;
    this.#options.cancelled();
  }

  readonly #drain = (): void => void this.pull();

  #write(frames: string): boolean {
    if (frames === "") return false;
    this.#lastWrite = this.#options.clock.now();
    if (this.#readable) this.#controller?.enqueue(encoder.encode(frames));
    return true;
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

const ignore = (): void => {};
