/** The gateway's answers on the wire. The OpenAPI document is made from these schemas, and the encoders use their types. */

import * as v from "valibot";

const text = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
/** Unix time in seconds. */
const seconds = count;
const any = v.unknown();
const anyObject = v.record(v.string(), any);
/** An object of the caller, which the answer repeats. */
const typed = v.objectWithRest({ type: text }, any);

/** A source on the web. The indices count characters of the part. Both are 0 for a source without a place in the part. */
const UrlCitation = v.object({
  type: v.literal("url_citation"),
  url: text,
  title: text,
  start_index: count,
  end_index: count,
});
export type UrlCitation = v.InferOutput<typeof UrlCitation>;

const logprob = { token: text, logprob: v.number(), bytes: v.array(count) };
const TokenLogprob = v.object({ ...logprob, top_logprobs: v.array(v.object(logprob)) });
export type TokenLogprob = v.InferOutput<typeof TokenLogprob>;

const ContentPart = v.variant("type", [
  v.object({
    type: v.literal("output_text"),
    text,
    annotations: v.array(UrlCitation),
    logprobs: v.array(TokenLogprob),
  }),
  v.object({ type: v.literal("refusal"), refusal: text }),
]);
export type ContentPart = v.InferOutput<typeof ContentPart>;

const ItemStatus = v.picklist(["in_progress", "completed", "incomplete"]);
export type ItemStatus = v.InferOutput<typeof ItemStatus>;

const SummaryText = v.object({ type: v.literal("summary_text"), text });

const item = { id: text, status: ItemStatus };
const call = { ...item, call_id: text, name: text, namespace: v.optional(text) };

/** An item of the output with a status. */
const BuiltItem = v.variant("type", [
  v.object({
    type: v.literal("message"),
    ...item,
    role: v.literal("assistant"),
    content: v.array(ContentPart),
  }),
  v.object({
    type: v.literal("reasoning"),
    ...item,
    summary: v.array(SummaryText),
    encrypted_content: v.optional(text),
  }),
  v.object({ type: v.literal("function_call"), ...call, arguments: text }),
  v.object({ type: v.literal("custom_tool_call"), ...call, input: text }),
  v.object({
    type: v.literal("code_interpreter_call"),
    ...item,
    code: text,
    container_id: text,
    outputs: v.nullable(v.array(v.object({ type: v.literal("logs"), logs: text }))),
  }),
  v.object({ type: v.literal("image_generation_call"), ...item, result: v.nullable(text), output_format: text }),
]);
export type OutputItem = v.InferOutput<typeof BuiltItem>;
export type ItemOf<Type extends OutputItem["type"]> = Extract<OutputItem, { type: Type }>;

/** An item of the output: also the sealed summary of a conversation. */
export const ResponsesOutputItem = v.variant("type", [
  ...BuiltItem.options,
  v.object({ type: v.literal("compaction"), id: text, encrypted_content: text }),
]);

const ResponseUsage = v.object({
  input_tokens: count,
  input_tokens_details: v.object({ cached_tokens: count, cache_write_tokens: count }),
  output_tokens: count,
  output_tokens_details: v.object({ reasoning_tokens: count }),
  total_tokens: count,
});
export type ResponseUsage = v.InferOutput<typeof ResponseUsage>;

const Written = v.object({
  id: text,
  object: v.literal("response"),
  created_at: seconds,
  status: v.picklist(["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]),
  error: v.nullable(v.object({ code: text, message: text })),
  incomplete_details: v.nullable(v.object({ reason: v.picklist(["max_output_tokens", "content_filter"]) })),
  model: text,
  output: v.array(ResponsesOutputItem),
  usage: v.nullable(ResponseUsage),
});
export type ResponseBody = v.InferOutput<typeof Written> & {
  /** The fields of the request, which the answer repeats. */
  readonly [field: string]: unknown;
};

const maybeText = v.nullable(text);
const maybeCount = v.nullable(count);

export const ResponsesAnswer = v.object({
  ...Written.entries,
  completed_at: v.nullable(seconds),
  background: v.boolean(),
  store: v.boolean(),
  conversation: v.optional(v.object({ id: text })),
  service_tier: text,
  access_programs: v.null(),
  // The fields of the request, with the defaults of the fields that it does not have.
  instructions: maybeText,
  max_output_tokens: maybeCount,
  max_tool_calls: maybeCount,
  metadata: anyObject,
  parallel_tool_calls: v.boolean(),
  previous_response_id: maybeText,
  prompt_cache_key: maybeText,
  reasoning: v.objectWithRest({ effort: maybeText, summary: maybeText }, any),
  safety_identifier: maybeText,
  temperature: v.number(),
  text: v.objectWithRest({ format: typed }, any),
  tool_choice: v.union([text, anyObject]),
  tools: v.array(
    v.union([
      v.objectWithRest(
        {
          type: v.literal("function"),
          name: text,
          description: maybeText,
          parameters: v.nullable(anyObject),
          strict: v.nullable(v.boolean()),
        },
        any,
      ),
      typed,
    ]),
  ),
  presence_penalty: v.number(),
  frequency_penalty: v.number(),
  top_logprobs: count,
  top_p: v.number(),
  truncation: text,
  user: v.optional(text),
});

const sequence_number = count;
const place = { sequence_number, item_id: text, output_index: count };
const inContent = { ...place, content_index: count };
const inSummary = { ...place, summary_index: count };

const responseEvent = <const Type extends string>(type: Type) =>
  v.object({ type: v.literal(type), sequence_number, response: ResponsesAnswer });
const itemEvent = <const Type extends string>(type: Type) =>
  v.object({ type: v.literal(type), sequence_number, output_index: count, item: ResponsesOutputItem });
const progress = <const Type extends string>(type: Type) => v.object({ type: v.literal(type), ...place });

export const ResponsesStreamEvent = v.variant("type", [
  responseEvent("response.created"),
  responseEvent("response.in_progress"),
  responseEvent("response.completed"),
  responseEvent("response.incomplete"),
  responseEvent("response.failed"),
  itemEvent("response.output_item.added"),
  itemEvent("response.output_item.done"),
  v.object({ type: v.literal("response.content_part.added"), ...inContent, part: ContentPart }),
  v.object({ type: v.literal("response.content_part.done"), ...inContent, part: ContentPart }),
  v.object({
    type: v.literal("response.output_text.delta"),
    ...inContent,
    delta: text,
    logprobs: v.array(TokenLogprob),
  }),
  v.object({ type: v.literal("response.output_text.done"), ...inContent, text, logprobs: v.array(TokenLogprob) }),
  v.object({
    type: v.literal("response.output_text.annotation.added"),
    ...inContent,
    annotation_index: count,
    annotation: UrlCitation,
  }),
  v.object({ type: v.literal("response.refusal.delta"), ...inContent, delta: text }),
  v.object({ type: v.literal("response.refusal.done"), ...inContent, refusal: text }),
  v.object({ type: v.literal("response.reasoning_summary_part.added"), ...inSummary, part: SummaryText }),
  v.object({ type: v.literal("response.reasoning_summary_part.done"), ...inSummary, part: SummaryText }),
  v.object({ type: v.literal("response.reasoning_summary_text.delta"), ...inSummary, delta: text }),
  v.object({ type: v.literal("response.reasoning_summary_text.done"), ...inSummary, text }),
  v.object({ type: v.literal("response.function_call_arguments.delta"), ...place, delta: text }),
  v.object({ type: v.literal("response.function_call_arguments.done"), ...place, name: text, arguments: text }),
  v.object({ type: v.literal("response.custom_tool_call_input.delta"), ...place, delta: text }),
  v.object({ type: v.literal("response.custom_tool_call_input.done"), ...place, input: text }),
  progress("response.code_interpreter_call.in_progress"),
  progress("response.code_interpreter_call.interpreting"),
  progress("response.code_interpreter_call.completed"),
  v.object({ type: v.literal("response.code_interpreter_call_code.delta"), ...place, delta: text }),
  v.object({ type: v.literal("response.code_interpreter_call_code.done"), ...place, code: text }),
  progress("response.image_generation_call.in_progress"),
  progress("response.image_generation_call.completed"),
  v.object({
    type: v.literal("error"),
    sequence_number,
    code: text,
    message: text,
    param: maybeText,
    // The same error as clients of other endpoints read it.
    error: v.object({ message: text, type: text, param: maybeText, code: text }),
  }),
]);

export const ResponsesCompaction = v.object({
  id: text,
  object: v.literal("response.compaction"),
  created_at: seconds,
  output: v.array(v.objectWithRest({ id: text, type: text }, any)),
  usage: ResponseUsage,
});

export const ResponsesTokenCount = v.object({ object: v.literal("response.input_tokens"), input_tokens: count });

export const ResponsesDeleted = v.object({ id: text, object: v.literal("response"), deleted: v.literal(true) });

export const Conversation = v.object({
  id: text,
  object: v.literal("conversation"),
  created_at: seconds,
  metadata: v.record(v.string(), v.string()),
});

export const ConversationDeleted = v.object({
  id: text,
  object: v.literal("conversation.deleted"),
  deleted: v.literal(true),
});
