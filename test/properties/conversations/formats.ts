/** The chat formats, each with the conversations that it can say, as its callers send them and its upstreams read them. */

import type fc from "fast-check";
import {
  decodeRequest as decodeChatCompletions,
  encodeRequest as encodeChatCompletions,
} from "../../../src/formats/chat-completions/request.ts";
import { ChatCompletionsRequest } from "../../../src/formats/chat-completions/schema.ts";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import type { ChatCodec } from "../../../src/formats/format.ts";
import {
  decodeRequest as decodeGenerateContent,
  encodeRequest as encodeGenerateContent,
} from "../../../src/formats/generate-content/request.ts";
import { generateContentCodec } from "../../../src/formats/generate-content/upstream.ts";
import {
  decodeRequest as decodeMessages,
  encodeRequest as encodeMessages,
} from "../../../src/formats/messages/request.ts";
import { messagesRequest } from "../../../src/formats/messages/schema.ts";
import { messagesCodec } from "../../../src/formats/messages/upstream.ts";
import {
  decodeRequest as decodeResponses,
  encodeRequest as encodeResponses,
} from "../../../src/formats/responses/request.ts";
import { ResponsesRequest } from "../../../src/formats/responses/schema.ts";
import { responsesCodec } from "../../../src/formats/responses/upstream.ts";
import { assertValid } from "../../../src/http/validation.ts";
import type { ChatRequest, JsonObject } from "../../../src/index.ts";
import { readBody } from "../../formats/generate-content/read-body.ts";
import { chatRequest as messagesConversation } from "../arbitraries.ts";
import { chatRequest as chatCompletionsConversation } from "../chat-completions.arbitraries.request.ts";
import { chatRequest as generateContentConversation } from "../generate-content.arbitraries.request.ts";
import { chatRequest as responsesConversation, NOTHING_BEFORE } from "../responses.arbitraries.request.ts";
import {
  HOSTED,
  INSTRUCTED,
  LAST_WORDS,
  LONG_IDS,
  NAMED,
  ODD_IDS,
  PICTURED,
  reasoning,
  STRICT,
  THINKING,
  TIERED,
  TWIN_CALLS,
  withOwn,
  withSeldom,
} from "./seldom.ts";

export type FormatName = "messages" | "generate-content" | "chat-completions" | "responses";

export interface Format {
  readonly name: FormatName;
  readonly codec: ChatCodec;
  /** Every conversation that the format can say. */
  readonly conversation: fc.Arbitrary<ChatRequest>;
  /** The body as a caller of the format writes it. */
  write(request: ChatRequest): object;
  /** Reads a body as the gateway of the format does, or an upstream; throws for one that is none. */
  read(body: JsonObject, target: Pick<ChatRequest, "model" | "stream">): ChatRequest;
}

const CALLS = [ODD_IDS, TWIN_CALLS, LAST_WORDS];

/** The gateway never sends reasoning back in this format; clients of local servers do. */
function withReasoning(request: ChatRequest): ChatCompletionsRequest {
  const { body } = encodeChatCompletions(request);
  const turns = request.messages.filter(({ role }) => role === "assistant");
  for (const message of body.messages) {
    if (message.role !== "assistant") continue;
    const texts = (turns.shift()?.parts ?? []).flatMap((part) => (part.type === "reasoning" ? part.text : []));
    if (texts.length > 0) message.reasoning_content = texts.join("");
  }
  return body;
}

/** The official service accepts no message that is only white space, and no request without a message. */
const saysSomething = ({ messages }: ChatRequest): boolean =>
  messages.some(({ parts }) => parts.some((part) => part.type !== "text" || part.text.trim() !== ""));

const MESSAGES = messagesRequest({ vendorRanges: true, vendorSources: true });

export const FORMATS: readonly Format[] = [
  {
    name: "messages",
    codec: messagesCodec(),
    conversation: withSeldom(messagesConversation.filter(saysSomething), [
      ...CALLS,
      LONG_IDS,
      INSTRUCTED,
      STRICT,
      TIERED,
      withOwn("messages", { container: "c_1", mcp_servers: [{ name: "a" }] }),
      reasoning({ type: "adaptive", effort: "low" }),
      reasoning({ type: "adaptive", effort: "xhigh" }),
      reasoning({ type: "adaptive", effort: "max" }),
    ]),
    write: encodeMessages,
    read(body) {
      const wire: unknown = body;
      assertValid(MESSAGES, wire);
      return decodeMessages(wire, { betas: [] });
    },
  },
  {
    name: "generate-content",
    codec: generateContentCodec(),
    conversation: withSeldom(generateContentConversation, [
      ...CALLS,
      LONG_IDS,
      withOwn("generate-content", { labels: { team: "a" }, store: false }),
      reasoning({ type: "adaptive", effort: "minimal", visible: true }),
      reasoning({ type: "adaptive", effort: "high", visible: false }),
    ]),
    write: encodeGenerateContent,
    read: (body, { model, stream }) =>
      decodeGenerateContent(readBody(body), { model, stream, defaultMaxOutputTokens: 1 }),
  },
  {
    name: "chat-completions",
    codec: chatCompletionsCodec(),
    conversation: withSeldom(chatCompletionsConversation, [
      ...CALLS,
      INSTRUCTED,
      NAMED,
      THINKING,
      PICTURED,
      reasoning({ type: "adaptive", effort: "xhigh" }),
      withOwn("chat-completions", { logit_bias: { "1": -100 }, verbosity: "low", web_search_options: { a: 1 } }),
    ]),
    write: withReasoning,
    read(body) {
      const wire: unknown = body;
      assertValid(ChatCompletionsRequest, wire);
      return decodeChatCompletions(wire, 1);
    },
  },
  {
    name: "responses",
    codec: responsesCodec(),
    conversation: withSeldom(responsesConversation, [
      ...CALLS,
      INSTRUCTED,
      STRICT,
      HOSTED,
      reasoning({ type: "adaptive", effort: "xhigh", visible: false }),
      withOwn("responses", { truncation: "auto", prompt_cache_key: "k", max_tool_calls: 3, top_nonsense: { a: 1 } }),
    ]),
    // The gateway asks upstreams for reasoning that can be sent back, and stores nothing there; a caller may ask for the same.
    write: (request) => encodeResponses(request).body,
    read(body) {
      const wire: unknown = body;
      assertValid(ResponsesRequest, wire);
      return decodeResponses({ body: wire, own: NOTHING_BEFORE }, 1);
    },
  },
];
