/** The chat-completions answers as the gateway writes them, complete and streamed, and the answers about models. */

import * as v from "valibot";

const text = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
/** Unix time in seconds. */
const seconds = count;

const Usage = v.object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: v.object({
    cached_tokens: count,
    audio_tokens: count,
    cache_write_tokens: v.optional(count),
  }),
  completion_tokens_details: v.object({
    reasoning_tokens: count,
    audio_tokens: count,
    accepted_prediction_tokens: count,
    rejected_prediction_tokens: count,
  }),
});

const FinishReason = v.picklist(["stop", "length", "tool_calls", "content_filter"]);

const logprob = { token: text, logprob: v.number(), bytes: v.array(count) };
const Logprobs = v.object({
  content: v.array(v.object({ ...logprob, top_logprobs: v.array(v.object(logprob)) })),
  refusal: v.null(),
});

const UrlCitation = v.object({
  type: v.literal("url_citation"),
  url_citation: v.object({ start_index: v.literal(0), end_index: v.literal(0), url: text, title: text }),
});

const Audio = v.object({
  id: text,
  data: v.pipe(text, v.metadata({ contentEncoding: "base64" })),
  transcript: text,
  expires_at: seconds,
});

const Image = v.object({ type: v.literal("image_url"), index: count, image_url: v.object({ url: text }) });

/** What a message and a piece of it may both hold beside texts and tool calls. */
const beside = {
  annotations: v.optional(v.array(UrlCitation)),
  audio: v.optional(Audio),
  images: v.optional(v.array(Image)),
};

/** What a custom tool is called with stays as its upstream sent it. */
const ToolCall = v.variant("type", [
  v.object({ type: v.literal("function"), id: text, function: v.object({ name: text, arguments: text }) }),
  v.object({ type: v.literal("custom"), id: text, custom: v.unknown() }),
]);

const Message = v.object({
  role: v.literal("assistant"),
  content: v.nullable(text),
  refusal: v.nullable(text),
  reasoning_content: v.optional(text),
  tool_calls: v.optional(v.array(ToolCall)),
  ...beside,
});

const answer = {
  id: text,
  created: seconds,
  model: text,
  system_fingerprint: v.null(),
  service_tier: v.optional(text),
};

export const ChatCompletionsAnswer = v.object({
  ...answer,
  object: v.literal("chat.completion"),
  choices: v.array(
    v.object({ index: count, message: Message, logprobs: v.nullable(Logprobs), finish_reason: FinishReason }),
  ),
  usage: Usage,
});

/** A piece of a tool call: the first names the tool, each further one adds to the arguments. */
const ToolCallDelta = v.object({
  index: count,
  id: v.optional(text),
  type: v.optional(v.picklist(["function", "custom"])),
  function: v.optional(v.object({ name: v.optional(text), arguments: text })),
  custom: v.optional(v.unknown()),
});

const Delta = v.object({
  role: v.optional(v.literal("assistant")),
  content: v.optional(v.nullable(text)),
  refusal: v.optional(v.nullable(text)),
  reasoning_content: v.optional(text),
  tool_calls: v.optional(v.array(ToolCallDelta)),
  ...beside,
});

/** The data of one event of a stream. The counts come in the last one, which has no choices, where the caller asked for them. */
export const ChatCompletionsChunk = v.object({
  ...answer,
  object: v.literal("chat.completion.chunk"),
  choices: v.array(
    v.object({
      index: count,
      delta: Delta,
      logprobs: v.nullable(Logprobs),
      finish_reason: v.nullable(FinishReason),
    }),
  ),
  usage: v.optional(v.nullable(Usage)),
});

export const ChatCompletionsModel = v.object({
  id: text,
  object: v.literal("model"),
  created: seconds,
  owned_by: text,
});

export const ChatCompletionsModelList = v.object({
  object: v.literal("list"),
  data: v.array(ChatCompletionsModel),
});
