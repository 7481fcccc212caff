/** polygate/telemetry: traces and metrics of a gateway, with OpenTelemetry. It needs the optional peer `@opentelemetry/api`. */

import {
  type Attributes,
  createTraceState,
  isSpanContextValid,
  type MeterProvider,
  metrics,
  type SpanContext,
  type TextMapGetter,
  type TextMapPropagator,
  trace,
  TraceFlags,
  type TracerProvider,
} from "@opentelemetry/api";
import type { CallRecord, Observer } from "../index.ts";
import { assertNodeVersion } from "../node-version.ts";
import { assertOptions, listOf, portOf } from "../options.ts";
import { BudgetLabels } from "./budgets.ts";
import { ObservedCall, type Telemetry } from "./call.ts";
import { Gauges, Instruments } from "./instruments.ts";
import { ModelLabels } from "./models.ts";
import { Spend, SPEND_COLUMNS, type SpendColumn } from "./spend.ts";

assertNodeVersion();

export { budgetMetrics, type BudgetMetricsOptions, type BudgetSource } from "./budgets.ts";
export type { SpendColumn } from "./spend.ts";

/** The options of `openTelemetry`. */
export interface OpenTelemetryOptions<Context = unknown> {
  /** Makes the spans. Default: the provider that is registered globally, before or after the call of `openTelemetry`. */
  readonly tracerProvider?: TracerProvider;
  /** Makes the metrics. Default: the provider that is registered globally when `openTelemetry` is called, so register it first. */
  readonly meterProvider?: MeterProvider;
  /**
   * Reads the caller's trace context and writes the upstream's. Default: W3C trace context, `traceparent` and `tracestate`. Baggage is left
   * out, because it would pass data of callers on to the upstream.
   */
  readonly propagator?: TextMapPropagator;
  /**
   * The use of a caller's trace context. `parent` (default) continues the caller's trace and its sampling decision; `link` starts a new
   * trace with a link to the caller's; `ignore` starts a new trace. If a span of the host is active when the call begins, such as that of
   * its HTTP server, it is the parent in any case.
   */
  readonly incoming?: "parent" | "link" | "ignore";
  /**
   * Models that are always a metric's label and part of a span's name. So are up to 200 others: the first that are called of those that the
   * backend lists, and of the names without `*` in `priceTable` and in a route. Callers can invent names, so all other models are counted
   * together as `_OTHER`. Default: none.
   */
  readonly models?: readonly string[];
  /**
   * The labels of the counter `polygate.spend`: `group`, `budget` and `key` of a call's key. The first 1,000 sets of labels have a series of
   * their own, and all others share `_OTHER`; so name `key` only for a few hundred keys. Default: `group` and `budget`.
   */
  readonly spendBy?: readonly SpendColumn[];
  /** Returns the group of a call. Default: the entry `group` of the key's metadata. */
  groupOf?(this: void, record: CallRecord<Context>): string | undefined;
  /** Returns further attributes of a call's span, such as the id of its key. Default: none. */
  spanAttributes?(record: CallRecord<Context>): Attributes;
}

/** The name of the instrumentation. */
const NAME = "polygate";
/** The version of the package. */
const VERSION = "0.1.0";

/**
 * Returns an observer that makes traces and metrics by OpenTelemetry's conventions for generative AI: a span for each call with a child
 * span for each upstream request of a relay, and metrics of calls, tokens, holds and limits. Spans and metrics contain no prompts, answers
 * or api keys. Pass the observer to the gateway: the metrics then have the circuit breakers of its routes, too.
 *
 * Register the SDK first. Errors of its tracer or meter do not affect calls.
 *
 * @example
 * import { createGateway, memoryQuotaStore } from "polygate";
 * import { openTelemetry } from "polygate/telemetry";
 * import { backend } from "./route.ts";
 *
 * const quotas = memoryQuotaStore([{ apiKey: "sk-team-a" }]);
 * export const gateway = createGateway({ backend, quotas, observer: openTelemetry() });
 */
export function openTelemetry<Context = unknown>(options: OpenTelemetryOptions<Context> = {}): Observer<Context> {
  // The host alone knows the type of its context.
  const own: OpenTelemetryOptions = options;
  assertOptions<OpenTelemetryOptions>("openTelemetry", options, {
    tracerProvider: { optional: portOf(["getTracer"], "a TracerProvider") },
    meterProvider: { optional: portOf(["getMeter"], "a MeterProvider") },
    propagator: { optional: portOf(["inject", "extract", "fields"], "a TextMapPropagator") },
    incoming: { optional: ["parent", "link", "ignore"] },
    models: { optional: listOf("string") },
    spendBy: { optional: listOf(SPEND_COLUMNS) },
    groupOf: "function?",
    spanAttributes: "function?",
  });
  const { tracerProvider = trace.getTracerProvider(), meterProvider = metrics.getMeterProvider() } = options;
  const meter = meterProvider.getMeter(NAME, VERSION);
  const models = new ModelLabels(options.models);
  const spend = new Spend(options.spendBy, own.groupOf);
  const gauges = new Gauges(meter, spend);
  const telemetry: Telemetry = {
    tracer: tracerProvider.getTracer(NAME, VERSION),
    instruments: new Instruments(meter),
    propagator: options.propagator ?? w3cTraceContext,
    incoming: options.incoming ?? "parent",
    models,
    budgets: new BudgetLabels(),
    spend,
    spanAttributes: (record) => own.spanAttributes?.(record) ?? {},
  };
  return {
    watchGateway(gateway) {
      const forgets = [gauges.addGateway(gateway), models.addGateway(gateway)];
      return () => {
        for (const forget of forgets) forget();
        spend.end();
      };
    },
    watchBreakers: (breakers) => gauges.addBreakers(breakers),
    begin: (call) => new ObservedCall(telemetry, call),
  };
}

const TRACEPARENT = /^(?!ff)([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;

/**
 * Reads and writes W3C trace context, `traceparent` and `tracestate`. The package `@opentelemetry/api` contains no propagator, and the SDK
 * may be absent.
 */
const w3cTraceContext: TextMapPropagator = {
  extract(context, carrier, getter) {
    const remote = remoteContext(carrier, getter);
    return remote ? trace.setSpanContext(context, remote) : context;
  },

  inject(context, carrier, setter) {
    const own = trace.getSpanContext(context);
    if (!own || !isSpanContextValid(own)) return;
    const flags = (own.traceFlags & 0xff).toString(16).padStart(2, "0");
    setter.set(carrier, "traceparent", `00-${own.traceId}-${own.spanId}-${flags}`);
    const state = own.traceState?.serialize();
    if (state) setter.set(carrier, "tracestate", state);
  },

  fields: () => ["traceparent", "tracestate"],
};

/** Returns the caller's span, or undefined without a valid `traceparent`. */
function remoteContext<Carrier>(carrier: Carrier, getter: TextMapGetter<Carrier>): SpanContext | undefined {
  const [, version, traceId = "", spanId = "", flags = "", rest] =
    TRACEPARENT.exec(String(getter.get(carrier, "traceparent"))) ?? [];
  // A `traceparent` of version 00 has no further fields. Later versions may have some.
  if (version === undefined || (version === "00" && rest !== undefined)) return undefined;
  const traceFlags = Number.parseInt(flags, 16) & 1 ? TraceFlags.SAMPLED : TraceFlags.NONE;
  const state = getter.get(carrier, "tracestate");
  const traceState = typeof state === "string" && { traceState: createTraceState(state) };
  const remote = { traceId, spanId, traceFlags, isRemote: true, ...traceState };
  return isSpanContextValid(remote) ? remote : undefined;
}
