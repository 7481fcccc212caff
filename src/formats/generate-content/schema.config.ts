/** The generation config (spec 2.8): its ranges, the rules between its fields, and the media types that the format supports. */

import * as v from "valibot";
import type { FieldPath } from "../../errors.ts";
import { array, type RuleBreach, upTo } from "../../http/validation.ts";
import type { JsonObject } from "../../model/json.ts";
import { between, jsonObject, text, unsupported } from "../shared/schema.ts";
import { OpenApiSchema, schemaBreaches } from "./schema.openapi.ts";
import { carried, carriedAs, MEDIA_RESOLUTION, object, OUTPUT_MODALITY, word } from "./schema.wire.ts";

const finite = v.nullish(v.pipe(v.number(), v.finite("must be a finite number")));
const number = (min: number, max: number) => v.nullish(between(min, max));
const integer = (min: number, max: number, message = `must be from ${min} to ${max}`) =>
  v.nullish(v.pipe(v.number(), v.integer(), v.minValue(min, message), v.maxValue(max, message)));
const MAX_INT32 = 2 ** 31 - 1;

const VoiceConfig = object({ prebuiltVoiceConfig: v.nullish(object({ voiceName: v.nullish(text) })) });
export type VoiceConfig = v.InferOutput<typeof VoiceConfig>;

/** The languages in which an answer can be spoken. */
const SPEECH_LANGUAGES: readonly string[] = [
  "zh-CN",
  "en-US",
  "ja-JP",
  "ko-KR",
  "fr-FR",
  "de-DE",
  "es-ES",
  "pt-BR",
  "hi-IN",
  "ar-XA",
  "it-IT",
  "tr-TR",
  "vi-VN",
  "th-TH",
  "ru-RU",
  "pl-PL",
  "nl-NL",
];

const SpeechConfig = object({
  voiceConfig: v.nullish(VoiceConfig),
  multiSpeakerVoiceConfig: v.nullish(
    object({ speakerVoiceConfigs: array(object({ speaker: text, voiceConfig: v.nullish(VoiceConfig) })) }),
  ),
  languageCode: v.nullish(v.picklist(SPEECH_LANGUAGES)),
});
export type SpeechConfig = v.InferOutput<typeof SpeechConfig>;

const ThinkingConfig = object({
  includeThoughts: v.nullish(v.boolean()),
  /** The budget in tokens. 0 turns thinking off; with -1, the model decides how much it thinks. */
  thinkingBudget: integer(-1, MAX_INT32),
  /** The official service's newer field, which replaces a budget. */
  thinkingLevel: v.nullish(v.string()),
});
export type ThinkingConfig = v.InferOutput<typeof ThinkingConfig>;

/** The largest number of stop sequences in a request (spec 2.8, 8). */
export const MAX_STOP_SEQUENCES = 5;

/** The largest number of candidates for one request. */
export const MAX_CANDIDATES = 8;

export const GenerationConfig = object({
  stopSequences: v.nullish(
    upTo(array(text), MAX_STOP_SEQUENCES, `must hold at most ${MAX_STOP_SEQUENCES} stop sequences`),
  ),
  responseMimeType: v.nullish(
    v.picklist(
      ["text/plain", "application/json", "text/x.enum", ""],
      "must be text/plain, application/json or text/x.enum",
    ),
  ),
  responseSchema: v.nullish(OpenApiSchema),
  responseJsonSchema: v.nullish(jsonObject),
  responseModalities: v.nullish(array(word(Object.values(OUTPUT_MODALITY)))),
  candidateCount: integer(1, MAX_CANDIDATES),
  maxOutputTokens: integer(1, MAX_INT32),
  temperature: number(0, 2),
  topP: number(0, 1),
  topK: integer(1, MAX_INT32),
  seed: integer(-MAX_INT32 - 1, MAX_INT32, "must be an integer of 32 bits"),
  presencePenalty: finite,
  frequencyPenalty: finite,
  responseLogprobs: v.nullish(v.boolean()),
  logprobs: integer(0, 20),
  enableEnhancedCivicAnswers: v.nullish(v.boolean()),
  speechConfig: v.nullish(SpeechConfig),
  imageConfig: unsupported(carriedAs(object({ aspectRatio: carried, imageSize: carried }))),
  thinkingConfig: v.nullish(ThinkingConfig),
  mediaResolution: v.nullish(v.picklist(["MEDIA_RESOLUTION_UNSPECIFIED", ...Object.values(MEDIA_RESOLUTION)])),
});
export type GenerationConfig = v.InferOutput<typeof GenerationConfig>;

/** Checks the rules that compare several fields. Each message names both fields. */
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
  if (schema != null && responseMimeType !== "application/json" && responseMimeType !== "text/x.enum")
    yield { path: [...path, field], message: "needs responseMimeType to be application/json or text/x.enum" };
  if (responseMimeType !== "text/x.enum") return;
  if (schema == null)
    yield { path: [...path, "responseMimeType"], message: "text/x.enum needs a responseSchema that lists the values" };
  else if (!listsTexts(schema))
    yield { path: [...path, field], message: "must be of type STRING, with an enum, for responseMimeType text/x.enum" };
}

/** Tells whether a schema, an OpenAPI or a JSON Schema one, allows only a list of texts. */
const listsTexts = ({ type, enum: values }: JsonObject): boolean =>
  typeof type === "string" &&
  type.toUpperCase() === "STRING" &&
  Array.isArray(values) &&
  values.length > 0 &&
  values.every((value) => typeof value === "string");

const KINDS = ["image", "audio", "video", "document"] as const;
export type MediaKind = (typeof KINDS)[number];

/** The part of a media type before the slash. */
const FAMILY = { image: "image", audio: "audio", video: "video", document: "application" } as const;

/** The media types that the spec lists, without the part before the slash. */
const SUPPORTED: Readonly<Record<MediaKind, readonly string[]>> = {
  image: ["jpeg", "png", "webp", "heic", "heif"],
  audio: ["wav", "mp3", "aiff", "aac", "ogg", "flac"],
  video: ["mp4", "mpeg", "mov", "avi", "flv", "mpg", "webm", "wmv", "3gpp"],
  document: ["pdf"],
};

/** The other names that clients use for the same types. */
const ALIASES: Readonly<Record<MediaKind, readonly string[]>> = {
  image: ["jpg"],
  audio: [
    "x-wav",
    "wave",
    "vnd.wave",
    "mpeg",
    "mpeg3",
    "x-mp3",
    "x-aiff",
    "aif",
    "x-aac",
    "aacp",
    "vorbis",
    "opus",
    "x-flac",
  ],
  video: ["quicktime", "x-msvideo", "msvideo", "x-flv", "x-ms-wmv", "mpegps", "3gp", "3gpp2"],
  document: ["x-pdf"],
};

const supportedTypes = (kind: MediaKind): string[] => SUPPORTED[kind].map((type) => `${FAMILY[kind]}/${type}`);

const KIND_OF: ReadonlyMap<string, MediaKind> = new Map(
  KINDS.flatMap((kind) =>
    [...SUPPORTED[kind], ...ALIASES[kind]].map((type) => [`${FAMILY[kind]}/${type}`, kind] as const),
  ),
);

/** Types that the spec does not list, but clients of the official service send. They are accepted only as base64. */
const INLINE_IMAGES: readonly string[] = ["image/gif"];
const INLINE_TEXTS: readonly string[] = ["text/plain", "text/csv", "application/json"];

/** The largest length of a media type with its parameters, in characters. */
export const MAX_MIME_TYPE_CHARS = 255;

/** Returns a type without its parameters: `audio/ogg` for `audio/ogg; codecs=opus`. */
const essence = (mimeType: string): string =>
  (mimeType.slice(0, MAX_MIME_TYPE_CHARS).split(";", 1)[0] ?? "").trim().toLowerCase();

export const mediaKind = (mimeType: string): MediaKind | undefined =>
  KIND_OF.get(mimeType) ?? KIND_OF.get(essence(mimeType));

/** Returns the kind of a type that is sent as base64; undefined for an unsupported type. Files at an address may have fewer types. */
export function inlineKind(mimeType: string): MediaKind | undefined {
  const known = KIND_OF.get(mimeType);
  if (known) return known;
  if (isPlainText(mimeType)) return "document";
  return INLINE_IMAGES.includes(essence(mimeType)) ? "image" : mediaKind(mimeType);
}

/** Tells whether data of a type is decoded into a text document. */
export const isPlainText = (mimeType: string): boolean => INLINE_TEXTS.includes(essence(mimeType));

/** Tells whether data of a type is decoded into a text document, and the exact type, such as `text/csv`, is lost. */
export const isOtherText = (mimeType: string): boolean => isPlainText(mimeType) && essence(mimeType) !== "text/plain";

export const isImageType = (mimeType: string): boolean => essence(mimeType).startsWith("image/");

/** Tells whether a type is audio, video or a document. Such media are accepted only as base64; the type may be an unsupported one. */
export const isInlineOnly = (mimeType: string): boolean =>
  /^(?:audio|video)\//.test(essence(mimeType)) || mediaKind(mimeType) === "document";

export const INLINE_MEDIA: readonly string[] = [...KINDS.flatMap(supportedTypes), ...INLINE_IMAGES, ...INLINE_TEXTS];
export const SUPPORTED_IMAGES: string = supportedTypes("image").join(", ");

/** Guesses the media type of a file at an address from the extension of its name. */
export function promisedType(uri: string, kind: MediaKind): string {
  // Do not use one regular expression: on a hostile name with many dots, it would take quadratic time.
  const end = uri.search(/[?#]/);
  const name = end < 0 ? uri : uri.slice(0, end);
  const dot = name.lastIndexOf(".");
  const extension = dot < 0 ? "" : name.slice(dot + 1).toLowerCase();
  const promised = `${FAMILY[kind]}/${extension === "jpg" ? "jpeg" : extension}`;
  return mediaKind(promised) === kind ? promised : `${FAMILY[kind]}/${SUPPORTED[kind][0]}`;
}
