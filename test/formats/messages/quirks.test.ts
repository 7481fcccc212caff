/** Streams of messages upstreams as compatible servers send them: each is the answer that it means, or an error, for callers of each format. */

import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import type { Gateway } from "../../../src/index.ts";
import { before as beforeAny, expectError, quirksOf, streamed } from "../quirks.ts";

const { answers, errors } = quirksOf("messages");
const before = <T>(stream: string, call: (gateway: Gateway) => Promise<T>): Promise<T> =>
  beforeAny("messages", stream, call);

const clientOf = (gateway: Gateway): Anthropic =>
  new Anthropic({
    apiKey: "sk-test",
    baseURL: "http://gateway.test",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url, init)),
  });

const QUESTION = { model: "m", max_tokens: 100, messages: [{ role: "user" as const, content: "Hi" }] };

const chat = (gateway: Gateway): Promise<string> => streamed(gateway, "/v1/chat/completions");

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
    expect.hasAssertions();
    expectError(await before(stream, chat));
  });
});
