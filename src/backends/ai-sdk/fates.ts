/** What becomes of each field of a request that is asked of an AI SDK model, and what the model's own warnings say of it. */

import {
  approximated,
  dropped,
  emulated,
  EXACT,
  type FatedField,
  type FateTable,
  markedFields,
  rareFields,
  rejected,
  reported,
  resultLosses,
} from "../../dialects/shared/fates.ts";
import type { ChatRequest, DocumentPart, JsonPart, MediaPart, Part, ToolResultPart } from "../../model/chat.ts";
import type { FieldFate } from "../../model/fate.ts";
import { isJsonObject } from "../../model/json.ts";
import type { Traits } from "./traits.ts";

/** Of a provider about which nothing is known; `KNOWN` says what some can do beside. */
const FATES: FateTable = {
  model: EXACT,
  messages: EXACT,
  "messages.none": EXACT,
  "messages.name": dropped("The interface has one participant of each role."),
  "messages.role.system": approximated("Instructions inside the conversation are told as the user's."),
  "messages.cache": dropped("The provider takes no such hint here."),
  "messages.signature": dropped("The signature is of another provider's."),
  "messages.thought": approximated("What was made while reasoning is told as a part of the answer."),
  "messages.text": EXACT,
  "messages.media": EXACT,
  "messages.media.audio": EXACT,
  "messages.media.video": EXACT,
  "messages.media.url": rejected("The model takes pictures and sounds by their data, not from this address."),
  "messages.media.detail": dropped("The provider takes no detail of a picture here."),
  "messages.document": EXACT,
  "messages.document.url": rejected("The model takes documents by their data, not from this address."),
  "messages.document.text": approximated("A document of text is told as text."),
  "messages.document.citations": dropped("The provider cannot be asked for citations here."),
  "messages.document.title": dropped("A document within a tool's result has no title here."),
  "messages.document.context": dropped("The provider takes no context of a document here."),
  "messages.prefill": approximated("The model may begin its answer anew instead of continuing the last turn."),
  "messages.tool-call": EXACT,
  "messages.tool-call.id": EXACT,
  "messages.tool-call.order": EXACT,
  "messages.tool-result": EXACT,
  "messages.tool-result.order": EXACT,
  "messages.tool-result.name": EXACT,
  "messages.tool-result.unasked": rejected(
    "The interface takes the results of calls that are in the conversation alone.",
  ),
  "messages.tool-result.media": EXACT,
  "messages.tool-result.isError": approximated("That a tool has failed is told as text."),
  "messages.tool-result.text": EXACT,
  "messages.tool-result.json": EXACT,
  "messages.reasoning": EXACT,
  "messages.reasoning.unsealed": EXACT,
  "messages.redacted-reasoning": dropped("Encrypted reasoning is of another provider's."),
  "messages.refusal": approximated("A refusal is told as a text."),
  "messages.code": approximated("Code is told as text."),
  "messages.code-result": approximated("What code printed is told as text."),
  "messages.provider": dropped("Only another format knows it."),
  system: EXACT,
  tools: EXACT,
  "tools.function": EXACT,
  "tools.function.strict": dropped("This version of the interface cannot hold arguments to their schema."),
  "tools.code-execution": dropped("The interface has no tool for code in general."),
  "tools.provider": dropped("Only another format knows the tool."),
  toolChoice: dropped("No tool is left that the choice could be of."),
  "toolChoice.names": emulated("The tools that may not be called are not offered."),
  "toolChoice.parallel": dropped("The provider cannot be held to one call here."),
  maxOutputTokens: EXACT,
  limitedByDefault: EXACT,
  temperature: EXACT,
  topP: EXACT,
  topK: EXACT,
  stopSequences: EXACT,
  reasoning: dropped("This version of the interface has no reasoning."),
  "reasoning.adaptive": approximated("Whether and how much is thought is left to the model."),
  "reasoning.budgetTokens": approximated("The budget is told as an effort, or kept below the output limit."),
  "reasoning.effort": approximated("How much is thought is the nearest that the provider knows, or left to the model."),
  "reasoning.visible": emulated("The answer shows its reasoning, and the gateway leaves it out."),
  responseFormat: EXACT,
  "responseFormat.enum": emulated("One of several texts is asked for in JSON, and taken out of it."),
  "responseFormat.name": EXACT,
  "responseFormat.schema": EXACT,
  "responseFormat.strict": dropped("The provider decides how strictly it holds the schema."),
  candidateCount: dropped("The interface gives one answer."),
  seed: EXACT,
  presencePenalty: EXACT,
  frequencyPenalty: EXACT,
  logprobs: dropped("The interface tells no probabilities."),
  modalities: dropped("The provider is not asked for anything but text here."),
  speech: dropped("The interface's language models do not speak."),
  mediaResolution: dropped("The interface has no resolution of media."),
  safety: dropped("The interface has no safety settings."),
  cachedContent: rejected("The interface cannot name content that was cached before."),
  enhancedCivicAnswers: dropped("The interface has no such answers."),
  serviceTier: dropped("The tier is the host's to choose, by providerOptions."),
  endUser: dropped("The provider takes no identifier of the end user here."),
  stream: EXACT,
  native: dropped("Only the caller's own format has words for it."),
};

/** Fields that the interface itself has, although few formats have them. */
const OWN: ReadonlySet<FatedField> = new Set(["topK", "seed", "presencePenalty", "frequencyPenalty"]);

/** Whether a signature is this provider's own is seen where it is read; thoughts are said of some kinds of parts. */
const OF_PARTS: ReadonlySet<FatedField> = new Set(["messages.signature", "messages.thought"]);

/** Whether a choice is of functions that there are. */
export const isOffered = ({ tools, toolChoice }: ChatRequest): boolean =>
  tools.some((tool) => tool.type === "function" && (toolChoice?.type !== "tool" || toolChoice.name === tool.name));

/** What a request loses. A field that is `rejected` is in the list as well. */
export const fatesOf = (request: ChatRequest, traits: Traits): FieldFate[] =>
  reported(FATES, lossesOf(request, traits), request);

function* lossesOf(request: ChatRequest, traits: Traits): Generator<FatedField> {
  const { messages, toolChoice, serviceTier, modalities, responseFormat: format } = request;
  for (const field of rareFields(request)) if (!OWN.has(field) && !traits.says.has(field)) yield field;
  for (const field of markedFields(request)) if (!OF_PARTS.has(field) && !traits.says.has(field)) yield field;
  if (modalities?.includes("audio")) yield "modalities";
  if (serviceTier !== undefined) yield "serviceTier";
  for (const { parts } of messages) for (const part of parts) yield* partLosses(part, traits);
  yield* resultLosses(request);
  if (messages.at(-1)?.role === "assistant" && !traits.isAnthropic) yield "messages.prefill";
  if (format?.type === "enum") yield "responseFormat.enum";
  if (format?.type === "json" && format.strict !== undefined) yield "responseFormat.strict";
  if (toolChoice && toolChoice.type !== "none") {
    if (!isOffered(request)) yield "toolChoice";
    if (!toolChoice.parallel && !traits.says.has("toolChoice.parallel")) yield "toolChoice.parallel";
    if ("names" in toolChoice && toolChoice.names) yield "toolChoice.names";
  }
  yield* reasoningLosses(request, traits);
}

function* reasoningLosses({ reasoning, maxOutputTokens }: ChatRequest, traits: Traits): Generator<FatedField> {
  if (!reasoning) return;
  const { says, version, isAnthropic, isGoogle, isOpenai } = traits;
  if (version !== "v4" && !says.has("reasoning.budgetTokens") && !isOpenai) return yield "reasoning";
  if (reasoning.type === "disabled") return;
  if (reasoning.type === "enabled") {
    const isWithin = !isAnthropic || reasoning.budgetTokens < maxOutputTokens;
    if (!says.has("reasoning.budgetTokens") || !isWithin) yield "reasoning.budgetTokens";
  } else if (version !== "v4" && reasoning.effort !== undefined) {
    if (isGoogle || (isAnthropic && reasoning.effort === "minimal")) yield "reasoning.effort";
  }
  if (reasoning.type === "adaptive" && reasoning.effort === undefined && !isAnthropic && !isGoogle)
    yield "reasoning.adaptive";
  if (reasoning.visible === false && !says.has("reasoning.visible")) yield "reasoning.visible";
}

function* partLosses(part: Part, traits: Traits): Generator<FatedField> {
  const isFile = part.type === "media" || part.type === "document";
  if ("thought" in part && part.thought && part.type !== "text" && !(isFile && traits.version === "v4"))
    yield "messages.thought";
  switch (part.type) {
    case "refusal":
    case "code":
    case "code-result":
    case "provider":
      return yield `messages.${part.type}`;
    case "media":
    case "document":
      return yield* fileLosses(part, traits);
    case "tool-result":
      for (const inner of part.parts) if (inner.type !== "json") yield* innerLosses(inner, traits);
      if (part.isError && part.parts.some(({ type }) => type === "media" || type === "document"))
        yield "messages.tool-result.isError";
      return;
    default:
  }
}

/** What is in a tool's result has nothing noted beside it. */
function* innerLosses(part: Exclude<ToolResultPart["parts"][number], JsonPart>, traits: Traits): Generator<FatedField> {
  if ("cache" in part && part.cache) yield "messages.cache";
  if (part.type === "document" && part.title !== undefined && !isTitled(part, traits)) yield "messages.document.title";
  const says = new Set([...traits.says].filter((field) => !BESIDE.has(field)));
  yield* partLosses(part, { ...traits, isAnthropic: false, says });
}

const BESIDE: ReadonlySet<FatedField> = new Set(["messages.document.citations", "messages.media.detail"]);

/** Whether a document's title is told in its text. */
const isTitled = ({ source }: DocumentPart, { says }: Traits): boolean =>
  source.type === "parts" || (source.type === "text" && !says.has("messages.document.text"));

function* fileLosses(part: MediaPart | DocumentPart, traits: Traits): Generator<FatedField> {
  const { source } = part;
  const { says, urls, isAnthropic } = traits;
  // A file's id is a name in the host's own account, which no caller may guess at.
  if (source.type === "file" || (source.type === "url" && !urls.takes(source.url, mediaTypeOf(part))))
    yield `messages.${part.type}.url`;
  if (part.type === "media" && part.detail !== undefined && !says.has("messages.media.detail"))
    yield "messages.media.detail";
  if (part.type !== "document") return;
  if (isTitled(part, traits)) yield "messages.document.text";
  const isNoted = source.type !== "parts";
  if (part.context !== undefined && !(isAnthropic && isNoted)) yield "messages.document.context";
  if (part.citations && !(says.has("messages.document.citations") && isNoted)) yield "messages.document.citations";
  if (source.type !== "parts") return;
  for (const inner of source.parts) {
    if (inner.cache) yield "messages.cache";
    if (inner.type === "media") yield* fileLosses(inner, traits);
  }
}

/** The type of what is at an address, as far as the request says. */
export const mediaTypeOf = (part: MediaPart | DocumentPart): string =>
  part.type === "document" ? "application/pdf" : `${part.kind}/*`;

/** Fields by the names that the interface has for them. */
const FIELD: ReadonlyMap<string, string> = new Map([
  ["thinking", "reasoning"],
  ["tool choice", "toolChoice"],
]);

/** What a model's own warnings say. A list that is none has nothing to say. */
export function fatesOfWarnings(warnings: unknown): FieldFate[] {
  if (!Array.isArray(warnings)) return [];
  return warnings.flatMap((warning: unknown): FieldFate[] => {
    if (!isJsonObject(warning)) return [];
    const { type, feature, setting, details, message } = warning;
    const said = [feature, setting].find((name) => typeof name === "string") ?? "request";
    const why = [details, message].find((text) => typeof text === "string") ?? "The model does not support it.";
    const told = { field: FIELD.get(said) ?? said.slice(0, 100), why: why.slice(0, 500) };
    if (type === "compatibility" || type === "other") return [{ ...told, fate: "approximated" }];
    return typeof type === "string" && type.startsWith("unsupported") ? [{ ...told, fate: "dropped" }] : [];
  });
}
