/** The messages format's part of the document (spec 2.6, 2.7, 4, 6.1, 7.2). */

import { encodeError, errorStatus } from "../dialects/messages/errors.ts";
import {
  MessagesAnswer,
  MessagesError,
  MessagesModel,
  MessagesModelList,
  MessagesStreamEvent,
  MessagesTokenCount,
} from "../dialects/messages/schema.answer.ts";
import { CacheControl, messagesRequest, ProviderBlock, TextBlock } from "../dialects/messages/schema.ts";
import type { MessagesOptions } from "../index.ts";
import { type ErrorFormat, errorResponses, LIST, LOOKUP, MODEL_CALL, TOKEN_COUNT } from "./errors.ts";
import { answered, anyOfSchemes, examplesOf, jsonContent, MODEL_PARAMETER, parameter, schemaRef } from "./shapes.ts";
import type { Format, FormatOperation, FormatPart, JsonSchema, MediaType, Operation, Parameter } from "./types.ts";

const NAME = "Messages";

export const messagesFormat: Format = { name: "messages", part: ({ messages }) => partOf(messages ?? {}) };

const partOf = ({ ranges, imageSources }: MessagesOptions): FormatPart => ({
  tag: { name: NAME, description: "Chat in messages of content blocks." },
  schemas: {
    MessagesRequest: messagesRequest({ vendorRanges: ranges === "vendor", vendorSources: imageSources === "vendor" }),
    MessagesTextBlock: TextBlock,
    MessagesProviderBlock: ProviderBlock,
    MessagesCacheControl: CacheControl,
    MessagesAnswer,
    MessagesStreamEvent,
    MessagesError,
    MessagesTokenCount,
    MessagesModel,
    MessagesModelList,
  },
  derived: ({ MessagesRequest = {} }) => ({ MessagesTokenCountRequest: countedSchema(MessagesRequest) }),
  operations: [CREATE, COUNT, LIST_MODELS, GET_MODEL],
});

const ERRORS: ErrorFormat = {
  schema: schemaRef("MessagesError"),
  encode: (error, requestId) => ({ status: errorStatus(error), body: encodeError(error, requestId) }),
};

const FORMAT = { tags: [NAME], security: anyOfSchemes("apiKey", "bearer") };

const VERSION: readonly Parameter[] = [
  {
    ...parameter("header", "compat-version", "The version of the format. `anthropic-version` may stand in its place."),
    required: true,
  },
  parameter("header", "anthropic-version", "Another name of `compat-version`, as the official clients send it."),
  parameter("header", "compat-beta", "Names of betas, with commas between them; the header may be repeated."),
  parameter("header", "anthropic-beta", "Another name of `compat-beta`."),
];

const HELLO = { model: "demo-chat", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] };
const TOOL = {
  ...HELLO,
  tools: [
    {
      name: "get_weather",
      description: "Tells the weather of a place.",
      input_schema: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
    },
  ],
};
const PICTURE = {
  ...HELLO,
  messages: [
    {
      role: "user",
      content: [
        { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } },
        { type: "text", text: "What is this?" },
      ],
    },
  ],
};

/** Fields beside one another that JSON Schema cannot hold against one another. */
const ACROSS =
  "Beyond the schema: `thinking.budget_tokens` must be less than `max_tokens`; the names of tools must differ; `tool_choice` " +
  "must name one of them; a `tool_result` must answer an earlier `tool_use`. Fields that are not known are passed on.";

const body = (schema: string, examples: MediaType["examples"]): NonNullable<Operation["requestBody"]> => ({
  required: true,
  description: ACROSS,
  content: jsonContent(schemaRef(schema), examples),
});

const ANSWER = {
  id: "msg_0123456789abcdef",
  type: "message",
  role: "assistant",
  model: "demo-chat",
  content: [{ type: "text", text: "Hello!" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 8, output_tokens: 2, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
};
const EVENTS = examplesOf(
  ["The first event", { type: "message_start", message: { ...ANSWER, content: [], stop_reason: null } }],
  ["A block begins", { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }],
  ["A piece of a block", { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello!" } }],
  ["A block ends", { type: "content_block_stop", index: 0 }],
  [
    "The end of the answer",
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 8, output_tokens: 2 } },
      usage: ANSWER.usage,
    },
  ],
  ["The last event", { type: "message_stop" }],
);

const CREATE: FormatOperation = {
  kind: "chat",
  method: "POST",
  endpoint: "/v1/messages",
  path: "/v1/messages",
  operation: {
    ...FORMAT,
    operationId: "createMessage",
    summary: "Asks for the next message of a conversation.",
    parameters: VERSION,
    requestBody: body(
      "MessagesRequest",
      examplesOf(
        ["A question", HELLO],
        ["A question, answered as a stream", { ...HELLO, stream: true }],
        ["A tool", TOOL],
        ["A picture", PICTURE],
      ),
    ),
    responses: {
      200: answered(
        "The answer: one JSON object, or, where `stream` is true, a stream of server-sent events. The schema of the stream is that " +
          "of the data of one event; the event's name is the `type` in its data. A failure on the way is the last event.",
        {
          ...jsonContent(schemaRef("MessagesAnswer"), examplesOf(["An answer", ANSWER])),
          "text/event-stream": { schema: schemaRef("MessagesStreamEvent"), examples: EVENTS },
        },
      ),
      ...errorResponses(ERRORS, MODEL_CALL),
    },
  },
};

/** A count generates nothing, so it needs no max_tokens. */
function countedSchema(request: JsonSchema): JsonSchema {
  const { properties, required } = request as { properties: Record<string, JsonSchema>; required: readonly string[] };
  return {
    ...request,
    properties: { ...properties, max_tokens: { anyOf: [properties["max_tokens"], { type: "null" }] } },
    required: required.filter((name) => name !== "max_tokens"),
  };
}

const COUNT: FormatOperation = {
  kind: "query",
  method: "POST",
  endpoint: "/v1/messages/count_tokens",
  path: "/v1/messages/count_tokens",
  operation: {
    ...FORMAT,
    operationId: "countMessageTokens",
    summary: "Estimates the tokens of a request, at no charge.",
    parameters: VERSION,
    requestBody: body(
      "MessagesTokenCountRequest",
      examplesOf(["A question", { model: HELLO.model, messages: HELLO.messages }]),
    ),
    responses: {
      200: answered(
        "The estimate.",
        jsonContent(schemaRef("MessagesTokenCount"), examplesOf(["An estimate", { input_tokens: 8 }])),
      ),
      ...errorResponses(ERRORS, TOKEN_COUNT),
    },
  },
};

const SHARED_PATH =
  "Several formats share this path; one of this format's headers, such as `x-api-key`, asks for this one.";
const MODEL = { type: "model", id: "demo-chat", display_name: "demo-chat", created_at: "1970-01-01T00:00:00Z" };

const LIST_MODELS: FormatOperation = {
  kind: "query",
  method: "GET",
  endpoint: "/v1/models",
  path: "/v1/models",
  operation: {
    ...FORMAT,
    operationId: "listModels",
    summary: "Lists the models that the key may use.",
    description: SHARED_PATH,
    parameters: [
      parameter("query", "limit", "Most models of a page.", { type: "integer", minimum: 1, default: 20 }),
      parameter("query", "after_id", "Gives the page behind this model."),
      parameter("query", "before_id", "Gives the page before this model."),
    ],
    responses: {
      200: answered(
        "A page of models.",
        jsonContent(
          schemaRef("MessagesModelList"),
          examplesOf(["A page", { data: [MODEL], has_more: false, first_id: MODEL.id, last_id: MODEL.id }]),
        ),
      ),
      ...errorResponses(ERRORS, LIST),
    },
  },
};

const GET_MODEL: FormatOperation = {
  kind: "query",
  method: "GET",
  endpoint: "/v1/models/**",
  path: "/v1/models/{model}",
  operation: {
    ...FORMAT,
    operationId: "getModel",
    summary: "Tells of one model.",
    description: SHARED_PATH,
    parameters: [MODEL_PARAMETER],
    responses: {
      200: answered("The model.", jsonContent(schemaRef("MessagesModel"), examplesOf(["A model", MODEL]))),
      ...errorResponses(ERRORS, LOOKUP),
    },
  },
};
