/** Requests and answers of the providers' interface, in each of its versions. */

import { createOpenAI } from "@ai-sdk/openai";
import type { ImageModelV4, LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { toFile } from "openai";
import { describe, expect, expectTypeOf, it } from "vitest";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import {
  aiSdk,
  type AiSdkChatModel,
  type AiSdkImageModel,
  type AiSdkOptions,
} from "../../../src/upstreams/ai-sdk/index.ts";
import { png } from "../../formats/images/pictures.ts";
import { callContext, chatRequest } from "../relay/stage.ts";
import { ask, type Asked, draw, FINISH, fakeModel, imageModel, type Part, said, START, USAGE } from "./fake-models.ts";
import { clientsBefore, upstreamOf } from "./stage.ts";

const PNG = Buffer.from(png());
const PICTURE = { type: "base64", mediaType: "image/png", data: PNG.toString("base64") } as const;

it("takes the library's own models, by their types", () => {
  expectTypeOf<LanguageModelV4>().toExtend<AiSdkChatModel>();
  expectTypeOf<ImageModelV4>().toExtend<AiSdkImageModel>();
});

const byFunction = (name: string) => (name === "plain-1" ? fakeModel({ stream: [START, FINISH] }) : undefined);

describe("the options of the host", () => {
  it.each([
    ["no model", {}],
    ["a model that is none", { chat: { a: {} } }],
    ["a model of an older version", { chat: { a: { ...fakeModel({}), specificationVersion: "v1" } } }],
    ["null", { images: { a: null } }],
    ["a wrong word", { chat: { a: fakeModel({}) }, foreignReasoning: "keep" }],
    ["a wrong limit", { chat: { a: fakeModel({}) }, limits: { rememberedMs: -1 } }],
  ])("are refused at once: %s", (_name, options) => {
    expect(() => aiSdk(options as never)).toThrow(/^aiSdk: /);
  });

  it("say what is on offer, by its kind and limits", () => {
    const info = { a: { maxOutputTokens: 9 } };
    const both = aiSdk({ chat: { a: fakeModel({}), b: fakeModel({}) }, images: { b: imageModel(() => ({})) }, info });
    expect(both.models?.()).toEqual([
      { id: "a", kinds: ["chat"], maxOutputTokens: 9 },
      { id: "b", kinds: ["chat", "image"] },
    ]);
    expect(Object.keys(aiSdk({ chat: () => undefined }))).toEqual(["takesUnknown", "upstreamsOf", "status", "chat"]);
  });

  it("are told with the last failure of each provider", async () => {
    const down = fakeModel({ provider: "down", stream: () => Promise.reject(new Error("away")) });
    const up = fakeModel({ provider: "up", stream: [START, FINISH] });
    const backend = aiSdk({ chat: { down, up, again: up } });
    const read = async (model: string): Promise<unknown> => {
      const events: unknown[] = [];
      for await (const event of backend.chat?.(chatRequest({ model }), callContext()) ?? []) events.push(event);
      return events;
    };
    await expect(read("down")).rejects.toMatchObject({ code: "backend_failed" });
    expect(await read("up")).not.toEqual([]);
    const state = { route: "*", state: "closed", waitMs: 0 };
    const lastFailure = { code: "backend_failed", at: expect.any(Number) };
    expect(backend.status?.()).toEqual([
      { ...state, upstream: "down", lastFailure },
      { ...state, upstream: "up", lastFailure: undefined },
    ]);
  });

  it("are told with their errors in a row", async () => {
    const down = fakeModel({ provider: "down", stream: () => Promise.reject(new Error("away")) });
    const backend = aiSdk({ chat: { down } });
    for (let call = 0; call < 3; call++) {
      const events = backend.chat?.(chatRequest({ model: "down" }), callContext());
      await expect(events?.[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "backend_failed" });
    }
    expect(backend.status?.()).toMatchObject([{ upstream: "down", failing: { code: "backend_failed", times: 3 } }]);
  });

  it("keep the last failures of the latest providers that a function names, and forget the oldest", async () => {
    const backend = aiSdk({
      chat: (name) => fakeModel({ provider: name, stream: () => Promise.reject(new Error("away")) }),
    });
    const ask = async (model: string): Promise<void> => {
      const events = backend.chat?.(chatRequest({ model }), callContext());
      await expect(events?.[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "backend_failed" });
    };
    const names = Array.from({ length: 101 }, (_, at) => `p${at}`);
    for (const name of names) await ask(name);
    await ask("p1");
    await ask("p101");
    expect(backend.status?.()?.map(({ upstream }) => upstream)).toEqual([...names.slice(3), "p1", "p101"]);
  });

  it("find a model by a function, or have none", async () => {
    expect((await ask(fakeModel({}), {}, { chat: byFunction })).error).toBeUndefined();
    expect((await ask(fakeModel({}), { model: "other" }, { chat: byFunction })).error).toMatchObject({
      code: "model_not_found",
    });
    expect((await ask(fakeModel({}), { model: "__proto__" })).error).toMatchObject({ code: "model_not_found" });
  });
});

/** Returns the options that a model gets for a request. */
async function askedWith(more: Partial<ChatRequest>, script: Parameters<typeof fakeModel>[0] = {}, options = {}) {
  const model = fakeModel({ stream: [START, FINISH], ...script });
  const { error, conversions } = await ask(model, more, options);
  const asked = model.asked[0] as unknown as LanguageModelV4CallOptions | undefined;
  return { asked, error, conversions: conversions.map(({ field, conversion }) => `${field}: ${conversion}`) };
}

const at = (url: string): Partial<ChatRequest> => ({
  messages: [{ role: "user", parts: [{ type: "media", kind: "image", source: { type: "url", url } }] }],
});

describe("a request", () => {
  it("is said in full", async () => {
    const { asked, conversions } = await askedWith({
      system: [{ type: "text", text: "Be short." }],
      temperature: 0.5,
      topP: 0.9,
      topK: 5,
      seed: 7,
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      stopSequences: ["END"],
      responseFormat: { type: "json", schema: { type: "object" }, name: "city" },
      tools: [{ type: "function", name: "t", description: "d", inputSchema: { type: "object" }, strict: true }],
      toolChoice: { type: "tool", name: "t", parallel: true },
      reasoning: { type: "adaptive", effort: "high" },
    });
    expect(conversions).toEqual([]);
    expect(asked).toMatchObject({
      prompt: [
        { role: "system", content: "Be short." },
        { role: "user", content: [{ type: "text", text: "Hello" }] },
      ],
      maxOutputTokens: 100,
      temperature: 0.5,
      topP: 0.9,
      topK: 5,
      seed: 7,
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      stopSequences: ["END"],
      responseFormat: { type: "json", schema: { type: "object" }, name: "city" },
      tools: [{ type: "function", name: "t", description: "d", inputSchema: { type: "object" }, strict: true }],
      toolChoice: { type: "tool", toolName: "t" },
      reasoning: "high",
    });
  });

  it("reports what the model cannot be asked, or is refused where the host is strict", async () => {
    const request: Partial<ChatRequest> = {
      candidateCount: 2,
      logprobs: { top: 1 },
      endUser: "u",
      serviceTier: "auto",
      tools: [{ type: "code-execution" }],
      toolChoice: { type: "auto", parallel: false },
    };
    const { asked, conversions } = await askedWith(request);
    expect(asked).not.toHaveProperty("toolChoice");
    expect(conversions.toSorted()).toEqual(
      ["candidateCount", "logprobs", "endUser", "serviceTier", "tools.code-execution", "toolChoice.parallel"]
        .map((field) => `${field}: dropped`)
        .toSorted(),
    );
    const refused = await askedWith(request, {}, { strict: true });
    expect(refused.error).toMatchObject({ code: "failed_precondition" });
    expect(refused.asked).toBeUndefined();
    // A demand is never lost.
    for (const toolChoice of [
      { type: "required", parallel: true },
      { type: "tool", name: "t", parallel: true },
    ] as const) {
      const { error } = await askedWith({ ...request, toolChoice });
      expect(error).toMatchObject({ message: expect.stringContaining("toolChoice.unmet") as string });
    }
  });

  it("is told the results of tools before all else that was said since their calls", async () => {
    const { asked, conversions } = await askedWith({
      messages: [
        { role: "assistant", parts: [{ type: "tool-call", id: "a", name: "t", input: {} }] },
        { role: "user", parts: [{ type: "text", text: "Hurry." }] },
        { role: "system", parts: [{ type: "text", text: "Be brief." }] },
        { role: "user", parts: [{ type: "tool-result", callId: "a", parts: [{ type: "text", text: "done" }] }] },
      ],
    });
    expect(asked?.prompt.map(({ role }) => role)).toEqual(["assistant", "tool", "user"]);
    expect(conversions).toContain("messages.tool-result.order: approximated");
  });

  it.each([
    ["anthropic.messages", "x".repeat(100), "srv.tool", "srv_tool"],
    ["google.generative-ai", "srv.tool", "3d", "_3d"],
    ["mistral.chat", "x".repeat(64), "srv.tool", "srv_tool"],
  ])("has the names of tools that %s accepts, and its answer has the caller's", async (provider, fits, odd, sent) => {
    const request: Partial<ChatRequest> = {
      tools: [fits, odd].map((name) => ({ type: "function", name, inputSchema: {} })),
      messages: [
        { role: "assistant", parts: [{ type: "tool-call", id: "a", name: odd, input: {} }] },
        {
          role: "user",
          parts: [{ type: "tool-result", callId: "a", name: odd, parts: [{ type: "json", value: {} }] }],
        },
      ],
    };
    const called = { type: "tool-call", toolCallId: "a", toolName: sent, input: "{}" };
    const model = fakeModel({ provider, stream: [START, called, FINISH] });
    const { events, conversions } = await ask(model, request);
    const inHistory = { content: [{ toolName: sent }] };
    expect(model.asked[0]).toMatchObject({
      tools: [{ name: fits }, { name: sent }],
      prompt: [inHistory, inHistory],
    });
    expect(conversions.map(({ field }) => field)).toEqual(["tools.function.name"]);
    expect(events).toContainEqual(expect.objectContaining({ type: "tool-call-start", name: odd }));
    const answer = () => ({ content: [called], finishReason: "tool-calls", usage: USAGE });
    const whole = await ask(fakeModel({ provider, answer }), { ...request, stream: false });
    expect(whole.events).toContainEqual(expect.objectContaining({ name: odd }));
  });

  const CLOSED = {
    type: "object",
    properties: { n: { type: "integer" } },
    required: ["n"],
    additionalProperties: false,
  };
  const BOUNDED = { ...CLOSED, properties: { n: { type: "integer", minimum: 1 } } };
  const LOOSE = { ...CLOSED, required: [] };

  it.each([
    ["anthropic.messages", CLOSED, true],
    ["anthropic.messages", LOOSE, true],
    ["anthropic.messages", BOUNDED, false],
    ["openai.chat", BOUNDED, true],
    ["openai.chat", LOOSE, false],
    ["other.chat", LOOSE, true],
  ])("of a strict tool is strict where %s takes the schema %j", async (provider, inputSchema, isStrict) => {
    const tools = [{ type: "function" as const, name: "t", inputSchema, strict: true }];
    const { asked, conversions } = await askedWith({ tools }, { provider });
    expect(asked?.tools).toEqual([{ type: "function", name: "t", inputSchema, ...(isStrict && { strict: true }) }]);
    expect(conversions).toEqual(isStrict ? [] : ["tools.function.strict: dropped"]);
  });

  it("has an object at the root of each schema of arguments, except for Google", async () => {
    const tools = [{ type: "function" as const, name: "t", inputSchema: {} }];
    const sent = async (provider: string) => (await askedWith({ tools }, { provider })).asked?.tools;
    expect(await sent("openai.chat")).toEqual([{ ...tools[0], inputSchema: { type: "object" } }]);
    expect(await sent("google.generative-ai")).toEqual(tools);
  });

  it("has no stop sequences of white space for Anthropic", async () => {
    const stopSequences = ["\n\n", "END"];
    const { asked, conversions } = await askedWith({ stopSequences }, { provider: "anthropic.messages" });
    expect([asked?.stopSequences, conversions]).toEqual([["END"], ["stopSequences: emulated"]]);
    expect((await askedWith({ stopSequences })).asked?.stopSequences).toEqual(stopSequences);
  });

  it("asks a Claude that continues no turn to go on", async () => {
    const messages = (["user", "assistant"] as const).map((role) => ({
      role,
      parts: [{ type: "text" as const, text: "A" }],
    }));
    for (const [modelId, roles, told] of [
      ["claude-opus-4-6", ["user", "assistant", "user"], ["messages.prefill: approximated"]],
      ["claude-sonnet-4-5", ["user", "assistant"], []],
    ] as const) {
      const { asked, conversions } = await askedWith({ messages }, { provider: "anthropic.messages", modelId });
      expect([asked?.prompt.map(({ role }) => role), conversions]).toEqual([roles, told]);
    }
  });

  it("reports what the model itself warns of", async () => {
    const warnings = [
      { type: "unsupported", feature: "topK", details: "no" },
      { type: "unsupported-setting", setting: "seed" },
      { type: "compatibility", feature: "thinking" },
      { type: "other", message: "hm" },
      { type: "deprecated", setting: "x", message: "y" },
      null,
      7,
    ];
    const told = ["topK: dropped", "seed: dropped", "reasoning: approximated", "request: approximated"];
    expect(
      (await askedWith({ topK: 5 }, { stream: [{ type: "stream-start", warnings }, FINISH] })).conversions,
    ).toEqual(told);
    const answer = () => ({ content: [], finishReason: "stop", warnings });
    expect((await askedWith({ topK: 5, stream: false }, { answer })).conversions).toEqual(told);
    expect((await askedWith({}, { stream: [{ type: "stream-start", warnings: 7 }, FINISH] })).conversions).toEqual([]);
    const strict = await askedWith({}, { stream: [{ type: "stream-start", warnings }, FINISH] }, { strict: true });
    expect(strict.error).toMatchObject({ code: "failed_precondition" });
  });

  it.each([
    ["v4", { type: "file", mediaType: "image/png", data: { type: "data", data: PICTURE.data } }],
    ["v3", { type: "file", mediaType: "image/png", data: PICTURE.data }],
    ["v2", { type: "file", mediaType: "image/png", data: PICTURE.data }],
  ] as const)("shows its pictures, as version %s takes them", async (version, expected) => {
    const parts = [{ type: "media", kind: "image", source: PICTURE }] as const;
    const { asked, conversions } = await askedWith({ messages: [{ role: "user", parts }] }, { version });
    expect(asked?.prompt).toEqual([{ role: "user", content: [expected] }]);
    expect(conversions).toEqual([]);
  });

  it.each([
    ["v4", { type: "file", mediaType: "image/png", data: { type: "data", data: PICTURE.data } }],
    ["v3", { type: "image-data", mediaType: "image/png", data: PICTURE.data }],
    ["v2", { type: "media", mediaType: "image/png", data: PICTURE.data }],
  ] as const)("brings pictures of a tool, as version %s takes them", async (version, expected) => {
    const { asked } = await askedWith(
      {
        messages: [
          { role: "user", parts: [{ type: "text", text: "Look" }] },
          { role: "assistant", parts: [{ type: "tool-call", id: "c", name: "look", input: {} }] },
          {
            role: "user",
            parts: [
              {
                type: "tool-result",
                callId: "c",
                isError: true,
                parts: [
                  { type: "text", text: "Here" },
                  { type: "media", kind: "image", source: PICTURE },
                ],
              },
              { type: "text", text: "Well?" },
            ],
          },
        ],
      },
      { version, provider: "fake.responses" },
    );
    const value = [{ type: "text", text: "The tool failed." }, { type: "text", text: "Here" }, expected];
    expect(asked?.prompt.slice(2)).toEqual([
      {
        role: "tool",
        content: [{ type: "tool-result", toolCallId: "c", toolName: "look", output: { type: "content", value } }],
      },
      { role: "user", content: [{ type: "text", text: "Well?" }] },
    ]);
  });

  it("names an address only where the model's own service fetches it", async () => {
    const supportedUrls = Promise.resolve({ "image/*": [/^https:\/\/pictures\.example\//] });
    const { asked } = await askedWith(at("https://pictures.example/a.png"), { supportedUrls });
    expect(asked?.prompt[0]?.content).toMatchObject([
      { data: { type: "url", url: new URL("https://pictures.example/a.png") } },
    ]);
    expect(asked?.prompt[0]?.content).toMatchObject([{ mediaType: "image/png" }]);
    // Google's provider refuses an address without an exact type.
    const { asked: unnamed } = await askedWith(at("https://pictures.example/a?b=c.png"), { supportedUrls });
    expect(unnamed?.prompt[0]?.content).toMatchObject([{ mediaType: "image/jpeg" }]);
    for (const url of ["http://169.254.169.254/x", "file:///etc/passwd", "data:text/html,x", "nothing"]) {
      const refused = await askedWith(at(url), { supportedUrls: { "*": [/^https:/, /^file:/] } });
      expect(refused.error).toMatchObject({ code: "failed_precondition" });
      expect(refused.asked).toBeUndefined();
    }
  });

  it("names no file of the host's account", async () => {
    const parts = [{ type: "media", kind: "image", source: { type: "file", id: "file-1" } }] as const;
    expect((await askedWith({ messages: [{ role: "user", parts }] })).error).toMatchObject({
      code: "failed_precondition",
    });
  });

  it("leaves the limit for reasoning within the limit of the answer", async () => {
    const reasoning = { type: "enabled", budgetTokens: 2_000 } as const;
    const { asked } = await askedWith({ maxOutputTokens: 3_000, reasoning }, { provider: "anthropic.messages" });
    // The provider adds the budget to the limit.
    expect(asked).toMatchObject({
      maxOutputTokens: 1_000,
      providerOptions: { anthropic: { thinking: { budgetTokens: 2_000 } } },
    });
  });

  it("carries the host's own options, which win", async () => {
    const own = { anthropic: { disableParallelToolUse: false }, openai: { store: false } };
    const { asked } = await askedWith(
      {
        toolChoice: { type: "auto", parallel: false },
        endUser: "u",
        tools: [{ type: "function", name: "t", inputSchema: {} }],
      },
      { provider: "anthropic.messages" },
      { providerOptions: own },
    );
    expect(asked?.providerOptions).toEqual({
      anthropic: { disableParallelToolUse: false, metadata: { userId: "u" } },
      openai: { store: false },
    });
  });

  it.each([
    ["anthropic.messages", 256],
    ["openai.responses", 64],
  ])("names the end user to %s in at most %i characters, or not at all", async (provider, length) => {
    for (const [endUser, told] of [
      ["u".repeat(length), []],
      ["u".repeat(length + 1), ["endUser: dropped"]],
    ] as const) {
      const { asked, conversions } = await askedWith({ endUser }, { provider });
      expect(conversions).toEqual(told);
      expect(JSON.stringify(asked).includes(endUser)).toBe(told.length === 0);
    }
  });
});

const endOf = async (finish: Part) => (await ask(fakeModel({ stream: [START, finish] }))).events.at(-1);

const runs = (id: string, toolName: string, input = "{}"): Part => ({
  type: "tool-call",
  toolCallId: id,
  toolName,
  input,
  providerExecuted: true,
});
const result = (toolCallId: string, result: unknown, more: object = {}): Part => ({
  type: "tool-result",
  toolCallId,
  toolName: "any",
  result,
  ...more,
});
const action = (type: string): object => ({ action: { type } });
const USED: readonly Part[] = [
  runs("a", "web_search"),
  result("a", action("search")),
  result("a", action("search")),
  runs("a", "web_search"),
  runs("b", "web_search_preview"),
  result("b", {}, { preliminary: true }),
  result("b", {}),
  runs("c", "web_search"),
  result("c", action("openPage")),
  runs("d", "web_search"),
  result("d", action("findInPage")),
  runs("e", "web_search"),
  result("e", { status: "failed" }, { isError: true }),
  runs("j", "web_search"),
  result("j", {}, { preliminary: true }),
  result("j", {}, { isError: true }),
  runs("f", "code_interpreter", '{"code":"1","containerId":"cntr_a"}'),
  result("f", {}),
  runs("g", "code_interpreter", '{"containerId":"cntr_a"}'),
  result("g", {}),
  runs("h", "code_interpreter", "1"),
  result("h", {}),
  runs("i", "server:GOOGLE_SEARCH_WEB"),
  result("i", {}),
  result("x", {}),
];

const kindsOf = (tokens: number): object[] => [
  { modality: "image", tokens },
  { modality: "unspecified", tokens: 0 },
];
const countsOf = (tokenCount: number): object[] => [{ modality: "IMAGE", tokenCount }, { modality: "MOON" }];

/** Returns the tier that an answer begins with. */
async function tierBy(providerOptions: NonNullable<AiSdkOptions["providerOptions"]>): Promise<unknown> {
  const { events } = await ask(fakeModel({ stream: [START, ...said("Hi"), FINISH] }), {}, { providerOptions });
  const [start] = events;
  return start?.type === "start" ? start.usage : undefined;
}

describe("an answer", () => {
  const V2_FINISH: Part = {
    type: "finish",
    finishReason: "stop",
    usage: { inputTokens: 12, outputTokens: 30, cachedInputTokens: 4, reasoningTokens: 10, totalTokens: 42 },
  };

  it("tells what it took, by kind, in each version", async () => {
    const raw = {
      cache_creation: { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 },
      server_tool_use: { web_search_requests: 3 },
      service_tier: "priority",
    };
    expect(await endOf({ ...FINISH, usage: { ...USAGE, raw } })).toEqual({
      type: "finish",
      reason: "stop",
      usage: {
        inputTokens: 12,
        outputTokens: 30,
        cacheReadTokens: 4,
        cacheWriteTokens: 3,
        reasoningTokens: 10,
        cacheWritesByTtl: { "5m": 1, "1h": 2 },
        serverToolUses: { web_search: 3 },
        serviceTier: "priority",
      },
    });
    expect(await endOf(V2_FINISH)).toEqual({
      type: "finish",
      reason: "stop",
      usage: { inputTokens: 12, outputTokens: 30, cacheReadTokens: 4, reasoningTokens: 10 },
    });
  });

  it.each([
    [{ unified: "stop", raw: "pause_turn" }, "pause"],
    [{ unified: "content-filter", raw: "refusal" }, "refusal"],
    [{ unified: "content-filter", raw: "RECITATION" }, "recitation"],
    [{ unified: "error", raw: "MALFORMED_FUNCTION_CALL" }, "malformed-tool-call"],
    [{ unified: "length", raw: "max_tokens" }, "length"],
    [{ unified: "stop", raw: "toString" }, "stop"],
    ["content-filter", "content-filter"],
    ["unknown", "other"],
  ])("that ends by %j ended by %s", async (finishReason, reason) => {
    const { events } = await ask(fakeModel({ stream: [START, { ...FINISH, finishReason }] }));
    expect(events.at(-1)).toMatchObject({ type: "finish", reason });
  });

  it("tells the stop sequence that ended it", async () => {
    const finish = { ...FINISH, finishReason: { unified: "stop", raw: "stop_sequence" } };
    const told = { ...finish, providerMetadata: { anthropic: { stopSequence: "END" } } };
    expect(await endOf(told)).toMatchObject({ reason: "stop-sequence", stopSequence: "END" });
    expect(await endOf(finish)).toMatchObject({ reason: "stop" });
  });

  it("calls tools in parallel, in pieces and whole, with the marks that come late", async () => {
    const metadata = { openai: { itemId: "fc_1" } };
    const { events, error } = await ask(
      fakeModel({
        stream: [
          START,
          { type: "response-metadata", id: "resp_1", modelId: "fake-1-exact" },
          { type: "tool-input-start", id: "a", toolName: "one" },
          { type: "tool-input-start", id: "b", toolName: "two" },
          { type: "tool-input-delta", id: "b", delta: '{"x":' },
          { type: "tool-input-delta", id: "a", delta: "{}" },
          { type: "tool-input-delta", id: "b", delta: "1}" },
          { type: "tool-input-end", id: "a" },
          { type: "tool-call", toolCallId: "a", toolName: "one", input: "{}" },
          { type: "tool-call", toolCallId: "b", toolName: "two", input: '{"x":1}', providerMetadata: metadata },
          { type: "tool-call", toolCallId: "c", toolName: "three", input: "" },
          { type: "tool-input-start", id: "s", toolName: "web_search", providerExecuted: true },
          { type: "tool-input-delta", id: "s", delta: "{}" },
          { type: "tool-call", toolCallId: "s", toolName: "web_search", input: "{}", providerExecuted: true },
          { type: "source", sourceType: "url", id: "1", url: "https://a.example", title: "A" },
          FINISH,
        ],
      }),
    );
    expect(error).toBeUndefined();
    const signed = { signature: JSON.stringify(metadata), maker: "ai-sdk.fake" };
    expect(events.filter(({ type }) => type !== "provider")).toEqual([
      { type: "start", maker: "ai-sdk.fake", model: "plain-1" },
      { type: "tool-call-start", id: "a", name: "one" },
      { type: "tool-call-start", id: "b", name: "two" },
      { type: "tool-call-delta", id: "b", json: '{"x":' },
      { type: "tool-call-delta", id: "a", json: "{}" },
      { type: "tool-call-delta", id: "b", json: "1}" },
      { type: "tool-call-end", id: "a" },
      { type: "tool-call-end", id: "b", ...signed },
      { type: "tool-call-start", id: "c", name: "three" },
      { type: "tool-call-end", id: "c" },
      { type: "annotation", annotation: { type: "grounding", chunks: [{ uri: "https://a.example", title: "A" }] } },
      { type: "finish", reason: "stop", usage: expect.objectContaining({ serverToolUses: { web_search: 1 } }) },
    ]);
  });

  it("counts each use of the provider's own tools once, as soon as it has ended", async () => {
    const uses = { web_search: 2, code_interpreter: 2 };
    const { events } = await ask(fakeModel({ stream: [START, ...USED, new Error("It broke off.")] }));
    const told = events.flatMap((event) => (event.type === "usage" ? [event.usage.serverToolUses] : []));
    expect(told).toEqual([
      { web_search: 1 },
      { web_search: 2 },
      { web_search: 2, code_interpreter: 1 },
      { web_search: 2, code_interpreter: 2 },
    ]);
    const later = [runs("y", "file_search"), runs("z", "web_search")];
    const whole = await ask(fakeModel({ answer: () => ({ ...FINISH, content: [...USED, ...later], warnings: [] }) }), {
      stream: false,
    });
    expect(whole.events.at(-1)).toMatchObject({
      usage: { serverToolUses: { ...uses, web_search: 3, file_search: 1 } },
    });
    // The counts of the provider's bill are more exact.
    const raw = { server_tool_use: { web_search_requests: 7 } };
    const billed = await ask(fakeModel({ stream: [START, ...USED, { ...FINISH, usage: { ...USAGE, raw } }] }));
    expect(billed.events.at(-1)).toMatchObject({ usage: { serverToolUses: { ...uses, web_search: 7 } } });
  });

  it.each<[string, object, object]>([
    [
      "Google's grounding",
      {
        google: {
          groundingMetadata: { webSearchQueries: ["a", "b"] },
          groundingMetadataPerRequest: [{ webSearchQueries: ["b", "c"] }, 1],
        },
      },
      { serverToolUses: { web_search: 3, web_search_prompt: 1 } },
    ],
    ["a tier of OpenAI", { openai: { serviceTier: "priority" } }, { serviceTier: "priority" }],
    ["a tier of Google", { google: { serviceTier: "FLEX", groundingMetadata: null } }, { serviceTier: "flex" }],
  ])("tells %s from the provider's metadata", async (_name, providerMetadata, usage) => {
    for (const stream of [true, false])
      for (const version of ["v2", "v3", "v4"] as const) {
        const finish = { ...(version === "v2" ? V2_FINISH : FINISH), providerMetadata };
        const model = fakeModel({
          version,
          stream: [START, finish],
          answer: () => ({ ...finish, content: [], warnings: [] }),
        });
        expect((await ask(model, { stream })).events.at(-1)).toMatchObject({ usage });
      }
    const auto = await endOf({ ...FINISH, providerMetadata: { openai: { serviceTier: "auto" } } });
    expect(auto).not.toHaveProperty("usage.serviceTier");
  });

  it("tells what it took in the words of Google and OpenAI, in each version", async () => {
    const google = {
      trafficType: "ON_DEMAND_PRIORITY",
      promptTokensDetails: countsOf(4),
      candidatesTokensDetails: countsOf(2),
      billedToolCalls: [{ tool: "google_search", successfulToolCallCount: 2 }],
    };
    const told = {
      serviceTier: "priority",
      details: { input: kindsOf(4), output: kindsOf(2) },
      serverToolUses: { web_search: 2, web_search_prompt: 1 },
    };
    expect(await endOf({ ...FINISH, usage: { ...USAGE, raw: google } })).toMatchObject({ usage: told });
    const noted = { ...V2_FINISH, providerMetadata: { google: { usageMetadata: google } } };
    expect(await endOf(noted)).toMatchObject({ usage: { inputTokens: 12, ...told } });
    const anthropic = { usage: { service_tier: "priority", server_tool_use: { web_search_requests: 3 } } };
    expect(await endOf({ ...V2_FINISH, providerMetadata: { anthropic } })).toMatchObject({
      usage: { serviceTier: "priority", serverToolUses: { web_search: 3 } },
    });
    const openai = { prompt_tokens_details: { audio_tokens: 3 }, completion_tokens_details: { image_tokens: 2 } };
    expect(await endOf({ ...FINISH, usage: { ...USAGE, raw: openai } })).toMatchObject({
      usage: { details: { input: [{ modality: "audio", tokens: 3 }], output: [{ modality: "image", tokens: 2 }] } },
    });
  });

  it("has the tier of the host's options until the provider tells another", async () => {
    expect(await tierBy({ openai: { serviceTier: "flex" } })).toEqual({ serviceTier: "flex" });
    expect(await tierBy({ googleVertex: { sharedRequestType: "priority" } })).toEqual({ serviceTier: "priority" });
    for (const options of [{}, { openai: { serviceTier: "auto" } }, { openai: { serviceTier: 1 } }])
      expect(await tierBy(options)).toBeUndefined();
  });

  it("shows pictures that it made, and fetches none", async () => {
    const { events } = await ask(
      fakeModel({
        stream: [
          START,
          { type: "file", mediaType: "image/png", data: new Uint8Array(PNG) },
          { type: "file", mediaType: "image/png", data: { type: "data", data: PICTURE.data } },
          { type: "reasoning-file", mediaType: "image/png", data: { type: "data", data: PICTURE.data } },
          { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("http://127.0.0.1:1/") } },
          FINISH,
        ],
      }),
    );
    const media = { type: "media", mediaType: "image/png", data: PICTURE.data };
    expect(events.slice(1, 4)).toEqual([media, media, { ...media, thought: true }]);
    expect(events[4]).toMatchObject({ type: "provider" });
  });

  it("has an id of the gateway's own in every format, not the provider's", async () => {
    const model = fakeModel({
      stream: [START, { type: "response-metadata", id: "upstream-1" }, ...said("Hello"), FINISH],
      answer: () => ({ ...FINISH, content: [{ type: "text", text: "Hello" }], response: { id: "upstream-1" } }),
    });
    const { anthropic, genai, openai } = clientsBefore(aiSdk({ chat: { "model-a": model } }));
    const messages = [{ role: "user" as const, content: "Hello" }];
    const asked = { model: "model-a", max_tokens: 10, messages };
    const streamed = (await openai.chat.completions.create({ ...asked, stream: true }))[Symbol.asyncIterator]();
    const first = await streamed.next();
    expect([
      (await anthropic.messages.create(asked)).id,
      (await anthropic.messages.stream(asked).finalMessage()).id,
      (await openai.chat.completions.create(asked)).id,
      (first.value as { id: string }).id,
      (await genai.models.generateContent({ model: "model-a", contents: "Hello" })).responseId,
    ]).toEqual([
      expect.stringMatching(/^msg_/),
      expect.stringMatching(/^msg_/),
      expect.stringMatching(/^chatcmpl-/),
      expect.stringMatching(/^chatcmpl-/),
      expect.not.stringContaining("upstream"),
    ]);
  });

  it("keeps the provider's name of the model to itself, unless the host shows it", async () => {
    const stream = [START, { type: "response-metadata", modelId: "fake-1-exact" }, ...said("Hello"), FINISH];
    expect((await ask(fakeModel({ stream }))).events[0]).toEqual({
      type: "start",
      maker: "ai-sdk.fake",
      model: "plain-1",
    });
    const { events } = await ask(fakeModel({ stream }), {}, { showUpstreamModel: true });
    expect(events[0]).toEqual({ type: "start", maker: "ai-sdk.fake", model: "fake-1-exact" });
  });
});

const unasked = () => {
  throw new Error("asked");
};

describe("an image model", () => {
  it("is asked as often as it must be, for no more than was asked for", async () => {
    const told = { revisedPrompt: "A tall one", size: "1536x1024", quality: "medium" };
    const counts: unknown[] = [];
    const answer = ({ n }: Asked) => {
      counts.push(n);
      const images = [PICTURE.data, new Uint8Array(PNG), PICTURE.data];
      const providerMetadata = {
        openai: { images: [{ revisedPrompt: "A tall one", size: "1536x1024", quality: "medium", background: 7 }] },
      };
      return { images, providerMetadata, usage: { inputTokens: 2, outputTokens: 3 }, warnings: [] };
    };
    const { events, error } = await draw(imageModel(answer, { maxImagesPerCall: () => Promise.resolve(2) }), {
      count: 3,
    });
    expect(error).toBeUndefined();
    expect(counts).toEqual([2, 1]);
    expect(events.filter(({ type }) => type === "image")).toEqual([
      { type: "image", bytes: expect.any(Uint8Array), mediaType: "image/png", ...told },
      { type: "image", bytes: expect.any(Uint8Array), mediaType: "image/png" },
      { type: "image", bytes: expect.any(Uint8Array), mediaType: "image/png", ...told },
    ]);
    expect(events.findLast(({ type }) => type === "usage")).toMatchObject({
      usage: { inputTextTokens: 4, outputTokens: 6 },
    });
  });

  it("is told what it cannot do before it is asked", async () => {
    const file = { bytes: PNG, mediaType: "image/png", width: 8, height: 8 } as const;
    const failing = { error: { code: "failed_precondition" } };
    expect(await draw(imageModel(unasked), { operation: "vary", images: [file] })).toMatchObject(failing);
    const edit = { operation: "edit", images: [file], mask: file } as const;
    expect(await draw(imageModel(unasked, { specificationVersion: "v2" }), edit)).toMatchObject(failing);
    expect(await draw(imageModel(unasked, { supportsFileInputs: false }), edit)).toMatchObject(failing);
    expect(await draw(imageModel(unasked, { supportsMaskInputs: false }), edit)).toMatchObject(failing);
  });

  it("reports what it takes no field for, and what it warns of", async () => {
    const warnings = [{ type: "unsupported", feature: "size" }];
    const { conversions } = await draw(
      imageModel(() => ({ images: [PICTURE.data], warnings })),
      {
        style: "vivid",
        quality: "hd",
        partialImages: 2,
      },
    );
    expect(conversions.map(({ field }) => field)).toEqual(["partialImages", "style", "quality", "size"]);
  });

  it("of an official provider draws and edits for the official client", async () => {
    const upstream = upstreamOf();
    const openai = createOpenAI({ apiKey: "sk-upstream", baseURL: "http://upstream.test/v1", fetch: upstream.fetch });
    const backend = aiSdk({ images: { "image-model-multi": openai.image("gpt-image-1") } });
    const client = clientsBefore(backend);
    const drawn = await client.openai.images.generate({ model: "gpt-image-1", prompt: "A cat", quality: "low", n: 2 });
    expect(drawn.data).toHaveLength(2);
    expect(drawn.data?.[0]).toMatchObject({
      url: expect.stringMatching(/^http:\/\/gateway\.test\/v1\/images\/files\//),
      b64_json: expect.any(String),
    });
    expect(drawn.usage?.output_tokens).toBe(2 * 272);
    expect(upstream.sent[0]?.body).toMatchObject({ prompt: "A cat", n: 2, quality: "low", size: "1024x1024" });
    const image = await toFile(Buffer.from(png({ pixel: [0, 0, 0, 0] })), "a.png");
    const edited = await client.openai.images.edit({ model: "gpt-image-1", prompt: "A dog", image, mask: image });
    expect(edited.data?.[0]?.b64_json).toEqual(expect.any(String));
    const events: string[] = [];
    const stream = await client.openai.images.generate({
      model: "gpt-image-1",
      prompt: "A cat",
      stream: true,
      partial_images: 2,
    });
    for await (const { type } of stream) events.push(type);
    expect(events).toEqual(["image_generation.completed"]);
    expect(client.dropped()).toBe("partialImages");
    const missing = client.openai.images.generate({ model: "dall-e-3", prompt: "A cat" });
    await expect(missing).rejects.toMatchObject({ status: 404 });
  });
});
