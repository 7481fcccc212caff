/** The choice among the upstreams of a route, in virtual time: by speed, by price, and by the rate that is left. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import type { CallContext } from "../../../src/ports/model-backend.ts";
import { priceTable } from "../../../src/prices/index.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { balance, type BalanceOptions, route, type RouteBackend } from "../../../src/upstreams/route/index.ts";
import { RemainingRate } from "../../../src/upstreams/route/remaining.ts";
import { callContext as context, chatRequest } from "../relay/stage.ts";
import { ask, begin, observing, type Scripted, scripted, type Step } from "./stage.ts";

const request = chatRequest({ model: "m" });

/** Repeatable numbers from 0 to below 1. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Fleet {
  readonly backend: RouteBackend;
  readonly clock: ManualClock;
  readonly upstreams: readonly Scripted[];
  readonly counts: () => readonly number[];
}

function fleet(
  options: BalanceOptions,
  answers: readonly ((call: number) => readonly Step[])[],
  seed?: number,
  weights: readonly number[] = [],
): Fleet {
  const clock = manualClock();
  const upstreams = answers.map((steps) => scripted(clock, steps));
  const routed = upstreams.map((backend, at) => ({ backend, name: `u${at}`, weight: weights[at] ?? 1 }));
  const backend = route({
    routes: { m: { upstreams: routed, balance: balance(options) } },
    clock,
    // Without a seed, upstreams are drawn in the order of the list.
    random: seed === undefined ? () => 0 : numbers(seed),
    retry: { rounds: 0 },
  });
  return { backend, clock, upstreams, counts: () => upstreams.map(({ requests }) => requests.length) };
}

const speaking =
  (firstMs: number, tokenMs = 0, tokens = 10) =>
  (): readonly Step[] => [
    { type: "start" },
    firstMs,
    "word",
    tokenMs * tokens,
    { type: "finish", reason: "stop", usage: { inputTokens: 1, outputTokens: tokens } },
  ];

describe("by latency", () => {
  it("sends most calls to the upstreams that speak first, whichever these are", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 2, maxLength: 4 }),
        fc.integer({ min: 1, max: 1_000_000 }),
        async (tens, seed) => {
          const slowest = Math.max(...tens);
          fc.pre(Math.min(...tens) * 2 <= slowest);
          const { backend, clock, counts } = fleet(
            { by: "latency", halfLifeMs: 600_000 },
            tens.map((ten) => speaking(ten * 10)),
            seed,
          );
          for (let call = 0; call < 60; call++) await ask(backend, clock);
          const all = counts();
          // Power of two choices never takes the worse of two, once both are known.
          const ofSlowest = all.filter((_, at) => tens[at] === slowest);
          expect(Math.max(...ofSlowest)).toBeLessThanOrEqual(60 / tens.length);
          expect(Math.max(...all)).toBe(Math.max(...all.filter((_, at) => tens[at] !== slowest)));
        },
      ),
      { numRuns: 15 },
    );
  });

  it("tries an upstream again when its measurements are old, and comes back to it when it has become fast", async () => {
    let ms = 500;
    const { backend, clock, upstreams, counts } = fleet({ by: "latency", halfLifeMs: 1_000 }, [
      () => speaking(ms)(),
      speaking(100),
    ]);
    for (let call = 0; call < 20; call++) await ask(backend, clock);
    const [before = 0] = counts();
    expect(before).toBeLessThan(8);
    ms = 10;
    for (let call = 0; call < 200; call++) await ask(backend, clock);
    expect(upstreams[0]?.requests.length).toBeGreaterThan(before + 100);
  });

  it("spreads calls that wait at the same time over upstreams that nobody knows yet", async () => {
    const { backend, clock, counts } = fleet({ by: "latency" }, [speaking(100), speaking(100)], undefined);
    const calls = Array.from({ length: 8 }, () => begin(backend));
    await clock.advance(0);
    expect(counts()).toEqual([4, 4]);
    await clock.advance(1_000);
    expect(calls.every(({ text }) => text === "word")).toBe(true);
  });

  it("does not take quick failures for speed", async () => {
    const failing = (call: number): readonly Step[] =>
      call % 2 === 0 ? [new GatewayError("rate_limited", "too many")] : speaking(50)();
    const { backend, clock, counts } = fleet({ by: "latency", halfLifeMs: 60_000 }, [failing, speaking(200)]);
    for (let call = 0; call < 40; call++) expect((await ask(backend, clock)).error).toBeUndefined();
    const [bad = 0, good = 0] = counts();
    expect(good).toBeGreaterThan(4 * bad);
  });

  it("does not blame an upstream for a wrong request", async () => {
    const wrong = (call: number): readonly Step[] =>
      call < 5 ? [new GatewayError("invalid_request", "wrong")] : speaking(50)();
    const { backend, clock, counts } = fleet({ by: "latency" }, [wrong, speaking(200)]);
    for (let call = 0; call < 30; call++) await ask(backend, clock);
    const [first = 0, second = 0] = counts();
    expect(first).toBeGreaterThan(second);
  });

  it("counts the wait of calls that were cut before they heard anything", async () => {
    const { backend, clock, counts } = fleet({ by: "latency", halfLifeMs: 600_000 }, [() => [1e6], speaking(100)]);
    for (let call = 0; call < 20; call++) {
      const abort = new AbortController();
      const asked = begin(backend, {}, { signal: abort.signal });
      await clock.advance(1_000);
      abort.abort(new GatewayError("client_closed", "gone"));
      await clock.advance(0);
      expect(asked.isOver).toBe(true);
    }
    expect(counts()[0]).toBeLessThanOrEqual(2);
  });

  it("keeps an upstream of weight 0 for failures", async () => {
    const { backend, clock, counts } = fleet({ by: "latency" }, [speaking(900), speaking(1)], 1, [1, 0]);
    for (let call = 0; call < 10; call++) await ask(backend, clock);
    expect(counts()).toEqual([10, 0]);
  });

  it("measures streams and complete answers apart", async () => {
    // The first upstream is quick to begin, and slow to end.
    const { backend, clock, upstreams } = fleet({ by: "latency", halfLifeMs: 600_000 }, [
      (call) => (upstreams[0]?.requests[call]?.stream ? speaking(10)() : speaking(900)()),
      (call) => (upstreams[1]?.requests[call]?.stream ? speaking(300)() : speaking(400)()),
    ]);
    for (let call = 0; call < 40; call++) await ask(backend, clock, { stream: call % 2 === 0 });
    const streams = upstreams.map(({ requests }) => requests.filter(({ stream }) => stream).length);
    const whole = upstreams.map(({ requests }) => requests.filter(({ stream }) => !stream).length);
    expect(streams[0]).toBeGreaterThan(15);
    expect(whole[1]).toBeGreaterThan(15);
  });
});

const words = (ms: number) => (): readonly Step[] => Array.from({ length: 20 }, () => [ms, "some words"]).flat();

describe("by throughput", () => {
  it("sends most calls to the upstream that writes fastest, although it begins later", async () => {
    const { backend, clock, counts } = fleet({ by: "throughput", halfLifeMs: 600_000 }, [
      speaking(10, 20, 50),
      speaking(300, 5, 50),
    ]);
    for (let call = 0; call < 30; call++) await ask(backend, clock);
    expect(counts()[1]).toBeGreaterThan(25);
  });

  it("estimates the tokens where nobody counts them, and does not judge by a word", async () => {
    const long = "x".repeat(400);
    const writing = (ms: number) => (): readonly Step[] => [10, "a", ms, long];
    const { backend, clock, counts } = fleet({ by: "throughput", halfLifeMs: 600_000 }, [writing(1_000), writing(100)]);
    for (let call = 0; call < 30; call++) await ask(backend, clock);
    expect(counts()[1]).toBeGreaterThan(25);
    const brief = fleet({ by: "throughput" }, [speaking(10, 900, 1), speaking(10, 1, 1)], 1);
    for (let call = 0; call < 40; call++) await ask(brief.backend, brief.clock);
    expect(Math.min(...brief.counts())).toBeGreaterThan(8);
  });

  it("does not count the time in which a slow reader is waited for", async () => {
    const { backend, clock, counts } = fleet({ by: "throughput", halfLifeMs: 6e6 }, [words(30), words(40)]);
    // Whoever asks the first upstream reads slowly.
    for (let call = 0; call < 20; call++) {
      const [before] = counts();
      const source = backend.chat?.(request, context())[Symbol.asyncIterator]();
      for (;;) {
        const state = { isHere: false, isOver: false };
        void source?.next().then(({ done }) => Object.assign(state, { isHere: true, isOver: done }));
        await clock.advance(0);
        while (!state.isHere) await clock.advance(10);
        if (state.isOver) break;
        if (counts()[0] !== before) await clock.advance(500);
      }
    }
    expect(counts()[0]).toBeGreaterThan(15);
  });
});

const routed = (names: readonly (string | { name: string; model?: string })[], options: BalanceOptions) => {
  const clock = manualClock();
  const asked: string[] = [];
  const upstreams = names.map((one) => {
    const named = typeof one === "string" ? { name: one } : one;
    return {
      ...named,
      backend: {
        async *chat() {
          asked.push(named.name);
          if (named.name !== "dear") throw new GatewayError("backend_unavailable", "down");
          yield "word";
        },
      },
    };
  });
  const random = numbers(3);
  return { backend: route({ routes: { m: { upstreams, balance: balance(options) } }, clock, random }), clock, asked };
};

const byTokens: NonNullable<BalanceOptions["price"]> = ({ inputTokens, outputTokens }, _model, _kind, upstream) =>
  upstream?.name === "cheap" ? inputTokens : outputTokens;

describe("by price", () => {
  const { price } = priceTable({
    "cheap/m": { input: 1, output: 1 },
    m: { input: 5, output: 5 },
    large: { input: 9, output: 9 },
  });
  it("asks the cheapest first, then the next; a row for the upstream's own name decides", async () => {
    const { backend, clock, asked } = routed([{ name: "dear", model: "large" }, "usual", "cheap"], {
      by: "price",
      price,
    });
    expect((await ask(backend, clock)).text).toBe("word");
    expect(asked).toEqual(["cheap", "usual", "dear"]);
  });

  it.each<[string, NonNullable<BalanceOptions["price"]>]>([
    [
      "throws",
      () => {
        throw new Error("none");
      },
    ],
    ["lies", () => Number.NaN],
    ["is below 0", () => -1],
  ])("puts an upstream last whose price %s", async (_name, broken) => {
    const { backend, clock, asked } = routed(["dear", "cheap"], {
      by: "price",
      price: (usage, model, kind, upstream) => (upstream?.name === "cheap" ? broken(usage, model, kind, upstream) : 5),
    });
    await ask(backend, clock);
    expect(asked).toEqual(["dear"]);
  });

  it("compares the price of the given call", async () => {
    for (const [usage, expected] of [
      [{ inputTokens: 1, outputTokens: 10 }, ["cheap", "dear"]],
      [{ inputTokens: 10, outputTokens: 1 }, ["dear"]],
    ] as const) {
      const { backend, clock, asked } = routed(["dear", "cheap"], { by: "price", price: byTokens, ...usage });
      await ask(backend, clock);
      expect(asked).toEqual(expected);
    }
  });
});

it("asks an upstream without any rate left after the others, by whatever it chooses", async () => {
  const clock = manualClock();
  const asked: string[] = [];
  const upstreams = ["cheap", "dear"].map((name) => ({
    name,
    backend: {
      async *chat(_request: unknown, call: CallContext) {
        asked.push(name);
        const attempt = call.observeUpstream?.({ format: "f", model: "m", modelListed: true, stream: true });
        const headers: Readonly<Record<string, string>> = {
          "x-ratelimit-remaining-requests": name === "cheap" ? "0" : "9",
          "x-ratelimit-reset-requests": "10s",
        };
        attempt?.head?.((header) => headers[header]);
        yield "word";
        attempt?.end({ endMs: 0 });
      },
    },
  }));
  const { price } = priceTable({ "cheap/m": { input: 1, output: 1 }, m: { input: 2, output: 2 } });
  const backend = route({ routes: { m: { upstreams, balance: balance({ by: "price", price }) } }, clock });
  for (let call = 0; call < 2; call++) await ask(backend, clock, {}, observing([]));
  await clock.advance(10_000);
  await ask(backend, clock, {}, observing([]));
  expect(asked).toEqual(["cheap", "dear", "cheap"]);
});

describe("the rate that is left", () => {
  const NOW = Date.UTC(2026, 5, 1);
  const read = (headers: Readonly<Record<string, string>>): RemainingRate => {
    const rate = new RemainingRate();
    rate.read((name) => headers[name], NOW);
    return rate;
  };

  it.each<[string, Readonly<Record<string, string>>, number, number]>([
    [
      "Anthropic's",
      {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "40",
        "anthropic-ratelimit-requests-reset": "2026-06-01T00:00:30Z",
        "anthropic-ratelimit-input-tokens-limit": "1000",
        "anthropic-ratelimit-input-tokens-remaining": "100",
        "anthropic-ratelimit-input-tokens-reset": "2026-06-01T00:00:05Z",
      },
      0.1,
      5_000,
    ],
    [
      "OpenAI's",
      {
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "30000",
        "x-ratelimit-reset-tokens": "1m30s",
      },
      0.2,
      90_000,
    ],
    [
      "a subscription's",
      {
        "anthropic-ratelimit-unified-5h-utilization": "0.75",
        "anthropic-ratelimit-unified-5h-reset": String(NOW / 1_000 + 60),
      },
      0.25,
      60_000,
    ],
    [
      "a used-up subscription's",
      {
        "anthropic-ratelimit-unified-7d-status": "rejected",
        "anthropic-ratelimit-unified-7d-reset": String(NOW / 1_000 + 600),
      },
      0,
      600_000,
    ],
    [
      "others', in milliseconds",
      { "x-ratelimit-limit": "10", "x-ratelimit-remaining": "5", "x-ratelimit-reset": String(NOW + 250) },
      0.5,
      250,
    ],
    [
      "a short one",
      {
        "x-ratelimit-limit-requests": "4",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "120ms",
      },
      0.25,
      120,
    ],
    [
      "in seconds",
      { "x-ratelimit-limit-requests": "4", "x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "7.5" },
      0.25,
      7_500,
    ],
    ["without a reset", { "x-ratelimit-limit-requests": "4", "x-ratelimit-remaining-requests": "1" }, 0.25, 60_000],
    ["without a limit", { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s" }, 0, 1_000],
    [
      "by the upstream's own clock",
      {
        date: new Date(NOW - 3_600_000).toUTCString(),
        "anthropic-ratelimit-tokens-limit": "2",
        "anthropic-ratelimit-tokens-remaining": "1",
        "anthropic-ratelimit-tokens-reset": "2026-05-31T23:00:07Z",
      },
      0.5,
      7_000,
    ],
  ])("is read from %s headers, until the limit is whole again", (_name, headers, left, ms) => {
    const rate = read(headers);
    expect(rate.left(NOW)).toBeCloseTo(left);
    expect(rate.left(NOW + ms - 1)).toBeCloseTo(left);
    expect(rate.left(NOW + ms)).toBeGreaterThan(left);
  });

  it("is a share from 0 to 1 for no more than an hour, whatever an upstream says", () => {
    const text = fc.oneof(
      fc.string({ maxLength: 80 }),
      fc.integer().map(String),
      fc.double().map(String),
      fc.constantFrom("1h", "9999999h", "-1", "1e9", "NaN"),
    );
    const names = [
      "x-ratelimit-limit-requests",
      "x-ratelimit-remaining-requests",
      "x-ratelimit-reset-requests",
      "anthropic-ratelimit-unified-5h-utilization",
      "anthropic-ratelimit-unified-5h-reset",
      "date",
    ];
    fc.assert(
      fc.property(fc.array(text, { minLength: names.length, maxLength: names.length }), (values) => {
        const rate = read(Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""])));
        const left = rate.left(NOW);
        expect(left >= 0 && left <= 1).toBe(true);
        expect(rate.left(NOW + 3_600_000)).toBe(1);
      }),
      { numRuns: 500 },
    );
  });
});

describe("a balance", () => {
  it.each<[string, unknown, string]>([
    ["without a measure", {}, "balance: by is missing"],
    ["with an unknown measure", { by: "speed" }, "balance: by must be one of"],
    ["by price without a price", { by: "price" }, "balance: price belongs to"],
    ["by latency with a price", { by: "latency", price: () => 1 }, "balance: price belongs to"],
    ["by latency with tokens", { by: "latency", outputTokens: 5 }, "balance: inputTokens and outputTokens belong to"],
    ["by remaining with a half-life", { by: "remaining", halfLifeMs: 5 }, "balance: halfLifeMs belongs to"],
    ["with a half-life of 0", { by: "latency", halfLifeMs: 0 }, "balance: halfLifeMs must be"],
    ["with a misspelt option", { by: "latency", halflife: 5 }, "did you mean halfLifeMs"],
  ])("%s is refused", (_name, options, message) => {
    expect(() => balance(options as BalanceOptions)).toThrow(message);
  });

  it("that is only options is refused by the route", () => {
    const upstreams = [scripted(manualClock(), () => ["a"])];
    const wrong = { by: "latency" } as never;
    expect(() => route({ routes: { m: { upstreams, balance: wrong } } })).toThrow(
      'route: routes["m"]: balance must be the result of balance({ by })',
    );
  });
});
