/** Fields of a generate-content request, and what each of them is in the neutral model. */

import type { ChatMessage, ChatRequest, Part } from "../../../src/index.ts";
import {
  type Body,
  configured,
  having,
  PNG,
  speaking,
  withData,
  withFile,
  withPart,
  withResponse,
  withSchema,
} from "./bodies.ts";

export const HI: ChatMessage = { role: "user", parts: [{ type: "text", text: "Hi" }] };

type Carried<Expected> = readonly [name: string, body: Body, expected: Expected];

const text = (value: string): Part => ({ type: "text", text: value });
const voiceConfig = (voiceName: string): Body => ({ prebuiltVoiceConfig: { voiceName } });

const CONFIG: readonly Carried<Partial<ChatRequest>>[] = [
  ["maxOutputTokens", configured({ maxOutputTokens: 77 }), { maxOutputTokens: 77 }],
  ["temperature", configured({ temperature: 0 }), { temperature: 0 }],
  ["topP", configured({ topP: 0.25 }), { topP: 0.25 }],
  ["topK", configured({ topK: 7 }), { topK: 7 }],
  ["seed", configured({ seed: 0 }), { seed: 0 }],
  ["stopSequences", configured({ stopSequences: ["a", "b"] }), { stopSequences: ["a", "b"] }],
  ["candidateCount", configured({ candidateCount: 3 }), { candidateCount: 3 }],
  ["presencePenalty", configured({ presencePenalty: 0.5 }), { presencePenalty: 0.5 }],
  ["frequencyPenalty", configured({ frequencyPenalty: 0 }), { frequencyPenalty: 0 }],
  ["responseLogprobs", configured({ responseLogprobs: true }), { logprobs: { top: 0 } }],
  ["logprobs", configured({ responseLogprobs: true, logprobs: 5 }), { logprobs: { top: 5 } }],
  ["enableEnhancedCivicAnswers", configured({ enableEnhancedCivicAnswers: false }), { enhancedCivicAnswers: false }],
  [
    "responseModalities",
    configured({ responseModalities: ["TEXT", "IMAGE", "AUDIO"] }),
    { modalities: ["text", "image", "audio"] },
  ],
  ["a low resolution", configured({ mediaResolution: "MEDIA_RESOLUTION_LOW" }), { mediaResolution: "low" }],
  ["a medium resolution", configured({ mediaResolution: "MEDIA_RESOLUTION_MEDIUM" }), { mediaResolution: "medium" }],
  ["a high resolution", configured({ mediaResolution: "MEDIA_RESOLUTION_HIGH" }), { mediaResolution: "high" }],
  ["JSON", configured({ responseMimeType: "application/json" }), { responseFormat: { type: "json" } }],
  [
    "JSON of a JSON Schema, word for word",
    configured({
      responseMimeType: "application/json",
      responseJsonSchema: { type: ["string", "null"], min_length: 1 },
    }),
    { responseFormat: { type: "json", schema: { type: ["string", "null"], min_length: 1 } } },
  ],
  [
    "one of some texts",
    configured({ responseMimeType: "text/x.enum", responseSchema: { type: "STRING", enum: ["a", "b"] } }),
    { responseFormat: { type: "enum", values: ["a", "b"] } },
  ],
  [
    "thoughts that are wanted",
    configured({ thinkingConfig: { includeThoughts: true } }),
    { reasoning: { type: "adaptive", visible: true } },
  ],
  [
    "thoughts that are not wanted",
    configured({ thinkingConfig: { includeThoughts: false } }),
    { reasoning: { type: "adaptive", visible: false } },
  ],
  [
    "a budget for thoughts",
    configured({ thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } }),
    { reasoning: { type: "enabled", budgetTokens: 1024, visible: true } },
  ],
  [
    "a budget of the model's choice",
    configured({ thinkingConfig: { includeThoughts: true, thinkingBudget: -1 } }),
    { reasoning: { type: "adaptive", visible: true } },
  ],
  ["no budget", configured({ thinkingConfig: { thinkingBudget: 0 } }), { reasoning: { type: "disabled" } }],
  [
    "a voice and its language",
    speaking({ languageCode: "de-DE", voiceConfig: voiceConfig("Kore") }),
    { speech: { language: "de-DE", voice: "Kore" } },
  ],
  [
    "the voices of several",
    speaking({
      multiSpeakerVoiceConfig: {
        speakerVoiceConfigs: [
          { speaker: "Joe", voiceConfig: voiceConfig("Kore") },
          { speaker: "Jane", voiceConfig: voiceConfig("Puck") },
        ],
      },
    }),
    {
      speech: {
        speakers: [
          { speaker: "Joe", voice: "Kore" },
          { speaker: "Jane", voice: "Puck" },
        ],
      },
    },
  ],
];

const THRESHOLDS = [
  ["HARM_BLOCK_THRESHOLD_UNSPECIFIED", "unspecified"],
  ["BLOCK_LOW_AND_ABOVE", "low"],
  ["BLOCK_MEDIUM_AND_ABOVE", "medium"],
  ["BLOCK_ONLY_HIGH", "high"],
  ["BLOCK_NONE", "none"],
  ["OFF", "off"],
] as const;

const CATEGORIES = [
  ["HARM_CATEGORY_HARASSMENT", "harassment"],
  ["HARM_CATEGORY_HATE_SPEECH", "hate-speech"],
  ["HARM_CATEGORY_SEXUALLY_EXPLICIT", "sexually-explicit"],
  ["HARM_CATEGORY_DANGEROUS_CONTENT", "dangerous-content"],
  ["HARM_CATEGORY_CIVIC_INTEGRITY", "civic-integrity"],
] as const;

export const FIELDS: readonly Carried<Partial<ChatRequest>>[] = [
  ...CONFIG,
  ["contents that are a text", having({ contents: "Hi" }), { messages: [HI] }],
  ["a single Content", having({ contents: { parts: [{ text: "Hi" }] } }), { messages: [HI] }],
  [
    "a system instruction",
    having({ systemInstruction: { role: "system", parts: [{ text: "Be brief." }, { text: "Be kind." }] } }),
    {
      system: [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind." },
      ],
    },
  ],
  [
    "a system instruction in short",
    having({ systemInstruction: "Be brief." }),
    { system: [{ type: "text", text: "Be brief." }] },
  ],
  ["cached content", having({ cachedContent: "cachedContents/a" }), { cachedContent: "cachedContents/a" }],
  ...THRESHOLDS.map(([wire, threshold]): Carried<Partial<ChatRequest>> => [
    `the threshold ${wire}`,
    having({ safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: wire }] }),
    { safety: [{ category: "harassment", threshold }] },
  ]),
  ...CATEGORIES.map(([wire, category]): Carried<Partial<ChatRequest>> => [
    `the category ${wire}`,
    having({ safetySettings: [{ category: wire, threshold: "OFF" }] }),
    { safety: [{ category, threshold: "off" }] },
  ]),
  [
    "turns of every role",
    having({
      contents: [
        { role: "user", parts: [{ text: "a" }] },
        { role: "model", parts: [{ text: "b" }] },
        { role: "function", parts: [{ text: "c" }] },
        { role: "model", parts: [{ text: "d" }] },
        { role: "tool", parts: [{ text: "e" }] },
        { role: "model", parts: [{ text: "f" }] },
        { parts: [{ text: "g" }] },
        { role: "model", parts: [{ text: "h" }] },
      ],
    }),
    {
      messages: Array.from("abcdefgh", (letter, index) => ({
        role: index % 2 === 0 ? "user" : "assistant",
        parts: [{ type: "text", text: letter }],
      })),
    },
  ],
  [
    "turns of one side in a row as one",
    having({
      contents: [
        { role: "user", parts: [{ text: "a" }] },
        { role: "tool", parts: [{ text: "b" }, { text: "c" }] },
        { role: "model", parts: [{ text: "d" }] },
        { role: "model", parts: [{ text: "e" }] },
      ],
    }),
    {
      messages: [
        { role: "user", parts: [text("a"), text("b"), text("c")] },
        { role: "assistant", parts: [text("d"), text("e")] },
      ],
    },
  ],
];

const SIGNED = { thoughtSignature: "c2ln" };

/** Each in the last turn. */
export const PARTS: readonly Carried<Part>[] = [
  ["a text", withPart({ text: "x" }), text("x")],
  ["an empty text", withPart({ text: "" }), text("")],
  [
    "a text with its signature",
    withPart({ text: "x", ...SIGNED }, "model"),
    { type: "text", text: "x", signature: "c2ln" },
  ],
  ["a signature alone", withPart(SIGNED, "model"), { type: "text", text: "", signature: "c2ln" }],
  [
    "a thought",
    withPart({ text: "Hm.", thought: true, ...SIGNED }, "model"),
    { type: "reasoning", text: "Hm.", signature: "c2ln" },
  ],
  ...(["image/png", "audio/wav", "video/mp4"] as const).map((mediaType): Carried<Part> => [
    `inlineData of ${mediaType}`,
    withData(mediaType),
    {
      type: "media",
      kind: mediaType.split("/")[0] as "image" | "audio" | "video",
      source: { type: "base64", mediaType, data: PNG },
    },
  ]),
  [
    "inlineData of a document",
    withData("application/pdf", "JVBERi0="),
    { type: "document", source: { type: "base64", mediaType: "application/pdf", data: "JVBERi0=" } },
  ],
  [
    "fileData",
    withFile("image/png", "https://example.com/a.png"),
    { type: "media", kind: "image", source: { type: "url", url: "https://example.com/a.png" } },
  ],
  [
    "a picture that is a thought",
    withPart({ inlineData: { mimeType: "image/png", data: PNG }, thought: true, ...SIGNED }, "model"),
    {
      type: "media",
      kind: "image",
      source: { type: "base64", mediaType: "image/png", data: PNG },
      thought: true,
      signature: "c2ln",
    },
  ],
  [
    "a functionCall",
    withPart({ functionCall: { id: "c1", name: "clock", args: { zone: "UTC" } }, ...SIGNED }, "model"),
    { type: "tool-call", id: "c1", name: "clock", input: { zone: "UTC" }, signature: "c2ln" },
  ],
  [
    "a functionCall without id and args",
    withPart({ functionCall: { name: "clock" } }, "model"),
    { type: "tool-call", id: "call_1", name: "clock", input: {} },
  ],
  [
    "a functionResponse",
    withResponse({ name: "clock", response: { time: "noon" } }),
    { type: "tool-result", callId: "call_1", name: "clock", parts: [{ type: "json", value: { time: "noon" } }] },
  ],
  [
    "a functionResponse by its id",
    withResponse({ id: "c1", name: "clock", response: {} }, { id: "c1" }),
    { type: "tool-result", callId: "c1", name: "clock", parts: [{ type: "json", value: {} }] },
  ],
  [
    "executableCode",
    withPart({ executableCode: { language: "PYTHON", code: "1" }, ...SIGNED }, "model"),
    { type: "code", language: "python", code: "1", signature: "c2ln" },
  ],
  [
    "executableCode of no language",
    withPart({ executableCode: { language: "LANGUAGE_UNSPECIFIED", code: "1" } }, "model"),
    { type: "code", language: "unspecified", code: "1" },
  ],
  ...(
    [
      ["OUTCOME_OK", "ok"],
      ["OUTCOME_FAILED", "failed"],
      ["OUTCOME_DEADLINE_EXCEEDED", "deadline-exceeded"],
      ["OUTCOME_UNSPECIFIED", "unspecified"],
    ] as const
  ).map(([wire, outcome]): Carried<Part> => [
    `a codeExecutionResult of ${wire}`,
    withPart({ codeExecutionResult: { outcome: wire, output: "1\n" } }, "model"),
    { type: "code-result", outcome, output: "1\n" },
  ]),
];

/** Schemas of the format, and the JSON Schema that says the same. */
export const SCHEMAS: readonly Carried<object>[] = (
  [
    ["a type in capitals", { type: "STRING" }, { type: "string" }],
    ["a type in small letters", { type: "integer" }, { type: "integer" }],
    ["no type in particular", { type: "TYPE_UNSPECIFIED", description: "x" }, { description: "x" }],
    ["what may be null", { type: "NUMBER", nullable: true }, { type: ["number", "null"] }],
    ["enum values", { type: "STRING", format: "enum", enum: ["a", "b"] }, { type: "string", enum: ["a", "b"] }],
    [
      "enum values that may be null",
      { type: "STRING", enum: ["a"], nullable: true },
      { type: ["string", "null"], enum: ["a", null] },
    ],
    [
      "an example",
      { type: "STRING", example: { first_name: "A" } },
      { type: "string", examples: [{ first_name: "A" }] },
    ],
    ["limits", { type: "ARRAY", minItems: 1, max_items: "3" }, { type: "array", minItems: 1, maxItems: 3 }],
    [
      "anyOf",
      { anyOf: [{ type: "STRING", min_length: 1 }, { type: "NULL" }] },
      { anyOf: [{ type: "string", minLength: 1 }, { type: "null" }] },
    ],
    [
      "properties, in the order that is asked for",
      {
        type: "OBJECT",
        properties: { b_c: { type: "STRING" }, a: { type: "ARRAY", items: { type: "BOOLEAN" } } },
        property_ordering: ["a", "b_c"],
        required: ["a"],
      },
      {
        type: "object",
        properties: { a: { type: "array", items: { type: "boolean" } }, b_c: { type: "string" } },
        required: ["a"],
      },
    ],
  ] as const
).map(([name, schema, expected]) => [name, withSchema(schema), expected]);
