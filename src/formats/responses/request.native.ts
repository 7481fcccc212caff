/**
 * The caller's own body for an upstream of the same format. Everything stays as it came, but for the gateway's decisions, for ids of the
 * gateway's store, and for reasoning that the upstream cannot read.
 */

import { GatewayError } from "../../errors.ts";
import type { ChatRequest, NativeRequest } from "../../kinds/chat/request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { type ConvertedFields, listConversions } from "../shared/conversions.ts";
import { nameOf, outputLimit, reasoningModel } from "../shared/openai.ts";
import { unwrapSeal } from "../shared/seal.ts";
import { noteEmpty, tableOf } from "./conversions.ts";
import { FORMAT } from "./schema.ts";

/** Asks for reasoning that can be sent back. Without it, an upstream that stores nothing cannot read its own reasoning again. */
const ENCRYPTED = "reasoning.encrypted_content";

/** Returns what a request includes to get its reasoning encrypted. OpenAI's models that do not reason refuse to include it. */
export function encryptedReasoning(model: string, options: CodecOptions): string[] {
  const control = options.reasoning?.(model);
  const refuses =
    control === undefined ? /^(?:gpt-\d|chatgpt)/.test(nameOf(model)) && !reasoningModel(model) : control === "none";
  return refuses ? [] : [ENCRYPTED];
}

/**
 * Returns the caller's own body with the model, the output limit, and `store: false`. The store of the upstream belongs to the host's
 * account, so ids in it never reach the upstream, and reasoning comes back encrypted instead.
 */
export function overlaidRequest(
  request: ChatRequest & { readonly native: NativeRequest },
  options: CodecOptions,
): { readonly body: JsonObject; readonly conversions: readonly Conversion[] } {
  const { native } = request;
  // The cast is safe: the body comes from `JSON.parse`.
  const {
    previous_response_id: _id,
    conversation: _conversation,
    background: _background,
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
  return { body, conversions: listConversions(tableOf(options), fields, {}) };
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

  clean(input: readonly JsonObject[]): JsonObject[] {
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
      const { id: _id, ...unnamed } = item;
      items.push("id" in item && STORED.has(type) ? unnamed : item);
    }
    return items;
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
