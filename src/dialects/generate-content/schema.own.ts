/** Which objects of a body are the format's own (spec 2.8), field by field: what is the user's is never looked into. */

import { type Fields, leaf, list, listOrOne, mapOf, own, type Walk } from "./schema.spelling.ts";

/** Fields that hold no object of the format's own. */
const leaves = (...names: readonly string[]): Fields => Object.fromEntries(names.map((name) => [name, leaf]));

// `properties` and `$defs` are keyed by the user; `example`, `default` and `enum` are the user's values.
const schema: Walk = own(() => ({
  ...leaves("type", "format", "title", "description", "nullable", "enum", "example", "default", "pattern", "required"),
  ...leaves("propertyOrdering", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"),
  ...leaves("minProperties", "maxProperties"),
  items: schema,
  additionalProperties: schema,
  properties: mapOf(() => schema),
  ...leaves("ref", "$ref"),
  anyOf: schemas,
  oneOf: schemas,
  allOf: schemas,
  prefixItems: schemas,
  defs: mapOf(() => schema),
  $defs: mapOf(() => schema),
}));

const schemas: Walk = list((value, path) => schema(value, path));

const media: Fields = leaves("mimeType", "data", "fileUri", "displayName");

const part: Walk = own(() => ({
  ...leaves("text", "thought", "thoughtSignature"),
  inlineData: own(() => media),
  fileData: own(() => media),
  functionCall: own(() => leaves("id", "name", "args", "partialArgs", "willContinue")),
  functionResponse: own(() => ({
    ...leaves("id", "name", "response", "willContinue", "scheduling"),
    parts: list(part),
  })),
  executableCode: own(() => leaves("id", "language", "code")),
  codeExecutionResult: own(() => leaves("id", "outcome", "output")),
  videoMetadata: own(() => leaves("startOffset", "endOffset", "fps")),
  mediaResolution: own(() => leaves("level", "numTokens")),
}));

const content: Walk = own(() => ({ role: leaf, parts: listOrOne(part) }));

// Tools that only the official service has are named here so that both spellings reach a backend as one.
const tool: Walk = own(() => ({
  functionDeclarations: list(
    own(() => ({
      ...leaves("name", "description", "behavior", "parametersJsonSchema", "responseJsonSchema"),
      parameters: schema,
      response: schema,
    })),
  ),
  ...leaves("codeExecution", "googleSearch", "googleSearchRetrieval", "urlContext", "googleMaps", "computerUse"),
  ...leaves("fileSearch", "enterpriseWebSearch", "parallelAiSearch", "mcpServers", "retrieval"),
}));

const voice: Walk = own(() => ({ prebuiltVoiceConfig: own(() => leaves("voiceName")) }));

const speech: Walk = own(() => ({
  languageCode: leaf,
  voiceConfig: voice,
  multiSpeakerVoiceConfig: own(() => ({
    speakerVoiceConfigs: list(own(() => ({ speaker: leaf, voiceConfig: voice }))),
  })),
}));

const config: Walk = own(() => ({
  ...leaves("stopSequences", "responseMimeType", "responseJsonSchema", "responseModalities", "candidateCount"),
  ...leaves("maxOutputTokens", "temperature", "topP", "topK", "seed", "presencePenalty", "frequencyPenalty"),
  ...leaves("responseLogprobs", "logprobs", "enableEnhancedCivicAnswers", "mediaResolution"),
  responseSchema: schema,
  speechConfig: speech,
  thinkingConfig: own(() => leaves("includeThoughts", "thinkingBudget", "thinkingLevel")),
  imageConfig: own(() => leaves("aspectRatio", "imageSize")),
}));

const body: Walk = own(() => ({
  contents: listOrOne(content),
  tools: list(tool),
  toolConfig: own(() => ({
    functionCallingConfig: own(() => leaves("mode", "allowedFunctionNames")),
    retrievalConfig: own(() => ({ languageCode: leaf, latLng: own(() => leaves("latitude", "longitude")) })),
  })),
  safetySettings: list(own(() => leaves("category", "threshold"))),
  systemInstruction: content,
  generationConfig: config,
  cachedContent: leaf,
}));

const tokenCount: Walk = own(() => ({ contents: listOrOne(content), generateContentRequest: body }));

/**
 * A request body with the format's own fields in camelCase, and lists where a single element stood for one. Throws
 * `invalid_request` for a field in both spellings.
 */
export const inCamelCase = (raw: unknown): unknown => body(raw, []);

/** The same for the body of a token count. */
export const countInCamelCase = (raw: unknown): unknown => tokenCount(raw, []);
