/** Objects that cannot become a text, in fields that take any value. A caller may send them, and they are no fault of the gateway. */

import { expect, it } from "vitest";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import type { ChatCodec } from "../../src/formats/format.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";
import { responsesCodec } from "../../src/formats/responses/upstream.ts";
import { type ChatRequest, createGateway, type JsonValue, memoryQuotaStore } from "../../src/index.ts";
import { demoModel } from "../../src/testing/index.ts";

/** `String` throws for it: its own `toString` and `valueOf` are no functions. */
const OBJECT = { toString: 1, valueOf: 1 };

const user = { role: "user", content: "When?" };

const generating = (tools: object): object => ({ contents: "When?", tools: [tools] });
const completing = (call: object): object => ({
  model: "demo-chat",
  messages: [user, { role: "assistant", tool_calls: [call] }],
});

const BODIES: readonly (readonly [field: string, path: string, (value: JsonValue) => object])[] = [
  [
    "the order of a schema's properties",
    "/v1beta/models/demo-chat:generateContent",
    (value) =>
      generating({
        functionDeclarations: [
          {
            name: "clock",
            parameters: { type: "OBJECT", properties: { zone: {} }, propertyOrdering: [value, "zone"] },
          },
        ],
      }),
  ],
  ["a tool named type", "/v1beta/models/demo-chat:generateContent", (type) => generating({ type })],
  [
    "the id of a call of an unknown type",
    "/v1/chat/completions",
    (id) => completing({ id, type: "procedure", procedure: { name: "clock" } }),
  ],
  [
    "the id of a block that the official service makes",
    "/v1/messages",
    (id) => ({
      model: "demo-chat",
      max_tokens: 100,
      messages: [
        user,
        { role: "assistant", content: [{ type: "server_tool_use", id, name: "clock", input: {} }] },
        user,
      ],
    }),
  ],
];

const CODECS: readonly ChatCodec[] = [
  messagesCodec(),
  generateContentCodec(),
  chatCompletionsCodec(),
  responsesCodec(),
];

it.each(BODIES)("%s, at %s", async (_field, path, bodyWith) => {
  const asked: ChatRequest[] = [];
  const failures: unknown[] = [];
  const demo = demoModel();
  const gateway = createGateway({
    backend: {
      async *chat(request, call) {
        const { native: _native, ...neutral } = request;
        asked.push(neutral);
        if (demo.chat) yield* demo.chat(request, call);
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    onFailure: (failure) => void failures.push(failure),
  });
  const headers = { authorization: "Bearer sk-test", "anthropic-version": "1", "content-type": "application/json" };
  for (const value of [OBJECT, [OBJECT]]) {
    const body = JSON.stringify(bodyWith(value));
    const response = await gateway.fetch(new Request(`http://gateway.test${path}`, { method: "POST", headers, body }));
    // The demo refuses a call of an unknown type by its path.
    await response.text();
    expect([200, 400]).toContain(response.status);
  }
  for (const request of asked) for (const codec of CODECS) expect(() => codec.encodeRequest(request)).not.toThrow();
  expect(failures).toEqual([]);
  await gateway.close();
});
