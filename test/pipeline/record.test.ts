/** The record of each call: made once, whatever the call's end, and telling neither what was said nor by which secret. */

import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { decodeUpstreamError } from "../../src/formats/shared/errors.decode.ts";
import {
  type CallRecord,
  createGateway,
  GatewayError,
  memoryQuotaStore,
  memoryReplayStore,
  type ModelBackend,
  type RateLimiter,
} from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { drawn } from "../hosts/stage.ts";
import {
  chatty,
  counted,
  fail,
  failing,
  INPUT,
  MINUTE,
  never,
  type Opened,
  opened,
  PROMPT,
  readUntil,
  requestOf,
  type Send,
  type Setup,
  speaking,
  WORD,
} from "./bench.ts";

interface Recording extends Opened {
  readonly records: CallRecord[];
}

function recording(setup: Setup = {}): Recording {
  const records: CallRecord[] = [];
  return { ...opened({ onCall: (record) => records.push(record), ...setup }), records };
}

/** The one record of one call whose answer is read to its end. */
async function recordOf(setup: Setup, send: Send = {}): Promise<CallRecord> {
  const { send: call, records, clock } = recording(setup);
  await (await call(send)).text();
  // A stream that breaks off is settled beside its last frame.
  await clock.advance(0);
  expect(records).toHaveLength(1);
  return records[0] ?? fail(new Error("No call was recorded."));
}

const STREAMS = [false, true];

describe.each<[path: string, body: object]>([
  ["/v1/chat/completions", { model: "any", n: 2, messages: [{ role: "user", content: PROMPT }] }],
  [
    "/v1beta/models/any:generateContent",
    { contents: [{ parts: [{ text: PROMPT }] }], generationConfig: { candidateCount: 2 } },
  ],
])("a request for two answers (%s)", (path, body) => {
  const send = {
    path,
    body: JSON.stringify(body),
    headers: { authorization: "Bearer sk-one", "x-goog-api-key": "sk-one" },
  };
  const stop = { type: "finish", reason: "stop" } as const;

  it("names the missing one where the backend gives one", async () => {
    const { send: call, records } = recording({ backend: speaking(WORD, stop) });
    const response = await call(send);
    expect([response.status, response.headers.get("polygate-dropped")]).toEqual([200, "candidateCount"]);
    expect(records[0]?.dropped).toEqual([
      { field: "candidateCount", conversion: "dropped", why: "The backend gave 1 of 2 answers." },
    ]);
  });

  it("says nothing where the backend gives two", async () => {
    const { send: call, records } = recording({
      backend: speaking(WORD, { type: "text-delta", text: WORD, candidate: 1 }, stop, { ...stop, candidate: 1 }),
    });
    expect((await call(send)).headers.get("polygate-dropped")).toBeNull();
    expect(records[0]?.dropped).toEqual([]);
  });
});

describe("a call that completes", () => {
  it.each(STREAMS)("tells who asked for what, and what it took (stream: %s)", async (stream) => {
    const upstream = { type: "start", id: "u-1", model: "any-2026", usage: { inputTokens: INPUT } } as const;
    const record = await recordOf(
      { key: { granted: 1000, name: "Team One" }, backend: speaking(upstream, WORD, counted(7)) },
      { body: { stream } },
    );
    expect(record).toEqual({
      requestId: expect.stringMatching(/^req_/) as string,
      context: undefined,
      key: { id: "one", name: "Team One" },
      format: "messages",
      method: "POST",
      route: "/v1/messages",
      modelAsked: "any",
      modelListed: false,
      modelAnswered: "any-2026",
      stream,
      usage: expect.objectContaining({ inputTokens: INPUT, outputTokens: 7, cacheReadTokens: 0 }) as object,
      images: undefined,
      units: INPUT + 7,
      certainty: "exact",
      outcome: "completed",
      status: 200,
      errorCode: undefined,
      beganAt: expect.any(Number) as number,
      firstEventMs: 0,
      endMs: 0,
      attempts: [],
      dropped: [],
      droppedFromAnswer: [],
    });
  });

  it.each(STREAMS)(
    "tells what of its answer the caller's format cannot say, each once (stream: %s)",
    async (stream) => {
      const note = { type: "annotation", annotation: { type: "token-count", tokens: 1 } } as const;
      const sealed = { type: "code", language: "python", code: "a", signature: "s" } as const;
      const backend = speaking(WORD, note, sealed, note, counted(7));
      const { droppedFromAnswer } = await recordOf({ backend }, { body: { stream } });
      expect(droppedFromAnswer).toEqual([
        { field: "answer.annotation.token-count", conversion: "dropped", why: "The format has no notes of this kind." },
        {
          field: "answer.signature",
          conversion: "dropped",
          why: "Only reasoning, texts and tool calls keep their signature in this format.",
        },
        { field: "answer.code", conversion: "approximated", why: "Code is shown as text." },
      ]);
    },
  );

  it.each(STREAMS)("tells when it began, when the first event came and when it ended (stream: %s)", async (stream) => {
    const bench: Recording = recording({
      backend: {
        async *chat() {
          await bench.clock.advance(3_000);
          yield WORD;
          await bench.clock.advance(4_000);
          yield counted(7);
        },
      },
    });
    const began = bench.clock.now();
    await (await bench.send({ body: { stream } })).text();
    expect(bench.records).toMatchObject([{ beganAt: began, firstEventMs: 3_000, endMs: 7_000 }]);
  });

  it("is recorded in the currency of the prices", async () => {
    const price = Object.assign(() => 7, { currency: "usd" });
    expect(await recordOf({ price })).toMatchObject({ units: 7, currency: "USD" });
    expect((await recordOf({})).currency).toBeUndefined();
  });

  it("is recorded with all that it cost, also where its key had less left", async () => {
    const bench = recording({ key: { granted: 150 }, backend: speaking(WORD, counted(700 - INPUT)) });
    await (await bench.send({})).text();
    expect([bench.records[0]?.units, bench.store.report("one")]).toMatchObject([700, { used: 150, overdraft: 550 }]);
  });

  it("is charged by estimate where its backend has not counted", async () => {
    const record = await recordOf({ backend: speaking(WORD, WORD) });
    expect(record).toMatchObject({ units: INPUT + 8, certainty: "estimated", usage: { outputTokens: 8 } });
    expect(record.modelAnswered).toBeUndefined();
  });

  it("is recorded after its settlement, and before its gateway has closed", async () => {
    const order: string[] = [];
    const { send, gateway } = opened({
      onCall: () => order.push("recorded"),
      around: (store) => ({ settle: async (...how) => void (await store.settle(...how), order.push("settled")) }),
    });
    const [answer] = await Promise.all([send(), gateway.close().then(() => order.push("closed"))]);
    await answer.text();
    expect(order).toEqual(["settled", "recorded", "closed"]);
  });
});

const image = (more?: unknown) => ({
  async *image() {
    yield drawn(0);
    if (more instanceof Error) throw more;
    yield drawn(1);
    yield { type: "usage", usage: { inputTextTokens: 3, outputTokens: 9 } } as const;
  },
});

describe("pictures", () => {
  const asked: Send = {
    path: "/v1/images/generations",
    body: JSON.stringify({ model: "dall-e-2", prompt: "A secret fox.", n: 2, response_format: "b64_json" }),
  };

  it("are recorded with their number and tokens, under their model's own name", async () => {
    const record = await recordOf({ backend: image(), imagePrice: () => 100 }, asked);
    expect(record).toMatchObject({ format: "images", route: "/v1/images/generations", outcome: "completed" });
    expect(record).toMatchObject({ modelAsked: "image-model-2", units: 200, certainty: "exact", usage: undefined });
    expect(record.images).toEqual({ count: 2, usage: { inputTextTokens: 3, inputImageTokens: 0, outputTokens: 9 } });
  });

  it("that came before a failure are the ones that are charged", async () => {
    const record = await recordOf({ backend: image(new Error("no ink")), imagePrice: () => 100 }, asked);
    expect(record).toMatchObject({ outcome: "completed", units: 100, images: { count: 1 } });
  });

  it("that are fetched are calls without a key", async () => {
    const record = await recordOf({ backend: image() }, { method: "GET", path: "/v1/images/files/unknown" });
    expect(record).toMatchObject({ key: undefined, method: "GET", route: "/v1/images/files/**", units: 0 });
    expect([record.status, record.outcome]).toEqual([404, "refused"]);
  });
});

describe("an answer", () => {
  it.each([false, true])(
    "tells in a header that the quota has lowered its output limit (stream: %s)",
    async (stream) => {
      const headers = { "idempotency-key": "one" };
      const limitOf = async (granted: number): Promise<unknown> => {
        const records: CallRecord[] = [];
        const { send } = opened({
          key: { granted },
          replays: (clock) => memoryReplayStore({ clock }),
          onCall: (record) => records.push(record),
        });
        const told: (string | null)[] = [];
        for (const _ of ["first", "repeated"]) {
          const response = await send({ headers, body: { stream } });
          await response.text();
          told.push(response.headers.get("polygate-output-limit"));
        }
        expect(new Set(told).size).toBe(1);
        expect(String(records[0]?.affordedOutputTokens ?? null)).toBe(String(told[0]));
        return told[0];
      };
      expect(await limitOf(INPUT + 20)).toBe("20");
      expect(await limitOf(INPUT + 50)).toBeNull();
    },
  );
});

describe("a query", () => {
  it("costs nothing", async () => {
    const record = await recordOf({}, { path: "/v1/messages/count_tokens" });
    expect(record).toMatchObject({ route: "/v1/messages/count_tokens", modelAsked: "any", outcome: "completed" });
    expect(record).toMatchObject({ units: 0, usage: undefined, key: { id: "one" }, firstEventMs: undefined });
  });

  it("of a key's quota has no model", async () => {
    const record = await recordOf({}, { method: "GET", path: "/api/usage/token" });
    expect(record).toMatchObject({ format: "token-usage", modelAsked: undefined, status: 200 });
  });
});

/** Refuses every request. */
const fullLimiter: RateLimiter = {
  begin: async () => ({ limits: [], refused: { by: "requests", retryAfterMs: 1 } }),
  take: async () => ({ limits: [] }),
  end: async () => {},
};

describe("a call without a key", () => {
  const BEARER = 'the header authorization, as "Bearer sk-…"';

  it.each<[path: string, place: string, headers: Record<string, string>]>([
    ["/v1/chat/completions", BEARER, { "x-api-key": "sk-one" }],
    ["/v1/chat/completions?key=sk-one", BEARER, {}],
    ["/v1/images/generations", BEARER, { "x-goog-api-key": "sk-one" }],
    ["/v1/responses", BEARER, { "x-api-key": "sk-one" }],
    ["/v1/embeddings", BEARER, { "x-api-key": "sk-one" }],
    ["/v1/messages", "the header x-api-key", { "x-goog-api-key": "sk-one" }],
    ["/v1/messages", "the header x-api-key", { "api-key": "sk-one" }],
    [
      "/v1beta/models/m:generateContent",
      "the header x-goog-api-key, or from key= in the address",
      { "x-api-key": "sk-one" },
    ],
  ])("where %s has it is told to send it in %s", async (path, place, headers) => {
    const backend = { ...speaking(WORD), async *image() {}, async *embed() {} };
    const told = async (asked: string, more: Record<string, string>): Promise<unknown> => {
      const response = await opened({ backend }).send({ path: asked, headers: { authorization: "", ...more } });
      expect(response.status).toBe(401);
      return ((await response.json()) as { error: { message: string } }).error.message;
    };
    const message = `No API key was given. This route reads it from ${place}.`;
    expect(await told(path, headers)).toBe(message);
    expect(await told(path.replace(/\?.*/, ""), {})).toBe(message);
  });

  it("of the token usage is told the text of the specification", async () => {
    const sent = { path: "/api/usage/token", method: "GET", headers: { authorization: "" } };
    expect(await (await opened().send(sent)).json()).toEqual({ success: false, message: "No Authorization header" });
  });
});

describe("a call that is refused", () => {
  it.each<[why: string, expected: object, setup: Setup, send: Send]>([
    [
      "before its key is known",
      { key: undefined, status: 401, errorCode: "missing_api_key" },
      {},
      { headers: { authorization: "" } },
    ],
    [
      "for a key that is unknown",
      { key: undefined, status: 401, errorCode: "invalid_api_key" },
      {},
      { headers: { authorization: "Bearer sk-two" } },
    ],
    [
      "for a key that has expired",
      { key: { id: "one" }, status: 401, errorCode: "expired_api_key" },
      { key: { expiresAt: 1 } },
      {},
    ],
    [
      "for a key that is unknown, with its model in the address",
      { key: undefined, modelAsked: "gem", status: 401, errorCode: "invalid_api_key" },
      {},
      { path: "/v1beta/models/gem:generateContent", headers: { "x-goog-api-key": "sk-two", authorization: "" } },
    ],
    [
      "for a key that has expired, with its model in the address",
      { key: { id: "one" }, modelAsked: "gem", status: 401, errorCode: "expired_api_key" },
      { key: { expiresAt: 1 } },
      { path: "/v1beta/models/gem:generateContent" },
    ],
    [
      "for a key that is paused, also when it has expired",
      { key: { id: "one" }, status: 401, errorCode: "paused_api_key", errorMessage: "The API key is paused." },
      { key: { expiresAt: 1, paused: true } },
      {},
    ],
    [
      "for its body",
      { key: { id: "one" }, modelAsked: undefined, status: 400, errorCode: "malformed_body" },
      {},
      { body: "{" },
    ],
    [
      "for a field of its body",
      { modelAsked: "any", status: 400, errorCode: "invalid_request", errorPath: ["max_tokens"] },
      {},
      { body: { max_tokens: "many" } },
    ],
    [
      "for a field that has another name in its body, with both names",
      { errorMessage: 'max_tokens: is required. Did you mean "max_tokens" instead of "max_token"?' },
      {},
      { body: { max_tokens: undefined, max_token: 5 } },
    ],
    [
      "for a body whose model is no name",
      { modelAsked: undefined, status: 400, errorCode: "invalid_request" },
      {},
      { body: { model: "m".repeat(257), max_tokens: "many" } },
    ],
    [
      "for too many requests, with its model in the address",
      { modelAsked: "gem", status: 429, errorCode: "rate_limited" },
      { rateLimiter: fullLimiter },
      { path: "/v1beta/models/gem:generateContent" },
    ],
    [
      "for too many requests, with a body that nobody has read",
      { modelAsked: undefined, status: 429, errorCode: "rate_limited" },
      { rateLimiter: fullLimiter },
      {},
    ],
    [
      "for its model",
      { modelAsked: "any", status: 400, errorCode: "model_not_found" },
      { backend: { ...speaking(WORD), models: () => [{ id: "other" }] } },
      {},
    ],
    [
      "for more stop sequences than can be looked for",
      { modelAsked: "any", status: 400, errorCode: "invalid_request" },
      {},
      { body: { stop_sequences: ["a".repeat(65_537)] } },
    ],
    ["for its quota", { status: 429, errorCode: "quota_exhausted" }, { key: { granted: 0 } }, {}],
  ])("%s costs nothing", async (_why, expected, setup, send) => {
    const record = await recordOf(setup, send);
    expect(record).toMatchObject({ outcome: "refused", units: 0, certainty: "exact", usage: undefined, ...expected });
  });

  it.each<[why: string, message: string | undefined, setup: Setup, send: Send]>([
    ["a number", "max_tokens: must be an integer of at least 2", {}, { body: { max_tokens: 0 } }],
    ["a text", "max_tokens: must be a number, not …", {}, { body: { max_tokens: "a secret prompt" } }],
    [
      "a text in place of a word",
      'messages.0.role: must be "user", "assistant" or "system", not …',
      {},
      { body: { messages: [{ role: "a secret prompt", content: "Hello" }] } },
    ],
    [
      "a name that could be content",
      "metadata.?: must be a string, not 5",
      {},
      { path: "/v1/responses", body: { input: "Hello", metadata: { "a secret prompt": 5 } } },
    ],
    [
      "a model",
      'There is no model "any". This API key may use "other".',
      { backend: { ...speaking(WORD), models: () => [{ id: "other" }] } },
      {},
    ],
    [
      "a model whose name could be content",
      'There is no model "…". This API key may use "other".',
      { backend: { ...speaking(WORD), models: () => [{ id: "other" }] } },
      { body: { model: "a secret prompt" } },
    ],
    ["a quota", "The quota of this API key is used up.", { key: { granted: 0 } }, {}],
    [
      "a hook",
      'Do not send "…".',
      {
        hooks: [
          { before: () => Promise.reject(new GatewayError("invalid_request", 'Do not send "a secret prompt".')) },
        ],
      },
      {},
    ],
    [
      "a hook that ends in a quotation",
      'Do not send "…"',
      {
        hooks: [
          { before: () => Promise.reject(new GatewayError("invalid_request", 'Do not send "a secret \\"prompt\\')) },
        ],
      },
      {},
    ],
    [
      "a backend, whose words are its own",
      undefined,
      {
        backend: {
          async *chat() {
            yield* [];
            throw new GatewayError("invalid_request", "a secret prompt");
          },
        },
      },
      {},
    ],
  ])("for %s has the message without texts of the request", async (_why, message, setup, send) => {
    const record = await recordOf(setup, send);
    expect(record.errorMessage).toBe(message);
    expect(JSON.stringify(record.errorPath ?? [])).not.toContain("secret");
  });

  it.each([
    [500, "The model backend failed."],
    [401, "The model backend refused this service."],
    [429, "The model backend is busy."],
    [503, "The model backend is not available."],
    [504, "The model backend took too long."],
    [529, "The model backend is overloaded."],
    [400, "The model backend does not take this request."],
  ])("by an upstream with the status %s has the message only in the gateway's own words", async (status, message) => {
    const backend: ModelBackend = {
      async *chat() {
        yield* [];
        throw decodeUpstreamError(status, { error: { message: "a secret prompt" } });
      },
    };
    const record = await recordOf({ backend }, {});
    expect(record.errorMessage).toBe(message);
    expect(JSON.stringify(record)).not.toContain("secret prompt");
  });

  it.each([
    ["no JSON", "no JSON", "The model backend's answer is not valid JSON."],
    ["an answer without a choice", '{"choices":[]}', "The model backend's answer holds no choice."],
    // A relay shows the words of the upstream.
    ["a refusal", { error: { message: "a secret prompt" } }, undefined],
  ])("by an upstream that answers %s has the message only in the gateway's own words", async (_what, body, message) => {
    const fetch = async (): Promise<Response> =>
      typeof body === "string"
        ? new Response(body, { headers: { "content-type": "application/json" } })
        : Response.json(body, { status: 400 });
    const backend = relay({ format: "chat-completions", baseUrl: "http://up.test/v1", apiKey: "sk-up", fetch });
    expect((await recordOf({ backend }, {})).errorMessage).toBe(message);
  });

  it("by a gateway that is closing is one too", async () => {
    const bench = recording();
    await bench.gateway.close();
    await bench.send();
    expect(bench.records).toMatchObject([{ outcome: "refused", status: 503, errorCode: "busy" }]);
  });

  it("by no endpoint at all is none", async () => {
    const bench = recording();
    expect((await bench.send({ method: "GET" })).status).toBe(405);
    expect(bench.records).toEqual([]);
  });
});

describe("a call that fails", () => {
  it("before its first event is told by its status", async () => {
    const record = await recordOf({ backend: speaking(new Error("broken")) }, { body: { stream: true } });
    expect(record).toMatchObject({ outcome: "failed", status: 500, errorCode: "backend_failed", units: 0 });
    expect(record).toMatchObject({ usage: undefined, stream: true, firstEventMs: undefined });
  });

  it.each([
    [false, 504],
    [true, 200],
  ])("later is charged for what came (stream: %s)", async (stream, status) => {
    // The backend's own deadline is a failure of it, not the gateway's deadline.
    const slow = new GatewayError("deadline_exceeded", "The upstream was slow.");
    const record = await recordOf({ backend: speaking(WORD, slow) }, { body: { stream } });
    expect(record).toMatchObject({ outcome: "failed", status, errorCode: "deadline_exceeded" });
    expect(record).toMatchObject({ units: INPUT + 4, certainty: "estimated", usage: { outputTokens: 4 } });
  });

  it.each([
    ["an invalid request is a refusal", [], 400, "refused"],
    ["an invalid request is a failure once the answer has begun", [WORD], 400, "failed"],
  ] as const)("by its backend with %s", async (_name, events, status, outcome) => {
    const error = new GatewayError("invalid_request", "messages.0.role is wrong.", { path: ["messages", 0, "role"] });
    const record = await recordOf({ backend: speaking(...events, error) });
    expect(record).toMatchObject({ outcome, status, errorCode: "invalid_request" });
  });

  it("by its store is no refusal", async () => {
    const record = await recordOf({ around: () => ({ find: () => Promise.reject(new Error("away")) }) });
    expect(record).toMatchObject({ outcome: "failed", status: 503, errorCode: "store_unavailable" });
  });
});

describe("a call that is cut", () => {
  it("by its client is recorded with what was generated until then", async () => {
    const bench = recording({ backend: speaking(WORD, never) });
    const reader = await readUntil(WORD, await bench.send({ body: { stream: true } }));
    await reader.cancel();
    await bench.clock.advance(0);
    expect(bench.records).toMatchObject([
      { outcome: "client-closed", status: 200, errorCode: "client_closed", units: INPUT + 4, certainty: "estimated" },
    ]);
  });

  it("by its client before anything came costs nothing", async () => {
    const bench = recording();
    await bench.gateway.answer(requestOf(true), { onDisconnect: (listener) => listener() });
    expect(bench.records).toMatchObject([{ outcome: "client-closed", status: 499, units: 0, key: undefined }]);
  });

  it("by its client while its backend drains has the exact count", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const backend = { ...speaking(WORD, told, counted(7)), hangUp: { drainMs: 5_000 } };
    const bench = recording({ backend });
    const reader = await readUntil(WORD, await bench.send({ body: { stream: true } }));
    await reader.cancel();
    expect(bench.records).toEqual([]);
    open();
    await bench.clock.advance(0);
    expect(bench.records).toMatchObject([
      { outcome: "client-closed", status: 200, errorCode: undefined, units: INPUT + 7, certainty: "exact" },
    ]);
  });

  it.each([
    [false, 504],
    [true, 200],
  ])("by its deadline says so (stream: %s)", async (stream, status) => {
    const bench = recording({ backend: chatty(), limits: { deadlineMs: MINUTE } });
    const text = bench.send({ body: { stream } }).then((response) => response.text());
    await bench.clock.advance(MINUTE);
    await text;
    expect(bench.records).toMatchObject([
      { outcome: "deadline", status, errorCode: "deadline_exceeded", endMs: MINUTE, firstEventMs: 0 },
    ]);
  });

  it("by the gateway's closing says so", async () => {
    const bench = recording({ backend: chatty() });
    const text = bench.send({ body: { stream: true } }).then((response) => response.text());
    await bench.clock.advance(0);
    const closed = bench.gateway.close({ deadlineMs: 1_000 });
    await bench.clock.advance(1_000);
    await Promise.all([closed, text]);
    expect(bench.records).toMatchObject([{ outcome: "shutdown", status: 200, errorCode: "busy" }]);
  });
});

describe("a settlement", () => {
  it("that fails is recorded all the same, once, with what is charged in the end", async () => {
    const { asked, around } = failing(2);
    const bench = recording({ around, backend: speaking(WORD, counted(7)) });
    await (await bench.send()).text();
    await bench.clock.advance(MINUTE);
    expect(asked).toHaveLength(3);
    expect(bench.records).toMatchObject([{ outcome: "completed", units: INPUT + 7, certainty: "exact" }]);
    expect(bench.report()).toMatchObject({ used: INPUT + 7 });
  });

  it("that hangs is waited for as long as a store may take", async () => {
    const bench = recording({ around: () => ({ settle: () => never }), limits: { storeTimeoutMs: 1_000 } });
    const answer = bench.send();
    await bench.clock.advance(999);
    expect(bench.records).toEqual([]);
    await bench.clock.advance(1);
    await answer;
    expect(bench.records).toMatchObject([{ outcome: "completed", units: INPUT + 4 }]);
  });
});

describe("onCall", () => {
  it.each<[how: string, onCall: () => unknown, reported: readonly string[]]>([
    ["throws", () => fail(new Error("The table is full.")), ["The table is full."]],
    ["rejects", () => Promise.reject(new Error("The table is full.")), ["The table is full."]],
    ["hangs", () => never, []],
  ])("that %s changes nothing, and its error is reported", async (_how, onCall, reported) => {
    const bench = opened({ onCall });
    expect((await bench.send()).status).toBe(200);
    await bench.gateway.close();
    expect(bench.failures.map(({ error }) => (error.cause as Error).message)).toEqual(reported);
    for (const failure of bench.failures)
      expect(failure).toMatchObject({ port: "hook", requestId: expect.any(String) });
  });

  it("is kept alive by a runtime that stops when the answer is out", async () => {
    const { promise: written, resolve: write } = Promise.withResolvers<void>();
    const { gateway } = opened({ onCall: () => written });
    const kept: Promise<unknown>[] = [];
    await gateway.answer(requestOf(false), { waitUntil: (work) => kept.push(work) });
    let done = false;
    const all = Promise.all(kept).then(() => (done = true));
    await new Promise((resolve) => void setTimeout(resolve));
    expect(done).toBe(false);
    write();
    await all;
  });

  it("is called on the host's own object", async () => {
    class Host {
      readonly backend = speaking(WORD);
      readonly quotas = memoryQuotaStore([{ apiKey: "sk-one", granted: 1000 }]);
      readonly seen: string[] = [];
      onCall({ outcome }: CallRecord): void {
        this.seen.push(outcome);
      }
    }
    const host = new Host();
    await createGateway(host).fetch(requestOf(false));
    expect(host.seen).toEqual(["completed"]);
  });

  it("knows the host's own context, by its type", async () => {
    const users: (string | undefined)[] = [];
    const gateway = createGateway<{ readonly user: string }>({
      backend: speaking(WORD),
      quotas: memoryQuotaStore([{ apiKey: "sk-one", granted: 1000 }]),
      clock: manualClock(),
      onCall: ({ context }) => users.push(context?.user),
    });
    await gateway.answer(requestOf(false), { context: { user: "ada" } });
    expect(users).toEqual(["ada"]);
  });
});

describe("a record", () => {
  it("holds neither what was said nor the secret, wherever that stood", async () => {
    const secret = "sk-very-secret-key";
    const records: CallRecord[] = [];
    const gateway = createGateway({
      backend: speaking("a private answer", counted(7)),
      quotas: memoryQuotaStore([{ apiKey: secret, name: "Team", granted: 1_000_000 }]),
      onCall: (record) => records.push(record),
      onFailure: () => {},
    });
    const send = (path: string, body: object): Promise<Response> =>
      gateway.fetch(
        new Request(`http://host${path}`, {
          method: "POST",
          headers: { "content-type": "application/json", "x-api-key": secret, "compat-version": "2023-06-01" },
          body: JSON.stringify(body),
        }),
      );
    const messages = [{ role: "user", content: PROMPT }];
    const contents = [{ role: "user", parts: [{ text: PROMPT }] }];
    for (const answer of [
      await send("/v1/messages", { model: "any", max_tokens: 50, system: PROMPT, messages }),
      await send("/v1/messages", { model: `model-${secret}`, max_tokens: 50, messages, stream: true }),
      await send("/v1/messages", { model: "any", max_tokens: PROMPT, messages }),
      await send(`/v1beta/models/any:generateContent?key=${secret}`, { contents }),
      await send(`/v1beta/models/${secret}:countTokens?key=${secret}`, { contents }),
    ])
      await answer.text();
    const told = JSON.stringify(records);
    expect(records.map(({ status }) => status)).toContain(400);
    for (const words of ["very-secret", PROMPT, "private answer"]) expect(told).not.toContain(words);
  });
});

describe("the records that a host keeps", () => {
  it.each<[name: string, setup: Setup, more: string]>([
    ["a body that is no JSON", {}, "}"],
    [
      "a body that a hook quotes",
      {
        limits: { maxKnownBodyBytes: 1 },
        hooks: [
          {
            before: (request) => fail(new GatewayError("invalid_request", JSON.stringify(request).replaceAll('"', ""))),
          },
        ],
      },
      "",
    ],
  ])("hold nothing of %s", async (_name, setup, more) => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const taken = (): number => {
      collect();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const { send, records } = recording({ ...setup, key: {} });
    const content = "x".repeat(2_000_000);
    const body = `{"model":"a-name-that-is-long","max_tokens":5,"messages":[{"role":"user","content":"${content}"}]}${more}`;
    const ask = async (): Promise<void> => void (await (await send({ body })).text());
    await ask();
    const before = taken();
    for (let call = 0; call < 20; call++) await ask();
    // What was taken outside the heap is given back a moment after its collection.
    await expect.poll(() => taken() - before, { timeout: 20_000 }).toBeLessThan(10_000_000);
    expect(records).toHaveLength(21);
    expect(records.at(-1)).toMatchObject({ modelAsked: "a-name-that-is-long", status: 400 });
  });
});
