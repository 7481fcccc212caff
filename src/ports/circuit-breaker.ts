/**
 * A circuit breaker: stops calls to an upstream or a store that keeps failing, and lets one call try it again after a while. The packages
 * opossum and cockatiel wrap a function and take its promise as the outcome. They miss a stream that breaks off later and a pause that an
 * upstream asks for, and cannot use another clock.
 */

import { FROM_ZERO, type NumberRule, POSITIVE } from "../options.ts";
import type { Clock } from "./clock.ts";
import type { BreakerState } from "./observer.ts";

/** The failures that open a circuit breaker, and the times that the breaker stays open. */
export interface BreakerOptions {
  /** The number of failures in a row that open the breaker. `Infinity` keeps it closed. Default: 5. */
  readonly failures: number;
  /** The time that the breaker stays open before one call tries again, in milliseconds. Default: 30 seconds. */
  readonly openMs: number;
  /** The longest pause that an upstream can ask for, in milliseconds. Default: 5 minutes. */
  readonly maxRestMs: number;
}

/** The default options. */
export const DEFAULT_BREAKER: BreakerOptions = { failures: 5, openMs: 30_000, maxRestMs: 300_000 };

export const BREAKER_RULES: Readonly<Record<keyof BreakerOptions, NumberRule>> = {
  failures: {
    words: "a positive integer or Infinity",
    allows: (value) => value === Number.POSITIVE_INFINITY || POSITIVE.allows(value),
  },
  openMs: POSITIVE,
  maxRestMs: FROM_ZERO,
};

export class Breaker {
  readonly #options: BreakerOptions;
  readonly #clock: Clock;
  #failures = 0;
  /** All times here are in milliseconds since the Unix epoch. */
  #openedAt = 0;
  #openUntil = 0;
  #isTrying = false;
  #triedAt = 0;

  constructor(options: BreakerOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** The time until a call may pass, in milliseconds; 0 if a call may pass now. */
  get waitMs(): number {
    // Return early in the usual case: each call reads this property several times.
    if (this.#openUntil === 0 && !this.#isTrying) return 0;
    const now = this.#clock.now();
    const waitMs = this.#openMs(now);
    if (waitMs > 0 || !this.#isTrying) return waitMs;
    // While one call tries, the others wait for its outcome, but no longer than `openMs`: the call may hang for ever.
    return now < this.#triedAt ? 0 : Math.max(0, this.#triedAt + this.#options.openMs - now);
  }

  get state(): BreakerState {
    if (this.#openMs(this.#clock.now()) > 0) return "open";
    return this.#isTrying || this.#failures >= this.#options.failures ? "half-open" : "closed";
  }

  /** Begins a call. Every `enter()` must be matched by `succeed()`, `fail()` or `leave()`. */
  enter(): void {
    this.#isTrying = this.#failures >= this.#options.failures;
    if (this.#isTrying) this.#triedAt = this.#clock.now();
  }

  succeed(): void {
    this.#failures = 0;
    this.#isTrying = false;
  }

  fail(): void {
    this.#failures++;
    this.#isTrying = false;
    if (this.#failures >= this.#options.failures) this.#openFor(this.#options.openMs);
  }

  /** Ends a call that tells nothing about the upstream: its answer has only begun, its caller left, or its request was wrong. */
  leave(): void {
    this.#isTrying = false;
  }

  /** Opens the breaker for the pause that an upstream asks for, at most `maxRestMs`. Ignores a time that is not positive. */
  rest(ms: number): void {
    if (ms > 0) this.#openFor(Math.min(ms, this.#options.maxRestMs));
  }

  /** Returns the remaining time for which the breaker stays open. A clock that was set back closes the breaker. */
  #openMs(now: number): number {
    return now < this.#openedAt ? 0 : Math.max(0, this.#openUntil - now);
  }

  #openFor(ms: number): void {
    const now = this.#clock.now();
    if (this.#openMs(now) >= ms) return;
    this.#openUntil = now + ms;
    this.#openedAt = now;
  }
}
