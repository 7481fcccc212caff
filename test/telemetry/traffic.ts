/** A gateway that Prometheus can scrape, and calls of all sorts: they complete, stream, are refused, fail and are not settled. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import {
  createGateway,
  type Gateway,
  GatewayError,
  memoryQuotaStore,
  type ModelBackend,
  type QuotaStore,
} from "../../src/index.ts";
import { priceTable } from "../../src/prices/index.ts";
import { budgetMetrics, openTelemetry } from "../../src/telemetry/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { verbsOf } from "../pipeline/bench.ts";

/** The metrics of a gateway, as Prometheus reads them, and its traffic. */
export interface ScrapedGateway extends AsyncDisposable {
  /** The address of the metrics. */
  readonly url: string;
  /** Sends one call of each sort. Resolves when their answers are read, but for a stream that stays open. */
  readonly send: () => Promise<void>;
  /** The same again, without calls that the store does not settle. */
  readonly sendSettled: () => Promise<void>;
}

const USAGE = {
  prompt_tokens: 40,
  completion_tokens: 20,
  prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 5, audio_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 8 },
};

const chunk = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "small-1", choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;

/** An upstream that answers chat, also in streams, and embeddings. */
async function upstream(url: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(url, init);
  const { stream, messages } = (await request.json()) as { stream?: boolean; messages?: { content: unknown }[] };
  if (new URL(request.url).pathname.endsWith("/embeddings"))
    return Response.json({ data: [{ embedding: [1] }], model: "embed-1", usage: { prompt_tokens: 3 } });
  if (!stream) {
    const message = { role: "assistant", content: "Hello." };
    return Response.json({
      id: "1",
      object: "chat.completion",
      created: 1,
      model: "small-1",
      choices: [{ index: 0, message, finish_reason: "stop" }],
      usage: USAGE,
    });
  }
  const isEndless = JSON.stringify(messages).includes("endless");
  const first = chunk({ role: "assistant", content: "Hello." });
  if (!isEndless)
    return eventStream([
      first,
      chunk({}, { finish_reason: "stop" }),
      `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "small-1", choices: [], usage: USAGE })}\n\n`,
      "data: [DONE]\n\n",
    ]);
  return new Response(
    new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode(first)) }),
    {
      headers: { "content-type": "text/event-stream" },
    },
  );
}

const eventStream = (parts: readonly string[]): Response =>
  new Response(parts.join(""), { headers: { "content-type": "text/event-stream" } });

const broken: ModelBackend = {
  // oxlint-disable-next-line require-yield -- fails first
  async *chat() {
    throw new GatewayError("backend_unavailable", "Away.");
  },
};

const KEYS = [
  { apiKey: "sk-rich", id: "rich", granted: 1_000_000_000, budget: "blue", metadata: { group: "sea" } },
  { apiKey: "sk-poor", id: "poor", granted: 1 },
  { apiKey: "sk-lost", id: "lost", granted: 1_000_000_000 },
  { apiKey: "sk-shared", id: "shared", budget: "empty" },
  { apiKey: "sk-over", id: "over", budget: "overdrawn" },
];

/** Starts the gateway and a server for its metrics. */
export async function scrapedGateway(): Promise<ScrapedGateway> {
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const meterProvider = new MeterProvider({ readers: [exporter] });
  const observer = openTelemetry({ meterProvider, spendBy: ["group", "budget", "key"] });
  const main = relay({ name: "main", format: "chat-completions", baseUrl: "http://upstream.test/v1", fetch: upstream });
  const store = memoryQuotaStore(KEYS, {
    budgets: [
      { id: "empty", amount: 1, period: "month" },
      // The second call lowers its output limit to the rest, and the upstream pays no attention to the limit.
      { id: "overdrawn", amount: 700 },
      { id: "blue", name: "The blue team", amount: 2_000_000_000, period: "month" },
    ],
  });
  budgetMetrics(meterProvider.getMeter("team"), store, { currency: "usd" });
  const lost = new Set<string>();
  const quotas: QuotaStore = {
    ...verbsOf(store),
    async reserve(hold, call) {
      if (hold.keyId === "lost") lost.add(hold.id);
      return store.reserve(hold, call);
    },
    async settle(id, outcome, call) {
      // The port's contract: such an amount can never be taken, so the settlement is given up.
      if (lost.has(id)) throw new RangeError("The store takes no such amount.");
      return store.settle(id, outcome, call);
    },
  };
  const gateway = createGateway({
    backend: route({
      routes: {
        "small-1": {
          upstreams: [
            { backend: broken, name: "broken" },
            { backend: main, name: "main", weight: 0 },
          ],
        },
        "embed-1": main,
        "alias-1": { upstreams: [{ backend: main, name: "main", model: "renamed-1" }] },
        "alias-embed": { upstreams: [{ backend: main, name: "main", model: "renamed-embed" }] },
        "down-1": broken,
      },
      breaker: { failures: 1 },
      retry: { rounds: 1 },
    }),
    quotas,
    ...priceTable({
      "small-1": { input: 3, output: 15 },
      "embed-1": { input: 1, output: 0 },
      "renamed-1": { input: 3, output: 15 },
      "renamed-embed": { input: 1, output: 0 },
      "*": { input: 1, output: 1 },
    }),
    rateLimiter: {
      begin: async (_demand, call) => {
        const limit = call?.headers.get("x-limit");
        if (limit === "down") throw new Error("The limiter is away.");
        return { limits: [], ...(limit === "requests" && { refused: { by: limit, retryAfterMs: 1_000 } }) };
      },
      take: async () => ({ limits: [] }),
      end: async () => {},
    },
    observer,
    onFailure: () => {},
  });
  const server = createServer((request, response) => exporter.getMetricsRequestHandler(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const open: ReadableStreamDefaultReader[] = [];
  const send = call(gateway);
  const sendSettled = async (): Promise<void> => {
    await send({ model: "small-1" });
    await send({ model: "small-1", stream: true });
    await send({ model: "embed-1" }, { path: "/v1/embeddings", extra: { input: "Hello" } });
    await send({ model: "alias-1", stream: true });
    await send({ model: "alias-embed" }, { path: "/v1/embeddings", extra: { input: "Hello" } });
    await send({ model: "small-1" }, { key: "sk-poor" });
    await send({ model: "small-1" }, { key: "sk-shared" });
    await send({ model: "small-1" }, { key: "sk-over" });
    await send({ model: "small-1" }, { key: "sk-nobody" });
    await send({ model: "small-1" }, { headers: { "x-limit": "requests" } });
    await send({ model: "small-1" }, { headers: { "x-limit": "down" } });
    await send({ model: "down-1" });
    await send({ model: "invented" });
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`,
    sendSettled,
    async send() {
      await sendSettled();
      await send({ model: "small-1" }, { key: "sk-lost" });
      const response = await gateway.fetch(
        requestTo("/v1/chat/completions", "sk-rich", { model: "small-1", stream: true, messages: said("endless") }),
      );
      const reader = response.body?.getReader();
      if (!reader) throw new Error("The stream has no body.");
      await reader.read();
      open.push(reader);
    },
    async [Symbol.asyncDispose]() {
      for (const reader of open) await reader.cancel();
      await gateway.close({ deadlineMs: 1_000 });
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const said = (content: string): object[] => [{ role: "user", content }];

function requestTo(path: string, key: string, body: object, headers: Record<string, string> = {}): Request {
  return new Request(`http://gateway.test${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

interface How {
  readonly path?: string;
  readonly key?: string;
  readonly extra?: object;
  readonly headers?: Record<string, string>;
}

/** Returns a function that sends a call and reads its answer. */
const call =
  (gateway: Gateway) =>
  async (body: object, { path = "/v1/chat/completions", key = "sk-rich", extra, headers }: How = {}): Promise<void> => {
    const response = await gateway.fetch(
      requestTo(path, key, { ...body, ...(extra ?? { messages: said("Hello"), max_tokens: 100 }) }, headers),
    );
    await response.text();
  };
