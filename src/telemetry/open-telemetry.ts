/** openTelemetry: an observer of gateways that makes spans and metrics. */

import { metrics, trace } from "@opentelemetry/api";
import type { BegunCall, BreakerGauge, CallObserver, GatewayGauges, Observer } from "../index.ts";
import { ObservedCall } from "./call.ts";
import { Gauges } from "./gauges.ts";
import { Instruments } from "./instruments.ts";
import type { OpenTelemetryOptions } from "./options.ts";
import type { Scope } from "./scope.ts";
import { w3cTraceContext } from "./trace-context.ts";

/** Under which name the instrumentation is known. */
const SCOPE = "polygate";

/**
 * Traces and metrics by the GenAI semantic conventions of OpenTelemetry: a span for each call, one below it for each upstream that a
 * relay asks, and metrics of calls, tokens, holds and limits. Neither prompts nor answers nor api keys are in any of them. Hand it to
 * the gateway, and to `route` as well where the state of its breakers is wanted.
 *
 * Register the SDK before. What its tracer or meter throws changes no call.
 *
 * @example
 * const observer = openTelemetry();
 * const gateway = createGateway({ backend, quotas, observer });
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Observer {
  return new OpenTelemetry(options);
}

class OpenTelemetry implements Observer {
  readonly #scope: Scope;
  readonly #gauges: Gauges;

  constructor(options: OpenTelemetryOptions) {
    const { tracerProvider = trace.getTracerProvider(), meterProvider = metrics.getMeterProvider() } = options;
    const meter = meterProvider.getMeter(SCOPE);
    this.#gauges = new Gauges(meter);
    this.#scope = {
      tracer: tracerProvider.getTracer(SCOPE),
      instruments: new Instruments(meter),
      propagator: options.propagator ?? w3cTraceContext,
      incoming: options.incoming ?? "parent",
      models: new Set(options.models),
      spanAttributes: (record) => options.spanAttributes?.(record) ?? {},
    };
  }

  watchGateway(gauges: GatewayGauges): () => void {
    return this.#gauges.addGateway(gauges);
  }

  watchBreakers(breakers: readonly BreakerGauge[]): void {
    this.#gauges.addBreakers(breakers);
  }

  begin(call: BegunCall): CallObserver {
    return new ObservedCall(this.#scope, call);
  }
}
