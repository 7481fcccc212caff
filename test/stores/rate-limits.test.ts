/** The limiter over rate-limiter-flexible: every window has room or none is touched, and ends correct what was taken. */

import { RateLimiterMemory } from "rate-limiter-flexible";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type ApiKey, flexibleRateLimiter, type RateCounter, type RateLimiter } from "../../src/index.ts";

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

/** A counter with the same windows, of which a test may change a verb. */
const shown = (counter: RateLimiterMemory): RateCounter => ({
  points: counter.points,
  duration: counter.duration,
  consume: (key, points) => counter.consume(key, points),
  penalty: (key, points) => counter.penalty(key, points),
  reward: (key, points) => counter.reward(key, points),
});

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
    expect((await limiter.begin(one)).refused).toEqual({
      by: "requests",
      retryAfterMs: DAY * 1000,
      needed: 1,
      available: 0,
      limit: 2,
      windowMs: DAY * 1000,
      endsAt: Date.now() + DAY * 1000,
    });
  });

  it("get nothing back from a refusal behind their end", async () => {
    const minute = new RateLimiterMemory({ points: 10, duration: MINUTE });
    const day = new RateLimiterMemory({ points: 0, duration: DAY });
    const late: RateCounter = {
      points: 0,
      consume(key, points) {
        vi.advanceTimersByTime(MINUTE * 1000);
        return day.consume(key, points);
      },
      penalty: (key, points) => day.penalty(key, points),
      reward: (key, points) => day.reward(key, points),
    };
    const limiter = flexibleRateLimiter({ perKey: { requests: [minute, late] } });
    expect(await begun(limiter, "1")).toBe(false);
    expect(await used(minute, 'requests:0:["key"]')).toBe(0);
  });

  it.each(["get", "consume"] as const)(
    "tell the longest wait of all that lack room, if the counters have %s",
    async (verb) => {
      const [minute, day] = [MINUTE, DAY].map((duration) => new RateLimiterMemory({ points: 100, duration }));
      if (!minute || !day) throw new Error("There are two counters.");
      const limiter = flexibleRateLimiter({ perKey: { tokens: [minute, verb === "get" ? day : shown(day)] } });
      await day.penalty('tokens:1:["key"]', 70);
      await minute.penalty('tokens:0:["key"]', 70);
      expect((await limiter.take(asks)).refused).toMatchObject({
        retryAfterMs: (verb === "get" ? DAY : MINUTE) * 1_000,
        needed: 40,
        available: 30,
      });
      expect([await used(minute, 'tokens:0:["key"]'), await used(day, 'tokens:1:["key"]')]).toEqual([70, 70]);
    },
  );

  it.each<[how: string, get: NonNullable<RateCounter["get"]>]>([
    ["rejects", away],
    [
      "throws",
      () => {
        throw new Error("away");
      },
    ],
    ["returns nothing", (() => undefined) as never],
  ])("tell their own wait where another %s in place of its own", async (_how, get) => {
    const minute = new RateLimiterMemory({ points: 0, duration: MINUTE });
    const failing = { ...shown(new RateLimiterMemory({ points: 100, duration: DAY })), get };
    const limiter = flexibleRateLimiter({ perKey: { requests: [minute, failing] } });
    expect((await limiter.begin(one)).refused).toMatchObject({ by: "requests", limit: 0 });
  });

  it.each<[which: string, points: number, duration: number]>([
    ["that is smaller than the call", 39, MINUTE],
    ["that never ends", 50, 0],
  ])("tell no wait for one %s", async (_which, points, duration) => {
    const limiter = flexibleRateLimiter({ perKey: { tokens: [new RateLimiterMemory({ points, duration })] } });
    await limiter.begin({ id: "first", keyId: "key" });
    await limiter.take({ id: "first", keyId: "key", model: "any", tokens: 30 });
    await limiter.end("first", 30);
    expect((await limiter.take(asks)).refused).toMatchObject({ retryAfterMs: Number.POSITIVE_INFINITY, needed: 40 });
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
      needed: 2,
      available: 0,
      limit: 100,
      windowMs: MINUTE * 1_000,
      endsAt: Date.now() + MINUTE * 1_000,
    });
    expect(await used(counter, KEY)).toBe(100);
    await limiter.end("1", 45);
    expect(await used(counter, KEY)).toBe(45);
    // The call is alone again.
    expect((await taken(limiter, "3")).refused).toBeUndefined();
    expect(await used(counter, KEY)).toBe(100);
    await limiter.end("3", 60);
    // Used tokens are no reservation: they come back with the next window.
    expect((await taken(limiter, "4")).refused).toMatchObject({ by: "tokens", retryAfterMs: MINUTE * 1_000 });
  });

  it("is let in first of several that ask at once, and the others are not", async () => {
    const { counter, limiter } = metered();
    const verdicts = await Promise.all(["1", "2", "3"].map((id) => taken(limiter, id)));
    expect(verdicts.map(({ refused }) => refused === undefined)).toEqual([true, false, false]);
    expect(await used(counter, KEY)).toBe(100);
  });

  it("is told to come back soon where another one is about to reserve the room", async () => {
    const { limiter } = metered();
    const verdicts = await Promise.all(["1", "2"].map((id) => taken(limiter, id)));
    expect(verdicts.map(({ refused }) => refused?.retryAfterMs)).toEqual([undefined, 1_000]);
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

  it("gives its places back at its end, whatever its counters do", async () => {
    const answers: (() => void)[] = [];
    const slow = (): RateCounter => {
      const { counter } = metered();
      return {
        points: counter.points,
        consume: async (key, points) => {
          await new Promise<void>((resolve) => answers.push(resolve));
          return counter.consume(key, points);
        },
        penalty: (key, points) => counter.penalty(key, points),
        reward: (key, points) => counter.reward(key, points),
      };
    };
    const answer = (): void => answers.splice(0).forEach((resolve) => resolve());
    const limiter = flexibleRateLimiter({
      perKey: { requests: [slow()], callsAtOnce: 1 },
      perModel: { tokens: [slow()], callsAtOnce: 1 },
    });
    const late = limiter.begin({ id: "late", keyId: "key" });
    expect((await limiter.begin({ id: "other", keyId: "key" })).refused).toMatchObject({ by: "calls" });
    // The call goes on without a verdict, and ends before its counters answer.
    const taking = limiter.take({ id: "late", keyId: "key", ...long });
    await limiter.end("late", 0);
    const next = limiter.begin({ id: "next", keyId: "key" });
    answer();
    expect([(await late).refused, (await next).refused]).toEqual([undefined, undefined]);
    await taking;
    const nextTaking = limiter.take({ id: "next", keyId: "key", ...long });
    answer();
    expect((await nextTaking).refused).toBeUndefined();
    expect((await limiter.begin({ id: "other", keyId: "key" })).refused).toMatchObject({ by: "calls" });
    await limiter.end("next", 0);
    // A call that has not begun takes no place.
    void limiter.take({ id: "unknown", keyId: "key", ...long });
    const last = limiter.begin({ id: "last", keyId: "key" });
    answer();
    expect((await last).refused).toBeUndefined();
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

const rights = { unlimited: true, modelLimits: {}, modelLimitsEnabled: false, expiresAt: 0 };
const keyOf = (id: string, metadata: Record<string, string> = {}): ApiKey => ({ id, name: id, ...rights, metadata });
const requests = (points: number) => ({ requests: [new RateLimiterMemory({ points, duration: MINUTE })] });
const demand = (id: string, name: string) => ({ id, keyId: name, key: keyOf(name), model: "any", tokens: 60 });
const firstLetter = ({ name }: ApiKey): string => name.slice(0, 1);
const goldForVip = ({ id }: ApiKey): string | undefined => (id.startsWith("vip-") ? "gold" : undefined);

describe("tiers and groups", () => {
  let calls = 0;
  const begin = async (limiter: RateLimiter, key: ApiKey) =>
    (await limiter.begin({ id: `call-${++calls}`, keyId: key.id, key })).refused?.by;
  const admitted = async (limiter: RateLimiter, key: ApiKey): Promise<number> => {
    for (let count = 0; count < 20; count++) if (await begin(limiter, key)) return count;
    return 20;
  };

  it("limits a key by its tier, and a key without one by the limits beside the tiers", async () => {
    const tiers = { free: { perKey: requests(1) }, gold: { perKey: requests(5) } };
    const limiter = flexibleRateLimiter({ perKey: requests(2), tiers });
    expect(await admitted(limiter, keyOf("a", { tier: "free" }))).toBe(1);
    expect(await admitted(limiter, keyOf("b", { tier: "gold" }))).toBe(5);
    expect(await admitted(limiter, keyOf("c"))).toBe(2);
    expect(await admitted(limiter, keyOf("a", { tier: "gold" })), "a new tier begins with a new window").toBe(5);
  });

  it("keeps the limits that a tier does not name", async () => {
    const model = { perModel: requests(2), perGroup: { callsAtOnce: 30 } };
    const limiter = flexibleRateLimiter({
      perKey: requests(9),
      ...model,
      tiers: { gold: { perKey: requests(5) }, free: { perModel: {} } },
    });
    const taken = async (key: ApiKey): Promise<number> => {
      for (let count = 0; count < 20; count++) {
        const id = `take-${++calls}`;
        if ((await limiter.begin({ id, keyId: key.id, key })).refused) return count;
        if ((await limiter.take({ id, keyId: key.id, key, model: "large", tokens: 1 })).refused) return count;
      }
      return 20;
    };
    expect(await taken(keyOf("a", { tier: "gold" }))).toBe(2);
    expect(await taken(keyOf("b", { tier: "free" }))).toBe(9);
    expect(await taken(keyOf("c"))).toBe(2);
  });

  it("shares a group's limit between tiers that do not name one", async () => {
    const limiter = flexibleRateLimiter({ perGroup: requests(4), tiers: { gold: { perKey: requests(3) } } });
    expect(await admitted(limiter, keyOf("a", { group: "team", tier: "gold" }))).toBe(3);
    expect(await admitted(limiter, keyOf("b", { group: "team" }))).toBe(1);
  });

  it("counts the concurrent calls of a group apart in each tier that has a limit of its own", async () => {
    const limiter = flexibleRateLimiter({
      perGroup: { callsAtOnce: 2 },
      tiers: { gold: { perGroup: { callsAtOnce: 5 } }, free: {} },
    });
    expect(await admitted(limiter, keyOf("a", { group: "team", tier: "gold" }))).toBe(5);
    expect(await admitted(limiter, keyOf("b", { group: "team" }))).toBe(2);
    expect(await admitted(limiter, keyOf("c", { group: "team", tier: "free" }))).toBe(0);
  });

  it("refuses a counter in two places", () => {
    const [counter] = requests(1).requests;
    if (!counter) throw new Error("A counter was expected.");
    expect(() => flexibleRateLimiter({ perKey: { requests: [counter, counter] } })).toThrow(
      "flexibleRateLimiter: perKey.requests[1] is the same counter as flexibleRateLimiter: perKey.requests[0]; each limit needs a counter of its own.",
    );
    expect(() =>
      flexibleRateLimiter({ perKey: { requests: [counter] }, tiers: { gold: { perModel: { tokens: [counter] } } } }),
    ).toThrow(
      'flexibleRateLimiter: tiers["gold"]: perModel.tokens[0] is the same counter as flexibleRateLimiter: perKey.requests[0];',
    );
  });

  it.each<[string, unknown]>([
    ["not a number.", 60],
    ["and has no consume().", { points: 60, duration: 60 }],
    ["not a class: write new before it.", RateLimiterMemory],
    ["and has no points.", { consume: away, penalty: away, reward: away }],
  ])("refuses what is no counter: %s", (fault, counter) => {
    const limits = { requests: [new RateLimiterMemory({ points: 1, duration: 1 }), counter as RateCounter] };
    expect(() => flexibleRateLimiter({ tiers: { gold: { perKey: limits } } })).toThrow(
      `flexibleRateLimiter: tiers["gold"]: perKey.requests[1] must be a counter of rate-limiter-flexible, such as new RateLimiterMemory({ points: 60, duration: 60 }), ${fault}`,
    );
  });

  it("asks the host for the tier", async () => {
    const limiter = flexibleRateLimiter({
      perKey: requests(1),
      tiers: { gold: { perKey: requests(3) } },
      tierOf: goldForVip,
    });
    expect([await admitted(limiter, keyOf("vip-a")), await admitted(limiter, keyOf("b"))]).toEqual([3, 1]);
  });

  it.each([
    ["constructor", "NAME"],
    ["golld", "gold"],
  ])("refuses the tier %s, which there is not, and tells the host alone which there are", async (tier, meant) => {
    const limiter = flexibleRateLimiter({ tiers: { gold: {}, slow: {} } });
    const error = await begin(limiter, keyOf("a", { tier })).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "misconfigured",
      port: "rate-limiter",
      message: "This service has a wrong setting for this API key. Its operator must correct it.",
      cause: {
        message: `The key a names the rate tier "${tier}", which the rate limiter does not have (known: "gold", "slow"). Run polygate keys update a --metadata tier=${meant}, or add the tier to tiers.`,
      },
    });
    expect(await begin(limiter, keyOf("a", { tier: "gold" }))).toBeUndefined();
  });

  it.each(["$(id)", "-a", "a b"])("names no command with the id %s, which a shell would read otherwise", async (id) => {
    const limiter = flexibleRateLimiter({ tiers: { gold: {} } });
    const error = await begin(limiter, keyOf(id, { tier: "golld" })).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      cause: { message: expect.stringContaining("Run polygate keys update KEY --metadata tier=gold,") },
    });
  });

  it.each<[names: readonly string[], known: string]>([
    [[], "none"],
    [["gold", "slow"], '"gold", "slow"'],
  ])("names the tiers %j, and the function that has chosen a wrong one", async (names, known) => {
    const tiers = Object.fromEntries(names.map((name) => [name, {}]));
    const limiter = flexibleRateLimiter({ tiers, tierOf: () => "vip" });
    const message = `(known: ${known}). Correct tierOf, or add the tier to tiers.`;
    await expect(begin(limiter, keyOf("a"))).rejects.toMatchObject({
      cause: { message: expect.stringContaining(message) },
    });
  });

  it("says what is wrong with the tier of a key", () => {
    const tiers = { gold: {}, slow: {} };
    const limiter = flexibleRateLimiter({ tiers });
    expect(limiter.keyFault?.(keyOf("a", { tier: "golld" }))).toBe(
      'metadata.tier must be "gold" or "slow", not "golld". Did you mean "gold"?',
    );
    for (const metadata of [{ tier: "gold" }, {}]) expect(limiter.keyFault?.(keyOf("a", metadata))).toBeUndefined();
    const ofHost = flexibleRateLimiter({ tiers: {}, tierOf: () => "vip" });
    expect(ofHost.keyFault?.(keyOf("a"))).toBe('The rate tier of the key must be left out, not "vip".');
    expect(flexibleRateLimiter({}).keyFault?.(keyOf("a", { tier: "any" })), "no tiers").toBeUndefined();
  });

  it("shares the limits of a group between its keys", async () => {
    const limiter = flexibleRateLimiter({ perKey: requests(3), perGroup: requests(4) });
    expect(await admitted(limiter, keyOf("a", { group: "team" }))).toBe(3);
    expect(await admitted(limiter, keyOf("b", { group: "team" }))).toBe(1);
    expect(await admitted(limiter, keyOf("c", { group: "other" }))).toBe(3);
    expect(await admitted(limiter, keyOf("team"))).toBe(3);
  });

  it("shares the tokens and the concurrent calls of a group", async () => {
    const tokens = new RateLimiterMemory({ points: 100, duration: MINUTE });
    const limiter = flexibleRateLimiter({ perGroup: { tokens: [tokens], callsAtOnce: 2 }, groupOf: firstLetter });
    for (const [id, name] of [
      ["1", "a1"],
      ["2", "a2"],
    ] as const)
      await limiter.begin(demand(id, name));
    expect((await limiter.begin(demand("3", "a3"))).refused?.by).toBe("calls");
    expect((await limiter.begin(demand("4", "b1"))).refused).toBeUndefined();
    expect((await limiter.take(demand("1", "a1"))).refused).toBeUndefined();
    expect((await limiter.take(demand("2", "a2"))).refused?.by).toBe("tokens");
    expect((await limiter.take(demand("4", "b1"))).refused).toBeUndefined();
    await limiter.end("1", 10);
    expect((await limiter.take(demand("2", "a2"))).refused).toBeUndefined();
    expect((await limiter.begin(demand("5", "a3"))).refused).toBeUndefined();
  });

  it("refuses a wrong limit of a tier", () => {
    expect(() => flexibleRateLimiter({ tiers: { gold: { perGroup: { callsAtOnce: 0 } } } })).toThrow(
      'tiers["gold"]: perGroup: callsAtOnce must be a positive integer, not 0',
    );
  });
});

const counterOf = (points: number) => new RateLimiterMemory({ points, duration: MINUTE });

describe("a refusal", () => {
  const key = { id: "key", metadata: { group: "blue" } } as unknown as ApiKey;

  it("names the limit of one model, and of the group", async () => {
    const limiter = flexibleRateLimiter({
      perModel: { tokens: [counterOf(50)] },
      perGroup: { requests: [counterOf(2)], callsAtOnce: 9 },
    });
    await limiter.begin({ ...one, key });
    expect((await limiter.take({ ...asks, key, tokens: 60, outputTokens: 5 })).refused).toMatchObject({
      by: "tokens",
      model: "any",
      needed: 61,
      available: 50,
      limit: 50,
      windowMs: MINUTE * 1_000,
    });
    await limiter.begin({ ...one, id: "2", key });
    expect((await limiter.begin({ ...one, id: "3", key })).refused).toMatchObject({
      by: "requests",
      group: "blue",
      needed: 1,
      available: 0,
      limit: 2,
    });
  });

  it("names the most calls at once", async () => {
    const limiter = flexibleRateLimiter({ perKey: { callsAtOnce: 1 } });
    await limiter.begin(one);
    expect((await limiter.begin({ ...one, id: "2" })).refused).toEqual({
      by: "calls",
      retryAfterMs: 1_000,
      needed: 1,
      available: 0,
      limit: 1,
    });
  });
});

const limitOf = async (limiter: RateLimiter, id: string, model: string, key?: ApiKey): Promise<string | undefined> => {
  const demand = { id, keyId: "key", ...(key && { key }) };
  const { refused } = await limiter.begin(demand);
  return (refused ?? (await limiter.take({ ...demand, model, tokens: 1 })).refused)?.by;
};

describe("limits by the name of a model", () => {
  it("replace those of each model, beside one limit for all models", async () => {
    const limiter = flexibleRateLimiter({
      perKey: { requests: [counterOf(5)] },
      perModel: { requests: [counterOf(1)] },
      models: { large: { requests: [counterOf(2)] }, small: {} },
    });
    const models = ["large", "large", "large", "other", "other", "small"];
    const found: (string | undefined)[] = [];
    for (const [at, model] of models.entries()) found.push(await limitOf(limiter, String(at), model));
    // The last call is refused by the limit for all models together, which counts the calls of each model.
    expect(found).toEqual([undefined, undefined, "requests", undefined, "requests", "requests"]);
  });

  it("may differ by tier", async () => {
    const limiter = flexibleRateLimiter({
      models: { large: { requests: [counterOf(1)] } },
      tiers: { gold: { models: { large: { requests: [counterOf(2)] } } } },
    });
    const gold = { id: "key", metadata: { tier: "gold" } } as unknown as ApiKey;
    expect([await limitOf(limiter, "1", "large"), await limitOf(limiter, "2", "large")]).toEqual([
      undefined,
      "requests",
    ]);
    const ofGold = [await limitOf(limiter, "3", "large", gold), await limitOf(limiter, "4", "large", gold)];
    expect([...ofGold, await limitOf(limiter, "5", "large", gold)]).toEqual([undefined, undefined, "requests"]);
    // A name that every object has is no name of a limit.
    expect(await limitOf(limiter, "6", "constructor")).toBeUndefined();
  });

  it("need counters of their own", () => {
    const counter = counterOf(1);
    expect(() =>
      flexibleRateLimiter({ perKey: { requests: [counter] }, models: { large: { requests: [counter] } } }),
    ).toThrow('models["large"].requests[0] is the same counter as flexibleRateLimiter: perKey.requests[0]');
  });
});
