/** Aborts a call on disconnect, deadline or shutdown. */

import { GatewayError } from "../errors.ts";
import type { Cancel, Clock } from "../ports/clock.ts";

/**
 * Tells when the client has disconnected: calls back once, or never. May return a function that the gateway calls when the call has
 * ended and needs to hear nothing more.
 */
export type OnDisconnect = (listener: () => void) => (() => void) | void;

/** Who hears of an abort. Each is called once at most. */
export interface AbortListener {
  /** The call is cut: whatever works for it stops. */
  aborted(reason: GatewayError): void;
  /** The client is gone, while its call goes on for a while. */
  clientGone(): void;
}

/** What can end a call before its answer is complete. Only the first reason counts. */
export class CallAbort {
  /** Why the call was cut; undefined while it was not. */
  reason: GatewayError | undefined;
  readonly #clock: Clock;
  /** Undefined once the call is over: a mount may keep this object for as long as its connection lives. */
  #listener: AbortListener | undefined;
  readonly #cancelDeadline: Cancel;
  #cancelDrain: Cancel | undefined;
  #drainMs = 0;
  #clientGone = false;
  /** How many others wait for the same answer. */
  #others = 0;
  #over = false;
  /** Hands on an answer that is whole, where the call would be cut otherwise. */
  #handOn: (() => void) | undefined;
  /** When the deadline passes, in milliseconds since the Unix epoch. */
  readonly #deadlineAt: number;
  /** Made when somebody asks for the signal: few do. */
  #controller: AbortController | undefined;

  constructor(clock: Clock, deadlineMs: number, listener: AbortListener) {
    this.#clock = clock;
    this.#listener = listener;
    this.#deadlineAt = clock.now() + deadlineMs;
    this.#cancelDeadline = clock.after(deadlineMs, () => this.cut(deadlineExceeded()));
  }

  /** Fires when the call is cut, with a GatewayError as its reason; never after the call is over. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.reason) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  /** How long it is until the deadline, in milliseconds; 0 once that has passed. */
  get leftMs(): number {
    return Math.max(0, this.#deadlineAt - this.#clock.now());
  }

  /** True once the client is gone: nobody waits for the answer any more. */
  get isClientGone(): boolean {
    return this.#clientGone;
  }

  /** From now on a disconnect cuts the call only `drainMs` milliseconds later; of several times the longest counts. */
  drainFor(drainMs: number): void {
    this.#drainMs = Math.max(this.#drainMs, drainMs);
  }

  /** Another caller waits for the same answer: a client that is gone is no reason to cut it. */
  join(): void {
    this.#others++;
    this.#cancelDrain?.();
  }

  /** Takes back one `join()`. */
  leave(): void {
    this.#others--;
    if (this.#clientGone) this.#drain();
  }

  /** The client has disconnected. */
  disconnect(): void {
    if (this.#over || this.#clientGone) return;
    this.#clientGone = true;
    if (this.#drainMs === 0) return this.cut(clientClosed());
    this.#drain();
    this.#listener?.clientGone();
  }

  /** Cuts the call after a while in which nobody waits for it. */
  #drain(): void {
    if (this.#over || this.#others > 0) return;
    this.#cancelDrain = this.#clock.after(this.#drainMs, () => this.cut(clientClosed()));
  }

  /**
   * The answer is whole, and waits for what is still to be done: from now on the deadline, or a gateway that closes, ends that wait and
   * not the call.
   */
  whole(handOn: () => void): void {
    this.#handOn = handOn;
  }

  /** Cuts the call. */
  cut(reason: GatewayError): void {
    if (this.#over) return;
    if (this.#handOn && !this.#clientGone) return this.#handOn();
    this.reason = reason;
    const listener = this.#listener;
    this.end();
    this.#controller?.abort(reason);
    listener?.aborted(reason);
  }

  /** The call is over: nothing cuts it any more, and no timer of it is left. */
  end(): void {
    this.#over = true;
    this.#listener = undefined;
    this.#cancelDeadline();
    this.#cancelDrain?.();
  }
}

const clientClosed = (): GatewayError => new GatewayError("client_closed", "The client closed the connection.");

const deadlineExceeded = (): GatewayError =>
  new GatewayError("deadline_exceeded", "The request took longer than the gateway allows.");
