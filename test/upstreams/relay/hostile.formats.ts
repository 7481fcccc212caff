/** The answers of healthy upstreams of each format: one answer, whole and in frames, and their own errors. */

import type { RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { chatCompletions } from "../../drivers/chat-completions.ts";
import type { Driver } from "../../drivers/driver.ts";
import { generateContent } from "../../drivers/generate-content.ts";
import { images } from "../../drivers/images.ts";
import { messages } from "../../drivers/messages.ts";
import { responses } from "../../drivers/responses.ts";
import { png } from "../../formats/images/pictures.ts";

/** A caller's charge, and the part of it that is an estimate. */
export interface Charge {
  readonly used: number;
  readonly estimated: number;
}

export interface Speaker {
  readonly format: RelayFormat;
  /** The frames of a whole stream; the first `begun` of them bring `first`. */
  readonly frames: readonly string[];
  readonly begun: number;
  /** The keep-alive frame. */
  readonly alive: string;
  /** A complete answer. */
  readonly body: object;
  /** The whole text, and its beginning. */
  readonly whole: string;
  readonly first: string;
  /** The charges for both. */
  readonly costs: { readonly whole: Charge; readonly first: Charge };
  /** The body of an error with a status. */
  readonly error: (status: number, message: string) => object;
  /** The error in the middle of a stream. */
  readonly errorFrame: (status: number, message: string) => string;
}

/** The content type of a stream, or of a complete answer. */
export const typeOf = (stream: boolean): string => (stream ? "text/event-stream" : "application/json");

/** The caller's tokens, one for each character. */
export const PROMPT = "ten tokens";
const FIRST = "Hel";
const REST = "lo, wörld 🌍";
const WHOLE = FIRST + REST;

const event = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
const typed = (data: { readonly type: string; readonly [field: string]: unknown }): string => event(data.type, data);
const data = (chunk: object): string => `data: ${JSON.stringify(chunk)}\n\n`;

/** An upstream's own counts are exact: 11 in, 7 out. Before it has told them, a caller is charged by estimate. */
const COUNTED: Charge = { used: 18, estimated: 0 };
const ESTIMATED: Charge = { used: PROMPT.length + FIRST.length, estimated: PROMPT.length + FIRST.length };

const TYPE_OF_MESSAGES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  504: "timeout_error",
  529: "overloaded_error",
};

const text = (index: number, said: string): string =>
  typed({ type: "content_block_delta", index, delta: { type: "text_delta", text: said } });

const message = { id: "msg_9", type: "message", role: "assistant", model: "model-a" };

const messagesError = (status: number, said: string): { type: "error"; error: object } => ({
  type: "error",
  error: { type: TYPE_OF_MESSAGES[status] ?? "api_error", message: said },
});

const speaksMessages: Speaker = {
  format: "messages",
  frames: [
    typed({
      type: "message_start",
      message: {
        ...message,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 11, output_tokens: 1 },
      },
    }),
    typed({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    text(0, FIRST),
    text(0, REST),
    typed({ type: "content_block_stop", index: 0 }),
    typed({
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: 7 },
    }),
    typed({ type: "message_stop" }),
  ],
  begun: 3,
  alive: typed({ type: "ping" }),
  body: {
    ...message,
    content: [{ type: "text", text: WHOLE }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 11, output_tokens: 7 },
  },
  whole: WHOLE,
  first: FIRST,
  // Its first frame counts the input.
  costs: { whole: COUNTED, first: { used: 11 + FIRST.length, estimated: 11 + FIRST.length } },
  error: messagesError,
  errorFrame: (status, said) => typed(messagesError(status, said)),
};

const STATUS_OF_GENERATE_CONTENT: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

const candidate = (said: string, more: object = {}, usageMetadata?: object): object => ({
  candidates: [{ content: { role: "model", parts: [{ text: said }] }, index: 0, ...more }],
  ...(usageMetadata && { usageMetadata }),
  modelVersion: "model-a",
  responseId: "r",
});

const USAGE_METADATA = { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 };

const generateContentError = (code: number, said: string): object => ({
  error: { code, message: said, status: STATUS_OF_GENERATE_CONTENT[code] ?? "UNKNOWN" },
});

const speaksGenerateContent: Speaker = {
  format: "generate-content",
  frames: [data(candidate(FIRST)), data(candidate(REST, { finishReason: "STOP" }, USAGE_METADATA))],
  begun: 1,
  alive: data({}),
  body: candidate(WHOLE, { finishReason: "STOP" }, USAGE_METADATA),
  whole: WHOLE,
  first: FIRST,
  costs: { whole: COUNTED, first: ESTIMATED },
  error: generateContentError,
  errorFrame: (status, said) => data(generateContentError(status, said)),
};

const TYPE_OF_OPENAI: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "invalid_request_error",
  429: "rate_limit_error",
};

const openaiError = (status: number, said: string): object => ({
  error: { message: said, type: TYPE_OF_OPENAI[status] ?? "server_error", param: null, code: null },
});

const completion = { id: "c", created: 1, model: "model-a" };
const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };

const chunk = (choices: readonly object[], more: object = {}): string =>
  data({ ...completion, object: "chat.completion.chunk", choices, ...more });
const choice = (delta: object, finish_reason: string | null = null): object => ({ index: 0, delta, finish_reason });

const speaksChatCompletions: Speaker = {
  format: "chat-completions",
  frames: [
    chunk([choice({ role: "assistant", content: FIRST })]),
    chunk([choice({ content: REST })]),
    chunk([choice({}, "stop")]),
    chunk([], { usage: USAGE }),
    "data: [DONE]\n\n",
  ],
  begun: 1,
  alive: "data: \n\n",
  body: {
    ...completion,
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: WHOLE }, finish_reason: "stop" }],
    usage: USAGE,
  },
  whole: WHOLE,
  first: FIRST,
  costs: { whole: COUNTED, first: ESTIMATED },
  error: openaiError,
  errorFrame: (status, said) => data(openaiError(status, said)),
};

const RESPONSE = { id: "resp_1", object: "response", created_at: 1, model: "model-a", error: null };
const MESSAGE = { id: "msg_1", type: "message", role: "assistant" };
const saying = (text: string): object => ({
  ...MESSAGE,
  status: "completed",
  content: [{ type: "output_text", text, annotations: [], logprobs: [] }],
});
const COMPLETED_RESPONSE = {
  ...RESPONSE,
  status: "completed",
  output: [saying(WHOLE)],
  usage: { input_tokens: 11, output_tokens: 7, total_tokens: 18 },
};
const PLACE = { item_id: "msg_1", output_index: 0, content_index: 0 };

const speaksResponses: Speaker = {
  format: "responses",
  frames: [
    { type: "response.created", response: { ...RESPONSE, status: "in_progress", output: [] } },
    { type: "response.output_item.added", output_index: 0, item: { ...MESSAGE, status: "in_progress", content: [] } },
    {
      type: "response.content_part.added",
      ...PLACE,
      part: { type: "output_text", text: "", annotations: [], logprobs: [] },
    },
    { type: "response.output_text.delta", ...PLACE, delta: FIRST },
    { type: "response.output_text.delta", ...PLACE, delta: REST },
    { type: "response.output_item.done", output_index: 0, item: saying(WHOLE) },
    { type: "response.completed", response: COMPLETED_RESPONSE },
  ].map((frame, sequence_number) => typed({ ...frame, sequence_number })),
  begun: 4,
  alive: typed({ type: "keepalive" }),
  body: COMPLETED_RESPONSE,
  whole: WHOLE,
  first: FIRST,
  costs: { whole: COUNTED, first: ESTIMATED },
  error: openaiError,
  errorFrame: (status, said) => typed({ type: "error", ...openaiError(status, said) }),
};

/** The price of a picture in these tests. */
export const PICTURE_PRICE = 7;

const PICTURE = Buffer.from(png());
const b64_json = PICTURE.toString("base64");
/** The form in which the driver reads pictures. */
const PICTURE_TEXT = PICTURE.toString();
const COMPLETED = event("image_generation.completed", { type: "image_generation.completed", b64_json });

const speaksImages: Speaker = {
  format: "images",
  frames: [COMPLETED, COMPLETED, COMPLETED],
  begun: 1,
  alive: event("image_generation.queued", { type: "image_generation.queued" }),
  body: { created: 1, data: [{ b64_json }, { b64_json }, { b64_json }] },
  whole: PICTURE_TEXT.repeat(3),
  first: PICTURE_TEXT,
  costs: { whole: { used: 3 * PICTURE_PRICE, estimated: 0 }, first: { used: PICTURE_PRICE, estimated: 0 } },
  error: openaiError,
  errorFrame: (status, said) => event("error", { type: "error", ...openaiError(status, said) }),
};

/** The caller's format, and the upstream's. */
export interface Pair {
  readonly name: string;
  readonly caller: Driver;
  readonly upstream: Speaker;
}

const pair = (caller: Driver, upstream: Speaker): Pair => ({
  name: caller.name === upstream.format ? caller.name : `${caller.name} by ${upstream.format}`,
  caller,
  upstream,
});

/** Each format before itself and before another one. Each format is once the caller's and once the upstream's of a mixed pair. */
export const pairs: readonly [Pair, ...Pair[]] = [
  pair(messages, speaksMessages),
  pair(messages, speaksChatCompletions),
  pair(generateContent, speaksGenerateContent),
  pair(generateContent, speaksMessages),
  pair(chatCompletions, speaksChatCompletions),
  pair(chatCompletions, speaksGenerateContent),
  pair(responses, speaksResponses),
  pair(responses, speaksMessages),
  pair(chatCompletions, speaksResponses),
  pair(images, speaksImages),
];

/** The pair of a caller's format and an upstream's. */
export function pairOf(caller: RelayFormat, format: RelayFormat): Pair {
  const found = pairs.find((one) => one.caller.name === caller && one.upstream.format === format);
  if (!found) throw new Error(`There is no pair of ${caller} and ${format}.`);
  return found;
}
