/** What upstreams of this format answer, as loosely as local servers write it: what may be missing, may be null. */

import * as v from "valibot";
import { object } from "../../http/validation.ts";
import { jsonObject } from "./schema.base.ts";

const maybeText = v.nullish(v.string());
const count = v.nullish(v.number());

export const Usage = object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: v.nullish(object({ cached_tokens: count, cache_write_tokens: count, audio_tokens: count })),
  completion_tokens_details: v.nullish(object({ reasoning_tokens: count, audio_tokens: count })),
  // Where DeepSeek counts what came from the cache.
  prompt_cache_hit_tokens: count,
});
export type Usage = v.InferOutput<typeof Usage>;

const ToolCall = object({
  index: count,
  id: maybeText,
  function: v.nullish(object({ name: maybeText, arguments: v.nullish(v.union([v.string(), jsonObject])) })),
  custom: v.nullish(object({ name: maybeText, input: maybeText })),
});
export type ToolCall = v.InferOutput<typeof ToolCall>;

const Logprob = object({ token: v.string(), logprob: v.number() });
export type Logprob = v.InferOutput<typeof Logprob>;

const Annotation = object({ url_citation: v.nullish(object({ url: maybeText, title: maybeText })) });

const Content = object({ type: maybeText, text: maybeText });

/** A message, or what a chunk adds to one. */
const Message = object({
  role: maybeText,
  content: v.nullish(v.union([v.string(), v.array(Content)])),
  refusal: maybeText,
  // Three names under which servers show the model's reasoning.
  reasoning_content: maybeText,
  reasoning: maybeText,
  thinking: maybeText,
  tool_calls: v.nullish(v.array(ToolCall)),
  function_call: v.nullish(object({ name: maybeText, arguments: maybeText })),
  annotations: v.nullish(v.array(Annotation)),
  audio: v.nullish(object({ data: maybeText, transcript: maybeText })),
  images: v.nullish(v.array(object({ image_url: v.nullish(object({ url: maybeText })) }))),
});
export type Message = v.InferOutput<typeof Message>;

const Choice = object({
  index: count,
  delta: v.nullish(Message),
  message: v.nullish(Message),
  logprobs: v.nullish(
    object({ content: v.nullish(v.array(object({ ...Logprob.entries, top_logprobs: v.nullish(v.array(Logprob)) }))) }),
  ),
  finish_reason: maybeText,
});
export type Choice = v.InferOutput<typeof Choice>;

/** A complete answer, or a chunk of a stream. */
export const Answer = object({
  id: maybeText,
  model: maybeText,
  choices: v.nullish(v.array(Choice)),
  usage: v.nullish(Usage),
  service_tier: maybeText,
});
export type Answer = v.InferOutput<typeof Answer>;
