/** The limiter over rate-limiter-flexible: every window has room or none is touched, and ends correct what was taken. */

import { RateLimiterMemory } from "rate-limiter-flexible";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { flexibleRateLimiter, type RateCounter, type RateLimiter } from "../../src/index.ts";

// The library takes its time from the machine's clock, so that clock is wound by hand here.
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const MINUTE = 60;
const DAY = 86_400;
const one = { id: "1", keyId: "key" };
const asks = { ...one, model: "any", tokens: 40 };

const used = async (counter: RateLimiterMemory, key: string): Promise<number> =>
  (await counter.get(key))?.consumedPoints ?? 0;

const begun = async (limiter: RateLimiter, id: string): Promise<boolean> =>
  !(await limiter.begin({ id, keyId: "key" })).refused;

const away = (): Promise<never> => Promise.reject(new Error("away"));

describe("windows", () => {
  it("begin anew after their time", async () => {
    const limiter = flexibleRateLimiter({
      perKey: { requests: [new RateLimiterMemory({ points: 1, duration: MINUTE })] },
    });
    expect([await begun(limiter, "1"), await begun(limiter, "2")]).toEqual([true, false]);
    vi.advanceTimersByTime(MINUTE * 1000);
    expect(await begun(limiter, "3")).toBe(true);
  });

  it("are all counted in, or none", async () => {
    const minute = new RateLimiterMemory({ points: 10, duration: MINUTE });
    const day = new RateLimiterMemory({ points: 2, duration: DAY });
    const limiter = flexibleRateLimiter({ perKey: { requests: [minute, day] } });
    for (const id of ["1", "2", "3", "4"]) await begun(limiter, id);
    expect(await used(minute, 'requests:0:["key"]')).toBe(2);
    expect(await used(day, 'requests:1:["key"]')).toBe(2);
    expect((await limiter.begin(one)).refused).toEqual({ by: "requests", retryAfterMs: DAY * 1000 });
  });

  it("are left as they were by one that fails", async () => {
    const minute = new RateLimiterMemory({ points: 10, duration: MINUTE });
    const broken: RateCounter = { points: 1, consume: away, penalty: away, reward: away };
    const limiter = flexibleRateLimiter({ perKey: { requests: [minute, broken], callsAtOnce: 1 } });
    await expect(limiter.begin(one)).rejects.toThrow("away");
    expect(await used(minute, 'requests:0:["key"]')).toBe(0);
    // Its slot is free again: the counter refuses the next call.
    await expect(limiter.begin(one)).rejects.toThrow("away");
  });
});

describe("tokens", () => {
  const KEY = 'tokens:0:["key"]';

  it.each([
    ["more", 90],
    ["less", 5],
    ["nothing", 0],
  ])("are corrected when a call used %s than its estimate", async (_how, tokens) => {
    const counter = new RateLimiterMemory({ points: 100, duration: MINUTE });
    const limiter = flexibleRateLimiter({ perKey: { tokens: [counter] } });
    await limiter.begin(one);
    await limiter.take(asks);
    expect(await used(counter, KEY)).toBe(40);
    await limiter.end("1", tokens);
    await limiter.end("1", tokens);
    expect(await used(counter, KEY)).toBe(tokens);
  });

  it("of a window that is over are no gift to the next", async () => {
    const counter = new RateLimiterMemory({ points: 100, duration: MINUTE });
    const limiter = flexibleRateLimiter({ perKey: { tokens: [counter] } });
    await limiter.begin(one);
    await limiter.take(asks);
    vi.advanceTimersByTime(MINUTE * 1000);
    await limiter.end("1", 0);
    expect(await used(counter, KEY)).toBe(0);
  });

  it("of an answer count also where no input was estimated", async () => {
    const counter = new RateLimiterMemory({ points: 100, duration: MINUTE });
    const limiter = flexibleRateLimiter({ perModel: { tokens: [counter] } });
    await limiter.begin(one);
    await limiter.take({ ...asks, tokens: 0 });
    await limiter.end("1", 30);
    expect(await used(counter, 'tokens:0:["key","any"]')).toBe(30);
  });
});

const metered = (): { counter: RateLimiterMemory; limiter: RateLimiter } => {
  const counter = new RateLimiterMemory({ points: 100, duration: MINUTE });
  return { counter, limiter: flexibleRateLimiter({ perKey: { tokens: [counter] } }) };
};

describe("a call whose answer has less room than it may need", () => {
  const KEY = 'tokens:0:["key"]';
  const long = { model: "any", tokens: 40, outputTokens: 100 };
  const taken = async (limiter: RateLimiter, id: string, more: object = {}) => {
    await limiter.begin({ id, keyId: "key" });
    return limiter.take({ id, keyId: "key", ...long, ...more });
  };

  it("is content with it where it is alone, and others wait for its end", async () => {
    const { counter, limiter } = metered();
    expect((await taken(limiter, "1")).refused).toBeUndefined();
    expect(await used(counter, KEY)).toBe(100);
    expect((await taken(limiter, "2", { tokens: 1, outputTokens: 1 })).refused).toEqual({
      by: "tokens",
      retryAfterMs: 1_000,
    });
    expect(await used(counter, KEY)).toBe(100);
    await limiter.end("1", 45);
    expect(await used(counter, KEY)).toBe(45);
    // The call is alone again.
    expect((await taken(limiter, "3")).refused).toBeUndefined();
    expect(await used(counter, KEY)).toBe(100);
    await limiter.end("3", 60);
    // Used tokens are no reservation: they come back with the next window.
    expect((await taken(limiter, "4")).refused).toEqual({ by: "tokens", retryAfterMs: MINUTE * 1_000 });
  });

  it("is let in first of several that ask at once, and the others are not", async () => {
    const { counter, limiter } = metered();
    const verdicts = await Promise.all(["1", "2", "3"].map((id) => taken(limiter, id)));
    expect(verdicts.map(({ refused }) => refused === undefined)).toEqual([true, false, false]);
    expect(await used(counter, KEY)).toBe(100);
  });

  it("leaves no trace where its counter hangs and it ends", async () => {
    const { counter } = metered();
    let isHanging = true;
    const hanging: RateCounter = {
      points: counter.points,
      consume: (key, points) => (isHanging ? new Promise<never>(() => {}) : counter.consume(key, points)),
      penalty: (key, points) => counter.penalty(key, points),
      reward: (key, points) => counter.reward(key, points),
    };
    const limiter = flexibleRateLimiter({ perKey: { tokens: [hanging] } });
    await limiter.begin({ id: "1", keyId: "key" });
    void limiter.take({ id: "1", keyId: "key", ...long });
    await limiter.end("1", 0);
    void limiter.take({ id: "unknown", keyId: "key", ...long });
    isHanging = false;
    expect((await taken(limiter, "2")).refused).toBeUndefined();
  });

  it("is refused where not even its input has room", async () => {
    const { counter, limiter } = metered();
    expect((await taken(limiter, "1", { tokens: 100 })).refused).toMatchObject({ by: "tokens" });
    expect(await used(counter, KEY)).toBe(0);
    // A refused call holds nothing: the next call is alone.
    expect((await taken(limiter, "2")).refused).toBeUndefined();
  });

  it("reserves no more of its answer than the host says", async () => {
    const counter = new RateLimiterMemory({ points: 100_000, duration: MINUTE });
    const limiter = flexibleRateLimiter({ perKey: { tokens: [counter] } });
    await taken(limiter, "1", { outputTokens: 64_000 });
    expect(await used(counter, KEY)).toBe(40 + 8_192);
    const none = new RateLimiterMemory({ points: 100, duration: MINUTE });
    await taken(flexibleRateLimiter({ perKey: { tokens: [none] }, reservedOutputTokens: 0 }), "1");
    expect(await used(none, KEY)).toBe(40);
  });

  it.each([-1, 1.5, Number.NaN])("cannot be told to reserve %d tokens", (reservedOutputTokens) => {
    expect(() => flexibleRateLimiter({ reservedOutputTokens })).toThrow(RangeError);
  });
});

describe("a call that ends while it takes", () => {
  it("keeps nothing", async () => {
    const { promise: open, resolve } = Promise.withResolvers<void>();
    const real = new RateLimiterMemory({ points: 100, duration: MINUTE });
    const slow: RateCounter = {
      points: 100,
      consume: (key, points) => open.then(() => real.consume(key, points)),
      penalty: (key, points) => real.penalty(key, points),
      reward: (key, points) => real.reward(key, points),
    };
    const limiter = flexibleRateLimiter({ perModel: { tokens: [slow], callsAtOnce: 1 } });
    await limiter.begin(one);
    const taking = limiter.take(asks);
    await limiter.end("1", 0);
    resolve();
    await taking;
    expect(await used(real, 'tokens:0:["key","any"]')).toBe(0);
    await limiter.begin({ id: "2", keyId: "key" });
    expect((await limiter.take({ ...asks, id: "2" })).refused).toBeUndefined();
  });
});

it.each([0, -1, 1.5, Number.NaN])("callsAtOnce cannot be %d", (callsAtOnce) => {
  expect(() => flexibleRateLimiter({ perKey: { callsAtOnce } })).toThrow(RangeError);
});
