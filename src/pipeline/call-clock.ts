/** The clock of one call: all long waits of a call share one timer. */

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
