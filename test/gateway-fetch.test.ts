/** `gateway.fetch` as the `fetch` of an SDK, and as the function that a server calls. */

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../src/index.ts";
import { scriptedBackend } from "../src/testing/index.ts";

const apiKey = "sk-one";
const gateway = createGateway({
  backend: scriptedBackend("Hello.", { models: ["demo"] }),
  quotas: memoryQuotaStore([{ apiKey, granted: 10_000 }]),
});
const messages = [{ role: "user" as const, content: "Hello" }];

it("answers the SDK of OpenAI, also in a stream", async () => {
  const client = new OpenAI({ apiKey, fetch: gateway.fetch });
  const { choices } = await client.chat.completions.create({ model: "demo", messages });
  expect(choices[0]?.message.content).toBe("Hello.");
  let text = "";
  for await (const chunk of await client.chat.completions.create({ model: "demo", messages, stream: true }))
    text += chunk.choices[0]?.delta.content ?? "";
  expect(text).toBe("Hello.");
});

it("answers the SDK of Anthropic under a prefix", async () => {
  const client = new Anthropic({ apiKey, baseURL: "http://host/ai", fetch: gateway.at("/ai").fetch });
  expect((await client.messages.create({ model: "demo", max_tokens: 9, messages })).content).toMatchObject([
    { text: "Hello." },
  ]);
});

it("takes an address with init, and ignores what a server passes beside a request", async () => {
  const headers = { authorization: `Bearer ${apiKey}` };
  expect((await gateway.fetch(new URL("http://host/v1/models"), { headers })).status).toBe(200);
  expect((await gateway.fetch("http://host/v1/models", { headers, method: "DELETE" })).status).toBe(405);
  const request = new Request("http://host/v1/models", { headers });
  expect((await gateway.fetch(request, { method: "DELETE", SECRET: "x" })).status).toBe(200);
  await expect(gateway.fetch("/v1/models")).rejects.toThrow(TypeError);
});

it("rejects like fetch once its signal is aborted, so that an SDK tells a timeout", async () => {
  const asked = Promise.withResolvers<void>();
  let calls = 0;
  const silent = createGateway({
    backend: {
      async *chat() {
        calls++;
        asked.resolve();
        await new Promise<never>(() => {});
        yield "";
      },
    },
    quotas: memoryQuotaStore([{ apiKey, granted: 10_000 }]),
  });
  const body = { model: "any", messages };
  const client = new OpenAI({ apiKey, fetch: silent.fetch, maxRetries: 0 });
  const aborted = new AbortController();
  const answer = client.chat.completions.create(body, { signal: aborted.signal });
  await asked.promise;
  aborted.abort();
  await expect(answer).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
  await expect(client.chat.completions.create(body, { timeout: 1 })).rejects.toBeInstanceOf(
    OpenAI.APIConnectionTimeoutError,
  );
  const init = { method: "POST", body: JSON.stringify(body), signal: AbortSignal.abort(new Error("too late")) };
  const before = calls;
  await expect(silent.fetch("http://host/v1/chat/completions", init)).rejects.toThrow("too late");
  expect(calls).toBe(before);
});

it("fails the body of an answer whose signal is aborted later, so that an SDK ends its stream in silence", async () => {
  const ended = Promise.withResolvers<string>();
  const endless = createGateway({
    backend: {
      async *chat() {
        for (;;) yield "word ";
      },
    },
    quotas: memoryQuotaStore([{ apiKey, granted: 10_000 }]),
    onCall: ({ outcome }) => ended.resolve(outcome),
  });
  const client = new OpenAI({ apiKey, fetch: endless.fetch });
  const stream = await client.chat.completions.create({ model: "any", messages, stream: true });
  let chunks = 0;
  for await (const { object } of stream) {
    expect(object).toBe("chat.completion.chunk");
    if (++chunks === 3) stream.controller.abort();
  }
  expect(chunks).toBe(3);
  expect(await ended.promise).toBe("client-closed");
  const headers = { authorization: `Bearer ${apiKey}` };
  const { signal } = new AbortController();
  const list = await endless.fetch("http://host/v1/models", { headers, signal });
  expect([list.status, list.headers.get("content-type")]).toEqual([200, "application/json"]);
  expect(await list.json()).toEqual({ object: "list", data: [] });
  expect((await endless.fetch("http://host/v1/models", { headers, method: "HEAD", signal })).body).toBeNull();
});
