/** Waits for a stranger's promise, but no longer than it may, and leaves nothing with a promise that never settles. */

import type { Cancel, Clock } from "../ports/clock.ts";

/** Told of a promise that nobody waits for any more. */
export const LATE: unique symbol = Symbol("late");

/**
 * A wait for one promise of a stranger's. A promise keeps all that waits for it until it settles, and a stranger's may never settle:
 * so it is given this object alone, which lets go of everything once it is over.
 */
export class Wait<Value> {
  #resolve: ((value: Value) => void) | undefined;
  #reject: ((reason: unknown) => void) | undefined;
  #over: (() => void) | undefined;

  /** @param over Is called once, when the wait is over, however it ended. */
  constructor(resolve: (value: Value) => void, reject: (reason: unknown) => void, over?: () => void) {
    this.#resolve = resolve;
    this.#reject = reject;
    this.#over = over;
  }

  get isOver(): boolean {
    return this.#resolve === undefined;
  }

  /** Waits for the promise. Whatever it brings once the wait is over is dropped, a failure too. */
  for(promise: PromiseLike<Value>): void {
    promise.then(
      (value) => this.resolve(value),
      (reason: unknown) => this.reject(reason),
    );
  }

  resolve(value: Value): void {
    const resolve = this.#resolve;
    this.#end();
    resolve?.(value);
  }

  reject(reason: unknown): void {
    const reject = this.#reject;
    this.#end();
    reject?.(reason);
  }

  /** Has another function called when the wait is over. */
  whenOver(over: () => void): void {
    this.#over = over;
  }

  #end(): void {
    const over = this.#over;
    this.#resolve = this.#reject = this.#over = undefined;
    over?.();
  }
}

/**
 * The value of a promise; `LATE` where it takes longer than `ms` milliseconds, or the waiting is given up.
 *
 * @param giveUp Is given what ends the waiting at once, where somebody may want to.
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
    // Most promises are settled by the next turn, and need no timer.
    queueMicrotask(() => {
      if (wait.isOver) return;
      const end = (): void => wait.resolve(LATE);
      const cancel: Cancel = clock.after(ms, end);
      wait.whenOver(cancel);
      giveUp?.(end);
    });
  });
}
