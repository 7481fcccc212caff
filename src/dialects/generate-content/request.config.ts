/** The generation config (spec 2.8) and the neutral request's fields that it holds, in both directions. */

import type { ChatRequest, Reasoning, ReasoningEffort, ResponseFormat, Speech } from "../../model/chat.ts";
import type { JsonObject } from "../../model/json.ts";
import {
  type GenerationConfig,
  MAX_STOP_SEQUENCES,
  type SpeechConfig,
  type ThinkingConfig,
  type VoiceConfig,
} from "./schema.config.ts";
import { fromWire, MEDIA_RESOLUTION, OUTPUT_MODALITY } from "./schema.enums.ts";
import { withTypeNames } from "./schema.keywords.ts";
import { toJsonSchema } from "./schema.openapi.ts";

type Configured = Pick<ChatRequest, "maxOutputTokens" | "stopSequences"> & Partial<ChatRequest>;

const MODALITY_OF = fromWire(OUTPUT_MODALITY);
const RESOLUTION_OF = fromWire(MEDIA_RESOLUTION);

/** Absent and null are alike, and so is an empty list. */
export function decodeConfig(config: GenerationConfig, defaultMaxOutputTokens: number): Configured {
  const { temperature, topP, topK, candidateCount, seed, presencePenalty, frequencyPenalty } = config;
  const { responseLogprobs, logprobs, enableEnhancedCivicAnswers, speechConfig } = config;
  const modalities = (config.responseModalities ?? []).flatMap((name) => MODALITY_OF.get(name.toUpperCase()) ?? []);
  const mediaResolution = RESOLUTION_OF.get(config.mediaResolution ?? "");
  const responseFormat = decodeFormat(config);
  const reasoning = decodeThinking(config.thinkingConfig ?? {});
  return {
    maxOutputTokens: config.maxOutputTokens ?? defaultMaxOutputTokens,
    ...(config.maxOutputTokens == null && { limitedByDefault: true }),
    stopSequences: config.stopSequences ?? [],
    ...(temperature != null && { temperature }),
    ...(topP != null && { topP }),
    ...(topK != null && { topK }),
    ...(candidateCount != null && { candidateCount }),
    ...(seed != null && { seed }),
    ...(presencePenalty != null && { presencePenalty }),
    ...(frequencyPenalty != null && { frequencyPenalty }),
    ...(responseLogprobs && { logprobs: { top: logprobs ?? 0 } }),
    ...(enableEnhancedCivicAnswers != null && { enhancedCivicAnswers: enableEnhancedCivicAnswers }),
    ...(modalities.length > 0 && { modalities }),
    ...(mediaResolution && { mediaResolution }),
    ...(speechConfig && { speech: decodeSpeech(speechConfig) }),
    ...(responseFormat && { responseFormat }),
    ...(reasoning && { reasoning }),
  };
}

/** The fields of which the neutral request has no words for what they say here. */
export function* unsaidConfig(config: GenerationConfig): Generator<string> {
  const { responseMimeType, responseSchema, responseJsonSchema } = config;
  if (responseMimeType === "text/x.enum") {
    // Of one of several texts, it knows the texts alone.
    const field = responseSchema == null ? "responseJsonSchema" : "responseSchema";
    for (const keyword of Object.keys(responseSchema ?? responseJsonSchema ?? {}))
      if (!OF_ENUMS.has(keyword)) yield `generationConfig.${field}.${keyword}`;
  }
  const { thinkingLevel, thinkingBudget } = config.thinkingConfig ?? {};
  if (thinkingLevel != null && ((thinkingBudget ?? -1) >= 0 || !LEVEL_OF.has(thinkingLevel.toUpperCase())))
    yield "generationConfig.thinkingConfig.thinkingLevel";
}

const OF_ENUMS: ReadonlySet<string> = new Set(["type", "format", "enum"]);

/** The most answers that the format gives. */
export const MAX_CANDIDATES = 8;

/** The same seed is always told by the same number of 32 bits. */
export const int32 = (seed: number): number => seed | 0;

export function encodeConfig(request: ChatRequest): GenerationConfig {
  const { stopSequences, temperature, topP, topK, candidateCount, seed, presencePenalty, frequencyPenalty } = request;
  const {
    logprobs,
    enhancedCivicAnswers,
    modalities = [],
    mediaResolution,
    speech,
    responseFormat,
    reasoning,
  } = request;
  return {
    maxOutputTokens: request.maxOutputTokens,
    // The gateway itself ends the text at those that do not fit.
    ...(stopSequences.length > 0 && { stopSequences: stopSequences.slice(0, MAX_STOP_SEQUENCES) }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    // A limit of 0 is none.
    ...(topK !== undefined && topK > 0 && { topK }),
    ...(candidateCount !== undefined && { candidateCount: Math.min(candidateCount, MAX_CANDIDATES) }),
    ...(seed !== undefined && { seed: int32(seed) }),
    ...(presencePenalty !== undefined && { presencePenalty }),
    ...(frequencyPenalty !== undefined && { frequencyPenalty }),
    ...(logprobs && { responseLogprobs: true, ...(logprobs.top > 0 && { logprobs: logprobs.top }) }),
    ...(enhancedCivicAnswers !== undefined && { enableEnhancedCivicAnswers: enhancedCivicAnswers }),
    ...(modalities.length > 0 && { responseModalities: modalities.map((modality) => OUTPUT_MODALITY[modality]) }),
    ...(mediaResolution && { mediaResolution: MEDIA_RESOLUTION[mediaResolution] }),
    ...(speech && { speechConfig: encodeSpeech(speech) }),
    ...(responseFormat && encodeFormat(responseFormat)),
    ...(reasoning && { thinkingConfig: encodeThinking(reasoning) }),
  };
}

function decodeFormat({
  responseMimeType,
  responseSchema,
  responseJsonSchema,
}: GenerationConfig): ResponseFormat | undefined {
  const schema =
    responseSchema == null ? responseJsonSchema && withTypeNames(responseJsonSchema) : toJsonSchema(responseSchema);
  if (responseMimeType === "text/x.enum") return { type: "enum", values: enumOf(schema ?? {}) };
  if (responseMimeType === "application/json") return { type: "json", ...(schema != null && { schema }) };
  return undefined;
}

const enumOf = ({ enum: values }: JsonObject): string[] =>
  Array.isArray(values) ? values.filter((value) => typeof value === "string") : [];

const encodeFormat = (format: ResponseFormat): GenerationConfig =>
  format.type === "enum"
    ? { responseMimeType: "text/x.enum", responseSchema: { type: "STRING", enum: [...format.values] } }
    : { responseMimeType: "application/json", ...(format.schema && { responseJsonSchema: format.schema }) };

const decodeVoice = (config: VoiceConfig | null | undefined): { voice?: string } => {
  const name = config?.prebuiltVoiceConfig?.voiceName;
  return name == null ? {} : { voice: name };
};
const encodeVoice = (voice: string | undefined): { voiceConfig?: VoiceConfig } =>
  voice === undefined ? {} : { voiceConfig: { prebuiltVoiceConfig: { voiceName: voice } } };

const decodeSpeech = ({ languageCode, voiceConfig, multiSpeakerVoiceConfig }: SpeechConfig): Speech => ({
  ...(languageCode != null && { language: languageCode }),
  ...decodeVoice(voiceConfig),
  ...(multiSpeakerVoiceConfig && {
    speakers: multiSpeakerVoiceConfig.speakerVoiceConfigs.map((one) => ({
      speaker: one.speaker,
      ...decodeVoice(one.voiceConfig),
    })),
  }),
});

// A neutral language is any tag; a request for this format is validated by its own schema.
const encodeSpeech = ({ language, voice, speakers }: Speech): SpeechConfig => ({
  ...(language !== undefined && { languageCode: language as NonNullable<SpeechConfig["languageCode"]> }),
  ...encodeVoice(voice),
  ...(speakers && {
    multiSpeakerVoiceConfig: {
      speakerVoiceConfigs: speakers.map((one) => ({ speaker: one.speaker, ...encodeVoice(one.voice) })),
    },
  }),
});

/** The official service's words; the spec has budgets alone. */
const THINKING_LEVEL = {
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
} as const satisfies Record<ReasoningEffort, string>;
const LEVEL_OF = fromWire(THINKING_LEVEL);

/** Thoughts are shown only to who asks for them. */
function decodeThinking({ includeThoughts, thinkingBudget, thinkingLevel }: ThinkingConfig): Reasoning | undefined {
  if (thinkingBudget === 0) return { type: "disabled" };
  if (includeThoughts == null && thinkingBudget == null && thinkingLevel == null) return undefined;
  const visible = includeThoughts ?? false;
  const effort = LEVEL_OF.get(thinkingLevel?.toUpperCase() ?? "");
  if (thinkingBudget == null || thinkingBudget < 0) return { type: "adaptive", ...(effort && { effort }), visible };
  return { type: "enabled", budgetTokens: thinkingBudget, visible };
}

function encodeThinking(reasoning: Reasoning): ThinkingConfig {
  if (reasoning.type === "disabled") return { thinkingBudget: 0 };
  const includeThoughts = reasoning.visible ?? true;
  if (reasoning.type === "enabled") return { includeThoughts, thinkingBudget: reasoning.budgetTokens };
  // The format takes a level or a budget, never both.
  if (reasoning.effort !== undefined) return { includeThoughts, thinkingLevel: THINKING_LEVEL[reasoning.effort] };
  return { includeThoughts, thinkingBudget: -1 };
}
