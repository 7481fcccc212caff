/** Converts the generate-content request (spec 2.8) to the neutral request and back. */

import { GatewayError } from "../../errors.ts";
import { assertValid, type FieldPath, unknownIn } from "../../http/validation.ts";
import { limitWithoutReasoning } from "../../kinds/chat/reasoning.ts";
import type {
  ChatRequest,
  NativeRequest,
  ResponseFormat,
  SafetySetting,
  Speech,
  TextPart,
  WireObject,
} from "../../kinds/chat/request.ts";
import type { CodecOptions } from "../format.ts";
import { decodeContents, decodeMarks, encodeMarks, encodeMessages } from "./request.contents.ts";
import { demandsSignatures, withPlaceholders } from "./request.seals.ts";
import { inCallersSpelling, spellingWalk } from "./request.spelling.ts";
import { controlOf, decodeThinking, encodeThinking, isUnsupportedLevel } from "./request.thinking.ts";
import { decodeCalling, decodeTools, encodeCalling, encodeTools, sayableChoice } from "./request.tools.ts";
import {
  type GenerationConfig,
  isImageType,
  MAX_CANDIDATES,
  MAX_STOP_SEQUENCES,
  mediaKind,
  type SpeechConfig,
  SUPPORTED_IMAGES,
  type VoiceConfig,
} from "./schema.config.ts";
import { toJsonSchema, withTypeNames } from "./schema.openapi.ts";
import { CountTokensRequest, GenerateContentRequest, unsupportedIn, type RequestSafety } from "./schema.ts";
import {
  FORMAT,
  given,
  HARM_CATEGORY,
  MEDIA_RESOLUTION,
  OUTPUT_MODALITY,
  readWord,
  SETTABLE_CATEGORY,
  THRESHOLD,
} from "./schema.wire.ts";

/** The framing of a stream: server-sent events, or the elements of one JSON array. */
export type Framing = "sse" | "array";

export interface GenerateContentNative extends NativeRequest {
  readonly framing: Framing;
}

const spellRequest = spellingWalk(GenerateContentRequest);
const spellCount = spellingWalk(CountTokensRequest);

/**
 * Returns a body with its field names in camelCase. Throws `invalid_request` if a field is given in both spellings.
 *
 * @param isCount True for the body of a token count.
 */
export const inCamelCase = (raw: unknown, isCount = false): unknown => (isCount ? spellCount : spellRequest)(raw, []);

/**
 * Validates a body in camelCase, and returns the request in it. Throws `invalid_request` with the path of the first wrong field, and
 * `failed_precondition` for an image file of an unsupported type.
 *
 * @param raw The body as the caller sent it. Errors use its spelling of the field names.
 */
export function validRequest(raw: unknown, body: unknown, isCount = false): GenerateContentRequest {
  try {
    if (!isCount) {
      assertValid(GenerateContentRequest, body);
      assertSupportedFiles(body, []);
      return body;
    }
    assertValid(CountTokensRequest, body);
    const { generateContentRequest, contents, ...fields } = body;
    const counted = generateContentRequest ?? { ...fields, contents: contents ?? [] };
    assertSupportedFiles(counted, generateContentRequest ? ["generateContentRequest"] : []);
    return counted;
  } catch (error) {
    throw error instanceof GatewayError ? inCallersSpelling(error, raw, body) : error;
  }
}

function assertSupportedFiles({ contents }: GenerateContentRequest, root: FieldPath): void {
  if (typeof contents === "string") return;
  for (const [turn, content] of contents.entries())
    if (typeof content !== "string")
      for (const [index, { fileData }] of content.parts.entries())
        if (fileData && isImageType(fileData.mimeType) && !mediaKind(fileData.mimeType))
          throw new GatewayError("failed_precondition", `is no supported image type: ${SUPPORTED_IMAGES}`, {
            path: [...root, "contents", turn, "parts", index, "fileData", "mimeType"],
          });
}

/** The parts of a request that are not in its body, and the host's default output limit. */
interface RequestTarget {
  readonly model: string;
  readonly stream: boolean;
  readonly defaultMaxOutputTokens: number;
  readonly framing?: Framing;
  /** The body as the caller sent it, if it was not in camelCase. */
  readonly raw?: unknown;
}

/** Decodes a request. Unknown fields stay in `native`. */
export function decodeRequest(body: GenerateContentRequest, target: RequestTarget): ChatRequest {
  const { model, stream, defaultMaxOutputTokens, framing = "array", raw = body } = target;
  const { contents, systemInstruction, tools, toolConfig, safetySettings, cachedContent, generationConfig } = body;
  const native: GenerateContentNative = {
    format: FORMAT,
    body: raw as WireObject,
    betas: [],
    framing,
    assertKnown: knownIn(body, raw),
    unsupported: () => [...unsupportedIn(body), ...unsupportedConfig(generationConfig ?? {})],
  };
  return {
    model,
    messages: decodeContents(contents),
    system: decodeInstruction(systemInstruction),
    tools: decodeTools(tools ?? []),
    stream,
    ...decodeConfig(generationConfig ?? {}, defaultMaxOutputTokens),
    ...given({
      toolChoice: decodeCalling(toolConfig?.functionCallingConfig ?? {}),
      safety: safetySettings?.length ? safetySettings.map(decodeSafety) : undefined,
      cachedContent,
    }),
    native,
  };
}

/** Returns a function that refuses the unknown parts of a body, in the caller's spelling; undefined for a body without any. */
function knownIn(body: GenerateContentRequest, raw: unknown): (() => void) | undefined {
  const assertKnown = unknownIn(body);
  return (
    assertKnown &&
    (() => {
      try {
        assertKnown();
      } catch (error) {
        throw error instanceof GatewayError ? inCallersSpelling(error, raw, body) : error;
      }
    })
  );
}

/** Builds a body from the neutral fields. Leaves out the fields that the format does not have; the table of conversions lists them. */
export function encodeRequest(request: ChatRequest, options: CodecOptions = {}): GenerateContentRequest {
  const { safety = [], cachedContent, system } = request;
  const contents = encodeMessages(request.messages, options.foreignReasoning);
  const toolChoice = sayableChoice(request);
  const tools = encodeTools(request.tools);
  const safetySettings = safety.filter(isSettable).map(encodeSafety);
  return {
    contents: demandsSignatures(request.model) ? [...withPlaceholders(contents)] : contents,
    ...(system.length > 0 && {
      systemInstruction: { parts: system.map((part) => ({ text: part.text, ...encodeMarks(part) })) },
    }),
    ...(tools.length > 0 && { tools }),
    ...(toolChoice && { toolConfig: { functionCallingConfig: encodeCalling(toolChoice) } }),
    ...(safetySettings.length > 0 && { safetySettings }),
    generationConfig: encodeConfig(request, options),
    ...(cachedContent !== undefined && { cachedContent }),
  };
}

function decodeInstruction(instruction: GenerateContentRequest["systemInstruction"]): TextPart[] {
  if (instruction == null || instruction === "") return [];
  const parts = typeof instruction === "string" ? [{ text: instruction }] : instruction.parts;
  return parts.map((part) => ({ type: "text", text: part.text ?? "", ...decodeMarks(part) }));
}

const decodeSafety = ({ category, threshold }: RequestSafety): SafetySetting => ({
  category: readWord(HARM_CATEGORY, category) ?? "unspecified",
  threshold: readWord(THRESHOLD, threshold) ?? "unspecified",
});

const encodeSafety = ({ category, threshold }: SafetySetting): RequestSafety => ({
  category: HARM_CATEGORY[category] as RequestSafety["category"],
  threshold: THRESHOLD[threshold],
});

/** Tells whether a request can set a category. The other categories occur only in ratings of answers. */
export const isSettable = ({ category }: SafetySetting): boolean => Object.hasOwn(SETTABLE_CATEGORY, category);

type Configured = Pick<ChatRequest, "maxOutputTokens" | "stopSequences"> & Partial<ChatRequest>;

/** Decodes the config. Null and an empty list mean absent. */
function decodeConfig(config: GenerationConfig, defaultMaxOutputTokens: number): Configured {
  const { maxOutputTokens, stopSequences, responseLogprobs, logprobs, speechConfig } = config;
  const modalities = (config.responseModalities ?? []).flatMap(
    (name) => readWord(OUTPUT_MODALITY, name.toUpperCase()) ?? [],
  );
  return {
    maxOutputTokens: maxOutputTokens ?? defaultMaxOutputTokens,
    ...(maxOutputTokens == null && { limitedByDefault: true }),
    stopSequences: stopSequences ?? [],
    ...given({
      temperature: config.temperature,
      topP: config.topP,
      topK: config.topK,
      candidateCount: config.candidateCount,
      seed: config.seed,
      presencePenalty: config.presencePenalty,
      frequencyPenalty: config.frequencyPenalty,
      logprobs: responseLogprobs ? { top: logprobs ?? 0 } : undefined,
      enhancedCivicAnswers: config.enableEnhancedCivicAnswers,
      modalities: modalities.length > 0 ? modalities : undefined,
      mediaResolution: readWord(MEDIA_RESOLUTION, config.mediaResolution),
      speech: speechConfig ? decodeSpeech(speechConfig) : undefined,
      responseFormat: decodeFormat(config),
      reasoning: decodeThinking(config.thinkingConfig ?? {}),
    }),
  };
}

/** Shortens a seed to its last 32 bits. The same seed always gives the same number. */
export const int32 = (seed: number): number => seed | 0;

function encodeConfig(request: ChatRequest, options: CodecOptions): GenerationConfig {
  const { stopSequences, topK, candidateCount, seed, logprobs, modalities = [], mediaResolution } = request;
  const { speech, responseFormat, reasoning } = request;
  const control = controlOf(request.model, options);
  return given({
    maxOutputTokens: control === "none" ? limitWithoutReasoning(request) : request.maxOutputTokens,
    // Send only as many stop sequences as the format allows. The gateway itself ends the text at the others.
    stopSequences: stopSequences.length > 0 ? stopSequences.slice(0, MAX_STOP_SEQUENCES) : undefined,
    temperature: request.temperature,
    topP: request.topP,
    // A `topK` of 0 means no limit, so it is left out.
    topK: topK !== undefined && topK > 0 ? topK : undefined,
    candidateCount: candidateCount === undefined ? undefined : Math.min(candidateCount, MAX_CANDIDATES),
    seed: seed === undefined ? undefined : int32(seed),
    presencePenalty: request.presencePenalty,
    frequencyPenalty: request.frequencyPenalty,
    responseLogprobs: logprobs && true,
    logprobs: logprobs?.top || undefined,
    enableEnhancedCivicAnswers: request.enhancedCivicAnswers,
    responseModalities: modalities.length > 0 ? modalities.map((modality) => OUTPUT_MODALITY[modality]) : undefined,
    mediaResolution: mediaResolution && MEDIA_RESOLUTION[mediaResolution],
    speechConfig: speech && encodeSpeech(speech),
    ...(responseFormat && encodeFormat(responseFormat)),
    thinkingConfig: reasoning && encodeThinking(reasoning, request, control).config,
  });
}

/** The keywords of an enum schema that the neutral request keeps. */
const ENUM_KEYWORDS: ReadonlySet<string> = new Set(["type", "format", "enum"]);

/** Lists the paths of the config fields whose values the neutral request cannot hold. */
function* unsupportedConfig(config: GenerationConfig): Generator<string> {
  const { responseMimeType, responseSchema, responseJsonSchema, thinkingConfig } = config;
  if (responseMimeType === "text/x.enum") {
    const field = responseSchema == null ? "responseJsonSchema" : "responseSchema";
    for (const keyword of Object.keys(responseSchema ?? responseJsonSchema ?? {}))
      if (!ENUM_KEYWORDS.has(keyword)) yield `generationConfig.${field}.${keyword}`;
  }
  if (isUnsupportedLevel(thinkingConfig ?? {})) yield "generationConfig.thinkingConfig.thinkingLevel";
}

function decodeFormat(config: GenerationConfig): ResponseFormat | undefined {
  const { responseMimeType, responseSchema, responseJsonSchema } = config;
  if (responseMimeType !== "application/json" && responseMimeType !== "text/x.enum") return undefined;
  const schema =
    responseSchema == null ? responseJsonSchema && withTypeNames(responseJsonSchema) : toJsonSchema(responseSchema);
  if (responseMimeType === "application/json") return { type: "json", ...given({ schema }) };
  const values = schema?.["enum"];
  return { type: "enum", values: Array.isArray(values) ? values.filter((value) => typeof value === "string") : [] };
}

const encodeFormat = (format: ResponseFormat): GenerationConfig =>
  format.type === "enum"
    ? { responseMimeType: "text/x.enum", responseSchema: { type: "STRING", enum: [...format.values] } }
    : { responseMimeType: "application/json", ...(format.schema && { responseJsonSchema: format.schema }) };

const voiceIn = (config: VoiceConfig | null | undefined): string | null | undefined =>
  config?.prebuiltVoiceConfig?.voiceName;

const decodeSpeech = ({ languageCode, voiceConfig, multiSpeakerVoiceConfig }: SpeechConfig): Speech =>
  given({
    language: languageCode,
    voice: voiceIn(voiceConfig),
    speakers: multiSpeakerVoiceConfig?.speakerVoiceConfigs.map((one) => ({
      speaker: one.speaker,
      ...given({ voice: voiceIn(one.voiceConfig) }),
    })),
  });

const voiceConfigOf = (voice: string | undefined): VoiceConfig | undefined =>
  voice === undefined ? undefined : { prebuiltVoiceConfig: { voiceName: voice } };

const encodeSpeech = ({ language, voice, speakers }: Speech): SpeechConfig =>
  given({
    languageCode: language,
    voiceConfig: voiceConfigOf(voice),
    multiSpeakerVoiceConfig: speakers && {
      speakerVoiceConfigs: speakers.map((one) => ({
        speaker: one.speaker,
        ...given({ voiceConfig: voiceConfigOf(one.voice) }),
      })),
    },
  });
