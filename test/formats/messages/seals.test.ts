/** Seals in messages: signatures of other makers go to the client and come back, and no upstream gets another one's. */

import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import { messagesCodec } from "../../../src/formats/messages/upstream.ts";
import { wrapSeal } from "../../../src/formats/shared/seal.ts";
import {
  type ChatEvent,
  type ChatMessage,
  type ChatRequest,
  createGateway,
  type JsonObject,
  memoryQuotaStore,
  type NativeRequest,
} from "../../../src/index.ts";

const GEMINI = "generate-content";

/** An official client of a gateway whose backend yields these events, and the requests that the backend was asked. */
function stage(events: readonly ChatEvent[]): { client: Anthropic; asked: ChatRequest[] } {
  const asked: ChatRequest[] = [];
  const gateway = createGateway({
    backend: {
      async *chat(request) {
        asked.push(request);
        yield* events;
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });
  const client = new Anthropic({
    apiKey: "sk-test",
    baseURL: "http://gateway.test",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url, init)),
  });
  return { client, asked };
}

const tools = ["clock", "weather"].map((name) => ({ name, input_schema: { type: "object" as const } }));
const call = (id: string, name: string, more: object = {}): ChatEvent => ({
  type: "tool-call",
  id,
  name,
  input: {},
  ...more,
});

const ANSWERS: readonly (readonly [name: string, events: readonly ChatEvent[], parts: readonly object[]])[] = [
  [
    "parallel calls, of which the first is signed",
    [
      { type: "text-delta", text: "Let me see." },
      call("a", "clock", { signature: "c2lnLWE=", maker: GEMINI }),
      call("b", "weather"),
    ],
    [
      { type: "text", text: "Let me see." },
      { type: "tool-call", id: "a", signature: "c2lnLWE=", maker: GEMINI },
      { type: "tool-call", id: "b" },
    ],
  ],
  [
    "a call in pieces that is signed at its start",
    [
      { type: "tool-call-start", id: "a", name: "clock", signature: "c2lnLWE=", maker: GEMINI },
      { type: "tool-call-delta", id: "a", json: "{}" },
      { type: "tool-call-end", id: "a" },
    ],
    [{ type: "tool-call", id: "a", signature: "c2lnLWE=", maker: GEMINI }],
  ],
  [
    "a call in pieces that is signed at its end",
    [
      { type: "tool-call-start", id: "a", name: "clock" },
      { type: "tool-call-delta", id: "a", json: "{}" },
      { type: "tool-call-end", id: "a", signature: "c2lnLWE=", maker: GEMINI },
    ],
    [{ type: "tool-call", id: "a", signature: "c2lnLWE=", maker: GEMINI }],
  ],
  [
    "a call that a backend of the host's own has signed",
    [call("a", "clock", { signature: "mine", maker: "own" })],
    [{ type: "tool-call", id: "a", signature: "mine", maker: "own" }],
  ],
  [
    "a call whose signature has no maker",
    [call("a", "clock", { signature: "mine" })],
    [{ type: "tool-call", id: "a" }],
  ],
  [
    "reasoning of another maker",
    [
      { type: "reasoning-delta", text: "Hm." },
      { type: "reasoning-signature", signature: "c2ln", maker: GEMINI },
      call("a", "clock"),
    ],
    [
      { type: "reasoning", text: "Hm.", signature: "c2ln", maker: GEMINI },
      { type: "tool-call", id: "a" },
    ],
  ],
  [
    "encrypted reasoning of another maker",
    [{ type: "redacted-reasoning", data: "Y2lwaGVy", maker: "ai-sdk.openai" }, call("a", "clock")],
    [
      { type: "redacted-reasoning", data: "Y2lwaGVy", maker: "ai-sdk.openai" },
      { type: "tool-call", id: "a" },
    ],
  ],
  [
    "a signed text",
    [
      { type: "text-delta", text: "Wait", signature: "c2ln", maker: GEMINI },
      { type: "text-delta", text: "." },
      call("a", "clock"),
    ],
    [
      { type: "text", text: "Wait", signature: "c2ln", maker: GEMINI },
      { type: "text", text: "." },
      { type: "tool-call", id: "a" },
    ],
  ],
];

/** The neutral parts without absent fields. */
const partsOf = (request: ChatRequest | undefined): unknown =>
  request?.messages.at(1)?.parts.map((part) => {
    const { type, ...fields } = part as unknown as Record<string, unknown>;
    const { input: _, name: __, ...others } = fields;
    return { type, ...others };
  });

describe.each(ANSWERS)("%s", (_name, events, parts) => {
  const question = { model: "m", max_tokens: 100, tools, messages: [{ role: "user" as const, content: "When?" }] };

  it.each(["streamed", "complete"])("comes back from a client that returns the turn as it was (%s)", async (form) => {
    const { client, asked } = stage(events);
    const first =
      form === "streamed"
        ? await client.messages.stream(question).finalMessage()
        : await client.messages.create(question);
    const results = first.content.flatMap((block) =>
      block.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "noon" }] : [],
    );
    const messages = [
      ...question.messages,
      { role: "assistant" as const, content: first.content as Anthropic.ContentBlockParam[] },
      { role: "user" as const, content: results },
    ];
    await client.messages.create({ ...question, messages });
    expect(partsOf(asked[1])).toEqual(parts);
  });
});

it("keeps the signature of a text, and tells of the signature of code, which no block carries", async () => {
  const records: (readonly string[])[] = [];
  const events: readonly ChatEvent[] = [
    { type: "text-delta", text: "Wait.", signature: "c2ln", maker: GEMINI },
    { type: "code", language: "python", code: "1", signature: "b3RoZXI=", maker: GEMINI },
  ];
  for (const shown of [events.slice(0, 1), events]) {
    const gateway = createGateway({
      backend: {
        async *chat() {
          yield* shown;
        },
      },
      quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
      onCall: ({ droppedFromAnswer }) => void records.push(droppedFromAnswer.map(({ field }) => field)),
    });
    const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
    const headers = { "x-api-key": "sk-test", "anthropic-version": "2023-06-01", "content-type": "application/json" };
    const response = await gateway.fetch(
      new Request("http://gateway.test/v1/messages", { method: "POST", headers, body }),
    );
    await response.text();
    await gateway.close();
  }
  expect(records).toEqual([[], ["answer.signature", "answer.code"]]);
});

const MARK = { type: "redacted_thinking", data: wrapSeal({ maker: GEMINI, kind: "redacted", value: "" }) };

describe("the first call of another provider's turn without reasoning", () => {
  const question = { model: "m", max_tokens: 9_000, tools, messages: [{ role: "user" as const, content: "When?" }] };
  const thinking = { type: "enabled", budget_tokens: 2_000 } as const;
  /** Returns the blocks of the answer, and the ids of its calls. */
  const blocksOf = async (first: ChatEvent, more: object = { thinking }) => {
    type Known = Extract<ChatEvent, { type: "native" }>["events"][number];
    const finish = { type: "finish", reason: "tool-calls", usage: {} } as const;
    const events = [{ type: "start", id: "x" }, first, call("b", "weather"), finish] as Known[];
    const { client } = stage([{ type: "native", format: GEMINI, frames: [], events }]);
    const { content } = await client.messages.create({ ...question, ...more });
    return content.map((block) => (block.type === "tool_use" ? block.id : block));
  };

  it.each([
    ["without a signature", {}],
    ["with an empty signature", { signature: "", maker: GEMINI }],
    ["with a signature of an unknown maker", { signature: "c2ln" }],
  ])("has a mark before it: %s", async (_name, signed) => {
    expect(await blocksOf(call("a", "clock", signed))).toEqual([MARK, "a", "b"]);
    expect(await blocksOf(call("a", "clock", signed), {})).toEqual(["a", "b"]);
  });

  it("has only its signature where it has one", async () => {
    const data = wrapSeal({ maker: GEMINI, kind: "call", callId: "a", value: "c2ln" });
    const signed = call("a", "clock", { signature: "c2ln", maker: GEMINI });
    expect(await blocksOf(signed)).toEqual([{ type: "redacted_thinking", data }, "a", "b"]);
  });
});

const wrapped = (value: string, maker: string, kind: "part" | "redacted" | "call" = "part", callId?: string): string =>
  wrapSeal({ value, maker, kind, ...(callId !== undefined && { callId }) });

const asked = (
  body: JsonObject,
  options: Parameters<typeof messagesCodec>[0] = {},
  maxOutputTokens = 9_000,
  remembered?: NativeRequest["remembered"],
  betas: readonly string[] = [],
) => {
  const native: NativeRequest = { format: "messages", body, betas, ...(remembered && { remembered }) };
  const request = { model: "m", messages: [], system: [], tools: [], stopSequences: [], stream: false } as const;
  const { body: sent, conversions } = messagesCodec(options).encodeRequest({ ...request, maxOutputTokens, native });
  return { sent, told: Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion])) };
};
const result = (id: string): JsonObject => ({ type: "tool_result", tool_use_id: id, content: "noon" });
const having = (assistant: JsonObject[], more: JsonObject = {}): JsonObject => ({
  model: "m",
  max_tokens: 9_000,
  messages: [
    { role: "user", content: "When?" },
    { role: "assistant", content: assistant },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: " " }] },
  ],
  ...more,
});

describe("a native request for a messages upstream", () => {
  const use: JsonObject = { type: "tool_use", id: "a", name: "clock", input: {}, x_own: 1 };
  const thinking: JsonObject = { type: "enabled", budget_tokens: 4_000 };
  const own: JsonObject = { type: "thinking", thinking: "", signature: "EqQBCgIYAhIM", x_own: 1 };

  it("stays as it came where every seal is the upstream's own", () => {
    const body = having([own, { type: "redacted_thinking", data: "EmwKAhgB" }, { type: "text", text: " " }, use], {
      thinking,
    });
    expect(asked(body)).toEqual({ sent: body, told: {} });
    expect(asked(body).sent["messages"]).toBe(body["messages"]);
  });

  it("loses the seals of other makers, and unwraps its own", () => {
    const unwrapped = { type: "thinking", thinking: "Own.", signature: "b3du" };
    const { sent, told } = asked(
      having(
        [
          { type: "thinking", thinking: "Own.", signature: wrapped("b3du", "messages") },
          { type: "thinking", thinking: "Not.", signature: wrapped("bm90", GEMINI) },
          { type: "redacted_thinking", data: wrapped("Y2lwaGVy", "ai-sdk.openai", "redacted") },
          { type: "redacted_thinking", data: wrapped("c2ln", GEMINI, "call", "a") },
          use,
        ],
        { thinking },
      ),
    );
    expect(sent).toEqual(having([unwrapped, use], { thinking }));
    expect(told).toEqual({ "messages.reasoning.foreign": "dropped", "messages.signature.foreign": "dropped" });
  });

  it("is sent the reasoning of others as text where the host says so", () => {
    const foreign: JsonObject = { type: "thinking", thinking: "Not.", signature: wrapped("bm90", GEMINI) };
    const { sent, told } = asked(having([foreign, use]), { foreignReasoning: "text" });
    expect(sent).toEqual(having([{ type: "text", text: "Not." }, use]));
    expect(told).toEqual({ "messages.reasoning": "approximated" });
  });

  it.each([
    ["unsigned", { type: "thinking", thinking: "Hm.", signature: "" }, "messages.reasoning.unsealed"],
    ["foreign", { type: "thinking", thinking: "", signature: wrapped("bm90", GEMINI) }, "messages.reasoning.foreign"],
  ] as const)("gives thinking up where a tool loop loses its only thinking, which is %s", (_name, block, field) => {
    const context_management = {
      edits: [{ type: "clear_thinking_20251015" }, { type: "clear_tool_uses_20250919" }],
      x: 1,
    };
    const { sent, told } = asked(having([block, use], { thinking, context_management }));
    const edits = { edits: [{ type: "clear_tool_uses_20250919" }], x: 1 };
    expect(sent).toEqual(having([use], { thinking: { type: "disabled" }, context_management: edits }));
    expect(told).toEqual({ [field]: "dropped", reasoning: "dropped" });
  });

  it("keeps thinking where the thinking that a tool loop has lost is put back", () => {
    const block = { type: "thinking", thinking: "Hm.", signature: "" };
    const reasoning = [{ type: "reasoning", text: "Hm.", signature: "b3du", maker: "messages" }] as const;
    const { sent, told } = asked(having([block, use], { thinking }), {}, 9_000, new Map([["a", { reasoning }]]));
    expect(sent).toEqual(having([{ ...block, signature: "b3du" }, use], { thinking }));
    expect(told).toEqual({ "messages.reasoning.unsealed": "dropped" });
  });

  it("keeps thinking where another provider wrote only turns before the last words of the user", () => {
    const later = [
      { role: "assistant", content: [{ ...use, id: "b" }] },
      { role: "user", content: [result("b"), { type: "text", text: "Be brief." }] },
    ];
    const history = (first: JsonObject[]): JsonObject =>
      having(first, {
        thinking,
        messages: [
          { role: "user", content: "When?" },
          { role: "assistant", content: first },
          { role: "user", content: [result("a")] },
          { role: "assistant", content: "Noon." },
          { role: "user", content: "And now?" },
          ...later,
        ],
      });
    expect(asked(history([MARK, use]))).toEqual({ sent: history([use]), told: {} });
    // The same mark in the loop at the end.
    const open = having([MARK, use], { thinking });
    open["messages"] = [...(open["messages"] as JsonObject[]), ...later];
    expect(asked(open)).toMatchObject({ sent: { thinking: { type: "disabled" } }, told: { reasoning: "dropped" } });
  });

  it("keeps adaptive thinking, which lets a tool loop begin without", () => {
    const adaptive = { thinking: { type: "adaptive" } };
    const { sent } = asked(having([{ type: "thinking", thinking: "Hm.", signature: "" }, use], adaptive));
    expect(sent).toEqual(having([use], adaptive));
  });

  it.each<[name: string, assistant: JsonObject[]]>([
    ["of which nothing is left", [{ type: "redacted_thinking", data: wrapped("c2ln", GEMINI, "call", "b") }]],
    ["that is empty, which the official service refuses", []],
  ])("leaves out a message %s", (_, assistant) => {
    expect(asked(having(assistant)).sent["messages"]).toEqual([
      { role: "user", content: "When?" },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: " " }] },
    ]);
  });

  it("has a budget that a lowered limit has room for, or no thinking", () => {
    const body = having([own, use], { thinking });
    expect(asked(body, {}, 4_000)).toEqual({
      sent: { ...body, max_tokens: 4_000, thinking: { type: "enabled", budget_tokens: 3_200 } },
      told: { "reasoning.budgetTokens": "approximated" },
    });
    expect(asked(body, {}, 1_200)).toEqual({
      sent: { ...body, max_tokens: 1_200, thinking: { type: "disabled" } },
      told: { reasoning: "dropped" },
    });
  });
});

it("has a budget above the limit only where its upstream hears of interleaved thinking", () => {
  const body = having([{ type: "text", text: "Noon." }], { thinking: { type: "enabled", budget_tokens: 16_000 } });
  const betas = ["interleaved-thinking-2025-05-14"];
  expect(asked(body, {}, 9_000, undefined, betas)).toEqual({ sent: body, told: {} });
  expect(asked(body, {}, 4_000, undefined, betas).sent).toEqual({ ...body, max_tokens: 4_000 });
  expect(asked(body)).toEqual({
    sent: { ...body, thinking: { type: "enabled", budget_tokens: 7_200 } },
    told: { "reasoning.budgetTokens": "approximated" },
  });
});

const user = (text: string): ChatMessage => ({ role: "user", parts: [{ type: "text", text }] });

const encoded = (turn: ChatMessage["parts"], options: Parameters<typeof messagesCodec>[0] = {}) => {
  const messages = [user("When?"), { role: "assistant" as const, parts: turn }, user("Well?")];
  const request = {
    model: "m",
    system: [],
    tools: [],
    stopSequences: [],
    stream: false,
    maxOutputTokens: 100,
  } as const;
  const { body, conversions } = messagesCodec(options).encodeRequest({ ...request, messages });
  const told = Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion]));
  return { content: (body["messages"] as { content: unknown }[])[1]?.content, told };
};

describe("a request of another format for a messages upstream", () => {
  const HISTORY: ChatMessage["parts"] = [
    { type: "reasoning", text: "Own.", signature: "b3du", maker: "messages" },
    { type: "reasoning", text: "Not.", signature: "bm90", maker: GEMINI },
    { type: "reasoning", text: "Unsigned.", maker: "chat-completions" },
    { type: "redacted-reasoning", data: "Y2lwaGVy", maker: "ai-sdk.openai" },
    { type: "text", text: "Noon.", signature: "c2ln", maker: GEMINI },
  ];
  const ownBlock = { type: "thinking", thinking: "Own.", signature: "b3du" };
  const noon = { type: "text", text: "Noon." };

  it("has its upstream's own seals alone", () => {
    expect(encoded(HISTORY)).toEqual({
      content: [ownBlock, noon],
      told: { "messages.reasoning.foreign": "dropped", "messages.signature.foreign": "dropped" },
    });
  });

  it("has the reasoning of others as text where the host says so", () => {
    expect(encoded(HISTORY, { foreignReasoning: "text" })).toEqual({
      content: [ownBlock, { type: "text", text: "Not." }, { type: "text", text: "Unsigned." }, noon],
      told: {
        "messages.reasoning": "approximated",
        "messages.reasoning.foreign": "dropped",
        "messages.signature.foreign": "dropped",
      },
    });
  });
});
