/** Conversions between the generate-content format and the others. */

import { isTextType } from "../../media/media-type.ts";
import type { AnswerEvent } from "../../model/chat-event.ts";
import type { ChatRequest, DocumentPart, JsonPart, MediaPart, Part } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import type { CodecOptions } from "../format.ts";
import {
  type AnswerConversionTable,
  approximated,
  COMMON_ANSWERS,
  type ConversionTable,
  type ConvertedFields,
  conversionTable,
  convertedFields,
  dropped,
  emulated,
  EXACT,
  listConversions,
  rejected,
  listAnswerConversions,
} from "../shared/conversions.ts";
import { encodeTier } from "./answer.metadata.ts";
import { controlOf, encodeThinking } from "./reasoning.ts";
import { isSayable } from "./request.contents.ts";
import { int32, isSettable, sayableChoice, takesFormat } from "./request.ts";
import { FORMAT } from "./routes.ts";
import { MAX_CANDIDATES, MAX_STOP_SEQUENCES } from "./schema.config.ts";
import type { GenerateContentRequest } from "./schema.ts";

export const CONVERSIONS: ConversionTable = conversionTable({
  "tools.web-search": approximated("The provider's own web search is offered, without limits."),
  "messages.none": rejected("No part of the conversation can be sent in this format."),
  "messages.prefill": EXACT,
  "messages.signature": EXACT,
  "messages.thought": EXACT,
  "messages.media": dropped("The format accepts pictures only as JPEG, PNG, WebP, HEIC and HEIF."),
  "messages.media.audio": dropped("The format accepts sounds only in base64, as WAV, MP3, AIFF, AAC, OGG and FLAC."),
  "messages.media.video": dropped(
    "The format accepts videos only in base64, as MP4, MPEG, MOV, AVI, FLV, WEBM, WMV and 3GPP.",
  ),
  "messages.media.moved": EXACT,
  "messages.media.url": approximated("The type of a picture at an address is guessed from its name."),
  "messages.document": dropped("The format accepts documents only as PDF and text."),
  "messages.document.url": dropped("The format accepts documents only in base64."),
  "messages.document.text": approximated("A document of text or parts is sent as parts of the message."),
  "messages.document.title": dropped("A document has no title."),
  "messages.tool-result.name": EXACT,
  "messages.tool-result.unasked": EXACT,
  "messages.tool-result.isError": approximated("The function's response has the failure."),
  "messages.tool-result.text": approximated("A result of text is sent as an object that holds the text."),
  "messages.tool-result.json": EXACT,
  "messages.code": EXACT,
  "messages.code-result": EXACT,
  "tools.function.strict": dropped("The format cannot hold a function's arguments to their schema."),
  "tools.function.schema": EXACT,
  "tools.code-execution": EXACT,
  toolChoice: dropped("Only functions can be chosen."),
  "toolChoice.names": EXACT,
  "toolChoice.parallel": dropped("Parallel calls cannot be forbidden."),
  stopSequences: emulated("The format accepts five; the gateway ends the text at the others."),
  "reasoning.adaptive": EXACT,
  reasoning: dropped("The model does not reason."),
  "reasoning.budgetTokens": approximated("The nearest budget or level that the model knows is sent."),
  "reasoning.effort": approximated("The nearest level or budget that the model knows is sent."),
  "reasoning.visible": EXACT,
  responseFormat: approximated("An instruction asks for the JSON: the model takes no form of the answer beside tools."),
  "responseFormat.enum": EXACT,
  candidateCount: approximated("The format gives at most eight answers."),
  seed: emulated("Only the last 32 bits of a seed are sent."),
  logprobs: EXACT,
  modalities: EXACT,
  speech: EXACT,
  mediaResolution: EXACT,
  safety: dropped("Older categories have ratings, but no settings."),
  cachedContent: EXACT,
  enhancedCivicAnswers: EXACT,
  serviceTier: dropped("The format has no tier of this name."),
  endUser: dropped("The format has no field for the end user."),
});

/** The rules for an upstream whose host wants the reasoning of other makers as text. */
const REASONING_AS_TEXT: ConversionTable = {
  ...CONVERSIONS,
  "messages.reasoning.foreign": approximated("The reasoning of another provider is sent as text."),
};

const tableOf = ({ foreignReasoning }: CodecOptions): ConversionTable =>
  foreignReasoning === "text" ? REASONING_AS_TEXT : CONVERSIONS;

/** Lists the conversions of a body of this format that an upstream of this format gets without the seals of other makers. */
export const removedFrom = (fields: ConvertedFields, options: CodecOptions): Conversion[] =>
  listConversions(tableOf(options), fields, {});

/** Lists the conversions of a request that was encoded into the body. */
export function conversionsOf(
  request: ChatRequest,
  body: GenerateContentRequest,
  options: CodecOptions = {},
): Conversion[] {
  const { messages, safety = [], stopSequences, responseFormat, reasoning, seed, serviceTier } = request;
  const fields = convertedFields(request, FORMAT);
  if (body.contents.length === 0) fields.add("messages.none");
  if ((request.candidateCount ?? 1) <= MAX_CANDIDATES) fields.delete("candidateCount");
  if (seed !== undefined && seed === int32(seed)) fields.delete("seed");
  if (safety.every(isSettable)) fields.delete("safety");
  if (encodeTier(serviceTier) !== undefined) fields.delete("serviceTier");
  if (stopSequences.length > MAX_STOP_SEQUENCES) fields.add("stopSequences");
  for (const { parts } of messages) for (const part of parts) checkPart(part, fields);
  sayableChoice(request, fields);
  const { field } = reasoning ? encodeThinking(reasoning, request, controlOf(request.model, options)) : {};
  if (field) fields.add(field);
  if (responseFormat && !takesFormat(request)) {
    fields.add("responseFormat");
    fields.delete("responseFormat.strict");
  }
  if (responseFormat?.type === "json" && responseFormat.name !== undefined) fields.add("responseFormat.name");
  return listConversions(tableOf(options), fields, request);
}

function checkPart(part: Part | JsonPart, fields: ConvertedFields): void {
  if (part.type === "media") checkMedia(part, fields);
  else if (part.type === "document") checkDocument(part, fields);
  else if (part.type === "tool-result") {
    const [only, ...others] = part.parts.filter(({ type }) => type !== "media");
    // A result with a single object needs no conversion: the object is the response.
    if (only?.type !== "json" || others.length > 0) fields.add("messages.tool-result.text");
    for (const inner of part.parts) {
      // A function's response cannot have provider parts.
      if (inner.type === "provider") fields.add("messages.provider");
      else checkPart(inner, fields);
    }
  }
}

function checkMedia(part: MediaPart, fields: ConvertedFields): void {
  if (!isSayable(part)) fields.add(part.kind === "image" ? "messages.media" : `messages.media.${part.kind}`);
  else if (part.source.type !== "base64") fields.add("messages.media.url");
}

function checkDocument(part: DocumentPart, fields: ConvertedFields): void {
  const { source } = part;
  if (source.type === "base64" && isTextType(source.mediaType)) fields.add("messages.document.text");
  else if (source.type === "text" || source.type === "parts") {
    fields.add("messages.document.text");
    if (source.type === "parts")
      for (const inner of source.parts) if (inner.type === "media") checkMedia(inner, fields);
  } else if (!isSayable(part)) fields.add(source.type === "base64" ? "messages.document" : "messages.document.url");
}

export const ANSWER_CONVERSIONS: AnswerConversionTable = {
  ...COMMON_ANSWERS,
  "answer.redacted-reasoning": emulated("Encrypted reasoning travels as the signature of an empty thought."),
  "answer.refusal-delta": approximated("A refusal is shown as text."),
  "answer.tool-call-delta": emulated("The gateway collects the pieces of a call and sends it whole."),
  "answer.stopSequence": dropped("The format does not name the stop sequence that ended an answer."),
  "answer.finish.stop-sequence": approximated("The answer ends as if it were complete."),
  "answer.finish.pause": approximated("The answer ends for another reason."),
  "answer.finish.refusal": approximated("The answer ends as a filtered one."),
  "answer.usage.cacheWriteTokens": approximated("The tokens are counted as input."),
  "answer.usage.cacheWritesByTtl": dropped("The format does not count cache writes."),
  "answer.usage.serverToolUses": dropped("The format does not count the uses of server tools."),
  "answer.usage.speed": dropped("The format has no speeds."),
  "answer.usage.inferenceGeo": dropped("The format has no regions."),
};

const NO_TIER: Conversion = {
  field: "answer.usage.serviceTier",
  ...dropped("The format has no tier of this name."),
};

export function conversionsOfEvent(event: AnswerEvent): readonly Conversion[] {
  const conversions = listAnswerConversions(ANSWER_CONVERSIONS, FORMAT, event);
  if (event.type !== "finish" || event.native?.format === FORMAT) return conversions;
  const { serviceTier } = event.usage;
  return serviceTier === undefined || encodeTier(serviceTier) !== undefined ? conversions : [...conversions, NO_TIER];
}
