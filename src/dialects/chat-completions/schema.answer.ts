/** What upstreams of this format answer, as loosely as local servers write it: what may be missing, may be null. */

import * as v from "valibot";
import { object, textOr } from "../../http/validation.ts";
import { unsaid, unsaidFinder, type UnsaidFinder } from "../shared/schema.unsaid.ts";
import { jsonObject, splitDataUrl } from "./schema.base.ts";

const maybeText = v.nullish(v.string());
const count = v.nullish(v.number());
/** A count of nothing says nothing. */
const unsaidCount = unsaid(v.optional(v.unknown()), (said) => said !== 0);
/** What says nothing of an answer: names of its kind, its time, padding. */
const envelope = v.optional(v.unknown());

export const Usage = object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: v.nullish(object({ cached_tokens: count, cache_write_tokens: count, audio_tokens: count })),
  completion_tokens_details: v.nullish(
    object({
      reasoning_tokens: count,
      audio_tokens: count,
      accepted_prediction_tokens: unsaidCount,
      rejected_prediction_tokens: unsaidCount,
    }),
  ),
  // Where DeepSeek counts what came from the cache.
  prompt_cache_hit_tokens: count,
});
export type Usage = v.InferOutput<typeof Usage>;

const ToolCall = object({
  type: envelope,
  index: count,
  id: maybeText,
  function: v.nullish(object({ name: maybeText, arguments: v.nullish(v.union([v.string(), jsonObject])) })),
  custom: v.nullish(object({ name: maybeText, input: maybeText })),
});
export type ToolCall = v.InferOutput<typeof ToolCall>;

const Logprob = object({ token: v.string(), logprob: v.number() });
export type Logprob = v.InferOutput<typeof Logprob>;

const Annotation = object({
  type: envelope,
  url_citation: v.nullish(
    object({ url: maybeText, title: maybeText, start_index: unsaidCount, end_index: unsaidCount }),
  ),
});

const Content = object({ type: maybeText, text: maybeText });

const Image = object({
  type: envelope,
  index: envelope,
  // One that is elsewhere is not fetched.
  image_url: v.nullish(object({ url: unsaid(maybeText, (url) => splitDataUrl(url) === undefined) })),
});

/** A message, or what a chunk adds to one. */
const Message = object({
  role: maybeText,
  content: v.nullish(textOr(v.array(Content))),
  refusal: maybeText,
  // Three names under which servers show the model's reasoning.
  reasoning_content: maybeText,
  reasoning: maybeText,
  thinking: maybeText,
  tool_calls: v.nullish(v.array(ToolCall)),
  function_call: v.nullish(object({ name: maybeText, arguments: maybeText })),
  annotations: v.nullish(v.array(Annotation)),
  audio: v.nullish(object({ data: maybeText, transcript: maybeText })),
  images: v.nullish(v.array(Image)),
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
  object: envelope,
  created: envelope,
  obfuscation: envelope,
  id: maybeText,
  model: maybeText,
  choices: v.nullish(v.array(Choice)),
  usage: v.nullish(Usage),
  service_tier: maybeText,
});
export type Answer = v.InferOutput<typeof Answer>;

/** The paths of what the neutral model has no words for. */
export const unsaidInAnswer: UnsaidFinder = unsaidFinder(Answer);
