// telemetry.ts
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { ConsoleSpanExporter } from "@opentelemetry/sdk-trace";
import { createGateway, memoryQuotaStore } from "polygate";
import { openTelemetry } from "polygate/telemetry";
import { myBackend } from "./backend.ts";

// The exporter reads the address of the collector itself, such as http://localhost:4318.
const traceExporter = process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] ? new OTLPTraceExporter() : new ConsoleSpanExporter();

// Without `metricReaders`, the SDK sends metrics to the collector, too. Here Prometheus reads them: see prometheus.ts.
const sdk = new NodeSDK({ serviceName: "gateway", traceExporter, metricReaders: [] });
// Start the SDK before `openTelemetry` is called: the OpenTelemetry API hands out its meters only once.
sdk.start();

export const gateway = createGateway({
  backend: myBackend,
  quotas: memoryQuotaStore([{ apiKey: "sk-team-a" }]),
  observer: openTelemetry(),
});

export async function stop(): Promise<void> {
  await gateway.close();
  // Sends the last spans.
  await sdk.shutdown();
}

process.once("SIGTERM", () => void stop());
