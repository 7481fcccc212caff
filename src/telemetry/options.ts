/** What a host may set for its gateway's telemetry. */

import type { Attributes, MeterProvider, TextMapPropagator, TracerProvider } from "@opentelemetry/api";
import type { CallRecord } from "../index.ts";

/** Which OpenTelemetry is used, and what it is told. */
export interface OpenTelemetryOptions {
  /** Makes the spans. Default: the one that is registered globally when `openTelemetry` is called, or later. */
  readonly tracerProvider?: TracerProvider;
  /** Makes the metrics. Default: the one that is registered globally when `openTelemetry` is called: register it before. */
  readonly meterProvider?: MeterProvider;
  /**
   * Reads the caller's trace context, and writes it for the upstream. Default: W3C trace context, `traceparent` and `tracestate`; no
   * baggage, which would hand the callers' data on to the upstream.
   */
  readonly propagator?: TextMapPropagator;
  /**
   * What becomes of a caller's trace context: `parent` (default) makes the call a part of the caller's trace, and takes over whether
   * that is sampled; `link` begins a new trace with a link to it; `ignore` begins a new trace. A span of the host's own that is active
   * when the call begins, such as its HTTP server's, is the parent in any case.
   */
  readonly incoming?: "parent" | "link" | "ignore";
  /**
   * The models that may be a metric's label and part of a span's name, beside those that the backend lists. All others, which callers
   * may make up, are counted together as `_OTHER`. Default: none.
   */
  readonly models?: readonly string[];
  /** Further attributes of a call's span, such as its key's id. Default: none. */
  spanAttributes?(record: CallRecord): Attributes;
}
