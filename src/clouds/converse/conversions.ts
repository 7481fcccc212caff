/** The fields of a request that Converse, or the model behind it, cannot say exactly. */

import {
  approximated,
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
} from "../../formats/shared/conversions.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { FORMAT } from "./models.ts";
import { MAX_TEMPERATURE } from "./request.ts";

const NO_PENALTIES = dropped("Converse has no penalties.");
const NOT_OF_MODEL = dropped("The model does not accept this field or value, or not beside reasoning.");
const NOT_FROM_MODEL = dropped("The model takes no such reasoning back.");

export const CONVERSIONS: ConversionTable = conversionTable({
  "messages.none": rejected("No part of the conversation can be sent by Converse."),
  "messages.text": approximated("Blank texts are left out."),
  "messages.prefill": approximated(
    "White space at the end of a turn that the answer continues is left out; newer Claude and other models may start a new answer.",
  ),
  "messages.cache": dropped("The model does not cache prompts by marks, or not at this place."),
  "messages.signature": dropped("Only reasoning has a signature in Converse."),
  "messages.thought": approximated("Reasoning in Converse is only text."),
  "messages.media": dropped("Converse takes pictures as JPEG, PNG, GIF and WebP."),
  "messages.media.audio": dropped("Converse takes sounds in base64 of certain types."),
  "messages.media.video": dropped("Converse takes videos in base64 of certain types."),
  "messages.media.url": dropped("Converse takes no address of a picture."),
  "messages.document": dropped("Converse takes documents as PDF, text, HTML, Word and Excel."),
  "messages.document.url": dropped("Converse takes no address of a document."),
  "messages.document.text": approximated("The document is sent as plain text, or as parts of the message."),
  "messages.document.citations": dropped("Only Claude cites documents, and only files."),
  "messages.document.title": approximated(
    "A document of a file has a unique name of letters, digits, hyphens and brackets; parts have none.",
  ),
  "messages.document.context": dropped("Only Claude reads the context of a document, and only of a file."),
  "messages.tool-call.id": emulated(
    "The gateway replaces an id that another call has, or whose form the model does not accept.",
  ),
  "messages.tool-result.isError": EXACT,
  "messages.tool-result.json": EXACT,
  "messages.reasoning": dropped("A turn of reasoning alone, or one that the answer continues, has no reasoning."),
  "messages.reasoning.unsealed": NOT_FROM_MODEL,
  "messages.redacted-reasoning": NOT_FROM_MODEL,
  tools: approximated("Earlier calls need their tools: these are offered without their schemas."),
  "tools.function.strict": dropped("The model does not hold arguments to their schema, or not to this one."),
  toolChoice: dropped("Not all tools are left to choose, or calls cannot be forbidden after earlier calls."),
  "toolChoice.parallel": dropped("Only Claude can be held to one call."),
  temperature: NOT_OF_MODEL,
  topP: NOT_OF_MODEL,
  topK: NOT_OF_MODEL,
  stopSequences: emulated("The model takes fewer, or none of white space; the gateway ends the text at the others."),
  reasoning: dropped("The model does not reason as asked, or not beside the rest of the request."),
  "reasoning.adaptive": approximated("The model reasons within a budget, or with a usual effort."),
  "reasoning.budgetTokens": approximated("The budget is brought into the model's range, or becomes an effort."),
  "reasoning.effort": approximated("The nearest effort or budget that the model knows is sent."),
  responseFormat: approximated("An instruction asks for the JSON."),
  "responseFormat.name": dropped("The instruction does not name the schema."),
  "responseFormat.schema": approximated(
    "Objects are closed, and the words that the model is not held to are told to it.",
  ),
  seed: dropped("Converse has no seed."),
  presencePenalty: NO_PENALTIES,
  frequencyPenalty: NO_PENALTIES,
  modalities: dropped("The model decides on the kinds of its answer."),
  serviceTier: dropped("Bedrock has no tier of this name."),
  endUser: dropped("The identifier has characters that no metadata has."),
});

/** The rules of fields that are changed, and not left out. The table has the rules of these fields where they are. */
const KEPT: Readonly<Partial<Record<ConvertedField, Omit<Conversion, "field">>>> = {
  temperature: approximated("The highest temperature of Converse is 1."),
  endUser: approximated("The identifier stands in the metadata of the invocation log."),
  "messages.reasoning.foreign": approximated("Reasoning of another maker is sent as text."),
};

/** The fields that `convertedFields` cannot judge. The encoder reports them if it loses something. */
const ADDED_BY_ENCODER = [
  "topK",
  "messages.cache",
  "messages.prefill",
  "messages.reasoning",
  "messages.reasoning.foreign",
  "messages.redacted-reasoning",
  "messages.document.title",
  "messages.document.citations",
  "messages.document.context",
  "tools.function.strict",
  "toolChoice.parallel",
] as const satisfies ConvertedField[];

/**
 * Lists the conversions of a request that was encoded.
 *
 * @param lost The fields that the encoder has changed or left out.
 * @param sendsForeignAsText True when reasoning of other makers was sent as text.
 */
export function conversionsOf(
  request: ChatRequest,
  isEmpty: boolean,
  lost: ReadonlySet<ConvertedField>,
  sendsForeignAsText: boolean,
): Conversion[] {
  const { temperature = 0, reasoning, responseFormat } = request;
  const fields: ConvertedFields = convertedFields(request, FORMAT);
  const hasForeign = fields.has("messages.reasoning.foreign");
  for (const field of ADDED_BY_ENCODER) fields.delete(field);
  if (hasForeign && sendsForeignAsText) fields.add("messages.reasoning.foreign");
  if (isEmpty) fields.add("messages.none");
  if (temperature > MAX_TEMPERATURE) fields.add("temperature");
  if (!lost.has("serviceTier")) fields.delete("serviceTier");
  if (reasoning && reasoning.type !== "disabled" && reasoning.visible === false) fields.add("reasoning.visible");
  if (responseFormat?.type === "json" && lost.has("responseFormat")) fields.delete("responseFormat.strict");
  return listConversions(CONVERSIONS, new Set([...fields, ...lost]), request).map((told) => {
    const field = told.field as ConvertedField;
    return lost.has(field) ? told : { ...told, ...KEPT[field] };
  });
}
