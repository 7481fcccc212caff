/** What a format's table of fates must hold, and the report on one request that is made from it. */

import type { ChatRequest, Part, Tool } from "../../model/chat.ts";
import type { Fate, FieldFate } from "../../model/fate.ts";

/** A fate and a short sentence on why; none is needed where nothing is lost. */
export type FateRule = { readonly fate: "exact" } | { readonly fate: Exclude<Fate, "exact">; readonly why: string };

/** What is inside of a field, and may fare otherwise than the rest of it. */
type Detail =
  /** A conversation of which nothing is left to say. */
  | "messages.none"
  | "messages.name"
  | "messages.role.system"
  /** An assistant's turn at the end, which the answer continues. */
  | "messages.prefill"
  /** Of any part, instruction or tool: a hint that is worth caching. */
  | "messages.cache"
  /** Of any part but reasoning. */
  | "messages.signature"
  | "messages.thought"
  /** A sound, a film, a picture at an address: in a kind, a type or a place that the format cannot say. */
  | "messages.media.audio"
  | "messages.media.video"
  | "messages.media.url"
  | "messages.media.detail"
  | "messages.document.url"
  | "messages.document.text"
  | "messages.document.citations"
  | "messages.document.title"
  | "messages.document.context"
  | "messages.reasoning.unsealed"
  /** An id of a call, and of its result, that the format does not take. */
  | "messages.tool-call.id"
  /** Calls that stand before other parts of their turn. */
  | "messages.tool-call.order"
  /** Results that stand after other parts of their turn. */
  | "messages.tool-result.order"
  /** The name of a result's tool, where no call before tells it. */
  | "messages.tool-result.name"
  /** A result that answers no call of the conversation. */
  | "messages.tool-result.unasked"
  | "messages.tool-result.media"
  | "messages.tool-result.isError"
  | "messages.tool-result.text"
  | "messages.tool-result.json"
  | "tools.function.strict"
  | "toolChoice.names"
  | "toolChoice.parallel"
  | "reasoning.adaptive"
  | "reasoning.budgetTokens"
  | "reasoning.effort"
  | "reasoning.visible"
  | "responseFormat.enum"
  | "responseFormat.name"
  | "responseFormat.schema"
  | "responseFormat.strict";

/** Of the request as it came, only what stands in no other field has a fate. */
export type FatedField = keyof ChatRequest | `messages.${Part["type"]}` | `tools.${Tool["type"]}` | Detail;

/** A fate for each field of the neutral request, each kind of part and tool: the compiler demands every one. */
export type FateTable = Readonly<Record<FatedField, FateRule>>;

/** What was found in a request that a format cannot say exactly, each field once. */
export type Losses = Set<FatedField>;

export const EXACT: FateRule = { fate: "exact" };
export const approximated = (why: string): FateRule => ({ fate: "approximated", why });
export const emulated = (why: string): FateRule => ({ fate: "emulated", why });
export const dropped = (why: string): FateRule => ({ fate: "dropped", why });
export const rejected = (why: string): FateRule => ({ fate: "rejected", why });

/**
 * The fates of what was found in a request, each field once, and of what only its own format has words for. That one is rejected is
 * for who sends the request to act on.
 */
export function reported(table: FateTable, found: Iterable<FatedField>, { native }: ChatRequest): FieldFate[] {
  const fates: FieldFate[] = [];
  for (const field of new Set(found)) {
    const rule = table[field];
    if (rule.fate !== "exact") fates.push({ field, fate: rule.fate, why: rule.why });
  }
  const { native: rule } = table;
  if (rule.fate !== "exact")
    for (const field of native?.unsaid?.() ?? [])
      fates.push({ field: `native.${field}`, fate: rule.fate, why: rule.why });
  return fates;
}

/** The fields that only one format knows, where a request has them. */
export function* rareFields(request: ChatRequest): Generator<FatedField> {
  const { candidateCount = 1, modalities = [], safety = [], speech = {} } = request;
  if (candidateCount > 1) yield "candidateCount";
  if (modalities.some((modality) => modality !== "text")) yield "modalities";
  if (safety.length > 0) yield "safety";
  if (Object.keys(speech).length > 0) yield "speech";
  for (const field of RARE) if (request[field] !== undefined) yield field;
}

const RARE = [
  "topK",
  "seed",
  "presencePenalty",
  "frequencyPenalty",
  "logprobs",
  "mediaResolution",
  "cachedContent",
  "enhancedCivicAnswers",
  "endUser",
] as const satisfies (keyof ChatRequest)[];

/**
 * Results whose call is not in the conversation, or does not tell the name that they do.
 *
 * @param dialect The format that is written: a part that only it knows may be a call as well.
 */
export function* resultLosses({ messages }: ChatRequest, dialect?: string): Generator<FatedField> {
  const calls = new Map<string, string | undefined>();
  for (const { parts } of messages)
    for (const part of parts) {
      if (part.type === "tool-call") calls.set(part.id, part.name);
      else if (part.type === "provider" && part.dialect === dialect) calls.set(String(part.value["id"]), undefined);
      else if (part.type === "tool-result") {
        if (!calls.has(part.callId)) yield "messages.tool-result.unasked";
        const name = calls.get(part.callId);
        if (name !== undefined && part.name !== undefined && part.name !== name) yield "messages.tool-result.name";
      }
    }
}

/** Whether a request has no tools, and none is asked for: its choice says nothing then. */
export const choosesNothing = ({ tools, toolChoice: choice }: Pick<ChatRequest, "tools" | "toolChoice">): boolean =>
  tools.length === 0 &&
  (!choice || choice.type === "none" || (choice.type === "auto" && (choice.names?.length ?? 0) === 0));

/** What the marks and hints on a request's instructions, parts and tools are. */
export function* markedFields({ system, messages, tools }: ChatRequest): Generator<FatedField> {
  for (const tool of tools) {
    yield `tools.${tool.type}`;
    if (tool.type === "function" && tool.strict !== undefined) yield "tools.function.strict";
    if ("cache" in tool && tool.cache) yield "messages.cache";
  }
  for (const part of system) yield* marksOf(part);
  for (const { role, name, parts } of messages) {
    if (role === "system") yield "messages.role.system";
    if (name !== undefined) yield "messages.name";
    for (const part of parts) yield* marksOf(part);
  }
}

/** What the marks and hints on one part are. */
export function* marksOf(part: Part): Generator<FatedField> {
  if ("cache" in part && part.cache) yield "messages.cache";
  if (part.type !== "reasoning" && "signature" in part && part.signature !== undefined) yield "messages.signature";
  if ("thought" in part && part.thought) yield "messages.thought";
}
