/** What an upstream of the chat-completions format is asked, and what becomes of what the format cannot say. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import type { ChatRequest, NativeRequest, Part } from "../../../src/index.ts";
import { having } from "./stage.ts";

const codec = chatCompletionsCodec();

const asking = (changes: Partial<ChatRequest> = {}): ChatRequest => ({
  model: "model-a",
  messages: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
  system: [],
  tools: [],
  stopSequences: [],
  maxOutputTokens: 100,
  stream: false,
  ...changes,
});

const withParts = (...parts: Part[]): ChatRequest => asking({ messages: [{ role: "user", parts }] });

const native = (body: object): NativeRequest => ({
  format: "chat-completions",
  body: body as Record<string, unknown>,
  betas: [],
});

const texts = (...list: string[]): object[] => list.map((text) => ({ type: "text", text }));

describe("a request of the same format", () => {
  it("is its own body, with what the gateway decided laid over it", () => {
    const body = { ...having({ max_tokens: 500 }), own: [1], stream: true, stream_options: { other: 1 } };
    const { conversions, path, headers, ...encoded } = codec.encodeRequest(
      asking({ native: native(body), model: "model-b", maxOutputTokens: 60, stream: true, topK: 5 }),
    );
    expect([conversions, path, headers]).toEqual([[], "/chat/completions", {}]);
    expect(encoded.body).toEqual({
      ...body,
      model: "model-b",
      max_tokens: 60,
      stream_options: { other: 1, include_usage: true },
    });
  });

  it.each([
    ["max_completion_tokens", { max_completion_tokens: 500 }, { max_completion_tokens: 60 }],
    ["both spellings", { max_completion_tokens: 500, max_tokens: 400 }, { max_completion_tokens: 60, max_tokens: 60 }],
    ["no limit", {}, { max_completion_tokens: 60 }],
    ["a limit of null", { max_tokens: null }, { max_completion_tokens: 60, max_tokens: null }],
  ])("is limited where its caller said %s", (_name, said, limits) => {
    const { body } = codec.encodeRequest(asking({ native: native(having(said)), maxOutputTokens: 60 }));
    expect(body).toEqual(having(limits));
  });

  it("is limited by the older field for a server that knows that alone", () => {
    const older = chatCompletionsCodec({ outputLimitField: "max_tokens" });
    expect(older.encodeRequest(asking({ native: native(having()) })).body).toEqual(having({ max_tokens: 100 }));
    expect(older.encodeRequest(asking()).body).toEqual(having({ max_tokens: 100 }));
  });
});

const says = (text: string) => ({ type: "text", text }) as const;

/** Returns the messages behind a call, and the names of the conversions. */
const sentAfterCall = (...later: ChatRequest["messages"]) => {
  const { body, conversions } = codec.encodeRequest(
    asking({
      messages: [{ role: "assistant", parts: [{ type: "tool-call", id: "a", name: "clock", input: {} }] }, ...later],
    }),
  );
  return [(body["messages"] as object[]).slice(1), conversions.map(({ field }) => field)];
};

describe("a request of another format", () => {
  const IMAGE = {
    type: "media",
    kind: "image",
    source: { type: "base64", mediaType: "image/png", data: "AAAA" },
  } as const;
  const WIRE_IMAGE = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  const LONG = `toolu_${"x".repeat(60)}`;

  it("always asks a stream for its counts", () => {
    expect(codec.encodeRequest(asking({ stream: true })).body).toEqual(
      having({ max_completion_tokens: 100, stream: true, stream_options: { include_usage: true } }),
    );
  });

  it.each<[string, Partial<ChatRequest>, object, Record<string, string>]>([
    ["topK", { topK: 5 }, {}, { topK: "dropped" }],
    ["safety", { safety: [{ category: "violence", threshold: "low" }] }, {}, { safety: "dropped" }],
    ["cachedContent", { cachedContent: "c" }, {}, { cachedContent: "rejected" }],
    ["enhancedCivicAnswers", { enhancedCivicAnswers: true }, {}, { enhancedCivicAnswers: "dropped" }],
    [
      "five stops",
      { stopSequences: ["a", "b", "c", "d", "e"] },
      { stop: ["a", "b", "c", "d"] },
      { stopSequences: "emulated" },
    ],
    ["four stops", { stopSequences: ["a", "b", "c", "d"] }, { stop: ["a", "b", "c", "d"] }, {}],
    [
      "a budget for reasoning",
      { reasoning: { type: "enabled", budgetTokens: 4_000 } },
      { reasoning_effort: "medium" },
      { "reasoning.budgetTokens": "approximated" },
    ],
    ["an effort", { reasoning: { type: "adaptive", effort: "max" } }, { reasoning_effort: "max" }, {}],
    ["free reasoning", { reasoning: { type: "adaptive" } }, {}, { "reasoning.adaptive": "approximated" }],
    [
      "one of several values",
      { responseFormat: { type: "enum", values: ["a", "b"] } },
      {
        response_format: {
          type: "json_schema",
          json_schema: {
            name: "answer",
            schema: {
              type: "object",
              properties: { value: { type: "string", enum: ["a", "b"] } },
              required: ["value"],
              additionalProperties: false,
            },
            strict: true,
          },
        },
      },
      { "responseFormat.enum": "emulated" },
    ],
    [
      "tools of others",
      {
        tools: [{ type: "code-execution" }, { type: "provider", format: "messages", definition: { type: "bash" } }],
        toolChoice: { type: "auto", parallel: true },
      },
      {},
      { "tools.code-execution": "dropped", "tools.provider": "dropped" },
    ],
    [
      "a cache hint on a tool",
      { tools: [{ type: "function", name: "a", inputSchema: {}, cache: {} }] },
      { tools: [{ type: "function", function: { name: "a", parameters: { type: "object" } } }] },
      { "messages.cache": "dropped" },
    ],
    [
      "modalities that are not there",
      { modalities: ["text", "image"] },
      { modalities: ["text"] },
      { modalities: "dropped" },
    ],
    ["only a modality that is not there", { modalities: ["image"] }, {}, { modalities: "dropped" }],
    [
      "speech",
      { modalities: ["audio"], speech: { voice: "verse", language: "en-US" } },
      { modalities: ["audio"], audio: { voice: "verse", format: "wav" } },
      { speech: "approximated" },
    ],
  ])("says %s as it can", (_name, changes, wire, expected) => {
    const { body, conversions } = codec.encodeRequest(asking(changes));
    expect(body).toEqual(having({ max_completion_tokens: 100, ...wire }));
    expect(Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion]))).toEqual(expected);
    for (const { why } of conversions) expect(why).toMatch(/^[A-Z].*\.$/);
  });

  it.each<[string, Part[], unknown, Record<string, string>]>([
    ["a cache hint", [{ type: "text", text: "Hi", cache: { ttl: "1h" } }], "Hi", { "messages.cache": "dropped" }],
    ["a signature", [{ type: "text", text: "Hi", signature: "s" }], "Hi", { "messages.signature": "dropped" }],
    ["a film", [{ ...IMAGE, kind: "video" }], "", { "messages.media.video": "rejected" }],
    ["a picture by id", [{ ...IMAGE, source: { type: "file", id: "f" } }], "", { "messages.media": "rejected" }],
    [
      "a sound by its address",
      [{ type: "media", kind: "audio", source: { type: "url", url: "https://a.b" } }],
      "",
      { "messages.media.audio": "rejected" },
    ],
    [
      "a document by its address",
      [{ type: "document", source: { type: "url", url: "https://a.b" } }],
      "",
      { "messages.document.url": "rejected" },
    ],
    [
      "a document of text",
      [{ type: "document", title: "T", context: "C", citations: true, source: { type: "text", text: "x" } }],
      ["T", "C", "x"].map((text) => ({ type: "text", text })),
      {
        "messages.document.citations": "dropped",
        "messages.document.context": "approximated",
        "messages.document.text": "approximated",
      },
    ],
    [
      "a document of parts",
      [{ type: "document", source: { type: "parts", parts: [{ type: "text", text: "x" }, IMAGE] } }],
      [{ type: "text", text: "x" }, WIRE_IMAGE],
      { "messages.document.text": "approximated" },
    ],
    ["another's part", [{ type: "provider", format: "messages", value: {} }], "", { "messages.provider": "dropped" }],
    [
      "code",
      [{ type: "code", language: "python", code: "1" }],
      "\n```python\n1\n```\n",
      { "messages.code": "approximated" },
    ],
  ])("says %s in a message as it can", (_name, parts, content, expected) => {
    const { body, conversions } = codec.encodeRequest(withParts(...parts));
    expect(body["messages"]).toEqual([{ role: "user", content }]);
    expect(Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion]))).toEqual(expected);
  });

  it("lets results follow their calls at once, their pictures after them, under ids that are short enough", () => {
    const { body, conversions } = codec.encodeRequest(
      asking({
        messages: [
          {
            role: "assistant",
            parts: [
              { type: "reasoning", text: "Hm", signature: "s" },
              { type: "redacted-reasoning", data: "r" },
              { type: "tool-call", id: LONG, name: "a", input: { x: 1 } },
            ],
          },
          {
            role: "user",
            parts: [
              { type: "text", text: "Here" },
              {
                type: "tool-result",
                callId: LONG,
                isError: true,
                parts: [{ type: "text", text: "no" }, { type: "json", value: { y: 2 } }, IMAGE],
              },
            ],
          },
          { role: "assistant", parts: [{ type: "text", text: "So" }] },
        ],
      }),
    );
    const id = expect.stringMatching(/^call_x+_1$/);
    expect(body["messages"]).toEqual([
      { role: "assistant", tool_calls: [{ type: "function", id, function: { name: "a", arguments: '{"x":1}' } }] },
      { role: "tool", tool_call_id: id, content: texts("The tool has failed.", "no", '{"y":2}') },
      { role: "user", content: [WIRE_IMAGE, ...texts("Here")] },
      { role: "assistant", content: "So" },
    ]);
    expect(Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion]))).toEqual({
      "messages.prefill": "approximated",
      "messages.reasoning": "dropped",
      "messages.redacted-reasoning": "dropped",
      "messages.tool-call.id": "emulated",
      "messages.tool-result.order": "approximated",
      "messages.tool-result.isError": "approximated",
      "messages.tool-result.media": "approximated",
      "messages.tool-result.json": "approximated",
    });
  });

  it("lets results go before the named speakers of their turn, and keeps parts of its own where they are", () => {
    const result = { type: "tool-result", callId: "a", parts: [{ type: "text", text: "noon" }] } as const;
    const odd = { type: "provider", format: "chat-completions", value: { role: "odd" } } as const;
    const told = { role: "tool", tool_call_id: "a", content: "noon" };
    expect(
      sentAfterCall({ role: "user", name: "Ann", parts: [says("Hi")] }, { role: "user", parts: [result, says("On")] }),
    ).toEqual([
      [told, { role: "user", content: "Hi", name: "Ann" }, { role: "user", content: "On" }],
      ["messages.tool-result.order"],
    ]);
    expect(sentAfterCall({ role: "user", parts: [odd, result] })).toEqual([[odd.value, told], []]);
  });

  it("tells the resolution of its media as the detail of each picture", () => {
    const { body } = codec.encodeRequest({ ...withParts(IMAGE, { ...IMAGE, detail: "high" }), mediaResolution: "low" });
    expect(body["messages"]).toMatchObject([
      { content: [{ image_url: { detail: "low" } }, { image_url: { detail: "high" } }] },
    ]);
  });
});
