/** What can end a call before its answer is complete: the client hangs up, the deadline passes. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";

/** The life of one call. Its signal fires with a GatewayError as its reason, at once, and never after a normal end. */
export class Lifeline {
  readonly #controller = new AbortController();
  readonly #client: AbortSignal;
  readonly #cancelDeadline: () => void;

  constructor(client: AbortSignal, clock: Clock, deadlineMs: number) {
    this.#client = client;
    this.#cancelDeadline = clock.after(deadlineMs, this.#deadlinePassed);
    if (client.aborted) this.clientGone();
    else client.addEventListener("abort", this.clientGone, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly clientGone = (): void => this.cut(new GatewayError("client_closed", "The client closed the connection."));

  readonly #deadlinePassed = (): void =>
    this.cut(new GatewayError("deadline_exceeded", "The request took longer than the gateway allows."));

  /** Ends the call early. Only the first reason counts. */
  cut(reason: GatewayError): void {
    this.#controller.abort(reason);
    this.end();
  }

  /** The call is over: nothing can end it any more. */
  end(): void {
    this.#cancelDeadline();
    this.#client.removeEventListener("abort", this.clientGone);
  }
}
