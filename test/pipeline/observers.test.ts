/** An observer of the host's own: what it is told, and that no call is worse off for it, whatever it does. */

import { createHook } from "node:async_hooks";
import { describe, expect, it } from "vitest";
import type { AskedUpstream, BegunCall, CallObserver, ModelBackend, Observer } from "../../src/index.ts";
import { openTelemetry } from "../../src/telemetry/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { AT_REST, counted, fail, INPUT, opened, speaking, WORD } from "./bench.ts";

const ASKED: AskedUpstream = {
  format: "messages",
  model: "m",
  modelListed: true,
  stream: true,
  address: "localhost",
  port: 80,
};

/** A backend that tells of an upstream, and what of the observer's it got to send. */
function asking(): ModelBackend & { readonly sent: Record<string, string>; ran: number } {
  const sent: Record<string, string> = {};
  const backend = {
    sent,
    ran: 0,
    async *chat(_request: unknown, call: Parameters<NonNullable<ModelBackend["chat"]>>[1]) {
      const exchange = call.observeUpstream?.(ASKED);
      Object.assign(sent, exchange?.headers);
      yield exchange ? exchange.run(() => (backend.ran++, WORD)) : WORD;
      exchange?.end({ endMs: 0 });
      yield counted(7);
    },
  };
  return backend;
}

const watching = (call: Partial<CallObserver>): Observer => ({ begin: () => ({ end: () => {}, ...call }) });

it("is told of a call's beginning what its headers and its route say", async () => {
  const begun: BegunCall[] = [];
  const observer: Observer = {
    begin(call) {
      begun.push(call);
      return undefined;
    },
  };
  const { send } = opened({ observer });
  const answer = await send({ headers: { traceparent: "00" } });
  expect(begun).toMatchObject([
    {
      requestId: answer.headers.get("request-id"),
      format: "messages",
      kind: "chat",
      method: "POST",
      route: "/v1/messages",
    },
  ]);
  expect(begun[0]?.headers.get("traceparent")).toBe("00");
});

it("is told the record that onCall is told", async () => {
  const told: unknown[] = [];
  const { send } = opened({
    observer: watching({ end: (record) => told.push(record) }),
    onCall: (record) => told.push(record),
  });
  await send();
  expect(told).toHaveLength(2);
  expect(told[0]).toBe(told[1]);
});

const broken = (): never => fail(new Error("The exporter is broken."));
const rejecting = (): never => Promise.reject(new Error("The exporter is broken.")) as never;
const lie = { a: 1 } as never;

describe("a call is none the worse", () => {
  it.each<[what: string, observer: Observer]>([
    ["whose beginning throws", { begin: broken, watchGateway: broken }],
    ["whose beginning rejects", { begin: rejecting, watchGateway: rejecting }],
    ["that watches with nothing", { begin: () => lie, watchGateway: () => lie }],
    [
      "whose every function throws",
      watching({ run: broken, rateLimit: broken, hold: broken, upstream: broken, end: broken }),
    ],
    [
      "whose every function rejects",
      watching({ run: rejecting, rateLimit: rejecting, hold: rejecting, upstream: rejecting, end: rejecting }),
    ],
    ["that runs nothing", watching({ run: () => undefined as never, upstream: () => lie })],
    ["that runs everything twice", watching({ run: (work) => (work(), work()) })],
    ["that swallows what it runs", watching({ run: (work) => (work(), undefined as never) })],
    ["that throws after what it runs", watching({ run: (work) => (work(), broken()) })],
    [
      "whose upstream's functions throw",
      watching({ upstream: () => ({ headers: { "a b": "1", ok: "1", bad: "\n" }, run: broken, end: broken }) }),
    ],
    [
      "whose tracer throws",
      openTelemetry({ tracerProvider: { getTracer: () => ({ startSpan: broken, startActiveSpan: broken }) } }),
    ],
  ])("for an observer %s", async (_what, observer) => {
    const backend = asking();
    const { send, clock, failures, report, gateway } = opened({ observer, backend });
    for (const stream of [false, true]) {
      const answer = await send({ body: { stream } });
      expect([answer.status, (await answer.text()).includes(WORD)]).toEqual([200, true]);
    }
    await clock.advance(0);
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: 2 * (INPUT + 7), ...AT_REST });
    await gateway.close();
  });

  it("for an upstream's headers that no connection takes: those are left out", async () => {
    const headers = { "a b": "1", ok: "1", bad: "line\nbreak", wide: "ü", number: 1 as never };
    const backend = asking();
    const observer = watching({ upstream: () => ({ headers, run: (work) => (work(), work()), end: () => {} }) });
    await opened({ observer, backend }).send();
    expect(backend.sent).toEqual({ ok: "1", number: 1 });
    expect(backend.ran).toBe(1);
  });

  it("for a backend's own error inside of what an observer runs", async () => {
    const observer = watching({ run: (work) => work() });
    const { send, failures } = opened({ observer, backend: speaking(new Error("broken")) });
    expect((await send()).status).toBe(500);
    expect(failures).toMatchObject([
      { error: { code: "backend_failed" }, text: expect.stringContaining("broken") as string },
    ]);
  });

  it("nor a route, for an observer that throws", async () => {
    const backend = route({ routes: { "*": speaking(WORD) }, observer: { watchBreakers: broken } });
    expect((await opened({ backend }).send()).status).toBe(200);
  });
});

it("a span is ended though the meter throws", async () => {
  let ended = 0;
  const span = {
    updateName: broken,
    setAttributes: broken,
    setStatus: broken,
    end: () => ended++,
    spanContext: () => ({}),
  };
  const tracerProvider = { getTracer: () => ({ startSpan: () => span }) } as never;
  const instrument = { add: broken, record: broken, addCallback: () => {} };
  const meter = new Proxy({}, { get: () => () => instrument });
  const observer = openTelemetry({ tracerProvider, meterProvider: { getMeter: () => meter as never } });
  const { send } = opened({ observer });
  expect((await send()).status).toBe(200);
  expect(ended).toBe(1);
});

/** How many promises some calls take, in process. */
async function promisesOf(observer: Partial<{ observer: Observer }>): Promise<number> {
  const { send } = opened({ ...observer, key: { granted: 1_000_000 } });
  const counts: number[] = [];
  for (let round = 0; round < 5; round++) {
    let count = 0;
    const hook = createHook({
      init(_id, type) {
        if (type === "PROMISE") count++;
      },
    }).enable();
    for (const stream of [false, true]) await (await send({ body: { stream } })).text();
    hook.disable();
    counts.push(count);
  }
  // The test's own machinery may have some of its own meanwhile.
  return Math.min(...counts);
}

it("a call that is not watched takes no promise more than one without an observer", async () => {
  const without = await promisesOf({});
  expect(without).toBeGreaterThan(0);
  expect(await promisesOf({ observer: { begin: () => undefined } })).toBe(without);
});

it("a backend reports its upstreams without an observer too, and sends no headers then", async () => {
  const backend = asking();
  await opened({ backend }).send();
  expect(backend).toMatchObject({ sent: {}, ran: 1 });
});
