/** Waits for a promise of a host's function, and leaves nothing with a promise that never settles. */

import type { Clock } from "../ports/clock.ts";

/** The result of a wait that ended before its promise settled. */
export const LATE: unique symbol = Symbol("late");

/**
 * A wait for one promise of a host's function. A promise keeps everything that waits for it until it settles, and this one may never
 * settle. So the promise holds this object alone, which drops all its references once the wait is over.
 */
export class Wait<Value> {
  #resolve: ((value: Value) => void) | undefined;
  #reject: ((reason: unknown) => void) | undefined;
  #over: (() => void) | undefined = undefined;

  constructor(resolve: (value: Value) => void, reject: (reason: unknown) => void) {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get isOver(): boolean {
    return this.#resolve === undefined;
  }

  /** Waits for the promise. A result or failure after the end of the wait is dropped. */
  for(promise: PromiseLike<Value>): void {
    promise.then(
      (value) => this.resolve(value),
      (reason: unknown) => this.reject(reason),
    );
  }

  resolve(value: Value): void {
    this.#end(this.#resolve, value);
  }

  reject(reason: unknown): void {
    this.#end(this.#reject, reason);
  }

  /** Calls `over` once, when the wait is over, however the wait ended. */
  whenOver(over: () => void): void {
    this.#over = over;
  }

  #end<Result>(settle: ((result: Result) => void) | undefined, result: Result): void {
    const over = this.#over;
    this.#resolve = this.#reject = this.#over = undefined;
    over?.();
    settle?.(result);
  }
}

/** Resolves in the next microtask. Node's own `queueMicrotask` costs more than a promise. */
export const NEXT_MICROTASK: Promise<void> = Promise.resolve();

/**
 * Resolves with the value of a promise, or with `LATE` after `ms` milliseconds.
 *
 * @param giveUp Receives a function that ends the wait at once.
 */
export function within<T>(
  promise: Promise<T>,
  ms: number,
  clock: Clock,
  giveUp?: (end: () => void) => void,
): Promise<T | typeof LATE> {
  return new Promise((resolve, reject) => {
    const wait = new Wait<T | typeof LATE>(resolve, reject);
    wait.for(promise);
    // Skip the timer when the promise settles within one microtask.
    void NEXT_MICROTASK.then(() => {
      if (wait.isOver) return;
      const end = (): void => wait.resolve(LATE);
      wait.whenOver(clock.after(ms, end));
      giveUp?.(end);
    });
  });
}
