/** Rate limits of a call: who is refused when, what clients of each format are told, and what a limiter that is down does. */

import { RateLimiterMemory } from "rate-limiter-flexible";
import { describe, expect, it } from "vitest";
import { openaiRateHeaders } from "../../src/formats/shared/errors.ts";
import {
  type CallRecord,
  flexibleRateLimiter,
  type FlexibleRateLimiterOptions,
  type RateCounter,
  type RateLimiter,
  type RateVerdict,
} from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import { AT_REST, counted, errorCode, INPUT, never, type Opened, opened, type Send, speaking, WORD } from "./bench.ts";

const HOUR = 3_600;
const STORE_MS = 10_000;

/** A window that no test sees the end of. */
const window = (points: number): RateLimiterMemory => new RateLimiterMemory({ points, duration: HOUR });

const limited = (options: FlexibleRateLimiterOptions, setup: Parameters<typeof opened>[0] = {}): Opened =>
  opened({ rateLimiter: flexibleRateLimiter(options), ...setup });

const ALL_IS_WELL: RateVerdict = { limits: [] };

/** A limiter that lets everything through, but for what a test lays over it. */
const limiter = (around: Partial<RateLimiter>): RateLimiter => ({
  begin: () => Promise.resolve(ALL_IS_WELL),
  take: () => Promise.resolve(ALL_IS_WELL),
  end: () => Promise.resolve(),
  ...around,
});

const ratesOf = ({ headers }: Response): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => name.includes("ratelimit")));

describe("requests", () => {
  it("beyond the limit are refused, cost nothing, and are told when to come back", async () => {
    const { send, report } = limited({ perKey: { requests: [window(2)] } }, { backend: speaking(WORD, counted(7)) });
    const first = await send();
    expect(ratesOf(first)).toEqual({
      "anthropic-ratelimit-requests-limit": "2",
      "anthropic-ratelimit-requests-remaining": "1",
      "anthropic-ratelimit-requests-reset": expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as string,
    });
    const second = await send({ body: { stream: true } });
    expect(ratesOf(second)).toMatchObject({ "anthropic-ratelimit-requests-remaining": "0" });
    await second.text();
    const refused = await send();
    expect([refused.status, await errorCode(refused.clone())]).toEqual([429, "rate_limit_exceeded"]);
    expect(await refused.json()).toMatchObject({ type: "error", error: { type: "rate_limit_error" } });
    const waitMs = Number(refused.headers.get("retry-after-ms"));
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(HOUR * 1000);
    expect(refused.headers.get("retry-after")).toBe(String(Math.ceil(waitMs / 1000)));
    expect(refused.headers.get("x-should-retry")).toBeNull();
    expect(ratesOf(refused)).toMatchObject({ "anthropic-ratelimit-requests-remaining": "0" });
    expect(report()).toMatchObject({ used: 2 * (INPUT + 7), ...AT_REST });
  });

  it("are counted before a body is read", async () => {
    const { send } = limited({ perKey: { requests: [window(1)] } });
    await send();
    let pulled = 0;
    const body = new ReadableStream({ pull: () => void pulled++ }, { highWaterMark: 0 });
    expect([(await send({ body })).status, pulled]).toEqual([429, 0]);
  });

  it("of another key are counted apart", async () => {
    const { send, store } = limited({ perKey: { requests: [window(1)] } });
    store.add({ apiKey: "sk-two", granted: 1000 });
    const statuses = [await send(), await send(), await send({ headers: { authorization: "Bearer sk-two" } })];
    expect(statuses.map(({ status }) => status)).toEqual([200, 429, 200]);
  });

  it("are counted by the tier of the key, from the call after the key was changed", async () => {
    const tiers = { gold: { perKey: { requests: [window(3)] } } };
    const { send, store, failures } = limited({ perKey: { requests: [window(1)] }, tiers });
    const id = store.add({ apiKey: "sk-two", granted: 1000 });
    const status = async () => (await send({ headers: { authorization: "Bearer sk-two" } })).status;
    expect([await status(), await status()]).toEqual([200, 429]);
    await store.keys.update(id, { metadata: { tier: "gold" } });
    expect([await status(), await status(), await status(), await status()]).toEqual([200, 200, 200, 429]);
    await store.keys.update(id, { metadata: { tier: "silver" } });
    expect(await status()).toBe(500);
    const causes = failures.map(({ error }) => String((error as Error).cause));
    expect(causes).toEqual([expect.stringContaining('the rate tier "silver"')]);
  });

  it("are counted for all keys of a budget together, where that is their group", async () => {
    const { send, store } = limited({
      perKey: { requests: [window(2)] },
      perGroup: { requests: [window(3)] },
      groupOf: ({ budget }) => budget,
    });
    store.addBudget({ id: "team", amount: 10_000 });
    for (const name of ["two", "three"]) store.add({ apiKey: `sk-${name}`, budget: "team" });
    const status = async (secret: string) => (await send({ headers: { authorization: `Bearer ${secret}` } })).status;
    expect([await status("sk-two"), await status("sk-two"), await status("sk-two")]).toEqual([200, 200, 429]);
    expect([await status("sk-three"), await status("sk-three")]).toEqual([200, 429]);
    expect([await status("sk-one"), await status("sk-one")]).toEqual([200, 200]);
  });

  it("of a group do not say that the key alone has reached them, and name no group", async () => {
    const { send } = limited({ perGroup: { requests: [window(1)] }, groupOf: () => "team-a" });
    await send();
    expect(await (await send()).json()).toMatchObject({
      error: {
        message: `Group limit reached. The limit is 1 requests in ${HOUR} s.`,
      },
    });
  });

  it("are counted by model as well", async () => {
    const { send } = limited({ perModel: { requests: [window(1)] } });
    const ask = (model: string): Promise<Response> => send({ body: { model } });
    const statuses = [await ask("one"), await ask("one"), await ask("two")].map(({ status }) => status);
    expect(statuses).toEqual([200, 429, 200]);
  });
});

describe("each format", () => {
  const setup = {
    backend: {
      ...speaking(WORD),
      async *image() {
        yield drawn(0);
      },
    },
    imagePrice: () => 1,
  };

  it.each<[format: string, send: Send, body: object, rates: string[]]>([
    [
      "generate-content",
      {
        path: "/v1beta/models/any:generateContent",
        body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: "Hello" }] }] }),
      },
      { error: { code: 429, status: "RESOURCE_EXHAUSTED" } },
      [],
    ],
    [
      "images",
      { path: "/v1/images/generations", body: JSON.stringify({ prompt: "A fox.", response_format: "b64_json" }) },
      { error: { type: "rate_limit_error", code: "rate_limit_exceeded" } },
      ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
    ],
    ["token-usage", { path: "/api/usage/token", method: "GET" }, { success: false }, []],
    [
      "messages' token count",
      { path: "/v1/messages/count_tokens" },
      { error: { code: "rate_limit_exceeded" } },
      ["limit", "remaining", "reset"].map((name) => `anthropic-ratelimit-requests-${name}`),
    ],
  ])("says it in its own way: %s", async (_format, send, body, rates) => {
    const bench = limited({ perKey: { requests: [window(1)] } }, setup);
    const answers = [await bench.send(send), await bench.send(send)];
    expect(answers.map(({ status }) => status)).toEqual([200, 429]);
    for (const answer of answers) expect(Object.keys(ratesOf(answer)).toSorted()).toEqual(rates);
    expect(answers[1]?.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(await answers[1]?.json()).toMatchObject(body);
  });
});

it.each([
  [999, "999ms"],
  [1_000, "1s"],
  [59_001, "1m0s"],
  [3_661_000, "1h1m1s"],
])("OpenAI's clients are told of %i ms as %s", (resetMs, told) => {
  const headers = openaiRateHeaders([{ kind: "tokens", limit: 9, remaining: 0, resetMs }]);
  expect(headers["x-ratelimit-reset-tokens"]).toBe(told);
});

const tokensLeft = (response: Response): string | null => response.headers.get("anthropic-ratelimit-tokens-remaining");

describe("tokens", () => {
  it("are reserved with the answer, and corrected to what was used when the call ends", async () => {
    const { send } = limited({ perKey: { tokens: [window(200)] } }, { backend: speaking(WORD, counted(30)) });
    expect(tokensLeft(await send())).toBe(String(200 - INPUT - 50));
    expect(tokensLeft(await send())).toBe(String(200 - INPUT - 30 - INPUT - 50));
  });

  it.each([
    ["that say how long they may become", { max_tokens: 10 }, 10, 10],
    ["that may become longer than they do", { max_tokens: 50 }, 10, 3],
  ])("of calls at once %s stay within the limit", async (_what, body, output, admitted) => {
    const counter = window(200);
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { send, clock } = limited(
      { perKey: { tokens: [counter] } },
      { backend: speaking(told, WORD, counted(output)), key: { granted: 100_000 } },
    );
    const answers = Array.from({ length: 18 }, () => send({ body }));
    await clock.advance(0);
    open();
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(admitted);
    expect(statuses.filter((status) => status === 429)).toHaveLength(18 - admitted);
    const used = (await counter.get('tokens:0:["one"]'))?.consumedPoints;
    expect(used).toBe(admitted * (INPUT + output));
    // Those that were refused may come back as soon as one has ended, and not when the window does.
    const refused = (await Promise.all(answers)).find(({ status }) => status === 429);
    expect(refused?.headers.get("retry-after-ms")).toBe("1000");
  });

  it("of a call that comes to nothing are given back", async () => {
    const { send } = limited({ perKey: { tokens: [window(100)] } }, { backend: speaking(new Error("broken")) });
    const answers = [await send(), await send()];
    expect(answers.map(({ status }) => status)).toEqual([500, 500]);
    expect(answers.map(tokensLeft)).toEqual(["40", "40"]);
  });

  it("beyond the limit are refused before quota is held, and a smaller call is still let in", async () => {
    const asked: string[] = [];
    const around = (store: Opened["store"]) => ({
      reserve: (...hold: Parameters<typeof store.reserve>) => (asked.push("reserve"), store.reserve(...hold)),
    });
    const { send } = limited({ perKey: { tokens: [window(20)] } }, { around, backend: speaking("") });
    const large = await send({ body: { system: "x".repeat(50) } });
    expect([large.status, asked]).toEqual([429, []]);
    expect((await send()).status).toBe(200);
  });
});

describe("calls at once", () => {
  it("beyond the limit are refused until one ends", async () => {
    const { send, clock } = limited({ perKey: { callsAtOnce: 1 } }, { backend: speaking(WORD, never) });
    const first = await send({ body: { stream: true } });
    const second = await send();
    expect([second.status, second.headers.get("retry-after-ms")]).toEqual([429, "1000"]);
    await first.body?.cancel();
    await clock.advance(0);
    expect((await send({ body: { stream: true } })).status).toBe(200);
  });

  it("that begin in the same moment are let in as far as there are places", async () => {
    const { send } = limited({ perModel: { callsAtOnce: 3 } }, { backend: speaking(WORD, never) });
    const answers = await Promise.all(Array.from({ length: 8 }, () => send({ body: { stream: true, max_tokens: 2 } })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(5);
  });

  it("are free again after each way to end", async () => {
    const { send, gateway } = limited({ perKey: { callsAtOnce: 1 } });
    for (const one of [{ body: "{" }, { body: { max_tokens: 1_000_000_000 } }, { path: "/v1/messages/count_tokens" }])
      expect((await send(one)).status).not.toBe(429);
    expect((await send()).status).toBe(200);
    await gateway.close();
  });
});

const FAULTS: readonly [how: string, fault: () => Promise<never>, ms: number][] = [
  ["hangs", () => never, STORE_MS],
  ["rejects", () => Promise.reject(new Error("The limiter is away.")), 0],
];
const NO_VERDICTS = [undefined, null, true, {}, { limits: null }, { limits: [null] }];

describe.each([
  ...FAULTS,
  ...NO_VERDICTS.map(
    (verdict) => [`resolves with ${JSON.stringify(verdict)}`, async () => verdict as unknown as never, 0] as const,
  ),
])("a limiter that %s", (_how, fault, ms) => {
  it.each(["begin", "take"] as const)("at %s is 503, reported as its own", async (verb) => {
    const bench = opened({ rateLimiter: limiter({ [verb]: fault }), limits: { storeTimeoutMs: STORE_MS } });
    const answer = bench.send();
    await bench.clock.advance(ms);
    expect([(await answer).status, await errorCode(await answer)]).toEqual([503, "store_unavailable"]);
    expect(bench.failures).toMatchObject([{ port: "rate-limiter" }]);
    expect(bench.report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it.each(["begin", "take"] as const)("at %s lets calls through where its host wants that", async (verb) => {
    const rateLimiter = limiter({ [verb]: fault });
    const bench = opened({ rateLimiter, rateLimiterDown: "open", limits: { storeTimeoutMs: STORE_MS } });
    const answer = bench.send();
    await bench.clock.advance(ms);
    expect((await answer).status).toBe(200);
    expect(bench.failures).toMatchObject([{ port: "rate-limiter", error: { code: "store_unavailable" } }]);
  });
});

describe("a limiter", () => {
  it.each(FAULTS)("that %s at end holds its answer up for no longer than it may", async (_how, fault, ms) => {
    const bench = opened({ rateLimiter: limiter({ end: fault }), limits: { storeTimeoutMs: STORE_MS } });
    const answer = bench.send();
    await bench.clock.advance(ms);
    expect((await answer).status).toBe(200);
    expect(bench.failures).toMatchObject([{ port: "rate-limiter" }]);
    expect(bench.report()).toMatchObject(AT_REST);
  });

  it("whose admission comes too late gets its place back", async () => {
    const { promise: late, resolve: answer } = Promise.withResolvers<RateVerdict>();
    const ended: string[] = [];
    const rateLimiter = limiter({ begin: () => late, end: async (id) => void ended.push(id) });
    const bench = opened({ rateLimiter, limits: { storeTimeoutMs: STORE_MS } });
    const refused = bench.send();
    await bench.clock.advance(STORE_MS);
    // Its verdict may never come: the call is ended at once, and again when it is admitted after all.
    expect([(await refused).status, ended.length]).toEqual([503, 1]);
    answer(ALL_IS_WELL);
    await bench.clock.advance(0);
    expect(new Set(ended).size).toBe(1);
    expect(ended).toHaveLength(2);
  });

  it.each([
    ["open", "perKey"],
    ["open", "perModel"],
    ["closed", "perKey"],
    ["closed", "perModel"],
  ] as const)("that is %s and whose counters %s lose answers keeps no place for their calls", async (down, scope) => {
    let isHanging = true;
    const real = new RateLimiterMemory({ points: 100, duration: 60 });
    const counter: RateCounter = {
      points: 100,
      consume: (key, points) => (isHanging ? never : real.consume(key, points)),
      penalty: (key, points) => real.penalty(key, points),
      reward: (key, points) => real.reward(key, points),
    };
    const rateLimiter = flexibleRateLimiter({ [scope]: { requests: [counter], callsAtOnce: 2 } });
    const bench = opened({ rateLimiter, rateLimiterDown: down, limits: { storeTimeoutMs: STORE_MS } });
    const status = async (): Promise<number> => {
      const answer = bench.send();
      await bench.clock.advance(STORE_MS);
      return (await answer).status;
    };
    const expected = down === "open" ? 200 : 503;
    expect([await status(), await status(), await status()]).toEqual([expected, expected, expected]);
    isHanging = false;
    expect([await status(), await status(), await status()]).toEqual([200, 200, 200]);
    expect(bench.report()).toMatchObject(AT_REST);
  });

  it("that knows no wait which helps tells clients not to retry", async () => {
    const refused = { by: "tokens", retryAfterMs: Number.POSITIVE_INFINITY, needed: 500, limit: 100 } as const;
    const bench = opened({ rateLimiter: limiter({ take: async () => ({ refused, limits: [] }) }) });
    const answer = await bench.send();
    const headers = ["retry-after", "retry-after-ms", "x-should-retry"].map((name) => answer.headers.get(name));
    expect([answer.status, headers]).toEqual([429, [null, null, "false"]]);
  });

  it("that lies about its limits breaks no answer", async () => {
    const odd = { kind: "requests", limit: Number.NaN, remaining: -1, resetMs: Number.POSITIVE_INFINITY } as const;
    const refused = { by: "requests", retryAfterMs: Number.NaN } as const;
    const bench = opened({ rateLimiter: limiter({ begin: async () => ({ refused, limits: [odd] }) }) });
    const answer = await bench.send();
    expect([answer.status, answer.headers.get("retry-after-ms"), ratesOf(answer)]).toEqual([429, "1000", {}]);
  });

  it("is told of the call, once at each of its steps, and of all that was used", async () => {
    const told: unknown[] = [];
    const rateLimiter = limiter({
      begin: async ({ keyId }, call) => (told.push(["begin", keyId, call?.requestId]), ALL_IS_WELL),
      take: async ({ model, tokens, outputTokens }) => (told.push(["take", model, tokens, outputTokens]), ALL_IS_WELL),
      end: async (id, tokens) => void told.push(["end", id, tokens]),
    });
    const { send } = opened({ rateLimiter, backend: speaking(WORD, counted(7)) });
    const id = (await send()).headers.get("request-id");
    expect(told).toEqual([
      ["begin", "one", id],
      ["take", "any", INPUT, 50],
      ["end", id, INPUT + 7],
    ]);
  });

  it("that refuses is a refusal in the call's record", async () => {
    const records: CallRecord[] = [];
    const setup = { onCall: (record: CallRecord) => records.push(record) };
    const { send } = limited({ perKey: { requests: [window(0)] } }, setup);
    await send();
    expect(records).toMatchObject([{ outcome: "refused", status: 429, errorCode: "rate_limited", units: 0 }]);
  });
});
