/** Each field that a request may have stands in the neutral request, or is told to be its own format's alone. */

import { describe, expect, it } from "vitest";
import { decodeRequest as decodeChatCompletions } from "../../src/dialects/chat-completions/request.ts";
import { ChatCompletionsRequest } from "../../src/dialects/chat-completions/schema.ts";
import { GenerationConfig } from "../../src/dialects/generate-content/schema.config.ts";
import { GenerateContentRequest } from "../../src/dialects/generate-content/schema.ts";
import { decodeRequest as decodeMessages } from "../../src/dialects/messages/request.ts";
import { messagesRequest } from "../../src/dialects/messages/schema.ts";
import { generateContentCodec } from "../../src/dialects/generate-content/codec.ts";
import { messagesCodec } from "../../src/dialects/messages/codec.ts";
import { assertValid } from "../../src/http/validation.ts";
import type { ChatRequest } from "../../src/index.ts";
import { FORMATS } from "./conversations/formats.ts";

const MESSAGES = messagesRequest({ vendorRanges: true, vendorSources: true });
const tool = { name: "f", input_schema: {} };
const named = { type: "function", function: { name: "f" } };
const schema = { type: "object" };
const hi = [{ role: "user", content: "Hi" }];

/** A value of each field of a schema, and what else the field needs; behind it, the path that is told where it is not decoded. */
type Samples = Readonly<Record<string, readonly [sample: object, unsaid?: string]>>;

const OF_MESSAGES: Samples = {
  model: [{ model: "other" }],
  max_tokens: [{ max_tokens: 7 }],
  messages: [{ messages: [{ role: "user", content: "Ho" }] }],
  system: [{ system: "Be brief." }],
  metadata: [{ metadata: { user_id: "u", team: "a" } }, "metadata.team"],
  stop_sequences: [{ stop_sequences: ["END"] }],
  stream: [{ stream: true }],
  temperature: [{ temperature: 0.5 }],
  top_p: [{ top_p: 0.5 }],
  top_k: [{ top_k: 5 }],
  thinking: [{ thinking: { type: "between_tools", display: "omitted" } }, "thinking.type"],
  tool_choice: [{ tools: [tool], tool_choice: { type: "any" } }],
  tools: [{ tools: [{ ...tool, input_examples: [{}] }] }, "tools.input_examples"],
  output_config: [{ output_config: { effort: "low", format: { type: "grammar" } } }, "output_config.effort"],
  thread: [{ thread: "t_1" }, "thread"],
};

const OF_CHAT_COMPLETIONS: Samples = {
  model: [{ model: "other" }],
  messages: [{ messages: [{ role: "user", content: "Ho" }] }],
  max_completion_tokens: [{ max_completion_tokens: 7 }],
  max_tokens: [{ max_tokens: 7 }],
  stream: [{ stream: true }],
  stream_options: [{ stream_options: { include_obfuscation: true } }, "stream_options.include_obfuscation"],
  stop: [{ stop: "END" }],
  temperature: [{ temperature: 0.5 }],
  top_p: [{ top_p: 0.5 }],
  presence_penalty: [{ presence_penalty: 0.5 }],
  frequency_penalty: [{ frequency_penalty: 0.5 }],
  seed: [{ seed: 5 }],
  n: [{ n: 2 }],
  logprobs: [{ logprobs: true }],
  top_logprobs: [{ logprobs: true, top_logprobs: 3 }],
  tools: [{ tools: [named] }],
  tool_choice: [{ tools: [named], tool_choice: named }],
  parallel_tool_calls: [{ parallel_tool_calls: false }],
  response_format: [
    { response_format: { type: "json_schema", json_schema: { name: "a", schema, description: "An answer." } } },
    "response_format.json_schema.description",
  ],
  reasoning_effort: [{ reasoning_effort: "low" }],
  modalities: [{ modalities: ["text"] }],
  audio: [{ audio: { voice: { id: "v_1" }, format: "wav" } }, "audio.voice"],
  service_tier: [{ service_tier: "flex" }],
  user: [{ user: "u" }],
  safety_identifier: [{ safety_identifier: "u" }],
  metadata: [{ metadata: { team: "a" } }, "metadata"],
  logit_bias: [{ logit_bias: { "1": -100 } }, "logit_bias"],
  prediction: [{ prediction: { type: "content", content: "Hi" } }, "prediction"],
  web_search_options: [{ web_search_options: { search_context_size: "low" } }, "web_search_options"],
  store: [{ store: false }, "store"],
  verbosity: [{ verbosity: "low" }, "verbosity"],
};

const declaration = { name: "f", behavior: "NON_BLOCKING" };

const OF_GENERATE_CONTENT: Samples = {
  contents: [{ contents: "Ho" }],
  tools: [{ tools: [{ functionDeclarations: [declaration] }] }, "tools.functionDeclarations.behavior"],
  toolConfig: [{ toolConfig: { retrievalConfig: { languageCode: "de" } } }, "toolConfig.retrievalConfig"],
  safetySettings: [{ safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }] }],
  systemInstruction: [{ systemInstruction: "Be brief." }],
  generationConfig: [{ generationConfig: { audioTimestamp: true } }, "generationConfig.audioTimestamp"],
  cachedContent: [{ cachedContent: "cachedContents/1" }],
};

const JSON_TYPE = { responseMimeType: "application/json" };
const CONFIGS: Samples = {
  stopSequences: [{ stopSequences: ["END"] }],
  responseMimeType: [JSON_TYPE],
  responseSchema: [{ ...JSON_TYPE, responseSchema: { type: "STRING" } }],
  responseJsonSchema: [{ ...JSON_TYPE, responseJsonSchema: schema }],
  responseModalities: [{ responseModalities: ["TEXT"] }],
  candidateCount: [{ candidateCount: 2 }],
  maxOutputTokens: [{ maxOutputTokens: 7 }],
  temperature: [{ temperature: 0.5 }],
  topP: [{ topP: 0.5 }],
  topK: [{ topK: 5 }],
  seed: [{ seed: 5 }],
  presencePenalty: [{ presencePenalty: 0.5 }],
  frequencyPenalty: [{ frequencyPenalty: 0.5 }],
  responseLogprobs: [{ responseLogprobs: true }],
  logprobs: [{ responseLogprobs: true, logprobs: 3 }],
  enableEnhancedCivicAnswers: [{ enableEnhancedCivicAnswers: true }],
  speechConfig: [{ speechConfig: { languageCode: "de-DE" } }],
  imageConfig: [{ imageConfig: { aspectRatio: "1:1" } }, "generationConfig.imageConfig"],
  thinkingConfig: [{ thinkingConfig: { includeThoughts: true } }],
  mediaResolution: [{ mediaResolution: "MEDIA_RESOLUTION_LOW" }],
};
const inConfig = (samples: Samples): Samples =>
  Object.fromEntries(
    Object.entries(samples).map(([key, [generationConfig, unsaid]]) => [
      key,
      unsaid === undefined ? [{ generationConfig }] : [{ generationConfig }, unsaid],
    ]),
  );

const messagesOf = (sample: object): ChatRequest => {
  const body: unknown = { model: "m", max_tokens: 9, messages: hi, ...sample };
  assertValid(MESSAGES, body);
  return decodeMessages(body, { betas: [] });
};
const chatCompletionsOf = (sample: object): ChatRequest => {
  const body: unknown = { model: "m", messages: hi, ...sample };
  assertValid(ChatCompletionsRequest, body);
  return decodeChatCompletions(body, 1);
};
const generateContentOf = (sample: object): ChatRequest => {
  const format = FORMATS.find(({ name }) => name === "generate-content");
  if (!format) throw new Error("There is no such format.");
  return format.read({ contents: "Hi", ...sample }, { model: "m", stream: false });
};

/** The names of an object schema's fields. */
function fieldsOf(objectSchema: object): string[] {
  const entries: unknown = Reflect.get(objectSchema, "entries");
  return typeof entries === "object" && entries ? Object.keys(entries).toSorted() : [];
}

describe.each([
  ["messages", MESSAGES, OF_MESSAGES, messagesOf],
  ["chat-completions", ChatCompletionsRequest, OF_CHAT_COMPLETIONS, chatCompletionsOf],
  ["generate-content", GenerateContentRequest, OF_GENERATE_CONTENT, generateContentOf],
  ["generate-content's config", GenerationConfig, inConfig(CONFIGS), generateContentOf],
])("a request of %s", (_name, objectSchema, samples, read) => {
  it("has a sample of each field", () => {
    expect(Object.keys(samples).toSorted()).toEqual(fieldsOf(objectSchema));
  });

  it.each(Object.entries(samples))("says %s in other formats, or tells that it cannot", (_field, [sample, unsaid]) => {
    const { native, ...said } = read(sample);
    const { native: _, ...without } = read({});
    const told = native?.unsaid ?? [];
    const isSaid = told.length === 0 && JSON.stringify(said) !== JSON.stringify(without);
    expect(unsaid === undefined ? isSaid : told.includes(unsaid)).toBe(true);
  });
});

const pixel = { type: "base64", media_type: "image/png", data: "AAAA" };
const asked = (...content: readonly object[]): object => ({ role: "user", content });
const answered = (...content: readonly object[]): object => ({ role: "assistant", content });
const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
const parts = (...list: readonly object[]): object => ({ contents: [{ role: "user", parts: list, cited: true }] });

it.each<[string, (sample: object) => ChatRequest, object, readonly string[]]>([
  [
    "messages",
    messagesOf,
    {
      system: [{ type: "text", text: "Be brief.", weight: 2 }],
      messages: [
        asked({ type: "text", text: "Hi", citations: [{}] }, { type: "image", source: pixel, alt: "A dot." }),
        answered(
          { type: "thinking", thinking: "…", signature: "AAAA", summary: "…" },
          { type: "server_tool_use", id: "s", name: "web_search", input: {} },
          { type: "tool_use", id: "t", name: "f", input: {}, caller: { type: "direct" } },
        ),
        asked({
          type: "tool_result",
          tool_use_id: "t",
          content: [{ type: "text", text: "1", citations: [{}], x: null }],
        }),
      ],
    },
    [
      "system.weight",
      "messages.text.citations",
      "messages.image.alt",
      "messages.thinking.summary",
      "messages.tool_use.caller",
    ],
  ],
  [
    "chat completions",
    chatCompletionsOf,
    {
      messages: [
        asked(
          { type: "text", text: "Hi", cache_control: { type: "ephemeral" } },
          { type: "image_url", image_url: { url: "https://a.example/1.png", detail: "original" } },
        ),
        { role: "assistant", content: null, refusal: null, annotations: [], audio: { id: "a_1" }, tool_calls: [call] },
        { role: "tool", tool_call_id: "c", content: "1", name: "f" },
      ],
    },
    ["messages.text.cache_control", "messages.image_url.detail", "messages.assistant.audio"],
  ],
  [
    "generate-content",
    generateContentOf,
    parts(
      { inlineData: { mimeType: "video/mp4", data: "AAAA", displayName: "a" }, videoMetadata: { startOffset: "1s" } },
      { functionResponse: { name: "f", response: {}, willContinue: true } },
    ),
    [
      "contents.cited",
      "contents.parts.videoMetadata",
      "contents.parts.inlineData.displayName",
      "contents.parts.functionResponse.willContinue",
    ],
  ],
])("tells of what stands inside of the conversations of %s", (_name, read, sample, unsaid) => {
  expect(read(sample).native?.unsaid).toEqual(unsaid);
});

it("tells callers of each such field, of none that says nothing, and of 32 at most", () => {
  const request = chatCompletionsOf({ logit_bias: { "1": -100 }, store: null, prediction: {}, functions: [{}] });
  const fates = ["native.logit_bias", "native.functions"].map((field) => ({
    field,
    fate: "dropped",
    why: "Only the caller's own format has words for it.",
  }));
  for (const codec of [messagesCodec, generateContentCodec]) expect(codec.encodeRequest(request).fates).toEqual(fates);
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`field_${index}`, 1]));
  expect(chatCompletionsOf(many).native?.unsaid).toHaveLength(32);
});
