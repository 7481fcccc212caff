/** The interface of meters, for all kinds. A meter passes on the events of one answer, and counts their cost. */

import type { Certainty, Usage } from "../model/usage.ts";
import type { UpstreamModel } from "../ports/model-backend.ts";
import type { ImageUsage } from "./image/request.ts";

/** The lowest and the highest cost of a call, in quota units. */
export interface Amounts {
  /** Refuse the call when the key has fewer units. */
  readonly atLeast: number;
  /** The highest possible cost of the call. */
  readonly atMost: number;
}

/** The counts so far. Each kind sets its own fields. */
export interface MeterReport {
  /** The tokens of a chat or an embedding; undefined until the backend has sent content or usage. */
  readonly usage?: Usage | undefined;
  readonly images?: { readonly count: number; readonly usage: ImageUsage };
  /** All tokens of the call, for rate limits; 0 while the backend has done nothing. */
  readonly tokens: number;
  /** The answering model, when the backend names it. */
  readonly model?: string | undefined;
}

/** The part of a meter that the record of a call uses. */
export interface Metered {
  readonly report: MeterReport;
  /** Throws the error of the host's price when it has none for a call that this upstream answers. */
  assertPrice(upstream: UpstreamModel): void;
}

/** The part of a meter that decides the charge of a hold. */
export interface Counted {
  /** The cost so far, in units; 0 until the backend has sent something that costs. */
  readonly units: number;
  readonly certainty: Certainty;
}

/** Turns a backend's events into the events of an answer: one start first, one finish last. */
export interface Meter<Event, Answered> extends Metered, Counted {
  /**
   * Returns the start of the answer.
   *
   * @param first The backend's first event; undefined when the backend sent nothing before the keep-alive time.
   */
  start(first: Event | undefined): Answered;
  /** Counts an event. Must also be called for the first event. Returns the event to pass on, or undefined to swallow it. */
  observe(event: Event): Answered | undefined;
  /** Makes the counts final. Called when the backend has ended its answer. */
  complete(): void;
  /** Returns the end of the answer. The meter must be complete. */
  finish(): Answered;
  /** True when the answer is so long that the backend must be ignoring its limit. */
  readonly overrun: boolean;
  /** True after an event whose count takes milliseconds: the event loop then serves others before the event is written. */
  readonly isHeavy?: boolean;
}
