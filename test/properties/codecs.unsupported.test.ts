/** Each field of a request is in the neutral request, or is reported as a field of its own format only. */

import type * as v from "valibot";
import { describe, expect, it } from "vitest";
import { decodeRequest as decodeChatCompletions } from "../../src/formats/chat-completions/request.ts";
import { ChatCompletionsRequest } from "../../src/formats/chat-completions/schema.ts";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import { decodeRequest as decodeGenerateContent } from "../../src/formats/generate-content/request.ts";
import { GenerateContentRequest } from "../../src/formats/generate-content/schema.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { decodeRequest as decodeMessages } from "../../src/formats/messages/request.ts";
import { messagesRequest } from "../../src/formats/messages/schema.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";
import { decodeRequest as decodeResponses } from "../../src/formats/responses/request.ts";
import { ResponsesRequest } from "../../src/formats/responses/schema.ts";
import { assertValid } from "../../src/http/validation.ts";
import type { ChatRequest } from "../../src/index.ts";
import { NOTHING_BEFORE } from "./responses.arbitraries.request.ts";
import { CHAT_COMPLETIONS, GENERATE_CONTENT, MESSAGES, RESPONSES } from "./wire-fields.requests.ts";
import { Fields, type Read } from "./wire-fields.ts";

const MessagesRequest = messagesRequest({ vendorRanges: true, vendorSources: true });

/** Decodes a body, valid or not. */
type Decode = (body: never) => ChatRequest;
const messagesOf: Decode = (body) => decodeMessages(body, { betas: [] });
const chatCompletionsOf: Decode = (body) => decodeChatCompletions(body, 1);
const generateContentOf: Decode = (body) =>
  decodeGenerateContent(body, { model: "m", stream: false, defaultMaxOutputTokens: 1 });

const responsesOf: Decode = (body) => decodeResponses({ body, own: NOTHING_BEFORE }, 1);

const reading =
  (decode: Decode) =>
  (body: unknown): Read => {
    const { native, ...said } = decode(body as never);
    return { said, unsupported: native?.unsupported?.() ?? [] };
  };

describe.each<[string, v.GenericSchema, Decode, readonly object[], readonly string[]]>([
  [
    "messages",
    MessagesRequest,
    messagesOf,
    MESSAGES,
    // The size of its pieces does not change a call's input.
    ["tools.eager_input_streaming: true → false"],
  ],
  [
    "chat completions",
    ChatCompletionsRequest,
    chatCompletionsOf,
    CHAT_COMPLETIONS,
    [
      // The gateway itself decides about the counts at the end of an answer.
      "stream_options.include_usage: true → false",
      // Both roles instruct.
      'messages.role: "developer" → "system"',
      'messages.role: "system" → "developer"',
      // The position of a call replaces its index, and the call names the tool of its result.
      "messages.tool_calls.index: 0 → 1",
      'messages.name: "f" → "ff"',
      // A piece of reasoning is its text or its data, whatever it is called, and comes from anywhere.
      'messages.content.thinking.type: "text" → "texttext"',
      "messages.content.closed: true → false",
      'messages.reasoning_details.type: "reasoning.encrypted" → "reasoning.encryptedreasoning.encrypted"',
      'messages.reasoning_details.type: "reasoning.text" → "reasoning.textreasoning.text"',
      "messages.reasoning_details.index: 0 → 1",
      'messages.reasoning_details.id: "r" → "rr"',
      'messages.reasoning_details.format: "f" → "ff"',
    ],
  ],
  [
    "generate-content",
    GenerateContentRequest,
    generateContentOf,
    GENERATE_CONTENT,
    [
      // The address names the model, and an instruction's role has no meaning.
      'model: "models/m" → "models/mmodels/m"',
      'systemInstruction.role: "system" → "systemsystem"',
      // All of these roles mean the user.
      'contents.role: "user" → "function"',
      'contents.role: "user" → "tool"',
      'contents.role: "user" → ""',
      // An enumeration is always of texts.
      'generationConfig.responseSchema.type: "STRING" → "STRINGSTRING"',
      'generationConfig.responseSchema.format: "enum" → "enumenum"',
      // A picture at an address has its own type.
      'contents.parts.fileData.mimeType: "image/png" → "image/pngimage/png"',
      'contents.parts.functionResponse.parts.fileData.mimeType: "image/png" → "image/pngimage/png"',
    ],
  ],
  [
    "Responses",
    ResponsesRequest,
    responsesOf,
    RESPONSES,
    [
      // The gateway's own store and its ids, and what the answer repeats.
      "store: false → true",
      "background: false → true",
      'previous_response_id: "resp_1" → "resp_1resp_1"',
      'conversation.id: "conv_1" → "conv_1conv_1"',
      'metadata: {"a":"b"} → {"a":"b","other":1}',
      // The gateway gave these to its items, and streams nothing that has to be hidden.
      'input.id: "item_1" → "item_1item_1"',
      'input.status: "completed" → "completedcompleted"',
      'input.phase: "commentary" → "commentarycommentary"',
      "stream_options.include_obfuscation: false → true",
      // Both roles instruct, and a summary is shown or not.
      'input.role: "developer" → "system"',
      'reasoning.summary: "auto" → "autoauto"',
      'reasoning.generate_summary: "auto" → "autoauto"',
      'input.summary.type: "summary_text" → "reasoning_text"',
      'input.content.type: "reasoning_text" → "summary_text"',
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
    // An instruction is only text: other parts in it are refused. A prompt of the provider's store is refused too.
    const refused = /^(?:systemInstruction\.parts\.(?!text|thought)|prompt$)/;
    expect(fields.unseen.filter((path) => !refused.test(path))).toEqual([]);
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
])("is told, or not, for what stands beside it: %s", (_name, decode, sample, unsupported) => {
  const asked = decode === generateContentOf ? { contents: "Hi" } : { model: "m", max_tokens: 9, messages: hi };
  expect(decode({ ...asked, ...sample } as never).native?.unsupported?.() ?? []).toEqual(unsupported);
});

it("tells callers of each such field, and of 32 with names of 100 characters at most", () => {
  const body = { model: "m", messages: hi, logit_bias: { "1": -100 }, web_search_options: { a: 1 } };
  const request = chatCompletionsOf(body as never);
  const conversions = ["native.logit_bias", "native.web_search_options"].map((field) => ({
    field,
    conversion: "dropped",
    why: "Only the caller's own format has this field.",
  }));
  for (const codec of [messagesCodec(), generateContentCodec()])
    expect(codec.encodeRequest(request).conversions).toEqual(conversions);
  expect(chatCompletionsCodec().encodeRequest(request).conversions).toEqual([]);
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`field_${index}`, 1]));
  expect(chatCompletionsOf({ ...body, ...many } as never).native?.unsupported?.()).toHaveLength(32);
  expect(chatCompletionsOf({ ...body, ["x".repeat(1_000)]: 1 } as never).native?.unsupported?.()).toContain(
    "x".repeat(100),
  );
});
