/** Waits for a promise, but not for longer than a time. */

import type { Cancel, Clock } from "../ports/clock.ts";

/** What is told of a promise that nobody waits for any more. */
export const LATE: unique symbol = Symbol("late");

/**
 * What a promise settles with; `LATE` where it takes longer than `ms` milliseconds, or the waiting is given up. What comes late is
 * dropped here, a failure too.
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
    let settled = false;
    let cancel: Cancel | undefined;
    const settle = (): void => {
      settled = true;
      cancel?.();
    };
    promise.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error: unknown) => {
        settle();
        reject(error);
      },
    );
    // Most are settled by the next turn, and need no timer.
    queueMicrotask(() => {
      if (settled) return;
      const end = (): void => {
        cancel?.();
        resolve(LATE);
      };
      cancel = clock.after(ms, end);
      giveUp?.(end);
    });
  });
}
