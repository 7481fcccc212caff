/** Citations that come behind other content than text are told as dropped, in the formats whose citations stand at a text. */

import { describe, expect, it } from "vitest";
import { type CallRecord, type ChatEvent, createGateway, memoryQuotaStore } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";

const CITED: ChatEvent = {
  type: "annotation",
  annotation: { type: "citations", citations: [{ uri: "https://a.test/", title: "A" }] },
};
const QUERIES: ChatEvent = { type: "annotation", annotation: { type: "grounding", chunks: [] } };
const TEXT: ChatEvent = { type: "text-delta", text: "Noon." };
const REASON: ChatEvent = { type: "reasoning-delta", text: "Hm" };
const SEAL: ChatEvent = { type: "reasoning-signature", signature: "c2VhbA==", maker: "elsewhere" };
const CALL: ChatEvent = { type: "tool-call", id: "c1", name: "f", input: {} };
const PICTURE: ChatEvent = { type: "media", mediaType: "image/png", data: "iVBORw0KGgo=" };
const REFUSAL: ChatEvent = { type: "refusal-delta", text: "No." };
const CODE: ChatEvent = { type: "code", language: "python", code: "1" };

const tools = [{ name: "f", input_schema: { type: "object" } }];
const ASKED = {
  messages: ["/v1/messages", { max_tokens: 50, tools, messages: [{ role: "user", content: "Hi" }] }],
  responses: ["/v1/responses", { input: "Hi", tools: [{ type: "function", name: "f", parameters: {} }] }],
  "chat-completions": ["/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }] }],
} as const;
type Name = keyof typeof ASKED;

interface Answered {
  readonly text: string;
  readonly dropped: readonly string[];
}

async function answered(name: Name, stream: boolean, backend: Parameters<typeof createGateway>[0]["backend"]) {
  const done = Promise.withResolvers<CallRecord>();
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    onCall: (record) => done.resolve(record),
  });
  const [path, body] = ASKED[name];
  const response = await gateway.fetch(
    new Request(`http://host${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: "Bearer sk-one",
        "anthropic-version": "2023-06-01",
      },
      body: JSON.stringify({ model: "m", stream, ...body }),
    }),
  );
  const text = await response.text();
  const { droppedFromAnswer } = await done.promise;
  return { text, dropped: droppedFromAnswer.map(({ field }) => field) } satisfies Answered;
}

const said = (events: readonly ChatEvent[]) => ({
  async *chat() {
    yield* events;
    yield { type: "finish", reason: "stop" } as const;
  },
});

const ROWS: readonly (readonly [string, readonly ChatEvent[], Readonly<Record<Name, boolean>>])[] = [
  ["a text", [TEXT, CITED], { messages: false, responses: false, "chat-completions": false }],
  ["nothing", [CITED, TEXT], { messages: true, responses: true, "chat-completions": false }],
  ["a call", [TEXT, CALL, CITED], { messages: true, responses: true, "chat-completions": false }],
  ["a text and a call", [TEXT, CITED, CALL, CITED], { messages: true, responses: true, "chat-completions": false }],
  ["a call and a text", [CALL, TEXT, CITED], { messages: false, responses: false, "chat-completions": false }],
  ["reasoning", [TEXT, REASON, SEAL, CITED], { messages: true, responses: true, "chat-completions": false }],
  ["a picture", [TEXT, PICTURE, CITED], { messages: false, responses: true, "chat-completions": false }],
  ["a refusal", [TEXT, REFUSAL, CITED], { messages: false, responses: true, "chat-completions": false }],
  ["code", [TEXT, CODE, CITED], { messages: false, responses: true, "chat-completions": false }],
  ["a call, without a source", [TEXT, CALL, QUERIES], { messages: false, responses: false, "chat-completions": false }],
];

describe.each(Object.keys(ASKED) as Name[])("citations for a caller of %s", (name) => {
  it.each(ROWS)("behind %s", async (_what, events, lost) => {
    for (const stream of [false, true]) {
      const { text, dropped } = await answered(name, stream, said(events));
      const cited = events.filter((event) => event === CITED).length;
      const shown = text.includes("https://a.test/");
      expect({ stream, lost: dropped.includes("answer.annotation.unplaced") }).toEqual({ stream, lost: lost[name] });
      expect({ stream, shown }).toEqual({ stream, shown: cited > 0 && (!lost[name] || cited > 1) });
    }
  });
});

it.each(["messages", "responses"] as const)(
  "a whole message has its citations before its calls, for %s",
  async (name) => {
    const annotations = [{ type: "url_citation", url_citation: { url: "https://a.test/", title: "A" } }];
    const tool_calls = [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }];
    const message = { role: "assistant", content: "Noon.", annotations, tool_calls };
    const choices = [{ index: 0, message, finish_reason: "tool_calls" }];
    const answer = { id: "c", object: "chat.completion", created: 1, model: "m", choices };
    const backend = relay({
      format: "chat-completions",
      baseUrl: "http://up.test",
      fetch: async () => Response.json(answer),
    });
    const { text, dropped } = await answered(name, false, backend);
    expect([text, dropped]).toEqual([
      expect.stringContaining("https://a.test/"),
      expect.not.arrayContaining(["answer.annotation.unplaced"]),
    ]);
  },
);
