/** Remembers which api keys had no quota left when the store was last asked. */

import type { Clock } from "../ports/clock.ts";

/** How many keys are remembered, and for how long after they were refused, in milliseconds. */
const MAX_EXHAUSTED = 10_000;
const EXHAUSTED_MS = 60_000;

/**
 * Remembers keys that had nothing left a moment ago, so that the store is asked before their next body is parsed. No call is refused
 * because of it.
 */
export class ExhaustedKeys {
  readonly #clock: Clock;
  /** Until when each is remembered, the earliest first. */
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  has(keyId: string): boolean {
    const until = this.#until.get(keyId);
    return until !== undefined && this.#clock.now() < until;
  }

  /** Takes note of what the store has told. */
  note(keyId: string, available: number): void {
    this.#until.delete(keyId);
    if (available > 0) return;
    const now = this.#clock.now();
    for (const [earliest, until] of this.#until) {
      if (until > now && this.#until.size < MAX_EXHAUSTED) break;
      this.#until.delete(earliest);
    }
    this.#until.set(keyId, now + EXHAUSTED_MS);
  }
}
