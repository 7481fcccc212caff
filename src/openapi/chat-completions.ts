/** The chat-completions format's part of the document. */

import {
  ChatCompletionsAnswer,
  ChatCompletionsChunk,
  ChatCompletionsModel,
  ChatCompletionsModelList,
} from "../dialects/chat-completions/schema.output.ts";
import { ChatCompletionsRequest } from "../dialects/chat-completions/schema.ts";
import { OpenAIError } from "../dialects/shared/schema.openai-errors.ts";
import { encodeError, errorStatus } from "../dialects/shared/openai-errors.ts";
import { type ErrorFormat, errorResponses, LIST, LOOKUP, MODEL_CALL } from "./errors.ts";
import { answered, anyOfSchemes, examplesOf, jsonContent, MODEL_PARAMETER, schemaRef } from "./shapes.ts";
import type { Format, FormatOperation } from "./types.ts";

const NAME = "Chat completions";

export const chatCompletionsFormat: Format = {
  name: "chat-completions",
  part: () => ({
    tag: { name: NAME, description: "Chat in the form that most providers and local servers speak." },
    schemas: {
      ChatCompletionsRequest,
      ChatCompletionsAnswer,
      ChatCompletionsChunk,
      ChatCompletionsModel,
      ChatCompletionsModelList,
      OpenAIError,
    },
    operations: [CREATE, LIST_MODELS, GET_MODEL],
  }),
};

const ERRORS: ErrorFormat = {
  schema: schemaRef("OpenAIError"),
  encode: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
};

const FORMAT = { tags: [NAME], security: anyOfSchemes("bearer") };

const HELLO = { model: "demo-chat", messages: [{ role: "user", content: "Hello" }] };
const TOOL = {
  ...HELLO,
  tools: [
    {
      type: "function",
      function: {
        name: "get_weather",
        description: "Tells the weather of a place.",
        parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
      },
    },
  ],
};
const PICTURE = {
  ...HELLO,
  messages: [
    {
      role: "user",
      content: [
        { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
        { type: "text", text: "What is this?" },
      ],
    },
  ],
};
const SHAPE = {
  ...HELLO,
  response_format: {
    type: "json_schema",
    json_schema: { name: "greeting", schema: { type: "object", properties: { greeting: { type: "string" } } } },
  },
};

/** Fields beside one another that JSON Schema cannot hold against one another. */
const ACROSS =
  "Beyond the schema: `top_logprobs` needs `logprobs`; the names of tools must differ; `tool_choice` must name one of them; a " +
  "message of a tool must answer an earlier call; a file is given by `file_data` or by `file_id`. Fields that are not known " +
  "are passed on.";

const HEAD = { id: "chatcmpl-0123456789abcdef", created: 1_700_000_000, model: "demo-chat", system_fingerprint: null };
const USAGE = {
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
const ANSWER = {
  ...HEAD,
  object: "chat.completion",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "Hello!", refusal: null },
      logprobs: null,
      finish_reason: "stop",
    },
  ],
  usage: USAGE,
};
const chunk = (delta: object, finish_reason: "stop" | null = null): object => ({
  ...HEAD,
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
});
const CHUNKS = examplesOf(
  ["The first chunk", chunk({ role: "assistant", content: "", refusal: null })],
  ["A piece of the text", chunk({ content: "Hello!" })],
  ["The end of a choice", chunk({}, "stop")],
  ["The counts", { ...HEAD, object: "chat.completion.chunk", choices: [], usage: USAGE }],
);

const CREATE: FormatOperation = {
  kind: "chat",
  method: "POST",
  endpoint: "/v1/chat/completions",
  path: "/v1/chat/completions",
  operation: {
    ...FORMAT,
    operationId: "createChatCompletion",
    summary: "Asks for the next message of a chat.",
    parameters: [],
    requestBody: {
      required: true,
      description: ACROSS,
      content: jsonContent(
        schemaRef("ChatCompletionsRequest"),
        examplesOf(
          ["A question", HELLO],
          [
            "A question, answered as a stream that ends with the counts",
            { ...HELLO, stream: true, stream_options: { include_usage: true } },
          ],
          ["A tool", TOOL],
          ["A picture", PICTURE],
          ["An answer of a shape", SHAPE],
        ),
      ),
    },
    responses: {
      200: answered(
        "The answer: one JSON object, or, where `stream` is true, a stream of server-sent events without names. The schema of the " +
          "stream is that of the data of one event; the last event's data is `[DONE]`, which is not JSON. A failure on the way is " +
          "an event with an `error`.",
        {
          ...jsonContent(schemaRef("ChatCompletionsAnswer"), examplesOf(["An answer", ANSWER])),
          "text/event-stream": {
            schema: { anyOf: [schemaRef("ChatCompletionsChunk"), schemaRef("OpenAIError")] },
            examples: CHUNKS,
          },
        },
      ),
      ...errorResponses(ERRORS, MODEL_CALL),
    },
  },
};

const SHARED_PATH = "A caller without a header of another format's gets the answer of chat completions.";
const MODEL = { id: "demo-chat", object: "model", created: 0, owned_by: "polygate" };

const LIST_MODELS: FormatOperation = {
  kind: "query",
  method: "GET",
  endpoint: "/v1/models",
  path: "/v1/models",
  operation: {
    ...FORMAT,
    operationId: "listModelsAsChatCompletions",
    summary: "Lists the models that the key may use.",
    description: SHARED_PATH,
    parameters: [],
    responses: {
      200: answered(
        "All models.",
        jsonContent(
          schemaRef("ChatCompletionsModelList"),
          examplesOf(["The whole list", { object: "list", data: [MODEL] }]),
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
    operationId: "getModelAsChatCompletions",
    summary: "Tells of one model.",
    description: SHARED_PATH,
    parameters: [MODEL_PARAMETER],
    responses: {
      200: answered("The model.", jsonContent(schemaRef("ChatCompletionsModel"), examplesOf(["A model", MODEL]))),
      ...errorResponses(ERRORS, LOOKUP),
    },
  },
};
