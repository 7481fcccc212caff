/** Streams of Responses upstreams as compatible servers send them: each is the answer that it means, or an error, for callers of each format. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { rawUpstream, STREAM_HEAD } from "../../upstreams/relay/raw-upstream.ts";

const FOLDER = join(import.meta.dirname, "../../recordings/upstream/responses/quirks");

const quirks = readdirSync(FOLDER).map((file): [name: string, text: string] => [
  file.slice(0, -".txt".length),
  readFileSync(join(FOLDER, file), "utf8"),
]);
const answers = quirks.filter(([name]) => !name.startsWith("error"));
const errors = quirks.filter(([name]) => name.startsWith("error"));

/** Calls a gateway before an upstream that sends this stream. */
async function before<T>(stream: string, call: (gateway: Gateway) => Promise<T>): Promise<T> {
  await using upstream = await rawUpstream((socket) => socket.end(STREAM_HEAD + stream));
  const backend = relay({ format: "responses", baseUrl: upstream.url, apiKey: "sk-upstream" });
  const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
  return await call(createGateway({ backend, quotas, onFailure: () => {} }));
}

const clientOf = (gateway: Gateway): OpenAI =>
  new OpenAI({
    apiKey: "sk-test",
    baseURL: "http://gateway.test/v1",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url instanceof Request ? url.url : url, init)),
  });

const post = async (gateway: Gateway, path: string, body: object): Promise<string> => {
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: { authorization: "Bearer sk-test", "content-type": "application/json", "anthropic-version": "1" },
      body: JSON.stringify({ model: "m", stream: true, ...body }),
    }),
  );
  return response.text();
};

const messages = [{ role: "user", content: "Hi" }];
const chat = (gateway: Gateway): Promise<string> => post(gateway, "/v1/chat/completions", { messages });
const claude = (gateway: Gateway): Promise<string> => post(gateway, "/v1/messages", { max_tokens: 100, messages });

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
    const text = await before(stream, chat);
    expect(text).toContain('"error"');
    expect(text).not.toContain("cannot be reached");
    expect(text).not.toMatch(/"finish_reason":"|\[DONE\]/);
  });
});
