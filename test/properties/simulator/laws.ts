/** The laws of quota. They are checked after each step, and the first violation is reported with its step. */

import type { Figures } from "./figures.ts";
import type { Timeline } from "./timeline.ts";

export const LAWS = [
  "what was granted is what remains, is held and was used",
  "what remains never falls below zero",
  "exactly what fits is held",
  "each hold is charged once, and what was not covered is overdraft",
  "what rests on estimates is counted apart",
  "there is no overdraft while something remains",
  "no hold outlives its lease once it is swept",
  "no backend is asked without a hold",
  "an answer that was delivered is charged",
  "a charge reaches the store, or its host is told",
  "a refused call costs nothing",
  "what is charged is what was used",
  "what is noted is what was used",
  "each call ends, and is recorded once",
  "a call leaves no timer behind",
  "a store does what the pipeline asks of it",
  "a budget has what its keys have used and hold, once each",
  "the journal adds up",
] as const;

/** The laws of processes that borrow. */
export const BORROWING_LAWS = [
  "together, processes hand out no more than the quota",
  "overdraft comes from calls that use more than they hold, or settle late",
  "a confirmed charge is in the ledger once, and another at most once",
  "a confirmed estimate is counted as one, and nothing else of it",
  "a call that fits into what is free is admitted in time",
  "a balance is within its bound",
  "what is idle returns to the store",
  "a revoked key is forgotten in time",
  "a settlement is confirmed once the store answers",
] as const;

export type Law = (typeof LAWS | typeof BORROWING_LAWS)[number];

export class Violation extends Error {
  override readonly name = "Violation";
  readonly law: Law;
  readonly step: number;

  constructor(law: Law, step: number, what: string) {
    super(`step ${step}: ${law}: ${what}`);
    this.law = law;
    this.step = step;
  }
}

/** Receives every check, and keeps the first violation: later ones may be its consequences. */
export class Breaches {
  first: Violation | undefined = undefined;
  readonly #timeline: Timeline;
  readonly #figures: Figures;

  constructor(timeline: Timeline, figures: Figures) {
    this.#timeline = timeline;
    this.#figures = figures;
  }

  check(condition: boolean, law: Law, what: () => string): void {
    this.#figures.checks++;
    if (!condition) this.broken(law, what());
  }

  broken(law: Law, what: string): void {
    this.first ??= new Violation(law, this.#timeline.steps, what);
  }
}
