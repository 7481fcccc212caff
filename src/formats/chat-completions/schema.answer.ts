/** The gateway's answers on the wire. The OpenAPI document is made from these schemas, and the encoders use their types. */

import * as v from "valibot";

const text = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
/** Unix time in seconds. */
const seconds = count;

const CompletionUsage = v.object({
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
export type CompletionUsage = v.InferOutput<typeof CompletionUsage>;

/** `function_call` ends only an answer to a request with the deprecated `functions`. */
const FinishReason = v.picklist(["stop", "length", "tool_calls", "function_call", "content_filter"]);

const logprob = { token: text, logprob: v.number(), bytes: v.array(count) };
const TokenLogprob = v.object({ ...logprob, top_logprobs: v.array(v.object(logprob)) });
export type TokenLogprob = v.InferOutput<typeof TokenLogprob>;
const Logprobs = v.object({ content: v.array(TokenLogprob), refusal: v.null() });

/** A source on the web. The indices count characters. Both are 0 for a source without a place in the text. */
const UrlCitation = v.object({
  type: v.literal("url_citation"),
  url_citation: v.object({ start_index: count, end_index: count, url: text, title: text }),
});
export type UrlCitation = v.InferOutput<typeof UrlCitation>;

/** Fields that a complete message and a chunk's delta have in common. */
const media = {
  annotations: v.optional(v.array(UrlCitation)),
  audio: v.optional(
    v.object({
      id: text,
      data: v.pipe(text, v.metadata({ contentEncoding: "base64" })),
      transcript: text,
      expires_at: seconds,
    }),
  ),
  images: v.optional(
    v.array(v.object({ type: v.literal("image_url"), index: count, image_url: v.object({ url: text }) })),
  ),
};

/** The signature of a tool call or of a text, as Google's own endpoint of this format writes it. */
const ExtraContent = v.optional(v.object({ google: v.object({ thought_signature: text }) }));

/** A block of reasoning with its seal. Callers who return the list unchanged keep the provider's session intact. */
const ReasoningDetails = v.optional(
  v.array(
    v.object({
      type: v.nullish(text),
      text: v.nullish(text),
      summary: v.nullish(text),
      signature: v.nullish(text),
      data: v.nullish(text),
      index: v.nullish(v.number()),
    }),
  ),
);

/** The call of a function, or of a custom tool, whose input is a text. */
const ToolCall = v.variant("type", [
  v.object({
    type: v.literal("function"),
    id: text,
    function: v.object({ name: text, arguments: text }),
    extra_content: ExtraContent,
  }),
  v.object({
    type: v.literal("custom"),
    id: text,
    custom: v.object({ name: text, input: text }),
    extra_content: ExtraContent,
  }),
]);

const answer = {
  id: text,
  created: seconds,
  model: text,
  service_tier: v.optional(text),
};

export const ChatCompletionsAnswer = v.object({
  ...answer,
  object: v.literal("chat.completion"),
  choices: v.array(
    v.object({
      index: count,
      message: v.object({
        role: v.literal("assistant"),
        content: v.nullable(text),
        refusal: v.nullable(text),
        reasoning_content: v.optional(text),
        reasoning_details: ReasoningDetails,
        tool_calls: v.optional(v.array(ToolCall)),
        function_call: v.optional(v.object({ name: text, arguments: text })),
        extra_content: ExtraContent,
        ...media,
      }),
      logprobs: v.nullable(Logprobs),
      finish_reason: FinishReason,
    }),
  ),
  usage: CompletionUsage,
});

/** A piece of a tool call. The first piece names the tool, and each later piece adds to the arguments. Any piece may hold the signature. */
const ToolCallDelta = v.object({
  index: count,
  id: v.optional(text),
  type: v.optional(v.picklist(["function", "custom"])),
  function: v.optional(v.object({ name: v.optional(text), arguments: text })),
  custom: v.optional(v.object({ name: v.optional(text), input: text })),
  extra_content: ExtraContent,
});
export type ToolCallDelta = v.InferOutput<typeof ToolCallDelta>;

/** The data of one event of a stream. If the caller asked for token counts, the last chunk has the counts and no choices. */
export const ChatCompletionsChunk = v.object({
  ...answer,
  object: v.literal("chat.completion.chunk"),
  choices: v.array(
    v.object({
      index: count,
      delta: v.object({
        role: v.optional(v.literal("assistant")),
        content: v.optional(v.nullable(text)),
        refusal: v.optional(v.nullable(text)),
        reasoning_content: v.optional(text),
        reasoning_details: ReasoningDetails,
        tool_calls: v.optional(v.array(ToolCallDelta)),
        function_call: v.optional(v.object({ name: v.optional(text), arguments: text })),
        extra_content: ExtraContent,
        ...media,
      }),
      logprobs: v.nullable(Logprobs),
      finish_reason: v.nullable(FinishReason),
    }),
  ),
  usage: v.optional(v.nullable(CompletionUsage)),
});
export type Chunk = v.InferOutput<typeof ChatCompletionsChunk>;
export type ChunkChoice = Chunk["choices"][number];
export type ChunkDelta = ChunkChoice["delta"];

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
