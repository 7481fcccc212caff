/** A native request: the caller's own body with the gateway's decisions, and without the seals that its upstream does not accept. */

import type { ChatRequest, WireObject } from "../../kinds/chat/request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { budgetWithin } from "../shared/reasoning.ts";
import { unwrapSeal } from "../shared/seal.ts";
import { toldOf } from "./conversions.ts";
import { isBlank } from "./request.messages.ts";
import { lacksThinking, MIN_BUDGET_TOKENS } from "./request.thinking.ts";
import { FORMAT } from "./schema.ts";

/**
 * Returns the caller's own body with the model's name, the output limit and `stream`. All other bytes stay, except for seals of other
 * makers and thinking that the official service would refuse.
 */
export function nativeBody(
  { native, ...request }: ChatRequest & { readonly native: { readonly body: WireObject } },
  { foreignReasoning }: CodecOptions,
): { body: JsonObject; conversions: Conversion[] } {
  const fields: ConvertedFields = new Set();
  const { model, maxOutputTokens, stream } = request;
  // The cast is safe: the body comes from `JSON.parse`.
  let body: JsonObject = { ...(native.body as JsonObject), model, max_tokens: maxOutputTokens };
  // Keep the caller's `stream`, or its absence, if it means the same.
  if (stream !== (native.body["stream"] ?? false)) body = { ...body, stream };
  const messages = withoutForeign(body["messages"], foreignReasoning, fields);
  if (messages) body = { ...body, messages };
  const hasForeign = fields.size > 0;
  if (maxOutputTokens !== native.body["max_tokens"]) body = withBudgetWithin(body, maxOutputTokens, fields);
  const isThinking = isJsonObject(body["thinking"]) && body["thinking"]["type"] === "enabled";
  if (messages && hasForeign && isThinking && lacksThinking(messages)) body = withoutThinking(body, fields);
  return { body, conversions: toldOf(fields, new Set(), request) };
}

type Message = { readonly role: string; readonly content: string | JsonObject[] };

/** Returns the messages without seals of other makers; undefined if there are none, so that the body stays as it came. */
function withoutForeign(
  messages: JsonValue | undefined,
  foreignReasoning: CodecOptions["foreignReasoning"],
  fields: ConvertedFields,
): Message[] | undefined {
  let isChanged = false;
  const cleaned: Message[] = [];
  // The cast is safe: the body is valid.
  for (const message of messages as unknown as readonly Message[]) {
    const { content } = message;
    const blocks =
      typeof content === "string" ? content : content.flatMap((block) => ownBlock(block, foreignReasoning, fields));
    const isSame =
      typeof blocks === "string" ||
      (blocks.length === content.length && blocks.every((block, index) => block === content[index]));
    isChanged ||= !isSame;
    if (isSame) cleaned.push(message);
    else if (blocks.length > 0) cleaned.push({ ...message, content: blocks });
  }
  return isChanged ? cleaned : undefined;
}

/** Returns a block as the upstream accepts it: itself, with its seal unwrapped, as text, or nothing. */
function ownBlock(
  block: JsonObject,
  foreignReasoning: CodecOptions["foreignReasoning"],
  fields: ConvertedFields,
): readonly JsonObject[] {
  const { type } = block;
  const field = type === "thinking" ? "signature" : type === "redacted_thinking" ? "data" : undefined;
  if (field === undefined) return [block];
  const text = block[field];
  const seal = typeof text === "string" ? unwrapSeal(text) : undefined;
  if (text !== "" && !seal) return [block];
  if (seal?.maker === FORMAT && seal.value !== "" && seal.kind !== "call") return [{ ...block, [field]: seal.value }];
  const { thinking } = block;
  if (foreignReasoning === "text" && typeof thinking === "string" && !isBlank(thinking)) {
    fields.add("messages.reasoning");
    return [{ type: "text", text: thinking }];
  }
  if (!seal) fields.add("messages.reasoning.unsealed");
  else
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
