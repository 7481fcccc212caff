/** Generation configs that must be answered: the passing side of spec 2.8's GenerationConfig and all within it. */

import { type Body, configured, speaking, withSchema } from "./bodies.ts";
import { SPEECH_LANGUAGES } from "./spec-fields.ts";

type Accepted = readonly [name: string, body: Body];

const INT32 = 2 ** 31 - 1;

const scalars: readonly Accepted[] = [
  ["an empty generation config", configured({})],
  ["no stop sequences", configured({ stopSequences: [] })],
  ["five stop sequences", configured({ stopSequences: ["v", "w", "x", "y", "z"] })],
  ["text/plain", configured({ responseMimeType: "text/plain" })],
  ["application/json without a schema", configured({ responseMimeType: "application/json" })],
  ...["TEXT", "IMAGE", "AUDIO"].map((modality): Accepted => [
    `the modality ${modality}`,
    configured({ responseModalities: [modality] }),
  ]),
  ["several modalities", configured({ responseModalities: ["TEXT", "IMAGE"] })],
  ["no modalities", configured({ responseModalities: [] })],
  ["1 candidate", configured({ candidateCount: 1 })],
  ["8 candidates", configured({ candidateCount: 8 })],
  ["maxOutputTokens 1", configured({ maxOutputTokens: 1 })],
  ["the largest maxOutputTokens", configured({ maxOutputTokens: INT32 })],
  ["temperature 0", configured({ temperature: 0 })],
  ["temperature 1.5", configured({ temperature: 1.5 })],
  ["temperature 2", configured({ temperature: 2 })],
  ["topP 0", configured({ topP: 0 })],
  ["topP 1", configured({ topP: 1 })],
  ["topK 1", configured({ topK: 1 })],
  ["seed 0", configured({ seed: 0 })],
  ["a seed below 0", configured({ seed: -5 })],
  ["the largest seed", configured({ seed: INT32 })],
  ["penalties below 0", configured({ presencePenalty: -2, frequencyPenalty: -2 })],
  ["penalties above 0", configured({ presencePenalty: 1.999, frequencyPenalty: 1.999 })],
  ["responseLogprobs false", configured({ responseLogprobs: false })],
  ["responseLogprobs alone", configured({ responseLogprobs: true })],
  ["logprobs 0", configured({ responseLogprobs: true, logprobs: 0 })],
  ["logprobs 20", configured({ responseLogprobs: true, logprobs: 20 })],
  ["enhanced civic answers", configured({ enableEnhancedCivicAnswers: true })],
  ["fields that nobody knows", configured({ routingConfig: {}, audioTimestamp: true })],
  ...["UNSPECIFIED", "LOW", "MEDIUM", "HIGH"].map((name): Accepted => [
    `the media resolution ${name}`,
    configured({ mediaResolution: `MEDIA_RESOLUTION_${name}` }),
  ]),
  [
    "null for every field",
    configured({
      stopSequences: null,
      responseMimeType: null,
      responseSchema: null,
      responseModalities: null,
      candidateCount: null,
      maxOutputTokens: null,
      temperature: null,
      topP: null,
      topK: null,
      seed: null,
      presencePenalty: null,
      frequencyPenalty: null,
      responseLogprobs: null,
      logprobs: null,
      enableEnhancedCivicAnswers: null,
      speechConfig: null,
      thinkingConfig: null,
      mediaResolution: null,
    }),
  ],
];

const thinking: readonly Accepted[] = [
  ["an empty thinking config", configured({ thinkingConfig: {} })],
  ["thoughts that are included", configured({ thinkingConfig: { includeThoughts: true } })],
  ["thoughts that are not included", configured({ thinkingConfig: { includeThoughts: false } })],
  ["a budget of the model's choice", configured({ thinkingConfig: { thinkingBudget: -1 } })],
  ["no budget", configured({ thinkingConfig: { thinkingBudget: 0 } })],
  ["a small budget", configured({ thinkingConfig: { thinkingBudget: 1 } })],
  ["a thinking level", configured({ thinkingConfig: { thinkingLevel: "HIGH" } })],
  ["the highest thinking level", configured({ thinkingConfig: { thinkingLevel: "XHIGH" } })],
];

const voiceConfig = { prebuiltVoiceConfig: { voiceName: "Kore" } };

const speech: readonly Accepted[] = [
  ["an empty speech config", speaking({})],
  ["a voice", speaking({ voiceConfig })],
  ["a voice of no name", speaking({ voiceConfig: { prebuiltVoiceConfig: {} } })],
  ["a speaker", speaking({ multiSpeakerVoiceConfig: { speakerVoiceConfigs: [{ speaker: "Jo", voiceConfig }] } })],
  ...SPEECH_LANGUAGES.map((languageCode): Accepted => [`speech in ${languageCode}`, speaking({ languageCode })]),
];

const TYPES = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"];

const schemas: readonly Accepted[] = [
  ...[...TYPES, ...TYPES.map((type) => type.toLowerCase()), "TYPE_UNSPECIFIED"].map((type): Accepted => [
    `a schema of type ${type}`,
    withSchema({ type }),
  ]),
  ["a schema of anyOf", withSchema({ anyOf: [{ type: "STRING" }, { type: "INTEGER" }] })],
  [
    "an order of properties",
    withSchema({ type: "OBJECT", properties: { a: { type: "STRING" } }, propertyOrdering: ["a"] }),
  ],
  ["an example of anything", withSchema({ type: "STRING", example: { deep: [null] } })],
  ["a default", withSchema({ type: "STRING", default: "x", title: "T", pattern: "^x$" })],
  ["enum values", withSchema({ type: "STRING", enum: ["a", "b"] })],
  ["enum values that may be null", withSchema({ type: "STRING", enum: ["a"], nullable: true })],
  ["a format", withSchema({ type: "STRING", format: "date-time" })],
  ["items of items", withSchema({ type: "ARRAY", items: { type: "ARRAY", items: { type: "STRING" } } })],
  ["equal limits", withSchema({ type: "INTEGER", minimum: 3, maximum: 3 })],
  ["limits of items", withSchema({ type: "ARRAY", items: { type: "STRING" }, minItems: 0, maxItems: 3 })],
  ["limits of a text", withSchema({ type: "STRING", minLength: 0, maxLength: 3 })],
  // Protocol buffers write 64-bit integers as texts, and official clients of other languages do so.
  ["limits that are written as texts", withSchema({ type: "ARRAY", items: { type: "STRING" }, minItems: "1" })],
  ["required names", withSchema({ type: "OBJECT", properties: { a: { type: "STRING" } }, required: ["a"] })],
  ["no required names", withSchema({ type: "OBJECT", properties: {}, required: [] })],
  [
    "properties named like the format's own fields",
    withSchema({ type: "OBJECT", properties: { min_items: { type: "STRING" }, minItems: { type: "STRING" } } }),
  ],
  ["properties that every object has", withSchema({ type: "OBJECT", properties: { constructor: { type: "STRING" } } })],
  [
    "JSON Schema",
    configured({ responseMimeType: "application/json", responseJsonSchema: { type: ["string", "null"], $defs: {} } }),
  ],
  [
    "one of some texts",
    configured({ responseMimeType: "text/x.enum", responseSchema: { type: "STRING", enum: ["a", "b"] } }),
  ],
  [
    "one of some texts, in small letters",
    configured({ responseMimeType: "text/x.enum", responseSchema: { type: "string", format: "enum", enum: ["a"] } }),
  ],
];

export const ACCEPTED_CONFIGS: readonly Accepted[] = [...scalars, ...thinking, ...speech, ...schemas];
