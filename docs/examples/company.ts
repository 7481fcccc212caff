// company.ts
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import express from "express";
import { createGateway, flexibleRateLimiter, wrongAddress } from "polygate";
import { relay } from "polygate/backends/relay";
import { route } from "polygate/backends/route";
import { toExpressHandler } from "polygate/express";
import { priceTable } from "polygate/prices";
import { openStores } from "polygate/stores";
import { budgetMetrics, openTelemetry } from "polygate/telemetry";

const { FIRST_URL = "https://api.openai.com/v1", SECOND_URL = "https://api.anthropic.com/v1", ...env } = process.env;
const first = relay({ name: "first", format: "chat-completions", baseUrl: FIRST_URL, apiKey: env["FIRST_KEY"] });
const second = relay({ name: "second", format: "messages", baseUrl: SECOND_URL, apiKey: env["SECOND_KEY"] });
const fallback = { backend: second, weight: 0, model: "claude-haiku-4-5" };
const backend = route({ routes: { "gpt-5-mini": { upstreams: [first, fallback] }, "claude-haiku-4-5": second } });
const prices = priceTable({ "gpt-5-mini": { input: 0.25, output: 2 }, "claude-haiku-4-5": { input: 1, output: 5 } });

/** Ends a start that cannot succeed, with its reason alone. */
const stop = (variables: string) => (error: Error) => {
  console.error(`${variables} cannot be used: ${error.message}`);
  process.exit(1);
};
const stores = await openStores(env["POLYGATE_STORE"] ?? "sqlite:gateway.db", {
  onBudget: ({ name, percent }) => console.warn(`ALERT: the budget ${name} has reached ${percent} %.`),
}).catch(stop("POLYGATE_STORE"));
const perMinute = (count: number) => [stores.counter(count, 60)];
const perKey = { requests: perMinute(20), tokens: perMinute(40_000) };
const gold = { requests: perMinute(200), tokens: perMinute(400_000) };
const rateLimiter = flexibleRateLimiter({ perKey, tiers: { gold: { perKey: gold } } });
const metricsAt = { host: env["METRICS_HOST"] || "127.0.0.1", port: Number(env["METRICS_PORT"] || 9464) };
const exporter = new PrometheusExporter({ ...metricsAt, preventServerStart: true });
const meterProvider = new MeterProvider({ readers: [exporter] });
const stopMetrics = budgetMetrics(meterProvider.getMeter("company"), stores.ports.quotas, { currency: "usd" });
const observer = openTelemetry({ meterProvider, spendBy: ["group", "budget", "key"] });
const onCall = stores.recorder();
const gateway = createGateway({ backend, ...stores.ports, ...prices, rateLimiter, observer, onCall });

const app = express().disable("x-powered-by");
app.use("/ai", toExpressHandler(gateway));
app.get("/healthz", (_request, response) => response.json({ ok: true }));
app.get("/readyz", async (_request, response) => response.sendStatus((await gateway.health()).ready ? 200 : 503));
app.use(({ method, originalUrl, headers }, response) => {
  response.status(404).json(wrongAddress(gateway, method, originalUrl, "/ai", headers)); // Last, for wrong base URLs.
});
await exporter.startServer().catch(stop("METRICS_HOST or METRICS_PORT")); // The metrics tell what each team spends.
const [host, port] = [env["HOST"] || "127.0.0.1", Number(env["PORT"] || 3000)];
const server = app.listen(port, host).once("error", stop("HOST or PORT"));
server.once("listening", () => console.log(`The gateway is at http://${host}:${port}/ai`));
server.keepAliveTimeout = 72_000; // Longer than a proxy keeps idle connections.
const close = async (): Promise<void> => {
  await gateway.close({ deadlineMs: 10_000 });
  await new Promise((resolve) => server.close(resolve));
  stopMetrics();
  await Promise.all([meterProvider.shutdown(), backend.close(), stores.close()]);
};
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void close());
for (const { upstream, problem } of await backend.check()) if (problem) console.error(`${upstream}: ${problem}`);
