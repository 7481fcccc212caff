/** The messages answers on the wire (spec 2.7, 6.1, 7.2), complete, streamed and refused, and the answers about models. */

import * as v from "valibot";

const text = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));

const Usage = v.object({
  input_tokens: count,
  output_tokens: count,
  cache_creation_input_tokens: count,
  cache_read_input_tokens: count,
  // What is told beyond the spec, as the official service does.
  output_tokens_details: v.optional(v.object({ thinking_tokens: count })),
  cache_creation: v.optional(v.record(v.string(), count)),
  server_tool_use: v.optional(v.record(v.string(), count)),
  service_tier: v.optional(text),
});

/** The arguments of a tool call: whatever the tool's own schema asks for. */
const input = v.record(v.string(), v.unknown());
/** The spec's four, and those that only an upstream of this format has. */
const StopReason = v.picklist([
  "end_turn",
  "max_tokens",
  "stop_sequence",
  "tool_use",
  "pause_turn",
  "refusal",
  "model_context_window_exceeded",
]);

export const AnswerBlock = v.variant("type", [
  v.object({ type: v.literal("text"), text }),
  v.object({ type: v.literal("tool_use"), id: text, name: text, input }),
  v.object({ type: v.literal("thinking"), thinking: text, signature: text }),
  v.object({ type: v.literal("redacted_thinking"), data: text }),
]);

const answer = <const Reason extends v.GenericSchema>(stop_reason: Reason) =>
  v.object({
    id: text,
    type: v.literal("message"),
    role: v.literal("assistant"),
    model: text,
    content: v.array(AnswerBlock),
    stop_reason,
    stop_sequence: v.nullable(text),
    usage: Usage,
  });

/** A complete answer always says why it ended. */
export const MessagesAnswer = answer(StopReason);

const BlockDelta = v.variant("type", [
  v.object({ type: v.literal("text_delta"), text }),
  v.object({ type: v.literal("thinking_delta"), thinking: text }),
  v.object({ type: v.literal("signature_delta"), signature: text }),
  v.object({ type: v.literal("input_json_delta"), partial_json: text }),
]);

export const MessagesError = v.object({
  type: v.literal("error"),
  error: v.object({
    type: v.picklist(["invalid_request_error", "authentication_error", "rate_limit_error", "server_error"]),
    message: text,
    code: text,
    details: v.optional(v.record(v.string(), v.unknown())),
  }),
  request_id: text,
});

const index = count;

/** The data of one event of a stream. */
export const MessagesStreamEvent = v.variant("type", [
  v.object({ type: v.literal("message_start"), message: answer(v.null()) }),
  v.object({ type: v.literal("content_block_start"), index, content_block: AnswerBlock }),
  v.object({ type: v.literal("content_block_delta"), index, delta: BlockDelta }),
  v.object({ type: v.literal("content_block_stop"), index }),
  v.object({
    type: v.literal("message_delta"),
    delta: v.object({
      stop_reason: StopReason,
      stop_sequence: v.nullable(text),
      usage: v.pick(Usage, ["input_tokens", "output_tokens"]),
    }),
    usage: Usage,
  }),
  v.object({ type: v.literal("message_stop") }),
  v.object({ type: v.literal("ping") }),
  MessagesError,
]);

export const MessagesTokenCount = v.object({ input_tokens: count });

export const MessagesModel = v.object({
  type: v.literal("model"),
  id: text,
  display_name: text,
  created_at: v.pipe(v.string(), v.isoTimestamp()),
});

export const MessagesModelList = v.object({
  data: v.array(MessagesModel),
  has_more: v.boolean(),
  first_id: v.nullable(text),
  last_id: v.nullable(text),
});
