/** Streams of Responses upstreams as compatible servers send them: each is the answer that it means, or an error, for callers of each format. */

import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import type { Gateway } from "../../../src/index.ts";
import { before as beforeAny, expectError, quirksOf, streamed } from "../quirks.ts";

const { answers, errors } = quirksOf("responses");
const before = <T>(stream: string, call: (gateway: Gateway) => Promise<T>): Promise<T> =>
  beforeAny("responses", stream, call);

const clientOf = (gateway: Gateway): OpenAI =>
  new OpenAI({
    apiKey: "sk-test",
    baseURL: "http://gateway.test/v1",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url instanceof Request ? url.url : url, init)),
  });

const chat = (gateway: Gateway): Promise<string> => streamed(gateway, "/v1/chat/completions");
const claude = (gateway: Gateway): Promise<string> => streamed(gateway, "/v1/messages");

describe.each(answers)("an upstream's stream: %s", (_name, stream) => {
  it("is the answer for the official client", async () => {
    const events: string[] = [];
    const final = await before(stream, async (gateway) => {
      let completed: OpenAI.Responses.Response | undefined;
      for await (const event of await clientOf(gateway).responses.create({ model: "m", input: "Hi", stream: true })) {
        events.push(event.type);
        if (event.type === "response.completed") completed = event.response;
      }
      return completed;
    });
    expect(final?.output.at(-1)).toMatchObject({ type: "message", content: [{ type: "output_text", text: "Hello." }] });
    expect(events.filter((type) => type === "response.completed" || type === "response.done")).toHaveLength(1);
  });

  it("is the answer in another format, once", async () => {
    const text = await before(stream, chat);
    expect(text.match(/(?<="content":")[^"]+/g)?.join("")).toBe("Hello.");
    expect(text).toContain('"finish_reason":"stop"');
    expect(text).toContain("data: [DONE]");
    expect(text).not.toContain('"error"');
    const said = await before(stream, claude);
    expect(said.match(/(?<="type":"text_delta","text":")[^"]+/g)?.join("")).toBe("Hello.");
    expect(said).toContain("event: message_stop");
  });
});

describe.each(errors)("an upstream's stream: %s", (_name, stream) => {
  it("is an error for the official client, and no answer", async () => {
    const asking = before(stream, (gateway) =>
      clientOf(gateway).responses.stream({ model: "m", input: "Hi" }).finalResponse(),
    );
    await expect(asking).rejects.toThrow(/./);
  });

  it("is an error in another format, and no answer", async () => {
    expect.hasAssertions();
    expectError(await before(stream, chat));
  });
});
