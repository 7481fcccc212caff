/** Models that throw, hang, lie, break off or send nonsense cause the right error each time, and leave nothing behind. */

import { inspect } from "node:util";
import { APICallError, InvalidPromptError, NoSuchModelError, UnsupportedFunctionalityError } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { describeError, GatewayError } from "../../../src/errors.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { ask, type Asked, draw, FINISH, fakeModel, imageModel, said, START, streamOf } from "./fake-models.ts";
import { clientsBefore } from "./stage.ts";

const callError = (statusCode: number | undefined, more: object = {}): APICallError =>
  new APICallError({
    message: "Tier 1 of account 7 is spent",
    url: "https://api.example.com/v1?key=sk-secret-0123456789",
    requestBodyValues: { prompt: "the caller's secret words" },
    ...(statusCode !== undefined && { statusCode }),
    ...more,
  });

const UNKNOWN = '{"error":{"message":"The model does not exist."}}';

/** The error of an address without the route. The address has no query, which may hold a key. */
const mistaken = (does: string) => ({
  code: "backend_failed",
  message: "The model backend failed.",
  cause: { name: "SettingMistake", message: `The provider ${does}. Check its baseURL.` },
});

const failing = (thrown: unknown) =>
  fakeModel({ stream: () => Promise.reject(thrown), answer: () => Promise.reject(thrown) });

describe("what a provider throws", () => {
  it.each<[string, unknown, object]>([
    [
      "a limit",
      callError(429, { responseHeaders: { "retry-after": "7" } }),
      { code: "rate_limited", retryAfterMs: 7_000 },
    ],
    ["an overload", callError(529), { code: "backend_overloaded" }],
    ["a refused key", callError(401), { code: "backend_refused", message: "The model backend refused this service." }],
    [
      "a forbidden model",
      callError(403),
      { code: "backend_refused", message: "The model backend refused this service." },
    ],
    [
      "a refused prompt",
      callError(403, { data: { error: { metadata: { reasons: ["violence"], flagged_input: "x" } } } }),
      { code: "content_refused", message: "The model backend refuses this content by its policy." },
    ],
    ["an unknown model", callError(404), { code: "model_not_found" }],
    ["an unknown model in JSON", callError(404, { responseBody: UNKNOWN }), { code: "model_not_found" }],
    [
      "a page without the route",
      callError(404, { responseBody: "<h1>Not Found</h1>" }),
      mistaken("does not serve POST https://api.example.com/v1"),
    ],
    [
      "a page at a wrong address",
      callError(200, { responseHeaders: { "content-type": "text/html; charset=utf-8" }, responseBody: "<h1>Hi</h1>" }),
      mistaken("answers with a page of HTML to POST https://api.example.com/v1"),
    ],
    [
      "a page at an address with the host's name and key",
      callError(404, { url: "https://host:key@api.example.com/v1?key=1#key", responseBody: "<h1>Not Found</h1>" }),
      mistaken("does not serve POST https://api.example.com/v1"),
    ],
    ["a bad request", callError(400), { code: "invalid_request" }],
    [
      "an empty account",
      callError(429, { data: { error: { code: "insufficient_quota" } } }),
      { code: "backend_refused" },
    ],
    ["a failure", callError(500), { code: "backend_failed" }],
    ["an absence", callError(503), { code: "backend_unavailable" }],
    ["an answer that cannot be read", callError(200), { code: "backend_failed" }],
    ["no connection", callError(undefined, { isRetryable: true }), { code: "backend_unavailable" }],
    ["a bad prompt", new InvalidPromptError({ prompt: "x", message: "no" }), { code: "invalid_request" }],
    [
      "an unsupported part",
      new UnsupportedFunctionalityError({ functionality: "film" }),
      { code: "failed_precondition" },
    ],
    ["no such model", new NoSuchModelError({ modelId: "x", modelType: "languageModel" }), { code: "model_not_found" }],
    [
      "a refused connection",
      Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } }),
      { code: "backend_unavailable" },
    ],
    ["a text", "Tier 1", { code: "backend_failed" }],
    ["a limit by the name of every object", { name: "constructor", statusCode: 429 }, { code: "rate_limited" }],
    ["nothing", undefined, { code: "backend_failed" }],
    ["null", null, { code: "backend_failed" }],
    ["a headless limit", callError(429, { responseHeaders: { "retry-after": "7\r\nx: y" } }), { code: "rate_limited" }],
    [
      "what cannot be read",
      new Proxy(
        {},
        {
          get: () => {
            throw new Error("no");
          },
          has: () => {
            throw new Error("no");
          },
        },
      ),
      { code: "backend_failed" },
    ],
  ])("%s is the right error", async (_name, thrown, expected) => {
    for (const stream of [true, false]) {
      const { error } = await ask(failing(thrown), { stream });
      expect(error).toBeInstanceOf(GatewayError);
      expect(error).toMatchObject(expected);
      expect(String(error?.message)).not.toMatch(/Tier|account|secret/);
      expect(describeError(error) + inspect(error, { depth: 9 })).not.toMatch(/sk-secret|secret words/);
    }
  });

  it.each([401, 403])(
    "leaves out the words of a %d, in which a provider may say the host's key back",
    async (status) => {
      const thrown = callError(status, { message: "Incorrect API key provided: hunter2-0123456789" });
      const { error } = await ask(failing(thrown));
      expect(describeError(error)).toContain(`The provider failed: AI_APICallError ${status}: words in which your key`);
      expect(inspect(error, { depth: 9 })).not.toContain("hunter2");
    },
  );

  it("is shown to callers where the host allows it, but never what a key's refusal says", async () => {
    const shown = { showUpstreamMessages: true };
    expect((await ask(failing(callError(429)), {}, shown)).error).toMatchObject({
      message: "Tier 1 of account 7 is spent",
    });
    expect((await ask(failing(callError(401)), {}, shown)).error?.message).toBe(
      "The model backend refused this service.",
    );
    const ofPrompt = callError(403, { data: { error: { code: "content_filter" } } });
    expect((await ask(failing(ofPrompt), {}, shown)).error?.message).toBe(
      "The model backend refuses this content by its policy.",
    );
  });
});

describe("a stream", () => {
  const FAILED = "backend_failed";
  it.each<[string, readonly unknown[], string]>([
    ["is empty", [], FAILED],
    ["has no finish", [START, ...said("Hello")], FAILED],
    ["brings null", [START, null], FAILED],
    ["brings a text", [START, "Hello"], FAILED],
    ["brings a delta of no text", [START, { type: "text-delta", id: "1", delta: 7 }, FINISH], FAILED],
    ["brings a delta without a name", [START, { type: "text-delta", delta: "x" }, FINISH], FAILED],
    [
      "goes on with a call that never began",
      [START, { type: "tool-input-delta", id: "c", delta: "{" }, FINISH],
      FAILED,
    ],
    ["brings a call without its input", [START, { type: "tool-call", toolCallId: "c", toolName: "t" }, FINISH], FAILED],
    [
      "brings the same call twice",
      [START, ...[1, 2].map(() => ({ type: "tool-call", toolCallId: "c", toolName: "t", input: "{}" })), FINISH],
      FAILED,
    ],
    ["ends by an error", [START, { ...FINISH, finishReason: { unified: "error", raw: "x" } }], FAILED],
    ["ends for no reason", [START, { ...FINISH, finishReason: undefined }], FAILED],
    [
      "tells of an overload",
      [START, ...said("Hel"), { type: "error", error: { type: "overloaded_error", message: "Tier 1" } }],
      "backend_overloaded",
    ],
    ["tells of a limit", [START, { type: "error", error: callError(429) }], "rate_limited"],
    ["tells of an error in words", [START, { type: "error", error: "Tier 1" }], FAILED],
  ])("that %s is an error", async (_name, parts, code) => {
    const { error } = await ask(fakeModel({ stream: parts }));
    expect(error).toMatchObject({ code, message: expect.not.stringContaining("Tier") });
  });

  it.each([undefined, null, 7, {}, { stream: "x" }])("that is none is an error: %j", async (answer) => {
    expect((await ask(fakeModel({ stream: () => answer }))).error).toMatchObject({ code: FAILED });
  });

  it("with parts of no known type says what is known of it", async () => {
    const parts = [
      START,
      { type: "ping" },
      { type: "raw", rawValue: 1 },
      { type: "hologram" },
      ...said("Hello"),
      {},
      FINISH,
    ];
    expect(await ask(fakeModel({ stream: parts }))).toMatchObject({ text: "Hello", error: undefined });
  });

  it("is let go of after its finish, at an error, and when its reader leaves", async () => {
    for (const parts of [
      [START, ...said("Hello"), FINISH, ...said("more")],
      [START, null, FINISH],
    ]) {
      const cancelled = Promise.withResolvers<void>();
      const source = parts.values();
      const stream = new ReadableStream({
        pull: (controller) => controller.enqueue(source.next().value),
        cancel: () => cancelled.resolve(),
      });
      let signal: AbortSignal | undefined;
      const { text } = await ask(
        fakeModel({
          stream: ({ abortSignal }) => {
            signal = abortSignal;
            return { stream };
          },
        }),
      );
      await cancelled.promise;
      expect(signal?.aborted).toBe(true);
      expect(["", "Hello"]).toContain(text);
    }
  });

  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("no");
      },
    ],
    ["gives no promise", () => undefined],
  ])("of its own whose cancel %s changes nothing of the answer", async (_name, cancel) => {
    const parts = [START, ...said("Hello"), FINISH].values();
    let signal: AbortSignal | undefined;
    const stream = { getReader: () => ({ read: async () => parts.next(), cancel }) };
    const model = fakeModel({ stream: ({ abortSignal }) => ((signal = abortSignal), { stream }) });
    expect(await ask(model)).toMatchObject({ text: "Hello", error: undefined });
    expect(signal?.aborted).toBe(true);
  });

  it("of pings without end does not keep an abort from being seen", async () => {
    const abort = new AbortController();
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue({ type: "ping" }) });
    const asking = ask(fakeModel({ stream: () => ({ stream: endless }) }), {}, {}, abort.signal);
    setImmediate(() => abort.abort(new GatewayError("client_closed", "gone")));
    expect((await asking).error).toMatchObject({ code: "client_closed" });
  });
});

describe("a complete answer", () => {
  it.each<[string, unknown]>([
    ["is nothing", undefined],
    ["has no content", { finishReason: "stop" }],
    ["has content of no kind", { content: [null], finishReason: "stop" }],
    ["has a text that is none", { content: [{ type: "text", text: 7 }], finishReason: "stop" }],
    ["ends for no reason", { content: [{ type: "text", text: "x" }] }],
    [
      "has arguments of no text",
      { content: [{ type: "tool-call", toolCallId: "c", toolName: "t", input: {} }], finishReason: "stop" },
    ],
  ])("that %s is an error", async (_name, answer) => {
    expect((await ask(fakeModel({ answer: () => answer }), { stream: false })).error).toMatchObject({
      code: "backend_failed",
    });
  });
});

const never = (): Promise<never> => new Promise(() => {});

describe("a model that hangs", () => {
  it.each<[string, boolean, (asked: Asked) => unknown]>([
    ["before its stream", true, never],
    ["in its stream", true, () => ({ stream: new ReadableStream() })],
    ["after its first part", true, () => ({ stream: new ReadableStream({ start: (to) => to.enqueue(START) }) })],
    ["with its answer", false, never],
  ])("%s is given up when its time is over, and when its call is aborted", async (_name, stream, hang) => {
    const clock = manualClock();
    const timeouts = { firstEventMs: 5_000, betweenEventsMs: 5_000, completeMs: 5_000 };
    const model = fakeModel({ stream: hang, answer: hang });
    const late = ask(model, { stream }, { clock, timeouts });
    const state = { ended: false };
    void late.finally(() => (state.ended = true));
    for (let passedMs = 0; !state.ended && passedMs < 60_000; passedMs += 1_000) await clock.advance(1_000);
    expect((await late).error).toMatchObject({ code: "deadline_exceeded" });
    expect(model.asked[0]?.abortSignal?.aborted).toBe(true);
    expect(clock.pending).toBe(0);
    const abort = new AbortController();
    const aborted = ask(model, { stream }, { clock }, abort.signal);
    const reason = new GatewayError("client_closed", "gone");
    abort.abort(reason);
    expect((await aborted).error).toBe(reason);
    expect(clock.pending).toBe(0);
  });

  it("is not asked by a call that is over already", async () => {
    const reason = new GatewayError("client_closed", "gone");
    const model = fakeModel({ stream: never });
    expect((await ask(model, {}, {}, AbortSignal.abort(reason))).error).toBe(reason);
    expect(model.asked).toEqual([]);
  });
});

describe("a lie about usage", () => {
  it.each([
    ["is negative", { inputTokens: { total: -5 }, outputTokens: { total: -5 } }],
    ["is a text", { inputTokens: { total: "12" }, outputTokens: { total: "free" } }],
    ["is not a number", { inputTokens: { total: Number.NaN }, outputTokens: { total: Number.POSITIVE_INFINITY } }],
    ["is no object", 7],
    ["is missing", undefined],
    ["says nothing was given", { inputTokens: { total: 1 }, outputTokens: { total: 0 } }],
  ])("that %s is charged by estimate, and makes no answer free", async (_name, usage) => {
    const model = fakeModel({ stream: [START, ...said("word ".repeat(2_000)), { ...FINISH, usage }] });
    const { anthropic, used } = clientsBefore(aiSdk({ chat: { m: model } }));
    const answer = await anthropic.messages
      .stream({ model: "m", max_tokens: 4_000, messages: [{ role: "user", content: "Hi" }] })
      .finalMessage();
    expect(answer.usage.output_tokens).toBeGreaterThan(1_000);
    expect(await used()).toBeGreaterThan(1_000);
  });
});

describe("an image model", () => {
  it.each<[string, (asked: Asked) => unknown, string]>([
    ["answers nothing", () => undefined, "backend_failed"],
    ["draws no list", () => ({ images: "x" }), "backend_failed"],
    ["draws a page", () => ({ images: ["PGh0bWw+"] }), "backend_failed"],
    ["draws what is no base64", () => ({ images: ["\u0000"] }), "backend_failed"],
    ["draws numbers", () => ({ images: [7] }), "backend_failed"],
    ["has a limit", () => Promise.reject(callError(429)), "rate_limited"],
    [
      "throws at once",
      () => {
        throw new Error("Tier 1");
      },
      "backend_failed",
    ],
  ])("that %s is an error", async (_name, answer, code) => {
    const { error } = await draw(imageModel(answer));
    expect(error).toMatchObject({ code, message: expect.not.stringContaining("Tier") });
  });
});

it("a stream of the platform's own is taken", async () => {
  expect((await ask(fakeModel({ stream: () => ({ stream: streamOf([START, FINISH]) }) }))).error).toBeUndefined();
});
