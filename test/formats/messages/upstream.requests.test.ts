/** Requests of other formats for a messages upstream: thinking and sampling as the model accepts them, and what the official service refuses. */

import { describe, expect, it } from "vitest";
import type { CodecOptions } from "../../../src/formats/format.ts";
import { messagesCodec } from "../../../src/formats/messages/upstream.ts";
import {
  type ChatMessage,
  type ChatRequest,
  createGateway,
  type JsonObject,
  memoryQuotaStore,
  type Part,
  type Reasoning,
} from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { rawUpstream, whole } from "../../upstreams/relay/raw-upstream.ts";

const says = (role: ChatMessage["role"], ...parts: (Part | string)[]): ChatMessage => ({
  role,
  parts: parts.map((part) => (typeof part === "string" ? { type: "text", text: part } : part)),
});

const QUESTION = says("user", "When?");

const base64 = (mediaType: string) => ({ type: "base64", mediaType, data: "AAAA" }) as const;

function encoded(changes: Partial<ChatRequest>, options: CodecOptions = {}) {
  const { body, conversions } = messagesCodec(options).encodeRequest({
    model: "claude-sonnet-4-5",
    messages: [QUESTION],
    system: [],
    tools: [{ type: "function", name: "clock", inputSchema: {} }],
    stopSequences: [],
    maxOutputTokens: 16_000,
    stream: false,
    ...changes,
  });
  const { model: _, messages, max_tokens: __, tools, ...sent } = body;
  const told = Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion]));
  return { messages: messages as { role: string; content: JsonObject[] }[], tools, sent, told };
}

const budget = (budgetTokens: number): Reasoning => ({ type: "enabled", budgetTokens });
const effort = (word: NonNullable<Extract<Reasoning, { type: "adaptive" }>["effort"]>): Reasoning => ({
  type: "adaptive",
  effort: word,
});
const enabled = (budget_tokens: number): JsonObject => ({ thinking: { type: "enabled", budget_tokens } });
const adaptive = (word: string, display?: string): JsonObject => ({
  thinking: { type: "adaptive", ...(display !== undefined && { display }) },
  output_config: { effort: word },
});
const OFF: JsonObject = { thinking: { type: "disabled" } };
const SUMMARY = "summarized";

type Told = Readonly<Record<string, string>>;
const NONE: Told = { reasoning: "dropped" };
const AS_BUDGET: Told = { "reasoning.adaptive": "approximated", "reasoning.effort": "approximated" };
const AS_EFFORT: Told = { "reasoning.budgetTokens": "approximated" };

describe("the reasoning of a model, by its name", () => {
  it.each<[model: string, asked: Reasoning, sent: JsonObject, told: Told]>([
    ["claude-3-5-sonnet-20241022", budget(4_000), {}, NONE],
    ["anthropic/claude-3.5-haiku", effort("low"), {}, NONE],
    ["claude-3-opus-20240229", { type: "disabled" }, {}, {}],
    ["claude-2.1", budget(4_000), {}, NONE],
    ["claude-instant-1.2", budget(4_000), {}, NONE],
    ["claude-3-7-sonnet-latest", budget(4_000), enabled(4_000), {}],
    ["claude-sonnet-4-20250514", budget(4_000), enabled(4_000), {}],
    ["us.anthropic.claude-opus-4-1-20250805-v1:0", effort("low"), enabled(2_048), AS_BUDGET],
    ["claude-haiku-4-5@20251001", effort("medium"), enabled(8_192), AS_BUDGET],
    ["claude-sonnet-4-5", { type: "adaptive" }, enabled(8_192), { "reasoning.adaptive": "approximated" }],
    ["claude-sonnet-4-5", { type: "disabled" }, OFF, {}],
    ["claude-opus-4-6", budget(4_000), enabled(4_000), {}],
    ["anthropic/claude-4.6-sonnet", effort("max"), adaptive("max"), {}],
    ["claude-sonnet-4-6", effort("xhigh"), adaptive("high"), { "reasoning.effort": "approximated" }],
    ["claude-opus-4-7", budget(2_000), adaptive("low", SUMMARY), AS_EFFORT],
    ["claude-opus-4-8", effort("minimal"), adaptive("low", SUMMARY), { "reasoning.effort": "approximated" }],
    ["claude-opus-4-7", { type: "disabled" }, {}, {}],
    ["claude-opus-5", budget(9_000), adaptive("high", SUMMARY), AS_EFFORT],
    ["claude-opus-5", { type: "disabled" }, OFF, {}],
    ["claude-opus-5-5", { type: "disabled" }, {}, NONE],
    ["claude-fable-5", { type: "disabled" }, {}, NONE],
    ["claude-mythos-preview", effort("xhigh"), adaptive("xhigh", SUMMARY), {}],
    ["kimi-k2-thinking", effort("high"), enabled(12_800), AS_BUDGET],
    ["my-model", budget(4_000), enabled(4_000), {}],
  ])("of %s, asked for %j", (model, reasoning, sent, told) => {
    expect(encoded({ model, reasoning })).toMatchObject({ sent, told });
    expect(Object.keys(encoded({ model, reasoning }).sent)).toEqual(Object.keys(sent));
  });

  it.each<[control: ReturnType<NonNullable<CodecOptions["reasoning"]>>, sent: JsonObject]>([
    ["none", {}],
    ["budget", enabled(4_000)],
    ["effort", adaptive("medium")],
    [undefined, enabled(4_000)],
  ])("is as the host says: %s", (control, sent) => {
    const asked: string[] = [];
    const reasoning = (model: string) => (asked.push(model), control);
    expect(encoded({ reasoning: budget(4_000) }, { reasoning }).sent).toEqual(sent);
    expect(asked).toEqual(["claude-sonnet-4-5"]);
  });
});

describe("the room for the answer beside a budget", () => {
  it.each<[limit: number, asked: number, sent: JsonObject, told: Told]>([
    [16_383, 8_191, enabled(8_191), {}],
    [10_000, 8_000, enabled(8_000), {}],
    [10_000, 8_001, enabled(8_000), AS_EFFORT],
    [10_000, 20_000, enabled(8_000), AS_EFFORT],
    [10_000, 1, enabled(1_024), AS_EFFORT],
    [1_280, 8_000, enabled(1_024), AS_EFFORT],
    [1_279, 8_000, OFF, NONE],
    [1, 1_024, OFF, NONE],
  ])("of a limit of %i tokens and a budget of %i", (maxOutputTokens, asked, sent, told) => {
    expect(encoded({ maxOutputTokens, reasoning: budget(asked) })).toMatchObject({ sent, told });
  });
});

const toolCall = (id: string): Part => ({ type: "tool-call", id, name: "clock", input: {} });
const result = (callId: string): Part => ({ type: "tool-result", callId, parts: [{ type: "text", text: "noon" }] });
const own: Part = { type: "reasoning", text: "Hm.", signature: "c2ln", maker: "messages" };
const foreign: Part = { type: "reasoning", text: "Hm.", signature: "c2ln", maker: "generate-content" };

describe("thinking beside what excludes it", () => {
  const reasoning = budget(4_000);
  const lost = { ...NONE, "messages.reasoning.foreign": "dropped" };

  it.each<[name: string, changes: Partial<ChatRequest>, sent: JsonObject, told: Told]>([
    ["a forced tool", { toolChoice: { type: "required", parallel: true } }, OFF, NONE],
    ["the choice of one tool", { toolChoice: { type: "tool", name: "clock", parallel: true } }, OFF, NONE],
    ["a free choice", { toolChoice: { type: "auto", parallel: true } }, enabled(4_000), {}],
    ["a prefill", { messages: [QUESTION, says("assistant", "At")] }, OFF, NONE],
    [
      "a tool loop that began with thinking",
      { messages: [QUESTION, says("assistant", own, toolCall("a")), says("user", result("a"))] },
      enabled(4_000),
      {},
    ],
    [
      "a tool loop with a step that has no thinking",
      {
        messages: [
          QUESTION,
          says("assistant", own, toolCall("a")),
          says("user", result("a")),
          says("assistant", toolCall("b")),
          says("user", result("b")),
        ],
      },
      OFF,
      NONE,
    ],
    [
      "a tool loop that began with another provider's thinking",
      {
        messages: [
          QUESTION,
          says("assistant", foreign, toolCall("a")),
          says("user", result("a")),
          says("assistant", own, toolCall("b")),
          says("user", result("b")),
        ],
      },
      OFF,
      lost,
    ],
    [
      "a tool loop that has ended",
      {
        messages: [
          QUESTION,
          says("assistant", toolCall("a")),
          says("user", result("a")),
          says("assistant", "Noon."),
          QUESTION,
        ],
      },
      enabled(4_000),
      {},
    ],
  ])("%s", (_name, changes, sent, told) => {
    const request = encoded({ reasoning, ...changes });
    expect(request.sent).toMatchObject(sent);
    expect(request.told).toEqual(told);
  });

  it("stays on in adaptive mode where a tool loop began without", () => {
    const messages = [QUESTION, says("assistant", toolCall("a")), says("user", result("a"))];
    expect(encoded({ model: "claude-opus-4-7", reasoning: effort("low"), messages })).toMatchObject({
      sent: adaptive("low", SUMMARY),
      told: {},
    });
  });

  it("frees the choice of a model that always reasons, and refuses forced tools", () => {
    const other = { type: "function" as const, name: "weather", inputSchema: {} };
    const clock = { type: "function" as const, name: "clock", inputSchema: {} };
    const toolChoice = { type: "tool", name: "clock", parallel: false } as const;
    const request = encoded({ model: "claude-opus-5-5", tools: [clock, other], toolChoice });
    expect(request.sent).toEqual({ tool_choice: { type: "auto", disable_parallel_tool_use: true } });
    expect(request.tools).toEqual([{ name: "clock", input_schema: { type: "object" } }]);
    expect(request.told).toEqual({ toolChoice: "dropped" });
  });
});

const sampling = (temperature?: number, topP?: number, topK?: number): Partial<ChatRequest> => ({
  ...(temperature !== undefined && { temperature }),
  ...(topP !== undefined && { topP }),
  ...(topK !== undefined && { topK }),
});

describe("sampling", () => {
  const reasoning = budget(4_000);
  const thinking = enabled(4_000);

  it.each<[name: string, changes: Partial<ChatRequest>, sent: JsonObject, told: Told]>([
    [
      "Gemini CLI's own, beside thinking",
      { ...sampling(1, 0.95, 64), reasoning: budget(8_191) },
      { ...enabled(8_191), top_p: 0.95 },
      { topK: "dropped" },
    ],
    [
      "beside thinking",
      { ...sampling(0.2, 0.9, 40), reasoning },
      thinking,
      { temperature: "dropped", topP: "dropped", topK: "dropped" },
    ],
    [
      "above the range beside thinking",
      { ...sampling(2), reasoning },
      { ...thinking, temperature: 1 },
      { temperature: "approximated" },
    ],
    ["that changes nothing, beside thinking", { ...sampling(1, 1, 0), reasoning }, { ...thinking, temperature: 1 }, {}],
    ["of one kind alone", sampling(0.2), { temperature: 0.2 }, {}],
    ["of both kinds", sampling(0.2, 0.9, 40), { temperature: 0.2, top_k: 40 }, { topP: "dropped" }],
    ["of both kinds, of which one changes nothing", sampling(1, 0.9), { top_p: 0.9 }, {}],
    [
      "of both kinds, for an older model",
      { model: "claude-3-5-haiku-latest", ...sampling(0.2, 0.9, 40) },
      { temperature: 0.2, top_p: 0.9, top_k: 40 },
      {},
    ],
    [
      "of both kinds, for a model of another maker",
      { model: "m", ...sampling(0.2, 0.9, 40) },
      { temperature: 0.2, top_p: 0.9, top_k: 40 },
      {},
    ],
    [
      "for a newer model",
      { model: "claude-opus-4-7", ...sampling(0.2, 0.9, 40) },
      {},
      { temperature: "dropped", topP: "dropped", topK: "dropped" },
    ],
    ["that changes nothing, for a newer model", { model: "claude-opus-5", ...sampling(1, 1, 0) }, {}, {}],
  ])("%s", (_name, changes, sent, told) => {
    const request = encoded(changes);
    expect([request.sent, request.told]).toEqual([sent, told]);
  });
});

describe("what the official service refuses", () => {
  it("leaves out blank texts, and turns of which nothing is left", () => {
    const system = [" ", "Be brief."].map((text) => ({ type: "text" as const, text }));
    const blank: Part = { type: "tool-result", callId: "a", parts: [{ type: "text", text: "\n" }] };
    const messages = [
      QUESTION,
      says("assistant", "\n\n", toolCall("a")),
      says("user", blank),
      says("assistant", " "),
      says("user", "", "So?"),
    ];
    const request = encoded({ system, messages });
    expect(request.sent["system"]).toEqual([{ type: "text", text: "Be brief." }]);
    expect(request.messages.slice(1)).toEqual([
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: "clock", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [] }] },
      { role: "user", content: [{ type: "text", text: "So?" }] },
    ]);
    expect(request.told).toEqual({ "messages.text": "approximated" });
  });

  it("leaves out the white space and the thinking of a prefill", () => {
    const request = encoded({ messages: [QUESTION, says("assistant", own, "At  \n")] });
    expect(request.messages.at(-1)).toEqual({ role: "assistant", content: [{ type: "text", text: "At" }] });
    expect(request.told).toEqual({ "messages.prefill": "approximated", "messages.reasoning": "dropped" });
  });

  it("sends files of the assistant, which another format's model may have drawn, as the user's, and leaves out a turn without others", () => {
    const picture: Part = { type: "media", kind: "image", source: base64("image/png") };
    const file: Part = { type: "document", source: base64("application/pdf") };
    const note: Part = { type: "document", source: { type: "text", text: "A" } };
    const drawn = [says("assistant", "Here.", picture), QUESTION, says("assistant", file, note)];
    const { messages, told } = encoded({ messages: [QUESTION, ...drawn, says("user", picture, "So?")] });
    const asked = [{ type: "text", text: "When?" }];
    const [image, document] = ["image", "document"].map((type) => expect.objectContaining({ type }) as object);
    expect(messages).toEqual([
      { role: "user", content: asked },
      { role: "assistant", content: [{ type: "text", text: "Here." }] },
      { role: "user", content: [image, ...asked] },
      { role: "user", content: [document, document, image, { type: "text", text: "So?" }] },
    ]);
    expect(told).toEqual({ "messages.media.moved": "approximated" });
  });

  it("asks in words for JSON beside documents that are to be cited", () => {
    const schema = { type: "object", properties: { a: {} }, required: ["a"], additionalProperties: false };
    const closed = { ...schema, properties: { a: { type: "string" } } };
    for (const [citations, told] of [
      [false, {}],
      [true, { responseFormat: "approximated" }],
    ] as const) {
      const document = { type: "document", source: { type: "text", text: "A" }, citations } as const;
      const messages = [says("user", document, "So?")];
      expect(encoded({ messages, responseFormat: { type: "json", schema: closed } }).told).toEqual(told);
    }
    // Any value is no schema that a model can be held to.
    expect(encoded({ responseFormat: { type: "json", schema } }).told).toEqual({ responseFormat: "approximated" });
  });

  it("asks in words for JSON of a schema that is too deep", () => {
    let schema: JsonObject = { type: "string" };
    for (let depth = 0; depth < 100_000; depth++) schema = { type: "array", items: schema };
    const tool = {
      type: "function" as const,
      name: "clock",
      inputSchema: { type: "object", properties: { a: schema } },
    };
    expect(encoded({ tools: [{ ...tool, strict: true }] }).told).toEqual({ "tools.function.strict": "approximated" });
  });

  it("gives each call an id of its own, and each result the id of its call", () => {
    const messages = [
      QUESTION,
      says("assistant", toolCall("call_0"), toolCall("call_0"), toolCall("call_0_2")),
      says("user", result("call_0"), result("call_0"), result("call_0_2")),
      says("assistant", toolCall("call_0")),
      says("user", result("call_0")),
    ];
    const request = encoded({ messages });
    const ids = request.messages.map(({ content }) => content.map(({ id, tool_use_id }) => id ?? tool_use_id));
    const [, calls = [], results, [later] = [], [answered] = []] = ids;
    expect(results).toEqual(calls);
    expect(answered).toBe(later);
    expect(new Set([...calls, later]).size).toBe(4);
    expect(request.told).toEqual({ "messages.tool-call.id": "emulated" });
  });

  it("renames very many calls of one id in linear time", () => {
    const parts = Array.from({ length: 200_000 }, (_, index) => toolCall(index < 100_000 ? `a_${index}` : "a"));
    const request = encoded({ messages: [QUESTION, { role: "assistant", parts }, QUESTION] });
    const ids = new Set(request.messages[1]?.content.map(({ id }) => id));
    expect(ids.size).toBe(200_000);
  });
});

const thinkingOf = (budget_tokens: number): JsonObject => ({ type: "enabled", budget_tokens });

describe("a caller without an output limit", () => {
  const ANSWER = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-4-5",
    content: [{ type: "text", text: "Noon." }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 5, output_tokens: 3 },
  };
  /** Asks as Gemini CLI does. Returns the upstream's request and the header of dropped fields. */
  async function asked(granted: number, models?: readonly { id: string; maxOutputTokens?: number }[]) {
    await using upstream = await rawUpstream((socket) =>
      socket.end(whole(200, "application/json", JSON.stringify(ANSWER))),
    );
    const backend = relay({ format: "messages", baseUrl: upstream.url, apiKey: "k", ...(models && { models }) });
    const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-test", granted }]) });
    const response = await gateway.fetch(
      new Request("http://gateway.test/v1beta/models/claude-sonnet-4-5:generateContent", {
        method: "POST",
        headers: { "x-goog-api-key": "sk-test", "content-type": "application/json" },
        body: JSON.stringify({
          contents: [{ role: "user", parts: [{ text: "When?" }] }],
          generationConfig: {
            temperature: 1,
            topP: 0.95,
            topK: 64,
            thinkingConfig: { includeThoughts: true, thinkingBudget: 8_191 },
          },
        }),
      }),
    );
    await response.text();
    const { max_tokens, thinking, temperature, top_p, top_k } = JSON.parse(
      upstream.requests[0]?.body ?? "{}",
    ) as JsonObject;
    const [dropped, approximated] = ["dropped", "approximated"].map((kind) => response.headers.get(`polygate-${kind}`));
    return { sent: { max_tokens, thinking, temperature, top_p, top_k }, dropped, approximated };
  }

  it("has room for its answer beside the budget", async () => {
    expect(await asked(1_000_000)).toEqual({
      sent: { max_tokens: 16_383, thinking: thinkingOf(8_191), top_p: 0.95 },
      dropped: "topK",
      approximated: null,
    });
  });

  it("stays within the limit of its model", async () => {
    expect(await asked(1_000_000, [{ id: "claude-sonnet-4-5", maxOutputTokens: 8_000 }])).toMatchObject({
      sent: { max_tokens: 8_000, thinking: thinkingOf(6_400) },
      approximated: "reasoning.budgetTokens",
    });
  });

  it("stays within its balance", async () => {
    const { sent, approximated } = await asked(5_000);
    const limit = Number(sent.max_tokens);
    expect(limit).toBeGreaterThan(4_900);
    expect(limit).toBeLessThan(5_000);
    expect(sent.thinking).toEqual(thinkingOf(limit - Math.ceil(limit / 5)));
    expect(approximated).toBe("reasoning.budgetTokens");
  });

  it("does not think where its balance has no room for it", async () => {
    expect(await asked(1_000)).toMatchObject({ sent: { thinking: { type: "disabled" } }, dropped: "reasoning" });
  });
});
