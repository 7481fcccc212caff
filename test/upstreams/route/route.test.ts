/** A route: the upstream of each call, and the others after a failure. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it, vi } from "vitest";
import { GatewayError, type GatewayErrorCode } from "../../../src/errors.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import type { Conversion } from "../../../src/model/conversion.ts";
import { type ModelBackend, takesUnlisted } from "../../../src/ports/model-backend.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import {
  type CheckOptions,
  type Route,
  route,
  type RouteBackend,
  type RouteOptions,
} from "../../../src/upstreams/route/index.ts";
import { callContext, chatRequest } from "../relay/stage.ts";

/** A backend that fails a number of times, and then answers with its name. */
interface Fake extends ModelBackend {
  readonly asked: ChatRequest[];
  failures: (GatewayErrorCode | undefined)[];
  retryAfterMs?: number;
}

function fake(name: string, failures: Fake["failures"] = [], more: Partial<ModelBackend> = {}): Fake {
  const backend: Fake = {
    asked: [],
    failures,
    ...more,
    async *chat(request) {
      backend.asked.push(request);
      const code = backend.failures.shift();
      const { retryAfterMs } = backend;
      if (code) throw new GatewayError(code, `${name} failed`, retryAfterMs === undefined ? {} : { retryAfterMs });
      yield { type: "start", model: request.model };
      yield name;
    },
  };
  return backend;
}

/** The functions of every route. */
const ALWAYS = ["hangUp", "upstreamsOf", "status", "check", "load", "close"];

const FOREVER = (code: GatewayErrorCode): GatewayErrorCode[] => Array.from({ length: 1_000 }, () => code);

/** Asks, and lets time pass until the answer has ended. */
async function ask(
  backend: ModelBackend,
  model: string,
  clock: ManualClock = manualClock(),
  signal?: AbortSignal,
): Promise<{ text: string; models: (string | undefined)[]; error: unknown; waitedMs: number }> {
  const events: (ChatEvent | string)[] = [];
  const state: { error: unknown; ended: boolean } = { error: undefined, ended: false };
  const run = async (): Promise<void> => {
    for await (const event of backend.chat?.(chatRequest({ model }), callContext(signal)) ?? []) events.push(event);
  };
  void run()
    .catch((error: unknown) => (state.error = error))
    .finally(() => (state.ended = true));
  const begin = clock.now();
  await clock.advance(0);
  while (!state.ended) await clock.advance(1);
  const text = events.filter((event) => typeof event === "string").join("");
  const models = events.flatMap((event) => (typeof event === "object" && event.type === "start" ? event.model : []));
  return { text, models, error: state.error, waitedMs: clock.now() - begin };
}

const never = (): Promise<never> => new Promise(() => {});

const routed = (routes: RouteOptions["routes"], options: Partial<RouteOptions> = {}): RouteBackend =>
  route({ routes, random: () => 0, ...options });

/** The cast allows the mistakes of hosts. */
const listingBy = (models: () => unknown): ModelBackend =>
  fake("one", [], { models: models as NonNullable<ModelBackend["models"]> });

describe("a call", () => {
  const backend = routed({
    "claude-*": fake("claude"),
    "claude-fast-*": fake("fast"),
    "claude-1": fake("exact"),
    "*": fake("rest"),
  });

  it.each([
    ["claude-1", "exact"],
    ["claude-12", "claude"],
    ["claude-", "claude"],
    ["claude-fast-2", "fast"],
    ["Claude-1", "rest"],
    ["__proto__", "rest"],
  ])("for %s goes to %s", async (model, name) => {
    expect(await ask(backend, model)).toMatchObject({ text: name, error: undefined });
  });

  it("for a model that no route leads to is not found", async () => {
    const { error } = await ask(routed({ "a-*": fake("a") }), "b");
    expect(error).toMatchObject({ code: "model_not_found", path: ["model"] });
  });

  it("goes out under the upstream's name, and its answer comes back under the caller's", async () => {
    const upstream = fake("large");
    const { models } = await ask(routed({ fast: { upstreams: [{ backend: upstream, model: "large-9" }] } }), "fast");
    expect(upstream.asked[0]?.model).toBe("large-9");
    expect(models).toEqual(["fast"]);
  });

  it("is drawn by weight", async () => {
    const counts: Record<string, number> = {};
    let point = 0;
    const upstreams = [
      { backend: fake("three"), weight: 3 },
      { backend: fake("one"), weight: 1 },
      { backend: fake("none"), weight: 0 },
    ];
    const backend = route({ routes: { "*": { upstreams } }, random: () => point });
    for (point = 0; point < 1; point += 1 / 64) {
      const { text } = await ask(backend, "m");
      counts[text] = (counts[text] ?? 0) + 1;
    }
    expect(counts).toEqual({ three: 48, one: 16 });
  });
});

describe("where an upstream fails", () => {
  it.each<GatewayErrorCode>([
    "backend_failed",
    "backend_unavailable",
    "backend_overloaded",
    "deadline_exceeded",
    "rate_limited",
    "model_not_found",
    "backend_refused",
    "context_length_exceeded",
  ])("before its first event with %s, the next is asked at once", async (code) => {
    const [one, two] = [fake("one", [code]), fake("two")];
    const outcome = await ask(routed({ "*": { upstreams: [one, { backend: two, weight: 0 }] } }), "m");
    expect(outcome).toMatchObject({ text: "two", error: undefined, waitedMs: 0 });
  });

  it.each<GatewayErrorCode>(["invalid_request", "failed_precondition", "body_too_large"])(
    "with %s, which is the request's own, nobody else is asked",
    async (code) => {
      const [one, two] = [fake("one", [code]), fake("two")];
      const { error } = await ask(routed({ "*": { upstreams: [one, { backend: two, weight: 0 }] } }), "m");
      expect(error).toMatchObject({ code });
      expect(two.asked).toEqual([]);
    },
  );

  it("after its first event, its error is the caller's: nothing is begun again", async () => {
    const broken: ModelBackend = {
      async *chat() {
        yield "half";
        throw new GatewayError("backend_failed", "broke off");
      },
    };
    const two = fake("two");
    const outcome = await ask(routed({ "*": { upstreams: [broken, { backend: two, weight: 0 }] } }), "m");
    expect(outcome).toMatchObject({ text: "half", error: { code: "backend_failed" } });
    expect(two.asked).toEqual([]);
  });

  it.each([false, true])(
    "all its counts before its first other event are passed on, if it fails then: %s",
    async (fails) => {
      const counting: ModelBackend = {
        async *chat() {
          yield { type: "usage", usage: { inputTokens: 5 } };
          yield { type: "usage", usage: { cacheReadTokens: 3 } };
          if (fails) throw new GatewayError("backend_failed", "broke off");
          yield "word";
        },
      };
      const backend = routed({ m: counting }, { retry: { rounds: 0 } });
      const events: unknown[] = [];
      try {
        for await (const event of backend.chat?.(chatRequest({ model: "m" }), callContext()) ?? []) events.push(event);
      } catch (error) {
        events.push((error as GatewayError).message);
      }
      expect(events).toEqual([
        { type: "usage", usage: { inputTokens: 5 } },
        { type: "usage", usage: { cacheReadTokens: 3 } },
        fails ? "broke off" : "word",
      ]);
    },
  );

  it("as all others do, they are tried again after pauses that grow, and then the last error is told", async () => {
    const one = fake("one", ["backend_failed", "backend_failed"]);
    const clock = manualClock();
    const outcome = await ask(routed({ "*": one }, { clock }), "m", clock);
    expect(outcome).toMatchObject({ text: "one", error: undefined, waitedMs: 250 + 500 });
    one.failures = FOREVER("backend_failed");
    const failed = await ask(routed({ "*": one }, { clock }), "m", clock);
    expect(failed).toMatchObject({ error: { code: "backend_failed", message: "one failed" }, waitedMs: 750 });
  });

  it("and says when to come back, the pause is as long as that, or the caller is told where it is too long", async () => {
    const clock = manualClock();
    const one = fake("one", ["rate_limited"]);
    one.retryAfterMs = 4_000;
    expect(await ask(routed({ "*": one }, { clock }), "m", clock)).toMatchObject({ text: "one", waitedMs: 4_000 });
    const slow = fake("slow", ["rate_limited"]);
    slow.retryAfterMs = 40_000;
    const backend = routed({ "*": slow }, { clock });
    expect(await ask(backend, "m", clock)).toMatchObject({
      error: { code: "rate_limited", retryAfterMs: 40_000 },
      waitedMs: 0,
    });
    // Until then, no other call asks the upstream, and its caller is told the same.
    expect(await ask(backend, "m", clock)).toMatchObject({
      error: { code: "rate_limited", message: "The model backend is busy.", retryAfterMs: 40_000 },
    });
    await clock.advance(40_000);
    expect(await ask(backend, "m", clock)).toMatchObject({ text: "slow" });
  });

  it("and another upstream is away, a call that asks neither is told that they are not available", async () => {
    const clock = manualClock();
    const slow = fake("slow", ["rate_limited"]);
    slow.retryAfterMs = 40_000;
    const upstreams = [slow, fake("away", FOREVER("backend_failed"))].map((backend) => ({ backend }));
    const options = { clock, breaker: { failures: 1, openMs: 40_000 }, retry: { rounds: 0 } };
    const backend = routed({ "*": { upstreams } }, options);
    await ask(backend, "m", clock);
    expect((await ask(backend, "m", clock)).error).toMatchObject({ code: "backend_unavailable" });
  });

  it("a pause ends with its call", async () => {
    const clock = manualClock();
    const abort = new AbortController();
    const backend = routed({ "*": fake("one", FOREVER("backend_failed")) }, { clock });
    const reason = new GatewayError("client_closed", "gone");
    clock.after(100, () => abort.abort(reason));
    expect(await ask(backend, "m", clock, abort.signal)).toMatchObject({ error: reason, waitedMs: 100 });
    expect(clock.pending).toBe(0);
  });

  it.each<[what: string, thrown: unknown, asked: number]>([
    ["a mistake in the code of a backend", new TypeError("x is not a function"), 1],
    ["an error that says no more", new Error("broken"), 3],
    ["a fetch that failed without a code, as on Deno", new TypeError("error sending request for url"), 3],
    ["an error of an SDK", Object.assign(new TypeError("503"), { status: 503 }), 3],
    ["an answer that is no JSON", new SyntaxError("Unexpected token < in JSON"), 3],
    ["an error of another class", new (class extends Error {})("503"), 3],
    ["a value that is no error", null, 3],
    ["a connection that was closed", Object.assign(new Error("other side closed"), { code: "UND_ERR_SOCKET" }), 3],
    ["a fetch that failed", new TypeError("fetch failed", { cause: { code: "UND_ERR_SOCKET" } }), 3],
    ["an upstream that took too long", new DOMException("late", "TimeoutError"), 3],
    ["an error for callers", new GatewayError("backend_failed", "down"), 3],
  ])("with %s, are asked once, or again after pauses", async (_what, thrown, asked) => {
    const clock = manualClock();
    const counts = { own: 0, next: 0 };
    const throwing = (name: keyof typeof counts): ModelBackend => ({
      chat() {
        counts[name]++;
        throw thrown;
      },
    });
    const upstreams = [throwing("own"), { backend: throwing("next"), weight: 0 }];
    const backend = routed({ "*": { upstreams } }, { clock, breaker: { failures: Infinity }, retry: { share: 10 } });
    const { error } = await ask(backend, "m", clock);
    expect(error).toBeInstanceOf(GatewayError);
    expect(counts).toEqual({ own: asked, next: asked });
  });

  it("again and again, further attempts are a share of the calls", async () => {
    const clock = manualClock();
    const one = fake("one", FOREVER("backend_failed"));
    const backend = routed({ "*": one }, { clock, breaker: { failures: Infinity }, retry: { rounds: 4, share: 0.1 } });
    for (let call = 0; call < 100; call++) await ask(backend, "m", clock);
    // A hundred calls, the ten attempts that were saved up, and a tenth of a hundred.
    expect(one.asked.length).toBeGreaterThan(110);
    expect(one.asked.length).toBeLessThanOrEqual(120);
  });
});

it("what the upstream that failed would have left out of a request is not told of the one that answered", async () => {
  const leaving: ModelBackend = {
    chat(_request, context) {
      context.reportConversions([{ field: "topK", conversion: "dropped", why: "It has none." }]);
      throw new GatewayError("backend_unavailable", "down");
    },
  };
  let conversions: readonly Conversion[] = [];
  const call = {
    ...callContext(),
    reportConversions: (reported: readonly Conversion[]) => void (conversions = reported),
  };
  const backend = routed({ "*": { upstreams: [leaving, { backend: fake("two"), weight: 0 }] } });
  for await (const event of backend.chat?.(chatRequest(), call) ?? []) expect(event).toBeDefined();
  expect(conversions).toEqual([]);
});

describe("an upstream that refuses this service", () => {
  it("is asked again by each call: what one caller asks for closes it to nobody else, and the others answer all the same", async () => {
    const clock = manualClock();
    const one = fake("one", FOREVER("backend_refused"));
    const backend = routed(
      { "*": { upstreams: [one, { backend: fake("two"), weight: 0 }] } },
      { clock, breaker: { failures: 3 }, retry: { share: 0 } },
    );
    for (let call = 0; call < 50; call++) expect((await ask(backend, "m", clock)).text).toBe("two");
    expect(one.asked).toHaveLength(50);
    one.failures = [];
    expect((await ask(backend, "m", clock)).text).toBe("one");
  });

  it("is not asked for the same again after a pause", async () => {
    const clock = manualClock();
    const one = fake("one", FOREVER("backend_refused"));
    expect(await ask(routed({ "*": one }, { clock }), "m", clock)).toMatchObject({
      error: { code: "backend_refused" },
      waitedMs: 0,
    });
    const two = fake("two", FOREVER("backend_failed"));
    await ask(routed({ "*": { upstreams: [one, { backend: two, weight: 0 }] } }, { clock }), "m", clock);
    expect([one.asked.length, two.asked.length]).toEqual([2, 3]);
  });
});

const tooLong = (name: string): Fake => fake(name, FOREVER("context_length_exceeded"));

describe("a prompt that is too long for an upstream", () => {
  it("is sent to the next one, beside the retry budget, and closes the first to nobody", async () => {
    const clock = manualClock();
    const one = tooLong("one");
    const backend = routed(
      { "*": { upstreams: [one, { backend: fake("two"), weight: 0 }] } },
      { clock, breaker: { failures: 3 }, retry: { share: 0 } },
    );
    for (let call = 0; call < 50; call++) expect((await ask(backend, "m", clock)).text).toBe("two");
    expect(one.asked).toHaveLength(50);
    one.failures = [];
    expect((await ask(backend, "m", clock)).text).toBe("one");
  });

  it("is too long in the words of the last upstream where no upstream takes it, at once", async () => {
    const [one, two] = [tooLong("one"), tooLong("two")];
    expect(await ask(routed({ "*": { upstreams: [one, { backend: two, weight: 0 }] } }), "m")).toMatchObject({
      error: { code: "context_length_exceeded", message: "two failed" },
      waitedMs: 0,
    });
    expect([one.asked.length, two.asked.length]).toEqual([1, 1]);
  });
});

describe("a circuit breaker", () => {
  it("leaves an upstream alone that keeps failing, lets one call try it, and closes when that succeeds", async () => {
    const clock = manualClock();
    const one = fake("one", FOREVER("backend_failed"));
    const two = fake("two");
    const backend = routed(
      { "*": { upstreams: [one, { backend: two, weight: 0 }] } },
      { clock, breaker: { failures: 3, openMs: 1_000 }, retry: { share: 1 } },
    );
    for (let call = 0; call < 10; call++) expect((await ask(backend, "m", clock)).text).toBe("two");
    expect(one.asked).toHaveLength(3);
    await clock.advance(1_000);
    // Half open: one of two calls tries, and fails. The breaker opens again.
    await Promise.all([ask(backend, "m", clock), ask(backend, "m", clock)]);
    expect(one.asked).toHaveLength(4);
    await clock.advance(999);
    await ask(backend, "m", clock);
    expect(one.asked).toHaveLength(4);
    one.failures = [];
    await clock.advance(1);
    expect((await ask(backend, "m", clock)).text).toBe("one");
    expect((await ask(backend, "m", clock)).text).toBe("one");
  });

  it("does not wait for ever for a try that hangs, whose caller is long gone", async () => {
    const clock = manualClock();
    let state: "fails" | "hangs" | "answers" = "fails";
    const one: ModelBackend = {
      async *chat() {
        if (state === "hangs") await new Promise(() => {});
        if (state === "fails") throw new GatewayError("backend_failed", "failed");
        yield "one";
      },
    };
    const backend = routed({ "*": one }, { clock, breaker: { failures: 3, openMs: 1_000 }, retry: { rounds: 0 } });
    for (let call = 0; call < 3; call++) await ask(backend, "m", clock);
    await clock.advance(1_000);
    state = "hangs";
    const abort = new AbortController();
    const hanging = backend.chat?.(chatRequest({ model: "m" }), callContext(abort.signal))[Symbol.asyncIterator]();
    void hanging?.next();
    await clock.advance(0);
    abort.abort(new GatewayError("client_closed", "gone"));
    state = "answers";
    expect((await ask(backend, "m", clock)).error).toMatchObject({ code: "backend_unavailable", retryAfterMs: 1_000 });
    await clock.advance(1_000);
    expect((await ask(backend, "m", clock)).text).toBe("one");
  });

  it.each([
    [Infinity, "rate_limited"],
    [1e300, "rate_limited"],
    [Number.NaN, undefined],
    [-5, undefined],
  ])("leaves an upstream that asks for %d ms alone for no longer than it may", async (retryAfterMs, code) => {
    const clock = manualClock();
    const one = fake("one", ["rate_limited"]);
    one.retryAfterMs = retryAfterMs;
    const backend = routed({ "*": one }, { clock, breaker: { maxRestMs: 60_000 }, retry: { rounds: 0 } });
    expect((await ask(backend, "m", clock)).error).toMatchObject({ code: "rate_limited" });
    await clock.advance(59_999);
    expect(await ask(backend, "m", clock)).toMatchObject({ error: code && { code } });
    await clock.advance(1);
    expect((await ask(backend, "m", clock)).text).toBe("one");
  });

  it("is opened by answers that break off", async () => {
    const clock = manualClock();
    let asked = 0;
    const broken: ModelBackend = {
      async *chat() {
        asked++;
        yield "half";
        throw new GatewayError("backend_failed", "broke off");
      },
    };
    const backend = routed(
      { "*": { upstreams: [broken, { backend: fake("two"), weight: 0 }] } },
      { clock, breaker: { failures: 3, openMs: 1_000 } },
    );
    for (let call = 0; call < 3; call++) expect((await ask(backend, "m", clock)).text).toBe("half");
    expect((await ask(backend, "m", clock)).text).toBe("two");
    expect(asked).toBe(3);
    await clock.advance(1_000);
    expect((await ask(backend, "m", clock)).text).toBe("half");
    expect((await ask(backend, "m", clock)).text).toBe("two");
  });

  it.each([false, true])("is not opened by the gateway's code runner (begun: %s)", async (isBegun) => {
    let asked = 0;
    const running: ModelBackend = {
      async *chat() {
        asked++;
        if (isBegun) yield "half";
        throw new GatewayError("internal", "no sandbox", { port: "code-runner" });
      },
    };
    const backend = routed({ "*": { upstreams: [running, fake("two")] } }, { breaker: { failures: 3 } });
    for (let call = 0; call < 5; call++)
      expect(await ask(backend, "m")).toMatchObject({ text: isBegun ? "half" : "", error: { code: "internal" } });
    expect(asked).toBe(5);
  });

  it("is not opened by requests that are wrong, nor by callers who leave", async () => {
    const clock = manualClock();
    const one = fake("one", FOREVER("invalid_request"));
    const backend = routed({ "*": one }, { clock, breaker: { failures: 2 } });
    for (let call = 0; call < 5; call++)
      expect((await ask(backend, "m", clock)).error).toMatchObject({ code: "invalid_request" });
    one.failures = FOREVER("backend_failed");
    for (let call = 0; call < 5; call++)
      await ask(backend, "m", clock, AbortSignal.abort(new GatewayError("client_closed", "gone")));
    one.failures = [];
    expect((await ask(backend, "m", clock)).text).toBe("one");
  });
});

describe("a route", () => {
  it("lists what its upstreams list, under the callers' names", async () => {
    const one = fake("one", [], {
      models: () => [{ id: "claude-1", maxOutputTokens: 8 }, { id: "claude-2" }, { id: "other" }],
    });
    const backend = routed({
      "claude-*": one,
      "claude-2": fake("own"),
      fast: { upstreams: [{ backend: one, model: "claude-1" }] },
    });
    expect(await backend.models?.()).toEqual([
      { id: "claude-1", maxOutputTokens: 8 },
      { id: "claude-2" },
      { id: "fast", maxOutputTokens: 8 },
    ]);
  });

  it("lists nothing where it knows no name", () => {
    expect(Object.keys(routed({ "*": fake("one") }))).toEqual([...ALWAYS, "takesUnknown", "compacts", "chat"]);
  });

  it("lists the names that it knows beside patterns, and takes the names of patterns whose upstreams list none", async () => {
    const one = fake("one", [], { models: async () => [{ id: "claude-1" }, { id: "other" }] });
    const backend = routed({
      fast: fake("fast"),
      "claude-*": { upstreams: [one, fake("two")] },
      "gpt-*": fake("three"),
      "o-*": { upstreams: [{ backend: one, model: "other" }] },
      "own-*": fake("four", [], { models: () => [{ id: "own-1" }] }),
    });
    expect(await backend.models?.()).toEqual([{ id: "fast" }, { id: "claude-1" }, { id: "own-1" }]);
    const taken = ["claude-2", "gpt-4", "o-1", "own-2", "fast", "unknown"].map((model) =>
      takesUnlisted(backend, model),
    );
    expect(taken).toEqual([true, true, true, false, false, false]);
  });

  it("asks a route below it which names that one takes", async () => {
    const below = routed({ "a-1": fake("one"), "a-*": fake("two") });
    const backend = routed({ "*": below, b: fake("three") });
    expect(await backend.models?.()).toEqual([{ id: "a-1" }, { id: "b" }]);
    expect(["a-2", "c"].map((model) => takesUnlisted(backend, model))).toEqual([true, false]);
  });

  it("takes the word of its upstreams about unlisted names, and no promise of it", () => {
    const listing = { models: () => [{ id: "a-1" }] };
    const open = routed({ "a-*": fake("one", [], { ...listing, takesUnlisted: true }) });
    expect(takesUnlisted(open, "a-2")).toBe(true);
    // The cast is a mistake of the host.
    const promised = {
      ...listing,
      takesUnlisted: (() => Promise.reject(new Error("away"))) as unknown as () => boolean,
    };
    const backend = routed({ "a-*": fake("one", [], promised) });
    expect(() => takesUnlisted(backend, "a-2")).toThrow(
      "takesUnlisted of a backend must be, or return, true or false, not a Promise: await it first.",
    );
  });

  it("hears of every list that fails, and refuses one that is none", async () => {
    const backend = routed({
      "a-*": listingBy(async () => {
        throw new Error("late");
      }),
      "b-*": listingBy(() => {
        throw new Error("at once");
      }),
    });
    await expect(backend.models?.()).rejects.toThrow("late");
    for (const [told, words] of [
      ["a-1", "a text"],
      [{ data: [] }, "an object"],
    ] as const)
      await expect(routed({ "a-*": listingBy(() => told) }).models?.()).rejects.toThrow(
        `models() must return a list of models, not ${words}.`,
      );
  });

  it("does what any of its upstreams does", async () => {
    const image: ModelBackend = { image: async function* () {} };
    expect(Object.keys(routed({ a: image }))).toEqual([...ALWAYS, "models", "takesUnknown", "compacts", "image"]);
    const both = routed({ a: image, b: fake("b") });
    expect(Object.keys(both)).toEqual([...ALWAYS, "models", "takesUnknown", "compacts", "chat", "image"]);
    expect((await ask(both, "a")).error).toMatchObject({ code: "model_not_found" });
  });

  it("has the hang-up policy of each model's route, or of its backend", () => {
    const backend = routed({
      a: { upstreams: [fake("a")], hangUp: { drainMs: 5 } },
      b: fake("b", [], { hangUp: { drainMs: 7 } }),
      c: fake("c"),
    });
    const hangUp = typeof backend.hangUp === "function" ? backend.hangUp : () => undefined;
    expect(["a", "b", "c", "d"].map(hangUp)).toEqual([{ drainMs: 5 }, { drainMs: 7 }, "cancel", "cancel"]);
  });

  it("names its upstreams as the host does, else as their backends do, else by the pattern of the route", () => {
    const here = fake("a", [], { name: "here" });
    const backend = routed({
      a: { upstreams: [{ backend: here, name: "mine" }, here, fake("b")] },
      b: { upstreams: [here, { backend: here, model: "other" }] },
      c: here,
    });
    expect(backend.status().map(({ route: pattern, upstream }) => [pattern, upstream])).toEqual([
      ["a", "mine"],
      ["a", "here"],
      ["a", "a"],
      ["b", "here 0"],
      ["b", "here 1"],
      ["c", "here"],
    ]);
  });

  it("tells the upstreams that may answer, under the upstreams' names of the model", () => {
    const known = fake("k", [], { upstreamsOf: (model) => [{ name: "inner", model: `${model}-2026` }] });
    const image: ModelBackend = { image: async function* () {} };
    const backend = routed({
      "a-*": { upstreams: [{ backend: known, name: "known" }, { backend: fake("b"), model: "own" }, image] },
    });
    expect(backend.upstreamsOf("a-1", "chat")).toEqual([
      { name: "known", model: "a-1-2026" },
      { name: "a-* 1", model: "own" },
    ]);
    expect(backend.upstreamsOf("a-1", "image")).toEqual([{ name: "a-* 2", model: "a-1" }]);
    expect(backend.upstreamsOf("b", "chat")).toEqual([]);
  });

  it("tells the state of each upstream, and its last failure until an answer is complete", async () => {
    const clock = manualClock();
    const failing = fake("a", ["backend_refused", "rate_limited"]);
    const backend = routed(
      {
        m: {
          upstreams: [
            { backend: failing, name: "first" },
            { backend: fake("b"), name: "second", weight: 0 },
          ],
        },
      },
      { clock },
    );
    await ask(backend, "m", clock);
    const at = clock.now();
    const [first, second] = backend.status();
    expect(first).toEqual({
      route: "m",
      upstream: "first",
      state: "closed",
      waitMs: 0,
      lastFailure: { code: "backend_refused", at },
    });
    expect(second).toMatchObject({ upstream: "second", lastFailure: undefined });
    failing.retryAfterMs = 2_000;
    await ask(backend, "m", clock);
    expect(backend.status()[0]).toMatchObject({ state: "open", waitMs: 2_000, lastFailure: { code: "rate_limited" } });
    await clock.advance(2_000);
    await ask(backend, "m", clock);
    expect(backend.status()[0]).toMatchObject({ state: "closed", waitMs: 0, lastFailure: undefined });
  });

  it("tells the errors in a row of an upstream whose answers break off, and nothing of callers that hang up", async () => {
    const clock = manualClock();
    const broken: ModelBackend = {
      async *chat() {
        yield "Once";
        throw new GatewayError("backend_failed", "Broken.");
      },
    };
    const backend = routed({ m: { upstreams: [{ backend: broken, name: "first" }] } }, { clock });
    for (let call = 0; call < 3; call++) await ask(backend, "m", clock).catch(() => {});
    const failing = { code: "backend_failed", times: 3 };
    expect(backend.status()).toMatchObject([{ upstream: "first", failing }]);
    const events = backend.chat?.(chatRequest({ model: "m" }), callContext())[Symbol.asyncIterator]();
    await events?.next();
    await events?.return?.();
    expect(backend.status()[0]?.failing).toBeUndefined();
  });

  it("counts calls in the errors in a row, however often they were tried, and none of a single failed call", async () => {
    const clock = manualClock();
    const upstreams = ["first", "second"].map((name) => {
      return { backend: fake(name, FOREVER("backend_overloaded")), name };
    });
    const backend = routed(
      { m: { upstreams } },
      { clock, retry: { rounds: 1, share: 10 }, breaker: { failures: 100 } },
    );
    const failing = async (calls: number): Promise<unknown[]> => {
      for (let call = 0; call < calls; call++) await ask(backend, "m", clock).catch(() => {});
      return backend.status().map((status) => status.failing?.times);
    };
    expect(await failing(1)).toEqual([undefined, undefined]);
    expect(backend.status()).toMatchObject([
      { lastFailure: { code: "backend_overloaded" } },
      { lastFailure: { code: "backend_overloaded" } },
    ]);
    expect(await failing(1)).toEqual([undefined, undefined]);
    expect(await failing(1)).toEqual([3, 3]);
  });

  it("checks what can be checked, each once, also in a route below it", async () => {
    const times: unknown[] = [];
    const checked = (name: string, problem?: string): ModelBackend =>
      Object.assign(fake(name), {
        name,
        check: async (how: unknown) => (times.push(how), { ok: problem === undefined, problem, models: undefined }),
      });
    const down = checked("down", "Nobody answers.");
    const below = routed({ "*": { upstreams: [{ name: "deep", backend: checked("own", "No key.") }] } });
    const routes = { a: { upstreams: [down, checked("sound"), fake("unknown")] }, b: down, c: below };
    expect(await routed(routes).check({ timeoutMs: 5 })).toEqual([
      { upstream: "down", problem: "Nobody answers." },
      { upstream: "sound", problem: undefined },
      { upstream: "deep", problem: "No key." },
    ]);
    const timeoutMs = 5;
    expect(times).toEqual([
      { timeoutMs, models: ["a", "b"] },
      { timeoutMs, models: ["a"] },
      { timeoutMs, models: ["c"] },
    ]);
    await expect(routed(routes).check({ timeout: 5 } as object)).rejects.toThrow("timeout does not exist");
  });

  it("checks a backend of several names once, and tells its problems by each name", async () => {
    const check = vi.fn<() => Promise<object>>(async () => ({ problem: "No key." }));
    const shared: ModelBackend = Object.assign(fake("shared"), { models: () => [], check });
    const named = (name: string): Route => ({ upstreams: [{ name, backend: shared }] });
    const lack = 'The upstream does not list "a", "b". It lists none.';
    const found = [
      { upstream: "us", problem: lack },
      { upstream: "eu", problem: lack },
      { upstream: "us", problem: "No key." },
      { upstream: "eu", problem: "No key." },
    ];
    expect(await routed({ a: named("us"), b: named("eu"), "c-*": named("us") }).check()).toEqual(found);
    expect(check).toHaveBeenCalledOnce();
    // A route below names its upstreams itself, each once.
    const below = Object.assign(fake("below"), { check: async () => found });
    expect(await routed({ a: { upstreams: [{ name: "x", backend: below }] }, c: below }).check()).toEqual(found);
  });

  it("checks that each upstream has the models that go to it by their exact names", async () => {
    const asked: unknown[] = [];
    const listing = (name: string, ...models: string[]): ModelBackend =>
      Object.assign(fake(name), { name, models: () => models.map((id) => ({ id })) });
    const remote: ModelBackend = Object.assign(fake("remote"), {
      name: "remote",
      check: async (how?: CheckOptions) => (asked.push(how?.models), { problem: undefined }),
    });
    const demo = listing("demo", "demo-chat", "demo-image");
    const problemsOf = async (routes: RouteOptions["routes"], models?: readonly string[]) =>
      (await routed(routes).check(models && { models })).flatMap(({ upstream, problem }) =>
        problem ? [[upstream, problem]] : [],
      );
    const lack = 'The upstream does not list "dmeo-chat". Did you mean "demo-chat"? It lists demo-chat, demo-image.';
    expect(await problemsOf({ "dmeo-chat": demo })).toEqual([["demo", lack]]);
    expect(await problemsOf({ "*": { upstreams: [{ backend: demo, model: "dmeo-chat" }] } })).toEqual([["demo", lack]]);
    expect(await problemsOf({ "demo-chat": demo, "demo-*": demo, "*": demo })).toEqual([]);
    const fails = Object.assign(fake("fails"), { models: () => Promise.reject(new Error("No list.")) });
    expect(await problemsOf({ a: fails })).toEqual([]);

    // A route below asks for the names of the route above, also behind a pattern.
    const below = routed({ "demo-*": demo, "r-*": { upstreams: [{ backend: remote, model: "own" }, remote] } });
    expect(await problemsOf({ "r-1": below })).toEqual([]);
    expect(asked).toEqual([["own", "r-1"]]);
    const open = routed({ "r-*": remote });
    expect(await problemsOf({ lost: open })).toEqual([["lost", "The route has no upstream for it."]]);
    expect(await problemsOf({ "r-*": remote }, ["lost"])).toEqual([["lost", "The route has no upstream for it."]]);
  });

  it("tells which function of a backend hangs or fails in a check, beside the problems of all others", async () => {
    const clock = manualClock();
    const problems = { check: async () => ({ problem: "No key." }) };
    const routes = {
      a: Object.assign(fake("lists"), { name: "lists", models: never }),
      b: Object.assign(fake("checks"), { name: "checks", models: () => [], check: never }),
      c: Object.assign(fake("throws"), { name: "throws", check: () => Promise.reject(new TypeError("No\nrow.")) }),
      d: Object.assign(fake("sound"), { name: "sound", ...problems }),
    };
    const checking = routed(routes, { clock }).check({ timeoutMs: 500 });
    await clock.advance(500);
    await clock.advance(1_000);
    expect(await checking).toEqual([
      { upstream: "lists", problem: "models() of the backend has not returned within 500 ms." },
      { upstream: "checks", problem: 'The upstream does not list "b". It lists none.' },
      { upstream: "checks", problem: "check() of the backend has not returned within 500 ms." },
      { upstream: "throws", problem: "check() has failed: TypeError: No\\u000arow." },
      { upstream: "sound", problem: "No key." },
    ]);
    expect(clock.pending).toBe(0);
  });

  it.each([
    ["null", [null], "TypeError: it must return an object with the text problem, not null."],
    [
      "a list in the list",
      [[{ problem: "Inner." }]],
      "TypeError: it must return an object with the text problem, not a list.",
    ],
    ["a text", "Broken.", "TypeError: it must return an object with the text problem, not a text."],
    [
      "no text",
      { problem: new Error("Broken.") },
      "TypeError: it must return an object with the text problem, not an object.",
    ],
    [
      "a getter that throws",
      {
        get problem() {
          throw new Proxy(new Error(), {
            getPrototypeOf() {
              throw new Error("No prototype.");
            },
          });
        },
      },
      "a value that cannot be shown",
    ],
  ])("tells a check that returns %s, beside the problems of all others", async (_what, told, words) => {
    const sound = Object.assign(fake("sound"), { name: "sound", check: async () => ({ problem: "No key." }) });
    const liar = Object.assign(fake("liar"), { name: "liar", check: async () => told });
    expect(await routed({ a: liar, b: sound }).check()).toEqual([
      { upstream: "liar", problem: `check() has failed: ${words}` },
      { upstream: "sound", problem: "No key." },
    ]);
  });

  it("closes what it holds, each once, also when one does not close", async () => {
    const closed: string[] = [];
    const closing = (name: string, error?: Error): ModelBackend =>
      Object.assign(fake(name), {
        close: async () => {
          closed.push(name);
          if (error) throw error;
        },
      });
    const shared = closing("shared");
    await routed({ a: shared, b: { upstreams: [shared, fake("open"), closing("other")] } }).close();
    expect(closed).toEqual(["shared", "other"]);
    const error = new Error("It does not close.");
    await expect(routed({ a: closing("broken", error), b: closing("last") }).close()).rejects.toBe(error);
    expect(closed.slice(2)).toEqual(["broken", "last"]);
  });

  it.each<[string, RouteOptions["routes"]]>([
    ["no route", {}],
    ["no upstream", { a: { upstreams: [] } }],
    ["a star in the middle", { "a*b": fake("a") }],
    ["no pattern", { "": fake("a") }],
    ["a weight that is none", { a: { upstreams: [{ backend: fake("a"), weight: -1 }] } }],
  ])("is refused at once with %s", (_name, routes) => {
    expect(() => routed(routes)).toThrow(/^route: /);
  });
});

it("keeps a script alive while it pauses before it asks again", async () => {
  const [gateway, routes] = ["index.ts", "upstreams/route/index.ts"].map((file) =>
    JSON.stringify(new URL(`../../../src/${file}`, import.meta.url)),
  );
  const script = `
    import { createGateway, memoryQuotaStore } from ${gateway};
    import { route } from ${routes};
    const down = { async *chat() { throw new Error("down"); } };
    const backend = route({ routes: { "*": down }, retry: { pauseMs: 1, maxPauseMs: 1 } });
    const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]), onFailure() {} });
    const body = JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hello" }] });
    const headers = { authorization: "Bearer sk-1", "content-type": "application/json" };
    const answer = await gateway.fetch(new Request("http://host/v1/chat/completions", { method: "POST", headers, body }));
    console.log(answer.status);
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
  expect(stdout.trim()).toBe("500");
});
