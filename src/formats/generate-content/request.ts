/** Converts the generate-content request (spec 2.8) to the neutral request and back, with its tools and its address (spec 4). */

import { type FieldPath, GatewayError, invalidField } from "../../errors.ts";
import { assertValid, unknownIn } from "../../http/validation.ts";
import { limitWithoutReasoning } from "../../kinds/chat/reasoning.ts";
import {
  type ChatRequest,
  CODE_TOOL,
  type FunctionTool,
  type NativeRequest,
  type ResponseFormat,
  type SafetySetting,
  type Speech,
  type TextPart,
  type Tool,
  type ToolChoice,
  type WireObject,
} from "../../model/chat-request.ts";
import { given, type JsonObject } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { choiceAmong, type ConvertedFields } from "../shared/conversions.ts";
import { instructionFor } from "../shared/held-schema.ts";
import { isWebSearch } from "../shared/tools.ts";
import { googleTier } from "../shared/usage.decode.ts";
import { encodeTier } from "./answer.metadata.ts";
import {
  controlOf,
  decodeThinking,
  demandsSignatures,
  encodeThinking,
  isUnsupportedLevel,
  withPlaceholders,
} from "./reasoning.ts";
import { decodeContents, decodeMarks, encodeMarks, encodeMessages } from "./request.contents.ts";
import { inCallersSpelling, spellingWalk } from "./request.spelling.ts";
import { FORMAT, withColon } from "./routes.ts";
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
import {
  CountTokensRequest,
  type FunctionCallingConfig,
  type FunctionDeclaration,
  GenerateContentRequest,
  type RequestSafety,
  type RequestTool,
  unsupportedIn,
} from "./schema.ts";
import {
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
  const serviceTier = googleTier(body.serviceTier);
  const native: GenerateContentNative = {
    format: FORMAT,
    body: raw as WireObject,
    betas: [],
    framing,
    continuation: {
      prefills: true,
      body(turns) {
        const more = turns.map(({ role, content: text }) => ({
          role: role === "user" ? role : "model",
          parts: [{ text }],
        }));
        const own = raw as WireObject;
        const { contents: given } = own;
        const before = typeof given === "string" ? [{ role: "user", parts: [{ text: given }] }] : given;
        return { ...own, contents: [before, more].flat() };
      },
    },
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
      serviceTier,
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
  const { safety = [], cachedContent, responseFormat } = request;
  const serviceTier = encodeTier(request.serviceTier);
  const contents = encodeMessages(request.messages, options.foreignReasoning);
  const toolChoice = sayableChoice(request);
  const tools = encodeTools(request.tools);
  const system: TextPart[] = [...request.system];
  if (responseFormat && !takesFormat(request)) system.push({ type: "text", text: instructionFor(responseFormat) });
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
    ...(serviceTier !== undefined && { serviceTier }),
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

/**
 * Tells whether the model takes the form of the answer. Before Gemini 3, no model takes it beside tools; later ones do not beside a tool that
 * they must call.
 */
export function takesFormat(request: ChatRequest): boolean {
  const { model, tools } = request;
  if (!/(?:^|\/)gemini-/.test(model) || encodeTools(tools).length === 0) return true;
  const { type } = sayableChoice(request) ?? {};
  return !/(?:^|\/)gemini-[12](?!\d)/.test(model) && type !== "tool" && type !== "required";
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
    ...(responseFormat && takesFormat(request) && encodeFormat(responseFormat)),
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

/** Decodes the tools. Each field of a wire tool becomes a neutral tool. A tool that is unknown here is passed on for the backend. */
function decodeTools(wireTools: readonly RequestTool[]): Tool[] {
  const tools: Tool[] = [];
  for (const wireTool of wireTools)
    for (const [kind, value] of Object.entries<unknown>(wireTool)) {
      if (value === null) continue;
      if (kind === "functionDeclarations")
        for (const declaration of wireTool.functionDeclarations ?? []) tools.push(decodeFunction(declaration));
      else if (kind === "codeExecution") tools.push({ type: "code-execution" });
      else tools.push({ type: "provider", format: FORMAT, definition: Object.fromEntries([[kind, value]]) });
    }
  return tools;
}

/** Encodes the tools. Consecutive functions share one wire tool, so that all tools keep their order. */
function encodeTools(tools: readonly Tool[]): RequestTool[] {
  const encoded: RequestTool[] = [];
  let functions: FunctionDeclaration[] | undefined;
  for (const tool of tools) {
    if (tool.type === "function") {
      if (!functions) encoded.push({ functionDeclarations: (functions = []) });
      const { name, description, inputSchema } = tool;
      functions.push({ name, ...given({ description }), parametersJsonSchema: inputSchema });
      continue;
    }
    functions = undefined;
    if (tool.type === "code-execution") encoded.push({ codeExecution: {} });
    else if (isWebSearch(tool)) encoded.push({ googleSearch: {} });
    // Leave out tools of other formats.
    else if (tool.format === FORMAT) encoded.push(tool.definition);
  }
  return encoded;
}

const NO_PARAMETERS: JsonObject = { type: "object", properties: {} };

function decodeFunction({ name, description, parameters, parametersJsonSchema }: FunctionDeclaration): FunctionTool {
  const inputSchema =
    parameters == null ? withTypeNames(parametersJsonSchema ?? NO_PARAMETERS) : toJsonSchema(parameters);
  return { type: "function", name, ...given({ description }), inputSchema };
}

function decodeCalling({ mode, allowedFunctionNames }: FunctionCallingConfig): ToolChoice | undefined {
  const names = allowedFunctionNames ?? [];
  const [only, ...others] = names;
  // The format cannot forbid parallel calls.
  const parallel = true;
  if (mode == null || mode === "MODE_UNSPECIFIED") return undefined;
  if (mode === "NONE") return { type: "none" };
  if (mode === "ANY" && only !== undefined && others.length === 0) return { type: "tool", name: only, parallel };
  return { type: mode === "ANY" ? "required" : "auto", parallel, ...(names.length > 0 && { names }) };
}

function encodeCalling(choice: ToolChoice): FunctionCallingConfig {
  if (choice.type === "none") return { mode: "NONE" };
  if (choice.type === "tool") return { mode: "ANY", allowedFunctionNames: [choice.name] };
  const names = choice.names ?? [];
  if (names.length === 0) return { mode: choice.type === "required" ? "ANY" : "AUTO" };
  return { mode: choice.type === "required" ? "ANY" : "VALIDATED", allowedFunctionNames: [...names] };
}

/**
 * Returns the tool choice with only the names of functions, because the format refuses others, and adds the fields that the choice loses.
 * Undefined if no choice is left.
 */
export function sayableChoice(
  { tools, toolChoice }: ChatRequest,
  fields: ConvertedFields = new Set(),
): ToolChoice | undefined {
  // These two stand beside any tools, also none.
  if (!toolChoice || toolChoice.type === "none" || (toolChoice.type === "auto" && !toolChoice.names)) return toolChoice;
  const functions = new Set<string>();
  // The other tools that are offered: the model may use them, and nothing can make it.
  const others = new Set<string | undefined>();
  for (const tool of tools)
    if (tool.type === "function") functions.add(tool.name);
    else if (tool.type === "code-execution") others.add(CODE_TOOL);
    else if (tool.format === FORMAT || isWebSearch(tool)) others.add(tool.name);
  if (toolChoice.type === "tool" || toolChoice.type === "required") {
    const names = toolChoice.type === "tool" ? [toolChoice.name] : (toolChoice.names ?? [...functions, ...others]);
    const isAmong = (offered: ReadonlySet<string | undefined>): boolean => names.some((name) => offered.has(name));
    if (!isAmong(functions) && isAmong(others)) return void fields.add("toolChoice");
  }
  return choiceAmong(toolChoice, functions, functions.size + others.size > 0, fields);
}

const TUNED = "tunedModels/";

/** Returns the model's id: the text before the last colon of an address. The id may have slashes and colons (spec 4, note 4). */
export function modelIn(wildcardPath: string, isTuned: boolean): string {
  const prefix = isTuned ? TUNED : "models/";
  const address = withColon(wildcardPath);
  let id: string;
  try {
    id = decodeURIComponent(address.slice(0, address.lastIndexOf(":")));
  } catch {
    throw invalidField(["model"], "must be percent-encoded UTF-8");
  }
  const name = id.startsWith(prefix) ? id.slice(prefix.length) : id;
  if (name === "") throw invalidField(["model"], "must not be empty");
  return isTuned ? prefix + name : name;
}

/** Returns the name of a model as a resource: `models/gemini-2.5-flash`. */
export const resourceOf = (model: string): string => (model.startsWith(TUNED) ? model : `models/${model}`);

/** Returns a model's path. Slashes in the model's name are part of the path; other characters are percent-encoded. */
export const pathOf = (model: string): string => `/${resourceOf(model).split("/").map(encodeURIComponent).join("/")}`;
