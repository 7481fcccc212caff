/** Failures of an upstream as callers of each format see them, and the charge for each. */

import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { head, rawUpstream, type RawAnswer, STREAM_HEAD, whole } from "./raw-upstream.ts";

const json = (status: number, body: object, more: Readonly<Record<string, string>> = {}): Buffer =>
  whole(status, "application/json", JSON.stringify(body), more);

const CHUNK =
  'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Once upon a time"},"finish_reason":null}]}\n\n';

const CALLERS = [
  {
    name: "messages",
    path: (_stream: boolean) => "/v1/messages",
    body: (stream: boolean) => ({ model: "m", max_tokens: 100, stream, messages: [{ role: "user", content: "Hi" }] }),
  },
  {
    name: "generate-content",
    path: (stream: boolean) => `/v1beta/models/m:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: () => ({ contents: [{ role: "user", parts: [{ text: "Hi" }] }] }),
  },
  {
    name: "chat-completions",
    path: () => "/v1/chat/completions",
    body: (stream: boolean) => ({ model: "m", stream, messages: [{ role: "user", content: "Hi" }] }),
  },
] as const;

/** Sends the same frame for ever. */
const endless: RawAnswer = async (socket) => {
  socket.write(STREAM_HEAD);
  while (!socket.destroyed) {
    socket.write(CHUNK);
    await setImmediate();
  }
};

type Caller = (typeof CALLERS)[number];

async function asked(caller: Caller, answer: RawAnswer, stream: boolean, signal?: AbortSignal) {
  await using upstream = await rawUpstream(answer);
  const backend = relay({ format: "chat-completions", baseUrl: upstream.url, apiKey: "sk-upstream-key" });
  const quotas = memoryQuotaStore([{ apiKey: "sk-caller", granted: 100_000 }]);
  const failures: string[] = [];
  const gateway = createGateway({ backend, quotas, onFailure: ({ text }) => failures.push(text) });
  const request = new Request(`http://local${caller.path(stream)}`, {
    method: "POST",
    headers: {
      authorization: "Bearer sk-caller",
      "anthropic-version": "2023-06-01",
      "content-type": "application/json",
    },
    body: JSON.stringify(caller.body(stream)),
    ...(signal && { signal }),
  });
  const response = await gateway.fetch(request);
  const text = await response.text();
  await gateway.close({ deadlineMs: 1_000 });
  const balance = await quotas.balance((await quotas.find("caller"))?.id ?? "");
  await backend.close();
  await upstream.allClosed();
  return { status: response.status, headers: response.headers, text, balance, failures };
}

describe.each(CALLERS)("to a caller of $name", (caller) => {
  it.each<[string, RawAnswer, number]>([
    ["closes the connection", (socket) => socket.destroy(), 503],
    ["has a limit", (socket) => socket.end(json(429, { error: { message: "Tier 1" } }, { "retry-after": "7" })), 429],
    ["is overloaded", (socket) => socket.end(json(529, { error: { message: "Full" } })), 529],
    ["refuses the gateway's key", (socket) => socket.end(json(401, { error: { message: "sk-upstream-key" } })), 500],
    ["forbids the gateway", (socket) => socket.end(json(403, { error: { message: "sk-upstream-key" } })), 500],
    ["shows a proxy's page", (socket) => socket.end(whole(502, "text/html", "<h1>nginx</h1>")), 503],
    ["shows a page as a success", (socket) => socket.end(whole(200, "text/html", "<h1>login</h1>")), 500],
    ["redirects", (socket) => socket.end(whole(307, "", "", { location: "http://127.0.0.1:1/" })), 500],
    ["sends garbage", (socket) => socket.end(whole(200, "application/json", "garbage")), 500],
    [
      "breaks its body off",
      (socket) => socket.end(`${head(200, { "content-type": "application/json", "content-length": 99 })}{`),
      500,
    ],
  ])("an upstream that %s is an error in their format, and costs nothing", async (name, answer, status) => {
    for (const stream of [false, true]) {
      const { status: got, text, balance, headers } = await asked(caller, answer, stream);
      // Formats without a status of their own answer that the backend is not available.
      expect({ name, stream, status: got === 503 && status === 529 ? 529 : got }).toEqual({ name, stream, status });
      expect(JSON.parse(text)).toHaveProperty("error");
      expect(text).not.toMatch(/nginx|login|Tier|upstream-key|127\.0\.0\.1/);
      expect(balance).toMatchObject({ used: 0, held: 0 });
      expect(headers.get("retry-after")).toBe(status === 429 ? "7" : null);
    }
  });

  it("an upstream that dies in mid-stream is an error frame, and what came is charged", async () => {
    const { status, text, balance, failures } = await asked(caller, (socket) => socket.end(STREAM_HEAD + CHUNK), true);
    expect(status).toBe(200);
    expect(text).toContain("Once upon a time");
    expect(text).toMatch(/"error"/);
    expect(failures.join()).toContain("broke off");
    expect(balance?.held).toBe(0);
    expect(balance?.used).toBeGreaterThan(0);
    expect(balance?.used).toBeLessThan(100);
  });

  it("an endless stream is cut, far beyond its output limit", async () => {
    const limited = {
      ...caller,
      body: (stream: boolean) => ({ ...caller.body(stream), ...LIMITS[caller.name] }),
    } as Caller;
    const { status, balance } = await asked(limited, endless, true);
    expect(status).toBe(200);
    expect(balance?.held).toBe(0);
    expect(balance?.used).toBeLessThan(2_000);
  });
});

/** Each format's way to ask for no more than a hundred tokens. */
const LIMITS = {
  messages: { max_tokens: 100 },
  "generate-content": { generationConfig: { maxOutputTokens: 100 } },
  "chat-completions": { max_completion_tokens: 100 },
};
