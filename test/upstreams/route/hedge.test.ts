/** A second upstream for a first content that is late, in virtual time. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import type { Conversion } from "../../../src/model/conversion.ts";
import type { CallContext, ModelBackend, UnreadEvents } from "../../../src/ports/model-backend.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import {
  hedge,
  type HedgeOptions,
  route,
  type RouteBackend,
  type RouteOptions,
} from "../../../src/upstreams/route/index.ts";
import { aborted } from "../../aborted.ts";
import { ask, type Attempted, begin, observing, type Scripted, scripted, type Step } from "./stage.ts";

const HANG = 1e9;

/** Never answers, and does not hear that it is cut. */
const deaf: ModelBackend = {
  chat: () => ({
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise(() => {}),
      return() {
        throw new Error("no");
      },
    }),
  }),
};

const stage = (
  first: (call: number) => readonly Step[],
  second: (call: number) => readonly Step[],
  options: HedgeOptions = { afterMs: 100, share: 1 },
  more: Partial<RouteOptions> = {},
): { backend: RouteBackend; clock: ManualClock; one: Scripted; two: Scripted } => {
  const clock = manualClock();
  const [one, two] = [scripted(clock, first), scripted(clock, second)];
  const upstreams = [
    { backend: one, name: "one" },
    { backend: two, name: "two", weight: 0 },
  ];
  const backend = route({
    routes: { m: { upstreams, hedge: hedge(options) } },
    clock,
    random: () => 0,
    retry: { rounds: 0 },
    ...more,
  });
  return { backend, clock, one, two };
};

const start = (model: string): Step => ({ type: "start", id: model, model });

const down = (ms: number) => (): readonly Step[] => [ms, new GatewayError("backend_failed", "down")];

describe("a second upstream", () => {
  it("is not asked where the first speaks in time", async () => {
    const { backend, clock, two } = stage(
      (call) => [call === 0 ? 50 : 99, "one"],
      () => ["two"],
    );
    for (let call = 0; call < 2; call++) {
      expect(await ask(backend, clock)).toMatchObject({ text: "one", error: undefined });
      expect([two.requests.length, clock.pending]).toEqual([0, 0]);
    }
  });

  it("answers where it is the first to speak, and the other is cut", async () => {
    const { backend, clock, one } = stage(
      () => [HANG, "one"],
      () => [50, "two"],
    );
    const asked = begin(backend);
    await clock.advance(149);
    expect([asked.text, one.cut]).toEqual(["", 0]);
    await clock.advance(1);
    expect([asked.text, asked.isOver, one.cut]).toEqual(["two", true, 1]);
    expect(clock.pending).toBe(0);
  });

  it("is cut where the first speaks after all", async () => {
    const { backend, clock, two } = stage(
      () => [120, "one"],
      () => [50, "two"],
    );
    expect((await ask(backend, clock)).text).toBe("one");
    expect([two.requests.length, two.cut]).toEqual([1, 1]);
  });

  it("is asked although the first has begun, because a start is no content; its start is then nobody's", async () => {
    const { backend, clock } = stage(
      () => [start("one"), { type: "usage", usage: { inputTokens: 7 } }, HANG],
      () => [start("two"), "word"],
    );
    const { events } = await ask(backend, clock);
    expect(events).toEqual([start("two"), "word"]);
  });

  it("has its own name of the model, which the caller does not see", async () => {
    const clock = manualClock();
    const two = scripted(clock, () => [{ type: "start", model: "large-9" }, "two"]);
    const upstreams = [scripted(clock, () => [HANG]), { backend: two, model: "large-9", weight: 0 }];
    const backend = route({
      routes: { m: { upstreams, hedge: hedge({ afterMs: 5, share: 1 }) } },
      clock,
      random: () => 0,
    });
    const { events } = await ask(backend, clock);
    expect(two.requests[0]?.model).toBe("large-9");
    expect(events).toEqual([{ type: "start", model: "m", upstreamModel: "large-9" }, "two"]);
  });

  it("that fails leaves the call to the first", async () => {
    const { backend, clock } = stage(
      () => [300, "one"],
      () => [10, new GatewayError("backend_failed", "down")],
    );
    expect(await ask(backend, clock)).toMatchObject({ text: "one", error: undefined });
    expect(backend.status()[1]).toMatchObject({ lastFailure: { code: "backend_failed" } });
  });

  it("has the call alone where the first fails", async () => {
    const { backend, clock } = stage(
      () => [150, new GatewayError("backend_failed", "down")],
      () => [300, "two"],
    );
    expect(await ask(backend, clock)).toMatchObject({ text: "two", error: undefined });
  });

  it("leaves the counts of the upstreams that failed where nobody answers", async () => {
    const usage: Step = { type: "usage", usage: { inputTokens: 7 } };
    const { backend, clock } = stage(
      () => [usage, 150, new GatewayError("backend_failed", "down")],
      () => [100, new GatewayError("backend_failed", "down")],
    );
    expect(await ask(backend, clock)).toMatchObject({ events: [usage], error: { code: "backend_failed" } });
  });

  it("is not asked where the first has sent many events without content", async () => {
    const many = Array.from({ length: 100 }, (): Step => ({ type: "usage", usage: { inputTokens: 7 } }));
    const { backend, clock, two } = stage(
      () => [...many, 500, "one"],
      () => ["two"],
    );
    const asked = begin(backend);
    await clock.advance(200);
    expect([asked.events.length, two.requests.length]).toEqual([100, 0]);
  });

  it("is not asked twice where both fail, and the third is asked", async () => {
    const clock = manualClock();
    const [one, two, three] = [scripted(clock, down(200)), scripted(clock, down(50)), scripted(clock, () => ["three"])];
    const upstreams = [one, { backend: two, weight: 0 }, { backend: three, weight: 0 }];
    const backend = route({
      routes: { m: { upstreams, hedge: hedge({ afterMs: 100, share: 1 }) } },
      clock,
      random: () => 0,
    });
    expect((await ask(backend, clock)).text).toBe("three");
    expect([one, two, three].map(({ requests }) => requests.length)).toEqual([1, 1, 1]);
  });

  it("is cut with the call where the first refuses the request", async () => {
    const { backend, clock, two } = stage(
      () => [150, new GatewayError("invalid_request", "wrong")],
      () => [300, "two"],
    );
    const attempts: Attempted[] = [];
    const asked = await ask(backend, clock, {}, observing(attempts));
    expect(asked).toMatchObject({ text: "", error: { code: "invalid_request" } });
    expect(two.cut).toBe(1);
    expect(attempts.map(({ name, errorCode, movedOn }) => [name, errorCode, movedOn])).toEqual([
      ["one", "invalid_request", undefined],
      ["two", "invalid_request", undefined],
    ]);
  });

  it("is cut with the first where the caller leaves, also before it was asked", async () => {
    for (const ms of [50, 150]) {
      const { backend, clock, one, two } = stage(
        () => [HANG],
        () => [HANG],
      );
      const abort = new AbortController();
      const asked = begin(backend, {}, { signal: abort.signal });
      await clock.advance(ms);
      const reason = new GatewayError("client_closed", "gone");
      abort.abort(reason);
      await clock.advance(0);
      expect(clock.pending).toBe(0);
      await clock.advance(1_000);
      expect([asked.error, one.cut, two.requests.length, two.cut]).toEqual([
        reason,
        1,
        ms > 100 ? 1 : 0,
        ms > 100 ? 1 : 0,
      ]);
      expect(clock.pending).toBe(0);
    }
  });

  it("leaves the budget as it is where no other upstream may be asked", async () => {
    const { backend, clock, two } = stage(
      (call) => (call === 0 ? [new GatewayError("backend_failed", "down")] : [200, "one"]),
      (call) => (call === 0 ? [new GatewayError("rate_limited", "later", { retryAfterMs: 1_000 })] : ["two"]),
      { afterMs: 100, share: 0 },
    );
    await ask(backend, clock);
    expect((await ask(backend, clock)).text).toBe("one");
    await clock.advance(1_000);
    // The one call of the budget has found the second upstream at rest: this one may take it.
    expect([(await ask(backend, clock)).text, two.requests.length]).toEqual(["two", 2]);
  });

  it("is not asked where it rests", async () => {
    const { backend, clock, two } = stage(
      (call) => (call < 1 ? [new GatewayError("backend_failed", "down")] : [500, "one"]),
      (call) => (call < 1 ? [new GatewayError("rate_limited", "later", { retryAfterMs: 60_000 })] : ["two"]),
    );
    await ask(backend, clock);
    expect((await ask(backend, clock)).text).toBe("one");
    expect(two.requests).toHaveLength(1);
  });

  it("wins although the first neither answers nor hears that it is cut", async () => {
    const clock = manualClock();
    const upstreams = [deaf, { backend: scripted(clock, () => ["two"]), weight: 0 }];
    const options = hedge({ afterMs: 5, share: 1 });
    const backend = route({ routes: { m: { upstreams, hedge: options } }, clock, random: () => 0 });
    expect((await ask(backend, clock)).text).toBe("two");
  });

  it("is not asked for a caller who has left, although the first does not hear of it", async () => {
    const clock = manualClock();
    const two = scripted(clock, () => ["two"]);
    const options = hedge({ afterMs: 100, share: 1 });
    const upstreams = [deaf, { backend: two, weight: 0 }];
    const backend = route({ routes: { m: { upstreams, hedge: options } }, clock, random: () => 0 });
    const abort = new AbortController();
    begin(backend, {}, { signal: abort.signal });
    await clock.advance(50);
    abort.abort(new GatewayError("client_closed", "gone"));
    await clock.advance(500);
    expect([two.requests.length, clock.pending]).toEqual([0, 0]);
  });
});

/** Begins an answer that goes on until it is cut. */
const outrun = (isReported: boolean): ModelBackend => ({
  async *chat(request, call) {
    const asked = { name: "x", format: "f", model: request.model, modelListed: true, stream: true };
    const attempt = isReported ? call.observeUpstream?.(asked) : undefined;
    expect(attempt?.isBrief ?? false).toBe(false);
    try {
      yield { type: "start", usage: { inputTokens: 9 } };
      await aborted(call.signal);
      call.signal.throwIfAborted();
    } catch (thrown) {
      const error = new GatewayError("backend_failed", "cut");
      attempt?.end({ endMs: 1, errorCode: "backend_failed", error, usage: { inputTokens: 9 } });
      throw thrown;
    }
  },
});

describe("the gateway", () => {
  it.each([true, false])(
    "hears of the upstream that was outrun, before that which answers (reported: %s)",
    async (isReported) => {
      const clock = manualClock();
      const upstreams = [
        { backend: outrun(isReported), name: "one" },
        { backend: scripted(clock, () => ["two"]), name: "two", weight: 0 },
      ];
      const backend = route({
        routes: { m: { upstreams, hedge: hedge({ afterMs: 5, share: 1 }) } },
        clock,
        random: () => 0,
      });
      const attempts: Attempted[] = [];
      await ask(backend, clock, {}, observing(attempts));
      expect(attempts).toMatchObject([
        { name: "one", movedOn: "outrun", ...(isReported && { usage: { inputTokens: 9 } }) },
        { name: "two" },
      ]);
      expect(attempts.map(({ errorCode, error }) => [errorCode, error])).toEqual([
        [undefined, undefined],
        [undefined, undefined],
      ]);
      expect(backend.status()[0]).toMatchObject({ state: "closed", lastFailure: undefined });
    },
  );

  it("charges the first upstream's price where the second was asked in vain", async () => {
    const clock = manualClock();
    const first: ModelBackend = {
      async *chat(request, call) {
        const attempt = call.observeUpstream?.({ format: "f", model: request.model, modelListed: true, stream: true });
        await new Promise<void>((resolve) => void clock.after(50, resolve));
        yield "one";
        attempt?.end({ endMs: 50 });
      },
    };
    const upstreams = [
      { backend: first, name: "one" },
      { backend: outrun(true), name: "two", weight: 0 },
    ];
    const backend = route({
      routes: { m: { upstreams, hedge: hedge({ afterMs: 5, share: 1 }) } },
      clock,
      random: () => 0,
    });
    const attempts: Attempted[] = [];
    expect((await ask(backend, clock, {}, observing(attempts))).text).toBe("one");
    expect(attempts).toMatchObject([
      { name: "one", isChosen: true },
      { name: "two", isChosen: false, movedOn: "outrun" },
    ]);
  });

  it("hears the conversions and the unread events of the upstream that speaks for the call", async () => {
    const clock = manualClock();
    const reporting = (name: string, ms: number): ModelBackend => ({
      async *chat(_request, call) {
        const report = (when: string): void => {
          call.reportConversions([{ field: `${name}.${when}`, conversion: "dropped", why: "" }]);
          call.reportUnread?.(() => [`unread ${name} ${when}`]);
        };
        report("early");
        await new Promise<void>((resolve) => void clock.after(ms, resolve));
        report("late");
        yield name;
      },
    });
    let conversions: readonly Conversion[] = [];
    let unread: UnreadEvents | undefined;
    const context: Partial<CallContext> = {
      reportConversions: (reported) => void (conversions = reported),
      reportUnread: (reported) => void (unread = reported),
    };
    const told = (): unknown => [conversions.map(({ field }) => field), [...(unread?.() ?? [])]];
    const upstreams = [reporting("one", 500), { backend: reporting("two", 100), weight: 0 }];
    const backend = route({
      routes: { m: { upstreams, hedge: hedge({ afterMs: 50, share: 1 }) } },
      clock,
      random: () => 0,
    });
    begin(backend, {}, context);
    await clock.advance(100);
    expect(told()).toEqual([["one.early"], ["unread one early"]]);
    await clock.advance(60);
    expect(told()).toEqual([["two.late"], ["unread two late"]]);
    await clock.advance(1_000);
    expect(told()).toEqual([["two.late"], ["unread two late"]]);
  });

  it("hears the second upstream as soon as the first has failed", async () => {
    const { backend, clock, two } = stage(
      () => [150, new GatewayError("backend_failed", "down")],
      () => [HANG],
    );
    let conversions: readonly Conversion[] = [];
    begin(backend, {}, { reportConversions: (reported) => void (conversions = reported) });
    await clock.advance(120);
    two.calls[0]?.reportConversions([{ field: "two", conversion: "dropped", why: "" }]);
    expect(conversions).toEqual([]);
    await clock.advance(50);
    expect(conversions).toMatchObject([{ field: "two" }]);
  });
});

describe("the delay", () => {
  it("is learned from the last answers of the route", async () => {
    const clock = manualClock();
    let ms = 0;
    const one = scripted(clock, () => [ms, "one"]);
    const two = scripted(clock, () => [1, "two"]);
    const upstreams = [one, { backend: two, weight: 0 }];
    const backend = route({
      routes: { m: { upstreams, hedge: hedge({ percentile: 0.9, share: 1 }) } },
      clock,
      random: () => 0,
    });
    for (let call = 1; call <= 20; call++) {
      ms = call * 10;
      await ask(backend, clock);
    }
    // Nothing is known before 20 answers.
    expect(two.requests).toEqual([]);
    ms = 189;
    await ask(backend, clock);
    expect(two.requests).toEqual([]);
    ms = 1_000;
    const asked = begin(backend);
    await clock.advance(188);
    expect(two.requests).toEqual([]);
    await clock.advance(2);
    expect(two.requests).toHaveLength(1);
    await clock.advance(10);
    expect(asked.text).toBe("two");
  });

  it("is the given one until enough answers are known", async () => {
    const { backend, clock, two } = stage(
      (call) => [call < 21 ? 10 : 50, "one"],
      () => [HANG],
      { afterMs: 5, percentile: 0.5, share: 1 },
    );
    for (let call = 0; call < 20; call++) await ask(backend, clock);
    expect(two.requests.length).toBeGreaterThan(15);
    const before = two.requests.length;
    const asked = begin(backend);
    await clock.advance(9);
    expect(two.requests).toHaveLength(before);
    await clock.advance(100);
    expect(asked.text).toBe("one");
  });
});

it("never asks more second upstreams than its budget allows, in quiet and in bad times", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.double({ min: 0, max: 0.5, noNaN: true }),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 60 }),
      async (share, late) => {
        const { backend, clock, two } = stage(
          (call) => [late[call] ? 200 : 1, "one"],
          () => [HANG],
          { afterMs: 100, share },
        );
        for (let call = 1; call <= late.length; call++) {
          await ask(backend, clock);
          expect(two.requests.length).toBeLessThanOrEqual(1 + share * call);
        }
        // Of calls that are all late, each one that the budget allows is hedged.
        const allowed = late.every(Boolean) ? Math.min(late.length, Math.floor(1 + share * late.length)) : 0;
        expect(two.requests.length).toBeGreaterThanOrEqual(allowed - 1);
      },
    ),
    { numRuns: 30 },
  );
});

const native = (body: Record<string, unknown>, more: object = {}) => ({
  native: { format: "f", body, betas: [], ...more },
});

describe("a request that makes an upstream do or keep something", () => {
  it.each<[string, Parameters<typeof begin>[1], boolean]>([
    ["plain", {}, true],
    ["with the caller's own tools", { tools: [{ type: "function", name: "f", inputSchema: {} }] }, true],
    ["that keeps nothing", native({ store: false, background: null, mcp_servers: [] }), true],
    ["complete", { stream: false }, false],
    ["with a tool of the provider", { tools: [{ type: "provider", format: "f", definition: {} }] }, false],
    ["with a tool that runs code", { tools: [{ type: "code-execution" }] }, false],
    ["in the background", native({ background: true }), false],
    ["that is stored", native({ store: true }), false],
    ["with servers of tools", native({ mcp_servers: [{ url: "https://example.com" }] }), false],
    ["in a container", native({ container: "c_1" }), false],
    ["with types that the gateway does not know", native({}, { assertKnown: () => {} }), false],
  ])("is asked once: %s", async (_name, request, isHedged) => {
    const { backend, clock, two } = stage(
      () => [500, "one"],
      () => [HANG],
    );
    expect((await ask(backend, clock, request)).text).toBe("one");
    expect(two.requests).toHaveLength(isHedged ? 1 : 0);
  });
});

it.each<[string, unknown, string]>([
  ["a delay of 0", { afterMs: 0 }, "hedge: afterMs must be"],
  ["a percentile of 95", { percentile: 95 }, "hedge: percentile must be a number from 0.5 to below 1"],
  ["a share above 1", { share: 5 }, "hedge: share must be a number from 0 to 1"],
  ["a misspelt option", { after: 5 }, "did you mean afterMs"],
])("refuses %s", (_name, options, message) => {
  expect(() => hedge(options as HedgeOptions)).toThrow(message);
});
