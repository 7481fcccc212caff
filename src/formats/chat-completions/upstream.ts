/**
 * The chat-completions format as upstreams speak it: the codec of a relay. A caller's own body stays as it is, and the gateway's decisions are
 * laid over it.
 */

import type { ChatRequest, NativeRequest, WireObject } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, type JsonBudget, type JsonObject } from "../../model/json.ts";
import type { ChatCodec, CodecOptions } from "../format.ts";
import { type ConvertedFields, mapped } from "../shared/conversions.ts";
import { outputLimit } from "../shared/openai.ts";
import { unwrapSeal } from "../shared/seal.ts";
import { TOOL_NAMES } from "../shared/tool-names.ts";
import { CompletionDecoder, decodeError } from "./answer.decode.ts";
import {
  demandsSignatures,
  detailText,
  hasEmptySeal,
  historyOf,
  isOfOthers,
  NO_SIGNATURE,
  recordBudget,
  ReturnedReasoning,
  sealIn,
  unsealed,
  withoutEmptySeal,
  writeExtra,
} from "./reasoning.ts";
import { conversionsOf, encodeRequest } from "./request.ts";
import { FORMAT } from "./routes.ts";
import type { AssistantContent, AssistantMessage, ExtraContent, ReasoningDetail } from "./schema.ts";

/** Makes the codec for upstreams that speak this format: OpenAI, most other providers, local servers. */
export const chatCompletionsCodec = (options: CodecOptions = {}): ChatCodec => ({
  format: FORMAT,
  toolNames: TOOL_NAMES,
  encodeRequest(request) {
    const { body, conversions } =
      request.native?.format === FORMAT
        ? overlaidRequest(request.native.body, request, options)
        : encodeRequest(request, options);
    // The cast is safe: the body is the caller's own JSON, or is built from values that came as JSON.
    return { path: "/chat/completions", headers: {}, body: body as JsonObject, conversions };
  },
  answerDecoder: (limits, model) => new CompletionDecoder(limits, model),
  answerFields: /^choices$/,
  decodeError,
});

/** Returns the caller's own body with the gateway's decisions: the model, the output limit, and token counts in a stream. Its history is cleaned. */
function overlaidRequest(
  body: WireObject,
  request: ChatRequest,
  options: CodecOptions,
): { readonly body: WireObject; readonly conversions: readonly Conversion[] } {
  const { model, stream, native } = request;
  const { outputLimitField = "max_completion_tokens" } = options;
  const fields: ConvertedFields = new Set();
  const sent = (["max_completion_tokens", "max_tokens"] as const).filter((field) => body[field] != null);
  const limits = (sent.length > 0 ? sent : [outputLimitField]).map((field) => [field, outputLimit(request, options)]);
  const streamOptions = isJsonObject(body["stream_options"]) ? body["stream_options"] : {};
  const { messages } = body;
  const cleaner = new Cleaner(fields, model, options, native?.remembered);
  const overlaid = {
    ...body,
    model,
    ...(Array.isArray(messages) && { messages: mapped(messages, (message: unknown) => cleaner.clean(message)) }),
    ...Object.fromEntries(limits),
    // The gateway needs the token counts even if the caller did not ask for them.
    ...(stream && { stream: true, stream_options: { ...streamOptions, include_usage: true } }),
  };
  return { body: overlaid, conversions: conversionsOf({}, options, fields) };
}

/** Takes the seals of other makers out of a history, and unwraps those of this format. Returns every other message as it is. */
class Cleaner {
  readonly #fields: ConvertedFields;
  readonly #model: string;
  readonly #foreignReasoning: CodecOptions["foreignReasoning"];
  readonly #history: ReturnType<typeof historyOf>;
  readonly #records: JsonBudget = recordBudget();
  readonly #remembered: NativeRequest["remembered"];

  constructor(fields: ConvertedFields, model: string, options: CodecOptions, remembered: NativeRequest["remembered"]) {
    this.#remembered = remembered;
    this.#fields = fields;
    this.#model = model;
    this.#foreignReasoning = options.foreignReasoning;
    this.#history = historyOf(model, options);
  }

  clean(message: unknown): unknown {
    if (!isJsonObject(message) || message["role"] !== "assistant") return message;
    // The cast is safe: the body was validated when the caller sent it.
    const own = this.#withOwnReasoning(this.#withRemembered(message as unknown as AssistantMessage));
    return this.#withOwnSignatures(this.#withWantedReasoning(own));
  }

  /** Puts back the reasoning of a turn that the client has not sent back, or of which it has kept only a piece. */
  #withRemembered(message: AssistantMessage): AssistantMessage {
    const { refusesFields, refusesParts } = this.#history;
    const returned = new ReturnedReasoning();
    const content: AssistantContent[] = [];
    for (const { id } of (this.#remembered && message.tool_calls) ?? [])
      for (const part of (typeof id === "string" && this.#remembered?.get(id)?.reasoning) || []) {
        const isText = part.type === "reasoning";
        const [text, seal] = isText ? [part.text, part.signature ?? ""] : ["", part.data];
        const inContent = returned.add(text, seal, !isText, this.#records);
        if (inContent) content.push(inContent);
      }
    const fields = returned.message;
    const restored = refusesFields || isIn(fields, message) ? message : { ...withoutReasoning(message), ...fields };
    if (content.length === 0 || refusesParts || hasThinking(restored)) return restored;
    const said =
      typeof restored.content === "string" ? [{ type: "text" as const, text: restored.content }] : restored.content;
    return { ...restored, content: [...content, ...(said ?? [])] };
  }

  /** Removes the fields that the provider refuses, and adds the field that it demands. */
  #withWantedReasoning(message: AssistantMessage): AssistantMessage {
    const { reasoning_content, reasoning, reasoning_details } = message;
    const { demands, refusesFields } = this.#history;
    // The upstream's own gateway decides what its models get.
    if (this.#foreignReasoning === "pass") return message;
    if (refusesFields && (reasoning_content ?? reasoning ?? reasoning_details) != null) {
      this.#fields.add("messages.reasoning");
      return withoutReasoning(message);
    }
    return demands && message.tool_calls && reasoning_content == null ? { ...message, reasoning_content: "" } : message;
  }

  #withOwnReasoning(message: AssistantMessage): AssistantMessage {
    const { reasoning_details } = message;
    if (!reasoning_details?.some((detail) => hasEmptySeal(detail) || sealIn(detail))) return message;
    let foreign = "";
    let hasForeign = false;
    const kept = reasoning_details.flatMap((detail): ReasoningDetail[] => {
      const seal = sealIn(detail);
      if (seal && this.#foreignReasoning === "pass") return [detail];
      if (seal?.maker === FORMAT) return unsealed(detail, seal.value, this.#records);
      if (!seal) return withoutEmptySeal(detail);
      hasForeign = true;
      foreign += detailText(detail);
      return [];
    });
    const { reasoning_details: _details, ...others } = message;
    const cleaned = kept.length > 0 ? { ...others, reasoning_details: kept as typeof reasoning_details } : others;
    if (!hasForeign) return cleaned;
    this.#fields.add("messages.reasoning.foreign");
    // The text beside the details is the text of the same reasoning.
    const { reasoning_content: _content, reasoning: _reasoning, ...own } = cleaned;
    return this.#foreignReasoning === "text" && foreign !== "" ? withText(own, foreign) : own;
  }

  #withOwnSignatures(message: AssistantMessage): AssistantMessage {
    const { tool_calls, extra_content } = message;
    const [first] = tool_calls ?? [];
    const isMissing = first?.type === "function" && demandsSignatures(this.#model);
    if (!isMissing && !extra_content && !tool_calls?.some((call) => "extra_content" in call)) return message;
    const cleaned = { ...message, ...(extra_content && { extra_content: this.#ownExtra(extra_content) }) };
    if (cleaned.extra_content === undefined) delete cleaned.extra_content;
    if (!tool_calls) return cleaned;
    return {
      ...cleaned,
      tool_calls: tool_calls.map((call, index) => {
        if (call.type !== "function") return call;
        const { extra_content: extra, ...others } = call;
        const own = extra && this.#ownExtra(extra);
        const { signature = index === 0 && isMissing ? NO_SIGNATURE : undefined } =
          this.#remembered?.get(call.id) ?? {};
        if (signature !== undefined && !own?.google?.thought_signature)
          return { ...others, ...writeExtra({ signature }) };
        return own === extra ? call : { ...others, ...(own && { extra_content: own }) };
      }),
    };
  }

  /** Returns an extension without the signature of another maker; undefined if nothing is left. */
  #ownExtra(extra: NonNullable<ExtraContent>): ExtraContent {
    const text = extra.google?.thought_signature;
    if (text == null) return extra;
    const seal = unwrapSeal(text);
    if (text !== "" && this.#foreignReasoning === "pass") return extra;
    if (text !== "" && !seal && !isOfOthers(this.#model)) return extra;
    if (seal ? seal.value !== "" : text !== "") this.#fields.add("messages.signature.foreign");
    const { google: _google, ...others } = extra;
    return Object.keys(others).length > 0 ? others : undefined;
  }
}

/** Returns a message without the reasoning beside its content. */
function withoutReasoning(message: AssistantMessage): AssistantMessage {
  const { reasoning_content: _content, reasoning: _reasoning, reasoning_details: _details, ...others } = message;
  return others;
}

/** Tells whether a message has all these fields, with equal values. */
const isIn = (fields: object, message: object): boolean =>
  Object.entries(fields).every(
    ([field, value]) => JSON.stringify((message as Readonly<Record<string, unknown>>)[field]) === JSON.stringify(value),
  );

const hasThinking = ({ content }: AssistantMessage): boolean =>
  Array.isArray(content) && content.some(({ type }) => type === "thinking");

/** Puts a text before the content of a message. */
function withText(message: AssistantMessage, text: string): AssistantMessage {
  const { content } = message;
  const first = { type: "text" as const, text };
  if (Array.isArray(content)) return { ...message, content: [first, ...content] };
  return { ...message, content: content ? `${text}\n\n${content}` : text };
}
