/** Signatures and encrypted reasoning of providers: callers get them with their maker, and only the maker gets them back. */

import { describe, expect, it } from "vitest";
import { messagesCodec } from "../../../src/formats/messages/upstream.ts";
import type { ChatRequest, Part } from "../../../src/model/chat-request.ts";
import { JsonBudget, type JsonObject } from "../../../src/model/json.ts";
import { aiSdk, type AiSdkOptions } from "../../../src/upstreams/ai-sdk/index.ts";
import { metadataFrom, redactedOf, signatureOf, signerOf } from "../../../src/upstreams/ai-sdk/seals.ts";
import { turnOf } from "../../properties/conversations/turns.ts";
import { chatRequest } from "../relay/stage.ts";
import { ask, fakeModel, FINISH, said, START } from "./fake-models.ts";
import { clientsBefore } from "./stage.ts";

const signer = (provider: string, modelId = "m") => signerOf({ provider, modelId });

describe("the signature of metadata", () => {
  it.each([
    ["anthropic.messages", "m", { anthropic: { signature: "c2VhbA==" } }, "messages"],
    ["googleVertex.anthropic.messages", "m", { anthropic: { signature: "c2VhbA==" } }, "messages"],
    ["bedrock.anthropic.messages", "m", { anthropic: { signature: "c2VhbA==" } }, "messages"],
    [
      "amazon-bedrock",
      "eu.anthropic.claude-sonnet-4-5-v1:0",
      { amazonBedrock: { signature: "c2VhbA==" }, bedrock: { signature: "c2VhbA==" } },
      "messages",
    ],
    ["google.generative-ai", "m", { google: { thoughtSignature: "c2VhbA==" } }, "generate-content"],
    [
      "google.vertex.chat",
      "m",
      { googleVertex: { thoughtSignature: "c2VhbA==" }, vertex: { thoughtSignature: "c2VhbA==" } },
      "generate-content",
    ],
  ])("of %s stays as it is, and comes back: %s", (provider, modelId, metadata, maker) => {
    const signed = signatureOf(metadata, signer(provider, modelId));
    expect(signed).toEqual({ signature: "c2VhbA==", maker });
    expect(metadataFrom(signed ?? {}, signer(provider, modelId))).toEqual(metadata);
  });

  it.each([
    ["openai.responses", { openai: { itemId: "rs_1", reasoningEncryptedContent: "gAAA…ü" } }, "ai-sdk.openai"],
    ["azure.responses", { azure: { itemId: "rs_1" } }, "ai-sdk.azure"],
    ["openrouter.chat", { openrouter: { reasoning_details: [{ type: "reasoning.text" }] } }, "ai-sdk.openrouter"],
    ["amazon-bedrock", { bedrock: { signature: "c2VhbA==" } }, "ai-sdk.amazon-bedrock"],
    ["anthropic.messages", { anthropic: { citations: [{ type: "page_location" }] } }, "ai-sdk.anthropic"],
  ])("of %s is JSON, and comes back: %j", (provider, metadata, maker) => {
    const signed = signatureOf(metadata, signer(provider));
    expect(signed).toEqual({ signature: JSON.stringify(metadata), maker });
    expect(metadataFrom(signed ?? {}, signer(provider))).toEqual(metadata);
  });

  it.each([
    [{}],
    [{ anthropic: { signature: "" } }],
    [{ anthropic: { caller: { type: "direct" } } }],
    [{ openai: { itemId: "", reasoningEncryptedContent: null } }],
    [{ openrouter: { reasoning_details: [] } }],
  ])("is none where the metadata say nothing: %j", (metadata) => {
    expect(signatureOf(metadata, signer("anthropic.messages"))).toBeUndefined();
    expect(redactedOf(metadata, signer("anthropic.messages"))).toBeUndefined();
  });

  it.each(["", "{", "7", "[]", '{"openai":7}', "[".repeat(300)])(
    "is none where a caller has forged it: %s",
    (signature) => {
      expect(metadataFrom({ signature, maker: "ai-sdk.openai" }, signer("openai.responses"))).toBeUndefined();
    },
  );

  it("counts against the JSON of the request", () => {
    const json = JSON.stringify({ openai: { many: Array.from({ length: 99 }, () => 1) } });
    const budget = new JsonBudget({
      maxJsonBytes: 1_000_000,
      maxJsonDepth: 9,
      maxJsonValues: 150,
      maxJsonKeys: 9,
      maxJsonItems: 150,
    });
    const read = () => metadataFrom({ signature: json, maker: "ai-sdk.openai" }, signer("openai.responses"), budget);
    expect([read() !== undefined, read() !== undefined]).toEqual([true, false]);
  });
});

/** Sends a turn to a model, and returns the turn as its provider gets it. */
async function sent(parts: readonly Part[], provider: string, options: Partial<AiSdkOptions> = {}) {
  const model = fakeModel({ provider, stream: [START, FINISH] });
  const messages: ChatRequest["messages"] = [
    { role: "user", parts: [{ type: "text", text: "Hello" }] },
    { role: "assistant", parts },
    { role: "user", parts: [{ type: "text", text: "And?" }] },
  ];
  const { conversions, error } = await ask(model, { messages }, options);
  const [, turn] =
    (model.asked[0] as unknown as { prompt: { role: string; content: unknown }[] } | undefined)?.prompt ?? [];
  const told = conversions.map(({ field, conversion }) => `${field}: ${conversion}`);
  return { content: turn?.role === "assistant" ? turn.content : undefined, told, error };
}

const itemOf = (itemId: string, more = {}) => ({ openai: { itemId, ...more } });

describe("an answer", () => {
  it("goes round by way of the next turn: reasoning, encrypted reasoning, texts and calls", async () => {
    const sealed = itemOf("rs_1", { reasoningEncryptedContent: "gAAA" });
    const hidden = itemOf("rs_2", { reasoningEncryptedContent: "gBBB" });
    const stream = [
      START,
      { type: "reasoning-start", id: "1", providerMetadata: itemOf("rs_1", { reasoningEncryptedContent: null }) },
      { type: "reasoning-delta", id: "1", delta: "Hm." },
      { type: "reasoning-end", id: "1", providerMetadata: sealed },
      { type: "reasoning-start", id: "2", providerMetadata: itemOf("rs_2") },
      { type: "reasoning-end", id: "2", providerMetadata: hidden },
      { type: "text-start", id: "1", providerMetadata: itemOf("msg_1") },
      { type: "text-delta", id: "1", delta: "Hello" },
      { type: "text-end", id: "1" },
      { type: "tool-call", toolCallId: "c", toolName: "t", input: "{}", providerMetadata: itemOf("fc_1") },
      FINISH,
    ];
    const { events } = await ask(fakeModel({ stream, provider: "openai.responses" }));
    expect(events).toContainEqual({
      type: "redacted-reasoning",
      data: JSON.stringify(hidden),
      maker: "ai-sdk.openai",
    });
    const turn = turnOf(events);
    expect(await sent(turn, "openai.responses")).toMatchObject({
      content: [
        { type: "reasoning", text: "Hm.", providerOptions: sealed },
        { type: "reasoning", text: "", providerOptions: hidden },
        { type: "text", text: "Hello", providerOptions: itemOf("msg_1") },
        { type: "tool-call", toolCallId: "c", providerOptions: itemOf("fc_1") },
      ],
      told: [],
    });
    expect(await sent(turn, "anthropic.messages")).toEqual({
      content: [
        { type: "text", text: "Hello" },
        { type: "tool-call", toolCallId: "c", toolName: "t", input: {} },
      ],
      told: ["messages.reasoning.foreign: dropped", "messages.signature.foreign: dropped"],
      error: undefined,
    });
  });

  it("of Claude may have encrypted reasoning, and a signature on reasoning that is not shown", async () => {
    const stream = [
      START,
      { type: "reasoning-start", id: "1", providerMetadata: { anthropic: { redactedData: "ZGF0YQ==" } } },
      { type: "reasoning-end", id: "1" },
      { type: "reasoning-start", id: "2" },
      { type: "reasoning-delta", id: "2", delta: "", providerMetadata: { anthropic: { signature: "c2VhbA==" } } },
      { type: "reasoning-end", id: "2" },
      FINISH,
    ];
    const { events } = await ask(fakeModel({ stream, provider: "anthropic.messages" }));
    expect(events.slice(1, -1)).toEqual([
      { type: "redacted-reasoning", data: "ZGF0YQ==", maker: "messages" },
      { type: "reasoning-signature", signature: "c2VhbA==", maker: "messages" },
    ]);
    expect((await sent(turnOf(events), "vertex.anthropic.messages")).content).toEqual([
      { type: "reasoning", text: "", providerOptions: { anthropic: { redactedData: "ZGF0YQ==" } } },
      { type: "reasoning", text: "", providerOptions: { anthropic: { signature: "c2VhbA==" } } },
    ]);
  });

  it("without a signature names the maker, if the provider wants its reasoning back", async () => {
    const stream = [
      START,
      { type: "reasoning-start", id: "1" },
      { type: "reasoning-delta", id: "1", delta: "Hm." },
      { type: "reasoning-end", id: "1" },
      ...said("Hello"),
      FINISH,
    ];
    const { events } = await ask(fakeModel({ stream, provider: "deepseek.chat" }));
    const turn = turnOf(events);
    expect(turn[0]).toEqual({ type: "reasoning", text: "Hm.", signature: "", maker: "ai-sdk.deepseek" });
    const [reasoning, text] = [
      { type: "reasoning", text: "Hm." },
      { type: "text", text: "Hello" },
    ];
    expect(await sent(turn, "deepseek.chat")).toMatchObject({ content: [reasoning, text], told: [] });
    for (const provider of ["mistral.chat", "google.generative-ai", "anthropic.messages", "openai.chat"])
      expect(await sent(turn, provider)).toMatchObject({
        content: [text],
        told: ["messages.reasoning.foreign: dropped"],
      });
  });
});

describe("a turn of another maker", () => {
  const CLAUDE: Part[] = [
    { type: "reasoning", text: "Hm.", signature: "c2VhbA==", maker: "messages" },
    { type: "redacted-reasoning", data: "ZGF0YQ==", maker: "messages" },
    { type: "text", text: "Hello" },
  ];
  const PROVIDERS = [
    "google.generative-ai",
    "google.vertex.chat",
    "openai.responses",
    "deepseek.chat",
    "amazon-bedrock",
  ];

  it.each(PROVIDERS)("is sent to %s without its reasoning, and the caller is told", async (provider) => {
    expect(await sent(CLAUDE, provider)).toEqual({
      content: [{ type: "text", text: "Hello" }],
      told: ["messages.reasoning.foreign: dropped"],
      error: undefined,
    });
  });

  it("is sent with its reasoning as text where the host says so", async () => {
    const { content, told } = await sent(CLAUDE.toSpliced(1, 1), "google.generative-ai", { foreignReasoning: "text" });
    expect(content).toEqual([
      { type: "text", text: "Hm." },
      { type: "text", text: "Hello" },
    ]);
    expect(told).toEqual(["messages.reasoning.foreign: approximated"]);
    // Encrypted reasoning has no text.
    const both = await sent(CLAUDE, "google.generative-ai", { foreignReasoning: "text" });
    expect(both.told).toEqual(["messages.reasoning.foreign: dropped"]);
    await expect(
      sent(CLAUDE, "google.generative-ai", { foreignReasoning: "text", strict: true }),
    ).resolves.toMatchObject({
      error: { code: "failed_precondition" },
    });
  });

  it("loses the signatures of its texts and calls", async () => {
    const seal = { signature: "c2VhbA==", maker: "generate-content" } as const;
    const turn: Part[] = [
      { type: "text", text: "", ...seal },
      { type: "tool-call", id: "c", name: "t", input: {}, ...seal },
    ];
    const call = { type: "tool-call", toolCallId: "c", toolName: "t", input: {} };
    for (const provider of ["anthropic.messages", "openai.responses", "mistral.chat"])
      expect(await sent(turn, provider)).toEqual({
        content: [call],
        told: ["messages.signature.foreign: dropped"],
        error: undefined,
      });
    const providerOptions = { google: { thoughtSignature: "c2VhbA==" } };
    expect((await sent(turn, "google.generative-ai")).content).toEqual([
      { type: "text", text: "", providerOptions },
      { ...call, providerOptions },
    ]);
  });

  it("that has nothing but reasoning is left out", async () => {
    expect((await sent(CLAUDE.slice(0, 2), "google.generative-ai")).content).toBeUndefined();
  });
});

describe("a turn of which nobody knows the maker", () => {
  it("keeps its signature for a kind of model that has such signatures", async () => {
    const turn: Part[] = [{ type: "reasoning", text: "Hm.", signature: "c2VhbA==" }];
    expect((await sent(turn, "anthropic.messages")).content).toMatchObject([
      { providerOptions: { anthropic: { signature: "c2VhbA==" } } },
    ]);
    expect(await sent(turn, "deepseek.chat")).toMatchObject({
      content: [{ type: "reasoning", text: "Hm." }],
      told: ["messages.signature: dropped"],
    });
  });

  it.each(["anthropic.messages", "openai.responses"])("loses reasoning that %s refuses", async (provider) => {
    const turn: Part[] = [
      { type: "reasoning", text: "Hm." },
      { type: "text", text: "Hello" },
    ];
    expect(await sent(turn, provider)).toMatchObject({
      content: [{ type: "text", text: "Hello" }],
      told: ["messages.reasoning.unsealed: dropped"],
    });
  });

  it("is joined with a signature that follows its reasoning as another part", async () => {
    const turn: Part[] = [
      { type: "reasoning", text: "Hm." },
      { type: "reasoning", text: "", signature: "c2VhbA==", maker: "messages" },
    ];
    expect((await sent(turn, "anthropic.messages")).content).toEqual([
      { type: "reasoning", text: "Hm.", providerOptions: { anthropic: { signature: "c2VhbA==" } } },
    ]);
  });
});

describe("a turn of calls without reasoning, for a messages client that thinks", () => {
  const call = [
    { type: "tool-input-start", id: "a", toolName: "look" },
    { type: "tool-call", toolCallId: "a", toolName: "look", input: "{}" },
  ];
  const question = { model: "model-a", max_tokens: 9_000, messages: [{ role: "user" as const, content: "Go" }] };
  const thinking = { type: "enabled", budget_tokens: 2_000 } as const;

  /** Returns the blocks of the answer, and whether a messages upstream that continues the loop is asked to think. */
  async function answered(provider: string) {
    const { anthropic } = clientsBefore(
      aiSdk({ chat: { "model-a": fakeModel({ provider, stream: [START, ...call, FINISH] }) } }),
    );
    const { content } = await anthropic.messages.stream({ ...question, thinking }).finalMessage();
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "Seen" }] };
    const messages = [...question.messages, { role: "assistant", content }, result];
    const body = JSON.parse(JSON.stringify({ ...question, thinking, messages })) as JsonObject;
    const native = { format: "messages", body, betas: [] };
    const request = { ...chatRequest(), model: "claude-sonnet-4-5", maxOutputTokens: 9_000, native };
    const sent = messagesCodec().encodeRequest(request).body;
    return { types: content.map(({ type }) => type), thinks: sent["thinking"], sent };
  }

  it("has a mark, by which a messages upstream knows it for another provider's", async () => {
    for (const provider of ["openai.responses", "google.generative-ai", "other.chat"]) {
      const { types, thinks, sent } = await answered(provider);
      expect(types).toEqual(["redacted_thinking", "tool_use"]);
      expect(thinks).toEqual({ type: "disabled" });
      expect(JSON.stringify(sent)).not.toContain("redacted_thinking");
    }
  });

  it("has none where a model of Claude wrote it", async () => {
    expect(await answered("anthropic.messages")).toMatchObject({ types: ["tool_use"], thinks: thinking });
  });
});
