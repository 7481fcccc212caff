/** What can end a call before its answer is complete: the client hangs up, the deadline passes. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";

/** The life of one call. Its signal fires with a GatewayError as its reason, at once, and never after a normal end. */
export class Lifeline {
  readonly #controller = new AbortController();
  readonly #client: AbortSignal;
  readonly #cancelDeadline: () => void;
  readonly #releases: (() => void)[] = [];
  #over = false;

  constructor(client: AbortSignal, clock: Clock, deadlineMs: number) {
    this.#client = client;
    this.#cancelDeadline = clock.after(deadlineMs, this.#deadlinePassed);
    if (client.aborted) this.clientGone();
    else client.addEventListener("abort", this.clientGone, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * The outcome of some work, or the signal's reason as soon as it fires: nobody waits for work that hangs. `late` is given
   * what the work comes to when nobody waits any more, so that what it acquired is let go of.
   */
  within<T>(work: Promise<T>, late: (outcome: T) => void = ignore): Promise<T> {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      let waiting = !signal.aborted;
      const giveUp = (): void => {
        waiting = false;
        reject(signal.reason);
      };
      if (waiting) signal.addEventListener("abort", giveUp, { once: true });
      else giveUp();
      work.then(
        (outcome) => {
          signal.removeEventListener("abort", giveUp);
          if (waiting) resolve(outcome);
          else late(outcome);
        },
        (error: unknown) => {
          signal.removeEventListener("abort", giveUp);
          reject(error);
        },
      );
    });
  }

  readonly clientGone = (): void => this.cut(new GatewayError("client_closed", "The client closed the connection."));

  readonly #deadlinePassed = (): void =>
    this.cut(new GatewayError("deadline_exceeded", "The request took longer than the gateway allows."));

  /** Ends the call early. Only the first reason counts. */
  cut(reason: GatewayError): void {
    this.#controller.abort(reason);
    this.end();
  }

  /** Has something let go of when the call is over; at once where it is over already. */
  readonly atEnd = (release: () => void): void => {
    if (this.#over) release();
    else this.#releases.push(release);
  };

  /** The call is over: nothing can end it any more. */
  end(): void {
    this.#over = true;
    for (const release of this.#releases.splice(0)) release();
    this.#cancelDeadline();
    this.#client.removeEventListener("abort", this.clientGone);
  }
}

const ignore = (): void => {};
