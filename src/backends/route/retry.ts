/** How often a failed call is tried again, and after which pause. */

import { FROM_ZERO, type NumberRule } from "../../overrides.ts";
import type { Clock } from "../../ports/clock.ts";

/** How often a failed call is tried again. */
export interface RetryOptions {
  /** How often all upstreams of a route are tried anew, after each of them has failed. Default: 2. */
  readonly rounds: number;
  /** The pause before the first of these rounds, in milliseconds; it doubles from round to round, and half of it is random. Default: 500. */
  readonly pauseMs: number;
  /** The longest pause, in milliseconds; whoever must wait longer is told so instead. Default: 10 seconds. */
  readonly maxPauseMs: number;
  /**
   * How many further attempts there may be for each call, on the average: more than that make an overload worse. A few are
   * always there, so that quiet times have retries too. Default: 0.2.
   */
  readonly share: number;
}

/** What holds unless a host says otherwise. */
export const DEFAULT_RETRY: RetryOptions = { rounds: 2, pauseMs: 500, maxPauseMs: 10_000, share: 0.2 };

export const RETRY_RULES: Readonly<Record<keyof RetryOptions, NumberRule>> = {
  rounds: FROM_ZERO,
  pauseMs: FROM_ZERO,
  maxPauseMs: FROM_ZERO,
  share: { words: "a number from 0 up", allows: (value) => Number.isFinite(value) && value >= 0 },
};

/** How many attempts may be saved up. */
const MOST_SAVED = 10;

/** Further attempts, as many as calls have earned. */
export class RetryBudget {
  readonly #share: number;
  #saved = MOST_SAVED;

  constructor(share: number) {
    this.#share = share;
  }

  earn(): void {
    this.#saved = Math.min(MOST_SAVED, this.#saved + this.#share);
  }

  /** Whether there may be another attempt; it is spent then. */
  spend(): boolean {
    if (this.#saved < 1) return false;
    this.#saved--;
    return true;
  }
}

/**
 * The pause before a round (from 1), in milliseconds.
 *
 * @param random From 0 to 1: spreads the calls that failed at one moment.
 */
export function pauseBefore(round: number, { pauseMs, maxPauseMs }: RetryOptions, random: number): number {
  const wholeMs = Math.min(maxPauseMs, pauseMs * 2 ** (round - 1));
  return wholeMs / 2 + (wholeMs / 2) * random;
}

/** Resolves after a while; rejects with the signal's reason as soon as that fires. */
export function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const aborted = (): void => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.after(ms, () => {
      signal.removeEventListener("abort", aborted);
      resolve();
    });
    return signal.addEventListener("abort", aborted, { once: true });
  });
}
