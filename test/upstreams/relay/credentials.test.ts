/** Keys that renew, and signatures over the bytes of requests: for everything that a relay asks of its upstream. */

import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import OpenAI from "openai";
import { Headers as UndiciHeaders } from "undici";
import { describe, expect, it } from "vitest";
import { WebSocketServer } from "ws";
import { toNodeHandler } from "../../../adapters/node.ts";
import { relay as coreRelay, checkRelay, withCredentials } from "../../../src/core.ts";
import { describeError } from "../../../src/errors.ts";
import { messagesUpstream } from "../../../src/formats/messages/module.ts";
import type { ChatVerbs, UpstreamFormat } from "../../../src/formats/module.ts";
import { createGateway, type Failure, memoryQuotaStore, memoryResponseStore } from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/index.ts";
import { openAuthorization } from "../../../src/upstreams/relay/credentials.ts";
import {
  type ApiKeyAnswer,
  relay,
  type RelayFormat,
  type RelayOptions,
  type SignableRequest,
  type SignedRequest,
} from "../../../src/upstreams/relay/index.ts";
import { DEFAULT_RELAY_TIMEOUTS } from "../../../src/upstreams/relay/options.ts";
import { Exchange } from "../../../src/upstreams/relay/transport.ts";
import { CLEAR } from "../../formats/images/pictures.ts";
import { plainCodec, sse } from "./plain-codec.ts";
import { head, type RawAnswer, type RawRequest, rawUpstream, STREAM_HEAD, whole } from "./raw-upstream.ts";
import { ask, callContext, chatRequest } from "./stage.ts";

const ANSWER = STREAM_HEAD + sse({ model: "upstream-9", text: "Hello" }, { end: true });
const PLAIN: UpstreamFormat<ChatVerbs> = { ...messagesUpstream, open: (tools) => tools.chat(plainCodec([])) };
const MINUTE = 60_000;

const before = (baseUrl: string, options: Partial<RelayOptions>) => relay({ ...options, baseUrl, format: PLAIN });

const answers: RawAnswer = (socket) => socket.end(ANSWER);
const refusal = whole(401, "application/json", JSON.stringify({ error: { message: "Unknown key" } }), {
  connection: "close",
});

/** Answers the requests that have one of these keys, and refuses all others. */
const takes =
  (...keys: readonly string[]): RawAnswer =>
  (socket, { head }) =>
    socket.end(keys.some((key) => head.includes(`x-api-key: ${key}\r\n`)) ? ANSWER : refusal);

const keyOf = ({ head }: RawRequest): string | undefined => /^x-api-key: (.*)$/m.exec(head)?.[1]?.trim();

/** A function for keys that gives one answer after the other, as often as it is asked. */
function keys(...given: readonly (ApiKeyAnswer | Promise<ApiKeyAnswer>)[]) {
  let count = 0;
  const apiKey = async (): Promise<ApiKeyAnswer> => {
    const answer = given[Math.min(count++, given.length - 1)];
    if (answer === undefined) throw new Error("There is no key.");
    return answer;
  };
  return { apiKey, asked: () => count };
}

describe("a key that expires", () => {
  it("is asked for once by calls that begin together, and kept until it expires", async () => {
    const clock = manualClock();
    const first = Promise.withResolvers<ApiKeyAnswer>();
    const { apiKey, asked } = keys(first.promise, { apiKey: "key-two", expiresAt: clock.now() + 120 * MINUTE });
    await using upstream = await rawUpstream(answers);
    const backend = before(upstream.url, { apiKey, clock });
    const running = Array.from({ length: 20 }, () => ask(backend));
    await clock.advance(0);
    expect([asked(), upstream.requests.length]).toEqual([1, 0]);
    first.resolve({ apiKey: "key-one", expiresAt: new Date(clock.now() + 60 * MINUTE) });
    for (const { text, error } of await Promise.all(running)) expect([text, error]).toEqual(["Hello", undefined]);
    await clock.advance(54 * MINUTE);
    await ask(backend);
    expect(asked()).toBe(1);
    expect(new Set(upstream.requests.map(keyOf))).toEqual(new Set(["key-one"]));
    await backend.close();
  });

  it("is renewed early while calls go on with the old one, and waited for when it has expired", async () => {
    const clock = manualClock();
    const [second, third] = [Promise.withResolvers<ApiKeyAnswer>(), Promise.withResolvers<ApiKeyAnswer>()];
    const one = { apiKey: "key-one", expiresAt: clock.now() + 60 * MINUTE };
    const { apiKey, asked } = keys(one, second.promise, third.promise);
    await using upstream = await rawUpstream(answers);
    const backend = before(upstream.url, { apiKey, clock });
    await ask(backend);
    await clock.advance(55 * MINUTE);
    await Promise.all([ask(backend), ask(backend)]);
    expect([asked(), upstream.requests.map(keyOf)]).toEqual([2, ["key-one", "key-one", "key-one"]]);
    second.resolve({ apiKey: "key-two", expiresAt: clock.now() + 10 * MINUTE });
    await clock.advance(0);
    await ask(backend);
    expect([asked(), upstream.requests.map(keyOf).at(-1)]).toEqual([2, "key-two"]);
    await clock.advance(10 * MINUTE);
    const waiting = ask(backend);
    await clock.advance(0);
    expect([asked(), upstream.requests.length]).toEqual([3, 4]);
    third.resolve("key-three");
    expect((await waiting).text).toBe("Hello");
    expect(upstream.requests.map(keyOf).at(-1)).toBe("key-three");
    await backend.close();
  });

  it("does not fail a call whose key is still valid, and is not asked for again at once", async () => {
    const clock = manualClock();
    let asked = 0;
    const apiKey = (): ApiKeyAnswer => {
      if (++asked > 1) throw new Error("The token server is away.");
      return { apiKey: "key-one", expiresAt: clock.now() + 60 * MINUTE };
    };
    await using upstream = await rawUpstream(answers);
    const backend = before(upstream.url, { apiKey, clock });
    await ask(backend);
    await clock.advance(56 * MINUTE);
    for (let call = 0; call < 5; call++) expect((await ask(backend)).error).toBeUndefined();
    expect(asked).toBe(2);
    await clock.advance(10_000);
    await ask(backend);
    expect(asked).toBe(3);
    await clock.advance(4 * MINUTE);
    expect((await ask(backend)).error).toMatchObject({ code: "backend_unavailable" });
    expect(clock.pending).toBe(0);
    await backend.close();
  });
});

describe("a key that the upstream refuses", () => {
  it.each<[string, Partial<RelayOptions>]>([
    ["the connections of undici", {}],
    ["the fetch of a host", { fetch: (url, init) => fetch(url, init) }],
  ])("is renewed once, and the same bytes are sent once more, over %s", async (_name, options) => {
    const { apiKey, asked } = keys("key-one", "key-two");
    await using upstream = await rawUpstream(takes("key-two"));
    const backend = before(upstream.url, { apiKey, ...options });
    expect(await ask(backend)).toMatchObject({ text: "Hello", error: undefined });
    expect(upstream.requests.map(keyOf)).toEqual(["key-one", "key-two"]);
    expect(upstream.requests[0]?.body).toBe(upstream.requests[1]?.body);
    expect(upstream.requests[0]?.body).toContain('"plain-1"');
    expect((await ask(backend)).text).toBe("Hello");
    expect([asked(), upstream.requests.length]).toEqual([2, 3]);
    await backend.close();
    await upstream.allClosed();
  });

  it("holds no connection of a refusal that does not end, with another key or without", async () => {
    const endless = head(401, { "content-type": "application/json", "content-length": 1_000 });
    for (const given of [["key-one", "key-two"], [new Promise<string>(() => {})]] as const) {
      await using upstream = await rawUpstream((socket, request) =>
        keyOf(request) === "key-two" ? socket.end(ANSWER) : socket.write(`${endless}{`),
      );
      const clock = manualClock();
      const { apiKey, asked } = keys("key-one", ...given.slice(-1));
      const backend = before(upstream.url, { apiKey, clock });
      const abort = new AbortController();
      const running = ask(backend, {}, callContext(abort.signal));
      while (asked() < 2) await clock.advance(0);
      if (given.length === 1) abort.abort(new Error("Gone."));
      expect((await running).text).toBe(given.length === 1 ? "" : "Hello");
      await upstream.allClosed();
      expect(clock.pending).toBe(0);
      await backend.close();
    }
  });

  it("is renewed once for all calls that it fails", async () => {
    const { apiKey, asked } = keys("key-one", "key-two");
    await using upstream = await rawUpstream(takes("key-two"));
    const backend = before(upstream.url, { apiKey });
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => ask(backend)));
    expect(outcomes.map(({ text }) => text)).toEqual(Array.from({ length: 8 }, () => "Hello"));
    expect(asked()).toBe(2);
    await backend.close();
  });

  it("is renewed once for the calls that it fails while the next one is on its way", async () => {
    const next = Promise.withResolvers<ApiKeyAnswer>();
    const { apiKey, asked } = keys("key-one", next.promise);
    const refused = Promise.withResolvers<void>();
    await using upstream = await rawUpstream((socket, request) => {
      takes("key-two")(socket, request);
      if (upstream.requests.length === 8) refused.resolve();
    });
    const backend = before(upstream.url, { apiKey });
    const outcomes = Array.from({ length: 8 }, () => ask(backend));
    await refused.promise;
    await upstream.allClosed();
    next.resolve("key-two");
    for (const { text, error } of await Promise.all(outcomes)) expect([text, error]).toEqual(["Hello", undefined]);
    expect([asked(), upstream.requests.length]).toEqual([2, 16]);
    await backend.close();
  });

  it("is not sent again when there is no other", async () => {
    const { apiKey, asked } = keys("key-one");
    await using upstream = await rawUpstream(takes("key-two"));
    const { error } = await ask(before(upstream.url, { apiKey }));
    expect([asked(), upstream.requests.length]).toEqual([2, 1]);
    expect(error).toMatchObject({ code: "backend_refused" });
    expect(describeError(error)).toContain("The upstream answered 401");
  });

  it("is not renewed again for some seconds, however many calls are refused", async () => {
    const clock = manualClock();
    let asked = 0;
    await using upstream = await rawUpstream(takes());
    const backend = before(upstream.url, { apiKey: () => `key-${++asked}`, clock });
    for (let call = 0; call < 5; call++) expect((await ask(backend)).error).toMatchObject({ code: "backend_refused" });
    expect([asked, upstream.requests.length]).toEqual([2, 6]);
    await clock.advance(10_000);
    await ask(backend);
    expect([asked, upstream.requests.length]).toEqual([3, 8]);
  });

  it("is not renewed for another refusal", async () => {
    const { apiKey, asked } = keys("key-one", "key-two");
    await using upstream = await rawUpstream((socket) => socket.end(whole(403, "application/json", "{}")));
    expect((await ask(before(upstream.url, { apiKey }))).error).toMatchObject({ code: "backend_refused" });
    expect([asked(), upstream.requests.length]).toEqual([1, 1]);
  });

  it("of a text in the options is not renewed", async () => {
    await using upstream = await rawUpstream(takes());
    expect((await ask(before(upstream.url, { apiKey: "key-one" }))).error).toMatchObject({ code: "backend_refused" });
    expect(upstream.requests.length).toBe(1);
  });
});

const SECRET = "sk-renewed-0123456789abcdef";
const past = Date.UTC(2026, 0, 1);

const LIES: [string, unknown, string][] = [
  ["nothing", undefined, "apiKey must return a key, not undefined."],
  ["null", null, "apiKey must return a key, not null."],
  ["an empty text", "", "apiKey must return a key, not a text."],
  ["a number", 7, "apiKey must return a key, not a number."],
  ["an object without a key", { token: SECRET }, "apiKey must return a key, not an object."],
  [
    "a key with a line break",
    `${SECRET}\r\nx-admin: 1`,
    "The result of apiKey must be visible ASCII characters, but has at position",
  ],
  ["a key with its scheme", `Bearer ${SECRET}`, "The result of apiKey must be the key alone"],
  ["a key that has expired", { apiKey: SECRET, expiresAt: past }, "The apiKey had expired when it was returned."],
  [
    "a time in seconds",
    { apiKey: SECRET, expiresAt: past / 1_000 + 3_600 },
    "The apiKey had expired when it was returned: it must be in milliseconds, not in seconds.",
  ],
  ["a time that is none", { apiKey: SECRET, expiresAt: "soon" }, "The expiresAt of apiKey must be a Date, or"],
  [
    "a date that is none",
    { apiKey: SECRET, expiresAt: new Date(Number.NaN) },
    "The expiresAt of apiKey must be a Date",
  ],
];

describe("a function for keys", () => {
  it.each(LIES)("that returns %s is told to the host, and nothing is sent", async (_name, answer, words) => {
    await using upstream = await rawUpstream(answers);
    const backend = before(upstream.url, { apiKey: (async () => answer) as never, clock: manualClock() });
    const { error } = await ask(backend);
    expect(error).toMatchObject({ code: "backend_refused", message: "The model backend refused this service." });
    expect(describeError(error)).toContain(words);
    expect(describeError(error) + inspect(error, { depth: Infinity })).not.toContain("0123456789abcdef");
    expect(upstream.requests).toEqual([]);
  });

  it.each([
    ["throws", () => Promise.reject(new Error("The token server is away."))],
    [
      "throws at once",
      () => {
        throw new Error("The token server is away.");
      },
    ],
  ])("that %s fails the call, and is asked again by the next one", async (_name, fails) => {
    let asked = 0;
    await using upstream = await rawUpstream(answers);
    const backend = before(upstream.url, { apiKey: () => (++asked === 1 ? fails() : "key-two") });
    const { error } = await ask(backend);
    expect(error).toMatchObject({ code: "backend_unavailable", message: "The model backend is not available." });
    expect(describeError(error)).toMatch(/The relay's apiKey failed\.[^]*The token server is away\./);
    expect((await ask(backend)).text).toBe("Hello");
    expect(upstream.requests.map(keyOf)).toEqual(["key-two"]);
  });

  it("that hangs fails the calls that wait, and is asked again by the next one; a late key replaces no newer one", async () => {
    const clock = manualClock();
    const first = Promise.withResolvers<ApiKeyAnswer>();
    const { apiKey, asked } = keys(first.promise, "key-two");
    await using upstream = await rawUpstream(answers);
    const backend = before(upstream.url, { apiKey, clock, timeouts: { credentialMs: 2_000 } });
    const waiting = [ask(backend), ask(backend)];
    await clock.advance(2_000);
    for (const { error } of await Promise.all(waiting)) {
      expect(error).toMatchObject({ code: "backend_unavailable" });
      expect(describeError(error)).toContain("The relay's apiKey has not returned within 2000 ms.");
    }
    expect((await ask(backend)).text).toBe("Hello");
    first.resolve("key-one");
    await clock.advance(0);
    await ask(backend);
    expect([asked(), upstream.requests.map(keyOf)]).toEqual([2, ["key-two", "key-two"]]);
    expect(clock.pending).toBe(0);
  });

  it("holds no call whose client has gone", async () => {
    const clock = manualClock();
    const abort = new AbortController();
    const { apiKey } = keys(new Promise(() => {}));
    await using upstream = await rawUpstream(answers);
    const waiting = ask(before(upstream.url, { apiKey, clock }), {}, callContext(abort.signal));
    await clock.advance(0);
    abort.abort(new Error("Gone."));
    expect((await waiting).error).toBeInstanceOf(Error);
    expect([upstream.requests, clock.pending]).toEqual([[], 0]);
  });

  it("has its keys, the old and the new, in no error of an upstream that tells them back", async () => {
    const clock = manualClock();
    const { apiKey } = keys({ apiKey: "sk-first-0123456789abcdef", expiresAt: clock.now() + MINUTE }, SECRET);
    await using upstream = await rawUpstream((socket, { head }) =>
      socket.end(whole(500, "application/json", JSON.stringify({ error: `${head} sk-first-0123456789abcdef` }))),
    );
    const backend = before(upstream.url, { apiKey, clock });
    await ask(backend);
    await clock.advance(MINUTE);
    const { error } = await ask(backend);
    expect(upstream.requests.map(keyOf)).toEqual(["sk-first-0123456789abcdef", SECRET]);
    expect(describeError(error)).toContain("x-api-key: [redacted]");
    expect(describeError(error) + inspect(error, { depth: Infinity })).not.toContain("0123456789abcdef");
    expect(inspect(backend, { depth: Infinity, showHidden: true })).not.toContain("0123456789abcdef");
  });

  it.each([
    [503, "backend_unavailable", () => Promise.reject(new Error(`No token for ${SECRET}`))],
    [500, "backend_refused", () => ""],
  ])("that fails is a %d for the caller, and %s for the host", async (status, code, apiKey) => {
    const failures: Failure[] = [];
    const gateway = createGateway({
      backend: relay({ format: "messages", baseUrl: "http://127.0.0.1:2", apiKey }),
      quotas: memoryQuotaStore([{ apiKey: "sk-1" }]),
      onFailure: (failure) => void failures.push(failure),
    });
    const response = await gateway.fetch(
      new Request("http://localhost/v1/messages", {
        method: "POST",
        headers: { "x-api-key": "sk-1", "anthropic-version": "2023-06-01", "content-type": "application/json" },
        body: JSON.stringify({ model: "any", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] }),
      }),
    );
    expect([response.status, await response.text()]).toEqual([status, expect.not.stringMatching(/apiKey|token/)]);
    expect(failures.map(({ error }) => (error as { code?: unknown }).code)).toEqual([code]);
    expect(describeError(failures[0]?.error)).toContain("apiKey");
    await gateway.close();
  });
});

const isKnown = ({ authorization, ...headers }: IncomingHttpHeaders): boolean =>
  [authorization, headers["x-api-key"], headers["x-goog-api-key"]].some((value) => String(value).endsWith("key-two"));

/** Serves what upstreams of all formats are asked for, to those who have the second key, and records the credentials. */
async function everyUpstream(refusal = 401) {
  const seen: { readonly asked: string; readonly headers: IncomingHttpHeaders }[] = [];
  const server = createServer((req, res) => {
    const path = (req.url ?? "").split("?")[0] ?? "";
    seen.push({ asked: `${req.method} ${path}`, headers: req.headers });
    const isOk = isKnown(req.headers);
    const body = Object.entries(BODIES).find(([end]) => path.endsWith(end))?.[1];
    req.resume().on("end", () => {
      res.writeHead(isOk ? (body ? 200 : 404) : refusal, { "content-type": "application/json" });
      res.end(
        JSON.stringify(isOk ? (body ?? {}) : { error: { message: "Unknown key", type: "authentication_error" } }),
      );
    });
  });
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (req, socket, head) => {
    seen.push({ asked: `upgrade ${req.url}`, headers: req.headers });
    if (!isKnown(req.headers)) return void socket.end(`HTTP/1.1 ${refusal} Refused\r\ncontent-length: 0\r\n\r\n`);
    sockets.handleUpgrade(req, socket, head, (ws) =>
      ws.on("message", () => ws.send(JSON.stringify({ type: "response.completed", response: BODIES["/responses"] }))),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    seen,
    async [Symbol.asyncDispose]() {
      sockets.close();
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
}

const BODIES: Readonly<Record<string, object>> = {
  "/models": { data: [{ id: "m" }] },
  "/count_tokens": { input_tokens: 7 },
  ":countTokens": { totalTokens: 7 },
  "/input_tokens": { object: "response.input_tokens", input_tokens: 7 },
  "/embeddings": {
    object: "list",
    model: "m",
    data: [{ object: "embedding", index: 0, embedding: [1, 2] }],
    usage: { prompt_tokens: 1, total_tokens: 1 },
  },
  "/generations": { created: 1, data: [{ b64_json: Buffer.from(CLEAR).toString("base64") }] },
  "/compact": {
    id: "cmp_1",
    object: "response.compaction",
    created_at: 1,
    output: [{ id: "c_1", type: "compaction", encrypted_content: "abc" }],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  },
  "/responses": {
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "m",
    output: [
      {
        id: "msg_1",
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "Hello", annotations: [] }],
      },
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  },
};

const post = (body: object): RequestInit => ({
  method: "POST",
  headers: { authorization: "Bearer sk-1", "content-type": "application/json" },
  body: JSON.stringify(body),
});

describe.each<[string, () => Partial<RelayOptions>]>([
  ["renews", () => ({ apiKey: keys("key-one", "key-two").apiKey })],
  [
    "is a signature",
    () => ({
      sign: ({ refused }: SignableRequest) => ({
        headers: { authorization: refused ? "Sig key-two" : "Sig key-one" },
      }),
    }),
  ],
])("a credential that %s", (_name, credential) => {
  it.each<[string, RelayFormat, string, (backend: ReturnType<typeof relay>, url: string) => Promise<unknown>]>([
    ["a check", "chat-completions", "GET /v1/models", async (backend) => (await backend.check()).models],
    [
      "a count",
      "messages",
      "POST /v1/messages/count_tokens",
      (backend) => Promise.resolve(backend.countInputTokens?.(chatRequest(), callContext())),
    ],
    [
      "a count of generate-content",
      "generate-content",
      "POST /v1/models/plain-1:countTokens",
      (backend) => Promise.resolve(backend.countInputTokens?.(chatRequest(), callContext())),
    ],
    [
      "an embedding",
      "chat-completions",
      "POST /v1/embeddings",
      async (_backend, url) =>
        (await new OpenAI({ apiKey: "sk-1", baseURL: url }).embeddings.create({ model: "m", input: "a" })).data[0]
          ?.embedding,
    ],
    [
      "a picture",
      "images",
      "POST /v1/images/generations",
      async (_backend, url) =>
        (await fetch(`${url}/images/generations`, post({ model: "image-model-3", prompt: "A" }))).ok,
    ],
    [
      "a compaction",
      "responses",
      "POST /v1/responses/compact",
      async (_backend, url) => (await fetch(`${url}/responses/compact`, post({ model: "m", input: "Hello" }))).ok,
    ],
    [
      "a response",
      "responses",
      "POST /v1/responses",
      async (_backend, url) =>
        (await new OpenAI({ apiKey: "sk-1", baseURL: url }).responses.create({ model: "m", input: "a" })).output_text,
    ],
  ])("is that of %s, and of its second request", async (_what, format, asked, make) => {
    await using upstream = await everyUpstream();
    const backend = relay({
      format,
      baseUrl: upstream.url,
      compaction: format === "responses" ? "pass" : "own",
      ...credential(),
    });
    await using stage = await served(backend);
    expect(await make(backend as never, stage.url)).toBeTruthy();
    expect(upstream.seen.map((one) => one.asked)).toEqual([asked, asked]);
  });

  it.each([401, 403])("is that of a WebSocket, and of its second handshake behind a %d", async (status) => {
    await using upstream = await everyUpstream(status);
    // Keys are refused with 401 alone.
    const isRenewed = status === 401 || "sign" in credential();
    const backend = relay({ format: "responses", baseUrl: upstream.url, transport: "websocket", ...credential() });
    await using stage = await served(backend);
    const client = new OpenAI({ apiKey: "sk-1", baseURL: stage.url, maxRetries: 0 });
    const answer = client.responses.create({ model: "m", input: "a" }).then(({ output_text: text }) => text);
    const outcome = await answer.catch((error: unknown) => (error as { status?: unknown }).status);
    expect(outcome).toBe(isRenewed ? "Hello" : 500);
    expect(upstream.seen.map(({ asked }) => asked)).toEqual([
      "upgrade /v1/responses",
      isRenewed ? "upgrade /v1/responses" : "POST /v1/responses",
    ]);
    await backend.close();
  });
});

it("A WebSocket whose key has ended since its handshake is replaced by one with the next key", async () => {
  const [server, sockets] = [createServer(), new WebSocketServer({ noServer: true })];
  const turns: (string | undefined)[] = [];
  server.on("upgrade", (req, socket, head) =>
    sockets.handleUpgrade(req, socket, head, (ws) =>
      ws.on("message", () => {
        turns.push(req.headers.authorization);
        const isRefused = turns.length === 2;
        const refused = { type: "error", status: 401, error: { message: "The token has expired." } };
        const answer = { type: "response.completed", response: BODIES["/responses"] };
        ws.send(JSON.stringify(isRefused ? refused : answer));
      }),
    ),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clock = manualClock();
  const { apiKey } = keys({ apiKey: "key-one", expiresAt: clock.now() + MINUTE }, "key-two");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const backend = relay({ format: "responses", baseUrl, transport: "websocket", apiKey, clock });
  await using stage = await served(backend);
  const client = new OpenAI({ apiKey: "sk-1", baseURL: stage.url, maxRetries: 0 });
  const input = [{ role: "user" as const, content: "a" }];
  const { output } = await client.responses.create({ model: "m", input });
  await clock.advance(MINUTE);
  const next = [...input, ...(output as OpenAI.Responses.ResponseInputItem[]), ...input];
  expect((await client.responses.create({ model: "m", input: next })).output_text).toBe("Hello");
  expect(turns).toEqual(["Bearer key-one", "Bearer key-one", "Bearer key-two"]);
  await backend.close();
  sockets.close();
  server.close();
});

it("A function for keys that fails opens no WebSocket, and is not asked again for HTTP", async () => {
  let asked = 0;
  await using upstream = await everyUpstream();
  const apiKey = (): never => {
    asked++;
    throw new Error("The token server is away.");
  };
  const backend = relay({ format: "responses", baseUrl: upstream.url, transport: "websocket", apiKey });
  await using stage = await served(backend);
  const response = await fetch(`${stage.url}/responses`, post({ model: "m", input: "Hello" }));
  expect([response.status, asked, upstream.seen]).toEqual([503, 1, []]);
});

/** Serves a gateway before a backend. */
async function served(backend: ReturnType<typeof relay>) {
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 1_000_000 }]),
    responses: { compaction: { keys: [{ name: "a", secret: new Uint8Array(32).fill(3) }] } },
    responseStore: memoryResponseStore(),
    onFailure: () => {},
  });
  const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await gateway.close();
    },
  };
}

describe("a signature", () => {
  it("is made over the bytes and headers that are sent, and may lead to another path", async () => {
    const asked: SignableRequest[] = [];
    await using upstream = await rawUpstream(answers);
    const backend = before(upstream.url, {
      headers: { "x-team": "blue" },
      sign: async (request) => {
        asked.push(request);
        return {
          headers: new Headers({ authorization: `Sig ${request.body.length}`, "x-team": "red" }),
          url: `${request.url}/signed?by=me`,
        };
      },
    });
    expect((await ask(backend)).text).toBe("Hello");
    const [{ head, body } = { head: "", body: "" }] = upstream.requests;
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatchObject({ method: "POST", url: expect.stringContaining(upstream.url), refused: undefined });
    expect(new TextDecoder().decode(asked[0]?.body)).toBe(body);
    expect(asked[0]?.headers).toMatchObject({ "content-type": "application/json", "x-team": "blue" });
    expect(head).toMatch(/^POST \/v1\/[^ ]+\/signed\?by=me HTTP/);
    expect(head).toContain(`authorization: Sig ${body.length}\r\n`);
    expect(head).toMatch(/^x-team: red\r$/m);
  });

  it.each<[string, unknown, string]>([
    ["nothing", undefined, "sign must return an object with headers, not undefined."],
    ["no headers", {}, "The headers of sign must be an object, not undefined."],
    ["another origin", { headers: {}, url: "https://evil.test/v1" }, "The url of sign must be an address"],
    ["no address", { headers: {}, url: 7 }, "The url of sign must be an address"],
    ["a header of the relay", { headers: { "Content-Length": "7" } }, "the header content-length is the relay's own"],
    [
      "a line break",
      { headers: { authorization: `${SECRET}\r\na: b` } },
      "the header authorization has no valid value",
    ],
    ["a header that is no text", { headers: { authorization: undefined } }, "the header authorization has no valid"],
    ["a name that is none", { headers: { "a b": "c" } }, "headers has a name that is none"],
    ["a list", { headers: [["authorization", SECRET]] }, "the header 0 has no valid value"],
    [
      "a getter that throws",
      {
        get headers() {
          throw new Error("No headers.");
        },
      },
      "No headers.",
    ],
  ])("of %s is told to the host, and nothing is sent", async (_name, signed, words) => {
    await using upstream = await rawUpstream(answers);
    const { error } = await ask(before(upstream.url, { sign: () => signed as SignedRequest }));
    expect(error).toMatchObject({ code: "backend_refused" });
    expect(describeError(error)).toContain(words);
    expect(describeError(error) + inspect(error, { depth: Infinity })).not.toContain("0123456789abcdef");
    expect(upstream.requests).toEqual([]);
  });

  it("that fails or hangs fails the call", async () => {
    const clock = manualClock();
    let asked = 0;
    await using upstream = await rawUpstream(answers);
    const sign = (): Promise<SignedRequest> =>
      ++asked === 1 ? Promise.reject(new Error("No key.")) : new Promise(() => {});
    const backend = before(upstream.url, { sign, clock });
    const { error } = await ask(backend);
    expect(error).toMatchObject({ code: "backend_unavailable" });
    expect(describeError(error)).toMatch(/The relay's sign failed\.[^]*No key\./);
    const hanging = ask(backend);
    await clock.advance(10_000);
    expect(describeError((await hanging).error)).toContain("The relay's sign has not returned within 10000 ms.");
    expect([upstream.requests, clock.pending]).toEqual([[], 0]);
  });

  it.each([401, 403])("that is refused with %d is made once more, unless there is no other", async (status) => {
    for (const [second, requests] of [
      [{ headers: { authorization: "Sig two" } }, 2],
      [undefined, 1],
    ] as const) {
      await using upstream = await rawUpstream((socket) => socket.end(whole(status, "application/json", "{}")));
      const sign = ({ refused }: SignableRequest) => (refused ? second : { headers: { authorization: "Sig one" } });
      expect((await ask(before(upstream.url, { sign }))).error).toMatchObject({ code: "backend_refused" });
      expect(upstream.requests).toHaveLength(requests);
    }
  });

  it("is in no error of an upstream that tells it back, nor are those before", async () => {
    let count = 0;
    await using upstream = await rawUpstream((socket, { head }) =>
      socket.end(whole(500, "application/json", JSON.stringify({ error: head }))),
    );
    const sign = () => ({
      headers: { "x-session-token": SECRET, authorization: `Sig number-${++count}-of-${SECRET}` },
    });
    const backend = before(upstream.url, { sign });
    for (let call = 0; call < 30; call++) {
      const { error } = await ask(backend);
      expect(describeError(error)).toContain("authorization: Sig [redacted]");
      expect(describeError(error) + inspect(error, { depth: Infinity })).not.toContain("0123456789abcdef");
    }
  });

  it("that stands in an address is in no error", async () => {
    await using upstream = await rawUpstream((socket, { head }) =>
      socket.end(whole(404, "application/json", JSON.stringify({ error: { message: head.split("\r\n")[0] } }))),
    );
    const sign = ({ url }: SignableRequest) => ({ headers: {}, url: `${url}?version=2026-01-01&sig=${SECRET}%2B` });
    const { error } = await ask(before(upstream.url, { sign }));
    expect(upstream.requests[0]?.head).toContain(SECRET);
    expect(describeError(error)).toMatch(/POST \/v1\/\S+\?version=\S+&sig=\[redacted\]/);
    expect(describeError(error) + inspect(error, { depth: Infinity })).not.toContain("0123456789abcdef");
  });

  it("may be of another class of headers than the runtime's", async () => {
    await using upstream = await rawUpstream(answers);
    const headers = new UndiciHeaders({ "X-Signature": "abc" }) as unknown as Headers;
    await ask(before(upstream.url, { sign: () => ({ headers }) }));
    expect(upstream.requests[0]?.head).toContain("x-signature: abc\r\n");
  });

  it("is not asked for when the call has ended, so that nobody waits for its failure", async () => {
    let asked = 0;
    const sign = (): Promise<SignedRequest> => {
      asked++;
      return Promise.reject(new Error("No key."));
    };
    const aborted = callContext(AbortSignal.abort(new Error("Gone.")));
    expect((await ask(before("http://127.0.0.1:2", { sign }), {}, aborted)).error).toBeInstanceOf(Error);
    expect(asked).toBe(0);
  });

  it("is remembered with a bound, the longest secret first, beside those of the host", async () => {
    let count = 0;
    const sign = () => ({
      headers: { "x-token": "t".repeat(10 + (count % 7)) + ++count, "x-session-key": "the-session" },
    });
    const secrets = ["of-the-host"];
    const clock = manualClock();
    const upstream = { origin: "http://127.0.0.1:2", clock, timeouts: DEFAULT_RELAY_TIMEOUTS };
    const authorization = openAuthorization(PLAIN, { sign }, upstream, secrets);
    for (let call = 0; call < 600; call++) {
      const exchange = new Exchange(clock, new AbortController().signal);
      await authorization.authorized({ method: "GET", path: "/", headers: {} }, exchange);
      exchange.end();
    }
    expect(secrets).toHaveLength(33);
    expect(secrets).toEqual(expect.arrayContaining(["of-the-host", "the-session"]));
    expect(secrets.filter((secret) => secret.endsWith("600") || secret.endsWith("580"))).toHaveLength(2);
    expect(secrets.map(({ length }) => length)).toEqual(secrets.map(({ length }) => length).toSorted((a, b) => b - a));
  });

  it("covers the key of the same request", async () => {
    const { apiKey } = keys("key-one", "key-two");
    await using upstream = await rawUpstream(takes("key-two"));
    const backend = before(upstream.url, {
      apiKey,
      sign: ({ headers }) => ({ headers: { "x-signature": `over-${headers["x-api-key"]}` } }),
    });
    expect((await ask(backend)).text).toBe("Hello");
    expect(upstream.requests.map(({ head }) => /x-signature: (.*)\r/.exec(head)?.[1])).toEqual([
      "over-key-one",
      "over-key-two",
    ]);
  });
});

describe("the check of a relay", () => {
  it("says what is wrong with its credentials", async () => {
    const options = { baseUrl: "http://127.0.0.1:2", models: ["a"], clock: manualClock() };
    const lying = relay({ ...options, format: "messages", apiKey: () => "" });
    expect((await lying.check()).problem).toBe("apiKey must return a key, not a text.");
    const failing = relay({ ...options, format: "messages", sign: () => Promise.reject(new Error("No key.")) });
    expect((await failing.check()).problem).toBe("The relay's sign failed.");
    const withoutList = relay({ ...options, format: { ...PLAIN, listPath: undefined as never }, apiKey: () => "" });
    expect((await withoutList.check()).problem).toBe("apiKey must return a key, not a text.");
  });
});

describe("a relay of polygate/core", () => {
  const options = { format: PLAIN, baseUrl: "http://127.0.0.1:2" };

  it("takes such credentials with their code alone", async () => {
    const words = "relay: an apiKey that is a function, and sign, need withCredentials in features.";
    expect(() => coreRelay({ ...options, apiKey: () => "key-one" })).toThrow(words);
    expect(() => coreRelay({ ...options, sign: () => ({ headers: {} }) })).toThrow(words);
    expect(() => coreRelay({ ...options, features: [{}] as never })).toThrow(
      "relay: features[0] must be withCredentials or withCodeLoop.",
    );
    await using upstream = await rawUpstream(takes("key-two"));
    const { apiKey } = keys("key-one", "key-two");
    const backend = coreRelay({ format: PLAIN, baseUrl: upstream.url, apiKey, features: [withCredentials] });
    expect((await ask(backend)).text).toBe("Hello");
    const lying = { ...options, apiKey: () => "", features: [withCredentials] };
    expect((await checkRelay(lying)).problem).toBe("apiKey must return a key, not a text.");
  });

  it("is refused an apiKey of another kind by name", () => {
    expect(() => coreRelay({ ...options, apiKey: 7 as never })).toThrow("relay: apiKey must be a text, not a number.");
    expect(() => coreRelay({ ...options, sign: "v4" as never })).toThrow("relay: sign must be a function, not a text.");
  });
});
