/** Metrics for Prometheus, and traces for a collector of OpenTelemetry: both only where the environment asks for them. */

import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import type { Observer } from "polygate";
import { budgetMetrics, openTelemetry } from "polygate/telemetry";
import { host, orStop, portIn, stop } from "./env.ts";
import { stores } from "./stores.ts";

const { METRICS_PORT, OTEL_EXPORTER_OTLP_ENDPOINT } = process.env;
if (OTEL_EXPORTER_OTLP_ENDPOINT && !/^https?:\/\/./.test(OTEL_EXPORTER_OTLP_ENDPOINT))
  stop("OTEL_EXPORTER_OTLP_ENDPOINT must be an address such as http://localhost:4318.");

const resource = resourceFromAttributes({ "service.name": "gateway" });

/** Serves metrics on a port of their own. */
const metrics = METRICS_PORT
  ? new PrometheusExporter({
      host,
      port: portIn("METRICS_PORT", METRICS_PORT),
      preventServerStart: true,
    })
  : undefined;
const meterProvider = metrics && new MeterProvider({ resource, readers: [metrics] });
await orStop("HOST and METRICS_PORT", () => metrics?.startServer());

/** Adds what each budget has used and left, from the database. */
const removeBudgetMetrics =
  meterProvider && budgetMetrics(meterProvider.getMeter("gateway"), stores.ports.quotas, { currency: "usd" });

/** Sends a span for each call. The exporter reads the address from the environment. */
const tracerProvider = OTEL_EXPORTER_OTLP_ENDPOINT
  ? new TracerProvider({ resource, spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })] })
  : undefined;

export const observer: Observer | undefined =
  meterProvider || tracerProvider
    ? openTelemetry({ ...(meterProvider && { meterProvider }), ...(tracerProvider && { tracerProvider }) })
    : undefined;

/** Reads the budgets no more, sends the last spans, and closes the port of the metrics. */
export async function closeTelemetry(): Promise<void> {
  removeBudgetMetrics?.();
  await Promise.allSettled([meterProvider?.shutdown(), tracerProvider?.shutdown()]);
}
