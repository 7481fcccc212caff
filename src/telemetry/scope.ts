/** What the telemetry of all calls works with, all of it decided. */

import type { Attributes, TextMapPropagator, Tracer } from "@opentelemetry/api";
import type { CallRecord } from "../index.ts";
import type { Instruments } from "./instruments.ts";

export interface Scope {
  readonly tracer: Tracer;
  readonly instruments: Instruments;
  readonly propagator: TextMapPropagator;
  readonly incoming: "parent" | "link" | "ignore";
  /** Models that the host has named for its metrics. */
  readonly models: ReadonlySet<string>;
  spanAttributes(record: CallRecord): Attributes;
}
