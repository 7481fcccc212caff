/** What can end a call before its answer is complete: the client hangs up, the deadline passes. */

import { GatewayError } from "../errors.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { Keep } from "../ports/keep.ts";

/** The life of one call. Its signals fire with a GatewayError as their reason, at once, and never after a normal end. */
export class Lifeline {
  readonly #controller = new AbortController();
  readonly #client: AbortSignal;
  readonly #clock: Clock;
  readonly #ended: () => void;
  /** Has a runtime that stops all work for a client who is gone wait for some of it. */
  readonly keep: Keep;
  readonly #cancelDeadline: Cancel;
  #unread: AbortController | undefined;
  #cancelDrain: Cancel = ignore;
  #drainMs = 0;
  /** Why nobody waits any more. */
  #leftBy: GatewayError | undefined;
  #complete = false;
  #over = false;
  readonly #letGo: (() => void)[] = [];

  /** @param ended Told when the call is over and settled; more than once is possible. */
  constructor(client: AbortSignal, clock: Clock, deadlineMs: number, ended: () => void = ignore, keep?: Keep) {
    this.#client = client;
    this.#clock = clock;
    this.#ended = ended;
    this.keep = keep ?? ignore;
    keep?.(new Promise<void>((resolve) => this.atEnd(resolve)));
    this.#cancelDeadline = clock.after(deadlineMs, this.#deadlinePassed);
    if (client.aborted) this.clientGone();
    else client.addEventListener("abort", this.clientGone, { once: true });
  }

  /** Fires when the call is cut short: what works for it must stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Fires when nobody waits for the answer: with `signal`, before it where a hang-up is outlived, or without it at the end. */
  get unread(): AbortSignal {
    this.#unread ??= new AbortController();
    if (this.#leftBy) this.#unread.abort(this.#leftBy);
    return this.#unread.signal;
  }

  /** From now on a hang-up cuts the call only `drainMs` milliseconds later. */
  outlive(drainMs: number): void {
    this.#drainMs = drainMs;
  }

  /** All work is done and settled; what is left is to hand it on. From now on `signal` does not fire any more. */
  readonly complete = (): void => {
    this.#complete = true;
  };

  /**
   * The outcome of some work, or the signal's reason as soon as it fires: nobody waits for work that hangs. `late` is given
   * what the work comes to when nobody waits any more, so that what it acquired is let go of.
   */
  within<T>(work: Promise<T>, late: (outcome: T) => unknown = ignore): Promise<T> {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        reject(signal.reason);
        this.keep(work.then(late, ignore));
      };
      if (signal.aborted) giveUp();
      else signal.addEventListener("abort", giveUp, { once: true });
      work.then(
        (outcome) => {
          signal.removeEventListener("abort", giveUp);
          resolve(outcome);
        },
        (error: unknown) => {
          signal.removeEventListener("abort", giveUp);
          reject(error);
        },
      );
    });
  }

  readonly clientGone = (): void => {
    const gone = new GatewayError("client_closed", "The client closed the connection.");
    if (this.#drainMs === 0 || this.#complete) return this.cut(gone);
    if (this.#leftBy) return;
    this.#cancelDrain = this.#clock.after(this.#drainMs, () => this.cut(gone));
    this.#leave(gone);
  };

  readonly #deadlinePassed = (): void =>
    this.cut(new GatewayError("deadline_exceeded", "The request took longer than the gateway allows."));

  /** Ends the call early. Only the first reason counts. */
  cut(reason: GatewayError): void {
    this.#release();
    if (!this.#complete) this.#controller.abort(reason);
    this.#leave(reason);
  }

  /** Has something let go of when the call is over; at once where it is over already. */
  readonly atEnd = (release: () => void): void => {
    if (this.#over) release();
    else this.#letGo.push(release);
  };

  /** The call is over: nothing can end it any more. */
  end(): void {
    this.#release();
    this.forget();
  }

  /** The call is taken for over, with no hand on its signals and timers: those may be another's by now. */
  forget(): void {
    this.#over = true;
    for (const release of this.#letGo.splice(0)) release();
    this.#ended();
  }

  #leave(reason: GatewayError): void {
    this.#leftBy ??= reason;
    this.#unread?.abort(reason);
  }

  #release(): void {
    this.#cancelDeadline();
    this.#cancelDrain();
    this.#client.removeEventListener("abort", this.clientGone);
  }
}

const ignore = (): void => {};
