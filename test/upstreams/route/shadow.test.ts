/** Copies of calls for one more upstream, in virtual time. */

import { describe, expect, it, vi } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import type { ModelBackend } from "../../../src/ports/model-backend.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import {
  route,
  type RouteBackend,
  shadow,
  type ShadowAnswer,
  type ShadowOptions,
} from "../../../src/upstreams/route/index.ts";
import { ask, type Attempted, begin, observing, type Scripted, scripted, type Step } from "./stage.ts";

interface Stage {
  readonly backend: RouteBackend;
  readonly clock: ManualClock;
  readonly next: Scripted;
  readonly answers: ShadowAnswer[];
}

function stage(
  steps: () => readonly Step[],
  options: Partial<ShadowOptions> = {},
  own: readonly Step[] = ["own"],
): Stage {
  const clock = manualClock();
  const next = scripted(clock, steps);
  const answers: ShadowAnswer[] = [];
  const copies = shadow({
    upstream: { backend: next, name: "next", model: "next-1" },
    share: 1,
    onAnswer: (answer) => void answers.push(answer),
    ...options,
  });
  const upstreams = [scripted(clock, () => own)];
  return {
    backend: route({ routes: { m: { upstreams, shadow: copies } }, clock, random: () => 0.5 }),
    clock,
    next,
    answers,
  };
}

describe("a copy", () => {
  it("goes to the shadow under its own name of the model, and only the host sees the answer and its counts", async () => {
    const { backend, clock, next, answers } = stage(() => [
      20,
      { type: "start", model: "next-1", usage: { inputTokens: 4 } },
      30,
      { type: "native", format: "f", body: "{}", events: [{ type: "text-delta", text: "copied" }] },
      { type: "finish", reason: "stop", usage: { outputTokens: 2 } },
    ]);
    const attempts: Attempted[] = [];
    const asked = await ask(backend, clock, {}, { ...observing(attempts), requestId: "req_7", context: { user: 1 } });
    await clock.advance(100);
    expect([asked.events, attempts.length]).toEqual([["own"], 1]);
    expect(next.requests[0]?.model).toBe("next-1");
    expect(answers).toEqual([
      {
        requestId: "req_7",
        context: { user: 1 },
        key: { id: "key", name: "key" },
        model: "m",
        upstream: { name: "next", model: "next-1" },
        events: [
          { type: "start", model: "next-1", usage: { inputTokens: 4 } },
          { type: "text-delta", text: "copied" },
          { type: "finish", reason: "stop", usage: { outputTokens: 2 } },
        ],
        isShortened: false,
        usage: { inputTokens: 4, outputTokens: 2 },
        errorCode: undefined,
        error: undefined,
        beganAt: expect.any(Number),
        firstEventMs: 50,
        endMs: 50,
      },
    ]);
    expect(clock.pending).toBe(0);
  });

  it("begins only when the caller's own answer has begun, and never holds it up", async () => {
    const { backend, clock, next } = stage(() => [1e9], {}, [100, "own"]);
    const asked = begin(backend);
    await clock.advance(99);
    expect(next.requests).toEqual([]);
    await clock.advance(1);
    expect([asked.text, asked.isOver, next.requests.length]).toEqual(["own", true, 1]);
  });

  it("is made of a call that fails, too, but not of one whose caller has left", async () => {
    const failing = stage(() => ["copied"], {}, [new GatewayError("invalid_request", "wrong")]);
    expect((await ask(failing.backend, failing.clock)).error).toMatchObject({ code: "invalid_request" });
    await failing.clock.advance(10);
    expect(failing.answers).toHaveLength(1);
    const left = stage(() => ["copied"], {}, [100, "own"]);
    const abort = new AbortController();
    begin(left.backend, {}, { signal: abort.signal });
    await left.clock.advance(10);
    abort.abort(new GatewayError("client_closed", "gone"));
    await left.clock.advance(10);
    expect(left.next.requests).toEqual([]);
  });

  it("goes on when its caller leaves after the beginning", async () => {
    const { backend, clock, answers } = stage(() => [50, "copied"], {}, ["own", 1e9]);
    const abort = new AbortController();
    begin(backend, {}, { signal: abort.signal });
    await clock.advance(1);
    abort.abort(new GatewayError("client_closed", "gone"));
    await clock.advance(100);
    expect(answers).toMatchObject([{ events: ["copied"], errorCode: undefined }]);
  });

  it.each<[string, Step, string]>([
    ["with its own error", new GatewayError("rate_limited", "too many"), "rate_limited"],
    ["with a stranger's error", new Error("broken"), "backend_failed"],
  ])("that fails is told %s, with what came before", async (_name, error, errorCode) => {
    const { backend, clock, answers } = stage(() => ["half", { type: "usage", usage: { inputTokens: 3 } }, error]);
    expect(await ask(backend, clock)).toMatchObject({ text: "own", error: undefined });
    await clock.advance(10);
    expect(answers).toMatchObject([{ events: ["half", { type: "usage" }], usage: { inputTokens: 3 }, errorCode }]);
  });

  it("that takes too long is cut, and told", async () => {
    const { backend, clock, next, answers } = stage(() => ["half", 1e9], { timeoutMs: 500 });
    await ask(backend, clock);
    await clock.advance(600);
    expect([next.cut, answers]).toMatchObject([1, [{ events: ["half"], errorCode: "deadline_exceeded", endMs: 500 }]]);
    expect(clock.pending).toBe(0);
  });

  it("keeps no more characters than it may, and counts on", async () => {
    const { backend, clock, answers } = stage(
      () => ["a".repeat(8), "b".repeat(8), "c", { type: "finish", reason: "stop", usage: { outputTokens: 9 } }],
      { maxChars: 10 },
    );
    await ask(backend, clock);
    await clock.advance(10);
    expect(answers).toMatchObject([{ events: ["aaaaaaaa"], isShortened: true, usage: { outputTokens: 9 } }]);
  });
});

it.each<[string, Step]>([
  ["counts", { type: "usage", usage: { inputTokens: 1 } }],
  ["empty texts", { type: "text-delta", text: "" }],
  ["pictures", { type: "media", mediaType: "image/png", data: "A".repeat(600) }],
  ["whole calls", { type: "tool-call", id: "c", name: "f", input: { text: "A".repeat(600) } }],
  ["reasoning that nobody reads", { type: "redacted-reasoning", data: "A".repeat(600) }],
])("a copy keeps a bounded number of %s, too", async (_name, step) => {
  const { backend, clock, answers } = stage(() => Array.from({ length: 5_000 }, () => step), { maxChars: 1_000 });
  await ask(backend, clock);
  await vi.waitFor(() => expect(answers).toMatchObject([{ isShortened: true, errorCode: undefined }]));
  expect(JSON.stringify(answers[0]?.events).length).toBeLessThan(60_000);
});

describe("copies", () => {
  it("are as many at a time as they may be, also with hooks that hang", async () => {
    const never = new Promise(() => {});
    const { backend, clock, next } = stage(() => ["copied"], { maxAtOnce: 3, timeoutMs: 1_000, onAnswer: () => never });
    for (let call = 0; call < 10; call++) await ask(backend, clock);
    expect(next.requests).toHaveLength(3);
    await clock.advance(1_500);
    for (let call = 0; call < 10; call++) await ask(backend, clock);
    expect(next.requests).toHaveLength(6);
  });

  it("are made of a share of the calls", async () => {
    for (const [share, copied] of [
      [0.51, 5],
      [0.5, 0],
      [0, 0],
    ] as const) {
      const { backend, clock, next } = stage(() => ["copied"], { share });
      for (let call = 0; call < 5; call++) await ask(backend, clock);
      await clock.advance(10);
      expect(next.requests).toHaveLength(copied);
    }
  });

  it("are not made of requests that make an upstream do or keep something", async () => {
    const { backend, clock, next } = stage(() => ["copied"]);
    await ask(backend, clock, { tools: [{ type: "code-execution" }] });
    await ask(backend, clock, { native: { format: "f", body: { store: true }, betas: [] } });
    await ask(backend, clock, { stream: false });
    await clock.advance(10);
    expect(next.requests).toMatchObject([{ stream: false }]);
  });

  it("survive hooks that throw and reject", async () => {
    for (const onAnswer of [
      () => {
        throw new Error("no");
      },
      async () => {
        throw new Error("no");
      },
    ]) {
      const { backend, clock, next } = stage(() => ["copied"], { onAnswer, maxAtOnce: 1 });
      for (let call = 0; call < 3; call++) {
        expect(await ask(backend, clock)).toMatchObject({ text: "own", error: undefined });
        await clock.advance(10);
      }
      expect(next.requests).toHaveLength(3);
    }
  });

  it("end with the route, each told as far as it came; the shadow's backend is closed with the others", async () => {
    let closed = 0;
    const { backend, clock, next, answers } = stage(() => ["half", 1e9]);
    Object.assign(next, { close: () => void closed++ });
    await ask(backend, clock);
    await clock.advance(10);
    await backend.close();
    await clock.advance(10);
    expect([next.cut, closed, clock.pending]).toEqual([1, 1, 0]);
    expect(answers).toMatchObject([{ events: ["half"], errorCode: "busy" }]);
    await ask(backend, clock);
    await clock.advance(10);
    expect(next.requests).toHaveLength(1);
  });

  it("leave the event loop to others although an upstream never waits", async () => {
    const clock = manualClock();
    const seen = { events: 0, hasTurned: false };
    const busy: ModelBackend = {
      async *chat() {
        setImmediate(() => (seen.hasTurned = true));
        for (; seen.events < 10_000 && !seen.hasTurned; seen.events++) yield "";
      },
    };
    const { promise, resolve } = Promise.withResolvers<ShadowAnswer>();
    const copies = shadow({ upstream: busy, share: 1, onAnswer: resolve });
    await ask(route({ routes: { m: { upstreams: [scripted(clock, () => ["own"])], shadow: copies } }, clock }), clock);
    await promise;
    expect(seen.events).toBeLessThan(10_000);
  });

  it("end with the route although an upstream does not hear that it is cut", async () => {
    const clock = manualClock();
    const deaf: ModelBackend = {
      chat: () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }),
    };
    const answers: ShadowAnswer[] = [];
    const copies = shadow({ upstream: deaf, share: 1, onAnswer: (answer) => void answers.push(answer) });
    const upstreams = [scripted(clock, () => ["own"])];
    const backend = route({ routes: { m: { upstreams, shadow: copies } }, clock });
    await ask(backend, clock);
    await clock.advance(1);
    await backend.close();
    expect(answers).toMatchObject([{ errorCode: "busy", upstream: { name: "m shadow", model: "m" } }]);
  });
});

it.each<[string, unknown, string]>([
  ["no hook", { upstream: scripted(manualClock(), () => []), share: 1 }, "shadow: onAnswer is missing"],
  ["a misspelt option", { upstream: {}, share: 1, onAnswer: () => {}, maxAtOnc: 1 }, "did you mean maxAtOnce"],
  ["a share in percent", { upstream: {}, share: 5, onAnswer: () => {} }, "shadow: share must be a number from 0 to 1"],
  ["an upstream that is none", { upstream: { model: "m" }, share: 1, onAnswer: () => {} }, "shadow: upstream"],
])("refuses %s", (_name, options, message) => {
  const upstreams = [scripted(manualClock(), () => ["own"])];
  expect(() => route({ routes: { m: { upstreams, shadow: shadow(options as ShadowOptions) } } })).toThrow(message);
});
