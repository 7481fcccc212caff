/** The messages answers as the gateway writes them (spec 2.7, 6.1, 7.2). The OpenAPI document is made from the exported schemas. */

import * as v from "valibot";
import { RedactedThinkingBlock, ThinkingBlock } from "./schema.ts";

const text = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const anyObject = v.record(v.string(), v.unknown());

const Usage = v.object({
  input_tokens: count,
  output_tokens: count,
  cache_creation_input_tokens: count,
  cache_read_input_tokens: count,
  // The fields below are not in the spec, but the official service always sends them: null where nothing is known.
  output_tokens_details: v.nullable(v.object({ thinking_tokens: count })),
  /** Tokens for each time to live: `ephemeral_5m_input_tokens`. */
  cache_creation: v.nullable(v.record(v.string(), count)),
  /** Uses of each tool: `web_search_requests`. */
  server_tool_use: v.nullable(v.record(v.string(), count)),
  service_tier: v.nullable(v.picklist(["standard", "priority", "batch"])),
  inference_geo: v.nullable(text),
  speed: v.nullable(text),
});
export type MessagesUsage = v.InferOutput<typeof Usage>;

/** The spec's four reasons, `refusal`, and two more that occur only in answers of upstreams of this format. */
const StopReason = v.picklist([
  "end_turn",
  "max_tokens",
  "stop_sequence",
  "tool_use",
  "pause_turn",
  "refusal",
  "model_context_window_exceeded",
]);
export type StopReason = v.InferOutput<typeof StopReason>;

const ContentBlock = v.variant("type", [
  // Never null: the AI SDK 5 and 6 refuse the whole answer then.
  v.object({ type: v.literal("text"), text, citations: v.array(anyObject) }),
  v.object({
    type: v.literal("tool_use"),
    id: text,
    name: text,
    input: anyObject,
    caller: v.object({ type: v.literal("direct") }),
  }),
  v.object(ThinkingBlock.entries),
  v.object(RedactedThinkingBlock.entries),
]);
export type ContentBlock = v.InferOutput<typeof ContentBlock>;

/** The fields of a message that the official service always sends, and that are known here only of an upstream of this format. */
const unknown = { container: v.null(), stop_details: v.null() };

const answer = <const Reason extends v.GenericSchema>(stop_reason: Reason) =>
  v.object({
    id: text,
    type: v.literal("message"),
    role: v.literal("assistant"),
    model: text,
    content: v.array(ContentBlock),
    stop_reason,
    stop_sequence: v.nullable(text),
    ...unknown,
    diagnostics: v.null(),
    usage: Usage,
  });

/** A complete answer. Its `stop_reason` is never null. */
export const MessagesAnswer = answer(StopReason);
export type MessagesAnswer = v.InferOutput<typeof MessagesAnswer>;

/** The answer at the start of a stream, without content and without `stop_reason`. */
const StartedAnswer = answer(v.null());
export type StartedAnswer = v.InferOutput<typeof StartedAnswer>;

const ContentDelta = v.variant("type", [
  v.object({ type: v.literal("text_delta"), text }),
  v.object({ type: v.literal("thinking_delta"), thinking: text }),
  v.object({ type: v.literal("signature_delta"), signature: text }),
  v.object({ type: v.literal("input_json_delta"), partial_json: text }),
  v.object({ type: v.literal("citations_delta"), citation: anyObject }),
]);
export type ContentDelta = v.InferOutput<typeof ContentDelta>;

const errorOf = <const Types extends readonly string[]>(types: Types) =>
  v.object({
    type: v.literal("error"),
    error: v.object({ type: v.picklist(types), message: text, code: text, details: v.optional(anyObject) }),
    request_id: text,
  });

const CALLER_ERRORS = ["invalid_request_error", "authentication_error", "rate_limit_error"] as const;

export const MessagesError = errorOf([...CALLER_ERRORS, "server_error"]);
export type MessagesError = v.InferOutput<typeof MessagesError>;

/** The error with `errors: "vendor"`. */
export const VendorMessagesError = errorOf([
  ...CALLER_ERRORS,
  "permission_error",
  "not_found_error",
  "request_too_large",
  "timeout_error",
  "overloaded_error",
  "api_error",
]);
export type VendorMessagesError = v.InferOutput<typeof VendorMessagesError>;

const index = count;

const EVENTS = [
  v.object({ type: v.literal("message_start"), message: StartedAnswer }),
  v.object({ type: v.literal("content_block_start"), index, content_block: ContentBlock }),
  v.object({ type: v.literal("content_block_delta"), index, delta: ContentDelta }),
  v.object({ type: v.literal("content_block_stop"), index }),
  v.object({
    type: v.literal("message_delta"),
    // Send the usage twice: the spec has it inside `delta`, the official service beside `delta`, and clients read one of the two.
    delta: v.object({
      stop_reason: StopReason,
      stop_sequence: v.nullable(text),
      ...unknown,
      usage: v.pick(Usage, ["input_tokens", "output_tokens"]),
    }),
    usage: Usage,
  }),
  v.object({ type: v.literal("message_stop") }),
  v.object({ type: v.literal("ping") }),
] as const;

export const MessagesStreamEvent = v.variant("type", [...EVENTS, MessagesError]);
/** An event of a stream with `errors: "vendor"`. */
export const VendorMessagesStreamEvent = v.variant("type", [...EVENTS, VendorMessagesError]);
export type MessagesStreamEvent = v.InferOutput<typeof MessagesStreamEvent>;

export const MessagesTokenCount = v.object({ input_tokens: count });

export const MessagesModel = v.object({
  type: v.literal("model"),
  id: text,
  display_name: text,
  created_at: v.pipe(v.string(), v.isoTimestamp()),
  max_input_tokens: v.nullable(count),
  max_tokens: v.nullable(count),
  // Every model on offer is active. The gateway knows nothing of the other fields.
  lifecycle: v.literal("active"),
  capabilities: v.null(),
  line: v.null(),
  deprecated_at: v.null(),
  retires_at: v.null(),
});
export type MessagesModel = v.InferOutput<typeof MessagesModel>;

export const MessagesModelList = v.object({
  data: v.array(MessagesModel),
  has_more: v.boolean(),
  first_id: v.nullable(text),
  last_id: v.nullable(text),
});
export type MessagesModelList = v.InferOutput<typeof MessagesModelList>;
