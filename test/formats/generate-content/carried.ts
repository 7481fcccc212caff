/** Fields of a generate-content request, and what each of them is in the neutral model. */

import type { ChatMessage, ChatRequest, Part } from "../../../src/index.ts";
import { type Body, configured, having, speaking } from "./bodies.ts";

export const HI: ChatMessage = { role: "user", parts: [{ type: "text", text: "Hi" }] };

export type Carried<Expected> = readonly [name: string, body: Body, expected: Expected];

export const text = (value: string): Part => ({ type: "text", text: value });
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
