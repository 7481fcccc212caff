/** Metrics of what a gateway holds and limits: quota, bodies, rates, breakers. */

import { describe, expect, it } from "vitest";
import { GatewayError, type ModelBackend, type RateVerdict } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { counted, failing, INPUT, MINUTE, never, opened, readUntil, speaking, WORD } from "../pipeline/bench.ts";
import { collected, type Collected, only, watched } from "./stage.ts";

/** The value of a metric's only series; undefined where it has none. */
async function valueOf({ metrics }: Collected, name: string): Promise<unknown> {
  const points = (await metrics())[name];
  return points && only(points).value;
}

describe("a hold", () => {
  it("is live until it is settled", async () => {
    const bench = watched({ backend: speaking(WORD, never) });
    const reader = await readUntil(WORD, await bench.send({ body: { stream: true } }));
    const held = bench.store.report("one")?.held;
    expect(await valueOf(bench, "polygate.hold.active")).toBe(1);
    expect(await valueOf(bench, "polygate.hold.active.units")).toBe(held);
    expect(await valueOf(bench, "polygate.call.active")).toBe(1);
    await reader.cancel();
    await bench.clock.advance(0);
    const metrics = await bench.metrics();
    const certainty = { "polygate.certainty": "estimated" };
    expect(metrics).toMatchObject({
      "polygate.hold.active": [{ value: 0 }],
      "polygate.hold.active.units": [{ value: 0 }],
      "polygate.hold.settled": [{ value: 1, attributes: certainty }],
      "polygate.units.charged": [{ value: INPUT + 4, attributes: certainty }],
      "polygate.call.active": [{ value: 0 }],
    });
    expect(metrics["polygate.hold.expired"]).toMatchObject([{ value: 0 }]);
    expect(metrics).not.toHaveProperty(["polygate.hold.overdraft"]);
  });

  it("that was too small tells by how much", async () => {
    // A backend that says nothing true of its limits.
    const bench = watched({ key: { granted: 30 }, backend: speaking(WORD.repeat(20)) });
    await bench.send();
    const charged = Number(await valueOf(bench, "polygate.units.charged"));
    expect(charged).toBeGreaterThan(30);
    expect(await valueOf(bench, "polygate.hold.overdraft")).toBe(charged - 30);
    expect(await valueOf(bench, "polygate.hold.overdraft")).toBe(bench.report()?.overdraft);
  });

  it("whose settlement is late counts as expired, and is settled all the same", async () => {
    const { around } = failing(2);
    const bench = watched({ around, backend: speaking(WORD, counted(7)), limits: { leaseMs: 3_000 } });
    await bench.send();
    expect(await valueOf(bench, "polygate.hold.active")).toBe(1);
    await bench.clock.advance(MINUTE);
    expect(await bench.metrics()).toMatchObject({
      "polygate.hold.active": [{ value: 0 }],
      "polygate.hold.expired": [{ value: 1 }],
      "polygate.hold.settled": [{ value: 1, attributes: { "polygate.certainty": "exact" } }],
    });
  });

  it("that is renewed in time has not expired", async () => {
    const { promise: told, resolve: go } = Promise.withResolvers<void>();
    const bench = watched({ backend: speaking(WORD, told, counted(7)), limits: { leaseMs: 3_000 } });
    const text = bench.send({ body: { stream: true } }).then((response) => response.text());
    await bench.clock.advance(10_000);
    go();
    await text;
    await bench.clock.advance(0);
    expect(await valueOf(bench, "polygate.hold.settled")).toBe(1);
    expect(await valueOf(bench, "polygate.hold.expired")).toBe(0);
  });

  it("that the store never settles is active until the gateway closes, and is left to its lease then", async () => {
    const { around } = failing(Number.POSITIVE_INFINITY);
    const bench = watched({ around, limits: { maxWaitingSettlements: 1 } });
    await bench.send();
    await bench.clock.advance(60 * MINUTE);
    expect(await valueOf(bench, "polygate.hold.active")).toBe(1);
    expect(await valueOf(bench, "polygate.settlement.waiting")).toBe(1);
    // A loss is seen as one only beside a first value.
    expect(await valueOf(bench, "polygate.settlement.abandoned")).toBe(0);
    const closed = bench.gateway.close({ deadlineMs: 1_000 });
    await bench.clock.advance(1_000);
    await closed;
    expect(await bench.metrics()).toMatchObject({
      "polygate.hold.active": [{ value: 0 }],
      "polygate.hold.expired": [{ value: 1 }],
      "polygate.settlement.abandoned": [{ value: 1 }],
    });
    expect(await valueOf(bench, "polygate.hold.settled")).toBeUndefined();
  });
});

it("counts the calls whose answers are streamed", async () => {
  const bench = watched({ backend: speaking(WORD, never) });
  const complete = bench.send();
  const reader = await readUntil(WORD, await bench.send({ body: { stream: true } }));
  expect(await valueOf(bench, "polygate.call.active")).toBe(2);
  expect(await valueOf(bench, "polygate.stream.active")).toBe(1);
  await reader.cancel();
  await bench.clock.advance(0);
  expect(await valueOf(bench, "polygate.stream.active")).toBe(0);
  const closed = bench.gateway.close({ deadlineMs: 1 });
  await bench.clock.advance(1);
  await Promise.all([closed, complete]);
});

it("names the limit that refused a call", async () => {
  const bench = watched({ key: { granted: 1 } });
  expect((await bench.send()).status).toBe(429);
  expect((await bench.metrics())["gen_ai.server.request.duration"]).toMatchObject([
    { attributes: { "polygate.outcome": "refused", "polygate.refused_by": "quota" } },
  ]);
});

it("counts bodies as they come, until their calls are over", async () => {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const bench = watched();
  const answer = bench.send({ body: readable });
  await writer.write(new Uint8Array(1_000).fill(32));
  await expect.poll(() => valueOf(bench, "polygate.body.active")).toBe(1);
  expect(await valueOf(bench, "polygate.body.active.size")).toBe(1_000);
  await writer.close();
  await answer;
  expect(await valueOf(bench, "polygate.body.active")).toBe(0);
  expect(await valueOf(bench, "polygate.body.active.size")).toBe(0);
});

it("forgets a gateway that is closed", async () => {
  const bench = watched({ backend: speaking(WORD, never) });
  await readUntil(WORD, await bench.send({ body: { stream: true } }));
  const closed = bench.gateway.close({ deadlineMs: 1 });
  await bench.clock.advance(1);
  await closed;
  expect(await valueOf(bench, "polygate.call.active")).toBe(0);
});

const limiter = (begin: () => Promise<RateVerdict>): object => ({
  rateLimiter: { begin, take: () => Promise.resolve({ limits: [] }), end: () => Promise.resolve() },
});

function attributes(decision: string, by?: string): object {
  return { "polygate.rate_limiter.decision": decision, ...(by && { "polygate.rate_limiter.by": by }) };
}

describe("the rate limiter", () => {
  const LIES = { refused: { by: `lie ${WORD}`, retryAfterMs: 1 }, limits: [] } as unknown as RateVerdict;

  it.each<[what: string, begin: () => Promise<RateVerdict>, expected: object[]]>([
    ["admits", () => Promise.resolve({ limits: [] }), [{ value: 2, attributes: attributes("admitted") }]],
    [
      "refuses",
      () => Promise.resolve({ refused: { by: "calls", retryAfterMs: 1 }, limits: [] }),
      [{ value: 1, attributes: attributes("refused", "calls") }],
    ],
    [
      "refuses by what there is not",
      () => Promise.resolve(LIES),
      [{ value: 1, attributes: attributes("refused", "requests") }],
    ],
    ["is down", () => Promise.reject(new Error("away")), [{ value: 1, attributes: attributes("down") }]],
  ])("that %s is counted", async (_what, begin, expected) => {
    const bench = watched(limiter(begin));
    await bench.send();
    expect((await bench.metrics())["polygate.rate_limiter.decisions"]).toEqual(expected);
  });
});

it("shows the state of each breaker of a route", async () => {
  const clock = manualClock();
  const collecting = collected();
  let isBroken = true;
  const broken: ModelBackend = {
    async *chat() {
      if (isBroken) throw new GatewayError("backend_unavailable", "Away.");
      yield WORD;
    },
  };
  const backend = route({
    routes: {
      "any*": {
        upstreams: [
          { backend: broken, name: "first" },
          { backend: speaking(WORD), weight: 0 },
        ],
      },
    },
    breaker: { failures: 1, openMs: 5_000 },
    observer: collecting.observer,
    clock,
  });
  const bench = watched({ backend });
  const states = async (): Promise<object> =>
    Object.fromEntries(
      ((await collecting.metrics())["polygate.breaker.state"] ?? [])
        .filter(({ value }) => value === 1)
        .map(({ attributes }) => [attributes["polygate.breaker.upstream"], attributes["polygate.breaker.state"]]),
    );
  expect(await states()).toEqual({ first: "closed", "any*": "closed" });
  expect((await bench.send()).status).toBe(200);
  expect(await states()).toEqual({ first: "open", "any*": "closed" });
  await clock.advance(5_000);
  expect(await states()).toEqual({ first: "half-open", "any*": "closed" });
  isBroken = false;
  await bench.send();
  expect(await states()).toEqual({ first: "closed", "any*": "closed" });
});

describe("readiness", () => {
  it("is 1 while the quota store answers, and 0 while it is away or the gateway closes", async () => {
    let isAway = false;
    const bench = watched({
      backend: speaking(WORD, never),
      around: (store) => ({
        balance: async (keyId, call) => {
          if (isAway) throw new Error("The database is away.");
          return store.balance(keyId, call);
        },
      }),
    });
    const ready = (): Promise<unknown> => valueOf(bench, "polygate.ready");
    expect(await ready()).toBe(1);
    isAway = true;
    await bench.clock.advance(1_000);
    expect(await ready()).toBe(0);
    isAway = false;
    await bench.clock.advance(1_000);
    expect(await ready()).toBe(1);
    const answer = bench.send();
    await bench.clock.advance(0);
    const closed = bench.gateway.close({ deadlineMs: 5 });
    expect(await ready()).toBe(0);
    await bench.clock.advance(5);
    await Promise.all([closed, answer]);
    // A closed gateway must not be asked: its host closes the store next.
    isAway = true;
    await bench.clock.advance(1_000);
    const told = bench.failures.length;
    await ready();
    expect(bench.failures).toHaveLength(told);
  });

  it("shares the query of a health check, and waits a second for a store that hangs", async () => {
    let asked = 0;
    const bench = watched({
      around: (store) => ({ balance: (keyId, call) => (++asked > 1 ? never : store.balance(keyId, call)) }),
    });
    await bench.gateway.health();
    expect(await valueOf(bench, "polygate.ready")).toBe(1);
    expect(asked).toBe(1);
    await bench.clock.advance(1_000);
    const ready = valueOf(bench, "polygate.ready");
    await bench.clock.advance(1_000);
    expect(await ready).toBe(0);
    expect(asked).toBe(2);
  });

  it("of several gateways with one observer is that of the worst", async () => {
    const collecting = collected();
    const { observer } = collecting;
    expect(await valueOf(collecting, "polygate.ready")).toBeUndefined();
    opened({ observer });
    expect(await valueOf(collecting, "polygate.ready")).toBe(1);
    opened({ observer, around: () => ({ balance: () => Promise.reject(new Error("The database is away.")) }) });
    expect(await valueOf(collecting, "polygate.ready")).toBe(0);
  });
});
