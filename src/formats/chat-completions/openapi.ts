/** Describes the chat-completions format for the OpenAPI document. */

import * as v from "valibot";
import * as errors from "../shared/errors.ts";
import {
  OPENAI_SECURITY,
  type FormatDescription,
  MAYBE_STREAM,
  MODEL,
  PNG,
  QUESTION,
  TOOL,
  TOOL_INPUT,
} from "../shared/openapi.ts";
import { OpenAIError } from "../shared/schema.ts";
import * as answers from "./schema.answer.ts";
import { ChatCompletionsRequest } from "./schema.ts";

const HELLO = { model: MODEL, messages: [{ role: "user", content: "Hello" }] };
const SHAPE = { name: "greeting", schema: { type: "object", properties: { greeting: { type: "string" } } } };
const PICTURE = [{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }, QUESTION];
const HEAD = { id: "chatcmpl-0123456789abcdef", created: 1_700_000_000, model: MODEL };
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
const MESSAGE = { role: "assistant", content: "Hello!", refusal: null };
const chatChunk = (delta: object, finish_reason: "stop" | null = null): object => ({
  ...HEAD,
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
});
const LISTED = { id: MODEL, object: "model", created: 0, owned_by: "polygate" };

export const chatCompletionsDescription: FormatDescription = {
  name: "chat-completions",
  tag: { name: "Chat completions", description: "Chat in the form that most providers and local servers speak." },
  security: OPENAI_SECURITY,
  errorSchema: "OpenAIError",
  errors: errors,
  schemas: () => ({
    ...answers,
    ChatCompletionsRequest,
    OpenAIError,
    ChatCompletionsStreamEvent: v.union([answers.ChatCompletionsChunk, OpenAIError]),
  }),
  examples: {
    ChatCompletionsRequest: {
      "A question": HELLO,
      "A stream that ends with the counts": { ...HELLO, stream: true, stream_options: { include_usage: true } },
      "A tool": { ...HELLO, tools: [{ type: "function", function: { ...TOOL, parameters: TOOL_INPUT } }] },
      "A function, as it was before tools": { ...HELLO, functions: [{ ...TOOL, parameters: TOOL_INPUT }] },
      "A picture": { ...HELLO, messages: [{ role: "user", content: PICTURE }] },
      "An answer of a shape": { ...HELLO, response_format: { type: "json_schema", json_schema: SHAPE } },
    },
    ChatCompletionsAnswer: {
      "An answer": {
        ...HEAD,
        object: "chat.completion",
        choices: [{ index: 0, message: MESSAGE, logprobs: null, finish_reason: "stop" }],
        usage: USAGE,
      },
    },
    ChatCompletionsStreamEvent: {
      "The first chunk": chatChunk({ ...MESSAGE, content: "" }),
      "A piece of the text": chatChunk({ content: "Hello!" }),
      "The end of a choice": chatChunk({}, "stop"),
      "The counts": { ...HEAD, object: "chat.completion.chunk", choices: [], usage: USAGE },
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
        "of the request; a message of a tool must answer an earlier call; a file has either `file_data` or `file_id`. The " +
        "deprecated `functions` must not stand beside `tools`; their names must differ; `function_call` needs `functions`, and must " +
        "name one of them. Unknown fields are passed on.",
      answer: "ChatCompletionsAnswer",
      events: "ChatCompletionsStreamEvent",
      answerDescription:
        `${MAYBE_STREAM} Events have no names. The data of the last event is \`[DONE]\`, which is not JSON. A failure on the ` +
        "way is an event with an `error`.",
    },
  ],
  models: {
    model: answers.ChatCompletionsModel,
    list: answers.ChatCompletionsModelList,
    examples: { model: LISTED, list: { object: "list", data: [LISTED] } },
    parameters: [],
    chosenBy: "Other callers get the answer of chat completions.",
  },
};
