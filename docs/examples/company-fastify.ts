// company-fastify.ts
import { createHash, timingSafeEqual } from "node:crypto";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import fastify from "fastify";
import { createGateway, flexibleRateLimiter, wrongAddress } from "polygate";
import { adminHandler } from "polygate/admin/http";
import { adminPage } from "polygate/admin/page";
import { relay } from "polygate/backends/relay";
import { route } from "polygate/backends/route";
import { toNodeHandler } from "polygate/node";
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
const stores = await openStores(env["POLYGATE_STORE"] ?? "postgres://127.0.0.1/gateway", {
  onBudget: ({ name, percent }) => console.warn(`ALERT: the budget ${name} has reached ${percent} %.`),
}).catch(stop("POLYGATE_STORE"));
const rateLimiter = flexibleRateLimiter({ perKey: { requests: [stores.counter(20, 60)] } });
const metricsAt = { host: env["METRICS_HOST"] || "127.0.0.1", port: Number(env["METRICS_PORT"] || 9464) };
const exporter = new PrometheusExporter({ ...metricsAt, preventServerStart: true });
const meterProvider = new MeterProvider({ readers: [exporter] });
const stopMetrics = budgetMetrics(meterProvider.getMeter("company"), stores.ports.quotas, { currency: "usd" });
const observer = openTelemetry({ meterProvider, spendBy: ["group", "budget", "key"] });
const onCall = stores.recorder();
const gateway = createGateway({ backend, ...stores.ports, ...prices, rateLimiter, observer, onCall });

const digestOf = (text: string) => createHash("sha256").update(text).digest();
/** Lets `ann` and `finn` in with their passwords; `finn` may only look. Put the sessions of your own login in its place. */
function userOf(authorization: string | null) {
  const login = Buffer.from(/^Basic (.+)$/i.exec(authorization ?? "")?.[1] ?? "", "base64").toString();
  const isLogin = (name: string, password = "") =>
    timingSafeEqual(digestOf(login), digestOf(`${name}:${password}`)) && password !== "";
  if (isLogin("ann", env["ADMIN_PASSWORD"])) return { name: "ann" };
  return isLogin("finn", env["ADMIN_READ_PASSWORD"]) ? { name: "finn", readOnly: true } : undefined;
}
const askForPassword = () =>
  new Response("Log in.", { status: 401, headers: { "www-authenticate": 'Basic realm="admin", charset="UTF-8"' } });
const admin = adminHandler(stores.ports.quotas, {
  authorize: ({ headers }) => userOf(headers.get("authorization")) ?? askForPassword(),
  gateway, // For its running calls and its health.
  calls: stores.calls,
  audit: stores.auditLog,
  replayStore: stores.ports.replayStore, // A repeated change is made once, also by another process.
  page: adminPage(),
});

const app = fastify();
// Register the plugins that set headers or refuse requests here, before the hook.
const ai = toNodeHandler(gateway, { prefix: "/ai" });
const adminOfKeys = toNodeHandler(admin, { prefix: "/admin" });
app.addHook("onRequest", ({ raw }, reply, done) => {
  // The gateway writes its answer without Fastify, so copy the headers that plugins have set.
  for (const [name, value = ""] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value);
  ai(raw, reply.raw, (error) => (error ? done(error) : adminOfKeys(raw, reply.raw, done)));
});
app.get("/healthz", () => ({ ok: true }));
app.get("/readyz", async (_request, reply) => {
  const { ready } = await gateway.health();
  return reply.code(ready ? 200 : 503).send({ ready });
});
// For clients with a wrong base URL.
app.setNotFoundHandler(({ method, url, headers }, reply) =>
  reply.code(404).send(wrongAddress(gateway, method, url, "/ai", headers)),
);
const close = async (): Promise<void> => {
  await gateway.close({ deadlineMs: 10_000 });
  await app.close();
  stopMetrics();
  await Promise.all([meterProvider.shutdown(), backend.close(), stores.close()]);
};
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void close());
await exporter.startServer().catch(stop("METRICS_HOST or METRICS_PORT")); // The metrics tell what each team spends.
const listening = app.listen({ host: env["HOST"] || "127.0.0.1", port: Number(env["PORT"] || 3000) });
const address = await listening.catch(stop("HOST or PORT"));
console.log(`The gateway is at ${address}/ai`);
for (const { upstream, problem } of await backend.check()) if (problem) console.error(`${upstream}: ${problem}`);
