/** Whose trace a call belongs to, in and out, and what is active while a backend runs. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { context, SpanKind, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { createGateway, type Gateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { relay, type RelayOptions } from "../../src/upstreams/relay/index.ts";
import { counted, never, readUntil, speaking, WORD } from "../pipeline/bench.ts";
import { collected, only, watched } from "./stage.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const SPAN_ID = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE_ID}-${SPAN_ID}-01`;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterAll(() => context.disable());

const idOf = (span: ReadableSpan | undefined): string | undefined => span?.spanContext().spanId;

const placeOf = (span: ReadableSpan): object => ({
  traceId: span.spanContext().traceId,
  parent: span.parentSpanContext?.spanId,
});

describe("a caller's trace context", () => {
  it("is the parent of the call's span", async () => {
    const bench = watched();
    await bench.send({ headers: { traceparent: TRACEPARENT, tracestate: "vendor=1,other=2" } });
    const span = only(bench.spans());
    expect(placeOf(span)).toEqual({ traceId: TRACE_ID, parent: SPAN_ID });
    expect(span.spanContext().traceState?.serialize()).toBe("vendor=1,other=2");
    expect(span.kind).toBe(SpanKind.SERVER);
  });

  it("decides whether the call is sampled", async () => {
    const bench = watched();
    await bench.send({ headers: { traceparent: `00-${TRACE_ID}-${SPAN_ID}-00` } });
    expect(bench.spans()).toEqual([]);
    // What is not traced is measured all the same.
    expect(await bench.metrics()).toHaveProperty(["gen_ai.server.request.duration"]);
  });

  it("of a later version is read as far as it is known", async () => {
    const bench = watched();
    await bench.send({ headers: { traceparent: `cc-${TRACE_ID}-${SPAN_ID}-01-what-comes-then` } });
    expect(placeOf(only(bench.spans()))).toEqual({ traceId: TRACE_ID, parent: SPAN_ID });
  });

  it.each([
    "",
    "nothing",
    `ff-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${SPAN_ID}-01-more`,
    `00-${TRACE_ID}-${SPAN_ID}`,
    `00-${"0".repeat(32)}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${"0".repeat(16)}-01`,
    `00-${TRACE_ID.toUpperCase()}-${SPAN_ID}-01`,
    `${TRACEPARENT}, ${TRACEPARENT}`,
    "-".repeat(10_000),
  ])("that is none (%j) begins a trace of its own", async (traceparent) => {
    const bench = watched();
    expect((await bench.send({ headers: { traceparent, tracestate: "a=b" } })).status).toBe(200);
    const span = only(bench.spans());
    expect(span.parentSpanContext).toBeUndefined();
    expect(span.spanContext().traceId).not.toBe(TRACE_ID);
  });

  it("may be linked instead, or ignored", async () => {
    const links = [];
    for (const incoming of ["link", "ignore"] as const) {
      const bench = watched({}, { incoming });
      await bench.send({ headers: { traceparent: TRACEPARENT } });
      const span = only(bench.spans());
      expect(span.parentSpanContext).toBeUndefined();
      links.push(span.links.map((link) => link.context.spanId));
    }
    expect(links).toEqual([[SPAN_ID], []]);
  });

  it("gives way to a span of the host's own that is active", async () => {
    const bench = watched();
    const host = trace.wrapSpanContext({ traceId: "1".repeat(32), spanId: "2".repeat(16), traceFlags: 1 });
    await context.with(trace.setSpan(context.active(), host), () =>
      bench.send({ headers: { traceparent: TRACEPARENT } }),
    );
    const span = only(bench.spans());
    expect(placeOf(span)).toEqual({ traceId: "1".repeat(32), parent: "2".repeat(16) });
    expect(span.kind).toBe(SpanKind.INTERNAL);
  });
});

it.each([false, true])("a backend runs inside its call's span, in each of its steps (stream: %s)", async (stream) => {
  const seen: (string | undefined)[] = [];
  const look = (): unknown => seen.push(trace.getActiveSpan()?.spanContext().spanId);
  async function* steps(): AsyncGenerator<string> {
    try {
      look();
      yield WORD;
      look();
      await Promise.resolve();
      look();
      yield WORD;
    } finally {
      look();
    }
  }
  // No generator itself: what it does at once belongs to the call as well.
  const bench = watched({ backend: { chat: () => (look(), steps()) } });
  await (await bench.send({ body: { stream } })).text();
  await bench.clock.advance(0);
  const { spanId } = only(bench.spans()).spanContext();
  expect(seen).toEqual(Array.from({ length: 5 }, () => spanId));
  expect(trace.getActiveSpan()).toBeUndefined();
});

/** Another gateway behind a socket, as an upstream of any format. */
async function upstream(
  backend: ModelBackend,
): Promise<AsyncDisposable & { gateway: Gateway; url: string } & ReturnType<typeof collected>> {
  const collecting = collected({ models: ["large"] });
  const quotas = memoryQuotaStore([{ apiKey: "sk-upstream-key" }]);
  const gateway = createGateway({ backend, quotas, observer: collecting.observer, onFailure: () => {} });
  const server = createServer(toNodeHandler(gateway));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...collecting,
    gateway,
    url,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

const relayTo = (url: string, more: Partial<RelayOptions> = {}): ReturnType<typeof relay> =>
  relay({
    format: "chat-completions",
    baseUrl: `${url}/v1`,
    apiKey: "sk-upstream-key",
    models: { any: "large" },
    ...more,
  });

describe("a relay to another format", () => {
  it.each([
    [false, undefined],
    [true, undefined],
    [true, fetch],
  ])("has its span below the call's, and the upstream's server below that (stream: %s)", async (stream, ownFetch) => {
    await using far = await upstream(speaking(WORD, WORD, counted(7)));
    const backend = relayTo(far.url, ownFetch && { fetch: ownFetch });
    const near = watched({ backend });
    const headers = { traceparent: TRACEPARENT, tracestate: "vendor=1" };
    await (await near.send({ headers, body: { stream } })).text();
    await near.clock.advance(0);
    await backend.close();
    await expect.poll(() => far.spans()).toHaveLength(1);
    const { call, asked } = Object.fromEntries(
      near.spans().map((span) => [span.kind === SpanKind.CLIENT ? "asked" : "call", span]),
    );
    const answered = only(far.spans());
    expect(near.spans()).toHaveLength(2);
    expect([call, asked, answered].map((span) => span && placeOf(span))).toEqual([
      { traceId: TRACE_ID, parent: SPAN_ID },
      { traceId: TRACE_ID, parent: idOf(call) },
      { traceId: TRACE_ID, parent: idOf(asked) },
    ]);
    expect(answered.spanContext().traceState?.serialize()).toBe("vendor=1");
    expect([call?.name, asked?.name, answered.name]).toEqual([
      "POST /v1/messages",
      "chat large",
      "POST /v1/chat/completions",
    ]);
    expect(asked?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "large",
      "gen_ai.response.model": "large",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.output_tokens": 7,
      "http.response.status_code": 200,
      "server.address": "127.0.0.1",
      "server.port": Number(new URL(far.url).port),
    });
    const measured = await near.metrics();
    const labels = { "gen_ai.request.model": "large", "gen_ai.provider.name": "openai" };
    expect(measured["gen_ai.client.inference.duration"]).toMatchObject([{ attributes: labels, value: { count: 1 } }]);
    expect(measured["gen_ai.client.inference.time_to_first_chunk"]?.length ?? 0).toBe(stream ? 1 : 0);
    const told = JSON.stringify([near.spans(), far.spans()].flat().map(({ name, attributes }) => [name, attributes]));
    expect(told).not.toContain("upstream-key");
  });

  it("that fails says how, beside the status", async () => {
    await using far = await upstream(speaking(new Error("broken")));
    const backend = relayTo(far.url);
    const near = watched({ backend });
    expect((await near.send()).status).toBeGreaterThanOrEqual(500);
    await backend.close();
    const asked = near.spans().find(({ kind }) => kind === SpanKind.CLIENT);
    expect(asked?.attributes).toMatchObject({ "http.response.status_code": 500, "error.type": "backend_failed" });
    expect(asked?.status).toEqual({ code: 2 });
  });

  it("that is not reached has a span without a status", async () => {
    const backend = relayTo("http://127.0.0.1:1");
    const near = watched({ backend });
    await near.send();
    await backend.close();
    const asked = near.spans().find(({ kind }) => kind === SpanKind.CLIENT);
    expect(asked?.attributes).toMatchObject({ "error.type": "backend_unavailable" });
    expect(asked?.attributes).not.toHaveProperty(["http.response.status_code"]);
  });

  it("whose client hangs up ends its span too", async () => {
    await using far = await upstream(speaking(WORD, never));
    const backend = relayTo(far.url);
    const near = watched({ backend });
    const reader = await readUntil(WORD, await near.send({ body: { stream: true } }));
    await reader.cancel();
    await expect.poll(() => near.spans()).toHaveLength(2);
    await backend.close();
    const asked = near.spans().find(({ kind }) => kind === SpanKind.CLIENT);
    expect(asked?.attributes).toMatchObject({ "error.type": "client_closed" });
    expect(asked?.status).toEqual({ code: 0 });
  });

  it("keeps the instrumentation of its transport still, which would send a second context", async () => {
    await using far = await upstream(speaking(WORD));
    const suppressed: unknown[] = [];
    const key = Symbol.for("OpenTelemetry SDK Context Key SUPPRESS_TRACING");
    const backend = relayTo(far.url, {
      fetch(url, init) {
        suppressed.push(context.active().getValue(key));
        return fetch(url, init);
      },
    });
    await watched({ backend }).send();
    expect(suppressed).toEqual([true]);
  });

  it("lets a name that only the caller knows be no label", async () => {
    await using far = await upstream(speaking(WORD));
    const { models: _models, ...open } = { models: 0, format: "chat-completions", apiKey: "sk-upstream-key" } as const;
    const backend = relay({ ...open, baseUrl: `${far.url}/v1` });
    const near = watched({ backend });
    await near.send({ body: { model: "made up of sk-one" } });
    await backend.close();
    const asked = near.spans().find(({ kind }) => kind === SpanKind.CLIENT);
    expect([asked?.name, asked?.attributes["gen_ai.request.model"]]).toEqual(["chat", "made up of [redacted]"]);
    const duration = only((await near.metrics())["gen_ai.client.inference.duration"] ?? []);
    expect(duration.attributes["gen_ai.request.model"]).toBe("_OTHER");
  });

  it("tells no key of the relay's own that its upstream sends back", async () => {
    await using far = await upstream(speaking({ type: "start", model: "echo of sk-upstream-key" }, WORD, counted(7)));
    const backend = relayTo(far.url);
    const near = watched({ backend });
    await near.send();
    await backend.close();
    const asked = near.spans().find(({ kind }) => kind === SpanKind.CLIENT);
    expect(asked?.attributes["gen_ai.response.model"]).toBe("echo of [redacted]");
  });

  it("has a trace context of its own where nobody samples or registers anything", async () => {
    await using far = await upstream(speaking(WORD));
    const backend = relayTo(far.url);
    // The providers that are registered globally do nothing.
    const { observer } = collected({ tracerProvider: trace.getTracerProvider() });
    const near = watched({ backend, observer });
    await near.send({ headers: { traceparent: TRACEPARENT } });
    await backend.close();
    await expect.poll(() => far.spans()).toHaveLength(1);
    expect(placeOf(only(far.spans()))).toEqual({ traceId: TRACE_ID, parent: SPAN_ID });
  });
});

const hex = (length: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...Array.from("0123456789abcdef")), minLength: length, maxLength: length });

it("any trace context that is sent on is one that is read again", async () => {
  await fc.assert(
    fc.asyncProperty(hex(32), hex(16), hex(2), fc.string({ maxLength: 600 }), async (traceId, spanId, flags, state) => {
      const sent: Record<string, string> = {};
      const backend: ModelBackend = {
        async *chat(_request, { observeUpstream }) {
          const asked = { format: "messages", model: "m", modelListed: true, stream: true, address: "a", port: 1 };
          const exchange = observeUpstream?.(asked);
          Object.assign(sent, exchange?.headers);
          exchange?.end({ endMs: 1 });
          yield WORD;
        },
      };
      const bench = watched({ backend });
      const tracestate = state.replaceAll(/[^\u0020-\u007e]/g, "");
      await bench.send({ headers: { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate } });
      const isValid = /[1-9a-f]/.test(traceId) && /[1-9a-f]/.test(spanId);
      expect(sent["traceparent"]).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/);
      expect(sent["traceparent"]?.slice(3, 35) === traceId).toBe(isValid);
      expect(sent["tracestate"] ?? "").toMatch(/^[\u0020-\u007e]{0,512}$/);
    }),
    { numRuns: 60 },
  );
});
