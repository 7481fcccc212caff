/** The playground's metrics, as Prometheus reads them. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import type { Observer } from "../src/index.ts";
import { openTelemetry } from "../src/telemetry/index.ts";

// The playground's own server answers in place of the exporter's.
const exporter = new PrometheusExporter({ preventServerStart: true, withoutTargetInfo: true });

/** Counts what the gateway does. A real model's name counts as `_OTHER`: any caller may make one up. */
export const observer: Observer = openTelemetry({
  meterProvider: new MeterProvider({ readers: [exporter] }),
  models: ["demo-chat"],
});

/** Answers a request for `/metrics`; false, at once, for any other. */
export function answerMetrics(req: IncomingMessage, res: ServerResponse): boolean {
  if (!/^\/metrics(?:\?|$)/.test(req.url ?? "")) return false;
  if (req.method === "GET" || req.method === "HEAD") exporter.getMetricsRequestHandler(req, res);
  else res.writeHead(405, { allow: "GET, HEAD" }).end();
  return true;
}
