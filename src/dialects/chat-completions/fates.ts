/** What becomes of the fields of another format's request in the chat-completions format. */

import type { ChatRequest } from "../../model/chat.ts";
import {
  approximated,
  dropped,
  emulated,
  EXACT,
  type FatedField,
  type FateTable,
  rareFields,
  rejected,
  resultLosses,
} from "../shared/fates.ts";
import { DIALECT } from "./schema.base.ts";

/** Every field of the neutral request, each kind of part and tool. */
export const FATES: FateTable = {
  model: EXACT,
  messages: EXACT,
  "messages.none": EXACT,
  "messages.name": EXACT,
  "messages.role.system": EXACT,
  "messages.prefill": approximated("The model may begin its answer anew instead of continuing the last turn."),
  "messages.cache": dropped("Prompts are cached without a hint."),
  "messages.signature": dropped("The format has no signatures."),
  "messages.thought": approximated("What was made while reasoning is told as a part of the answer."),
  "messages.text": EXACT,
  "messages.media": rejected("The format takes pictures and sounds by their data or address, and of its users alone."),
  "messages.media.audio": rejected("The format takes no sound by its address."),
  "messages.media.video": rejected("The format takes no video."),
  "messages.media.url": EXACT,
  "messages.media.detail": EXACT,
  "messages.document": rejected("The format takes documents of its users alone."),
  "messages.document.url": rejected("The format takes documents by their data or by a file's id, not by an address."),
  "messages.document.text": approximated("A document of text is told as text."),
  "messages.document.citations": dropped("The format cannot ask for citations."),
  "messages.document.title": EXACT,
  "messages.document.context": approximated("What is said about a document is told as text."),
  "messages.tool-call": EXACT,
  "messages.tool-call.id": emulated("An id that is too long for the format is replaced by a short one."),
  "messages.tool-result": EXACT,
  "messages.tool-call.order": approximated("Calls stand after what else the turn says."),
  "messages.tool-result.order": approximated("The results of tools stand before what else the turn says."),
  "messages.tool-result.name": dropped("The format names a tool in its call alone."),
  "messages.tool-result.unasked": rejected("The format takes the results of calls that are in the conversation alone."),
  "messages.tool-result.media": approximated(
    "Pictures and documents of a tool's result follow in a message of the user.",
  ),
  "messages.tool-result.isError": approximated("That a tool has failed is told as text."),
  "messages.tool-result.text": EXACT,
  "messages.tool-result.json": approximated("Structured data is told as the text of its JSON."),
  "messages.reasoning": dropped("Providers of this format refuse reasoning that is sent back."),
  "messages.reasoning.unsealed": dropped("Providers of this format refuse reasoning that is sent back."),
  "messages.redacted-reasoning": dropped("Providers of this format refuse reasoning that is sent back."),
  "messages.refusal": EXACT,
  "messages.code": approximated("Code is told as text."),
  "messages.code-result": approximated("What code printed is told as text."),
  "messages.provider": dropped("Another format's own part means nothing in this one."),
  system: EXACT,
  tools: EXACT,
  "tools.function": EXACT,
  "tools.function.strict": EXACT,
  "tools.code-execution": dropped("The format cannot let the model run code."),
  "tools.provider": dropped("Another format's own tool means nothing in this one."),
  toolChoice: dropped("There is no tool left to choose."),
  "toolChoice.names": EXACT,
  "toolChoice.parallel": EXACT,
  maxOutputTokens: EXACT,
  limitedByDefault: EXACT,
  temperature: EXACT,
  topP: EXACT,
  topK: dropped("The format cannot limit the sampling to the most likely tokens."),
  stopSequences: emulated("The format takes four; the gateway ends the answer at the others."),
  reasoning: EXACT,
  "reasoning.adaptive": approximated("Whether and how much is thought is left to the model."),
  "reasoning.budgetTokens": approximated("The budget is told as an effort."),
  "reasoning.effort": EXACT,
  "reasoning.visible": dropped("Whether reasoning is shown is left to the provider."),
  responseFormat: EXACT,
  "responseFormat.enum": emulated("One of several texts is asked for in JSON, and taken out of it."),
  "responseFormat.name": emulated("A schema needs a name; it gets a neutral one."),
  "responseFormat.schema": EXACT,
  "responseFormat.strict": EXACT,
  candidateCount: EXACT,
  seed: EXACT,
  presencePenalty: EXACT,
  frequencyPenalty: EXACT,
  logprobs: EXACT,
  modalities: dropped("The format gives text and sound."),
  speech: approximated(
    "The format names the one voice of a spoken answer, and neither a language nor several speakers.",
  ),
  mediaResolution: approximated("It is told as the detail of each picture."),
  safety: dropped("The format has no safety settings."),
  cachedContent: rejected("It is a part of the prompt that only its own provider holds."),
  enhancedCivicAnswers: dropped("The format has no such answers."),
  serviceTier: EXACT,
  endUser: EXACT,
  stream: EXACT,
  native: dropped("Only the caller's own format has words for it."),
};

/** The fields beside the conversation and the tools that the format cannot say as they are, whatever their values. */
export function* fieldLosses(request: ChatRequest): Generator<FatedField> {
  for (const field of rareFields(request)) if (!IN_PART.has(field)) yield field;
  yield* resultLosses(request, DIALECT);
  const { speech = {}, modalities = [] } = request;
  if (Object.keys(speech).length === 0) return;
  const isSpoken = modalities.includes("audio") && speech.voice !== undefined;
  if (!isSpoken || speech.language !== undefined || speech.speakers) yield "speech";
}

/** Of these, some values can be said. */
const IN_PART: ReadonlySet<FatedField> = new Set<FatedField>(["modalities", "speech"]);
