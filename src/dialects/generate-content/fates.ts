/** What becomes of the fields of another format's request in the generate-content format. */

import type { ChatRequest, DocumentPart, MediaPart, Part, ReasoningEffort, ToolResultPart } from "../../model/chat.ts";
import type { FieldFate } from "../../model/fate.ts";
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
} from "../shared/fates.ts";
import { MAX_STOP_SEQUENCES } from "./schema.config.ts";
import { isSayable } from "./request.media.ts";
import { int32, MAX_CANDIDATES } from "./request.config.ts";
import { isSettable } from "./request.ts";
import { sayableChoice } from "./request.tools.ts";
import type { GenerateContentRequest } from "./schema.ts";
import { DIALECT } from "./schema.base.ts";

/** Every field of the neutral request, each kind of part and tool. */
export const FATES: FateTable = {
  model: EXACT,
  messages: EXACT,
  "messages.none": rejected("The format can say nothing of the conversation."),
  "messages.name": dropped("The format has one participant of each role."),
  "messages.role.system": approximated("Instructions inside the conversation are told as the user's."),
  "messages.prefill": EXACT,
  "messages.cache": dropped("The format caches without hints."),
  "messages.signature": EXACT,
  "messages.thought": EXACT,
  "messages.text": EXACT,
  "messages.media": dropped("The format takes pictures, sound and film of certain types alone."),
  "messages.media.audio": dropped("The format takes sound of certain types, in base64 alone."),
  "messages.media.video": dropped("The format takes film of certain types, in base64 alone."),
  "messages.media.url": approximated("The type of a picture that is elsewhere is guessed from its name."),
  "messages.media.detail": dropped("The format sets the detail of all media at once."),
  "messages.document": dropped("The format takes documents as PDF and text alone."),
  "messages.document.url": dropped("The format takes documents in base64 alone."),
  "messages.document.text": approximated("A document of text or parts is told as parts of the message."),
  "messages.document.citations": dropped("The format does not cite documents."),
  "messages.document.title": dropped("The format's documents have no title."),
  "messages.document.context": dropped("The format's documents have no context."),
  "messages.tool-call": EXACT,
  "messages.tool-call.id": EXACT,
  "messages.tool-result": EXACT,
  "messages.tool-call.order": EXACT,
  "messages.tool-result.order": EXACT,
  "messages.tool-result.name": EXACT,
  "messages.tool-result.unasked": EXACT,
  "messages.tool-result.media": EXACT,
  "messages.tool-result.isError": approximated("A failure is told in the function's response."),
  "messages.tool-result.text": approximated("A result in words is told as an object that holds them."),
  "messages.tool-result.json": EXACT,
  "messages.reasoning": EXACT,
  "messages.reasoning.unsealed": EXACT,
  "messages.redacted-reasoning": dropped("Another provider's ciphertext means nothing to this one's models."),
  "messages.refusal": approximated("A refusal is told as a text."),
  "messages.code": EXACT,
  "messages.code-result": EXACT,
  "messages.provider": dropped("Another format's own part means nothing in this one."),
  system: EXACT,
  tools: EXACT,
  "tools.function": EXACT,
  "tools.function.strict": dropped("The format cannot hold a function's arguments to their schema."),
  "tools.code-execution": EXACT,
  "tools.provider": dropped("Another format's own tool means nothing in this one."),
  toolChoice: dropped("The format chooses among functions alone."),
  "toolChoice.names": EXACT,
  "toolChoice.parallel": dropped("The format cannot forbid calls in parallel."),
  maxOutputTokens: EXACT,
  limitedByDefault: EXACT,
  temperature: EXACT,
  topP: EXACT,
  topK: EXACT,
  stopSequences: emulated("The format takes five; the gateway ends the text at the others."),
  reasoning: EXACT,
  "reasoning.adaptive": EXACT,
  "reasoning.budgetTokens": EXACT,
  "reasoning.effort": approximated("The format's highest level is high."),
  "reasoning.visible": EXACT,
  responseFormat: EXACT,
  "responseFormat.enum": EXACT,
  "responseFormat.name": dropped("The format's schemas have no name."),
  "responseFormat.schema": EXACT,
  "responseFormat.strict": approximated("The format always holds answers to their schema."),
  candidateCount: approximated("The format gives eight answers at most."),
  seed: emulated("A seed beyond 32 bits is told by its last 32 bits."),
  presencePenalty: EXACT,
  frequencyPenalty: EXACT,
  logprobs: EXACT,
  modalities: EXACT,
  speech: EXACT,
  mediaResolution: EXACT,
  safety: dropped("Older categories can be rated, but not set."),
  cachedContent: EXACT,
  enhancedCivicAnswers: EXACT,
  serviceTier: dropped("The format has no tiers."),
  endUser: dropped("The format has no word on the end user."),
  stream: EXACT,
  native: dropped("Only the caller's own format has words for it."),
};

/** What this request loses on its way into a body. */
export const fatesOf = (request: ChatRequest, body: GenerateContentRequest): FieldFate[] =>
  reported(FATES, lossesOf(request, body), request);

function* lossesOf(request: ChatRequest, { contents }: GenerateContentRequest): Generator<FatedField> {
  const { messages, tools, toolChoice, safety = [], stopSequences, serviceTier, responseFormat: format } = request;
  if (contents.length === 0) yield "messages.none";
  for (const field of rareFields(request)) if (!IN_PART.has(field)) yield field;
  if ((request.candidateCount ?? 1) > MAX_CANDIDATES) yield "candidateCount";
  if (request.seed !== undefined && request.seed !== int32(request.seed)) yield "seed";
  for (const field of markedFields(request)) if (field !== "tools.provider") yield field;
  if (!safety.every(isSettable)) yield "safety";
  if (stopSequences.length > MAX_STOP_SEQUENCES) yield "stopSequences";
  if (serviceTier !== undefined) yield "serviceTier";
  for (const { parts } of messages) for (const part of parts) yield* partLosses(part);
  for (const tool of tools) if (tool.type === "provider" && tool.dialect !== DIALECT) yield "tools.provider";
  if (toolChoice && isNarrowed(request)) yield "toolChoice";
  if (toolChoice && "parallel" in toolChoice && !toolChoice.parallel) yield "toolChoice.parallel";
  if (request.reasoning?.type === "adaptive" && isBeyondHigh(request.reasoning.effort)) yield "reasoning.effort";
  if (format?.type === "json" && format.name !== undefined) yield "responseFormat.name";
  if (format?.type === "json" && format.strict !== undefined) yield "responseFormat.strict";
}

const isBeyondHigh = (effort: ReasoningEffort | undefined): boolean => effort === "xhigh" || effort === "max";

/** Of these, some values can be said. */
const IN_PART: ReadonlySet<FatedField> = new Set<FatedField>(["safety", "candidateCount", "seed"]);

/** Whether the choice cannot be said as it is. */
function isNarrowed(request: ChatRequest): boolean {
  const [asked, said] = [request.toolChoice, sayableChoice(request)];
  const namesIn = (choice: typeof asked): number => (choice && "names" in choice ? (choice.names?.length ?? 0) : 0);
  return said === undefined || namesIn(said) < namesIn(asked);
}

function* partLosses(part: Part): Generator<FatedField> {
  if (part.type === "media") yield* mediaLosses(part);
  else if (part.type === "document") yield* documentLosses(part);
  else if (part.type === "tool-result") yield* resultLosses(part);
  else if (part.type !== "provider") yield `messages.${part.type}`;
  else if (part.dialect !== DIALECT) yield "messages.provider";
}

function* mediaLosses(part: MediaPart): Generator<FatedField> {
  if (part.detail !== undefined) yield "messages.media.detail";
  if (part.cache) yield "messages.cache";
  if (!isSayable(part)) yield part.kind === "image" ? "messages.media" : `messages.media.${part.kind}`;
  else if (part.source.type !== "base64") yield "messages.media.url";
}

function* documentLosses(part: DocumentPart): Generator<FatedField> {
  const { source, title, context, citations } = part;
  if (title !== undefined) yield "messages.document.title";
  if (context !== undefined) yield "messages.document.context";
  if (citations) yield "messages.document.citations";
  if (part.cache) yield "messages.cache";
  if (source.type === "text") return yield "messages.document.text";
  if (source.type !== "parts") {
    if (!isSayable(part)) yield source.type === "base64" ? "messages.document" : "messages.document.url";
    return;
  }
  yield "messages.document.text";
  for (const inner of source.parts) {
    if (inner.type === "media") yield* mediaLosses(inner);
    else if (inner.cache) yield "messages.cache";
  }
}

function* resultLosses({ parts, isError }: ToolResultPart): Generator<FatedField> {
  if (isError) yield "messages.tool-result.isError";
  const [only, ...others] = parts.filter(({ type }) => type !== "media");
  // One object is the response as it is.
  if (only?.type !== "json" || others.length > 0) yield "messages.tool-result.text";
  for (const part of parts) {
    if (part.type === "media") yield* mediaLosses(part);
    else if (part.type === "document") yield* documentLosses(part);
    else if (part.type === "provider") yield "messages.provider";
    else if (part.type === "text" && part.cache) yield "messages.cache";
  }
}
