/** A gateway behind a gateway, of which neither remembers anything: the seals of all makers pass through the first one. */

import { expect, it } from "vitest";
import type { CodecOptions } from "../../../src/formats/format.ts";
import { wrapSeal } from "../../../src/formats/shared/seal.ts";
import {
  type ChatEvent,
  type ChatRequest,
  createGateway,
  type JsonObject,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";

const REASONING = { type: "reasoning", text: "Hm.", signature: "b3RoZXI=", maker: "ai-sdk.other" };
const SIGNED = { id: "call_of_another_provider_1", signature: "Z29vZ2xl", maker: "ai-sdk.signing" };
const EVENTS: readonly ChatEvent[] = [
  { type: "reasoning-delta", text: REASONING.text },
  { type: "reasoning-signature", signature: REASONING.signature, maker: REASONING.maker },
  { type: "redacted-reasoning", data: "c2VjcmV0", maker: "ai-sdk.other" },
  { type: "tool-call", name: "clock", input: {}, ...SIGNED },
];

/** Two gateways in a row. Returns a caller of the first, and the requests that the backend of the second is asked. */
function chained(format: RelayFormat, path: string, foreignReasoning: NonNullable<CodecOptions["foreignReasoning"]>) {
  const asked: ChatRequest[] = [];
  const inner = createGateway({
    backend: {
      async *chat(request) {
        asked.push(request);
        yield* EVENTS;
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });
  const outer = createGateway({
    backend: relay({
      format,
      baseUrl: "http://inner.test",
      apiKey: "sk-test",
      foreignReasoning,
      limits: { maxRememberedChars: 0 },
      fetch: (url, init) => inner.fetch(new Request(url, init)),
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });
  const call = async (body: object): Promise<JsonObject> => {
    const headers = { authorization: "Bearer sk-test", "anthropic-version": "1", "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    const response = await outer.fetch(new Request(`http://outer.test${path}`, init));
    const answer = (await response.json()) as JsonObject;
    expect([response.status, answer]).toEqual([200, expect.any(Object)]);
    return answer;
  };
  return { asked, call };
}

type Call = (body: object) => Promise<JsonObject>;

/** Two turns of a client that returns the first answer as it was. `gpt-5` is a name of the first gateway for any model. */
const CLIENTS: readonly (readonly [RelayFormat, string, (call: Call) => Promise<unknown>])[] = [
  [
    "messages",
    "/v1/messages",
    async (call) => {
      const question = { role: "user", content: "When?" };
      const base = { model: "gpt-5", max_tokens: 9_000, thinking: { type: "enabled", budget_tokens: 2_000 } };
      const { content } = await call({ ...base, messages: [question] });
      const result = { role: "user", content: [{ type: "tool_result", tool_use_id: SIGNED.id, content: "noon" }] };
      await call({ ...base, messages: [question, { role: "assistant", content }, result] });
    },
  ],
  [
    "chat-completions",
    "/v1/chat/completions",
    async (call) => {
      const question = { role: "user", content: "When?" };
      const { choices } = await call({ model: "gpt-5", messages: [question] });
      const [{ message }] = choices as unknown as [{ message: JsonObject }];
      const result = { role: "tool", tool_call_id: SIGNED.id, content: "noon" };
      await call({ model: "gpt-5", messages: [question, message, result] });
    },
  ],
  [
    "generate-content",
    "/v1beta/models/gpt-5:generateContent",
    async (call) => {
      const question = { role: "user", parts: [{ text: "When?" }] };
      const generationConfig = { thinkingConfig: { includeThoughts: true } };
      const { candidates } = await call({ contents: [question], generationConfig });
      const [{ content }] = candidates as unknown as [{ content: JsonObject }];
      const functionResponse = { id: SIGNED.id, name: "clock", response: { is: "noon" } };
      await call({ contents: [question, content, { role: "user", parts: [{ functionResponse }] }], generationConfig });
    },
  ],
  [
    "responses",
    "/v1/responses",
    async (call) => {
      const question = { role: "user", content: "When?" };
      const { output } = await call({ model: "gpt-5", input: [question] });
      const result = { type: "function_call_output", call_id: SIGNED.id, output: "noon" };
      await call({ model: "gpt-5", input: [question, ...(output as JsonObject[]), result] });
    },
  ],
];

it.each(CLIENTS)("%s: every maker gets its own back through both gateways", async (format, path, run) => {
  const { asked, call } = chained(format, path, "pass");
  await run(call);
  expect(asked).toHaveLength(2);
  expect(asked[1]?.messages[1]?.parts).toEqual([
    REASONING,
    { type: "redacted-reasoning", data: "c2VjcmV0", maker: "ai-sdk.other" },
    { type: "tool-call", name: "clock", input: {}, ...SIGNED },
  ]);
  expect(asked[1]?.reasoning).toEqual(asked[0]?.reasoning);
});

it.each(CLIENTS)("%s: an upstream that is no gateway gets none of them", async (format, path, run) => {
  const { asked, call } = chained(format, path, "drop");
  await run(call);
  const [, turn] = asked[1]?.messages ?? [];
  expect(turn?.parts).toMatchObject([{ type: "tool-call", id: SIGNED.id }]);
  expect(JSON.stringify(turn)).not.toMatch(/b3RoZXI|c2VjcmV0|Z29vZ2xl/);
});

it("a messages caller keeps the mark of a turn without reasoning", async () => {
  const { asked, call } = chained("messages", "/v1/messages", "pass");
  const mark = {
    type: "redacted_thinking",
    data: wrapSeal({ maker: "generate-content", kind: "redacted", value: "" }),
  };
  const content = [mark, { type: "tool_use", id: "a", name: "clock", input: {} }];
  const messages = [
    { role: "user", content: "When?" },
    { role: "assistant", content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "noon" }] },
  ];
  const thinking = { type: "enabled", budget_tokens: 2_000 };
  await call({ model: "m", max_tokens: 9_000, thinking, messages });
  expect(asked[0]?.native?.body["messages"]).toEqual(messages);
  expect(asked[0]?.reasoning).toEqual({ type: "enabled", budgetTokens: 2_000 });
});
