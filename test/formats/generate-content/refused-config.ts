/** Generation configs that must be refused, each with the field that the error names: the failing side of GenerationConfig. */

import { type Body, configured, having, speaking, withSchema } from "./bodies.ts";

type Refused = readonly [name: string, body: Body, path: string];

const CONFIG = "generationConfig";

const config = (name: string, fields: Body, field: string): Refused => [name, configured(fields), `${CONFIG}.${field}`];

const scalars: readonly Refused[] = [
  ["a generation config that is a text", configured("hot"), CONFIG],
  ["a generation config that is an array", configured([]), CONFIG],
  config("stop sequences that are a text", { stopSequences: "END" }, "stopSequences"),
  config("six stop sequences", { stopSequences: ["a", "b", "c", "d", "e", "f"] }, "stopSequences"),
  config("a stop sequence that is a number", { stopSequences: ["a", 1] }, "stopSequences[1]"),
  config("an empty stop sequence", { stopSequences: ["a", ""] }, "stopSequences[1]"),
  config("an unknown MIME type", { responseMimeType: "text/html" }, "responseMimeType"),
  config("a MIME type that is a number", { responseMimeType: 1 }, "responseMimeType"),
  config("modalities that are a text", { responseModalities: "TEXT" }, "responseModalities"),
  config("an unknown modality", { responseModalities: ["TEXT", "VIDEO"] }, "responseModalities[1]"),
  config("0 candidates", { candidateCount: 0 }, "candidateCount"),
  config("9 candidates", { candidateCount: 9 }, "candidateCount"),
  config("a candidate and a half", { candidateCount: 1.5 }, "candidateCount"),
  config("maxOutputTokens 0", { maxOutputTokens: 0 }, "maxOutputTokens"),
  config("maxOutputTokens below 0", { maxOutputTokens: -1 }, "maxOutputTokens"),
  config("maxOutputTokens that is no integer", { maxOutputTokens: 1.5 }, "maxOutputTokens"),
  config("maxOutputTokens that is a text", { maxOutputTokens: "100" }, "maxOutputTokens"),
  config("maxOutputTokens beyond 32 bits", { maxOutputTokens: 2 ** 31 }, "maxOutputTokens"),
  config("temperature below 0", { temperature: -0.1 }, "temperature"),
  config("temperature above 2", { temperature: 2.1 }, "temperature"),
  config("temperature just above 2", { temperature: 2 + 2 * Number.EPSILON }, "temperature"),
  config("temperature that is a text", { temperature: "1" }, "temperature"),
  config("topP below 0", { topP: -0.1 }, "topP"),
  config("topP above 1", { topP: 1.1 }, "topP"),
  config("topK 0", { topK: 0 }, "topK"),
  config("topK that is no integer", { topK: 1.5 }, "topK"),
  config("a seed that is no integer", { seed: 0.5 }, "seed"),
  config("a seed beyond 32 bits", { seed: 2 ** 31 }, "seed"),
  config("a presence penalty that is a text", { presencePenalty: "1" }, "presencePenalty"),
  config("a frequency penalty that is a text", { frequencyPenalty: "1" }, "frequencyPenalty"),
  config("responseLogprobs that is no boolean", { responseLogprobs: "true" }, "responseLogprobs"),
  config("logprobs below 0", { responseLogprobs: true, logprobs: -1 }, "logprobs"),
  config("logprobs above 20", { responseLogprobs: true, logprobs: 21 }, "logprobs"),
  config("logprobs that is no integer", { responseLogprobs: true, logprobs: 1.5 }, "logprobs"),
  config("civic answers that are no boolean", { enableEnhancedCivicAnswers: 1 }, "enableEnhancedCivicAnswers"),
  config("an unknown media resolution", { mediaResolution: "MEDIA_RESOLUTION_ULTRA" }, "mediaResolution"),
  config("a thinking config that is a text", { thinkingConfig: "on" }, "thinkingConfig"),
  config(
    "includeThoughts that is no boolean",
    { thinkingConfig: { includeThoughts: 1 } },
    "thinkingConfig.includeThoughts",
  ),
  config("a budget below -1", { thinkingConfig: { thinkingBudget: -2 } }, "thinkingConfig.thinkingBudget"),
  config("a budget that is no integer", { thinkingConfig: { thinkingBudget: 1.5 } }, "thinkingConfig.thinkingBudget"),
];

const voiceConfig = { prebuiltVoiceConfig: { voiceName: "Kore" } };
const speech = (name: string, speechConfig: unknown, field: string): Refused => [
  name,
  speaking(speechConfig),
  `${CONFIG}.speechConfig${field}`,
];
const SPEAKERS = ".multiSpeakerVoiceConfig.speakerVoiceConfigs";

const speeches: readonly Refused[] = [
  speech("a speech config that is a text", "Kore", ""),
  speech("a language that is not on the list", { languageCode: "en-GB" }, ".languageCode"),
  speech("a language in small letters", { languageCode: "en-us" }, ".languageCode"),
  speech("a voice config that is a text", { voiceConfig: "Kore" }, ".voiceConfig"),
  speech(
    "a voice whose name is a number",
    { voiceConfig: { prebuiltVoiceConfig: { voiceName: 1 } } },
    ".voiceConfig.prebuiltVoiceConfig.voiceName",
  ),
  speech("speakers that are an object", { multiSpeakerVoiceConfig: { speakerVoiceConfigs: {} } }, SPEAKERS),
  speech(
    "a speaker without a name",
    { multiSpeakerVoiceConfig: { speakerVoiceConfigs: [{ voiceConfig }] } },
    `${SPEAKERS}[0].speaker`,
  ),
];

const SCHEMA = `${CONFIG}.responseSchema`;
const schema = (name: string, responseSchema: unknown, field: string): Refused => [
  name,
  withSchema(responseSchema),
  `${SCHEMA}${field}`,
];

const schemas: readonly Refused[] = [
  schema("a schema that is a text", "STRING", ""),
  schema("a schema without type", { description: "x" }, ".type"),
  schema("a schema of another type", { type: "DATE" }, ".type"),
  schema("a schema of mixed letters", { type: "StRiNg?" }, ".type"),
  schema("a schema of several types", { type: ["STRING", "NULL"] }, ".type"),
  schema("a description that is a number", { type: "STRING", description: 1 }, ".description"),
  schema("nullable that is a text", { type: "STRING", nullable: "yes" }, ".nullable"),
  schema("a format that is a number", { type: "STRING", format: 1 }, ".format"),
  schema("enum values that are an object", { type: "STRING", enum: {} }, ".enum"),
  schema("no enum values", { type: "STRING", enum: [] }, ".enum"),
  schema("an enum value that is a number", { type: "STRING", enum: ["a", 1] }, ".enum[1]"),
  schema("items that are an array", { type: "ARRAY", items: [] }, ".items"),
  schema("items without type", { type: "ARRAY", items: {} }, ".items.type"),
  schema("properties that are an array", { type: "OBJECT", properties: [] }, ".properties"),
  schema("a property that is a text", { type: "OBJECT", properties: { a: "STRING" } }, ".properties.a"),
  schema("a property of another type", { type: "OBJECT", properties: { a: { type: "X" } } }, ".properties.a.type"),
  schema("required that is a text", { type: "OBJECT", required: "a" }, ".required"),
  schema("required that names no property", { type: "OBJECT", properties: {}, required: ["a"] }, ".required[0]"),
  schema(
    "required that names what every object has",
    { type: "OBJECT", properties: {}, required: ["constructor"] },
    ".required[0]",
  ),
  schema("a minimum that is a text", { type: "NUMBER", minimum: "1" }, ".minimum"),
  schema("a maximum that is a text", { type: "NUMBER", maximum: "1" }, ".maximum"),
  schema("minItems below 0", { type: "ARRAY", minItems: -1 }, ".minItems"),
  schema("maxItems that is no integer", { type: "ARRAY", maxItems: 1.5 }, ".maxItems"),
  schema("minLength below 0", { type: "STRING", minLength: -1 }, ".minLength"),
  schema("maxLength that is no number", { type: "STRING", maxLength: "many" }, ".maxLength"),
  schema("an anyOf of nothing", { anyOf: [] }, ".anyOf"),
  schema("an anyOf of a bad schema", { anyOf: [{ type: "STRING" }, { type: "X" }] }, ".anyOf[1].type"),
  config(
    "JSON Schema that is a text",
    { responseMimeType: "application/json", responseJsonSchema: "{}" },
    "responseJsonSchema",
  ),
];

export const REFUSED_CONFIGS: readonly Refused[] = [...scalars, ...speeches, ...schemas];

/** Contradictions: the error must name both fields. */
export const CONTRADICTIONS: readonly (readonly [name: string, body: Body, field: string, other: string])[] = [
  ["logprobs without responseLogprobs", configured({ logprobs: 3 }), `${CONFIG}.logprobs`, "responseLogprobs"],
  [
    "logprobs beside responseLogprobs false",
    configured({ logprobs: 3, responseLogprobs: false }),
    `${CONFIG}.logprobs`,
    "responseLogprobs",
  ],
  [
    "a schema for plain text",
    configured({ responseSchema: { type: "STRING" } }),
    `${CONFIG}.responseSchema`,
    "responseMimeType",
  ],
  [
    "a schema beside text/plain",
    configured({ responseSchema: { type: "STRING" }, responseMimeType: "text/plain" }),
    `${CONFIG}.responseSchema`,
    "responseMimeType",
  ],
  [
    "a JSON Schema for plain text",
    configured({ responseJsonSchema: { type: "string" } }),
    `${CONFIG}.responseJsonSchema`,
    "responseMimeType",
  ],
  [
    "two schemas",
    withSchema({ type: "STRING" }, { responseJsonSchema: { type: "string" } }),
    `${CONFIG}.responseJsonSchema`,
    "responseSchema",
  ],
  [
    "one of some texts without a schema",
    configured({ responseMimeType: "text/x.enum" }),
    `${CONFIG}.responseMimeType`,
    "responseSchema",
  ],
  ...[{ type: "INTEGER" }, { type: "STRING" }, { type: "INTEGER", enum: ["1"] }].map(
    (responseSchema) =>
      [
        `one of some texts with the schema ${JSON.stringify(responseSchema)}`,
        configured({ responseMimeType: "text/x.enum", responseSchema }),
        `${CONFIG}.responseSchema`,
        "responseMimeType",
      ] as const,
  ),
  ...[{ type: "string", enum: [] }, { type: "string" }, { enum: ["a"] }, { type: "string", enum: ["a", 1] }].map(
    (responseJsonSchema) =>
      [
        `one of some texts with the JSON Schema ${JSON.stringify(responseJsonSchema)}`,
        configured({ responseMimeType: "text/x.enum", responseJsonSchema }),
        `${CONFIG}.responseJsonSchema`,
        "responseMimeType",
      ] as const,
  ),
  [
    "thoughts beside a budget of 0",
    configured({ thinkingConfig: { includeThoughts: true, thinkingBudget: 0 } }),
    `${CONFIG}.thinkingConfig.includeThoughts`,
    "thinkingBudget",
  ],
  [
    "two voices",
    speaking({ voiceConfig, multiSpeakerVoiceConfig: { speakerVoiceConfigs: [{ speaker: "Jo", voiceConfig }] } }),
    `${CONFIG}.speechConfig.multiSpeakerVoiceConfig`,
    "voiceConfig",
  ],
  ...(
    [
      ["minimum", "maximum", "NUMBER"],
      ["minItems", "maxItems", "ARRAY"],
      ["minLength", "maxLength", "STRING"],
    ] as const
  ).map(
    ([min, max, type]) =>
      [
        `${min} above ${max}`,
        withSchema({ type, [min]: 3, [max]: 2 }),
        `${CONFIG}.responseSchema.${min}`,
        max,
      ] as const,
  ),
  [
    "two kinds of data in one part",
    having({ contents: [{ parts: [{ text: "Hi", functionCall: { name: "f" } }] }] }),
    "contents[0].parts[0].functionCall",
    "text",
  ],
  [
    "two kinds of parameters",
    having({
      tools: [{ functionDeclarations: [{ name: "f", parameters: { type: "OBJECT" }, parametersJsonSchema: {} }] }],
    }),
    "tools[0].functionDeclarations[0].parametersJsonSchema",
    "parameters",
  ],
  [
    "names with the mode AUTO",
    having({
      tools: [{ functionDeclarations: [{ name: "f" }] }],
      toolConfig: { functionCallingConfig: { mode: "AUTO", allowedFunctionNames: ["f"] } },
    }),
    "toolConfig.functionCallingConfig.allowedFunctionNames",
    "mode",
  ],
  [
    "names with the mode NONE",
    having({
      tools: [{ functionDeclarations: [{ name: "f" }] }],
      toolConfig: { functionCallingConfig: { mode: "NONE", allowedFunctionNames: ["f"] } },
    }),
    "toolConfig.functionCallingConfig.allowedFunctionNames",
    "mode",
  ],
  [
    "the mode ANY without tools",
    having({ toolConfig: { functionCallingConfig: { mode: "ANY" } } }),
    "toolConfig.functionCallingConfig.mode",
    "tools",
  ],
  [
    "a required name of no property",
    withSchema({ type: "OBJECT", properties: { a: { type: "STRING" } }, required: ["a", "b"] }),
    `${CONFIG}.responseSchema.required[1]`,
    "properties",
  ],
  [
    "snake_case fields that contradict one another",
    having({ generation_config: { response_schema: { type: "STRING" }, response_mime_type: "text/plain" } }),
    "generation_config.response_schema",
    "response_mime_type",
  ],
  ["both spellings of one field", configured({ topP: 0.5, top_p: 0.5 }), `${CONFIG}.top_p`, "topP"],
  [
    "both spellings of the generation config",
    having({ generationConfig: {}, generation_config: {} }),
    "generation_config",
    "generationConfig",
  ],
  [
    "both spellings within a part",
    having({
      contents: [{ parts: [{ inlineData: { mimeType: "image/png", mime_type: "image/png", data: "AAAA" } }] }],
    }),
    "contents[0].parts[0].inlineData.mime_type",
    "mimeType",
  ],
];
