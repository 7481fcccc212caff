/** What stands between a backend and its answer's encoder, whatever is generated: it passes events on and counts their cost. */

import type { Certainty } from "../model/usage.ts";

/** Turns what a backend yields into what is handed on: one start first, one finish last. Counts as it goes. */
export interface Meter<Event, Answered> {
  /** The start of the answer; from the backend's first event, where that has come in time. */
  start(first: Event | undefined): Answered;
  /** What of an event is handed on, if anything. The first event comes here too. */
  observe(event: Event): Answered | undefined;
  /** The backend is done: what was counted is final. */
  complete(): void;
  /** The end of the answer, once the meter is complete. */
  finish(): Answered;
  /** Whether so much has come that the backend must be ignoring its limits. */
  readonly overrun: boolean;
  /** What to charge so far, in units; 0 where the backend has done nothing yet. */
  readonly units: number;
  readonly certainty: Certainty;
}
