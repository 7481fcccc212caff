/** The demo's metrics for Prometheus. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Observer } from "../src/index.ts";
import type { BudgetSource } from "../src/telemetry/index.ts";
import { optional } from "./optional.ts";

/** The observer of the gateway, and the handler of a request for the metrics. */
export interface DemoMetrics {
  readonly observer: Observer;
  /** Adds the budgets of a store. Returns a function to call before the store closes. */
  readonly addBudgets: (quotas: BudgetSource) => () => void;
  readonly answer: (req: IncomingMessage, res: ServerResponse) => void;
}

/** Says which packages the metrics need. */
export function answerWithoutMetrics(_req: IncomingMessage, res: ServerResponse): void {
  const packages = ["api", "sdk-metrics", "exporter-prometheus"].map((name) => `@opentelemetry/${name}`);
  const command = `npx -y ${["polygate", ...packages].map((name) => `-p ${name}`).join(" ")} polygate demo`;
  res.writeHead(404, { "content-type": "text/plain" }).end(`The metrics need more packages: ${command}\n`);
}

/** Makes the metrics. Returns undefined if OpenTelemetry is not installed. */
export async function demoMetrics(): Promise<DemoMetrics | undefined> {
  const packages = await optional(() =>
    Promise.all([
      import("@opentelemetry/exporter-prometheus"),
      import("@opentelemetry/sdk-metrics"),
      import("../src/telemetry/index.ts"),
    ]),
  );
  if (!packages) return undefined;
  const [{ PrometheusExporter }, { MeterProvider }, { budgetMetrics, openTelemetry }] = packages;
  // The demo's own server answers in place of the exporter's.
  const exporter = new PrometheusExporter({ preventServerStart: true, withoutTargetInfo: true });
  const meterProvider = new MeterProvider({ readers: [exporter] });
  return {
    // A real model's name counts as `_OTHER`: any caller may make one up.
    observer: openTelemetry({ meterProvider, models: ["demo-chat"] }),
    addBudgets: (quotas) => budgetMetrics(meterProvider.getMeter("polygate"), quotas, { currency: "usd" }),
    answer(req, res) {
      if (req.method === "GET" || req.method === "HEAD") exporter.getMetricsRequestHandler(req, res);
      else res.writeHead(405, { allow: "GET, HEAD" }).end();
    },
  };
}
