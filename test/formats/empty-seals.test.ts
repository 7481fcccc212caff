/** Empty seals in the history of a request: raw or wrapped, as upstreams write and callers may forge them. Nobody is sent any of them. */

import { expect, it } from "vitest";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import type { ChatCodec } from "../../src/formats/format.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";
import { wrapSeal } from "../../src/formats/shared/seal.ts";
import { type ChatRequest, createGateway, type JsonObject, memoryQuotaStore } from "../../src/index.ts";

/** An empty text, and an empty wrapped text of each kind and of several makers. */
const EMPTY = [
  "",
  ...["messages", "generate-content", "chat-completions", "ai-sdk.other", ""].flatMap((maker) => [
    wrapSeal({ maker, kind: "part", value: "" }),
    wrapSeal({ maker, kind: "redacted", value: "" }),
    wrapSeal({ maker, kind: "call", callId: "a", value: "" }),
  ]),
];

const messages = (data: string): JsonObject => ({
  model: "m",
  max_tokens: 100,
  messages: [
    { role: "user", content: "When?" },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "", signature: data },
        { type: "redacted_thinking", data },
        { type: "tool_use", id: "a", name: "clock", input: {} },
        { type: "redacted_thinking", data },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "noon" }] },
  ],
});

const contents = (thoughtSignature: string): JsonObject => ({
  contents: [
    { role: "user", parts: [{ text: "When?" }] },
    {
      role: "model",
      parts: [
        { text: "", thought: true, thoughtSignature },
        { functionCall: { id: "a", name: "clock", args: {} }, thoughtSignature },
      ],
    },
    { role: "user", parts: [{ functionResponse: { id: "a", name: "clock", response: { is: "noon" } } }] },
  ],
});

const completions = (seal: string): JsonObject => ({
  model: "m",
  messages: [
    { role: "user", content: "When?" },
    {
      role: "assistant",
      reasoning_details: [
        { type: "reasoning.encrypted", data: seal },
        { type: "reasoning.text", text: "", signature: seal },
      ],
      tool_calls: [
        {
          id: "a",
          type: "function",
          function: { name: "clock", arguments: "{}" },
          extra_content: { google: { thought_signature: seal } },
        },
      ],
    },
    { role: "tool", tool_call_id: "a", content: "noon" },
  ],
});

const CODECS: readonly ChatCodec[] = [messagesCodec(), generateContentCodec(), chatCompletionsCodec()];

it.each([
  ["messages", "/v1/messages", messages],
  ["generate-content", "/v1beta/models/m:generateContent", contents],
  ["chat-completions", "/v1/chat/completions", completions],
] as const)("a caller of %s cannot send one to any upstream", async (format, path, bodyWith) => {
  const asked: ChatRequest[] = [];
  const gateway = createGateway({
    backend: {
      async *chat(request) {
        asked.push(request);
        yield "Noon.";
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });
  const headers = { authorization: "Bearer sk-test", "anthropic-version": "1", "content-type": "application/json" };
  for (const seal of EMPTY) {
    const body = JSON.stringify(bodyWith(seal));
    const response = await gateway.fetch(new Request(`http://gateway.test${path}`, { method: "POST", headers, body }));
    expect([await response.text(), response.status]).toEqual([expect.any(String), 200]);
  }
  expect(asked).toHaveLength(EMPTY.length);
  for (const request of asked) {
    expect(request.messages[1]?.parts.map(({ type }) => type)).toEqual(["tool-call"]);
    expect(request.messages[1]?.parts[0]).not.toHaveProperty("signature");
    for (const codec of CODECS) {
      // A model without rules of its own, so that nothing is added.
      const sent = JSON.stringify(codec.encodeRequest({ ...request, model: "gemini-2.5-flash" }).body);
      expect(sent).toContain("clock");
      expect(sent, `${format} to ${codec.format}`).not.toMatch(/redacted|reasoning|hinking|ignature/);
    }
  }
  await gateway.close();
});

it("an upstream's empty block is no reasoning", () => {
  const content = [
    { type: "redacted_thinking", data: "" },
    { type: "thinking", thinking: "", signature: "" },
    { type: "text", text: "Noon." },
  ];
  const body = JSON.stringify({ type: "message", id: "msg_1", role: "assistant", model: "m", content, usage: {} });
  const events = messagesCodec().answerDecoder().answer(body);
  const types = events.flatMap((event) => (event.type === "native" ? event.events.map(({ type }) => type) : []));
  expect(types).toEqual(["start", "text-delta", "finish"]);
});
