/**
 * The Responses format as upstreams speak it: the codec of a relay. A caller's own body stays as it is, and the gateway's decisions are laid
 * over it.
 */

import { backendFailed, GatewayError } from "../../errors.ts";
import { isValid } from "../../http/validation.ts";
import type { ChatEvent, NativeEvent } from "../../model/chat-event.ts";
import type { ChatRequest, NativeRequest } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, type JsonLimits, type JsonObject, type JsonValue } from "../../model/json.ts";
import type { ChatCodec, CodecOptions, AnswerDecoder } from "../format.ts";
import { type ConvertedFields, dropped, isSame, listConversions } from "../shared/conversions.ts";
import { decodeUpstreamError, limitHeaders, retryAfterOf } from "../shared/errors.decode.ts";
import { outputLimit } from "../shared/openai.ts";
import { unwrapSeal } from "../shared/seal.ts";
import { TOOL_NAMES } from "../shared/tool-names.ts";
import { lostUsage, parseAnswerObject } from "../shared/upstream.ts";
import { ResponseDecoder, decodeUsage, usageIn } from "./answer.decode.ts";
import { COMPACT_FORMAT } from "./compaction.keys.ts";
import { noteEmpty, tableOf } from "./conversions.ts";
import { encodeRequest, encryptedReasoning } from "./request.ts";
import { FORMAT } from "./routes.ts";
import { LooseUsage } from "./schema.upstream.ts";

/** Makes the codec for upstreams that speak this format. */
export function responsesCodec(options: CodecOptions = {}): ChatCodec {
  const encode: ChatCodec["encodeRequest"] = (request) => {
    const { native } = request;
    const encoded =
      native?.format === FORMAT ? overlaidRequest({ ...request, native }, options) : encodeRequest(request, options);
    return { path: "/responses", headers: {}, ...encoded };
  };
  return {
    format: FORMAT,
    toolNames: TOOL_NAMES,
    runsCode: true,
    encodeRequest: encode,
    answerDecoder: (limits) => new ResponseDecoder(limits),
    answerFields: /^(?:output|response|sequence_number)$/,
    count: {
      encode(request) {
        const { body, headers } = encode(request);
        const counted = Object.entries(body).filter(([field]) => COUNTED.has(field));
        return { path: "/responses/input_tokens", headers, body: Object.fromEntries(counted) };
      },
      decode: ({ input_tokens }) => input_tokens,
    },
    compact: {
      format: COMPACT_FORMAT,
      encode(request) {
        const native = { ...(request.native ?? { body: {}, betas: [] }), format: FORMAT };
        const { body, conversions } = overlaidRequest({ ...request, native }, options);
        const passed = Object.entries(body).filter(([field]) => !OF_ANSWERS.has(field));
        return { path: "/responses/compact", headers: {}, body: Object.fromEntries(passed), conversions };
      },
      decoder: (limits) => new CompactionDecoder(limits),
    },
    decodeError: (status, headers, body) => decodeUpstreamError(status, body, retryAfterOf(headers)),
    limitsOf: (headers) => ({ format: FORMAT, headers: limitHeaders(headers, usedUp(headers)) }),
  };
}

/** Lists the headers about the used-up windows of a subscription. Clients read them to learn how long to wait. */
const usedUp = (headers: Headers): string[] =>
  ["x-codex-primary-", "x-codex-secondary-"]
    .filter((window) => Number(headers.get(`${window}used-percent`)) >= 100)
    .flatMap((window) =>
      ["used-percent", "window-minutes", "reset-at", "reset-after-seconds"].map((name) => window + name),
    );

/** The request fields that a compaction does not have. */
const OF_ANSWERS: ReadonlySet<string> = new Set([
  "max_output_tokens",
  "store",
  "stream",
  "include",
  "context_management",
]);

/** The request fields that a token count reads. The official service refuses the others. */
const COUNTED: ReadonlySet<string> = new Set([
  "model",
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "personality",
  "reasoning",
  "text",
  "truncation",
]);

/** Decodes the compaction that an upstream has made. The caller gets it unchanged. */
class CompactionDecoder implements Pick<AnswerDecoder, "answer" | "lost"> {
  readonly #limits: JsonLimits | undefined;

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
  }

  answer(body: string): ChatEvent[] {
    const { output, usage } = parseAnswerObject(body, this.#limits);
    const items = Array.isArray(output) ? output.filter((item) => isJsonObject(item)) : [];
    const compactions = items.filter(({ type }) => type === "compaction" || type === "compaction_summary");
    if (compactions.length === 0) throw backendFailed("The model backend's answer holds no compaction.");
    // The sealed texts are counted where the upstream counts nothing.
    const sealed = compactions.flatMap(({ encrypted_content: data }) => (typeof data === "string" ? data : []));
    const events: NativeEvent["events"] = [
      ...sealed.map((data) => ({ type: "redacted-reasoning", data, maker: FORMAT }) as const),
      ...(isValid(LooseUsage, usage) ? [{ type: "usage", usage: decodeUsage(usage) } as const] : []),
      { type: "finish", reason: "stop" },
    ];
    return [{ type: "native", format: COMPACT_FORMAT, body, events }];
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(text, this.#limits, usageIn, LooseUsage, decodeUsage);
  }
}

/**
 * Returns the caller's own body with the model, the output limit, and `store: false`. The store of the upstream belongs to the host's
 * account, so ids in it never reach the upstream, and reasoning comes back encrypted instead.
 */
function overlaidRequest(
  request: ChatRequest & { readonly native: NativeRequest },
  options: CodecOptions,
): { readonly body: JsonObject; readonly conversions: readonly Conversion[] } {
  const { native } = request;
  // The cast is safe: the body comes from `JSON.parse`.
  const {
    previous_response_id: _id,
    conversation: _conversation,
    background: _background,
    background_options: backgroundOptions,
    ...kept
  } = native.body as JsonObject;
  const fields: ConvertedFields = new Set();
  const { input } = kept;
  const own: JsonValue[] = Array.isArray(kept["include"]) ? kept["include"] : [];
  const encrypted = encryptedReasoning(request.model, options).filter((name) => !own.includes(name));
  const cleaned = Array.isArray(input) && new Cleaner(fields, options, native.remembered).clean(input as JsonObject[]);
  if (cleaned && cleaned.length === 0) noteEmpty(fields);
  const body: JsonObject = {
    ...kept,
    model: request.model,
    ...(cleaned && { input: cleaned }),
    max_output_tokens: outputLimit(request, options),
    store: false,
    ...(own.length + encrypted.length > 0 && { include: [...own, ...encrypted] }),
  };
  const conversions = listConversions(tableOf(options), fields, {});
  if (backgroundOptions != null)
    conversions.push({ field: "native.background_options", ...dropped("The gateway begins each response at once.") });
  return { body, conversions };
}

/** The items whose ids only the store of responses reads. The items of other types may be named by their ids elsewhere. */
const STORED: ReadonlySet<JsonValue | undefined> = new Set([
  undefined,
  "message",
  "reasoning",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "additional_tools",
]);

const CALLS: ReadonlySet<JsonValue | undefined> = new Set(["function_call", "custom_tool_call"]);

/** Returns an item without its id. The result of a custom tool has a status only when it is shown, and none in a request. */
function withoutId({ id: _id, ...item }: JsonObject): JsonObject {
  if (item["type"] !== "custom_tool_call_output") return item;
  const { status: _status, ...result } = item;
  return result;
}

/** Writes the input items as the upstream accepts them. */
class Cleaner {
  readonly #fields: ConvertedFields;
  readonly #foreignReasoning: CodecOptions["foreignReasoning"];
  readonly #remembered: NativeRequest["remembered"];

  constructor(fields: ConvertedFields, options: CodecOptions, remembered: NativeRequest["remembered"]) {
    this.#fields = fields;
    this.#foreignReasoning = options.foreignReasoning;
    this.#remembered = remembered;
  }

  clean(input: JsonObject[]): JsonObject[] {
    const items: JsonObject[] = [];
    /** True when reasoning stands in the turn of the assistant so far. */
    let hasReasoning = false;
    for (const [index, item] of input.entries()) {
      const { type, call_id } = item;
      if (type === "reasoning") {
        const own = this.#reasoning(item);
        hasReasoning ||= own?.["type"] === "reasoning";
        if (own) items.push(own);
        continue;
      }
      if (CALLS.has(type)) {
        if (!hasReasoning && typeof call_id === "string") items.push(...this.#restored(call_id));
      } else if (item["role"] !== "assistant") hasReasoning = false;
      if (type === "image_generation_call" && item["result"] == null)
        throw new GatewayError("not_found", "The picture is not in this service's store. Send the picture itself.", {
          path: ["input", index, "id"],
        });
      items.push("id" in item && STORED.has(type) ? withoutId(item) : item);
    }
    return isSame(items, input) ? input : items;
  }

  /** Returns reasoning as its maker wrote it, or as text; undefined for reasoning that the upstream cannot read. */
  #reasoning({ id: _id, ...item }: JsonObject): JsonObject | undefined {
    const { encrypted_content: sealed, summary, content } = item;
    const seal = typeof sealed === "string" ? unwrapSeal(sealed) : undefined;
    const isRaw = !sealed && Array.isArray(content) && content.length > 0;
    if (isRaw || (sealed && (!seal || this.#foreignReasoning === "pass"))) return item;
    if (seal?.maker === FORMAT && (seal.kind === "part" || seal.kind === "redacted") && seal.value !== "")
      return { ...item, encrypted_content: seal.value };
    const shown = [summary, content]
      .flatMap((parts) => (Array.isArray(parts) ? parts : []))
      .flatMap((part) => (isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : []))
      .join("\n\n");
    const text = seal?.text ?? shown;
    if (seal?.maker === FORMAT && seal.value === "" && text !== "")
      return { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text }] };
    if (seal?.kind === "call" || seal?.kind === "text") this.#fields.add("messages.signature.foreign");
    else if (seal) this.#fields.add("messages.reasoning.foreign");
    if (text !== "" && !seal) this.#fields.add("messages.reasoning.unsealed");
    if (this.#foreignReasoning !== "text" || text === "") return undefined;
    return { type: "message", role: "assistant", content: [{ type: "output_text", text }] };
  }

  /** Returns the reasoning before a call that the client has not sent back. */
  #restored(callId: string): JsonObject[] {
    return (this.#remembered?.get(callId)?.reasoning ?? []).flatMap((part): JsonObject[] => {
      if (part.type !== "reasoning" || part.maker !== FORMAT || !part.signature) return [];
      const summary = part.text === "" ? [] : [{ type: "summary_text", text: part.text }];
      return [{ type: "reasoning", summary, encrypted_content: part.signature }];
    });
  }
}
