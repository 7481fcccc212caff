/**
 * The messages format as upstreams speak it: the codec of a relay. An upstream gets the caller's own body of this format with the gateway's
 * decisions, and without the seals that the upstream does not accept.
 */

import { budgetWithin } from "../../kinds/chat/reasoning.ts";
import type { ChatRequest, NativeRequest, ReasoningPart, RedactedReasoningPart } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { derived, listedIn } from "../../model/derived.ts";
import { type JsonObject, isJsonObject, type JsonValue } from "../../model/json.ts";
import type { ChatCodec, CodecOptions } from "../format.ts";
import { withoutPrefill } from "../shared/claude.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { limitHeaders } from "../shared/errors.decode.ts";
import { unwrapSeal } from "../shared/seal.ts";
import { CLAUDE_TOOL_NAMES } from "../shared/tool-names.ts";
import { MessagesDecoder } from "./answer.decode.ts";
import { conversionsOf, toldOf } from "./conversions.ts";
import { decodeError } from "./errors.ts";
import { encodeMessages, isBlank } from "./request.messages.ts";
import {
  encodeRequest,
  fitted,
  INTERLEAVED_THINKING,
  lacksThinking,
  MIN_BUDGET_TOKENS,
  toolLoopStart,
} from "./request.ts";
import { FORMAT } from "./routes.ts";
import { FOREIGN_CITATION } from "./schema.ts";

/** The version header of requests that the gateway encodes for callers of other formats. */
const VERSION = "2023-06-01";

/** Makes the codec for upstreams that speak this format. */
export function messagesCodec(options: CodecOptions = {}): ChatCodec {
  const encode: ChatCodec["encodeRequest"] = (request) => {
    const native = request.native?.format === FORMAT ? request.native : undefined;
    const headers = {
      "anthropic-version": native?.version ?? VERSION,
      ...(native && native.betas.length > 0 && { "anthropic-beta": native.betas.join(",") }),
    };
    if (native) return { path: "/messages", headers, ...nativeBody({ ...request, native }, options) };
    const lost: ConvertedFields = new Set();
    const asked = withoutPrefill(request, lost);
    const messages = encodeMessages(asked.messages, options.foreignReasoning, lost);
    const body = encodeRequest(fitted(asked, messages, options, lost), messages, lost);
    const conversions = conversionsOf(request, body, lost, options);
    return { path: "/messages", headers, body: body as JsonObject, conversions };
  };
  return {
    format: FORMAT,
    toolNames: CLAUDE_TOOL_NAMES,
    encodeRequest: encode,
    answerDecoder: (limits) => new MessagesDecoder(limits),
    answerFields: /^(?:content|message|content_block)$/,
    count: {
      encode(request) {
        const { body, headers } = encode(request);
        const counted = Object.entries(body).filter(([field]) => !ANSWER_FIELDS.has(field));
        return { path: "/messages/count_tokens", headers, body: Object.fromEntries(counted) };
      },
      decode: ({ input_tokens }) => input_tokens,
    },
    decodeError,
    limitsOf: (headers) => ({ format: FORMAT, headers: limitHeaders(headers, UNIFIED) }),
  };
}

/** The headers that tell the client of a subscription how long to wait. The others tell how much of the host's account is used. */
const UNIFIED: readonly string[] = ["status", "reset", "representative-claim"].map(
  (name) => `anthropic-ratelimit-unified-${name}`,
);

/** The request fields about the answer. The official service refuses them in a token count. */
const ANSWER_FIELDS: ReadonlySet<string> = new Set([
  "container",
  "diagnostics",
  "fallback_credit_token",
  "fallbacks",
  "inference_geo",
  "max_tokens",
  "metadata",
  "service_tier",
  "stop_sequences",
  "stream",
  "temperature",
  "top_k",
  "top_p",
]);

/**
 * Returns the caller's own body with the model's name, the output limit and `stream`. All other bytes stay, except for seals of other
 * makers and thinking that the official service would refuse.
 */
function nativeBody(
  { native, ...request }: ChatRequest & { readonly native: NativeRequest },
  { foreignReasoning }: CodecOptions,
): { body: JsonObject; conversions: Conversion[] } {
  const fields: ConvertedFields = new Set();
  const { model, maxOutputTokens, stream } = request;
  // The cast is safe: the body comes from `JSON.parse`.
  let body: JsonObject = { ...(native.body as JsonObject), model, max_tokens: maxOutputTokens };
  // Keep the caller's `stream`, or its absence, if it means the same.
  if (stream !== (native.body["stream"] ?? false)) body = { ...body, stream };
  const { messages, hasForeign } = withoutForeign(messagesIn(body), foreignReasoning, fields);
  if (messages) body = { ...body, messages };
  const { thinking } = body;
  if (native.remembered && isJsonObject(thinking) && thinking["type"] !== "disabled")
    body = { ...body, messages: withRemembered(messagesIn(body), native.remembered) };
  const isEnabled = isJsonObject(thinking) && thinking["type"] === "enabled";
  if (hasForeign && isEnabled && lacksThinking(messagesIn(body))) body = withoutThinking(body, fields);
  else if (
    !native.betas.includes(INTERLEAVED_THINKING) &&
    (maxOutputTokens !== native.body["max_tokens"] || exceeds(body))
  )
    body = withBudgetWithin(body, maxOutputTokens, fields);
  return { body, conversions: toldOf(fields, new Set(), request) };
}

/** Tells whether the budget is not below the output limit, which an upstream takes only for interleaved thinking. */
const exceeds = ({ thinking, max_tokens }: JsonObject): boolean =>
  isJsonObject(thinking) && Number(thinking["budget_tokens"]) >= Number(max_tokens);

type Message = { readonly role: string; readonly content?: string | JsonObject[] | null };

// The cast is safe: the body is valid.
const messagesIn = (body: JsonObject): Message[] => body["messages"] as unknown as Message[];

/**
 * Returns the messages without seals of other makers and without empty turns, which the official service refuses; undefined if there are none,
 * so that the body stays as it came. `hasForeign` is true if another provider wrote a turn of the tool loop at the end. Earlier turns may lack
 * thinking.
 */
function withoutForeign(
  messages: readonly Message[],
  foreignReasoning: CodecOptions["foreignReasoning"],
  fields: ConvertedFields,
): { readonly messages: Message[] | undefined; readonly hasForeign: boolean } {
  const listed = listedIn(messages);
  if (!messages.some((message, index) => mayChange(message, listed?.[index])))
    return { messages: undefined, hasForeign: false };
  let [isChanged, hasForeign] = [false, false];
  const cleaned: Message[] = [];
  const start = toolLoopStart(messages);
  for (const [index, message] of messages.entries()) {
    const { content } = message;
    if (!Array.isArray(content) || !mayChange(message, listed?.[index])) {
      cleaned.push(message);
      continue;
    }
    const blocks = content.flatMap((block) => ownBlock(block, foreignReasoning, fields));
    const isSame =
      blocks.length > 0 && blocks.length === content.length && blocks.every((block, at) => block === content[at]);
    isChanged ||= !isSame;
    hasForeign ||= index >= start && thoughtsIn(blocks) !== thoughtsIn(content);
    if (isSame) cleaned.push(message);
    else if (blocks.length > 0) cleaned.push({ ...message, content: blocks });
  }
  return { messages: isChanged ? cleaned : undefined, hasForeign };
}

/** Puts the thinking that clients have not sent back before its calls, in turns without thinking. */
function withRemembered(messages: readonly Message[], remembered: NonNullable<NativeRequest["remembered"]>): Message[] {
  return messages.map((message) => {
    const { role, content } = message;
    if (role !== "assistant" || !Array.isArray(content) || content.some(isThought)) return message;
    const restored: JsonObject[] = [];
    /** The blocks since the last call. */
    let latest: JsonObject[] = [];
    for (const block of content) {
      latest.push(block);
      if (block["type"] !== "tool_use") continue;
      // The cast is safe: the body is valid.
      for (const part of remembered.get(block["id"] as string)?.reasoning ?? []) restored.push(...thoughtOf(part));
      restored.push(...latest);
      latest = [];
    }
    restored.push(...latest);
    return restored.length === content.length ? message : { ...message, content: restored };
  });
}

/** Returns the block of remembered thinking that this format's own upstream has made. */
function thoughtOf(part: ReasoningPart | RedactedReasoningPart): JsonObject[] {
  if ((part.maker ?? FORMAT) !== FORMAT) return [];
  if (part.type === "redacted-reasoning") return [{ type: "redacted_thinking", data: part.data }];
  const { text: thinking, signature } = part;
  return signature ? [{ type: "thinking", thinking, signature }] : [];
}

const mayChange = derived(
  ({ content }: Message): boolean =>
    Array.isArray(content) && (content.length === 0 || content.some(isThought) || content.some(isForeignCited)),
);

const isForeignCited = ({ type, citations }: JsonObject): boolean =>
  type === "text" && Array.isArray(citations) && citations.some(isForeignCitation);

const isForeignCitation = (citation: unknown): boolean =>
  isJsonObject(citation) &&
  citation["type"] === FOREIGN_CITATION.type &&
  citation["encrypted_index"] === FOREIGN_CITATION.encrypted_index;

const isThought = ({ type }: JsonObject): boolean => type === "thinking" || type === "redacted_thinking";

const thoughtsIn = (content: readonly JsonObject[]): number => content.filter(isThought).length;

/** Returns a block as the upstream accepts it: itself, with its seal unwrapped, as text, or nothing. */
function ownBlock(
  block: JsonObject,
  foreignReasoning: CodecOptions["foreignReasoning"],
  fields: ConvertedFields,
): readonly JsonObject[] {
  const { type, citations } = block;
  // The citations of an earlier answer are about that answer, and no model reads them. So their loss is not told.
  if (Array.isArray(citations) && isForeignCited(block))
    return [{ ...block, citations: citations.filter((citation) => !isForeignCitation(citation)) }];
  const field = type === "thinking" ? "signature" : type === "redacted_thinking" ? "data" : undefined;
  if (field === undefined) return [block];
  const text = block[field];
  const seal = typeof text === "string" ? unwrapSeal(text) : undefined;
  // The upstream's gateway needs the empty seals, too: they mark the turns of other providers.
  if (text !== "" && (!seal || foreignReasoning === "pass")) return [block];
  if (seal?.maker === FORMAT && seal.value !== "" && seal.kind !== "call") return [{ ...block, [field]: seal.value }];
  const { thinking } = block;
  if (foreignReasoning === "text" && typeof thinking === "string" && !isBlank(thinking)) {
    fields.add("messages.reasoning");
    return [{ type: "text", text: thinking }];
  }
  if (!seal) fields.add("messages.reasoning.unsealed");
  // An empty seal only shows that another provider wrote the turn.
  else if (seal.value !== "" || type === "thinking")
    fields.add(
      seal.kind === "call" || (type !== "thinking" && seal.kind === "part")
        ? "messages.signature.foreign"
        : "messages.reasoning.foreign",
    );
  return [];
}

/** Lowers the budget to what the output limit has room for. Gives thinking up if this is less than the smallest budget. */
function withBudgetWithin(body: JsonObject, maxOutputTokens: number, fields: ConvertedFields): JsonObject {
  const { thinking } = body;
  if (!isJsonObject(thinking) || typeof thinking["budget_tokens"] !== "number") return body;
  const budget_tokens = budgetWithin(thinking["budget_tokens"], maxOutputTokens);
  if (budget_tokens === thinking["budget_tokens"]) return body;
  if (budget_tokens < MIN_BUDGET_TOKENS) return withoutThinking(body, fields);
  fields.add("reasoning.budgetTokens");
  return { ...body, thinking: { ...thinking, budget_tokens } };
}

function withoutThinking(body: JsonObject, fields: ConvertedFields): JsonObject {
  fields.add("reasoning");
  const off = { ...body, thinking: { type: "disabled" } };
  const { context_management: context } = body;
  if (!isJsonObject(context) || !Array.isArray(context["edits"])) return off;
  // The official service refuses to clear thinking from the context where thinking is off.
  const edits = context["edits"].filter((edit) => !isClearing(edit));
  return { ...off, context_management: { ...context, edits } };
}

/** Tells whether an edit of the context clears earlier thinking. */
function isClearing(edit: JsonValue): boolean {
  const type = isJsonObject(edit) ? edit["type"] : undefined;
  return typeof type === "string" && type.startsWith("clear_thinking");
}
