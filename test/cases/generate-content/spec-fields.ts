/** The fields and values of the generate-content format, typed from the rows of spec 2.8, 2.9 and 7.3. */

/** One object of the format. */
export interface SpecObject {
  /** Where it stands: keys from the body's root; `*` is any key or index, `**` any way down. Several places are apart by a space. */
  readonly at: string;
  readonly fields: readonly string[];
  /** The values of those fields that are enums. */
  readonly values?: Readonly<Record<string, readonly (string | number | boolean)[]>>;
}

/** A list from words that are apart by spaces. */
const words = (...lines: readonly string[]): string[] => lines.flatMap((line) => line.split(" "));

export const HARM_CATEGORIES: readonly string[] = [
  "HARM_CATEGORY_HARASSMENT",
  "HARM_CATEGORY_HATE_SPEECH",
  "HARM_CATEGORY_SEXUALLY_EXPLICIT",
  "HARM_CATEGORY_DANGEROUS_CONTENT",
  "HARM_CATEGORY_CIVIC_INTEGRITY",
];

export const OLDER_HARM_CATEGORIES: readonly string[] = [
  "HARM_CATEGORY_UNSPECIFIED",
  "HARM_CATEGORY_DEROGATORY",
  "HARM_CATEGORY_TOXICITY",
  "HARM_CATEGORY_VIOLENCE",
  "HARM_CATEGORY_SEXUAL",
  "HARM_CATEGORY_MEDICAL",
  "HARM_CATEGORY_DANGEROUS",
];

export const HARM_THRESHOLDS: readonly string[] = words(
  "HARM_BLOCK_THRESHOLD_UNSPECIFIED BLOCK_LOW_AND_ABOVE BLOCK_MEDIUM_AND_ABOVE",
  "BLOCK_ONLY_HIGH BLOCK_NONE OFF",
);

const CODE_LANGUAGES = ["LANGUAGE_UNSPECIFIED", "PYTHON"];
const CODE_OUTCOMES = ["OUTCOME_UNSPECIFIED", "OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"];

export const SPEECH_LANGUAGES: readonly string[] = words(
  "zh-CN en-US ja-JP ko-KR fr-FR de-DE es-ES pt-BR hi-IN",
  "ar-XA it-IT tr-TR vi-VN th-TH ru-RU pl-PL nl-NL",
);

/** JPEG, PNG, WebP, HEIC, HEIF; WAV, MP3, AIFF, AAC, OGG, FLAC; MP4 and the other films; PDF. */
export const MEDIA_TYPES: readonly string[] = [
  ...["jpeg", "png", "webp", "heic", "heif"].map((format) => `image/${format}`),
  ...["wav", "mp3", "aiff", "aac", "ogg", "flac"].map((format) => `audio/${format}`),
  ...["mp4", "mpeg", "mov", "avi", "x-flv", "mpg", "webm", "wmv", "3gpp"].map((format) => `video/${format}`),
  "application/pdf",
];

const PART = "contents.*.parts.* contents.parts.*";

/** Spec 2.8. */
export const REQUEST_OBJECTS: Readonly<Record<string, SpecObject>> = {
  request: {
    at: "",
    fields: words("contents tools toolConfig safetySettings", "systemInstruction generationConfig cachedContent"),
  },
  Content: {
    at: "contents.*",
    fields: ["parts", "role"],
    values: { role: ["user", "model", "function", "tool"] },
  },
  "a single Content": { at: "contents", fields: ["parts"] },
  "the system's Content": { at: "systemInstruction", fields: ["parts"] },
  "the system's Part": { at: "systemInstruction.parts.*", fields: ["text"] },
  Part: {
    at: PART,
    fields: words(
      "text inlineData fileData functionCall",
      "functionResponse executableCode codeExecutionResult thought thoughtSignature",
    ),
  },
  inlineData: { at: within(PART, "inlineData"), fields: ["mimeType", "data"], values: { mimeType: MEDIA_TYPES } },
  fileData: { at: within(PART, "fileData"), fields: ["mimeType", "fileUri"] },
  functionCall: { at: within(PART, "functionCall"), fields: ["id", "name", "args"] },
  functionResponse: { at: within(PART, "functionResponse"), fields: ["id", "name", "response"] },
  executableCode: {
    at: within(PART, "executableCode"),
    fields: ["language", "code"],
    values: { language: CODE_LANGUAGES },
  },
  codeExecutionResult: {
    at: within(PART, "codeExecutionResult"),
    fields: ["outcome", "output"],
    values: { outcome: CODE_OUTCOMES },
  },
  Tool: { at: "tools.*", fields: ["functionDeclarations", "codeExecution", "googleSearch", "urlContext"] },
  FunctionDeclaration: {
    at: "tools.*.functionDeclarations.*",
    fields: ["name", "description", "parameters", "parametersJsonSchema"],
  },
  FunctionCallingConfig: {
    at: "toolConfig.functionCallingConfig",
    fields: ["mode", "allowedFunctionNames"],
    values: { mode: ["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE"] },
  },
  SafetySetting: {
    at: "safetySettings.*",
    fields: ["category", "threshold"],
    values: {
      category: HARM_CATEGORIES,
      threshold: HARM_THRESHOLDS,
    },
  },
  GenerationConfig: {
    at: "generationConfig",
    fields: words(
      "stopSequences responseMimeType responseSchema responseJsonSchema responseModalities",
      "candidateCount maxOutputTokens temperature topP topK seed presencePenalty",
      "frequencyPenalty responseLogprobs logprobs enableEnhancedCivicAnswers speechConfig",
      "thinkingConfig mediaResolution",
    ),
    values: {
      responseMimeType: ["text/plain", "application/json", "text/x.enum"],
      mediaResolution: ["UNSPECIFIED", "LOW", "MEDIUM", "HIGH"].map((name) => `MEDIA_RESOLUTION_${name}`),
    },
  },
  responseModalities: {
    at: "generationConfig.responseModalities",
    fields: ["0"],
    values: { "*": ["TEXT", "IMAGE", "AUDIO"] },
  },
  Schema: {
    at: "generationConfig.responseSchema.**",
    fields: words(
      "type description enum example nullable format items properties required",
      "minimum maximum minItems maxItems minLength maxLength",
    ),
    values: { type: ["TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"] },
  },
  ThinkingConfig: { at: "generationConfig.thinkingConfig", fields: ["includeThoughts", "thinkingBudget"] },
  SpeechConfig: {
    at: "generationConfig.speechConfig",
    fields: ["voiceConfig", "multiSpeakerVoiceConfig", "languageCode"],
    values: { languageCode: SPEECH_LANGUAGES },
  },
  VoiceConfig: {
    at: "generationConfig.speechConfig.voiceConfig generationConfig.speechConfig.multiSpeakerVoiceConfig.speakerVoiceConfigs.*.voiceConfig",
    fields: ["prebuiltVoiceConfig"],
  },
  PrebuiltVoiceConfig: { at: "generationConfig.speechConfig.**.prebuiltVoiceConfig", fields: ["voiceName"] },
  MultiSpeakerVoiceConfig: {
    at: "generationConfig.speechConfig.multiSpeakerVoiceConfig",
    fields: ["speakerVoiceConfigs"],
  },
  SpeakerVoiceConfig: {
    at: "generationConfig.speechConfig.multiSpeakerVoiceConfig.speakerVoiceConfigs.*",
    fields: ["speaker", "voiceConfig"],
  },
};

/** The pairs that spec 2.8 writes out; the second spelling of every field is a property of its own. */
export const SPELLINGS: readonly (readonly [camel: string, snake: string])[] = [
  ["inlineData", "inline_data"],
  ["mimeType", "mime_type"],
  ["systemInstruction", "system_instruction"],
  ["toolConfig", "tool_config"],
  ["functionCallingConfig", "function_calling_config"],
  ["functionDeclarations", "function_declarations"],
  ["responseMimeType", "response_mime_type"],
  ["responseSchema", "response_schema"],
];

const RATING_VALUES = {
  category: [...HARM_CATEGORIES, ...OLDER_HARM_CATEGORIES],
  probability: ["HARM_PROBABILITY_UNSPECIFIED", "NEGLIGIBLE", "LOW", "MEDIUM", "HIGH"],
  blocked: [true],
};
const GROUNDING = "candidates.*.groundingMetadata";
const SUPPORT = `${GROUNDING}.groundingSupports.*`;
const SOURCE = "candidates.*.groundingAttributions.*.sourceId";
const ANSWER_PART = "candidates.*.content.parts.*";
const MODALITY_VALUES = {
  modality: ["MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "VIDEO", "AUDIO", "DOCUMENT"],
};

/** Spec 2.9. */
export const RESPONSE_OBJECTS: Readonly<Record<string, SpecObject>> = {
  response: {
    at: "",
    fields: ["candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"],
  },
  promptFeedback: {
    at: "promptFeedback",
    fields: ["blockReason", "safetyRatings"],
    values: {
      blockReason: words("BLOCK_REASON_UNSPECIFIED SAFETY OTHER", "BLOCKLIST PROHIBITED_CONTENT IMAGE_SAFETY"),
    },
  },
  Candidate: {
    at: "candidates.*",
    fields: words(
      "content finishReason safetyRatings citationMetadata tokenCount groundingAttributions",
      "groundingMetadata avgLogprobs logprobsResult urlRetrievalMetadata urlContextMetadata index",
    ),
    values: {
      finishReason: words(
        "STOP MAX_TOKENS SAFETY RECITATION LANGUAGE OTHER BLOCKLIST",
        "PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL IMAGE_SAFETY",
      ),
      index: [0, 1, 2],
    },
  },
  Content: { at: "candidates.*.content", fields: ["parts", "role"], values: { role: ["model"] } },
  Part: {
    at: ANSWER_PART,
    fields: words("text inlineData functionCall executableCode codeExecutionResult", "thought thoughtSignature"),
  },
  inlineData: { at: `${ANSWER_PART}.inlineData`, fields: ["mimeType", "data"] },
  functionCall: { at: `${ANSWER_PART}.functionCall`, fields: ["id", "name", "args"] },
  executableCode: {
    at: `${ANSWER_PART}.executableCode`,
    fields: ["language", "code"],
    values: { language: CODE_LANGUAGES },
  },
  codeExecutionResult: {
    at: `${ANSWER_PART}.codeExecutionResult`,
    fields: ["outcome", "output"],
    values: { outcome: CODE_OUTCOMES },
  },
  SafetyRating: {
    at: "candidates.*.safetyRatings.* promptFeedback.safetyRatings.*",
    fields: ["category", "probability", "blocked"],
    values: RATING_VALUES,
  },
  UsageMetadata: {
    at: "usageMetadata",
    fields: words(
      "promptTokenCount cachedContentTokenCount candidatesTokenCount totalTokenCount",
      "toolUsePromptTokenCount thoughtsTokenCount promptTokensDetails candidatesTokensDetails",
      "cacheTokensDetails toolUsePromptTokensDetails",
    ),
  },
  ModalityTokenCount: { at: "usageMetadata.*.*", fields: ["modality", "tokenCount"], values: MODALITY_VALUES },
  CitationMetadata: { at: "candidates.*.citationMetadata", fields: ["citationSources"] },
  CitationSource: {
    at: "candidates.*.citationMetadata.citationSources.*",
    fields: ["startIndex", "endIndex", "uri", "license"],
  },
  GroundingMetadata: {
    at: GROUNDING,
    fields: ["groundingChunks", "groundingSupports", "webSearchQueries", "searchEntryPoint", "retrievalMetadata"],
  },
  GroundingChunk: { at: `${GROUNDING}.groundingChunks.*`, fields: ["web"] },
  Web: { at: `${GROUNDING}.groundingChunks.*.web`, fields: ["uri", "title"] },
  GroundingSupport: { at: SUPPORT, fields: ["groundingChunkIndices", "confidenceScores", "segment"] },
  Segment: { at: `${SUPPORT}.segment`, fields: ["partIndex", "startIndex", "endIndex", "text"] },
  SearchEntryPoint: { at: `${GROUNDING}.searchEntryPoint`, fields: ["renderedContent", "sdkBlob"] },
  RetrievalMetadata: { at: `${GROUNDING}.retrievalMetadata`, fields: ["googleSearchDynamicRetrievalScore"] },
  GroundingAttribution: { at: "candidates.*.groundingAttributions.*", fields: ["sourceId", "content"] },
  AttributionSourceId: { at: SOURCE, fields: ["groundingPassage", "semanticRetrieverChunk"] },
  GroundingPassage: { at: `${SOURCE}.groundingPassage`, fields: ["passageId", "partIndex"] },
  SemanticRetrieverChunk: { at: `${SOURCE}.semanticRetrieverChunk`, fields: ["source", "chunk"] },
  LogprobsResult: { at: "candidates.*.logprobsResult", fields: ["topCandidates", "chosenCandidates"] },
  TopCandidates: { at: "candidates.*.logprobsResult.topCandidates.*", fields: ["candidates"] },
  "logprobs Candidate": {
    at: "candidates.*.logprobsResult.chosenCandidates.* candidates.*.logprobsResult.topCandidates.*.candidates.*",
    fields: ["token", "tokenId", "logProbability"],
  },
  UrlRetrievalMetadata: { at: "candidates.*.urlRetrievalMetadata", fields: ["urlRetrievalContexts"] },
  UrlRetrievalContext: {
    at: "candidates.*.urlRetrievalMetadata.urlRetrievalContexts.*",
    fields: ["retrievedUrl"],
  },
  UrlContextMetadata: { at: "candidates.*.urlContextMetadata", fields: ["urlMetadata"] },
  UrlMetadata: {
    at: "candidates.*.urlContextMetadata.urlMetadata.*",
    fields: ["retrievedUrl", "urlRetrievalStatus"],
    values: {
      urlRetrievalStatus: ["UNSPECIFIED", "SUCCESS", "ERROR"].map((name) => `URL_RETRIEVAL_STATUS_${name}`),
    },
  },
};

/** Spec 7.3. */
export const ERROR_ROWS: readonly (readonly [status: number, name: string])[] = [
  [400, "INVALID_ARGUMENT"],
  [400, "FAILED_PRECONDITION"],
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "NOT_FOUND"],
  [413, "PAYLOAD_TOO_LARGE"],
  [429, "RESOURCE_EXHAUSTED"],
  [500, "INTERNAL"],
  [503, "UNAVAILABLE"],
  [504, "DEADLINE_EXCEEDED"],
];

/** A field of each of several places. */
function within(places: string, field: string): string {
  return places
    .split(" ")
    .map((place) => `${place}.${field}`)
    .join(" ");
}
