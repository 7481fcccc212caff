/** What becomes of the fields of another format's request in the messages format. */

import type { ChatRequest, DocumentPart, MediaPart, Part, ToolResultPart } from "../../model/chat.ts";
import type { FieldFate } from "../../model/fate.ts";
import {
  approximated,
  choosesNothing,
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
} from "../shared/fates.ts";
import {
  DIALECT,
  isServiceTier,
  isToolId,
  MAX_TEMPERATURE,
  MIN_BUDGET_TOKENS,
  sayableChoice,
  sealed,
} from "./request.ts";
import { isSayable } from "./request.media.ts";
import type { MessagesRequest } from "./schema.ts";

/** Every field of the neutral request, each kind of part and tool. */
export const FATES: FateTable = {
  model: EXACT,
  messages: EXACT,
  "messages.none": rejected("The format can say nothing of the conversation."),
  "messages.name": dropped("The format has one participant of each role."),
  "messages.role.system": approximated("Instructions inside the conversation are told as the user's."),
  "messages.prefill": EXACT,
  "messages.cache": EXACT,
  "messages.signature": dropped("The format seals reasoning alone."),
  "messages.thought": approximated("The format's reasoning is text alone."),
  "messages.text": EXACT,
  "messages.media": dropped("The format takes pictures as JPEG, PNG, GIF and WebP alone."),
  "messages.media.audio": dropped("The format has no sound."),
  "messages.media.video": dropped("The format has no film."),
  "messages.media.url": EXACT,
  "messages.media.detail": dropped("The format always looks at pictures as closely as it can."),
  "messages.document": dropped("The format takes documents as PDF and text alone."),
  "messages.document.url": EXACT,
  "messages.document.text": approximated("A document in a type of text is told as plain text."),
  "messages.document.citations": EXACT,
  "messages.document.title": EXACT,
  "messages.document.context": EXACT,
  "messages.tool-call": EXACT,
  "messages.tool-call.id": emulated("An id with signs that the format does not take is replaced by one without."),
  "messages.tool-result": EXACT,
  "messages.tool-call.order": EXACT,
  "messages.tool-result.order": EXACT,
  "messages.tool-result.name": dropped("The format names a tool in its call alone."),
  "messages.tool-result.unasked": rejected("The format takes the results of calls that are in the conversation alone."),
  "messages.tool-result.media": EXACT,
  "messages.tool-result.isError": EXACT,
  "messages.tool-result.text": EXACT,
  "messages.tool-result.json": approximated("A structured result is told as JSON in a text."),
  "messages.reasoning": EXACT,
  "messages.reasoning.unsealed": dropped("The format takes no reasoning without its signature."),
  "messages.redacted-reasoning": EXACT,
  "messages.refusal": approximated("A refusal is told as a text."),
  "messages.code": approximated("Code is told in a text."),
  "messages.code-result": approximated("What code printed is told in a text."),
  "messages.provider": dropped("Another format's own part means nothing in this one."),
  system: EXACT,
  tools: EXACT,
  "tools.function": EXACT,
  "tools.function.strict": EXACT,
  "tools.code-execution": dropped("The format has no tool for code in general."),
  "tools.provider": dropped("Another format's own tool means nothing in this one."),
  toolChoice: dropped("No tool is left that the choice could be of."),
  "toolChoice.names": emulated("The tools that may not be called are not offered."),
  "toolChoice.parallel": EXACT,
  maxOutputTokens: EXACT,
  limitedByDefault: EXACT,
  temperature: approximated("The format's highest temperature is 1."),
  topP: approximated("The format's least is above 0."),
  topK: EXACT,
  stopSequences: EXACT,
  reasoning: EXACT,
  "reasoning.adaptive": EXACT,
  "reasoning.budgetTokens": approximated("The format takes a budget from 1,024 tokens up, below the output limit."),
  "reasoning.effort": approximated("The format's least effort is low."),
  "reasoning.visible": emulated("The answer shows its reasoning, and the gateway leaves it out."),
  responseFormat: EXACT,
  "responseFormat.enum": emulated("One of several texts is asked for in JSON, and taken out of it."),
  "responseFormat.name": dropped("The format's schemas have no name."),
  "responseFormat.schema": approximated("JSON of any form is asked for by a schema that allows all."),
  "responseFormat.strict": approximated("The format always holds answers to their schema."),
  candidateCount: dropped("The format gives one answer."),
  seed: dropped("The format has no seed."),
  presencePenalty: dropped("The format has no penalties."),
  frequencyPenalty: dropped("The format has no penalties."),
  logprobs: dropped("The format tells no probabilities."),
  modalities: dropped("The format answers in text alone."),
  speech: dropped("The format does not speak."),
  mediaResolution: dropped("The format always looks at media as closely as it can."),
  safety: dropped("The format's filters cannot be set."),
  cachedContent: rejected("It is a part of the prompt that only its own provider holds."),
  enhancedCivicAnswers: dropped("The format has no such answers."),
  serviceTier: dropped("The format has no tier of this name."),
  endUser: EXACT,
  stream: EXACT,
  native: dropped("Only the caller's own format has words for it."),
};

/** What this request loses on its way into a body. */
export const fatesOf = (request: ChatRequest, body: MessagesRequest): FieldFate[] =>
  reported(FATES, lossesOf(request, body), request);

function* lossesOf(request: ChatRequest, body: MessagesRequest): Generator<FatedField> {
  const { messages, tools, toolChoice, temperature, topP, serviceTier } = request;
  if (body.messages.length === 0) yield "messages.none";
  for (const field of rareFields(request)) if (field !== "topK" && field !== "endUser") yield field;
  yield* resultLosses(request, DIALECT);
  for (const field of markedFields(request)) if (field !== "tools.provider") yield field;
  if (temperature !== undefined && temperature > MAX_TEMPERATURE) yield "temperature";
  if (topP === 0) yield "topP";
  if (serviceTier !== undefined && !isServiceTier(serviceTier)) yield "serviceTier";
  for (const { parts } of messages) yield* partsLosses(parts);
  for (const tool of tools) if (tool.type === "provider" && tool.dialect !== DIALECT) yield "tools.provider";
  // Without tools, none can be called.
  const isSaid = toolChoice?.type === "none" || choosesNothing(request) || sayableChoice(request) !== undefined;
  if (toolChoice && !isSaid) yield "toolChoice";
  if (toolChoice && "names" in toolChoice && toolChoice.names) yield "toolChoice.names";
  yield* reasoningLosses(request);
  yield* formatLosses(request);
}

function* partsLosses(parts: readonly Part[]): Generator<FatedField> {
  for (const part of sealed(parts)) {
    const id = part.type === "tool-call" ? part.id : part.type === "tool-result" ? part.callId : undefined;
    if (id !== undefined && !isToolId(id)) yield "messages.tool-call.id";
    if (part.type === "media" || part.type === "document") yield* mediaLosses(part);
    else if (part.type === "tool-result") yield* innerLosses(part);
    else if (part.type === "reasoning") {
      if (part.signature === undefined) yield "messages.reasoning.unsealed";
    } else if (part.type !== "provider") yield `messages.${part.type}`;
    else if (part.dialect !== DIALECT) yield "messages.provider";
  }
}

function* mediaLosses(part: MediaPart | DocumentPart): Generator<FatedField> {
  if (part.type === "media" && part.detail !== undefined) yield "messages.media.detail";
  if (part.type === "document" && part.source.type === "base64" && part.source.mediaType !== "application/pdf")
    yield "messages.document.text";
  if (isSayable(part)) return;
  const kind = part.type === "media" && part.kind !== "image" ? (`media.${part.kind}` as const) : part.type;
  yield `messages.${kind}`;
}

function* innerLosses({ parts }: ToolResultPart): Generator<FatedField> {
  for (const part of parts) {
    if (part.type === "json") yield "messages.tool-result.json";
    else if (part.type === "media" || part.type === "document") yield* mediaLosses(part);
    else if (part.type === "provider" && part.dialect !== DIALECT) yield "messages.provider";
  }
}

function* reasoningLosses({ reasoning, maxOutputTokens }: ChatRequest): Generator<FatedField> {
  if (!reasoning || reasoning.type === "disabled") return;
  if (reasoning.visible === false) yield "reasoning.visible";
  if (reasoning.type === "adaptive" && reasoning.effort === "minimal") yield "reasoning.effort";
  if (reasoning.type !== "enabled") return;
  const { budgetTokens } = reasoning;
  if (budgetTokens < MIN_BUDGET_TOKENS || budgetTokens >= maxOutputTokens) yield "reasoning.budgetTokens";
}

function* formatLosses({ responseFormat: format }: ChatRequest): Generator<FatedField> {
  if (!format) return;
  if (format.type === "enum") return yield "responseFormat.enum";
  if (!format.schema) yield "responseFormat.schema";
  if (format.name !== undefined) yield "responseFormat.name";
  if (format.strict !== undefined) yield "responseFormat.strict";
}
