/** A circuit breaker: leaves alone what keeps failing, an upstream or a store, and tries it again after a while. */

import { FROM_ZERO, type NumberRule, POSITIVE } from "../overrides.ts";
import type { BreakerState } from "./call-observer.ts";
import type { Clock } from "./clock.ts";

/** When an upstream is left alone, and for how long. */
export interface BreakerOptions {
  /** How many failures in a row open it; `Infinity` keeps it closed. Default: 5. */
  readonly failures: number;
  /** How long it stays open before one call tries again, in milliseconds. Default: 30 seconds. */
  readonly openMs: number;
  /** The longest that it stays open because an upstream asked for that, in milliseconds. Default: 5 minutes. */
  readonly maxRestMs: number;
}

/** What holds unless a host says otherwise. */
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
  /** Until when nothing is let through, and since when, in milliseconds since the Unix epoch. */
  #openUntil = 0;
  #openedAt = 0;
  #isTrying = false;
  /** When the call that tries began. */
  #triedAt = 0;

  constructor(options: BreakerOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** How long nothing is let through yet, in milliseconds; 0 where a call may pass. */
  get waitMs(): number {
    // As it is nearly always, and for each question that a call asks of a store.
    if (this.#openUntil === 0 && !this.#isTrying) return 0;
    const now = this.#clock.now();
    const waitMs = this.#openMs(now);
    if (waitMs > 0 || !this.#isTrying) return waitMs;
    // While one call tries, the others wait for its outcome; no longer than for another try, as it may hang for ever.
    return now < this.#triedAt ? 0 : Math.max(0, this.#triedAt + this.#options.openMs - now);
  }

  get state(): BreakerState {
    if (this.#openMs(this.#clock.now()) > 0) return "open";
    return this.#isTrying || this.#failures >= this.#options.failures ? "half-open" : "closed";
  }

  /** A call begins. That it is tried no more must be told, by one of the three below. */
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

  /** The call shows nothing yet, as it has only begun; or nothing at all: its caller left, or what it asked for was wrong. */
  leave(): void {
    this.#isTrying = false;
  }

  /** Nothing is let through for a while, because that was asked for: no longer than it may be, and not for what is no time. */
  rest(ms: number): void {
    if (ms > 0) this.#openFor(Math.min(ms, this.#options.maxRestMs));
  }

  /** How much longer the breaker stays open. A clock that was set back says nothing of that: the breaker is open no more. */
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
