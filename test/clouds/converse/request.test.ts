/** Requests of Converse, field by field: what each kind of model gets, what is lost, and that Bedrock takes what is left. */

import { describe, expect, it } from "vitest";
import { makerOf, modelBehind } from "../../../src/clouds/converse/models.ts";
import { converseCodec } from "../../../src/clouds/converse/upstream.ts";
import type { CodecOptions } from "../../../src/formats/format.ts";
import type { ChatRequest, FunctionTool, JsonObject, Part } from "../../../src/index.ts";
import { checkConverse } from "../../agents/converse.rules.ts";
import { chatRequest } from "../../upstreams/relay/stage.ts";

const CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const OLD_CLAUDE = "anthropic.claude-3-5-sonnet-20241022-v2:0";
const NEW_CLAUDE = "global.anthropic.claude-opus-4-7-v1";
const NOVA = "us.amazon.nova-2-lite-v1:0";
const OLD_NOVA = "amazon.nova-pro-v1:0";
const GPT = "us.openai.gpt-5.6-luna";
const OSS = "openai.gpt-oss-120b-1:0";
const LLAMA = "us.meta.llama4-maverick-17b-instruct-v1:0";
const MISTRAL = "mistral.mistral-large-2407-v1:0";
const QWEN = "qwen.qwen3-235b-a22b-2507-v1:0";

interface Encoded {
  readonly body: JsonObject;
  /** The fields of the conversions, with their kinds. */
  readonly told: readonly string[];
}

/** Encodes a request, and holds it to AWS's schema and to Bedrock's rules. */
function encoded(model: string, more: Partial<ChatRequest> = {}, options: CodecOptions = {}): Encoded {
  const request = chatRequest({ model, maxOutputTokens: 4_000, ...more });
  const { body, conversions } = converseCodec(options, {}).encodeRequest(request);
  const told = conversions.map(({ field, conversion }) => `${field}: ${conversion}`);
  if (!told.some((one) => one.endsWith(": rejected"))) checkConverse({ body, model, streamed: request.stream });
  return { body, told };
}

const user = (...parts: Part[]): ChatRequest["messages"][number] => ({ role: "user", parts });
const assistant = (...parts: Part[]): ChatRequest["messages"][number] => ({ role: "assistant", parts });
const text = (words: string): Part => ({ type: "text", text: words });
const call = (id: string, name = "look"): Part => ({ type: "tool-call", id, name, input: {} });
const result = (callId: string, ...parts: (Part & { type: "text" })[]): Part => ({
  type: "tool-result",
  callId,
  parts,
});
const look: FunctionTool = { type: "function", name: "look", inputSchema: { type: "object" } };
const CLOSED = {
  type: "object",
  properties: { a: { type: "string" } },
  required: ["a"],
  additionalProperties: false,
};
const HELLO = [{ role: "user", content: [{ text: "Hello" }] }];

describe("sampling and limits", () => {
  it.each<[string, string, Partial<ChatRequest>, JsonObject, JsonObject | undefined, string[]]>([
    ["all", CLAUDE, { topK: 5, temperature: 0.5 }, { temperature: 0.5 }, { top_k: 5 }, []],
    ["a high temperature", LLAMA, { temperature: 1.7 }, { temperature: 1 }, undefined, ["temperature: approximated"]],
    ["two samplings", CLAUDE, { temperature: 0.2, topP: 0.9 }, { temperature: 0.2 }, undefined, ["topP: dropped"]],
    [
      "a newer Claude",
      NEW_CLAUDE,
      { temperature: 0.2, topK: 3 },
      {},
      undefined,
      ["temperature: dropped", "topK: dropped"],
    ],
    ["Nova", NOVA, { topK: 5, topP: 0.9 }, { topP: 0.9 }, { inferenceConfig: { topK: 5 } }, []],
    ["Mistral", MISTRAL, { topK: 5 }, {}, { top_k: 5 }, []],
    ["Cohere", "cohere.command-r-plus-v1:0", { topK: 5 }, {}, { k: 5 }, []],
    ["Llama", LLAMA, { topK: 5 }, {}, undefined, ["topK: dropped"]],
    ["GPT", GPT, { temperature: 0.5, topP: 1 }, {}, undefined, ["temperature: dropped"]],
    ["a topK of no limit", LLAMA, { topK: 0 }, {}, undefined, []],
  ])("%s of %s", (_name, model, more, inference, fields, expected) => {
    const { body, told } = encoded(model, more);
    expect(body["inferenceConfig"]).toEqual({ maxTokens: 4_000, ...inference });
    expect(body["additionalModelRequestFields"]).toEqual(fields);
    expect(told).toEqual(expected);
  });

  it.each([
    [CLAUDE, 6, []],
    [NOVA, 4, ["stopSequences: emulated"]],
    [GPT, 0, ["stopSequences: emulated"]],
    [OSS, 0, ["stopSequences: emulated"]],
  ])("stop sequences: %s takes %d of six", (model, count, expected) => {
    const { body, told } = encoded(model, { stopSequences: ["a", "b", "c", "d", "e", "f"] });
    const { stopSequences } = body["inferenceConfig"] as { stopSequences?: string[] };
    expect([stopSequences?.length ?? 0, told]).toEqual([count, expected]);
  });

  it("leaves out what Converse does not have, and tells it", () => {
    const { body, told } = encoded(NOVA, {
      seed: 7,
      presencePenalty: 1,
      frequencyPenalty: 1,
      candidateCount: 2,
      logprobs: { top: 1 },
      mediaResolution: "low",
      safety: [{ category: "harassment", threshold: "high" }],
      serviceTier: "auto",
      modalities: ["image"],
      native: { format: "chat-completions", body: {}, betas: ["b-1"], unsupported: () => ["logit_bias"] },
    });
    expect(body).toEqual({ messages: HELLO, inferenceConfig: { maxTokens: 4_000 } });
    expect([...told].toSorted()).toEqual([
      "candidateCount: dropped",
      "frequencyPenalty: dropped",
      "logprobs: dropped",
      "mediaResolution: dropped",
      "modalities: dropped",
      "native.logit_bias: dropped",
      "presencePenalty: dropped",
      "safety: dropped",
      "seed: dropped",
      "serviceTier: dropped",
    ]);
  });

  it.each(["standard", "standard_only", "default"])("sends the tier %s by Bedrock's name", (serviceTier) => {
    const { body, told } = encoded(NOVA, { serviceTier });
    expect([body["serviceTier"], told]).toEqual([{ type: "default" }, []]);
  });

  it("sends a tier that Bedrock has, and the end user as metadata", () => {
    const { body, told } = encoded(NOVA, { serviceTier: "priority", endUser: "user-7@example.com" });
    expect(body).toMatchObject({
      serviceTier: { type: "priority" },
      requestMetadata: { endUser: "user-7@example.com" },
    });
    expect(told).toEqual(["endUser: approximated"]);
    const odd = encoded(NOVA, { endUser: "<b>" });
    expect([odd.body["requestMetadata"], odd.told]).toEqual([undefined, ["endUser: dropped"]]);
  });
});

const control = (word: "effort" | "none") => ({ reasoning: () => word });

describe("reasoning", () => {
  const budget = { type: "enabled", budgetTokens: 2_000 } as const;
  const high = { type: "adaptive", effort: "high" } as const;
  const off = { type: "disabled" } as const;

  it.each<[string, ChatRequest["reasoning"], JsonObject | undefined, string[]]>([
    [CLAUDE, budget, { thinking: { type: "enabled", budget_tokens: 2_000 } }, []],
    [
      CLAUDE,
      high,
      { thinking: { type: "enabled", budget_tokens: 3_200 } },
      ["reasoning.adaptive: approximated", "reasoning.effort: approximated"],
    ],
    [CLAUDE, off, { thinking: { type: "disabled" } }, []],
    [OLD_CLAUDE, high, undefined, ["reasoning: dropped"]],
    [NEW_CLAUDE, high, { thinking: { type: "adaptive", display: "summarized" } }, []],
    [
      NOVA,
      high,
      { reasoningConfig: { type: "enabled", maxReasoningEffort: "medium" } },
      ["reasoning.effort: approximated"],
    ],
    [
      NOVA,
      { type: "adaptive" },
      { reasoningConfig: { type: "enabled", maxReasoningEffort: "medium" } },
      ["reasoning.adaptive: approximated"],
    ],
    [
      NOVA,
      budget,
      { reasoningConfig: { type: "enabled", maxReasoningEffort: "low" } },
      ["reasoning.budgetTokens: approximated"],
    ],
    [NOVA, off, undefined, []],
    [OLD_NOVA, high, undefined, ["reasoning: dropped"]],
    [OLD_NOVA, off, undefined, []],
    [OSS, high, { reasoning_effort: "high" }, []],
    [OSS, { type: "adaptive", effort: "max" }, { reasoning_effort: "high" }, ["reasoning.effort: approximated"]],
    [OSS, off, undefined, ["reasoning: dropped"]],
    [GPT, { type: "adaptive", effort: "max" }, { reasoning: { effort: "max" } }, []],
    [
      GPT,
      { type: "adaptive", effort: "minimal" },
      { reasoning: { effort: "low" } },
      ["reasoning.effort: approximated"],
    ],
    [GPT, { type: "adaptive" }, undefined, []],
    [GPT, off, { reasoning: { effort: "none" } }, []],
    [LLAMA, high, undefined, ["reasoning: dropped"]],
  ])("%s, asked for %j", (model, reasoning, fields, expected) => {
    const { body, told } = encoded(model, reasoning && { reasoning });
    expect(body["additionalModelRequestFields"]).toEqual(fields);
    expect(told).toEqual(expected);
    expect(body["outputConfig"]).toEqual(model === NEW_CLAUDE ? { effort: "high" } : undefined);
  });

  it("of Claude has no least effort", () => {
    const { body, told } = encoded(NEW_CLAUDE, { reasoning: { type: "adaptive", effort: "minimal" } });
    expect([body["outputConfig"], told]).toEqual([{ effort: "low" }, ["reasoning.effort: approximated"]]);
  });

  it("follows the host's word about a model", () => {
    const reasoning = high;
    expect(encoded(QWEN, { reasoning }, control("effort")).body["additionalModelRequestFields"]).toEqual({
      reasoning_effort: "high",
    });
    const { body } = encoded(GPT, { reasoning, maxAnswerTokens: 1_000 }, control("none"));
    expect([body["additionalModelRequestFields"], body["inferenceConfig"]]).toEqual([undefined, { maxTokens: 1_000 }]);
  });

  it.each([
    [
      "its own",
      CLAUDE,
      makerOf(CLAUDE),
      [{ reasoningContent: { reasoningText: { text: "Hm.", signature: "c2ln" } } }],
      [],
    ],
    [
      "of the messages format",
      CLAUDE,
      "messages",
      [{ reasoningContent: { reasoningText: { text: "Hm.", signature: "c2ln" } } }],
      [],
    ],
    ["of another company", CLAUDE, makerOf(GPT), [], ["messages.reasoning.foreign: dropped"]],
    ["of Claude", NOVA, "messages", [], ["messages.reasoning.foreign: dropped"]],
    ["of another format", GPT, "responses", [], ["messages.reasoning.foreign: dropped"]],
  ])("gives signatures back: %s", (_name, model, maker, expected, lost) => {
    const part: Part = { type: "reasoning", text: "Hm.", signature: "c2ln", maker };
    const { body, told } = encoded(model, { messages: [user(text("A")), assistant(part, text("B")), user(text("C"))] });
    const [, turn] = body["messages"] as { content: JsonObject[] }[];
    expect(turn?.content).toEqual([...expected, { text: "B" }]);
    expect(told).toEqual(lost);
  });

  it("sends reasoning of others as text where the host wants it, and none without a signature", () => {
    const foreign: Part = { type: "reasoning", text: "Hm.", signature: "c2ln", maker: "responses" };
    const messages = [user(text("A")), assistant(foreign, text("B")), user(text("C"))];
    const asText = encoded(NOVA, { messages }, { foreignReasoning: "text" });
    expect((asText.body["messages"] as { content: JsonObject[] }[])[1]?.content).toEqual([
      { text: "Hm." },
      { text: "B" },
    ]);
    expect(asText.told).toEqual(["messages.reasoning.foreign: approximated"]);
    const bare: Part = { type: "reasoning", text: "Hm.", maker: makerOf(OSS) };
    const unsigned = encoded(OSS, { messages: [user(text("A")), assistant(bare, text("B")), user(text("C"))] });
    expect(unsigned.told).toEqual(["messages.reasoning.unsealed: dropped"]);
  });

  it("never sends a turn of reasoning alone", () => {
    const part: Part = { type: "reasoning", text: "Hm.", signature: "c2ln", maker: makerOf(CLAUDE) };
    for (const messages of [
      [user(text("A")), assistant(part), user(text("B"))],
      [user(text("A")), user(text("B")), assistant(part)],
    ]) {
      const { body, told } = encoded(CLAUDE, { messages });
      expect(body["messages"]).toEqual([{ role: "user", content: [{ text: "A" }, { text: "B" }] }]);
      expect(told).toEqual(["messages.reasoning: dropped"]);
    }
  });
});

describe("tools", () => {
  const history = [user(text("A")), assistant(call("t1")), user(result("t1", { type: "text", text: "R" }))];
  const spec = { toolSpec: { name: "look", inputSchema: { json: { type: "object" } } } };

  it.each<[string, string, Partial<ChatRequest>, JsonObject | undefined, JsonObject | undefined, string[]]>([
    ["a free choice", NOVA, { toolChoice: { type: "auto", parallel: true } }, { tools: [spec] }, undefined, []],
    [
      "a call",
      NOVA,
      { toolChoice: { type: "required", parallel: true } },
      { tools: [spec], toolChoice: { any: {} } },
      undefined,
      [],
    ],
    [
      "a named call",
      CLAUDE,
      { toolChoice: { type: "tool", name: "look", parallel: true } },
      { tools: [spec], toolChoice: { tool: { name: "look" } } },
      undefined,
      [],
    ],
    [
      "one call of Claude",
      CLAUDE,
      { toolChoice: { type: "required", parallel: false } },
      { tools: [spec] },
      { tool_choice: { type: "any", disable_parallel_tool_use: true } },
      [],
    ],
    [
      "one call of another",
      NOVA,
      { toolChoice: { type: "auto", parallel: false } },
      { tools: [spec] },
      undefined,
      ["toolChoice.parallel: dropped"],
    ],
    ["no call", NOVA, { toolChoice: { type: "none" } }, undefined, undefined, []],
    ["no call of Claude", CLAUDE, { toolChoice: { type: "none" } }, undefined, undefined, []],
    [
      "no call of Claude after others",
      CLAUDE,
      { toolChoice: { type: "none" }, messages: history },
      { tools: [spec] },
      { tool_choice: { type: "none" } },
      [],
    ],
    [
      "no call of another after others",
      NOVA,
      { toolChoice: { type: "none" }, messages: history },
      { tools: [spec] },
      undefined,
      ["toolChoice: dropped"],
    ],
    [
      "no tools any more",
      NOVA,
      { tools: [], messages: history },
      { tools: [spec] },
      undefined,
      ["tools: approximated"],
    ],
    [
      "no tools of Claude any more",
      CLAUDE,
      { tools: [], messages: history },
      { tools: [spec] },
      { tool_choice: { type: "none" } },
      ["tools: approximated"],
    ],
    [
      "some of the tools",
      NOVA,
      {
        tools: [look, { ...look, name: "other" }],
        toolChoice: { type: "auto", parallel: true, names: ["look"] },
      },
      { tools: [spec] },
      undefined,
      ["toolChoice.names: emulated"],
    ],
    [
      "a tool that is not there",
      NOVA,
      { toolChoice: { type: "tool", name: "other", parallel: true } },
      { tools: [spec] },
      undefined,
      ["toolChoice.unmet: rejected"],
    ],
    [
      "a strict tool",
      CLAUDE,
      { tools: [{ ...look, inputSchema: CLOSED, strict: true }] },
      { tools: [{ toolSpec: { ...spec.toolSpec, inputSchema: { json: CLOSED }, strict: true } }] },
      undefined,
      [],
    ],
    [
      "a strict tool of any arguments",
      CLAUDE,
      { tools: [{ ...look, strict: true }] },
      { tools: [spec] },
      undefined,
      ["tools.function.strict: dropped"],
    ],
    [
      "a tool whose schema has no type, and one whose schema is a union",
      CLAUDE,
      {
        tools: [
          { ...look, inputSchema: {} },
          { ...look, inputSchema: { anyOf: [CLOSED] } },
        ],
      },
      {
        tools: [
          spec,
          {
            toolSpec: {
              ...spec.toolSpec,
              inputSchema: { json: { type: "object", properties: { a: { type: "string" } }, required: ["a"] } },
            },
          },
        ],
      },
      undefined,
      ["tools.function.schema: approximated"],
    ],
    [
      "a strict tool of Nova",
      NOVA,
      { tools: [{ ...look, strict: true }] },
      { tools: [spec] },
      undefined,
      ["tools.function.strict: dropped"],
    ],
    [
      "a tool that is not strict",
      NOVA,
      { tools: [{ ...look, strict: false, description: " " }] },
      { tools: [spec] },
      undefined,
      [],
    ],
    [
      "tools of others",
      NOVA,
      { tools: [look, { type: "code-execution" }, { type: "provider", format: "messages", definition: {} }] },
      { tools: [spec] },
      undefined,
      ["tools.code-execution: dropped", "tools.provider: dropped"],
    ],
  ])("%s", (_name, model, more, config, fields, expected) => {
    const { body, told } = encoded(model, { tools: [look], ...more });
    expect(body["toolConfig"]).toEqual(config);
    expect(body["additionalModelRequestFields"]).toEqual(fields);
    expect(told).toEqual(expected);
  });

  it.each([
    [NOVA, "functions.look:0", /^[\w-]{1,64}$/],
    [NOVA, "x".repeat(65), /^[\w-]{1,64}$/],
    [MISTRAL, "tooluse_bpe71yCfRu2b5i-nKGDr5g", /^call00001$/],
  ])("%s gets another id for the call %s, and for its result", (model, id, form) => {
    const { body, told } = encoded(model, {
      tools: [look],
      messages: [user(text("A")), assistant(call(id)), user(result(id))],
    });
    const [, turn, answer] = body["messages"] as { content: { toolUse?: JsonObject; toolResult?: JsonObject }[] }[];
    const sent = turn?.content[0]?.toolUse?.["toolUseId"];
    expect(sent).toMatch(form);
    expect(answer?.content[0]?.toolResult).toEqual({ toolUseId: sent, content: [{ text: "" }] });
    expect(told).toEqual(["messages.tool-call.id: emulated"]);
  });

  it("sends results of all kinds, and never a failure without words", () => {
    const messages = [
      user(text("A")),
      assistant(call("t1"), call("t2"), call("t3")),
      user(
        { type: "tool-result", callId: "t1", parts: [], isError: true },
        {
          type: "tool-result",
          callId: "t2",
          parts: [
            { type: "json", value: { a: 1 } },
            { type: "document", source: { type: "text", text: "Words" } },
            { type: "media", kind: "audio", source: { type: "base64", mediaType: "audio/wav", data: "AAAA" } },
          ],
        },
        { type: "tool-result", callId: "t3", parts: [{ type: "text", text: "R", cache: {} }] },
      ),
    ];
    const { body, told } = encoded(CLAUDE, { tools: [look], messages });
    expect((body["messages"] as { content: unknown }[])[2]?.content).toEqual([
      { toolResult: { toolUseId: "t1", content: [{ text: "The tool has failed." }], status: "error" } },
      {
        toolResult: {
          toolUseId: "t2",
          content: [
            { json: { a: 1 } },
            { document: { format: "txt", name: "document", source: { bytes: "V29yZHM=" } } },
          ],
        },
      },
      { toolResult: { toolUseId: "t3", content: [{ text: "R" }] } },
      { cachePoint: { type: "default" } },
    ]);
    expect(told).toEqual(["messages.media.audio: dropped"]);
    expect(encoded(NOVA, { messages: [user(result("nobody"))] }).told).toContain(
      "messages.tool-result.unasked: rejected",
    );
  });
});

const media = (kind: "image" | "audio" | "video", mediaType: string): Part => ({
  type: "media",
  kind,
  source: { type: "base64", mediaType, data: "AAAA" },
});
const file = (mediaType: string, more: Partial<Part & { type: "document" }> = {}): Part => ({
  type: "document",
  source: { type: "base64", mediaType, data: "AAAA" },
  ...more,
});

describe("media and documents", () => {
  const bytes = { bytes: "AAAA" };

  it.each<[string, Part, JsonObject | undefined, string[]]>([
    ["a JPEG", media("image", "image/jpeg"), { image: { format: "jpeg", source: bytes } }, []],
    ["a film", media("video", "video/quicktime"), { video: { format: "mov", source: bytes } }, []],
    ["a sound", media("audio", "audio/mpeg"), { audio: { format: "mp3", source: bytes } }, []],
    ["a TIFF", media("image", "image/tiff"), undefined, ["messages.media: dropped"]],
    ["an odd film", media("video", "video/x-odd"), undefined, ["messages.media.video: dropped"]],
    [
      "a picture at an address",
      { type: "media", kind: "image", source: { type: "url", url: "https://example.com/a.png" } },
      undefined,
      ["messages.media.url: dropped"],
    ],
    [
      // Bedrock would read the host's own bucket.
      "a picture in a bucket",
      { type: "media", kind: "image", source: { type: "url", url: "s3://bucket/a.png" } },
      undefined,
      ["messages.media.url: dropped"],
    ],
    [
      "a file's id",
      { type: "media", kind: "image", source: { type: "file", id: "f" } },
      undefined,
      ["messages.media: dropped"],
    ],
    [
      "a Word document",
      file("application/msword", { title: "Plan B" }),
      { document: { format: "doc", name: "Plan B", source: bytes } },
      [],
    ],
    [
      "text with a charset",
      file("text/plain; charset=utf-8"),
      { document: { format: "txt", name: "document", source: bytes } },
      [],
    ],
    [
      "JSON",
      file("application/json", { title: "data.json" }),
      { document: { format: "txt", name: "data json", source: bytes } },
      ["messages.document.title: approximated", "messages.document.text: approximated"],
    ],
    ["a zip", file("application/zip"), undefined, ["messages.document: dropped"]],
    [
      "a document at an address",
      { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
      undefined,
      ["messages.document.url: dropped"],
    ],
    [
      "a title without one letter",
      file("application/pdf", { title: "分기보고서" }),
      { document: { format: "pdf", name: "document", source: bytes } },
      ["messages.document.title: approximated"],
    ],
    [
      "citations of another model than Claude",
      file("application/pdf", { citations: true, context: "2026" }),
      { document: { format: "pdf", name: "document", source: bytes } },
      ["messages.document.citations: dropped", "messages.document.context: dropped"],
    ],
  ])("%s", (_name, part, block, expected) => {
    const { body, told } = encoded(NOVA, { messages: [user(part, text("What is it?"))] });
    const [turn] = body["messages"] as { content: JsonObject[] }[];
    expect(turn?.content).toEqual([...(block ? [block] : []), { text: "What is it?" }]);
    expect([...told].toSorted()).toEqual([...expected].toSorted());
  });

  it("a document of parts becomes parts, and one without a text gets its name beside it", () => {
    const parts: Part = {
      type: "document",
      source: {
        type: "parts",
        parts: [
          { type: "text", text: "P" },
          { type: "media", kind: "image", source: { type: "base64", mediaType: "image/png", data: "AAAA" } },
        ],
      },
    };
    const { body, told } = encoded(NOVA, { messages: [user(parts)] });
    expect(body["messages"]).toEqual([
      { role: "user", content: [{ text: "P" }, { image: { format: "png", source: bytes } }] },
    ]);
    expect(told).toEqual(["messages.document.text: approximated"]);
    const titled = encoded(CLAUDE, { messages: [user({ ...parts, title: "Plan", citations: true })] });
    expect(titled.told).toEqual([
      "messages.document.text: approximated",
      "messages.document.title: approximated",
      "messages.document.citations: dropped",
    ]);
    const alone = encoded(NOVA, { messages: [user(file("application/pdf", { title: "Plan" }))] });
    expect((alone.body["messages"] as { content: JsonObject[] }[])[0]?.content.at(-1)).toEqual({ text: "Plan" });
  });

  it("those of the assistant are sent as the user's", () => {
    const messages = [
      user(text("A")),
      assistant(media("image", "image/png"), file("application/pdf"), text("B")),
      user(text("C")),
    ];
    const { body, told } = encoded(NOVA, { messages });
    expect(body["messages"]).toEqual([
      { role: "user", content: [{ text: "A" }] },
      { role: "assistant", content: [{ text: "B" }] },
      {
        role: "user",
        content: [{ image: expect.anything() as unknown }, { document: expect.anything() as unknown }, { text: "C" }],
      },
    ]);
    expect(told).toEqual(["messages.media.moved: approximated"]);
  });
});

describe("marks of the prompt cache", () => {
  const cache = { ttl: "1h" };
  const more: Partial<ChatRequest> = {
    system: [{ type: "text", text: "S", cache }],
    tools: [{ ...look, cache: {} }],
    messages: [user({ type: "text", text: "A", cache })],
  };
  it.each([
    [CLAUDE, { cachePoint: { type: "default", ttl: "1h" } }, 2, []],
    [NOVA, { cachePoint: { type: "default" } }, 1, ["messages.cache: dropped"]],
    [LLAMA, undefined, 1, ["messages.cache: dropped"]],
  ])("of %s", (model, mark, tools, expected) => {
    const { body, told } = encoded(model, more);
    const marks = mark ? [mark] : [];
    expect(body["system"]).toEqual([{ text: "S" }, ...marks]);
    expect(body["messages"]).toEqual([{ role: "user", content: [{ text: "A" }, ...marks] }]);
    expect((body["toolConfig"] as { tools: unknown[] }).tools).toHaveLength(tools);
    expect(told).toEqual(expected);
  });

  it("never stand alone", () => {
    const { body } = encoded(CLAUDE, { messages: [user({ type: "text", text: " ", cache }, text("A"))] });
    expect(body["messages"]).toEqual([{ role: "user", content: [{ text: "A" }] }]);
  });
});

describe("the form of the answer", () => {
  const schema = { type: "object", properties: {}, additionalProperties: false };
  const jsonSchema = { schema: JSON.stringify(schema), name: "data" };

  it.each([
    [CLAUDE, []],
    [QWEN, []],
    [GPT, []],
  ])("is held to a schema by %s", (model, expected) => {
    const { body, told } = encoded(model, { responseFormat: { type: "json", schema, name: "data" } });
    expect(body["outputConfig"]).toEqual({ textFormat: { type: "json_schema", structure: { jsonSchema } } });
    expect(told).toEqual(expected);
  });

  it.each([NOVA, NEW_CLAUDE, LLAMA])("is asked of %s in words", (model) => {
    const { body, told } = encoded(model, { responseFormat: { type: "json", schema, name: "data" } });
    expect(body["outputConfig"]).toBeUndefined();
    expect(JSON.stringify(body["system"])).toContain("additionalProperties");
    expect([...told].toSorted()).toEqual(["responseFormat.name: dropped", "responseFormat: approximated"]);
  });

  it("closes objects, and tells the words that no model is held to", () => {
    const open = { type: "object", properties: { n: { type: "integer", minimum: 1 } }, required: ["n"] };
    const { body, told } = encoded(QWEN, { responseFormat: { type: "json", schema: open } });
    const sent = JSON.stringify(body["outputConfig"]);
    expect(sent).toContain(String.raw`\"additionalProperties\":false`);
    expect(sent).not.toContain(String.raw`\"minimum\":1`);
    expect(told).toEqual(["responseFormat.schema: approximated"]);
  });

  it.each([
    [CLAUDE, []],
    [LLAMA, [" \n"]],
  ])("%s takes the stop sequences of white space %j", (model, blank) => {
    const { body, told } = encoded(model, { stopSequences: ["END", " \n"] });
    expect((body["inferenceConfig"] as JsonObject)["stopSequences"]).toEqual(["END", ...blank]);
    expect(told).toEqual(blank.length > 0 ? [] : ["stopSequences: emulated"]);
  });

  it("is asked in words beside a prefill", () => {
    const messages = [user(text("A")), assistant(text("{"))];
    const { body, told } = encoded(CLAUDE, { messages, responseFormat: { type: "json", schema } });
    expect(body["outputConfig"]).toBeUndefined();
    expect(told).toEqual(["responseFormat: approximated"]);
  });

  it("without a schema is asked in words of every model", () => {
    const { body, told } = encoded(CLAUDE, { responseFormat: { type: "json" } });
    expect(body["system"]).toEqual([{ text: expect.stringContaining("one JSON object") as string }]);
    expect(told).toEqual(["responseFormat: approximated"]);
  });
});

describe("the conversation", () => {
  it("has turns that alternate, without blank texts", () => {
    const messages = [
      user(text("A")),
      { role: "system" as const, parts: [text("Be brief.")] },
      assistant(text(" \n")),
      user(text("B"), text("")),
    ];
    const { body, told } = encoded(NOVA, { messages, system: [{ type: "text", text: " " }] });
    expect(body["messages"]).toEqual([
      { role: "user", content: [{ text: "A" }, { text: "Be brief." }, { text: "B" }] },
    ]);
    expect(body["system"]).toBeUndefined();
    expect(told).toEqual(["messages.role.system: approximated", "messages.text: approximated"]);
  });

  it("ends in a turn that Claude goes on with, without white space", () => {
    const messages = [user(text("A")), assistant(text("It is "))];
    expect(encoded(CLAUDE, { messages }).told).toEqual(["messages.prefill: approximated"]);
    expect(encoded(CLAUDE, { messages: [user(text("A")), assistant(text("It is"))] }).told).toEqual([]);
    for (const model of [NOVA, NEW_CLAUDE])
      expect(encoded(model, { messages: [user(text("A")), assistant(text("It is"))] }).told).toEqual([
        "messages.prefill: approximated",
      ]);
    const { body } = encoded(NEW_CLAUDE, { messages });
    expect((body["messages"] as JsonObject[]).map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  });

  it("of nothing is refused", () => {
    expect(encoded(NOVA, { messages: [user(text(" "))] }).told).toContain("messages.none: rejected");
  });

  it("writes refusals, code and its output as text, and leaves out parts of others", () => {
    const messages = [
      user(text("A")),
      assistant(
        { type: "refusal", text: "No." },
        { type: "code", language: "python", code: "1" },
        { type: "code-result", outcome: "ok", output: "1" },
        { type: "provider", format: "messages", value: {} },
      ),
      user(text("B")),
    ];
    const { told } = encoded(NOVA, { messages });
    expect(told).toEqual([
      "messages.refusal: approximated",
      "messages.code: approximated",
      "messages.code-result: approximated",
      "messages.provider: dropped",
    ]);
  });
});

describe("the names of models", () => {
  it.each([
    [
      "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
      "anthropic.claude-sonnet-4-5-20250929-v1:0",
      "bedrock-converse.anthropic",
    ],
    ["us-gov.amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0", "bedrock-converse.amazon"],
    ["global.openai.gpt-5.6-luna", "openai.gpt-5.6-luna", "bedrock-converse.openai"],
    ["zai.glm-4.7", "zai.glm-4.7", "bedrock-converse.zai"],
    [
      "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-2-lite-v1:0",
      "amazon.nova-2-lite-v1:0",
      "bedrock-converse.amazon",
    ],
    [
      "arn:aws:bedrock:us-east-1::foundation-model/mistral.mistral-large-2407-v1:0",
      "arn:aws:bedrock:us-east-1::foundation-model/mistral.mistral-large-2407-v1:0",
      "bedrock-converse.mistral",
    ],
    [
      "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3",
      "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3",
      "bedrock-converse",
    ],
    ["newcomer.model-1", "newcomer.model-1", "bedrock-converse"],
  ])("%s", (name, model, maker) => {
    expect([modelBehind(name), makerOf(name)]).toEqual([model, maker]);
  });
});
