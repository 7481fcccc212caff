/** What stands between a backend and its answer's encoder, whatever is generated: it passes events on and counts their cost. */

import type { ImageUsage } from "../model/image.ts";
import type { Certainty, Usage } from "../model/usage.ts";

/** What was counted so far, by kind. */
export interface MeterReport {
  /** Of chat; undefined where the backend has done nothing yet. */
  readonly usage?: Usage | undefined;
  /** Of pictures. */
  readonly images?: { readonly count: number; readonly usage: ImageUsage };
  /** The model that answers, where the backend says so. */
  readonly model?: string | undefined;
}

/** What tells how much was counted. */
export interface Metered {
  readonly report: MeterReport;
}

/** What tells the cost of what was counted so far. */
export interface Counted {
  /** In units; 0 where the backend has done nothing yet. */
  readonly units: number;
  readonly certainty: Certainty;
}

/** Turns what a backend yields into what is handed on: one start first, one finish last. Counts as it goes. */
export interface Meter<Event, Answered> extends Metered, Counted {
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
}
