/** Conversions between the messages format and the others. */

import { isTextType } from "../../media/media-type.ts";
import type { AnswerEvent } from "../../model/chat-event.ts";
import type {
  ChatMessage,
  ChatRequest,
  DocumentPart,
  MediaPart,
  Part,
  ReasoningPart,
  RedactedReasoningPart,
} from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isLonger } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { showsThoughts } from "../shared/answer.ts";
import {
  type AnswerConversionTable,
  approximated,
  citedAtText,
  COMMON_ANSWERS,
  type ConversionTable,
  type ConvertedField,
  type ConvertedFields,
  conversionTable,
  convertedFields,
  dropped,
  emulated,
  EXACT,
  listConversions,
  rejected,
  listSignedAnswerConversions,
} from "../shared/conversions.ts";
import { SERVICE_TIER } from "./answer.ts";
import { isBlank, isOwn, isSayable, isToolId, sealed } from "./request.messages.ts";
import { isServiceTier, MAX_END_USER, MAX_TEMPERATURE, sayableChoice } from "./request.ts";
import { FORMAT } from "./routes.ts";
import type { MessagesRequest } from "./schema.ts";

const NO_PENALTIES = dropped("The format has no penalties.");

export const CONVERSIONS: ConversionTable = conversionTable({
  "tools.web-search": approximated("The provider's own web search is offered."),
  "messages.none": rejected("No part of the conversation can be sent in this format."),
  "messages.text": approximated("Blank texts are left out."),
  "messages.prefill": approximated(
    "White space at the end of a turn that the answer continues is left out; a model that continues no turn is asked to go on.",
  ),
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
  "messages.tool-call.id": emulated(
    "The gateway replaces an id that another call has, or whose characters the format does not accept.",
  ),
  "messages.tool-result.isError": EXACT,
  "messages.reasoning": dropped("A turn that the answer continues has no reasoning."),
  "messages.reasoning.unsealed": dropped("The format accepts no reasoning without its signature."),
  "messages.redacted-reasoning": dropped("A turn that the answer continues has no reasoning."),
  temperature: dropped("The model does not accept this value, or not beside reasoning."),
  topP: dropped("The model does not accept this value, or not beside the temperature or reasoning."),
  topK: dropped("The model does not accept this field, or not beside reasoning."),
  reasoning: dropped(
    "The model does not reason as asked, or not beside a forced tool, a prefill or earlier calls without reasoning.",
  ),
  "reasoning.adaptive": approximated("The model reasons within a budget."),
  "reasoning.budgetTokens": approximated("The budget is brought into the model's range, or becomes an effort."),
  "reasoning.effort": approximated("The nearest effort or budget that the model knows is sent."),
  "tools.function.strict": approximated("The model is not held to this schema of arguments."),
  stopSequences: emulated("The format takes no white space alone; the gateway ends the text there."),
  responseFormat: approximated("An instruction asks for the JSON."),
  "responseFormat.schema": approximated(
    "Objects are closed, and the words that the model is not held to are told to it.",
  ),
  seed: dropped("The format has no seed."),
  presencePenalty: NO_PENALTIES,
  frequencyPenalty: NO_PENALTIES,
  modalities: dropped("The format answers only in text."),
  serviceTier: dropped("The format has no tier of this name."),
  endUser: dropped("The format accepts an identifier of at most 256 characters."),
});

/** The rules of fields that are not left out. The table has the rules of these fields where they are. */
const KEPT: Readonly<Record<string, Omit<Conversion, "field">>> = {
  temperature: approximated("The format's highest temperature is 1."),
  topP: approximated("The format's lowest value is above 0."),
  "messages.reasoning": approximated("Reasoning that the upstream does not accept is sent as text."),
};

/** @param lost The fields that were left out or changed for the model. */
export function toldOf(fields: ConvertedFields, lost: ReadonlySet<ConvertedField>, request: ChatRequest): Conversion[] {
  const conversions = listConversions(CONVERSIONS, new Set([...fields, ...lost]), request);
  return conversions.map((told) => (lost.has(told.field as ConvertedField) ? told : { ...told, ...KEPT[told.field] }));
}

/**
 * Lists the conversions of a request that was encoded into the body.
 *
 * @param lost The fields that were left out or changed for the model.
 */
export function conversionsOf(
  request: ChatRequest,
  body: MessagesRequest,
  lost: ReadonlySet<ConvertedField>,
  { foreignReasoning }: CodecOptions,
): Conversion[] {
  const { messages, system, temperature, topP, serviceTier, responseFormat, reasoning, endUser = "" } = request;
  const fields = convertedFields(request, FORMAT);
  for (const field of CHECKED) fields.delete(field);
  if (body.messages.length === 0) fields.add("messages.none");
  if (temperature !== undefined && temperature > MAX_TEMPERATURE) fields.add("temperature");
  if (topP === 0) fields.add("topP");
  if (serviceTier !== undefined && isServiceTier(serviceTier)) fields.delete("serviceTier");
  if (!isLonger(endUser, MAX_END_USER)) fields.delete("endUser");
  if (system.some(({ text }) => isBlank(text))) fields.add("messages.text");
  checkMessages(messages, foreignReasoning === "text", fields);
  sayableChoice(request, fields);
  if (responseFormat?.type === "json") {
    if (lost.has("responseFormat")) fields.delete("responseFormat.strict");
    if (responseFormat.name !== undefined) fields.add("responseFormat.name");
  }
  if (reasoning && reasoning.type !== "disabled" && reasoning.visible === false) fields.add("reasoning.visible");
  return toldOf(fields, lost, request);
}

/** The fields of which `convertedFields` knows too little: the format has them, as far as the checks below and the model allow. */
const CHECKED = [
  "topK",
  "messages.prefill",
  "messages.reasoning",
  "messages.reasoning.foreign",
  "messages.redacted-reasoning",
  "tools.function.strict",
] as const satisfies ConvertedField[];

function checkMessages(messages: readonly ChatMessage[], isSentAsText: boolean, fields: ConvertedFields): void {
  const ids = new Set<string>();
  for (const { parts } of messages)
    for (const part of sealed(parts)) {
      checkPart(part, fields);
      if (part.type === "reasoning" || part.type === "redacted-reasoning") {
        const loss = lossOf(part, isSentAsText);
        if (loss) fields.add(loss);
      } else if (part.type === "tool-call") {
        if (ids.has(part.id)) fields.add("messages.tool-call.id");
        ids.add(part.id);
      }
    }
}

/** Returns the conversion of reasoning; undefined for reasoning that the upstream accepts. */
function lossOf(part: ReasoningPart | RedactedReasoningPart, isSentAsText: boolean): ConvertedField | undefined {
  if (part.type === "redacted-reasoning") return isOwn(part) ? undefined : "messages.reasoning.foreign";
  if (isOwn(part) && part.signature) return undefined;
  if (isSentAsText && !isBlank(part.text)) return "messages.reasoning";
  return isOwn(part) ? "messages.reasoning.unsealed" : "messages.reasoning.foreign";
}

function checkPart(part: Part, fields: ConvertedFields): void {
  const id = part.type === "tool-call" ? part.id : part.type === "tool-result" ? part.callId : undefined;
  if (id !== undefined && !isToolId(id)) fields.add("messages.tool-call.id");
  if (part.type === "media" || part.type === "document") checkMedia(part, fields);
  else if (part.type === "text" || part.type === "refusal") {
    if (part.text !== "" && isBlank(part.text)) fields.add("messages.text");
  } else if (part.type === "tool-result")
    for (const inner of part.parts) if (inner.type !== "json" && inner.type !== "provider") checkPart(inner, fields);
}

function checkMedia(part: MediaPart | DocumentPart, fields: ConvertedFields): void {
  if (part.type === "document" && part.source.type === "base64" && isTextType(part.source.mediaType))
    fields.add("messages.document.text");
  if (isSayable(part)) return;
  const kind = part.type === "media" && part.kind !== "image" ? (`media.${part.kind}` as const) : part.type;
  fields.add(`messages.${kind}`);
}

const ENDED = approximated("The answer ends as the end of the turn.");
const REFUSED = approximated("The answer ends as a refusal.");
const NO_NOTES = dropped("The format has no notes of this kind.");
const CITED = approximated("A source with an address is cited by the last block of text.");

export const ANSWER_CONVERSIONS: AnswerConversionTable = {
  ...COMMON_ANSWERS,
  "answer.candidate": dropped("There is only one answer."),
  "answer.refusal-delta": approximated("A refusal is shown as text."),
  "answer.media": dropped("The format answers only in text."),
  "answer.media.audio": dropped("The format answers only in text."),
  "answer.code": approximated("Code is shown as text."),
  "answer.code-result": approximated("The output of code is shown as text."),
  "answer.signature": dropped("Only reasoning, texts and tool calls keep their signature in this format."),
  "answer.thought": dropped("Reasoning in this format is only text."),
  "answer.annotation.safety": NO_NOTES,
  "answer.annotation.citations": CITED,
  "answer.annotation.grounding": CITED,
  "answer.annotation.attributions": NO_NOTES,
  "answer.annotation.logprobs": NO_NOTES,
  "answer.annotation.retrieved-urls": NO_NOTES,
  "answer.annotation.url-context": NO_NOTES,
  "answer.annotation.token-count": NO_NOTES,
  "answer.prompt-feedback": dropped("The format has no feedback on the prompt."),
  "answer.finish.pause": ENDED,
  "answer.finish.content-filter": REFUSED,
  "answer.finish.recitation": REFUSED,
  "answer.finish.language": ENDED,
  "answer.finish.blocklist": REFUSED,
  "answer.finish.prohibited-content": REFUSED,
  "answer.finish.personal-data": REFUSED,
  "answer.finish.unsafe-image": REFUSED,
  "answer.finish.malformed-tool-call": ENDED,
  "answer.finish.other": ENDED,
  "answer.usage.toolUseTokens": approximated("The tokens are counted as input."),
  "answer.usage.details": dropped("The format does not count by kinds of content."),
};

const NO_TIER: Conversion = {
  field: "answer.usage.serviceTier",
  ...dropped("The format has no tier of this name."),
};

export function conversionsOfEvent(event: AnswerEvent): readonly Conversion[] {
  const conversions = listSignedAnswerConversions(ANSWER_CONVERSIONS, FORMAT, event);
  if (event.type !== "finish" || event.native?.format === FORMAT) return conversions;
  const { serviceTier } = event.usage;
  return serviceTier === undefined || SERVICE_TIER.has(serviceTier) ? conversions : [...conversions, NO_TIER];
}

/** Lists the conversions of the events of one answer in order. */
export const conversionsOfAnswer = (request: ChatRequest): ((event: AnswerEvent) => readonly Conversion[]) =>
  citedAtText(
    FORMAT,
    {
      "refusal-delta": true,
      code: true,
      "code-result": true,
      ...(showsThoughts(request) && { "reasoning-delta": false }),
    },
    conversionsOfEvent,
  );
