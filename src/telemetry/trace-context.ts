/** W3C trace context: `traceparent` and `tracestate`, read and written without any SDK. */

import {
  createTraceState,
  isSpanContextValid,
  type SpanContext,
  type TextMapGetter,
  type TextMapPropagator,
  trace,
  TraceFlags,
} from "@opentelemetry/api";

const TRACEPARENT = /^(?!ff)([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;

export const w3cTraceContext: TextMapPropagator = {
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

/** The caller's span; undefined where it names none, or not as it should. */
function remoteContext<Carrier>(carrier: Carrier, getter: TextMapGetter<Carrier>): SpanContext | undefined {
  const [, version, traceId = "", spanId = "", flags = "", rest] =
    TRACEPARENT.exec(String(getter.get(carrier, "traceparent"))) ?? [];
  // The first version ends here; what a later one adds is not known.
  if (version === undefined || (version === "00" && rest !== undefined)) return undefined;
  const traceFlags = Number.parseInt(flags, 16) & 1 ? TraceFlags.SAMPLED : TraceFlags.NONE;
  const state = getter.get(carrier, "tracestate");
  const traceState = typeof state === "string" && { traceState: createTraceState(state) };
  const remote = { traceId, spanId, traceFlags, isRemote: true, ...traceState };
  return isSpanContextValid(remote) ? remote : undefined;
}

/** A request's headers, as a propagator reads them. */
export const headersGetter: TextMapGetter<Headers> = {
  get: (headers, name) => headers.get(name) ?? undefined,
  keys: (headers) => [...headers.keys()],
};
