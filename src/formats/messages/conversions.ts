/** Conversions between the messages format and the others. */

import type { AnswerEvent } from "../../kinds/chat/event.ts";
import type { ChatRequest, DocumentPart, MediaPart, Part } from "../../kinds/chat/request.ts";
import type { Conversion } from "../../model/conversion.ts";
import {
  type AnswerConversionTable,
  approximated,
  choosesNothing,
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
import {
  FORMAT,
  isSayable,
  isServiceTier,
  isToolId,
  MAX_TEMPERATURE,
  MIN_BUDGET_TOKENS,
  sayableChoice,
  sealed,
} from "./request.ts";
import type { MessagesRequest } from "./schema.ts";

const NO_PENALTIES = dropped("The format has no penalties.");

export const CONVERSIONS: ConversionTable = conversionTable({
  "messages.none": rejected("No part of the conversation can be sent in this format."),
  "messages.prefill": EXACT,
  "messages.cache": EXACT,
  "messages.signature": dropped("Only reasoning has a signature in this format."),
  "messages.thought": approximated("Reasoning in this format is only text."),
  "messages.media": dropped("The format accepts pictures only as JPEG, PNG, GIF and WebP."),
  "messages.media.audio": dropped("The format has no sound."),
  "messages.media.video": dropped("The format has no video."),
  "messages.document": dropped("The format accepts documents only as PDF and text."),
  "messages.document.url": EXACT,
  "messages.document.citations": EXACT,
  "messages.document.context": EXACT,
  "messages.tool-call.id": emulated("The gateway replaces an id whose characters the format does not accept."),
  "messages.tool-result.isError": EXACT,
  "messages.reasoning.unsealed": dropped("The format accepts no reasoning without its signature."),
  "messages.redacted-reasoning": EXACT,
  temperature: approximated("The format's highest temperature is 1."),
  topP: approximated("The format's lowest value is above 0."),
  "reasoning.adaptive": EXACT,
  "reasoning.budgetTokens": approximated("The format's budget is at least 1,024 tokens and below the output limit."),
  "reasoning.effort": approximated("The format's lowest effort is low."),
  "responseFormat.schema": approximated("A schema that allows every JSON is sent."),
  seed: dropped("The format has no seed."),
  presencePenalty: NO_PENALTIES,
  frequencyPenalty: NO_PENALTIES,
  modalities: dropped("The format answers only in text."),
  serviceTier: dropped("The format has no tier of this name."),
});

/** Lists the conversions of a request that was encoded into the body. */
export function conversionsOf(request: ChatRequest, body: MessagesRequest): Conversion[] {
  const { messages, toolChoice, temperature, topP, serviceTier, responseFormat, reasoning, maxOutputTokens } = request;
  const fields = convertedFields(request, FORMAT);
  if (body.messages.length === 0) fields.add("messages.none");
  if (temperature !== undefined && temperature > MAX_TEMPERATURE) fields.add("temperature");
  if (topP === 0) fields.add("topP");
  if (serviceTier !== undefined && isServiceTier(serviceTier)) fields.delete("serviceTier");
  for (const { parts } of messages) for (const part of sealed(parts)) checkPart(part, fields);
  // If there are no tools, the choice `none` can be left out without loss.
  const isConverted = toolChoice?.type === "none" || choosesNothing(request) || sayableChoice(request) !== undefined;
  if (toolChoice && !isConverted) fields.add("toolChoice");
  if (responseFormat?.type === "json") {
    if (!responseFormat.schema) fields.add("responseFormat.schema");
    if (responseFormat.name !== undefined) fields.add("responseFormat.name");
  }
  if (reasoning && reasoning.type !== "disabled") {
    if (reasoning.visible === false) fields.add("reasoning.visible");
    if (reasoning.type === "adaptive") {
      if (reasoning.effort === "minimal") fields.add("reasoning.effort");
    } else if (reasoning.budgetTokens < MIN_BUDGET_TOKENS || reasoning.budgetTokens >= maxOutputTokens)
      fields.add("reasoning.budgetTokens");
  }
  return listConversions(CONVERSIONS, fields, request);
}

function checkPart(part: Part, fields: ConvertedFields): void {
  const id = part.type === "tool-call" ? part.id : part.type === "tool-result" ? part.callId : undefined;
  if (id !== undefined && !isToolId(id)) fields.add("messages.tool-call.id");
  if (part.type === "media" || part.type === "document") checkMedia(part, fields);
  else if (part.type === "reasoning" && part.signature === undefined) fields.add("messages.reasoning.unsealed");
  else if (part.type === "tool-result")
    for (const inner of part.parts) if (inner.type === "media" || inner.type === "document") checkMedia(inner, fields);
}

function checkMedia(part: MediaPart | DocumentPart, fields: ConvertedFields): void {
  if (part.type === "document" && part.source.type === "base64" && part.source.mediaType !== "application/pdf")
    fields.add("messages.document.text");
  if (isSayable(part)) return;
  const kind = part.type === "media" && part.kind !== "image" ? (`media.${part.kind}` as const) : part.type;
  fields.add(`messages.${kind}`);
}

const ENDED = approximated("The answer ends as the end of the turn.");
const NO_NOTES = dropped("The format has no notes of this kind.");

export const ANSWER_CONVERSIONS: AnswerConversionTable = {
  ...COMMON_ANSWERS,
  "answer.candidate": dropped("There is only one answer."),
  "answer.refusal-delta": approximated("A refusal is shown as text."),
  "answer.media": dropped("The format answers only in text."),
  "answer.code": approximated("Code is shown as text."),
  "answer.code-result": approximated("The output of code is shown as text."),
  "answer.signature": dropped("Only reasoning has a signature in this format."),
  "answer.thought": dropped("Reasoning in this format is only text."),
  "answer.annotation.safety": NO_NOTES,
  "answer.annotation.citations": dropped("A citation of this format quotes its source, and this one has no quote."),
  "answer.annotation.grounding": NO_NOTES,
  "answer.annotation.attributions": NO_NOTES,
  "answer.annotation.logprobs": NO_NOTES,
  "answer.annotation.retrieved-urls": NO_NOTES,
  "answer.annotation.url-context": NO_NOTES,
  "answer.annotation.token-count": NO_NOTES,
  "answer.prompt-feedback": dropped("The format has no feedback on the prompt."),
  "answer.finish.pause": ENDED,
  "answer.finish.refusal": ENDED,
  "answer.finish.content-filter": ENDED,
  "answer.finish.recitation": ENDED,
  "answer.finish.language": ENDED,
  "answer.finish.blocklist": ENDED,
  "answer.finish.prohibited-content": ENDED,
  "answer.finish.personal-data": ENDED,
  "answer.finish.unsafe-image": ENDED,
  "answer.finish.malformed-tool-call": ENDED,
  "answer.finish.other": ENDED,
  "answer.usage.toolUseTokens": approximated("The tokens are counted as input."),
  "answer.usage.details": dropped("The format does not count by kinds of content."),
};

export const conversionsOfEvent = (event: AnswerEvent): readonly Conversion[] =>
  listAnswerConversions(ANSWER_CONVERSIONS, FORMAT, event);
