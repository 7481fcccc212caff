/** Conversions between the chat-completions format and the others. */

import type { AnswerEvent } from "../../model/chat-event.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isLonger } from "../../model/json.ts";
import {
  type AnswerConversionTable,
  approximated,
  type ConversionTable,
  type ConvertedFields,
  conversionTable,
  convertedFields,
  dropped,
  emulated,
  EXACT,
  rejected,
  listAnswerConversions,
} from "../shared/conversions.ts";
import { MAX_END_USER, OPENAI_ANSWERS, OPENAI_REQUESTS, SHORT_END_USER } from "../shared/openai.ts";
import { FORMAT } from "./routes.ts";

const REASONING = dropped("Providers of this format take back only the reasoning that they have shown.");

const NO_SAMPLING = dropped("OpenAI's reasoning models choose how they are sampled.");

export const CONVERSIONS: ConversionTable = conversionTable({
  ...OPENAI_REQUESTS,
  "messages.name": EXACT,
  "messages.role.system": EXACT,
  "messages.signature": dropped("Only Gemini models take signatures in this format."),
  "messages.thought": approximated("Content made during reasoning is sent as a part of the answer."),
  "messages.media": rejected("The format accepts pictures and sounds by data or address alone."),
  "messages.media.audio": rejected("The format accepts no address of a sound."),
  "messages.media.video": rejected("The format accepts no video."),
  "messages.media.detail": EXACT,
  "messages.document": EXACT,
  "messages.document.url": rejected("The format accepts the data or the file id of a document, not its address."),
  "messages.document.context": approximated("The context of a document is sent as text."),
  "messages.tool-call.id": emulated("A short id replaces an id that is too long for the format."),
  "messages.tool-call.order": approximated("Tool calls follow the other parts of their turn."),
  "messages.tool-result.media": approximated(
    "Pictures and documents of a tool result follow in a message of the user.",
  ),
  "messages.reasoning": REASONING,
  "messages.reasoning.unsealed": REASONING,
  "messages.redacted-reasoning": REASONING,
  "messages.refusal": EXACT,
  "toolChoice.names": EXACT,
  topK: dropped("Sampling cannot be limited to the most likely tokens."),
  stopSequences: emulated("The format accepts four; the gateway ends the answer at the others."),
  "reasoning.budgetTokens": approximated("The budget is sent as an effort."),
  reasoning: dropped("The model does not reason."),
  "reasoning.effort": approximated("The nearest effort that the model accepts is sent."),
  "reasoning.visible": dropped("The provider decides whether to show its reasoning."),
  "responseFormat.name": emulated("A schema needs a name; the gateway chooses one."),
  "responseFormat.strict": EXACT,
  candidateCount: EXACT,
  temperature: NO_SAMPLING,
  topP: NO_SAMPLING,
  presencePenalty: NO_SAMPLING,
  frequencyPenalty: NO_SAMPLING,
  logprobs: dropped("OpenAI's reasoning models give no probabilities."),
  modalities: dropped("The format answers in text and sound."),
  speech: approximated("The format has one voice, and neither a language nor several speakers."),
  mediaResolution: approximated("The resolution is sent as the detail of each picture."),
  serviceTier: EXACT,
  endUser: SHORT_END_USER,
});

/** The conversions for an upstream that gets the reasoning of others as text. */
export const TEXT_CONVERSIONS: ConversionTable = {
  ...CONVERSIONS,
  "messages.reasoning.foreign": approximated("The reasoning of another provider is sent as text."),
};

/** The fields that the encoder adds itself, because they depend on the model or on the maker of a signature. */
const ADDED_LATER = [
  "presencePenalty",
  "frequencyPenalty",
  "logprobs",
  "messages.reasoning",
  "messages.reasoning.foreign",
  "messages.redacted-reasoning",
  "messages.signature",
  "messages.signature.foreign",
  "tools.function.strict",
] as const;

/** Collects the fields of a request that need a conversion. The encoder adds further fields while it writes the body. */
export function fieldsOf(request: ChatRequest): ConvertedFields {
  const fields = convertedFields(request, FORMAT);
  for (const field of ADDED_LATER) fields.delete(field);
  const { speech = {}, modalities = [], endUser = "" } = request;
  if (!isLonger(endUser, MAX_END_USER)) fields.delete("endUser");
  const { voice, language, speakers } = speech;
  if (!modalities.includes("image")) fields.delete("modalities");
  if (voice !== undefined && modalities.includes("audio") && language === undefined && !speakers)
    fields.delete("speech");
  return fields;
}

export const ANSWER_CONVERSIONS: AnswerConversionTable = {
  ...OPENAI_ANSWERS,
  "answer.reasoning-signature": emulated("Signatures stand in `reasoning_details`, which callers send back."),
  "answer.redacted-reasoning": emulated("Encrypted reasoning stands in `reasoning_details`, which callers send back."),
  "answer.code": approximated("Code is shown as text."),
  "answer.code-result": approximated("The output of code is shown as text."),
  "answer.signature": emulated(
    "Signatures of tool calls and texts stand in the extension that Google's own endpoint has.",
  ),
  "answer.usage.details": approximated("Among the kinds of content, only sound is counted."),
};

/** @param signed The events whose signature the caller gets. */
export function conversionsOfEvent(event: AnswerEvent, signed: ReadonlySet<string> = SIGNED): readonly Conversion[] {
  const conversions = listAnswerConversions(ANSWER_CONVERSIONS, FORMAT, event);
  if (conversions.length === 0) return conversions;
  const events = event.type === "native" ? event.events : [event];
  if (!events.some((inner) => "signature" in inner && !signed.has(inner.type))) return conversions;
  return conversions.map((found) => (found.field === "answer.signature" ? { ...found, ...NO_SIGNATURE } : found));
}

const NO_SIGNATURE = dropped("Only tool calls and texts have signatures.");

/** The events whose signature the format has a field for. */
const SIGNED: ReadonlySet<string> = new Set([
  "text-delta",
  "reasoning-signature",
  "tool-call",
  "tool-call-start",
  "tool-call-end",
] satisfies AnswerEvent["type"][]);

const FUNCTION_SIGNED: ReadonlySet<string> = new Set(["text-delta", "reasoning-signature"]);

const LATER_CALL: Conversion = {
  field: "answer.tool-call",
  ...dropped("The answer to a request with `functions` has one call."),
};

/** Lists the conversions of the events of one answer to a request with `functions`. */
export function conversionsOfFunctions(): (event: AnswerEvent) => readonly Conversion[] {
  const called = new Set<number>();
  return (event) => {
    const conversions = conversionsOfEvent(event, FUNCTION_SIGNED);
    let hasLater = false;
    for (const inner of event.type === "native" ? event.events : [event])
      if (inner.type === "tool-call" || inner.type === "tool-call-start") {
        const { candidate = 0 } = inner;
        hasLater ||= called.has(candidate);
        called.add(candidate);
      }
    return hasLater ? [...conversions, LATER_CALL] : conversions;
  };
}
