/** The answers of upstreams on the wire. Local servers leave out most fields or set them to null, so nearly every field is optional. */

import * as v from "valibot";
import { array, choice, object, textOr } from "../../http/validation.ts";
import { isJsonObject } from "../../model/json.ts";
import {
  jsonObject,
  splitDataUrl,
  TOOL_COUNTS,
  unsupported,
  unsupportedFinder,
  type UnsupportedFinder,
  whole,
} from "../shared/schema.ts";
import { ExtraContent, ReasoningDetail } from "./schema.ts";

const maybeText = v.nullish(v.string());
const maybeCount = v.nullish(v.number());
/** A count that the neutral model cannot hold. It is reported as unsupported unless it is 0. */
const unsupportedCount = unsupported(v.optional(v.unknown()), (value) => value !== 0);
/** A field whose value is not needed: the type of an object, a time, padding. */
const envelope = v.optional(v.unknown());

/** Counts of tools. Those of other names than the uses of one tool are reported as unsupported. */
const toolCounts = (field: keyof typeof TOOL_COUNTS) =>
  unsupported(
    v.optional(v.unknown()),
    (counts) => !isJsonObject(counts) || !Object.keys(counts).every((name) => TOOL_COUNTS[field].test(name)),
  );

/** The tokens of sounds, and of pictures and films, which only some vendors count. */
const KINDS = { audio_tokens: maybeCount, image_tokens: envelope, video_tokens: envelope };

export const LooseUsage = object({
  prompt_tokens: maybeCount,
  completion_tokens: maybeCount,
  total_tokens: maybeCount,
  prompt_tokens_details: v.nullish(
    object({
      cached_tokens: maybeCount,
      cache_write_tokens: maybeCount,
      web_search_requests: envelope,
      ...KINDS,
    }),
  ),
  completion_tokens_details: v.nullish(
    object({
      reasoning_tokens: maybeCount,
      ...KINDS,
      accepted_prediction_tokens: unsupportedCount,
      rejected_prediction_tokens: unsupportedCount,
    }),
  ),
  // DeepSeek's name for the tokens that were read from the cache.
  prompt_cache_hit_tokens: maybeCount,
  // The uses of tools that OpenRouter, xAI and Perplexity run.
  server_tool_use: toolCounts("server_tool_use"),
  server_side_tool_usage_details: toolCounts("server_side_tool_usage_details"),
  num_search_queries: envelope,
});
export type LooseUsage = v.InferOutput<typeof LooseUsage>;

const LooseToolCall = object({
  type: maybeText,
  index: maybeCount,
  id: maybeText,
  function: v.nullish(object({ name: maybeText, arguments: v.nullish(textOr(jsonObject)) })),
  custom: v.nullish(object({ name: maybeText, input: maybeText })),
  extra_content: ExtraContent,
});
export type LooseToolCall = v.InferOutput<typeof LooseToolCall>;

const LooseLogprob = object({ token: v.string(), logprob: v.number() });
type LooseLogprob = v.InferOutput<typeof LooseLogprob>;

const LooseAnnotation = object({
  type: envelope,
  url_citation: v.nullish(object({ url: maybeText, title: maybeText, start_index: maybeCount, end_index: maybeCount })),
});

const LooseImage = object({
  type: envelope,
  index: envelope,
  // The gateway does not fetch an image from an address.
  image_url: v.nullish(object({ url: unsupported(maybeText, (url) => splitDataUrl(url) === undefined) })),
});

/** The reasoning in a part of the content. */
const LooseThinking = v.nullish(textOr(array(object({ type: maybeText, text: maybeText }))));
export type LooseThinking = v.InferOutput<typeof LooseThinking>;

const KnownPart = object({ type: maybeText, text: maybeText, thinking: LooseThinking, closed: envelope });
const OtherPart = whole(object({ type: v.string() })) as v.GenericSchema as typeof KnownPart;

/** Tells whether a part is of another type than those that the gateway reads, and has no text. */
export const isOtherPart = (part: unknown): boolean =>
  isJsonObject(part) &&
  typeof part["type"] === "string" &&
  part["type"] !== "text" &&
  part["type"] !== "thinking" &&
  typeof part["text"] !== "string";

const LoosePart = choice([KnownPart, OtherPart], (input) => (isOtherPart(input) ? OtherPart : KnownPart));

/** A complete message, or a chunk's delta. */
const LooseMessage = object({
  role: maybeText,
  content: v.nullish(textOr(array(LoosePart))),
  refusal: maybeText,
  // Servers use several names for the reasoning that they show.
  reasoning_content: maybeText,
  reasoning: maybeText,
  thinking: maybeText,
  reasoning_details: v.nullish(array(ReasoningDetail)),
  tool_calls: v.nullish(array(LooseToolCall)),
  extra_content: ExtraContent,
  function_call: v.nullish(object({ name: maybeText, arguments: maybeText })),
  annotations: v.nullish(array(LooseAnnotation)),
  audio: v.nullish(object({ data: maybeText, transcript: maybeText })),
  images: v.nullish(array(LooseImage)),
});
export type LooseMessage = v.InferOutput<typeof LooseMessage>;

const LooseChoice = object({
  index: maybeCount,
  delta: v.nullish(LooseMessage),
  message: v.nullish(LooseMessage),
  logprobs: v.nullish(
    object({
      content: v.nullish(array(object({ ...LooseLogprob.entries, top_logprobs: v.nullish(array(LooseLogprob)) }))),
    }),
  ),
  finish_reason: maybeText,
  usage: v.nullish(LooseUsage),
});
export type LooseChoice = v.InferOutput<typeof LooseChoice>;

/** A complete answer, or a chunk of a stream. */
export const LooseCompletion = object({
  object: envelope,
  created: envelope,
  obfuscation: envelope,
  id: maybeText,
  model: maybeText,
  choices: v.nullish(array(LooseChoice)),
  usage: v.nullish(LooseUsage),
  service_tier: maybeText,
});

export type LooseCompletion = v.InferOutput<typeof LooseCompletion>;

/** Finds the fields of an answer that the neutral model cannot hold. */
export const unsupportedInAnswer: UnsupportedFinder = unsupportedFinder(LooseCompletion);
