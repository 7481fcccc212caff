/** Describes the chat formats for the document. */

import * as v from "valibot";
import * as chatAnswer from "../formats/chat-completions/schema.answer.ts";
import { ChatCompletionsRequest } from "../formats/chat-completions/schema.ts";
import * as contentErrors from "../formats/generate-content/errors.ts";
import * as contentAnswer from "../formats/generate-content/schema.answer.ts";
import { GenerationConfig } from "../formats/generate-content/schema.config.ts";
import { OpenApiSchema } from "../formats/generate-content/schema.openapi.ts";
import * as content from "../formats/generate-content/schema.ts";
import * as messagesErrors from "../formats/messages/errors.ts";
import * as messagesAnswer from "../formats/messages/schema.answer.ts";
import { CacheControl, messagesRequest, ProviderBlock, TextBlock } from "../formats/messages/schema.ts";
import * as openAIErrors from "../formats/shared/errors.ts";
import { OpenAIError } from "../formats/shared/schema.ts";
import { contentEmbeddings, methodOf } from "./embeddings.ts";
import {
  BEARER,
  type FormatDescription,
  type FormatOperation,
  type JsonSchema,
  MAYBE_STREAM,
  type Parameter,
  parameter,
  ref,
  type SharedOperation,
} from "./parts.ts";

const pageSize = (name: string, size: number, most?: number): Parameter => {
  const range = { minimum: 1, ...(most !== undefined && { maximum: most }) };
  return parameter("query", name, "The most models of a page.", { type: "integer", ...range, default: size });
};

/** Makes the operations that list models and look one model up. The suffix distinguishes the operation ids of several lists. */
const modelOperations = (
  path: string,
  suffix: string,
  schema: string,
  parameters: readonly Parameter[],
  description = "",
): FormatOperation[] => [
  {
    endpoint: `query GET ${path}`,
    operationId: `listModels${suffix}`,
    summary: "Lists the models that the key may use.",
    description,
    parameters,
    answer: `${schema}List`,
    answerDescription: "The models.",
  },
  {
    endpoint: `query GET ${path}/{model}`,
    operationId: `getModel${suffix}`,
    summary: "Tells of one model.",
    description,
    answer: schema,
    answerDescription: "The model.",
  },
];

/** Values that the examples share. */
const MODEL = "demo-chat";
const PNG = "iVBORw0KGgo=";
const TOOL = { name: "get_weather", description: "Tells the weather of a place." };
const TOOL_INPUT = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const QUESTION = { type: "text", text: "What is this?" };

const MESSAGES_HEADERS: readonly Parameter[] = [
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
const MESSAGES_RULES =
  "Rules beyond the schema: `thinking.budget_tokens` must be less than `max_tokens`, unless the header names the beta " +
  "`interleaved-thinking-2025-05-14`; the names of tools must differ; " +
  "`tool_choice` must name a tool of the request; a `tool_result` must answer an earlier `tool_use`. Unknown fields are passed on.";

const MESSAGES = [{ role: "user", content: "Hello" }];
const MESSAGES_HELLO = { model: MODEL, max_tokens: 100, messages: MESSAGES };
const MESSAGES_PICTURE = [{ type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }, QUESTION];
const MESSAGES_ANSWER = {
  id: "msg_0123456789abcdef",
  type: "message",
  role: "assistant",
  model: MODEL,
  content: [{ type: "text", text: "Hello!", citations: null }],
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
const MESSAGES_MODEL = {
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

export const messages: FormatDescription = {
  name: "messages",
  tag: { name: "Messages", description: "Chat in messages of content blocks." },
  security: [{ apiKey: [] }, BEARER],
  errorSchema: "MessagesError",
  errors: messagesErrors,
  schemas({ messages: { ranges, imageSources } = {} }) {
    const request = messagesRequest({ vendorRanges: ranges === "vendor", vendorSources: imageSources === "vendor" });
    const { max_tokens, ...entries } = request.entries;
    return {
      ...messagesAnswer,
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
      "A question": MESSAGES_HELLO,
      "A question, answered as a stream": { ...MESSAGES_HELLO, stream: true },
      "A tool": { ...MESSAGES_HELLO, tools: [{ ...TOOL, input_schema: TOOL_INPUT }] },
      "A picture": { ...MESSAGES_HELLO, messages: [{ role: "user", content: MESSAGES_PICTURE }] },
    },
    MessagesAnswer: { "An answer": MESSAGES_ANSWER },
    MessagesStreamEvent: {
      "The first event": { type: "message_start", message: { ...MESSAGES_ANSWER, content: [], stop_reason: null } },
      "A block begins": {
        type: "content_block_start",
        index: 0,
        content_block: { type: "text", text: "", citations: null },
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
        usage: MESSAGES_ANSWER.usage,
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
      parameters: MESSAGES_HEADERS,
      request: "MessagesRequest",
      rules: MESSAGES_RULES,
      answer: "MessagesAnswer",
      events: "MessagesStreamEvent",
      answerDescription: `${MAYBE_STREAM} The event's name is the \`type\` in the data. A failure on the way is the last event.`,
    },
    {
      endpoint: "query POST /v1/messages/count_tokens",
      operationId: "countMessageTokens",
      summary: "Estimates the tokens of a request, at no charge.",
      parameters: MESSAGES_HEADERS,
      request: "MessagesTokenCountRequest",
      rules: MESSAGES_RULES,
      answer: "MessagesTokenCount",
      answerDescription: "The estimate.",
    },
  ],
};

const CONTENT_HELLO = { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };
const CONTENT_SHAPE = {
  responseMimeType: "application/json",
  responseSchema: { type: "OBJECT", properties: { greeting: { type: "STRING" } } },
};
const CONTENT_TOOL = { ...TOOL, parameters: { type: "OBJECT", properties: { place: { type: "STRING" } } } };
const CONTENT_ANSWER = {
  candidates: [{ content: { role: "model", parts: [{ text: "Hello!" }] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 2, totalTokenCount: 10 },
  modelVersion: MODEL,
  responseId: "resp_0123456789abcdef",
};
const CONTENT_MODEL = {
  name: `models/${MODEL}`,
  displayName: MODEL,
  supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"],
};
const CONTENT_PIECE = v.union([contentAnswer.GenerateContentResponse, contentAnswer.GenerateContentStreamError]);
const CONTENT_RULES =
  "Each field may also be written in snake_case: `inline_data` for `inlineData`. Rules beyond the schema: a part is of one " +
  "kind; a `responseSchema` needs a `responseMimeType` of JSON or of an enum. Unknown fields are passed on.";
const CONTENT_PAGES: readonly Parameter[] = [
  pageSize("pageSize", 50),
  parameter("query", "pageToken", "The `nextPageToken` of the page before."),
];
const ALT = parameter("query", "alt", "`sse` asks for server-sent events; without it, the stream is one JSON array.", {
  type: "string",
  enum: ["sse", "json"],
});

const CONTENT_CALL = { request: "GenerateContentRequest", rules: CONTENT_RULES };

/** Google's own models are in the first two collections; tuned models are in all. */
const TUNED_COLLECTIONS = ["v1/models", "v1beta/tunedModels", "v1/tunedModels"];

export const generateContent: FormatDescription = {
  name: "generate-content",
  tag: { name: "Generate content", description: "Content made of parts, by a model that the path names." },
  security: [{ queryKey: [] }, { googApiKey: [] }, BEARER],
  errorSchema: "GenerateContentError",
  errors: contentErrors,
  schemas: () => ({
    GenerateContentRequest: content.GenerateContentRequest,
    Content: content.Content,
    Part: content.Part,
    Tool: content.Tool,
    GenerationConfig,
    Schema: OpenApiSchema,
    CountTokensRequest: content.CountTokensRequest,
    CountTokensAnswer: contentAnswer.CountTokensAnswer,
    GenerateContentResponse: contentAnswer.GenerateContentResponse,
    GenerateContentError: contentAnswer.GenerateContentError,
    GenerateContentModel: contentAnswer.GenerateContentModel,
    GenerateContentModelList: contentAnswer.GenerateContentModelList,
    GenerateContentPiece: CONTENT_PIECE,
    GenerateContentStream: v.array(CONTENT_PIECE),
    ...contentEmbeddings.schemas,
  }),
  jsonSchemas({ Schema = {} }) {
    // Remove the property named `$ref`: tools would read it as a reference. A property without a schema may hold any value.
    const { $ref: _, $defs: Schemas = {}, ...properties } = Schema["properties"] as Record<string, JsonSchema>;
    // Generated clients name types after properties, and take `defs` and `$defs` for the same name.
    const named = { $defs: ref("Schemas"), defs: ref("Schemas") };
    return { Schemas, Schema: { ...Schema, properties: { ...properties, ...named } } };
  },
  examples: {
    GenerateContentRequest: {
      "A question": CONTENT_HELLO,
      "An answer of a shape": { ...CONTENT_HELLO, generationConfig: CONTENT_SHAPE },
      "A function": { ...CONTENT_HELLO, tools: [{ functionDeclarations: [CONTENT_TOOL] }] },
      "Code that the service runs": { ...CONTENT_HELLO, tools: [{ codeExecution: {} }] },
    },
    GenerateContentResponse: { "An answer": CONTENT_ANSWER },
    GenerateContentPiece: { "A piece": CONTENT_ANSWER },
    GenerateContentStream: { "A stream of one piece": [CONTENT_ANSWER] },
    CountTokensRequest: { Contents: CONTENT_HELLO, "A request": { generateContentRequest: CONTENT_HELLO } },
    CountTokensAnswer: { "An estimate": { totalTokens: 8 } },
    GenerateContentModel: { "A model": CONTENT_MODEL },
    GenerateContentModelList: { "A page": { models: [CONTENT_MODEL] } },
    ...contentEmbeddings.examples,
  },
  operations: [
    {
      ...methodOf("chat", "generateContent", TUNED_COLLECTIONS),
      summary: "Asks a model for content.",
      ...CONTENT_CALL,
      answer: "GenerateContentResponse",
    },
    {
      ...methodOf("chat", "streamGenerateContent", TUNED_COLLECTIONS),
      summary: "Asks a model for content, and gets it piece by piece.",
      parameters: [ALT],
      ...CONTENT_CALL,
      answer: "GenerateContentStream",
      events: "GenerateContentPiece",
      answerDescription:
        "The pieces of the answer. A server-sent event has no name, and its data is one piece; an empty object only keeps the " +
        "connection open. A failure on the way is the last piece.",
    },
    {
      ...methodOf("query", "countTokens", TUNED_COLLECTIONS),
      summary: "Estimates the tokens of contents or of a request, at no charge.",
      request: "CountTokensRequest",
      rules: "One of `contents` and `generateContentRequest`.",
      answer: "CountTokensAnswer",
      answerDescription: "The estimate.",
    },
    ...contentEmbeddings.operations,
    ...modelOperations("/v1beta/models", "V1beta", "GenerateContentModel", CONTENT_PAGES),
  ],
};

const CHAT_HELLO = { model: MODEL, messages: MESSAGES };
const CHAT_SHAPE = { name: "greeting", schema: { type: "object", properties: { greeting: { type: "string" } } } };
const CHAT_PICTURE = [{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }, QUESTION];
const CHAT_HEAD = { id: "chatcmpl-0123456789abcdef", created: 1_700_000_000, model: MODEL };
const CHAT_USAGE = {
  prompt_tokens: 8,
  completion_tokens: 2,
  total_tokens: 10,
  prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: 0,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
};
const CHAT_MESSAGE = { role: "assistant", content: "Hello!", refusal: null };
const chatChunk = (delta: object, finish_reason: "stop" | null = null): object => ({
  ...CHAT_HEAD,
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
});
const CHAT_MODEL = { id: MODEL, object: "model", created: 0, owned_by: "polygate" };

export const chatCompletions: FormatDescription = {
  name: "chat-completions",
  tag: { name: "Chat completions", description: "Chat in the form that most providers and local servers speak." },
  security: [BEARER],
  errorSchema: "OpenAIError",
  errors: openAIErrors,
  schemas: () => ({
    ...chatAnswer,
    ChatCompletionsRequest,
    OpenAIError,
    ChatCompletionsStreamEvent: v.union([chatAnswer.ChatCompletionsChunk, OpenAIError]),
    // The formats share the paths of models.
    Model: v.union([messagesAnswer.MessagesModel, contentAnswer.GenerateContentModel, chatAnswer.ChatCompletionsModel]),
    ModelList: v.union([
      messagesAnswer.MessagesModelList,
      contentAnswer.GenerateContentModelList,
      chatAnswer.ChatCompletionsModelList,
    ]),
  }),
  examples: {
    ChatCompletionsRequest: {
      "A question": CHAT_HELLO,
      "A stream that ends with the counts": { ...CHAT_HELLO, stream: true, stream_options: { include_usage: true } },
      "A tool": { ...CHAT_HELLO, tools: [{ type: "function", function: { ...TOOL, parameters: TOOL_INPUT } }] },
      "A picture": { ...CHAT_HELLO, messages: [{ role: "user", content: CHAT_PICTURE }] },
      "An answer of a shape": { ...CHAT_HELLO, response_format: { type: "json_schema", json_schema: CHAT_SHAPE } },
    },
    ChatCompletionsAnswer: {
      "An answer": {
        ...CHAT_HEAD,
        object: "chat.completion",
        choices: [{ index: 0, message: CHAT_MESSAGE, logprobs: null, finish_reason: "stop" }],
        usage: CHAT_USAGE,
      },
    },
    ChatCompletionsStreamEvent: {
      "The first chunk": chatChunk({ ...CHAT_MESSAGE, content: "" }),
      "A piece of the text": chatChunk({ content: "Hello!" }),
      "The end of a choice": chatChunk({}, "stop"),
      "The counts": { ...CHAT_HEAD, object: "chat.completion.chunk", choices: [], usage: CHAT_USAGE },
    },
    Model: { Messages: MESSAGES_MODEL, "Generate content": CONTENT_MODEL, "Chat completions": CHAT_MODEL },
    ModelList: {
      Messages: { data: [MESSAGES_MODEL], has_more: false, first_id: MODEL, last_id: MODEL },
      "Generate content": { models: [CONTENT_MODEL] },
      "Chat completions": { object: "list", data: [CHAT_MODEL] },
    },
  },
  operations: [
    {
      endpoint: "chat POST /v1/chat/completions",
      operationId: "createChatCompletion",
      summary: "Asks for the next message of a chat.",
      request: "ChatCompletionsRequest",
      rules:
        "Rules beyond the schema: `top_logprobs` needs `logprobs`; the names of tools must differ; `tool_choice` must name a tool " +
        "of the request; a message of a tool must answer an earlier call; a file has either `file_data` or `file_id`. Unknown " +
        "fields are passed on.",
      answer: "ChatCompletionsAnswer",
      events: "ChatCompletionsStreamEvent",
      answerDescription:
        `${MAYBE_STREAM} Events have no names. The data of the last event is \`[DONE]\`, which is not JSON. A failure on the ` +
        "way is an event with an `error`.",
    },
  ],
};

/** The operations that several formats share. */
export const sharedOperations: readonly SharedOperation[] = modelOperations(
  "/v1/models",
  "",
  "Model",
  [
    pageSize("limit", 20, 1_000),
    parameter("query", "after_id", "Gives the page behind this model."),
    parameter("query", "before_id", "Gives the page before this model."),
    ...CONTENT_PAGES,
  ],
  "Several formats share this path. A header of the messages format, such as `x-api-key`, selects that format; " +
    "`x-goog-api-key`, `x-goog-api-client` or the query's `key` selects generate-content. Other callers get the answer of chat " +
    "completions.",
).map((operation) => ({ ...operation, formats: [messages, generateContent, chatCompletions] }));
