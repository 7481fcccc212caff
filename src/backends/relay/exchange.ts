/** One exchange with an upstream: how long each phase of it may take, and who may cut it. */

import { GatewayError, type GatewayErrorCode } from "../../errors.ts";
import type { Cancel, Clock } from "../../ports/clock.ts";

/** What is waited for, and the error of a wait that was too long. */
export interface Phase {
  readonly name: "connection" | "headers" | "first event" | "next event" | "complete answer" | "picture" | "error";
  /** In milliseconds. */
  readonly limitMs: number;
}

/** A phase took too long. */
export class PhaseTimeout extends Error {
  override readonly name = "PhaseTimeout";
}

/** Lets go of an answer that nobody reads to its end. */
export const LEFT: Error = new Error("The answer is not read any further.");

/** What carries an exchange. It is an object and not a function, for the reason that stands at `meter` in `src/line/hold.ts`. */
export interface Carrier {
  /** Lets go of its connection; called once, when the exchange is cut. */
  cut(reason: Error): void;
}

export class Exchange {
  /** Why the exchange was cut; undefined while it was not. */
  reason: unknown;
  /** What carries it, once that has begun. */
  carrier: Carrier | undefined;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #aborted = (): void => this.cut(this.#signal.reason);
  #phase: Phase | undefined;
  #afterConnection: Phase | undefined;
  #since = 0;
  #cancelTimer: Cancel | undefined;
  #firesAt = 0;
  #over = false;

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    this.#signal = signal;
    if (signal.aborted) this.#aborted();
    else signal.addEventListener("abort", this.#aborted, { once: true });
  }

  /** The exchange begins: a connection is waited for, and after it the answer's headers. */
  begin(connection: Phase, headers: Phase): void {
    this.#afterConnection = headers;
    this.enter(connection);
  }

  /** Whether there is no connection yet, as far as the transport has told. */
  get isConnecting(): boolean {
    return this.#phase?.name === "connection";
  }

  /** Told by the transport when it has a connection. */
  connected(): void {
    if (this.#afterConnection) this.enter(this.#afterConnection);
  }

  /** The phase that begins now takes the place of the one before. */
  enter(phase: Phase): void {
    if (this.#over) return;
    this.#phase = phase;
    this.#since = this.#clock.now();
    // A timer that fires before the phase's time is up finds that out, and is set anew: phases are many, and most are short.
    if (this.#cancelTimer && this.#firesAt <= this.#since + phase.limitMs) return;
    this.#cancelTimer?.();
    this.#setTimer(phase.limitMs);
  }

  /** Something came: the phase begins anew. */
  touch(): void {
    this.#since = this.#clock.now();
  }

  #setTimer(ms: number): void {
    this.#firesAt = this.#clock.now() + ms;
    this.#cancelTimer = this.#clock.after(ms, () => this.#timeUp());
  }

  #timeUp(): void {
    const phase = this.#phase;
    if (this.#over || !phase) return;
    const leftMs = this.#since + phase.limitMs - this.#clock.now();
    if (leftMs > 0) this.#setTimer(leftMs);
    else this.cut(timeoutError(phase));
  }

  /** Ends the exchange before its time. */
  cut(reason: unknown): void {
    if (this.#over) return;
    this.end();
    const error = reason instanceof Error ? reason : new Error("The exchange was cut.", { cause: reason });
    this.reason = error;
    this.carrier?.cut(error);
  }

  /** The exchange is over: no timer and no listener of it is left. */
  end(): void {
    this.#over = true;
    this.#cancelTimer?.();
    this.#signal.removeEventListener("abort", this.#aborted);
  }
}

function timeoutError({ name, limitMs }: Phase): GatewayError {
  const cause = new PhaseTimeout(`The upstream's ${name} did not come within ${limitMs} ms.`);
  const [code, message]: [GatewayErrorCode, string] =
    name === "connection"
      ? ["backend_unavailable", "The model backend cannot be reached."]
      : ["deadline_exceeded", "The model backend took too long."];
  return new GatewayError(code, message, { port: "model-backend", cause });
}
