/** Cuts a call short on disconnect, deadline or shutdown. */

import { GatewayError } from "../errors.ts";
import type { Cancel, Clock } from "../ports/clock.ts";

/**
 * Reports that the client has disconnected: calls the listener once, or never. May return a function that the gateway calls when the
 * call has ended and a disconnect no longer matters.
 */
export type OnDisconnect = (listener: () => void) => (() => void) | void;

/** The receiver of a cut: the step that can still answer the caller. Each method is called at most once. */
interface CutListener {
  /** The call is cut: answers with the reason, if an answer is still possible. */
  cut(reason: GatewayError): void;
  /** The client is gone, but the call goes on for a while: the caller does not read the rest of the answer. */
  clientGone?(): void;
}

/** Cuts a call short on disconnect, deadline or shutdown. The first reason wins. */
export class CallAbort {
  /** The reason for the cut; undefined for a call that was not cut. */
  reason: GatewayError | undefined = undefined;
  /** True once the client has disconnected. Other callers may still wait for the answer. */
  isClientGone = false;
  readonly #clock: Clock;
  readonly #drainClock: Clock;
  /** Undefined once the call is over, because a mount may keep this object as long as its connection lives. */
  #listener: CutListener | undefined = undefined;
  readonly #cancelDeadline: Cancel;
  /** The time of the deadline, in milliseconds since the Unix epoch. */
  readonly #deadlineAt: number;
  #cancelDrain: Cancel | undefined = undefined;
  #drainMs = 0;
  /** The number of other callers that wait for the same answer. */
  #waiters = 0;
  #over = false;
  /** Hands on an answer that is complete, in place of a cut. */
  #handOn: (() => void) | undefined = undefined;
  /** Created when the signal is read: few calls read it. */
  #controller: AbortController | undefined = undefined;

  /** @param drainClock Times the drain to the millisecond: a shared timer may ring up to a second early. */
  constructor(clock: Clock, deadlineMs: number, drainClock: Clock = clock) {
    this.#clock = clock;
    this.#drainClock = drainClock;
    this.#deadlineAt = clock.now() + deadlineMs;
    this.#cancelDeadline = clock.after(deadlineMs, () => this.cut(deadlineExceeded()));
  }

  /** Fires when the call is cut, with a GatewayError as its reason. Never fires after the call is over. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.reason) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  /** The time until the deadline, in milliseconds; 0 after the deadline. */
  get leftMs(): number {
    return Math.max(0, this.#deadlineAt - this.#clock.now());
  }

  /** True when a cut would change nothing: the call is over, or its answer is complete and only waits for the settlement. */
  get isOver(): boolean {
    return this.#over || this.#handOn !== undefined;
  }

  /** Sets the receiver of a cut, in place of an earlier one. Does nothing once the call is over. */
  listen(listener: CutListener): void {
    if (!this.#over) this.#listener = listener;
  }

  /** Lets the call run for `drainMs` milliseconds after a disconnect. The longest time counts. */
  drainFor(drainMs: number): void {
    this.#drainMs = Math.max(this.#drainMs, drainMs);
  }

  /** Another caller waits for the same answer: a disconnect of the client no longer cuts the call. */
  addWaiter(): void {
    this.#waiters++;
    this.#cancelDrain?.();
  }

  /** Takes back one `addWaiter()`. */
  removeWaiter(): void {
    this.#waiters--;
    if (this.isClientGone) this.#drain();
  }

  /** The client has disconnected. Cuts the call, unless the call may go on without its client. */
  disconnect(): void {
    if (this.#over || this.isClientGone) return;
    this.isClientGone = true;
    if (this.#drainMs === 0) return this.cut(clientClosed());
    this.#drain();
    this.#listener?.clientGone?.();
  }

  /** Cuts the call `drainMs` milliseconds later, unless another caller waits for the answer. */
  #drain(): void {
    if (this.#over || this.#waiters > 0) return;
    this.#cancelDrain = this.#drainClock.after(this.#drainMs, () => this.cut(clientClosed()));
  }

  /** The answer is complete and only waits for the settlement. From now on a cut calls `handOn`, which ends the wait. */
  whole(handOn: () => void): void {
    this.#handOn = handOn;
  }

  /** Cuts the call. */
  cut(reason: GatewayError): void {
    if (this.#over) return;
    if (this.#handOn && !this.isClientGone) return this.#handOn();
    this.reason = reason;
    const listener = this.#listener;
    this.end();
    this.#controller?.abort(reason);
    listener?.cut(reason);
  }

  /** The call is over: nothing cuts it any more, and its timers are cancelled. */
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
