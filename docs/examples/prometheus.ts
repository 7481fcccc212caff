// prometheus.ts
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import express from "express";
import { createGateway, memoryQuotaStore } from "polygate";
import { toExpressHandler } from "polygate/express";
import { priceTable, unitsOfMoney } from "polygate/prices";
import { budgetMetrics, openTelemetry } from "polygate/telemetry";
import { myBackend } from "./backend.ts";

const exporter = new PrometheusExporter({ preventServerStart: true });
const meterProvider = new MeterProvider({ readers: [exporter] });

const budgets = [{ id: "team-a", amount: unitsOfMoney(300), period: "month" as const }];
const quotas = memoryQuotaStore([{ apiKey: "sk-team-a", id: "anna", budget: "team-a" }], { budgets });

budgetMetrics(meterProvider.getMeter("team"), quotas, { currency: "usd" });

const gateway = createGateway({
  backend: myBackend,
  quotas,
  ...priceTable({ "*": { input: 3, output: 15 } }),
  observer: openTelemetry({ meterProvider, spendBy: ["group", "budget", "key"] }),
});

const app = express().disable("x-powered-by");
app.use("/ai", toExpressHandler(gateway));
// Let only Prometheus reach this path: it tells what each team spends.
app.get("/metrics", (request, response) => exporter.getMetricsRequestHandler(request, response));
app.listen(3000, "127.0.0.1", (error) => error && console.error(`The port cannot be used: ${error.message}`));
