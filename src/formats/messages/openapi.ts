/** Describes the messages format for the OpenAPI document. */

import * as v from "valibot";
import {
  type FormatDescription,
  BEARER,
  MAYBE_STREAM,
  MODEL,
  pageSize,
  type Parameter,
  parameter,
  PNG,
  QUESTION,
  TOOL,
  TOOL_INPUT,
} from "../shared/openapi.ts";
import * as errors from "./errors.ts";
import type { MessagesOptions } from "./routes.ts";
import * as answers from "./schema.answer.ts";
import { CacheControl, messagesRequest, ProviderBlock, TextBlock } from "./schema.ts";

const HEADERS: readonly Parameter[] = [
  parameter(
    "header",
    "compat-version",
    "The format's version, such as `2023-06-01`. Required, unless `anthropic-version` is there.",
  ),
  parameter(
    "header",
    "anthropic-version",
    "Stands for a missing `compat-version`. The official clients send this name.",
  ),
  parameter("header", "compat-beta", "Names of betas, with commas between them; the header may be repeated."),
  parameter("header", "anthropic-beta", "More betas. The official clients send this name."),
];
const RULES =
  "Rules beyond the schema: `thinking.budget_tokens` must be less than `max_tokens`, unless the header names the beta " +
  "`interleaved-thinking-2025-05-14`; the names of tools must differ; " +
  "`tool_choice` must name a tool of the request; a `tool_result` must answer an earlier `tool_use`. Unknown fields are passed on.";

const MESSAGES = [{ role: "user", content: "Hello" }];
const HELLO = { model: MODEL, max_tokens: 100, messages: MESSAGES };
const PICTURE = [{ type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }, QUESTION];
const ANSWER = {
  id: "msg_0123456789abcdef",
  type: "message",
  role: "assistant",
  model: MODEL,
  content: [{ type: "text", text: "Hello!", citations: [] }],
  stop_reason: "end_turn",
  stop_sequence: null,
  container: null,
  stop_details: null,
  diagnostics: null,
  usage: {
    input_tokens: 8,
    output_tokens: 2,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    cache_creation: null,
    output_tokens_details: null,
    server_tool_use: null,
    service_tier: null,
    inference_geo: null,
    speed: null,
  },
};
const LISTED = {
  type: "model",
  id: MODEL,
  display_name: MODEL,
  created_at: "1970-01-01T00:00:00Z",
  max_input_tokens: 200_000,
  max_tokens: 64_000,
  lifecycle: "active",
  capabilities: null,
  line: null,
  deprecated_at: null,
  retires_at: null,
};

export const messagesDescription: FormatDescription<MessagesOptions> = {
  name: "messages",
  tag: { name: "Messages", description: "Chat in messages of content blocks." },
  security: [{ apiKey: [] }, BEARER],
  errorSchema: "MessagesError",
  errors: errors,
  errorsOf: ({ errors: kind }) => {
    const isVendor = kind === "vendor";
    return {
      ...errors,
      errorStatus: (error) => errors.errorStatus(error, isVendor),
      encodeError: (error, requestId) => errors.encodeError(error, requestId, isVendor),
    };
  },
  schemas({ ranges, imageSources, errors: kind }) {
    const request = messagesRequest({ vendorRanges: ranges === "vendor", vendorSources: imageSources === "vendor" });
    const { max_tokens, ...entries } = request.entries;
    const { VendorMessagesError, VendorMessagesStreamEvent, ...spec } = answers;
    return {
      ...spec,
      ...(kind === "vendor" && { MessagesError: VendorMessagesError, MessagesStreamEvent: VendorMessagesStreamEvent }),
      MessagesRequest: request,
      // A token count generates nothing, so it needs no `max_tokens`.
      MessagesTokenCountRequest: v.object({ ...entries, max_tokens: v.nullish(max_tokens) }),
      MessagesTextBlock: TextBlock,
      MessagesProviderBlock: ProviderBlock,
      MessagesCacheControl: CacheControl,
    };
  },
  examples: {
    MessagesRequest: {
      "A question": HELLO,
      "A question, answered as a stream": { ...HELLO, stream: true },
      "A tool": { ...HELLO, tools: [{ ...TOOL, input_schema: TOOL_INPUT }] },
      "A picture": { ...HELLO, messages: [{ role: "user", content: PICTURE }] },
    },
    MessagesAnswer: { "An answer": ANSWER },
    MessagesStreamEvent: {
      "The first event": { type: "message_start", message: { ...ANSWER, content: [], stop_reason: null } },
      "A block begins": {
        type: "content_block_start",
        index: 0,
        content_block: { type: "text", text: "", citations: [] },
      },
      "A piece of a block": { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello!" } },
      "A block ends": { type: "content_block_stop", index: 0 },
      "The end of the answer": {
        type: "message_delta",
        delta: {
          stop_reason: "end_turn",
          stop_sequence: null,
          container: null,
          stop_details: null,
          usage: { input_tokens: 8, output_tokens: 2 },
        },
        usage: ANSWER.usage,
      },
      "The last event": { type: "message_stop" },
    },
    MessagesTokenCountRequest: { "A question": { model: MODEL, messages: MESSAGES } },
    MessagesTokenCount: { "An estimate": { input_tokens: 8 } },
  },
  operations: [
    {
      endpoint: "chat POST /v1/messages",
      operationId: "createMessage",
      summary: "Asks for the next message of a conversation.",
      parameters: HEADERS,
      request: "MessagesRequest",
      rules: RULES,
      answer: "MessagesAnswer",
      events: "MessagesStreamEvent",
      answerDescription: `${MAYBE_STREAM} The event's name is the \`type\` in the data. A failure on the way is the last event.`,
    },
    {
      endpoint: "query POST /v1/messages/count_tokens",
      operationId: "countMessageTokens",
      summary: "Estimates the tokens of a request, at no charge.",
      parameters: HEADERS,
      request: "MessagesTokenCountRequest",
      rules: RULES,
      answer: "MessagesTokenCount",
      answerDescription: "The estimate.",
    },
  ],
  models: {
    model: answers.MessagesModel,
    list: answers.MessagesModelList,
    examples: {
      model: LISTED,
      list: { data: [LISTED], has_more: false, first_id: MODEL, last_id: MODEL },
    },
    parameters: [
      pageSize("limit", 20, 1_000),
      parameter("query", "after_id", "Gives the page behind this model."),
      parameter("query", "before_id", "Gives the page before this model."),
    ],
    chosenBy: "A header of the messages format, such as `x-api-key`, selects that format.",
  },
};
