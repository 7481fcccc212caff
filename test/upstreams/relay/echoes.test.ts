/** Upstreams that send the relay's key back: no piece of the key reaches a caller, `onFailure`, or the printed text of a failure. */

import type { Socket } from "node:net";
import { inspect } from "node:util";
import { createOpenAI } from "@ai-sdk/openai";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createGateway, type Failure, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { rawUpstream, STREAM_HEAD, whole } from "./raw-upstream.ts";

/** Letters of both cases and digits without a word in them, as in real keys. */
const KEY = "sk-Qx7RtB29vLmZ4KpW8sYd";
const BARE = KEY.slice(3);

/** Strings that no text may hold: each eight characters of the key, in any case. */
const PIECES = Array.from({ length: BARE.length - 7 }, (_, at) => BARE.slice(at, at + 8).toLowerCase());

const expectNoPiece = (shown: string): void => {
  const lowered = shown.toLowerCase();
  expect(PIECES.filter((piece) => lowered.includes(piece))).toEqual([]);
};

/** The forms in which an upstream writes the key. */
const SPELLINGS: readonly [how: string, key: string][] = [
  ["as it is", KEY],
  ["without its prefix", BARE],
  ["in lower case", KEY.toLowerCase()],
  ["in upper case", KEY.toUpperCase()],
  ["its beginning", KEY.slice(0, 14)],
  ["its end", KEY.slice(-11)],
  ["its beginning, in upper case", BARE.slice(0, 9).toUpperCase()],
  ["its end, in lower case", KEY.slice(9).toLowerCase()],
];

const frame = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
const json = (status: number, body: unknown): Buffer => whole(status, "application/json", JSON.stringify(body));

/** The parts of an answer in which an upstream writes the key. */
const PLACES: readonly [where: string, answer: (key: string) => Buffer | string][] = [
  ["a malformed header", (key) => `HTTP/1.1 200 OK\r\n${key}\r\nx-key: ${key}\r\n\r\n`],
  ["a header that is no header", (key) => `HTTP/1.1 200 OK\r\nx key ${key}: 1\r\n\r\n`],
  ["a status line that is none", (key) => `${key} HTTP/1.1 200 OK\r\n\r\n`],
  ["a length that is none", (key) => `HTTP/1.1 200 OK\r\ncontent-length: ${key}\r\n\r\n`],
  ["chunks that are none", (key) => `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${key}\r\n`],
  ["its content type", (key) => whole(200, `text/${key}`, "Hello")],
  ["its coding", (key) => whole(200, "application/json", "Hello", { "content-encoding": key })],
  ["a page", (key) => whole(200, "text/html", `<p>${key}</p>`)],
  ["a redirect", (key) => whole(302, "text/html", "", { location: `https://example.com/${key}` })],
  ["JSON that is none", (key) => whole(200, "application/json", `{"key": ${key}`)],
  ["an error that is text", (key) => whole(500, "text/plain", `Bad key: ${key}`)],
  ...[400, 401, 403, 404, 429, 500, 529].map((status): (typeof PLACES)[number] => [
    `an error ${status}`,
    (key) => json(status, { error: { type: key, code: key, status: key, message: `Bad key: ${key}`, details: [key] } }),
  ]),
  [
    "the name of a field",
    (key) =>
      json(400, { error: { type: "invalid_request_error", param: key, message: `Unknown parameter: '${key}'.` } }),
  ],
  [
    "a path in front of its words",
    (key) => json(400, { error: { type: "invalid_request_error", message: `a.${key}: No` } }),
  ],
  [
    "an error in mid-stream",
    (key) => STREAM_HEAD + frame({ type: "error", error: { type: key, message: `Bad: ${key}` } }),
  ],
  ["a frame that is no JSON", (key) => STREAM_HEAD + frame(`{${key}`)],
];

/**
 * The places that meet all forms, before one format: text that the HTTP client quotes, a body that is no error, an error in JSON, and one in
 * mid-stream. All other places and formats meet the first form, because all hide the key by one function.
 */
const IN_ALL_SPELLINGS: ReadonlySet<string> = new Set([
  "a malformed header",
  "a page",
  "a redirect",
  "an error 400",
  "an error in mid-stream",
]);

const BODIES: Readonly<Record<RelayFormat, { path: string; body: object }>> = {
  messages: { path: "/v1/messages", body: { model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] } },
  "generate-content": {
    path: "/v1beta/models/m:generateContent",
    body: { contents: [{ role: "user", parts: [{ text: "Hi" }] }] },
  },
  "chat-completions": {
    path: "/v1/chat/completions",
    body: { model: "m", messages: [{ role: "user", content: "Hi" }] },
  },
  responses: { path: "/v1/responses", body: { model: "m", input: "Hi" } },
  images: {
    path: "/v1/images/generations",
    body: { model: "image-model-2", prompt: "A fox.", response_format: "b64_json" },
  },
};

const printed: string[] = [];
beforeEach(() => {
  printed.length = 0;
  vi.spyOn(console, "error").mockImplementation((...said: unknown[]) => void printed.push(said.map(String).join(" ")));
});
afterEach(() => void vi.restoreAllMocks());

/** Asks twice, once where the host listens and once where it does not. What a host can print of it holds no piece of the key. */
async function expectSilence(backend: ModelBackend, format: RelayFormat, stream: boolean): Promise<Failure[]> {
  printed.length = 0;
  const failures: Failure[] = [];
  const quotas = memoryQuotaStore([{ apiKey: "sk-caller" }]);
  const { path, body } = BODIES[format];
  const at = stream ? path.replace(":generateContent", ":streamGenerateContent?alt=sse") : path;
  for (const onFailure of [(failure: Failure) => void failures.push(failure), undefined]) {
    const gateway = createGateway({ backend, quotas, ...(onFailure && { onFailure }) });
    const response = await gateway.fetch(
      new Request(`http://local${at}`, {
        method: "POST",
        headers: {
          authorization: "Bearer sk-caller",
          "compat-version": "2023-06-01",
          "content-type": "application/json",
        },
        body: JSON.stringify({ ...body, ...(stream && format !== "generate-content" && { stream }) }),
      }),
    );
    expectNoPiece(`${inspect([...response.headers])}${await response.text()}`);
  }
  expectNoPiece(inspect(failures, { depth: Number.POSITIVE_INFINITY, showHidden: true }));
  expectNoPiece(failures.map(({ text }) => text).join("\n"));
  expectNoPiece(printed.join("\n"));
  expect(printed.length).toBe(failures.length);
  return failures;
}

describe.each(Object.keys(BODIES) as RelayFormat[])("an upstream of %s that writes its key", (format) => {
  it.each(PLACES)("into %s shows it to nobody", async (where, answer) => {
    let seen = 0;
    for (const [, key] of format === "messages" && IN_ALL_SPELLINGS.has(where) ? SPELLINGS : SPELLINGS.slice(0, 1))
      for (const showUpstreamMessages of [false, true]) {
        await using upstream = await rawUpstream((socket: Socket) => socket.end(answer(key)));
        const backend = relay({
          format,
          baseUrl: upstream.url,
          apiKey: KEY,
          showUpstreamMessages,
          timeouts: { headersMs: 5_000, firstEventMs: 5_000, completeMs: 5_000 },
        });
        seen += (await expectSilence(backend, format, format !== "images" && showUpstreamMessages)).length;
        expect(upstream.requests[0]?.head).toContain(KEY);
        await backend.close();
      }
    expect(seen).toBeGreaterThan(0);
  });
});

describe("an upstream of an AI SDK provider that writes its key", () => {
  it.each(PLACES)("into %s shows it to nobody", async (_where, answer) => {
    for (const [, key] of SPELLINGS.slice(0, 1))
      for (const stream of [false, true]) {
        await using upstream = await rawUpstream((socket: Socket) => socket.end(answer(key)));
        const openai = createOpenAI({ apiKey: KEY, baseURL: upstream.url });
        const backend = aiSdk({ chat: { m: openai.chat("m") }, showUpstreamMessages: stream });
        await expectSilence(backend, "chat-completions", stream);
        expect(upstream.requests.length).toBeGreaterThan(0);
      }
  });
});

describe("a caller's key that an upstream writes back", () => {
  it("is in nothing that a host prints of a failure", async () => {
    const caller = "sk-Tj5WqN83hGfX6ZcV1bMk";
    await using upstream = await rawUpstream((socket, { body }) => socket.end(json(500, { error: { message: body } })));
    const backend = relay({ format: "chat-completions", baseUrl: upstream.url, apiKey: KEY });
    const failures: Failure[] = [];
    const gateway = createGateway({
      backend,
      quotas: memoryQuotaStore([{ apiKey: caller }]),
      onFailure: (failure) => failures.push(failure),
    });
    const response = await gateway.fetch(
      new Request("http://local/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${caller}`, "content-type": "application/json" },
        body: JSON.stringify({
          model: "m",
          messages: [{ role: "user", content: `My key is ${caller.toUpperCase()}.` }],
        }),
      }),
    );
    const shown = (await response.text()) + inspect(failures, { depth: Number.POSITIVE_INFINITY, showHidden: true });
    expect(failures).toHaveLength(1);
    expect(shown).toContain("My key is [redacted].");
    for (let at = 3; at + 8 <= caller.length; at++)
      expect(shown.toLowerCase()).not.toContain(caller.slice(at, at + 8).toLowerCase());
    await backend.close();
  });
});
