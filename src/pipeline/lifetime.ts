/** The lifetime of a call: its clock, whose waits share one timer, and its abort on disconnect, deadline or shutdown. */

import { GatewayError } from "../errors.ts";
import type { Cancel, Clock } from "../ports/clock.ts";

/** A shared timer that fires later than this shows that the wall clock has jumped, in milliseconds. */
const JUMP_MS = 250;

/** The length of a call's shared timer, in milliseconds. Most calls end sooner. */
const SHARED_TIMER_MS = 1_000;

/** A wait of a call that has no timer of its own yet. */
interface UntimedWait {
  readonly ms: number;
  readonly callback: () => void;
  readonly begunAt: number;
  /** Cancels the wait's own timer, once it has one. */
  cancel: Cancel | undefined;
  /** The index in the list of waits; -1 for a wait that is cancelled or has its own timer. */
  index: number;
}

/**
 * The clock of one call. A call has three or four long waits (its deadline, its body, its hold, its store queries), and nearly all of
 * them are cancelled within milliseconds. So they share one timer: a wait gets its own timer only when that one fires.
 */
export class CallClock implements Clock {
  readonly #clock: Clock;
  readonly #waits: UntimedWait[] = [];
  /** Undefined while no wait shares the timer. */
  #cancelTimer: Cancel | undefined = undefined;
  #timerSetAt = 0;
  /** True once the shared timer has fired: later waits have timers of their own. */
  #isLong = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  after(ms: number, callback: () => void): Cancel {
    if (this.#isLong || ms < SHARED_TIMER_MS) return this.#clock.after(ms, callback);
    const wait: UntimedWait = {
      ms,
      callback,
      begunAt: this.#clock.now(),
      cancel: undefined,
      index: this.#waits.length,
    };
    this.#waits.push(wait);
    if (!this.#cancelTimer) {
      this.#timerSetAt = wait.begunAt;
      this.#cancelTimer = this.#clock.after(SHARED_TIMER_MS, () => this.#setTimers());
    }
    return () => this.#cancel(wait);
  }

  every(ms: number, callback: () => void): Cancel {
    return this.#clock.every(ms, callback);
  }

  #cancel(wait: UntimedWait): void {
    const last = this.#waits.at(-1);
    if (wait.index < 0 || !last) return wait.cancel?.();
    this.#waits[wait.index] = last;
    last.index = wait.index;
    wait.index = -1;
    this.#waits.pop();
    if (this.#waits.length > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #setTimers(): void {
    this.#isLong = true;
    this.#cancelTimer = undefined;
    const now = this.#clock.now();
    // After a jump of the wall clock, a wait may last a second longer. It must never end early.
    const hasJumped = now < this.#timerSetAt || now > this.#timerSetAt + SHARED_TIMER_MS + JUMP_MS;
    for (const wait of this.#waits.splice(0)) {
      wait.index = -1;
      const waitedMs = hasJumped ? 0 : Math.min(SHARED_TIMER_MS, Math.max(0, now - wait.begunAt));
      wait.cancel = this.#clock.after(wait.ms - waitedMs, wait.callback);
    }
  }
}

/**
 * Reports that the client has disconnected: calls the listener once, or never. May return a function that the gateway calls when the
 * call has ended and a disconnect no longer matters.
 */
export type OnDisconnect = (listener: () => void) => (() => void) | void;

/** The receiver of a call's abort. Each method is called at most once. */
interface AbortListener {
  /** The call is cut: all work for the call stops. */
  aborted(reason: GatewayError): void;
  /** The client is gone, but the call goes on for a while. */
  clientGone(): void;
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
  #listener: AbortListener | undefined;
  readonly #cancelDeadline: Cancel;
  /** The time of the deadline, in milliseconds since the Unix epoch. */
  readonly #deadlineAt: number;
  #cancelDrain: Cancel | undefined = undefined;
  #drainMs = 0;
  /** The number of other callers that wait for the same answer. */
  #others = 0;
  #over = false;
  /** Hands on an answer that is complete, in place of a cut. */
  #handOn: (() => void) | undefined = undefined;
  /** Created when the signal is read: few calls read it. */
  #controller: AbortController | undefined = undefined;

  /** @param drainClock Times the drain, which is rare, and so needs no shared timer. */
  constructor(clock: Clock, deadlineMs: number, listener: AbortListener, drainClock: Clock = clock) {
    this.#clock = clock;
    this.#drainClock = drainClock;
    this.#listener = listener;
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

  /** Lets the call run for `drainMs` milliseconds after a disconnect. The longest time counts. */
  drainFor(drainMs: number): void {
    this.#drainMs = Math.max(this.#drainMs, drainMs);
  }

  /** Another caller waits for the same answer: a disconnect of the client no longer cuts the call. */
  join(): void {
    this.#others++;
    this.#cancelDrain?.();
  }

  /** Takes back one `join()`. */
  leave(): void {
    this.#others--;
    if (this.isClientGone) this.#drain();
  }

  /** The client has disconnected. Cuts the call, unless the call may go on without its client. */
  disconnect(): void {
    if (this.#over || this.isClientGone) return;
    this.isClientGone = true;
    if (this.#drainMs === 0) return this.cut(clientClosed());
    this.#drain();
    this.#listener?.clientGone();
  }

  /** Cuts the call `drainMs` milliseconds later, unless another caller waits for the answer. */
  #drain(): void {
    if (this.#over || this.#others > 0) return;
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
    listener?.aborted(reason);
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
