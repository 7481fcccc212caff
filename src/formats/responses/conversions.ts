/** Conversions between the Responses format and the others. */

import type { AnswerEvent } from "../../model/chat-event.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isLonger } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { showsThoughts } from "../shared/answer.ts";
import {
  type AnswerConversionTable,
  approximated,
  citedAtText,
  type ConversionTable,
  type ConvertedFields,
  conversionTable,
  convertedFields,
  dropped,
  emulated,
  EXACT,
  listSignedAnswerConversions,
  rejected,
} from "../shared/conversions.ts";
import { MAX_END_USER, OPENAI_ANSWERS, OPENAI_REQUESTS, SHORT_END_USER } from "../shared/openai.ts";
import { FORMAT } from "./routes.ts";

const SAMPLING = dropped("A model that reasons refuses this field.");

export const CONVERSIONS: ConversionTable = conversionTable({
  ...OPENAI_REQUESTS,
  "messages.none": rejected("No part of the conversation can be sent in this format."),
  "messages.signature": dropped("The format signs only reasoning."),
  "messages.thought": approximated("Content made during reasoning is sent as a part of the answer."),
  "messages.media": EXACT,
  "messages.media.audio": rejected("The format accepts no address of a sound."),
  "messages.media.video": rejected("The format accepts no video."),
  "messages.media.detail": EXACT,
  "messages.document": EXACT,
  "messages.document.url": EXACT,
  "messages.document.context": approximated("The context of a document is sent as text."),
  "messages.role.system": EXACT,
  "messages.tool-result.order": EXACT,
  "messages.tool-call.id": emulated("A short id replaces an id that is too long for the format."),
  "messages.reasoning.unsealed": dropped("The format accepts only reasoning that its provider has encrypted."),
  "messages.refusal": EXACT,
  "tools.function.custom": EXACT,
  "tools.code-execution": EXACT,
  "toolChoice.names": EXACT,
  topK: dropped("Sampling cannot be limited to the most likely tokens."),
  seed: dropped("The random choices have no seed."),
  presencePenalty: dropped("The format has no penalties."),
  frequencyPenalty: dropped("The format has no penalties."),
  maxOutputTokens: approximated("The least limit of the format is 16 tokens."),
  stopSequences: emulated("The gateway ends the answer at the texts."),
  "reasoning.budgetTokens": approximated("The budget is sent as an effort."),
  reasoning: dropped("This model does not reason."),
  "reasoning.effort": approximated("The nearest effort that the model accepts is sent."),
  "reasoning.visible": EXACT,
  "responseFormat.name": emulated("A schema needs a name; the gateway chooses one."),
  "responseFormat.strict": EXACT,
  temperature: SAMPLING,
  topP: SAMPLING,
  logprobs: SAMPLING,
  modalities: dropped("The format answers in text."),
  mediaResolution: approximated("The resolution is sent as the detail of each picture."),
  serviceTier: EXACT,
  endUser: SHORT_END_USER,
});

/** The conversions for an upstream that gets the reasoning of others as text. */
const TEXT_CONVERSIONS: ConversionTable = {
  ...CONVERSIONS,
  "messages.reasoning.foreign": approximated("The reasoning of another provider is sent as text."),
  "messages.reasoning.unsealed": approximated("Reasoning that is not encrypted is sent as text."),
};

export const tableOf = ({ foreignReasoning }: CodecOptions): ConversionTable =>
  foreignReasoning === "text" ? TEXT_CONVERSIONS : CONVERSIONS;

/** Notes that nothing of a conversation is left, unless what was left out is refused by itself. */
export function noteEmpty(fields: ConvertedFields): void {
  if ([...fields].every((field) => CONVERSIONS[field].conversion !== "rejected")) fields.add("messages.none");
}

/** Collects the fields of a request that need a conversion. The encoder adds further fields while it writes the body. */
export function fieldsOf(request: ChatRequest): ConvertedFields {
  const fields = convertedFields(request, FORMAT);
  // Only some models refuse these, and only beside some schemas.
  fields.delete("logprobs");
  fields.delete("tools.function.strict");
  if (!isLonger(request.endUser ?? "", MAX_END_USER)) fields.delete("endUser");
  if (request.stopSequences.length > 0) fields.add("stopSequences");
  return fields;
}

export const ANSWER_CONVERSIONS: AnswerConversionTable = {
  ...OPENAI_ANSWERS,
  "answer.candidate": dropped("The format has only one answer."),
  "answer.redacted-reasoning": emulated("Encrypted reasoning is sent as reasoning without a text."),
  "answer.media.audio": dropped("The format answers in texts and pictures."),
  "answer.code-result": approximated("Only the output of code is told, and not its outcome."),
  "answer.signature": dropped("Only reasoning, texts and tool calls keep their signature in this format."),
  "answer.usage.details": dropped("The format does not count tokens by their kind of content."),
};

export const conversionsOfEvent = (event: AnswerEvent): readonly Conversion[] =>
  listSignedAnswerConversions(ANSWER_CONVERSIONS, FORMAT, event);

/** Lists the conversions of the events of one answer in order. */
export const conversionsOfAnswer = (request: ChatRequest): ((event: AnswerEvent) => readonly Conversion[]) =>
  citedAtText(
    FORMAT,
    {
      "refusal-delta": false,
      code: false,
      media: false,
      ...(showsThoughts(request) && { "reasoning-delta": false }),
    },
    conversionsOfEvent,
  );
