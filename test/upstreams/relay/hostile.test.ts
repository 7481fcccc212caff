/** A relay before an upstream that does everything wrong: the right error each time, and nothing left behind. */

import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { describeError, GatewayError } from "../../../src/errors.ts";
import { systemClock } from "../../../src/ports/clock.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { sse } from "./plain-codec.ts";
import {
  endless,
  head,
  hundredMegabytes,
  NOBODY,
  rawUpstream,
  type RawAnswer,
  STREAM_HEAD,
  whole,
} from "./raw-upstream.ts";
import { API_KEY, ask, callContext, chatRequest, plainRelay } from "./stage.ts";

const ANSWER = sse({ model: "plain-1", text: "Hel" }, { text: "lo, wörld 🌍" }, { end: true, tokens: 3 });

const TRANSPORTS = [
  ["undici", {}],
  ["fetch", { fetch: (url: string, init: RequestInit) => fetch(url, init) }],
] as const;

const errorOf = (error: unknown): Record<string, unknown> => {
  expect(error).toBeInstanceOf(GatewayError);
  const { code, message, retryAfterMs, cause } = error as GatewayError;
  return { code, message, retryAfterMs, cause: cause instanceof Error ? cause.message : cause };
};

/**
 * Lets time pass until a call has ended. What a phase waits for comes over a socket, so time passes in small steps: the phase that
 * takes too long is the one that ends it.
 */
async function wound<Ended>(clock: ManualClock, asking: Promise<Ended>): Promise<Ended> {
  const state = { ended: false };
  const ended = (): void => void (state.ended = true);
  asking.then(ended, ended);
  for (let passedMs = 0; !state.ended; passedMs += 1_000) {
    expect(passedMs).toBeLessThan(600_000);
    await clock.advance(1_000);
  }
  return asking;
}

describe.each(TRANSPORTS)("a relay over %s", (name, options) => {
  const asked = async (answer: RawAnswer, stream = true, more: Parameters<typeof plainRelay>[1] = {}) => {
    await using upstream = await rawUpstream(answer);
    const relay = plainRelay(upstream.url, { ...options, ...more });
    const outcome = await ask(relay, { stream });
    if (outcome.error !== undefined && name === "undici") await upstream.allClosed();
    await relay.close();
    return { ...outcome, requests: upstream.requests };
  };

  it("answers from a stream whose bytes are cut anywhere", async () => {
    const bytes = Buffer.from(ANSWER);
    const { text, error, requests } = await asked(async (socket) => {
      socket.setNoDelay(true);
      socket.write(STREAM_HEAD);
      for (const byte of bytes) await new Promise((written) => socket.write(Buffer.of(byte), written));
      socket.end();
    });
    expect({ text, error }).toEqual({ text: "Hello, wörld 🌍", error: undefined });
    expect(requests[0]?.head).toMatch(/^POST \/v1\/say\/plain-1 HTTP\/1\.1\r\n/);
    expect(requests[0]?.head.toLowerCase()).toContain(`x-api-key: ${API_KEY}`);
    expect(JSON.parse(requests[0]?.body ?? "")).toMatchObject({ model: "plain-1", stream: true });
  });

  it.each([
    ["CRLF", (text: string) => text.replaceAll("\n", "\r\n")],
    ["CR alone", (text: string) => text.replaceAll("\n", "\r")],
    ["a byte order mark", (text: string) => `\uFEFF${text}`],
    ["comments, ids and unknown fields", (text: string) => `: hello\nid: 7\nretry: 1\nwhat: ever\n\n${text}`],
  ])("reads a stream with %s", async (_name, written) => {
    const { text, error } = await asked((socket) => socket.end(STREAM_HEAD + written(ANSWER)));
    expect({ text, error }).toEqual({ text: "Hello, wörld 🌍", error: undefined });
  });

  it.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
  ] as const)("decompresses %s, which it did not ask for", async (coding, compress) => {
    const more = { "content-encoding": coding };
    const streamed = await asked((socket) => socket.write(whole(200, "text/event-stream", compress(ANSWER), more)));
    expect(streamed.text).toBe("Hello, wörld 🌍");
    const body = JSON.stringify({ text: "All of it", end: true });
    const complete = await asked((socket) => socket.write(whole(200, "application/json", compress(body), more)), false);
    expect(complete.text).toBe("All of it");
    expect(complete.requests[0]?.head.toLowerCase()).toContain("accept-encoding: identity");
  });

  it("ignores 1xx", async () => {
    const early = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
    const { text, error } = await asked((socket) => socket.end(early + STREAM_HEAD + ANSWER));
    expect({ text, error }).toEqual({ text: "Hello, wörld 🌍", error: undefined });
  });

  it("says that an upstream which refuses connections cannot be reached", async () => {
    const { error } = await ask(plainRelay(`http://${NOBODY}`, options));
    expect(errorOf(error)).toMatchObject({ code: "backend_unavailable" });
  });

  const FAILED = "backend_failed";
  it.each<[string, RawAnswer, string, string | RegExp]>([
    ["dies before it answers", (socket) => socket.destroy(), "backend_unavailable", /./],
    ["is reset before it answers", (socket) => socket.resetAndDestroy(), "backend_unavailable", /./],
    ["dies in its headers", (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-ty"), "backend_unavailable", /./],
    [
      "switches to another protocol",
      (socket) => socket.end("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
      "backend_unavailable",
      /./,
    ],
    ["answers plain text", (socket) => socket.end(whole(200, "text/plain", "Hello")), FAILED, /text\/plain: "Hello"/],
    [
      "breaks its chunks",
      (socket) =>
        socket.end(`${head(200, { "content-type": "text/event-stream", "transfer-encoding": "chunked" })}zz\r\n`),
      FAILED,
      /./,
    ],
    [
      "dies in mid-stream",
      (socket) =>
        socket.write(
          head(200, { "content-type": "text/event-stream", "content-length": 999 }) + sse({ text: "Hel" }),
          () => socket.destroy(),
        ),
      FAILED,
      /./,
    ],
    ["ends a stream too soon", (socket) => socket.end(STREAM_HEAD + sse({ text: "Hel" })), FAILED, "undefined"],
    ["sends garbage for frames", (socket) => socket.end(`${STREAM_HEAD}data: {{{\n\n`), FAILED, /JSON/],
    [
      "answers a page of HTML",
      (socket) => socket.end(whole(200, "text/html", "<h1>Hello</h1>")),
      FAILED,
      /200, text\/html: "<h1>Hello/,
    ],
    [
      "answers a complete body that is no JSON to a stream",
      (socket) => socket.end(whole(200, "application/json", "{")),
      FAILED,
      /JSON/,
    ],
    [
      "redirects",
      (socket) => socket.end(whole(302, "", "", { location: "http://127.0.0.1:1/elsewhere" })),
      FAILED,
      /302|answered 0/,
    ],
    [
      "redirects for good",
      (socket) => socket.end(whole(308, "", "", { location: "/v1/other" })),
      FAILED,
      /308|answered 0/,
    ],
    [
      "shows a proxy's page: 502",
      (socket) => socket.end(whole(502, "text/html", "<h1>Bad Gateway</h1>")),
      "backend_unavailable",
      /Bad Gateway/,
    ],
    [
      "shows a proxy's page: 504",
      (socket) => socket.end(whole(504, "text/html", "<h1>late</h1>")),
      "deadline_exceeded",
      /late/,
    ],
    ["shows a proxy's page: 500", (socket) => socket.end(whole(500, "text/html", "<h1>oops</h1>")), FAILED, /oops/],
    [
      "is coded as nothing that is known",
      (socket) => socket.end(whole(200, "text/event-stream", "x", { "content-encoding": "zzz" })),
      FAILED,
      /./,
    ],
    [
      "sends gzip that is none",
      (socket) => socket.end(whole(200, "text/event-stream", "This is no gzip.", { "content-encoding": "gzip" })),
      FAILED,
      /./,
    ],
    [
      "breaks its gzip off",
      (socket) =>
        socket.end(
          whole(200, "text/event-stream", gzipSync(ANSWER.repeat(50)).subarray(0, 60), { "content-encoding": "gzip" }),
        ),
      FAILED,
      /./,
    ],
  ])("has the right error where an upstream %s", async (_name, answer, code, cause) => {
    const { error } = await asked(answer);
    const { cause: told, ...shown } = errorOf(error);
    expect(shown).toMatchObject({ code });
    // The cause of a wrong address names the address before the answer.
    expect(`${String(told)}\n${describeError(error)}`).toMatch(cause);
    expect(JSON.stringify(shown)).not.toMatch(/127\.0\.0\.1|plain-1|<h1>/);
  });

  it("has an error where an upstream sends what is no HTTP", async () => {
    const { error } = await asked((socket) => socket.end("220 ready\r\n"));
    // The built-in fetch does not say why it failed.
    expect(errorOf(error)).toMatchObject({ code: name === "undici" ? FAILED : "backend_unavailable" });
  });

  it("keeps the meaning of the upstream's own errors, and its words to the host", async () => {
    const limited = whole(429, "application/json", '{"error":"Tier 1 is spent."}', { "retry-after": "7" });
    const { error } = await asked((socket) => socket.end(limited));
    expect(errorOf(error)).toEqual({
      code: "rate_limited",
      message: "The model backend refused.",
      retryAfterMs: 7_000,
      cause: String.raw`The upstream answered 429, application/json: "{\"error\":\"Tier 1 is spent.\"}"`,
    });
    const shown = await asked((socket) => socket.end(limited), true, { showUpstreamMessages: true });
    expect(errorOf(shown.error)).toMatchObject({
      code: "rate_limited",
      message: "Tier 1 is spent.",
      retryAfterMs: 7_000,
    });
    const overloaded = await asked((socket) => socket.end(whole(529, "application/json", "{}")));
    expect(errorOf(overloaded.error)).toMatchObject({ code: "backend_overloaded" });
    const midway = await asked((socket) => socket.end(STREAM_HEAD + sse({ text: "Hel" }, { error: "no more" })));
    expect(midway.text).toBe("Hel");
    expect(errorOf(midway.error)).toMatchObject({ code: "invalid_request", cause: "no more" });
  });

  it.each([401, 403])(
    "never takes a %i for its caller's, and hides the key that the upstream tells back",
    async (status) => {
      const body = JSON.stringify({ error: `Incorrect API key: ${API_KEY}` });
      const { error } = await asked((socket) => socket.end(whole(status, "application/json", body)), true, {
        showUpstreamMessages: true,
      });
      const { cause: _cause, ...shown } = errorOf(error);
      expect(shown).toMatchObject({ code: "backend_refused", message: "The model backend refused this service." });
      const described = describeError(error);
      expect(described).toContain("Incorrect API key: [redacted]");
      const words = "SettingMistake: The upstream refuses the relay's credential. Check its apiKey and headers.";
      // A 403 may refuse the model or the region alone.
      expect(described.includes(words)).toBe(status === 401);
      expect(described).not.toContain("0123456789abcdef");
      expect(JSON.stringify(shown)).not.toContain("0123456789abcdef");
    },
  );

  it("takes no event of 100 MB, and no body beyond its limit", async () => {
    const before = process.memoryUsage().rss;
    const { error } = await asked(hundredMegabytes(STREAM_HEAD));
    expect(errorOf(error)).toMatchObject({ code: FAILED, cause: expect.stringContaining("longer than") });
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 ** 2);
    const bomb = gzipSync(Buffer.alloc(2 * 1024 ** 2, " "));
    const large = whole(200, "application/json", bomb, { "content-encoding": "gzip" });
    const complete = await asked((socket) => socket.write(large), false, { limits: { maxBodyBytes: 1024 ** 2 } });
    expect(errorOf(complete.error)).toMatchObject({ code: FAILED, cause: expect.stringContaining("larger than") });
  });

  it("waits for no more of a body whose beginning is beyond its limit", async () => {
    const beginning = head(200, { "content-type": "application/json", "content-length": "5000" }) + " ".repeat(500);
    const { error } = await asked((socket) => socket.write(beginning), false, { limits: { maxBodyBytes: 100 } });
    expect(errorOf(error)).toMatchObject({ code: FAILED, cause: expect.stringContaining("larger than") });
  });

  it("lets an endless stream go when its caller has enough", async () => {
    await using upstream = await rawUpstream(endless(STREAM_HEAD, sse({ text: "more " })));
    const relay = plainRelay(upstream.url, options);
    let count = 0;
    for await (const event of relay.chat(chatRequest(), callContext()))
      if (event.type === "text-delta" && ++count === 1_000) break;
    await upstream.allClosed();
    expect(count).toBe(1_000);
  });

  it.each(["before the headers", "in mid-stream"])("stops at once when the call is aborted %s", async (when) => {
    const [abort, reached] = [new AbortController(), Promise.withResolvers<void>()];
    await using upstream = await rawUpstream((socket) => {
      if (when === "in mid-stream") socket.write(STREAM_HEAD + sse({ text: "Hel" }));
      reached.resolve();
    });
    const relay = plainRelay(upstream.url, options);
    const asking = ask(relay, {}, callContext(abort.signal));
    await reached.promise;
    const reason = new GatewayError("client_closed", "gone");
    abort.abort(reason);
    expect((await asking).error).toBe(reason);
    await upstream.allClosed();
  });

  it("asks nothing of the upstream for a call that is over already", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(STREAM_HEAD + ANSWER));
    const reason = new GatewayError("client_closed", "gone");
    const { error } = await ask(plainRelay(upstream.url, options), {}, callContext(AbortSignal.abort(reason)));
    expect(error).toBe(reason);
    expect(upstream.requests).toEqual([]);
  });

  it.each([
    ["the headers", { headersMs: 5_000 }, true, ""],
    ["a complete answer", { completeMs: 5_000 }, false, ""],
    ["the first event", { firstEventMs: 5_000 }, true, STREAM_HEAD],
    ["the next event", { betweenEventsMs: 5_000 }, true, STREAM_HEAD + sse({ text: "Hel" })],
    [
      "the next event, though comments come",
      { betweenEventsMs: 5_000 },
      true,
      `${STREAM_HEAD}${sse({ text: "Hel" })}: still here\n\n`,
    ],
    [
      "the next piece of a body",
      { betweenEventsMs: 5_000 },
      false,
      `${head(200, { "content-type": "application/json", "content-length": 99 })}{`,
    ],
  ])("waits for %s no longer than it may", async (_name, timeouts, stream, bytes) => {
    const clock = manualClock();
    await using upstream = await rawUpstream((socket) => socket.write(bytes));
    const relay = plainRelay(upstream.url, { ...options, clock, timeouts });
    const outcome = await wound(clock, ask(relay, { stream }));
    expect(errorOf(outcome.error)).toMatchObject({
      code: "deadline_exceeded",
      cause: expect.stringContaining("5000 ms"),
    });
    await upstream.allClosed();
    expect(clock.pending).toBe(0);
  });

  it("takes a finished answer whose stream is left open for complete", async () => {
    const clock = manualClock();
    await using upstream = await rawUpstream((socket) => socket.write(STREAM_HEAD + ANSWER));
    const outcome = await wound(clock, ask(plainRelay(upstream.url, { ...options, clock })));
    expect(outcome).toMatchObject({ text: "Hello, wörld 🌍", error: undefined });
    await upstream.allClosed();
    expect(clock.pending).toBe(0);
  });

  it("leaves no timer and no listener behind", async () => {
    await using upstream = await rawUpstream((socket) => socket.end(STREAM_HEAD + ANSWER));
    const clock = manualClock();
    const abort = new AbortController();
    let listeners = 0;
    const { signal } = abort;
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (...args: Parameters<typeof add>) => (listeners++, add(...args));
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (listeners--, remove(...args));
    const relay = plainRelay(upstream.url, { ...options, clock });
    for (let count = 0; count < 20; count++) expect((await ask(relay, {}, callContext(signal))).error).toBeUndefined();
    expect({ pending: clock.pending, listeners: Math.max(0, listeners) }).toEqual({ pending: 0, listeners: 0 });
  });
});

describe("a relay that keeps its connections", () => {
  it.each<[how: string, close: (socket: Socket) => unknown]>([
    ["closed", (socket) => socket.end()],
    ["reset", (socket) => socket.resetAndDestroy()],
  ])("uses one again, and another where the upstream has %s it before", async (_how, close) => {
    let answered = 0;
    let last: Socket | undefined;
    await using upstream = await rawUpstream((socket) => {
      answered++;
      last = socket;
      socket.write(whole(200, "application/json", JSON.stringify({ text: "yes", end: true })));
    });
    const relay = plainRelay(upstream.url, { clock: systemClock });
    for (let count = 0; count < 4; count++) {
      expect(await ask(relay, { stream: false })).toMatchObject({ text: "yes", error: undefined });
      // A connection is free again once its answer has been read to the end, a turn of the event loop later.
      await setImmediate();
      if (answered !== 2 || !last) continue;
      close(last);
      await upstream.allClosed();
    }
    expect(answered).toBe(4);
    // Of several connections, the calls before the last ones shared one.
    expect(upstream.connections.made).toBeLessThan(4);
    await relay.close();
    await upstream.allClosed();
  });

  it("asks an upstream once that closes a connection which was made for the request", async () => {
    let asked = 0;
    await using upstream = await rawUpstream((socket) => {
      if (++asked > 1) return socket.destroy();
      return socket.end(whole(200, "application/json", JSON.stringify({ text: "yes", end: true })));
    });
    const relay = plainRelay(upstream.url);
    expect(await ask(relay, { stream: false })).toMatchObject({ text: "yes", error: undefined });
    await upstream.allClosed();
    expect(errorOf((await ask(relay, { stream: false })).error)).toMatchObject({ code: "backend_unavailable" });
    expect(asked).toBe(2);
    await relay.close();
  });

  it.each([
    ["EPROTO", "backend_unavailable"],
    ["CERT_HAS_EXPIRED", "backend_unavailable"],
    ["UND_ERR_HEADERS_TIMEOUT", "deadline_exceeded"],
  ])("knows by %s of a fetch why nothing was answered: %s", async (code, expected) => {
    const thrown = new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code }) });
    const relay = plainRelay("https://127.0.0.1:9", { fetch: () => Promise.reject(thrown) });
    expect(errorOf((await ask(relay)).error)).toMatchObject({ code: expected });
  });

  it("waits no longer for a fetch that hangs and minds no signal", async () => {
    const clock = manualClock();
    const relay = plainRelay("http://127.0.0.1:9", {
      clock,
      fetch: () => new Promise(() => {}),
      timeouts: { headersMs: 1_000 },
    });
    const asking = ask(relay);
    await clock.advance(1_000);
    expect(errorOf((await asking).error)).toMatchObject({ code: "deadline_exceeded" });
    expect(clock.pending).toBe(0);
  });
});
