/** The parts that OpenAI's two chat formats have in common: facts about models, log probabilities and sources. */

import { effortOf, limitWithoutReasoning } from "../../kinds/chat/reasoning.ts";
import { type Annotation, type Citation, citationsIn, type Logprob, type Logprobs } from "../../model/chat-event.ts";
import type {
  ChatRequest,
  DocumentPart,
  MediaPart,
  FunctionTool,
  MediaSource,
  Reasoning,
  ReasoningControl,
  TextPart,
} from "../../model/chat-request.ts";
import type { JsonObject } from "../../model/json.ts";
import type { TextPlaces } from "../../model/text-places.ts";
import type { CodecOptions } from "../format.ts";
import {
  type AnswerConversionTable,
  approximated,
  COMMON_ANSWERS,
  type ConversionRule,
  type ConversionTable,
  type ConvertedFields,
  dropped,
} from "./conversions.ts";
import { instructionFor, isStrict } from "./held-schema.ts";
import { detailIn, EFFORTS, fileSource, splitDataUrl } from "./schema.ts";

/** Returns the name in lower case, without a provider or the mark of fine-tuning before it: `openai/gpt-5` is `gpt-5`. */
export const bareName = (model: string): string =>
  model
    .slice(model.lastIndexOf("/") + 1)
    .replace(/^ft:/, "")
    .toLowerCase();

export type EffortLevel = (typeof EFFORTS)[number];

/**
 * Returns the levels of effort that a reasoning model of OpenAI accepts: of the series o1, o3, o4, and GPT-5 and later. Returns undefined for
 * any other model.
 */
export function levelsOf(model: string): readonly EffortLevel[] | undefined {
  const name = bareName(model);
  if (/^o[1-9](?:-|$)/.test(name)) return ["low", "medium", "high"];
  const [, major = "0", minor = "0", rest = ""] = /^gpt-(\d+)(?:\.(\d+))?(.*)/.exec(name) ?? [];
  if (Number(major) < 5 || rest.startsWith("-chat") || rest.startsWith("-search")) return undefined;
  const version = Number(major) * 100 + Number(minor);
  if (rest.startsWith("-pro")) return version === 500 ? ["high"] : ["medium", "high", "xhigh"];
  if (rest.startsWith("-codex")) return ["low", "medium", "high"];
  if (version === 500) return ["minimal", "low", "medium", "high"];
  return ["none", "low", "medium", "high", ...(version > 501 ? (["xhigh"] as const) : [])];
}

/** Returns how a model's reasoning is controlled, by the names that are known. An unknown model is given an effort. */
const reasoningControl = (model: string): ReasoningControl =>
  levelsOf(model) || !/^(?:gpt-[345]|chatgpt)/.test(bareName(model)) ? "effort" : "none";

/** Returns the level that a model accepts and that is nearest to the wanted one, rather more than less. */
function nearestLevel(model: string, level: EffortLevel): EffortLevel {
  const levels = levelsOf(model) ?? EFFORTS;
  const wanted = EFFORTS.indexOf(level);
  return levels.find((known) => EFFORTS.indexOf(known) >= wanted) ?? levels.at(-1) ?? level;
}

/** Tells whether a model reasons at all. Notes the loss when the request asks a model to reason that does not. */
export function mayReason(
  model: string,
  reasoning: Reasoning,
  options: CodecOptions,
  fields: ConvertedFields,
): boolean {
  if ((options.reasoning?.(model) ?? reasoningControl(model)) !== "none") return true;
  if (reasoning.type !== "disabled") fields.add("reasoning");
  return false;
}

/** Returns the level that is nearest to the requested reasoning, and notes what changes; undefined when the model chooses by itself. */
export function nearestEffort(model: string, reasoning: Reasoning, fields: ConvertedFields): EffortLevel | undefined {
  if (reasoning.type === "enabled") fields.add("reasoning.budgetTokens");
  const wanted =
    reasoning.type === "disabled"
      ? "none"
      : reasoning.type === "enabled"
        ? effortOf(reasoning.budgetTokens)
        : reasoning.effort;
  const level = wanted && nearestLevel(model, wanted);
  if (level !== wanted) fields.add("reasoning.effort");
  return level;
}

/** Decodes a picture, which stands at an address, in the address itself, or in a file of the provider. */
export function decodePicture(
  url: string | null | undefined,
  detail: string | null | undefined,
  fileId = "",
): MediaPart {
  const inline = url == null ? undefined : splitDataUrl(url);
  const source: MediaSource = url == null ? { type: "file", id: fileId } : { type: "url", url };
  return { type: "media", kind: "image", source: inline ? { type: "base64", ...inline } : source, ...detailIn(detail) };
}

export const decodeSound = ({ data, format }: { readonly data: string; readonly format: string }): MediaPart => ({
  type: "media",
  kind: "audio",
  source: { type: "base64", mediaType: `audio/${format}`, data },
});

/** Returns the wire name of an audio type, which is the usual file extension: `mp3`, `wav`. */
export function audioFormat(mediaType: string): string {
  const [, name = ""] = /^audio\/(?:x-|vnd\.)?([^;]+)/.exec(mediaType.toLowerCase()) ?? [];
  return { mpeg: "mp3", wave: "wav" }[name] ?? name;
}

/** The longest identifier of an end user that OpenAI accepts, in characters. */
export const MAX_END_USER = 64;

export const SHORT_END_USER: ConversionRule = dropped("The format accepts an identifier of at most 64 characters.");

/** The name of a file that has none. OpenAI refuses a file in the request without a name. */
export const NAMELESS_FILE = "document.pdf";

type WireFile = { readonly [field in "file_data" | "file_id" | "file_url" | "filename"]?: string | null | undefined };

export function decodeFile({ file_data, file_id, file_url: url, filename }: WireFile): DocumentPart {
  const title = filename == null ? {} : { title: filename };
  if (url != null) return { type: "document", source: { type: "url", url }, ...title };
  if (file_data == null) return { type: "document", source: { type: "file", id: file_id ?? "" }, ...title };
  return { type: "document", source: fileSource(file_data), ...title };
}

type Sampling = Pick<ChatRequest, "temperature" | "topP" | "presencePenalty" | "frequencyPenalty" | "logprobs">;

/** The values that change nothing, so that nothing is lost without them. */
const NEUTRAL = { temperature: 1, topP: 1, presencePenalty: 0, frequencyPenalty: 0 } as const;

/** Returns the fields that control sampling. OpenAI's reasoning models refuse them, except with the effort `none`. */
export function sampling(request: ChatRequest, effort: EffortLevel | undefined, fields: ConvertedFields): Sampling {
  if (effort === "none" || !levelsOf(request.model)) return request;
  for (const name of Object.keys(NEUTRAL) as (keyof typeof NEUTRAL)[])
    if (request[name] !== undefined && request[name] !== NEUTRAL[name]) fields.add(name);
  if (request.logprobs) fields.add("logprobs");
  return {};
}

/**
 * Returns the output limit. The room for reasoning beside the answer is for models that are known to reason, and for those of which the
 * caller asks a number of tokens: small models of local servers refuse a limit above their window.
 */
export function outputLimit(request: ChatRequest, options: CodecOptions): number {
  const { model, reasoning, maxOutputTokens } = request;
  const control = options.reasoning?.(model);
  const isKnown = control === undefined ? levelsOf(model) !== undefined : control !== "none";
  const isAsked = reasoning?.type === "enabled" && (control ?? reasoningControl(model)) !== "none";
  return isKnown || isAsked ? maxOutputTokens : limitWithoutReasoning(request);
}

/** Returns `strict` of a tool, without the value true beside a schema that OpenAI then refuses. */
export function strictOf(
  { strict }: FunctionTool,
  parameters: JsonObject,
  fields: ConvertedFields,
): boolean | undefined {
  if (strict !== true || isStrict(parameters)) return strict;
  fields.add("tools.function.strict");
  return undefined;
}

/**
 * Returns the instruction for an answer of any JSON. OpenAI refuses to give one to a conversation without the word.
 *
 * @param system The instructions in which OpenAI looks for the word.
 */
export function jsonInstruction(
  { responseFormat: format, messages }: ChatRequest,
  system: readonly TextPart[],
  fields: ConvertedFields,
): TextPart[] {
  if (format?.type !== "json" || format.schema || format.name !== undefined) return [];
  const isNamed = [{ parts: system }, ...messages].some(({ parts }) =>
    parts.some((part) => part.type === "text" && /json/i.test(part.text)),
  );
  if (isNamed) return [];
  fields.add("responseFormat");
  return [{ type: "text", text: instructionFor(format) }];
}

/** The rules of both formats for schemas and the form of answers. */
export const OPENAI_REQUESTS: Partial<ConversionTable> = {
  "tools.function.strict": approximated("The model is not held to this schema of arguments."),
  responseFormat: approximated("An instruction asks for the JSON: the service wants the word in the conversation."),
};

/** Returns the name of a tier in OpenAI's formats, where other vendors have a name of their own for the standard tier. */
export const openAITier = (tier: string | undefined): string | undefined =>
  tier === "standard" || tier === "standard_only" ? "default" : tier;

const utf8 = new TextEncoder();

/** A token with its log probability on the wire. */
interface WireLogprob {
  token: string;
  logprob: number;
  bytes: number[];
}

const encodeLogprob = ({ token, logProbability }: Logprob): WireLogprob => ({
  token,
  logprob: logProbability,
  bytes: [...utf8.encode(token)],
});

export const encodeLogprobs = ({ chosen, top }: Logprobs): (WireLogprob & { top_logprobs: WireLogprob[] })[] =>
  chosen.map((token, step) => ({ ...encodeLogprob(token), top_logprobs: (top[step] ?? []).map(encodeLogprob) }));

type LooseLogprob = Pick<WireLogprob, "token" | "logprob">;

const decodeLogprob = ({ token, logprob }: LooseLogprob): Logprob => ({ token, logProbability: logprob });

/** Decodes the steps of an upstream's log probabilities. */
export const decodeLogprobs = (
  steps: readonly (LooseLogprob & { readonly top_logprobs?: readonly LooseLogprob[] | null | undefined })[],
): Annotation => ({
  type: "logprobs",
  chosen: steps.map(decodeLogprob),
  top: steps.map((step) => (step.top_logprobs ?? []).map(decodeLogprob)),
});

/** A source on the web on the wire. Its indices count characters, and are 0 for a source without a place in the text. */
export interface WireSource {
  url: string;
  title: string;
  start_index: number;
  end_index: number;
}

/**
 * Returns the sources on the web that an annotation names.
 *
 * @param places The places in the text of the answer so far.
 * @param from The position of the wire's text in the answer's text, in characters.
 */
export function sourcesIn(annotation: Annotation, places: TextPlaces, from = 0): WireSource[] {
  return citationsIn(annotation).flatMap(({ uri: url, title = url, ...span }) => {
    if (url === undefined || title === undefined) return [];
    const { start = 0, end = 0 } = places.charsOf(span) ?? {};
    // The text of an earlier part has no place in this one.
    const isWithin = start < end && end > from;
    return {
      url,
      title,
      start_index: isWithin ? Math.max(0, start - from) : 0,
      end_index: isWithin ? end - from : 0,
    };
  });
}

/** Decodes the source that an upstream names; an empty list without an address. The other parameters are those of `sourcesIn`. */
export function decodeSource(
  { url, title, start_index: start, end_index: end }: { readonly [Name in keyof WireSource]?: unknown },
  places: TextPlaces,
  from = 0,
): Citation[] {
  if (typeof url !== "string" || url === "") return [];
  const hasSpan = typeof start === "number" && typeof end === "number" && start >= 0;
  const span = hasSpan ? places.bytesOf({ start: from + start, end: from + end }) : undefined;
  return [{ ...span, uri: url, ...(typeof title === "string" && title !== "" && { title }) }];
}

const COMPLETED = approximated("The answer ends as if it were complete.");
const FILTERED = approximated("The answer ends as a filtered one.");
const NO_NOTES = dropped("The format has no notes of this kind.");

/** The rules of both formats for answers, with those of all formats. */
export const OPENAI_ANSWERS: AnswerConversionTable = {
  ...COMMON_ANSWERS,
  "answer.thought": dropped("Reasoning in this format is only text."),
  "answer.annotation.safety": NO_NOTES,
  "answer.annotation.citations": approximated("A citation is only the address, the title and the place in the text."),
  "answer.annotation.grounding": approximated("A source is only the address, the title and the place in the text."),
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
  "answer.usage.speed": dropped("The format has no speeds."),
  "answer.usage.inferenceGeo": dropped("The format has no regions."),
};
