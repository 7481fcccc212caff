/** Each field that a request may have stands in the neutral request, or is told to be its own format's alone. */

import { describe, expect, it } from "vitest";
import type * as v from "valibot";
import { chatCompletionsCodec } from "../../src/dialects/chat-completions/codec.ts";
import { decodeRequest as decodeChatCompletions } from "../../src/dialects/chat-completions/request.ts";
import { ChatCompletionsRequest } from "../../src/dialects/chat-completions/schema.ts";
import { generateContentCodec } from "../../src/dialects/generate-content/codec.ts";
import { decodeRequest as decodeGenerateContent } from "../../src/dialects/generate-content/request.ts";
import { GenerateContentRequest } from "../../src/dialects/generate-content/schema.ts";
import { messagesCodec } from "../../src/dialects/messages/codec.ts";
import { decodeRequest as decodeMessages } from "../../src/dialects/messages/request.ts";
import { messagesRequest } from "../../src/dialects/messages/schema.ts";
import { assertValid } from "../../src/http/validation.ts";
import type { ChatRequest } from "../../src/index.ts";
import { CHAT_COMPLETIONS, GENERATE_CONTENT, MESSAGES } from "./wire-fields.requests.ts";
import { Fields, type Read } from "./wire-fields.ts";

const MessagesRequest = messagesRequest({ vendorRanges: true, vendorSources: true });

/** Reads a body, whether or not it is valid. */
type Decode = (body: never) => ChatRequest;
const messagesOf: Decode = (body) => decodeMessages(body, { betas: [] });
const chatCompletionsOf: Decode = (body) => decodeChatCompletions(body, 1);
const generateContentOf: Decode = (body) =>
  decodeGenerateContent(body, { model: "m", stream: false, defaultMaxOutputTokens: 1 });

const reading =
  (decode: Decode) =>
  (body: unknown): Read => {
    const { native, ...said } = decode(body as never);
    return { said, unsaid: native?.unsaid?.() ?? [] };
  };

describe.each<[string, v.GenericSchema, Decode, readonly object[], readonly string[]]>([
  [
    "messages",
    MessagesRequest,
    messagesOf,
    MESSAGES,
    // In which pieces a call's input comes means nothing for what it is.
    ["tools.eager_input_streaming: true → false"],
  ],
  [
    "chat completions",
    ChatCompletionsRequest,
    chatCompletionsOf,
    CHAT_COMPLETIONS,
    [
      // Whether an answer ends with its counts is between the caller and the gateway.
      "stream_options.include_usage: true → false",
      // Both instruct.
      'messages.role: "developer" → "system"',
      'messages.role: "system" → "developer"',
      // A call's place and its tool's name are told by where it stands.
      "messages.tool_calls.index: 0 → 1",
      'messages.name: "f" → "ff"',
    ],
  ],
  [
    "generate-content",
    GenerateContentRequest,
    generateContentOf,
    GENERATE_CONTENT,
    [
      // The model stands in the address, and an instruction's role means nothing.
      'model: "models/m" → "models/mmodels/m"',
      'systemInstruction.role: "system" → "systemsystem"',
      // All of these are the user's.
      'contents.role: "user" → "function"',
      'contents.role: "user" → "tool"',
      'contents.role: "user" → ""',
      // One of several texts is a text.
      'generationConfig.responseSchema.type: "STRING" → "STRINGSTRING"',
      'generationConfig.responseSchema.format: "enum" → "enumenum"',
      // A picture that is elsewhere says its own type.
      'contents.parts.fileData.mimeType: "image/png" → "image/pngimage/png"',
      'contents.parts.functionResponse.parts.fileData.mimeType: "image/png" → "image/pngimage/png"',
    ],
  ],
])("a request of %s", (_name, schema, decode, samples, silent) => {
  const fields = new Fields(schema);

  it("has each of its fields said in other formats, or told", () => {
    for (const sample of samples) {
      assertValid(schema, sample);
      fields.see(sample, reading(decode));
    }
    expect([...fields.silent].toSorted()).toEqual(silent.toSorted());
  });

  it("has a sample of each field", () => {
    // An instruction is text alone: other parts in it are refused.
    expect(fields.unseen.filter((path) => !/^systemInstruction\.parts\.(?!text|thought)/.test(path))).toEqual([]);
  });
});

const hi = [{ role: "user", content: "Hi" }];

it.each<[string, Decode, object, readonly string[]]>([
  [
    "an effort beside a budget",
    messagesOf,
    { thinking: { type: "enabled", budget_tokens: 2_000 }, output_config: { effort: "low" } },
    ["output_config.effort"],
  ],
  ["an effort alone", messagesOf, { output_config: { effort: "low" } }, ["output_config.effort"]],
  ["a second end user", chatCompletionsOf, { user: "a", safety_identifier: "b" }, ["user"]],
  ["the same end user twice", chatCompletionsOf, { user: "a", safety_identifier: "a" }, []],
  ["what says nothing", chatCompletionsOf, { store: null, prediction: {}, functions: [] }, []],
  [
    "a level beside a budget",
    generateContentOf,
    { generationConfig: { thinkingConfig: { thinkingBudget: 5, thinkingLevel: "LOW" } } },
    ["generationConfig.thinkingConfig.thinkingLevel"],
  ],
  [
    "what is said about one of several texts",
    generateContentOf,
    {
      generationConfig: {
        responseMimeType: "text/x.enum",
        responseSchema: { type: "STRING", enum: ["a"], title: "A" },
      },
    },
    ["generationConfig.responseSchema.title"],
  ],
])("is told, or not, for what stands beside it: %s", (_name, decode, sample, unsaid) => {
  const asked = decode === generateContentOf ? { contents: "Hi" } : { model: "m", max_tokens: 9, messages: hi };
  expect(decode({ ...asked, ...sample } as never).native?.unsaid?.() ?? []).toEqual(unsaid);
});

it("tells callers of each such field, and of 32 with names of 100 characters at most", () => {
  const body = { model: "m", messages: hi, logit_bias: { "1": -100 }, functions: [{}] };
  const request = chatCompletionsOf(body as never);
  const fates = ["native.logit_bias", "native.functions"].map((field) => ({
    field,
    fate: "dropped",
    why: "Only the caller's own format has words for it.",
  }));
  for (const codec of [messagesCodec, generateContentCodec]) expect(codec.encodeRequest(request).fates).toEqual(fates);
  expect(chatCompletionsCodec().encodeRequest(request).fates).toEqual([]);
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`field_${index}`, 1]));
  expect(chatCompletionsOf({ ...body, ...many } as never).native?.unsaid?.()).toHaveLength(32);
  expect(chatCompletionsOf({ ...body, ["x".repeat(1_000)]: 1 } as never).native?.unsaid?.()).toContain("x".repeat(100));
});
