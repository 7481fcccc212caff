// prometheus.ts
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import express from "express";
import { createGateway, memoryQuotaStore } from "polygate";
import { toExpressHandler } from "polygate/express";
import { budgetMetrics, openTelemetry } from "polygate/telemetry";
import { myBackend } from "./backend.ts";

const exporter = new PrometheusExporter({ preventServerStart: true });
const meterProvider = new MeterProvider({ readers: [exporter] });

const budgets = [{ id: "team-a", amount: 1_000_000, period: "month" as const }];
const quotas = memoryQuotaStore([{ apiKey: "sk-team-a", id: "anna", budget: "team-a" }], { budgets });

budgetMetrics(meterProvider.getMeter("team"), quotas);

const gateway = createGateway({
  backend: myBackend,
  quotas,
  observer: openTelemetry({ meterProvider, spendBy: ["group", "budget", "key"] }),
});

const app = express();
app.use("/ai", toExpressHandler(gateway));
app.get("/metrics", (request, response) => exporter.getMetricsRequestHandler(request, response));
app.listen(3000);
