/** Signatures of Gemini's, and what of a history reaches an upstream of the caller's own format. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import type { CodecOptions } from "../../../src/formats/format.ts";
import { wrapSeal } from "../../../src/formats/shared/seal.ts";
import type { ChatRequest, Part } from "../../../src/index.ts";
import { asking, CALLED, read, readWhole, type Sent, sent } from "./upstream.stage.ts";

const seal = { signature: "R2Vt", maker: "generate-content" };
const extra_content = { google: { thought_signature: "R2Vt" } };
const clock: Part = { type: "tool-call", id: "a", name: "clock", input: {} };
const gemini = { model: "google/gemini-3-pro-preview" };
const missing = { google: { thought_signature: "skip_thought_signature_validator" } };
const wireCall = (extra: object): object => ({
  role: "assistant",
  tool_calls: [{ ...CALLED.tool_calls[0], ...extra }],
});

describe("Gemini's signatures", () => {
  it("are read at the beginning of a call, at its end, and on a text", () => {
    const signed = { id: "a", function: { name: "clock", arguments: "{}" }, extra_content };
    expect(read({ tool_calls: [signed] })).toContainEqual({ type: "tool-call-start", id: "a", name: "clock", ...seal });
    expect(
      read(
        { tool_calls: [{ ...signed, extra_content: undefined, index: 0 }] },
        { tool_calls: [{ index: 0, extra_content }] },
      ),
    ).toContainEqual({ type: "tool-call-end", id: "a", ...seal });
    expect(read({ content: "Hi" }, { extra_content })).toContainEqual({ type: "text-delta", text: "", ...seal });
    expect(readWhole({ content: "Hi", extra_content })).toContainEqual({ type: "text-delta", text: "Hi", ...seal });
  });

  it.each<[string, Part, Partial<ChatRequest>, object, Sent["conversions"]]>([
    ["to Gemini", { ...clock, ...seal }, gemini, { extra_content }, {}],
    ["to Gemini, of nobody", { ...clock, signature: "R2Vt" }, gemini, { extra_content }, {}],
    ["to Gemini 3, as Google documents it for a call without one", clock, gemini, { extra_content: missing }, {}],
    [
      "to Gemini 3, in place of a foreign one",
      { ...clock, signature: "x", maker: "ai-sdk.other" },
      gemini,
      { extra_content: missing },
      { "messages.signature.foreign": "dropped" },
    ],
    ["to Gemini 2.5 only where there is one", clock, { model: "gemini-2.5-flash" }, {}, {}],
    ["to no other model", { ...clock, ...seal }, {}, {}, { "messages.signature.foreign": "dropped" }],
  ])("go %s", (_name, part, changes, extra, conversions) => {
    expect(sent([part], {}, changes)).toEqual({ message: wireCall(extra), conversions });
  });

  it("go to Gemini on a text, and only on the first of parallel calls where none has one", () => {
    expect(sent([{ type: "text", text: "Hi", ...seal }], {}, gemini).message).toEqual({
      role: "assistant",
      content: "Hi",
      extra_content,
    });
    const { message } = sent([clock, { ...clock, id: "b" }], {}, gemini);
    expect(message).toMatchObject({
      tool_calls: [
        { extra_content: missing },
        expect.not.objectContaining({ extra_content: expect.anything() as unknown }),
      ],
    });
  });
});

const wrapped = (value: string, maker = "messages", kind: "part" | "redacted" = "part"): string =>
  wrapSeal({ maker, value, kind });
const foreign = { type: "reasoning.text", text: "Hm", signature: wrapped("c2ln"), index: 0 };
const record = '{"field":"reasoning_details","details":[{"type":"reasoning.text","id":"r_1","chars":2}]}';
const wireClock = (extra: object = {}): object => ({ ...CALLED.tool_calls[0], ...extra });
const raw = { extra_content };

function through(message: object, model = "model-a", options: CodecOptions = {}): Sent {
  const messages = [
    { role: "user", content: "Hi" },
    { role: "assistant", ...message },
  ];
  const native = { format: "chat-completions", betas: [], body: { model, messages } };
  const { body, conversions } = chatCompletionsCodec(options).encodeRequest(asking([], { native, model }));
  const [, encoded] = body["messages"] as object[];
  return {
    message: encoded ?? {},
    conversions: Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion])),
  };
}

describe("a body of the same format", () => {
  it.each<[string, object, string, object, Sent["conversions"]]>([
    [
      "foreign seals and the text beside them",
      {
        reasoning_content: "m",
        reasoning_details: [foreign, { type: "reasoning.encrypted", data: wrapped("x", "messages", "redacted") }],
        content: "Yes",
      },
      "model-a",
      { content: "Yes" },
      { "messages.reasoning.foreign": "dropped" },
    ],
    [
      "the wrapping of its own seals",
      { reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: wrapped(record, "chat-completions") }] },
      "model-a",
      { reasoning_details: [{ type: "reasoning.text", text: "Hm", id: "r_1" }] },
      {},
    ],
    [
      "an empty signature",
      { reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "" }] },
      "model-a",
      { reasoning_details: [{ type: "reasoning.text", text: "Hm" }] },
      {},
    ],
    [
      "a wrapped signature of a call",
      { tool_calls: [wireClock({ extra_content: { google: { thought_signature: wrapped("x", "ai-sdk.other") } } })] },
      "model-a",
      { tool_calls: [wireClock()] },
      { "messages.signature.foreign": "dropped" },
    ],
    [
      "Gemini's signatures for a model of another maker",
      { extra_content: raw.extra_content, tool_calls: [wireClock(raw)] },
      "gpt-4o",
      { tool_calls: [wireClock()] },
      { "messages.signature.foreign": "dropped" },
    ],
    [
      "nothing else, but what Gemini 3 demands",
      { tool_calls: [wireClock()] },
      "gemini-3-flash",
      { tool_calls: [wireClock({ extra_content: missing })] },
      {},
    ],
  ])("loses %s", (_name, message, model, expected, conversions) => {
    expect(through(message, model)).toEqual({ message: { role: "assistant", ...expected }, conversions });
  });

  it.each<[string, object, string, object, Sent["conversions"]]>([
    [
      "OpenAI's models get no reasoning",
      { reasoning_content: "Hm", reasoning: "Hm", content: "Yes" },
      "gpt-5",
      { content: "Yes" },
      { "messages.reasoning": "dropped" },
    ],
    ["DeepSeek's get the field that they demand", CALLED, "deepseek-v4", { ...CALLED, reasoning_content: "" }, {}],
    [
      "DeepSeek's get it in place of foreign reasoning",
      { reasoning_content: "Hm", reasoning_details: [foreign], ...CALLED },
      "deepseek-v4",
      { ...CALLED, reasoning_content: "" },
      { "messages.reasoning.foreign": "dropped" },
    ],
  ])("is as its model takes it: %s", (_name, message, model, expected, conversions) => {
    expect(through(message, model)).toEqual({ message: { role: "assistant", ...expected }, conversions });
  });

  it("has foreign reasoning as text where the host wants it so", () => {
    expect(through({ reasoning_details: [foreign], content: "Yes" }, "model-a", { foreignReasoning: "text" })).toEqual({
      message: { role: "assistant", content: "Hm\n\nYes" },
      conversions: { "messages.reasoning.foreign": "approximated" },
    });
  });

  it.each([
    [{ reasoning_content: "Hm", content: "Yes" }, "deepseek-chat"],
    [
      {
        reasoning: "Hm",
        reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s", x: 1 }],
        content: null,
      },
      "model-a",
    ],
    [{ content: "", tool_calls: [wireClock(raw)], extra_content: raw.extra_content }, "gemini-3-pro"],
    [{ content: "", tool_calls: [wireClock(raw)] }, "a-name-of-the-host"],
    [{ content: "", tool_calls: [wireClock()] }, "gpt-5"],
  ])("stays as it came: %j to %s", (message, model) => {
    const messages = [{ role: "assistant", ...message }];
    const native = { format: "chat-completions", betas: [], body: { model, messages } };
    const { body, conversions } = chatCompletionsCodec().encodeRequest(asking([], { native, model }));
    expect(JSON.stringify(body["messages"])).toBe(JSON.stringify(messages));
    expect(conversions).toEqual([]);
  });
});
