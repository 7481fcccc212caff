/** Conversions between the Responses format and the others. */

import type { AnswerEvent } from "../../model/chat-event.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isLonger } from "../../model/json.ts";
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
  listSignedAnswerConversions,
  rejected,
} from "../shared/conversions.ts";
import { FORMAT } from "./routes.ts";

const NO_MEDIA = rejected("The format accepts pictures, sounds and documents only from users.");

const SAMPLING = dropped("A model that reasons refuses this field.");

export const CONVERSIONS: ConversionTable = conversionTable({
  "messages.none": rejected("No part of the conversation can be sent in this format."),
  "messages.signature": dropped("The format signs only reasoning."),
  "messages.thought": approximated("Content made during reasoning is sent as a part of the answer."),
  "messages.media": NO_MEDIA,
  "messages.media.audio": rejected("The format accepts no address of a sound."),
  "messages.media.video": rejected("The format accepts no video."),
  "messages.media.detail": EXACT,
  "messages.document": NO_MEDIA,
  "messages.document.url": EXACT,
  "messages.document.context": approximated("The context of a document is sent as text."),
  "messages.role.system": EXACT,
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
  endUser: dropped("The format accepts an identifier of at most 64 characters."),
});

/** The longest identifier of an end user that the official service accepts, in characters. */
const MAX_END_USER = 64;

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
  // Only some models refuse them.
  fields.delete("logprobs");
  if (!isLonger(request.endUser ?? "", MAX_END_USER)) fields.delete("endUser");
  if (request.stopSequences.length > 0) fields.add("stopSequences");
  return fields;
}

const COMPLETED = approximated("The answer ends as if it were complete.");
const FILTERED = approximated("The answer ends as a filtered one.");
const NO_NOTES = dropped("The format has no notes of this kind.");

export const ANSWER_CONVERSIONS: AnswerConversionTable = {
  ...COMMON_ANSWERS,
  "answer.candidate": dropped("The format has only one answer."),
  "answer.redacted-reasoning": emulated("Encrypted reasoning is sent as reasoning without a text."),
  "answer.code-result": approximated("Only the output of code is told, and not its outcome."),
  "answer.signature": dropped("Only reasoning, texts and tool calls keep their signature in this format."),
  "answer.thought": dropped("Reasoning in this format is only text."),
  "answer.annotation.safety": NO_NOTES,
  "answer.annotation.citations": approximated("A citation is only the address of its source."),
  "answer.annotation.grounding": approximated("The sources are only addresses on the web."),
  "answer.annotation.attributions": NO_NOTES,
  "answer.annotation.logprobs": approximated("The mean and the ids of the tokens are left out."),
  "answer.annotation.retrieved-urls": NO_NOTES,
  "answer.annotation.url-context": NO_NOTES,
  "answer.annotation.token-count": NO_NOTES,
  "answer.prompt-feedback": dropped("Only the end of the answer shows that the prompt was blocked."),
  "answer.stopSequence": dropped("The format does not name the stop sequence that ended an answer."),
  "answer.finish.stop-sequence": COMPLETED,
  "answer.finish.pause": COMPLETED,
  "answer.finish.refusal": FILTERED,
  "answer.finish.recitation": FILTERED,
  "answer.finish.language": FILTERED,
  "answer.finish.blocklist": FILTERED,
  "answer.finish.prohibited-content": FILTERED,
  "answer.finish.personal-data": FILTERED,
  "answer.finish.unsafe-image": FILTERED,
  "answer.finish.malformed-tool-call": COMPLETED,
  "answer.finish.other": COMPLETED,
  "answer.usage.toolUseTokens": approximated("The tokens are counted as input."),
  "answer.usage.cacheWritesByTtl": dropped("The format does not count cache writes by their time to live."),
  "answer.usage.serverToolUses": dropped("The format does not count the uses of server tools."),
  "answer.usage.details": dropped("The format does not count tokens by their kind of content."),
};

export const conversionsOfEvent = (event: AnswerEvent): readonly Conversion[] =>
  listSignedAnswerConversions(ANSWER_CONVERSIONS, FORMAT, event);
