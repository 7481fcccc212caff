/** A list of chunks of generate-content that breaks off is charged by its complete chunks, as a stream of events is. */

import { describe, expect, it } from "vitest";
import { type CallRecord, createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

const chunk = (text: string, more: object = {}): string =>
  JSON.stringify({ candidates: [{ content: { role: "model", parts: [{ text }] }, index: 0 }], ...more });
const counts = (output: number): object => ({
  usageMetadata: { promptTokenCount: 40, candidatesTokenCount: output, totalTokenCount: 40 + output },
});

const FIRST = chunk('One fox, {two}] \\" foxes, ');
const SECOND = chunk("three foxes.", counts(9));
const ERROR = JSON.stringify({ error: { code: 503, message: "Overloaded.", status: "UNAVAILABLE" } });

const ASK: Readonly<Record<string, readonly [path: string, body: object]>> = {
  "generate-content": [
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    { contents: [{ role: "user", parts: [{ text: "Go." }] }] },
  ],
  messages: [
    "/v1/messages",
    { model: "m", max_tokens: 99, stream: true, messages: [{ role: "user", content: "Go." }] },
  ],
  "chat-completions": [
    "/v1/chat/completions",
    { model: "m", stream: true, messages: [{ role: "user", content: "Go." }] },
  ],
};

const ended = (text: string): ReadableStream => new Response(text).body as ReadableStream;
const cut = (text: string): ReadableStream => {
  let isSent = false;
  return new ReadableStream({
    pull(controller) {
      if (isSent) controller.error(new Error("The connection was cut."));
      else controller.enqueue(new TextEncoder().encode(text));
      isSent = true;
    },
  });
};

/** A body that goes on for ever behind a text. */
const endless = (text: string, onRead: () => void): ReadableStream => {
  let isSent = false;
  return new ReadableStream(
    {
      pull(controller) {
        if (!isSent) controller.enqueue(new TextEncoder().encode(text));
        else onRead();
        isSent = true;
      },
    },
    { highWaterMark: 0 },
  );
};

async function charged(
  by: string,
  type: string,
  answer: ReadableStream,
  { signal }: AbortController = new AbortController(),
) {
  const records: CallRecord[] = [];
  const gateway = createGateway({
    backend: relay({
      format: "generate-content",
      baseUrl: "http://up.test/v1beta",
      fetch: async () => new Response(answer, { headers: { "content-type": type } }),
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    onCall: (record) => void records.push(record),
    onFailure() {},
  });
  const [path, body] = ASK[by] ?? ["", {}];
  const headers = { "content-type": "application/json", authorization: "Bearer sk-one", "anthropic-version": "1" };
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body), signal }),
  );
  await response.text().catch(() => {});
  await gateway.close();
  const [{ errorCode, usage, units, certainty } = {} as CallRecord] = records;
  return { errorCode, usage, units, certainty };
}

const JSON_TYPE = "application/json";

describe.each(Object.keys(ASK))("for a caller of %s, a list of chunks", (by) => {
  it.each<[how: string, answer: (text: string) => ReadableStream, rest: string]>([
    ["whose connection is cut", cut, ""],
    ["whose connection is cut in a chunk", cut, `,\n${chunk("Lost.").slice(0, 40)}`],
    ["that ends in a chunk", ended, `,\n${chunk("Lost.").slice(0, 40)}`],
    ["that ends behind a comma", ended, ","],
    ["that has no end", ended, "]"],
    ["that ends with an error", ended, `,${ERROR}]`],
    ["that ends with no chunk", ended, ",7]"],
  ])("%s is charged as a stream that breaks off there", async (_how, answer, rest) => {
    const streamed = await charged(by, "text/event-stream", ended(`data: ${FIRST}\n\ndata: ${SECOND}\n\n`));
    expect(streamed).toMatchObject({ errorCode: "backend_failed", usage: { inputTokens: 40 } });
    const listed = await charged(by, JSON_TYPE, answer(`[${FIRST}\n,\n${SECOND}${rest}`));
    expect(listed).toEqual({ ...streamed, errorCode: rest.includes("503") ? "backend_unavailable" : "backend_failed" });
  });

  it("that breaks off without counts is charged by an estimate", async () => {
    const streamed = await charged(by, "text/event-stream", ended(`data: ${FIRST}\n\n`));
    const listed = await charged(by, JSON_TYPE, cut(`[${FIRST},`));
    expect(streamed).toMatchObject({ certainty: "estimated" });
    expect(listed).toEqual(streamed);
  });

  it("is charged by its chunks so far when its caller hangs up", async () => {
    const caller = new AbortController();
    const answer = endless(`[${FIRST},${SECOND},`, () => caller.abort());
    const streamed = await charged(by, "text/event-stream", ended(`data: ${FIRST}\n\ndata: ${SECOND}\n\n`));
    expect(await charged(by, JSON_TYPE, answer, caller)).toEqual({ ...streamed, errorCode: "client_closed" });
  });

  it("is free where it breaks off in its first chunk", async () => {
    expect(await charged(by, JSON_TYPE, cut(`[${FIRST.slice(0, 50)}`))).toMatchObject({ units: 0 });
  });
});
