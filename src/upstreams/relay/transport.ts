/** An exchange of one request and its answer with an upstream: its time limits, and the interface of the transports. */

import { backendError, type GatewayError } from "../../errors.ts";
import type { UpstreamResponse } from "../../formats/module.ts";
import type { Cancel, Clock } from "../../ports/clock.ts";

export type { UpstreamResponse } from "../../formats/module.ts";

/** A phase of an exchange, in which the relay waits for the upstream. */
export interface Phase {
  readonly name:
    | "credential"
    | "connection"
    | "headers"
    | "first event"
    | "next event"
    | "complete answer"
    | "picture"
    | "error";
  /** The longest wait, in milliseconds. */
  readonly limitMs: number;
}

/** The cause of the error when a phase takes too long. */
export class PhaseTimeout extends Error {
  override readonly name = "PhaseTimeout";
}

/** The reason of the cut when an answer is not read to its end. */
export const UNREAD: Error = new Error("The answer is not read any further.");

/**
 * The transport's side of an exchange. It is an object, because V8 would put a function that is assigned to a field into its old
 * generation.
 */
export interface Carrier {
  /** Releases the connection. Called at most once, when the exchange is cut. */
  cut(reason: Error): void;
}

/** Limits the time of each wait for an upstream. Cuts the exchange when a wait is too long, or when the call is aborted. */
export class Exchange {
  /** The reason of the cut; undefined while the exchange is not cut. */
  reason: Error | undefined;
  carrier: Carrier | undefined;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  /** The listener is a function, because Node binds a listener that is an object, and V8 moves the bound function to its old generation. */
  readonly #onAbort = (): void => this.cut(this.#signal.reason);
  #phase: Phase | undefined;
  #afterConnection: Phase | undefined;
  #since = 0;
  #cancelTimer: Cancel | undefined;
  #firesAt = 0;
  #isOver = false;

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    this.#signal = signal;
    if (signal.aborted) this.cut(signal.reason);
    else signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Begins with the wait for a connection; `connected` then begins the wait for the answer's headers. */
  begin(connection: Phase, headers: Phase): void {
    this.#afterConnection = headers;
    this.enter(connection);
  }

  get isConnecting(): boolean {
    return this.#phase?.name === "connection";
  }

  /** Begins the wait for the headers. The transport calls this when it has a connection. */
  connected(): void {
    if (this.#afterConnection) this.enter(this.#afterConnection);
  }

  /** Begins a phase, which ends the phase before. */
  enter(phase: Phase): void {
    if (this.#isOver) return;
    this.#phase = phase;
    this.#since = this.#clock.now();
    // Keep a running timer that fires before the new limit: it then sets itself again. Most phases are short, and this saves setting
    // a timer for each.
    if (this.#cancelTimer && this.#firesAt <= this.#since + phase.limitMs) return;
    this.#cancelTimer?.();
    this.#setTimer(phase.limitMs);
  }

  /** Restarts the time limit of the current phase, because the upstream has sent something. */
  touch(): void {
    this.#since = this.#clock.now();
  }

  #setTimer(ms: number): void {
    this.#firesAt = this.#clock.now() + ms;
    this.#cancelTimer = this.#clock.after(ms, () => {
      const phase = this.#phase;
      if (this.#isOver || !phase) return;
      const remainingMs = this.#since + phase.limitMs - this.#clock.now();
      if (remainingMs > 0) this.#setTimer(remainingMs);
      else this.cut(timeoutError(phase));
    });
  }

  /** Ends the exchange before its answer is complete. Does nothing once the exchange is over. */
  cut(reason: unknown): void {
    if (this.#isOver) return;
    this.end();
    this.reason = reason instanceof Error ? reason : new Error("The exchange was cut.", { cause: reason });
    this.carrier?.cut(this.reason);
  }

  /** Ends the exchange, and removes its timer and its listener. */
  end(): void {
    this.#isOver = true;
    this.#cancelTimer?.();
    this.#signal.removeEventListener("abort", this.#onAbort);
  }
}

/** The timeouts of the phases whose upstream has been reached. */
const TIMEOUTS: Readonly<Partial<Record<Phase["name"], string>>> = {
  headers: "headersMs",
  "first event": "firstEventMs",
  "next event": "betweenEventsMs",
  "complete answer": "completeMs",
};

function timeoutError({ name, limitMs }: Phase): GatewayError {
  const timeout = TIMEOUTS[name];
  const help = timeout === undefined ? "" : ` A higher timeouts.${timeout} gives it more time.`;
  const cause = new PhaseTimeout(`The upstream's ${name} did not come within ${limitMs} ms.${help}`);
  return backendError(name === "connection" || name === "credential" ? "unreachable" : "late", cause);
}

/** Sends requests to one origin. Each runtime has its own implementation. */
export interface Transport {
  /**
   * Sends a request, and resolves with the answer's status and headers. Follows no redirect, and skips 1xx answers. Once the exchange
   * is cut, the request and every read of the answer reject with the exchange's reason.
   */
  send(request: UpstreamRequest, exchange: Exchange): Promise<UpstreamResponse>;
  /** Closes every connection as soon as its requests have ended. */
  close(): Promise<void>;
}

export interface UpstreamRequest {
  readonly method: "GET" | "POST";
  /** Path and query, from the origin's root. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** Opens a transport to an origin, such as `https://example.com:8443`. `connectMs` limits the time to connect, in milliseconds. */
export type OpenTransport = (origin: string, options: { readonly connectMs: number }) => Transport;
