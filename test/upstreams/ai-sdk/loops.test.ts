/** Loops of tool calls through the official providers, before upstreams that remember what they have signed. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { describe, expect, it } from "vitest";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import { aiSdk, type AiSdkChatModel, type AiSdkOptions } from "../../../src/upstreams/ai-sdk/index.ts";
import { turnOf } from "../../properties/conversations/turns.ts";
import { ask } from "./fake-models.ts";
import { responsesUpstream, scriptedUpstream, type ScriptedUpstream } from "./scripted.ts";
import { clientsBefore } from "./stage.ts";

const TOOLS: ChatRequest["tools"] = [
  { type: "function", name: "look", inputSchema: { type: "object", properties: { at: { type: "number" } } } },
];
const ASKED: Partial<ChatRequest> = {
  tools: TOOLS,
  maxOutputTokens: 20_000,
  reasoning: { type: "enabled", budgetTokens: 2_048 },
};

/** A conversation that goes on from turn to turn, with one model or with several. */
class Loop {
  readonly #messages: ChatRequest["messages"][number][] = [{ role: "user", parts: [{ type: "text", text: "Go" }] }];
  readonly #stream: boolean;

  constructor(stream: boolean) {
    this.#stream = stream;
  }

  /** Asks for the next turn, runs its tools, and returns the names of the reported conversions. */
  async next(model: AiSdkChatModel, options: Partial<AiSdkOptions> = {}): Promise<string[]> {
    const request = { ...ASKED, messages: [...this.#messages], stream: this.#stream };
    const { events, error, conversions } = await ask(model, request, options);
    if (error !== undefined) throw new Error("The model failed.", { cause: error });
    const parts = turnOf(events);
    const calls = parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : []));
    this.#messages.push({ role: "assistant", parts });
    this.#messages.push({
      role: "user",
      parts:
        calls.length > 0
          ? calls.map((callId) => ({ type: "tool-result", callId, parts: [{ type: "text", text: "Seen" }] }) as const)
          : [{ type: "text", text: "Go on" }],
    });
    return conversions.map(({ field, conversion }) => `${field}: ${conversion}`);
  }
}

const claude = ({ fetch }: ScriptedUpstream): AiSdkChatModel =>
  createAnthropic({ apiKey: "k", baseURL: "http://upstream.test/v1", fetch })("claude-sonnet-4-5");
const gemini = ({ fetch }: ScriptedUpstream): AiSdkChatModel =>
  createGoogle({ apiKey: "k", baseURL: "http://upstream.test/v1beta", fetch })("gemini-3-pro-preview");
const gpt = ({ fetch }: ScriptedUpstream): AiSdkChatModel =>
  createOpenAI({ apiKey: "k", baseURL: "http://upstream.test/v1", fetch }).responses("gpt-5");

describe.each([
  ["complete", false],
  ["streamed", true],
])("a loop of six turns, %s", (_name, stream) => {
  it.each([
    ["anthropic", claude, () => scriptedUpstream("messages")],
    ["google", gemini, () => scriptedUpstream("generate-content")],
    ["openai", gpt, responsesUpstream],
  ] as const)("brings back to %s all that it has signed", async (_provider, modelOn, upstreamOf) => {
    const upstream = upstreamOf();
    const [loop, model] = [new Loop(stream), modelOn(upstream)];
    const options = { providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } } };
    for (let turn = 0; turn < 6; turn++) {
      const told = await loop.next(model, options);
      expect(told.filter((conversion) => conversion.startsWith("messages."))).toEqual([]);
      expect(upstream.sealsSent()).toEqual(upstream.issued.slice(0, upstream.sealsBefore(turn)));
    }
    expect(upstream.issued.length).toBeGreaterThanOrEqual(6);
  });

  it("survives switches of the model within the loop", async () => {
    const upstreams = {
      claude: scriptedUpstream("messages"),
      gemini: scriptedUpstream("generate-content"),
      gpt: responsesUpstream(),
    };
    const models = { claude: claude(upstreams.claude), gemini: gemini(upstreams.gemini), gpt: gpt(upstreams.gpt) };
    const loop = new Loop(stream);
    const options = { providerOptions: { openai: { store: false } } };
    for (const name of ["gemini", "claude", "gpt", "claude", "gemini", "gpt", "gemini", "claude"] as const) {
      const told = await loop.next(models[name], options);
      const upstream = upstreams[name];
      const others = Object.values(upstreams).filter((other) => other !== upstream);
      const hasForeign = others.some(({ issued }) => issued.length > 0);
      expect(told.some((field) => /^messages\.(?:reasoning|signature)\.foreign: dropped$/.test(field))).toBe(
        hasForeign,
      );
      // All its own signatures come back, however often others have answered meanwhile, and no other.
      const before = upstream.sealsBefore(upstream.sent.length - 1);
      expect(upstream.sealsSent()).toEqual(upstream.issued.slice(0, before));
      expect(JSON.stringify(upstream.sent.at(-1)?.body)).not.toMatch(/"(?:signature|thoughtSignature|thinking)":""/);
    }
    for (const { issued } of Object.values(upstreams)) expect(issued.length).toBeGreaterThan(1);
  });

  it("sends Gemini the documented text in place of a signature that another model could not make", async () => {
    const [own, other] = [scriptedUpstream("generate-content"), scriptedUpstream("messages")];
    const loop = new Loop(stream);
    await loop.next(claude(other));
    await loop.next(gemini(own));
    expect(JSON.stringify(own.sent.at(-1)?.body)).toContain('"thoughtSignature":"skip_thought_signature_validator"');
  });

  it("gives a budget up where the turn began without reasoning, and reasons again in the next turn", async () => {
    const [own, other] = [scriptedUpstream("messages"), scriptedUpstream("generate-content")];
    const loop = new Loop(stream);
    await loop.next(gemini(other));
    expect(await loop.next(claude(own))).toContain("reasoning: dropped");
    expect(own.sent.at(-1)?.body).toMatchObject({ thinking: { type: "disabled" } });
    for (let turn = 0; turn < 4; turn++) await loop.next(claude(own));
    // The fifth answer had no call, so the user has spoken and a new turn begins.
    expect(await loop.next(claude(own))).not.toContain("reasoning: dropped");
    expect(own.sent.at(-1)?.body).toMatchObject({ thinking: { type: "enabled", budget_tokens: 2_048 } });
  });
});

const text = (said: string) => ({ type: "text", text: said }) as const;
const call = (id: string) => ({ type: "tool-call", id, name: "look", input: {} }) as const;
const result = (callId: string) => ({ type: "tool-result", callId, parts: [text("Seen")] }) as const;

describe("a budget in a loop of tool calls", () => {
  const own = { type: "reasoning", text: "Hm.", signature: "c2ln", maker: "messages" } as const;
  const go = { role: "user", parts: [text("Go")] } as const;
  const first = [go, { role: "assistant", parts: [own, call("a")] }, { role: "user", parts: [result("a")] }] as const;
  const foreign = { role: "assistant", parts: [call("b")] } as const;

  it.each<[name: string, messages: ChatRequest["messages"], isKept: boolean]>([
    ["of its own", first, true],
    [
      "of its own, with a later turn of another model",
      [...first, foreign, { role: "user", parts: [result("b")] }],
      false,
    ],
    [
      "of another model, where the user has spoken beside the results",
      [go, foreign, { role: "user", parts: [result("b"), text("So?")] }],
      false,
    ],
    [
      "where the user has spoken behind the results of another model, in the same turn",
      [go, foreign, { role: "user", parts: [result("b")] }, ...first],
      false,
    ],
    [
      "of its own, behind the end of another model's",
      [go, foreign, { role: "user", parts: [result("b")] }, { role: "assistant", parts: [text("Done")] }, ...first],
      true,
    ],
  ])("%s", async (_name, messages, isKept) => {
    const { body, told } = await askClaude({ messages });
    expect(body).toMatchObject({ thinking: { type: isKept ? "enabled" : "disabled" } });
    expect(told.includes("reasoning: dropped")).toBe(!isKept);
  });
});

describe("a client that sends back nothing but its calls", () => {
  const tools = [{ type: "function" as const, function: { name: "look", parameters: { type: "object" } } }];

  it.each([
    ["anthropic", claude, () => scriptedUpstream("messages"), true],
    ["google", gemini, () => scriptedUpstream("generate-content"), false],
    ["openai", gpt, responsesUpstream, true],
  ] as const)("goes on with %s as if it had sent back all", async (_provider, modelOn, upstreamOf, stream) => {
    const upstream = upstreamOf();
    const providerOptions = { openai: { store: false } };
    const { openai } = clientsBefore(aiSdk({ chat: { "model-a": modelOn(upstream) }, providerOptions }));
    const messages: ChatCompletionMessageParam[] = [{ role: "user", content: "Go" }];
    for (let turn = 0; turn < 4; turn++) {
      const request = { model: "model-a", messages, tools, reasoning_effort: "low" } as const;
      const message = stream
        ? (await openai.chat.completions.stream(request).finalChatCompletion()).choices[0]?.message
        : (await openai.chat.completions.create(request)).choices[0]?.message;
      expect(upstream.sealsSent()).toEqual(upstream.issued.slice(0, upstream.sealsBefore(turn)));
      const calls = (message?.tool_calls ?? []).flatMap((call) => (call.type === "function" ? [call] : []));
      expect(calls.length).toBeGreaterThan(0);
      const tool_calls = calls.map(({ id, type, function: { name, arguments: json } }) => ({
        id,
        type,
        function: { name, arguments: json },
      }));
      messages.push({ role: "assistant", tool_calls });
      for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: "Seen" });
    }
  });

  it("goes on without, where the host has turned the memory off", async () => {
    const upstream = scriptedUpstream("messages");
    const backend = aiSdk({ chat: { "model-a": claude(upstream) }, limits: { maxRememberedChars: 0 } });
    const { openai } = clientsBefore(backend);
    const messages: ChatCompletionMessageParam[] = [{ role: "user", content: "Go" }];
    const request = { model: "model-a", messages, tools };
    const { choices } = await openai.chat.completions.create(request);
    const calls = choices[0]?.message.tool_calls ?? [];
    messages.push({ role: "assistant", tool_calls: calls });
    for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: "Seen" });
    await openai.chat.completions.create(request);
    expect(upstream.issued.length).toBeGreaterThan(1);
    expect(upstream.sealsSent()).toEqual([]);
  });
});

/** Asks a model of Claude, and returns the body that its service gets, with the reported conversions. */
const askClaude = async (more: Partial<ChatRequest>, options: Partial<AiSdkOptions> = {}) => {
  const upstream = scriptedUpstream("messages");
  const { error, conversions } = await ask(claude(upstream), { ...ASKED, ...more }, options);
  if (error !== undefined) throw new Error("The model failed.", { cause: error });
  const body = upstream.sent.at(-1)?.body;
  return { body, told: conversions.map(({ field, conversion }) => `${field}: ${conversion}`) };
};

describe("reasoning beside the rest of a request", () => {
  it("lets Gemini CLI's own request through", async () => {
    const { body, told } = await askClaude({
      maxOutputTokens: 65_536,
      reasoning: { type: "enabled", budgetTokens: 8_191, visible: true },
      temperature: 1,
      topP: 0.95,
      topK: 64,
    });
    expect(body).toMatchObject({ thinking: { type: "enabled", budget_tokens: 8_191 } });
    for (const field of ["temperature", "top_p", "top_k"]) expect(body).not.toHaveProperty(field);
    expect(told).toEqual(expect.arrayContaining(["temperature: dropped", "topP: dropped", "topK: dropped"]));
  });

  it("is given up for a forced tool, for a prefill, and for a small output limit", async () => {
    const prefill: ChatRequest["messages"] = [
      { role: "user", parts: [{ type: "text", text: "Go" }] },
      { role: "assistant", parts: [{ type: "text", text: "I" }] },
    ];
    for (const more of [
      { toolChoice: { type: "required", parallel: true } },
      { toolChoice: { type: "tool", name: "look", parallel: true } },
      { messages: prefill },
      { maxOutputTokens: 1_200 },
    ] as const) {
      const { body, told } = await askClaude(more);
      expect(body).toMatchObject({ thinking: { type: "disabled" } });
      expect(told).toContain("reasoning: dropped");
    }
    const { body } = await askClaude({ toolChoice: { type: "required", parallel: true } });
    expect(body).toMatchObject({ tool_choice: { type: "any" } });
    const forced = { toolChoice: { type: "required", parallel: true } } as const;
    const byEffort = await askClaude(forced, { reasoning: () => "effort" });
    expect(byEffort.body).not.toHaveProperty("thinking");
    expect(byEffort.told).toEqual(["reasoning: dropped"]);
  });

  it("leaves room for the answer", async () => {
    const { body, told } = await askClaude({
      maxOutputTokens: 8_000,
      reasoning: { type: "enabled", budgetTokens: 8_191 },
    });
    expect(body).toMatchObject({ max_tokens: 8_000, thinking: { type: "enabled", budget_tokens: 6_400 } });
    expect(told).toContain("reasoning.budgetTokens: approximated");
  });

  it("has its room in the default limit only where a model is known to reason", async () => {
    const more = { maxOutputTokens: 24_576, maxAnswerTokens: 8_192 };
    const adaptive = { ...more, reasoning: { type: "adaptive", effort: "high" } } as const;
    expect((await askClaude(adaptive)).body).toMatchObject({ max_tokens: 24_576, thinking: { budget_tokens: 16_384 } });
    expect((await askClaude(adaptive, { reasoning: () => "none" })).body).toMatchObject({ max_tokens: 8_192 });
    const upstream = scriptedUpstream("generate-content");
    await ask(gemini(upstream), { ...ASKED, ...adaptive });
    expect(upstream.sent.at(-1)?.body).toMatchObject({ generationConfig: { maxOutputTokens: 8_192 } });
  });

  it("is left to the provider for a model that is none of Claude's", async () => {
    const upstream = scriptedUpstream("messages");
    const model = createAnthropic({ apiKey: "k", baseURL: "http://upstream.test/v1", fetch: upstream.fetch })("glm-5");
    const { conversions } = await ask(model, { ...ASKED, reasoning: { type: "adaptive" } });
    expect(upstream.sent.at(-1)?.body).toMatchObject({ thinking: { type: "adaptive" } });
    expect(conversions.map(({ field }) => field)).not.toContain("reasoning.adaptive");
    await ask(model, { ...ASKED, reasoning: { type: "adaptive" } }, { reasoning: () => "budget" });
    expect(upstream.sent.at(-1)?.body).toMatchObject({ thinking: { type: "enabled", budget_tokens: 8_192 } });
  });

  it("is converted to the control that the host names", async () => {
    const adaptive = { reasoning: { type: "adaptive", effort: "high" } } as const;
    const budget = await askClaude(adaptive, { reasoning: () => "budget" });
    expect(budget.body).toMatchObject({ thinking: { type: "enabled", budget_tokens: 16_000 } });
    expect(budget.told).toContain("reasoning.effort: approximated");
    const effort = await askClaude({}, { reasoning: (model) => (model === "claude-sonnet-4-5" ? "effort" : "none") });
    expect(effort.told).toContain("reasoning.budgetTokens: approximated");
    const none = await askClaude(adaptive, { reasoning: () => "none" });
    expect(none.body).not.toHaveProperty("thinking");
    expect(none.told).toContain("reasoning: dropped");
  });
});
