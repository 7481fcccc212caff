/** Describes the Responses format for the OpenAPI document, with kept responses and conversations. */

import * as errors from "../shared/errors.ts";
import {
  OPENAI_SECURITY,
  type ErrorCause,
  type FormatDescription,
  type FormatOperation,
  type JsonSchema,
  MAYBE_STREAM,
  type Parameter,
  parameter,
  ref,
} from "../shared/openapi.ts";
import { OpenAIError } from "../shared/schema.ts";
import {
  Conversation,
  ConversationDeleted,
  ResponsesAnswer,
  ResponsesCompaction,
  ResponsesDeleted,
  ResponsesOutputItem,
  ResponsesStreamEvent,
  ResponsesTokenCount,
} from "./schema.answer.ts";
import {
  ChangedConversation,
  Content,
  InputItem,
  NewConversation,
  NewItems,
  ResponsesRequest,
  Tool,
} from "./schema.ts";

const MODEL = "demo-chat";
const PNG = "iVBORw0KGgo=";
const ID = "resp_0123456789abcdef";
const CONVERSATION_ID = "conv_0123456789abcdef";
const HELLO = { model: MODEL, input: "Hello" };
const PLACE = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const TOOL = { type: "function", name: "get_weather", description: "Tells the weather of a place.", parameters: PLACE };
const SHAPE = { type: "json_schema", name: "greeting", schema: { type: "object" } };
const PICTURE = [
  { type: "input_image", image_url: `data:image/png;base64,${PNG}` },
  { type: "input_text", text: "What is this?" },
];
const OUTPUT_TEXT = { type: "output_text", text: "Hello!", annotations: [], logprobs: [] };
const OUTPUT = {
  type: "message",
  id: "msg_0123456789abcdef_0",
  status: "completed",
  role: "assistant",
  content: [OUTPUT_TEXT],
};
const QUESTION = {
  type: "message",
  id: "msg_0123456789abcdef_i0",
  status: "completed",
  role: "user",
  content: [{ type: "input_text", text: "Hello" }],
};
const ANSWER = {
  id: ID,
  object: "response",
  created_at: 1_700_000_000,
  status: "completed",
  background: false,
  error: null,
  incomplete_details: null,
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  presence_penalty: 0,
  frequency_penalty: 0,
  access_programs: null,
  previous_response_id: null,
  prompt_cache_key: null,
  reasoning: { effort: null, summary: null },
  safety_identifier: null,
  service_tier: "default",
  temperature: 1,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_logprobs: 0,
  top_p: 1,
  truncation: "disabled",
  model: MODEL,
  output: [OUTPUT],
  usage: {
    input_tokens: 8,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 10,
  },
  store: true,
  completed_at: 1_700_000_000,
};
const BEGUN = { ...ANSWER, status: "in_progress", output: [], usage: null, completed_at: null };
const CHANGED = { id: CONVERSATION_ID, object: "conversation", created_at: 1_700_000_000, metadata: { topic: "hats" } };
const IN_MESSAGE = { item_id: OUTPUT.id, output_index: 0, content_index: 0 };

const RULES =
  "Rules beyond the schema: an `input` must be there, unless the request goes on from a response or a conversation; the names of " +
  "tools must differ; `tool_choice` must name a tool of the request; an output must answer an earlier call; an image has either " +
  "`image_url` or `file_id`; a file has one of `file_data`, `file_id` and `file_url`; `conversation` cannot stand beside " +
  "`previous_response_id`. `background` needs a service that keeps responses, and no `store` of false. Unknown fields are passed on.";
const EVENTS =
  "The event's name is the `type` in the data. A failure on the way is an event `error`, and then `response.failed`. The " +
  "events of an upstream that speaks this format are passed on, and may have further types.";

const PAGE: readonly Parameter[] = [
  parameter("query", "limit", "The most items of a page.", { type: "integer", minimum: 1, maximum: 100, default: 20 }),
  parameter("query", "order", "`asc` begins with the oldest item.", {
    type: "string",
    enum: ["asc", "desc"],
    default: "desc",
  }),
  parameter("query", "after", "Gives the page behind this item."),
];

/** The causes of errors of a route that the store of responses answers. */
const causes = (...more: readonly ErrorCause[]): ErrorCause[] => ["route", "key", "expiry", "rate", "gateway", ...more];

const RESPONSE = "/v1/responses/{response_id}";
const CONVERSATION = "/v1/conversations/{conversation_id}";

const kept: readonly FormatOperation[] = [
  {
    endpoint: `query GET ${RESPONSE}`,
    operationId: "getResponse",
    summary: "Gives a kept response once more.",
    parameters: [
      parameter("query", "stream", "`true` gives the events of a response that was made in the background."),
      parameter("query", "starting_after", "The `sequence_number` of the last event that the caller has.", {
        type: "integer",
        minimum: 0,
      }),
    ],
    answer: "ResponsesAnswer",
    events: "ResponsesStreamEvent",
    answerDescription: `${MAYBE_STREAM} ${EVENTS}`,
    causes: causes("input", "response"),
  },
  {
    endpoint: `query DELETE ${RESPONSE}`,
    operationId: "deleteResponse",
    summary: "Deletes a kept response.",
    answer: "ResponsesDeleted",
    causes: causes("response"),
  },
  {
    endpoint: `query POST ${RESPONSE}/cancel`,
    operationId: "cancelResponse",
    summary: "Ends a response that is made in the background.",
    answer: "ResponsesAnswer",
    answerDescription: "The response as it is now. A response that has ended stays as it is.",
    causes: causes("input", "response", "replay"),
  },
  {
    endpoint: `query GET ${RESPONSE}/input_items`,
    operationId: "listInputItems",
    summary: "Lists the input of a kept response, without that of earlier responses.",
    parameters: PAGE,
    answer: "ResponsesItemList",
    answerDescription: "A page of items.",
    causes: causes("input", "response", "item"),
  },
  {
    endpoint: "query POST /v1/conversations",
    operationId: "createConversation",
    summary: "Begins a conversation, to which responses add their items.",
    request: "ConversationRequest",
    answer: "Conversation",
    causes: causes("body", "input", "item", "replay"),
  },
  {
    endpoint: `query GET ${CONVERSATION}`,
    operationId: "getConversation",
    summary: "Gives a conversation, without its items.",
    answer: "Conversation",
    causes: causes("conversation"),
  },
  {
    endpoint: `query POST ${CONVERSATION}`,
    operationId: "updateConversation",
    summary: "Replaces the metadata of a conversation.",
    request: "ConversationChanges",
    answer: "Conversation",
    causes: causes("body", "input", "conversation", "replay"),
  },
  {
    endpoint: `query DELETE ${CONVERSATION}`,
    operationId: "deleteConversation",
    summary: "Deletes a conversation with its items.",
    answer: "ConversationDeleted",
    causes: causes("conversation"),
  },
  {
    endpoint: `query GET ${CONVERSATION}/items`,
    operationId: "listConversationItems",
    summary: "Lists the items of a conversation.",
    parameters: PAGE,
    answer: "ResponsesItemList",
    answerDescription: "A page of items.",
    causes: causes("input", "conversation", "item"),
  },
  {
    endpoint: `query POST ${CONVERSATION}/items`,
    operationId: "createConversationItems",
    summary: "Adds items to the end of a conversation.",
    request: "ConversationItemsRequest",
    answer: "ResponsesItemList",
    answerDescription: "The items, with their ids.",
    causes: causes("body", "input", "conversation", "item", "replay"),
  },
  {
    endpoint: `query GET ${CONVERSATION}/items/{item_id}`,
    operationId: "getConversationItem",
    summary: "Gives an item of a conversation.",
    answer: "ResponsesItem",
    causes: causes("conversation", "item"),
  },
  {
    endpoint: `query DELETE ${CONVERSATION}/items/{item_id}`,
    operationId: "deleteConversationItem",
    summary: "Deletes an item of a conversation.",
    answer: "Conversation",
    answerDescription: "The conversation without the item.",
    causes: causes("conversation", "item"),
  },
];

const NULLABLE_TEXT: JsonSchema = { type: ["string", "null"] };

/** Removes the defaults of fields: generated clients make a field with a default a required one. */
const withoutDefaults = (properties: Readonly<Record<string, JsonSchema>>): Record<string, JsonSchema> =>
  Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => {
      const { default: _, ...rest } = schema;
      return [name, rest];
    }),
  );

export const responsesDescription: FormatDescription = {
  name: "responses",
  tag: { name: "Responses", description: "Chat in items, which the service can keep for the next turn." },
  security: OPENAI_SECURITY,
  errorSchema: "OpenAIError",
  errors,
  schemas: () => ({
    ResponsesRequest,
    ResponsesInputItem: InputItem,
    ResponsesContent: Content,
    ResponsesTool: Tool,
    ResponsesAnswer,
    ResponsesOutputItem,
    ResponsesStreamEvent,
    ResponsesTokenCount,
    ResponsesCompaction,
    ResponsesDeleted,
    Conversation,
    ConversationDeleted,
    ConversationRequest: NewConversation,
    ConversationChanges: ChangedConversation,
    ConversationItemsRequest: NewItems,
    OpenAIError,
  }),
  jsonSchemas: ({ ResponsesRequest: request = {} }) => ({
    ResponsesRequest: { ...request, properties: withoutDefaults(request["properties"] as Record<string, JsonSchema>) },
    ResponsesTokenCountRequest: {
      ...request,
      properties: {
        ...withoutDefaults(request["properties"] as Record<string, JsonSchema>),
        model: { anyOf: [(request["properties"] as Record<string, JsonSchema>)["model"] ?? {}, { type: "null" }] },
      },
      required: (request["required"] as readonly string[]).filter((field) => field !== "model"),
    },
    // A kept item is an input item that certainly has an id and a type.
    ResponsesItem: {
      allOf: [
        ref("ResponsesInputItem"),
        {
          type: "object",
          properties: { id: { type: "string" }, type: { type: "string" } },
          required: ["id", "type"],
          additionalProperties: true,
        },
      ],
    },
    ResponsesItemList: {
      type: "object",
      properties: {
        object: { const: "list" },
        data: { type: "array", items: ref("ResponsesItem") },
        first_id: NULLABLE_TEXT,
        last_id: NULLABLE_TEXT,
        has_more: { type: "boolean" },
      },
      required: ["object", "data", "first_id", "last_id", "has_more"],
    },
  }),
  examples: {
    ResponsesRequest: {
      "A question": HELLO,
      "A question, answered as a stream": { ...HELLO, stream: true },
      "The next turn": { ...HELLO, previous_response_id: ID },
      "A tool": { ...HELLO, tools: [TOOL] },
      "A picture": { ...HELLO, input: [{ role: "user", content: PICTURE }] },
      "An answer of a shape": { ...HELLO, text: { format: SHAPE } },
      "An answer that is made in the background": { ...HELLO, background: true },
    },
    ResponsesTokenCountRequest: { "A question": HELLO, "A question to no model": { input: HELLO.input } },
    ResponsesAnswer: { "An answer": ANSWER },
    ResponsesStreamEvent: {
      "The first event": { type: "response.created", sequence_number: 0, response: BEGUN },
      "An item begins": {
        type: "response.output_item.added",
        sequence_number: 2,
        output_index: 0,
        item: { ...OUTPUT, status: "in_progress", content: [] },
      },
      "A piece of the text": {
        type: "response.output_text.delta",
        sequence_number: 4,
        ...IN_MESSAGE,
        delta: "Hello!",
        logprobs: [],
      },
      "An item ends": { type: "response.output_item.done", sequence_number: 7, output_index: 0, item: OUTPUT },
      "The last event": { type: "response.completed", sequence_number: 8, response: ANSWER },
    },
    ResponsesTokenCount: { "An estimate": { object: "response.input_tokens", input_tokens: 8 } },
    ResponsesCompaction: {
      "A compaction": {
        id: "cmp_0123456789abcdef",
        object: "response.compaction",
        created_at: 1_700_000_000,
        output: [QUESTION, { id: "cmp_0123456789abcdef_0", type: "compaction", encrypted_content: "pgc.2026-01:AAAA" }],
        usage: ANSWER.usage,
      },
    },
    ResponsesDeleted: { "A deleted response": { id: ID, object: "response", deleted: true } },
    ResponsesItem: { "A message": QUESTION },
    ResponsesItemList: {
      "A page": { object: "list", data: [QUESTION], first_id: QUESTION.id, last_id: QUESTION.id, has_more: false },
    },
    ConversationRequest: { "A conversation with a first item": { metadata: CHANGED.metadata, items: [QUESTION] } },
    ConversationChanges: { "A topic": { metadata: CHANGED.metadata } },
    ConversationItemsRequest: { "A message": { items: [{ role: "user", content: "Hello" }] } },
    Conversation: { "A conversation": CHANGED },
    ConversationDeleted: {
      "A deleted conversation": { id: CONVERSATION_ID, object: "conversation.deleted", deleted: true },
    },
  },
  operations: [
    {
      endpoint: "chat POST /v1/responses",
      operationId: "createResponse",
      summary: "Asks for the next response of a conversation.",
      request: "ResponsesRequest",
      rules: RULES,
      answer: "ResponsesAnswer",
      events: "ResponsesStreamEvent",
      answerDescription: `${MAYBE_STREAM} ${EVENTS}`,
      causes: [
        ...causes("body", "input", "model", "quota", "replay", "backend"),
        // An id in a request may be unknown.
        "context",
        "conversation",
        "item",
      ],
    },
    {
      endpoint: "chat POST /v1/responses/compact",
      operationId: "compactResponse",
      summary: "Replaces a conversation by its user messages and a sealed summary.",
      request: "ResponsesRequest",
      rules: RULES,
      answer: "ResponsesCompaction",
      answerDescription: "The items that take the place of the conversation.",
      causes: [...causes("body", "input", "model", "quota", "replay", "backend"), "context", "conversation", "item"],
    },
    {
      endpoint: "query POST /v1/responses/input_tokens",
      operationId: "countResponseTokens",
      summary: "Estimates the tokens of a request, at no charge.",
      request: "ResponsesTokenCountRequest",
      rules: RULES,
      answer: "ResponsesTokenCount",
      answerDescription: "The estimate.",
      causes: causes("body", "input", "model", "replay", "context", "conversation", "item"),
    },
    ...kept,
  ],
};
