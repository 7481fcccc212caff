/** The generation config (spec 2.8): ranges, and the fields that contradict one another. */

import * as v from "valibot";
import type { FieldPath, RuleBreach } from "../../http/validation.ts";
import type { JsonObject } from "../../model/json.ts";
import { text } from "../shared/schema.parts.ts";
import { unsaid } from "../shared/schema.unsaid.ts";
import { carried, carriedAs, jsonObject, object, word } from "./schema.base.ts";
import { MEDIA_RESOLUTION, OUTPUT_MODALITY, SPEECH_LANGUAGES, wireWords } from "./schema.enums.ts";
import { OpenApiSchema, schemaBreaches } from "./schema.openapi.ts";

const finite = v.nullish(v.pipe(v.number(), v.finite("must be a finite number")));
const number = (min: number, max: number, message: string) =>
  v.nullish(v.pipe(v.number(), v.minValue(min, message), v.maxValue(max, message)));
const INT32 = { min: -(2 ** 31), max: 2 ** 31 - 1 };
const integer = (min: number, max: number, message: string) =>
  v.nullish(v.pipe(v.number(), v.integer(), v.minValue(min, message), v.maxValue(max, message)));
const int32 = (min: number = INT32.min) =>
  integer(min, INT32.max, min === INT32.min ? "must be an integer of 32 bits" : `must be from ${min} to ${INT32.max}`);

const VoiceConfig = object({ prebuiltVoiceConfig: v.nullish(object({ voiceName: v.nullish(text) })) });
export type VoiceConfig = v.InferOutput<typeof VoiceConfig>;

const SpeechConfig = object({
  voiceConfig: v.nullish(VoiceConfig),
  multiSpeakerVoiceConfig: v.nullish(
    object({ speakerVoiceConfigs: v.array(object({ speaker: text, voiceConfig: v.nullish(VoiceConfig) })) }),
  ),
  languageCode: v.nullish(v.picklist(SPEECH_LANGUAGES)),
});
export type SpeechConfig = v.InferOutput<typeof SpeechConfig>;

const ThinkingConfig = object({
  includeThoughts: v.nullish(v.boolean()),
  /** 0 is none, -1 leaves it to the model. */
  thinkingBudget: int32(-1),
  /** The official service's newer word for a budget. */
  thinkingLevel: v.nullish(v.string()),
});
export type ThinkingConfig = v.InferOutput<typeof ThinkingConfig>;

/** How many the format takes (spec 2.8, 8). */
export const MAX_STOP_SEQUENCES = 5;

export const GenerationConfig = object({
  stopSequences: v.nullish(
    v.pipe(v.array(text), v.maxLength(MAX_STOP_SEQUENCES, `must hold at most ${MAX_STOP_SEQUENCES} stop sequences`)),
  ),
  responseMimeType: v.nullish(
    v.picklist(
      ["text/plain", "application/json", "text/x.enum", ""],
      "must be text/plain, application/json or text/x.enum",
    ),
  ),
  responseSchema: v.nullish(OpenApiSchema),
  responseJsonSchema: v.nullish(jsonObject),
  responseModalities: v.nullish(v.array(word(wireWords(OUTPUT_MODALITY)))),
  candidateCount: integer(1, 8, "must be from 1 to 8"),
  maxOutputTokens: int32(1),
  temperature: number(0, 2, "must be between 0 and 2"),
  topP: number(0, 1, "must be between 0 and 1"),
  topK: int32(1),
  seed: int32(),
  presencePenalty: finite,
  frequencyPenalty: finite,
  responseLogprobs: v.nullish(v.boolean()),
  logprobs: integer(0, 20, "must be from 0 to 20"),
  enableEnhancedCivicAnswers: v.nullish(v.boolean()),
  speechConfig: v.nullish(SpeechConfig),
  imageConfig: unsaid(carriedAs(object({ aspectRatio: carried, imageSize: carried }))),
  thinkingConfig: v.nullish(ThinkingConfig),
  mediaResolution: v.nullish(v.picklist(["MEDIA_RESOLUTION_UNSPECIFIED", ...wireWords(MEDIA_RESOLUTION)])),
});
export type GenerationConfig = v.InferOutput<typeof GenerationConfig>;

/** The rules that look at several fields; each breach names both. */
export function* configBreaches(config: GenerationConfig, path: FieldPath): Generator<RuleBreach> {
  const { logprobs, responseLogprobs, speechConfig, thinkingConfig } = config;
  if (logprobs != null && !responseLogprobs)
    yield { path: [...path, "logprobs"], message: "needs responseLogprobs to be true" };
  if (speechConfig?.voiceConfig && speechConfig.multiSpeakerVoiceConfig)
    yield {
      path: [...path, "speechConfig", "multiSpeakerVoiceConfig"],
      message: "cannot stand beside voiceConfig: there is one speaker or several",
    };
  if (thinkingConfig?.includeThoughts && thinkingConfig.thinkingBudget === 0)
    yield {
      path: [...path, "thinkingConfig", "includeThoughts"],
      message: "cannot be true where thinkingBudget is 0",
    };
  yield* formatBreaches(config, path);
}

function* formatBreaches(config: GenerationConfig, path: FieldPath): Generator<RuleBreach> {
  const { responseMimeType, responseSchema, responseJsonSchema } = config;
  const field = responseSchema != null ? "responseSchema" : "responseJsonSchema";
  if (responseSchema != null && responseJsonSchema != null)
    yield { path: [...path, "responseJsonSchema"], message: "cannot stand beside responseSchema" };
  if (responseSchema != null) yield* schemaBreaches(responseSchema, [...path, "responseSchema"]);
  const schema = responseSchema ?? responseJsonSchema;
  const formatted = responseMimeType === "application/json" || responseMimeType === "text/x.enum";
  if (schema != null && !formatted)
    yield { path: [...path, field], message: "needs responseMimeType to be application/json or text/x.enum" };
  if (responseMimeType !== "text/x.enum") return;
  if (schema == null)
    yield { path: [...path, "responseMimeType"], message: "text/x.enum needs a responseSchema that lists the values" };
  else if (!isEnumeration(schema))
    yield { path: [...path, field], message: "must be of type STRING, with an enum, for responseMimeType text/x.enum" };
}

/** Whether a schema of either kind lists texts. */
function isEnumeration(schema: JsonObject): boolean {
  const { type, enum: values } = schema;
  return (
    typeof type === "string" &&
    type.toUpperCase() === "STRING" &&
    Array.isArray(values) &&
    values.length > 0 &&
    values.every((value) => typeof value === "string")
  );
}
