/** Streams of messages upstreams as compatible servers send them: each is the answer that it means, or an error, for callers of each format. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { rawUpstream, STREAM_HEAD } from "../../upstreams/relay/raw-upstream.ts";

const FOLDER = join(import.meta.dirname, "../../recordings/upstream/messages/quirks");

const quirks = readdirSync(FOLDER).map((file): [name: string, text: string] => [
  file.slice(0, -".txt".length),
  readFileSync(join(FOLDER, file), "utf8"),
]);
const answers = quirks.filter(([name]) => !name.startsWith("error"));
const errors = quirks.filter(([name]) => name.startsWith("error"));

/** Calls a gateway before an upstream that sends this stream. */
async function before<T>(stream: string, call: (gateway: Gateway) => Promise<T>): Promise<T> {
  await using upstream = await rawUpstream((socket) => socket.end(STREAM_HEAD + stream));
  const backend = relay({ format: "messages", baseUrl: upstream.url, apiKey: "sk-upstream" });
  const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
  return await call(createGateway({ backend, quotas, onFailure: () => {} }));
}

const clientOf = (gateway: Gateway): Anthropic =>
  new Anthropic({
    apiKey: "sk-test",
    baseURL: "http://gateway.test",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url, init)),
  });

const QUESTION = { model: "m", max_tokens: 100, messages: [{ role: "user" as const, content: "Hi" }] };

const chat = async (gateway: Gateway): Promise<string> => {
  const response = await gateway.fetch(
    new Request("http://gateway.test/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer sk-test", "content-type": "application/json" },
      body: JSON.stringify({ ...QUESTION, stream: true }),
    }),
  );
  return response.text();
};

describe.each(answers)("an upstream's stream: %s", (_name, stream) => {
  it("is the answer for the official client, with all its counts", async () => {
    const message = await before(stream, (gateway) => clientOf(gateway).messages.stream(QUESTION).finalMessage());
    expect(message).toMatchObject({
      content: [{ type: "text", text: "Hello." }],
      stop_reason: "end_turn",
      usage: {
        input_tokens: expect.any(Number),
        output_tokens: expect.any(Number),
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
      },
    });
  });

  it("has its frames once and in order, with the counts where the spec has them", async () => {
    const text = await before(stream, async (gateway) => {
      const response = await clientOf(gateway)
        .messages.create({ ...QUESTION, stream: true })
        .asResponse();
      return response.text();
    });
    expect([...text.matchAll(/^event: (.*)$/gm)].map(([, type]) => type)).toEqual([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    const delta = /^data: (.*"message_delta".*)$/m.exec(text)?.[1] ?? "";
    expect(JSON.parse(delta)).toMatchObject({
      delta: {
        stop_reason: "end_turn",
        usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
      },
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number), cache_read_input_tokens: 0 },
    });
  });

  it("is the answer in another format", async () => {
    const text = await before(stream, chat);
    expect(text).toContain('"content":"Hello."');
    expect(text).toContain('"finish_reason":"stop"');
    expect(text).toContain("data: [DONE]");
    expect(text).not.toContain('"error"');
  });
});

describe.each(errors)("an upstream's stream: %s", (_name, stream) => {
  it("is an error for the official client, and no answer", async () => {
    const asking = before(stream, (gateway) => clientOf(gateway).messages.stream(QUESTION).finalMessage());
    await expect(asking).rejects.toThrow(Anthropic.APIError);
  });

  it("is an error in another format, and no answer", async () => {
    const text = await before(stream, chat);
    expect(text).toContain('"error"');
    expect(text).not.toContain("cannot be reached");
    expect(text).not.toMatch(/"finish_reason":"|\[DONE\]/);
  });
});
