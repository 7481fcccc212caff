/** Remembers the keys that had no quota left a moment ago. */

import type { Clock } from "../ports/clock.ts";

/** The number of exhausted keys that are remembered, and the time for which each is, in milliseconds. */
const MAX_EXHAUSTED = 10_000;
const EXHAUSTED_MS = 60_000;

/** Remembers keys that had no quota left, so that the store is asked before the next body of such a key is parsed. Refuses no call. */
export class ExhaustedKeys {
  readonly #clock: Clock;
  /** The time until which each key is remembered, the earliest first. */
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  has(keyId: string): boolean {
    const until = this.#until.get(keyId);
    return until !== undefined && this.#clock.now() < until;
  }

  /** Notes the balance that the store has told. */
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
