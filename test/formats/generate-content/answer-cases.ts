/** What backends yield, and the parts, notes and counts of the generate-content answer that it becomes. */

import type { Annotation, ChatEvent, FinishReason, Usage } from "../../../src/index.ts";

export type Events = readonly (ChatEvent | string)[];

export const toolStart = (id: string, name: string): ChatEvent => ({ type: "tool-call-start", id, name });
export const toolDelta = (id: string, json: string): ChatEvent => ({ type: "tool-call-delta", id, json });
const toolEnd = (id: string): ChatEvent => ({ type: "tool-call-end", id });
const reasoning = (text: string): ChatEvent => ({ type: "reasoning-delta", text });
const sealed = (signature: string): ChatEvent => ({ type: "reasoning-signature", signature });

/** A seal of the messages format in the gateway's wrapping. */
const wrapped = (kind: "part" | "redacted", value: string): string =>
  Buffer.from(`polygate:messages:${kind}::${value}`).toString("base64");

const functionCall = (id: string, name: string, args: object = {}): object => ({ functionCall: { id, name, args } });

/** `streamed` where the pieces of a stream are not simply the parts, one a chunk. */
export interface ContentCase {
  readonly events: Events;
  readonly parts: readonly object[];
  readonly streamed?: readonly (readonly object[])[];
}

const PICTURE = { mimeType: "image/png", data: "iVBORw0KGgo=" };
const picture: ChatEvent = { type: "media", mediaType: PICTURE.mimeType, data: PICTURE.data };

const texts: Readonly<Record<string, ContentCase>> = {
  nothing: { events: [], parts: [{ text: "" }], streamed: [] },
  "empty texts": { events: ["", { type: "text-delta", text: "" }], parts: [{ text: "" }], streamed: [] },
  "texts as one part": {
    events: ["One ", { type: "text-delta", text: "two" }, " three"],
    parts: [{ text: "One two three" }],
    streamed: [[{ text: "One " }], [{ text: "two" }], [{ text: " three" }]],
  },
  "text of every kind": {
    events: ['\n\r\u2028\u2029\u0000"\\𝄞'],
    parts: [{ text: '\n\r\u2028\u2029\u0000"\\𝄞' }],
  },
  "a text with its signature": {
    events: ["On", { type: "text-delta", text: "e", signature: "c2ln" }, "Two"],
    parts: [{ text: "One", thoughtSignature: "c2ln" }, { text: "Two" }],
    streamed: [[{ text: "On" }], [{ text: "e", thoughtSignature: "c2ln" }], [{ text: "Two" }]],
  },
  "a signature of an empty text": {
    events: ["One", { type: "text-delta", text: "", signature: "c2ln" }],
    parts: [{ text: "One", thoughtSignature: "c2ln" }],
    streamed: [[{ text: "One" }], [{ text: "", thoughtSignature: "c2ln" }]],
  },
  "reasoning with its signature, then text": {
    events: [reasoning("H"), reasoning("m."), sealed("c2ln"), "Noon."],
    parts: [{ text: "Hm.", thought: true, thoughtSignature: "c2ln" }, { text: "Noon." }],
    streamed: [
      [{ text: "H", thought: true }],
      [{ text: "m.", thought: true }],
      [{ text: "", thought: true, thoughtSignature: "c2ln" }],
      [{ text: "Noon." }],
    ],
  },
  "reasoning without a signature": {
    events: [reasoning("Hm."), "Noon."],
    parts: [{ text: "Hm.", thought: true }, { text: "Noon." }],
  },
  "text between reasoning": {
    events: ["A", reasoning("B"), "C"],
    parts: [{ text: "A" }, { text: "B", thought: true }, { text: "C" }],
  },
  "encrypted reasoning as the signature of an empty thought": {
    events: [{ type: "redacted-reasoning", data: "c2Vj", maker: "messages" }, "Noon."],
    parts: [{ text: "", thought: true, thoughtSignature: wrapped("redacted", "c2Vj") }, { text: "Noon." }],
  },
  "the signatures of another maker in the gateway's own wrapping": {
    events: [
      reasoning("Hm."),
      { type: "reasoning-signature", signature: "c2ln", maker: "messages" },
      { type: "text-delta", text: "Noon.", signature: "dGV4dA==", maker: "messages" },
      { type: "tool-call", id: "a", name: "f", input: {}, signature: "Y2FsbA==", maker: "messages" },
    ],
    parts: [
      { text: "Hm.", thought: true, thoughtSignature: wrapped("part", "c2ln") },
      { text: "Noon.", thoughtSignature: wrapped("part", "dGV4dA==") },
      { ...functionCall("a", "f"), thoughtSignature: wrapped("part", "Y2FsbA==") },
    ],
    streamed: [
      [{ text: "Hm.", thought: true }],
      [{ text: "", thought: true, thoughtSignature: wrapped("part", "c2ln") }],
      [{ text: "Noon.", thoughtSignature: wrapped("part", "dGV4dA==") }],
      [{ ...functionCall("a", "f"), thoughtSignature: wrapped("part", "Y2FsbA==") }],
    ],
  },
  "no signature that is empty": {
    events: [reasoning("Hm."), { type: "reasoning-signature", signature: "" }, "Noon."],
    parts: [{ text: "Hm.", thought: true }, { text: "Noon." }],
  },
  "the maker of reasoning that its maker does not sign": {
    events: [reasoning("Hm."), { type: "reasoning-signature", signature: "", maker: "messages" }, "Noon."],
    parts: [{ text: "Hm.", thought: true, thoughtSignature: wrapped("part", "") }, { text: "Noon." }],
    streamed: [
      [{ text: "Hm.", thought: true }],
      [{ text: "", thought: true, thoughtSignature: wrapped("part", "") }],
      [{ text: "Noon." }],
    ],
  },
};

const calls: Readonly<Record<string, ContentCase>> = {
  "a function call that came whole": {
    events: ["Hm.", { type: "tool-call", id: "a", name: "clock", input: { zone: "UTC" }, signature: "c2ln" }],
    parts: [{ text: "Hm." }, { ...functionCall("a", "clock", { zone: "UTC" }), thoughtSignature: "c2ln" }],
  },
  "a function call that came in pieces": {
    events: [
      toolStart("a", "clock"),
      toolDelta("a", '{"zo'),
      toolDelta("a", ""),
      toolDelta("a", 'ne":1}'),
      toolEnd("a"),
    ],
    parts: [functionCall("a", "clock", { zone: 1 })],
  },
  "a function call without arguments": {
    events: [toolStart("a", "clock"), toolEnd("a")],
    parts: [functionCall("a", "clock")],
  },
  "a function call that was not ended": {
    events: [toolStart("a", "clock"), toolDelta("a", '{"zone":1}')],
    parts: [functionCall("a", "clock", { zone: 1 })],
  },
  "keys of the user's, whatever they are": {
    events: [toolStart("a", "f"), toolDelta("a", '{"__proto__":{"x":1},"mime_type":{"constructor":2}}'), toolEnd("a")],
    parts: [functionCall("a", "f", JSON.parse('{"__proto__":{"x":1},"mime_type":{"constructor":2}}') as object)],
  },
  "function calls in parallel, in the order of their beginnings": {
    events: [
      toolStart("a", "one"),
      toolDelta("a", '{"n"'),
      toolStart("b", "two"),
      toolDelta("b", '{"m"'),
      toolStart("c", "three"),
      toolDelta("a", ":1}"),
      toolDelta("c", "{}"),
      toolDelta("b", ":2}"),
      toolEnd("b"),
      toolEnd("a"),
      toolEnd("c"),
    ],
    parts: [functionCall("a", "one", { n: 1 }), functionCall("b", "two", { m: 2 }), functionCall("c", "three")],
    streamed: [[functionCall("a", "one", { n: 1 }), functionCall("b", "two", { m: 2 })], [functionCall("c", "three")]],
  },
  "text while a function call is open, after it": {
    events: [toolStart("a", "one"), "Meanwhile.", toolDelta("a", "{}"), toolEnd("a"), "Then."],
    parts: [functionCall("a", "one"), { text: "Meanwhile.Then." }],
    streamed: [[functionCall("a", "one"), { text: "Meanwhile." }], [{ text: "Then." }]],
  },
};

const others: Readonly<Record<string, ContentCase>> = {
  "code and its result between texts": {
    events: [
      "I run it.",
      { type: "code", language: "python", code: "print(1)\n", signature: "c2ln" },
      { type: "code-result", outcome: "ok", output: "1\n" },
      "It is 1.",
    ],
    parts: [
      { text: "I run it." },
      { executableCode: { language: "PYTHON", code: "print(1)\n" }, thoughtSignature: "c2ln" },
      { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1\n" } },
      { text: "It is 1." },
    ],
  },
  "code of no language, and the ids of both": {
    events: [
      { type: "code", id: "c1", language: "unspecified", code: "" },
      { type: "code-result", id: "c1", outcome: "failed", output: "" },
      { type: "code-result", outcome: "deadline-exceeded" },
      { type: "code-result", outcome: "unspecified" },
    ],
    parts: [
      { executableCode: { id: "c1", language: "LANGUAGE_UNSPECIFIED", code: "" } },
      { codeExecutionResult: { id: "c1", outcome: "OUTCOME_FAILED", output: "" } },
      { codeExecutionResult: { outcome: "OUTCOME_DEADLINE_EXCEEDED", output: "" } },
      { codeExecutionResult: { outcome: "OUTCOME_UNSPECIFIED", output: "" } },
    ],
  },
  "a picture": { events: ["Here:", picture], parts: [{ text: "Here:" }, { inlineData: PICTURE }] },
  "a picture that is a thought, and one with its signature": {
    events: [
      { ...picture, thought: true },
      { ...picture, signature: "c2ln" },
    ],
    parts: [
      { inlineData: PICTURE, thought: true },
      { inlineData: PICTURE, thoughtSignature: "c2ln" },
    ],
  },
};

export const CONTENTS: Readonly<Record<string, ContentCase>> = { ...texts, ...calls, ...others };

export const FINISH_REASONS: readonly (readonly [reason: FinishReason, finishReason: string])[] = [
  ["stop", "STOP"],
  ["stop-sequence", "STOP"],
  ["tool-calls", "STOP"],
  ["length", "MAX_TOKENS"],
  ["content-filter", "SAFETY"],
  ["recitation", "RECITATION"],
  ["language", "LANGUAGE"],
  ["other", "OTHER"],
  ["blocklist", "BLOCKLIST"],
  ["prohibited-content", "PROHIBITED_CONTENT"],
  ["personal-data", "SPII"],
  ["malformed-tool-call", "MALFORMED_FUNCTION_CALL"],
  ["unsafe-image", "IMAGE_SAFETY"],
];

/** Notes that come twice: what stands at the end. */
export const REPEATED_NOTES: readonly (readonly [name: string, notes: readonly Annotation[], fields: object])[] = [
  [
    "the newest safety ratings",
    [
      { type: "safety", ratings: [{ category: "harassment", probability: "high" }] },
      { type: "safety", ratings: [{ category: "harassment", probability: "low" }] },
    ],
    { safetyRatings: [{ category: "HARM_CATEGORY_HARASSMENT", probability: "LOW" }] },
  ],
  [
    "all citations",
    [
      { type: "citations", citations: [{ uri: "https://a.example" }] },
      { type: "citations", citations: [{ uri: "https://b.example" }] },
    ],
    { citationMetadata: { citationSources: [{ uri: "https://a.example" }, { uri: "https://b.example" }] } },
  ],
  [
    "the newest grounding",
    [
      { type: "grounding", searchQueries: ["a"], dynamicRetrievalScore: 0 },
      { type: "grounding", searchQueries: ["b"] },
    ],
    { groundingMetadata: { webSearchQueries: ["b"] } },
  ],
  [
    "all attributions",
    [
      { type: "attributions", attributions: [{ text: "a" }] },
      { type: "attributions", attributions: [{ passage: { partIndex: 0 } }] },
    ],
    {
      groundingAttributions: [
        { content: { parts: [{ text: "a" }] } },
        { sourceId: { groundingPassage: { partIndex: 0 } } },
      ],
    },
  ],
  [
    "the steps of all log probabilities, and the newest average",
    [
      { type: "logprobs", chosen: [{ token: "a", logProbability: -1 }], top: [], average: -1 },
      { type: "logprobs", chosen: [{ token: "b", tokenId: 0, logProbability: 0 }], top: [[]], average: -0.5 },
    ],
    {
      avgLogprobs: -0.5,
      logprobsResult: {
        chosenCandidates: [
          { token: "a", logProbability: -1 },
          { token: "b", tokenId: 0, logProbability: 0 },
        ],
        topCandidates: [{ candidates: [] }],
      },
    },
  ],
  [
    "the mean of log probabilities whose backend tells none",
    [
      { type: "logprobs", chosen: [{ token: "a", logProbability: -1 }], top: [] },
      { type: "logprobs", chosen: [{ token: "b", logProbability: -2 }], top: [] },
    ],
    {
      avgLogprobs: -1.5,
      logprobsResult: {
        chosenCandidates: [
          { token: "a", logProbability: -1 },
          { token: "b", logProbability: -2 },
        ],
        topCandidates: [],
      },
    },
  ],
  [
    "the newest retrieved URLs",
    [
      { type: "retrieved-urls", urls: ["https://a.example"] },
      { type: "retrieved-urls", urls: ["https://b.example"] },
    ],
    { urlRetrievalMetadata: { urlRetrievalContexts: [{ retrievedUrl: "https://b.example" }] } },
  ],
  [
    "the newest count of tokens",
    [
      { type: "token-count", tokens: 5 },
      { type: "token-count", tokens: 0 },
    ],
    { tokenCount: 0 },
  ],
];

export const USAGES: readonly (readonly [name: string, usage: Partial<Usage>, metadata: object])[] = [
  [
    "counts the input and the output",
    { inputTokens: 7, outputTokens: 3 },
    { promptTokenCount: 7, candidatesTokenCount: 3, totalTokenCount: 10 },
  ],
  [
    "counts what came from the cache as a part of the prompt",
    { inputTokens: 100, outputTokens: 9, cacheReadTokens: 30, cacheWriteTokens: 20 },
    { promptTokenCount: 100, cachedContentTokenCount: 30, candidatesTokenCount: 9, totalTokenCount: 109 },
  ],
  [
    "counts thoughts beside the answer",
    { inputTokens: 100, outputTokens: 9, reasoningTokens: 4 },
    { promptTokenCount: 100, candidatesTokenCount: 5, thoughtsTokenCount: 4, totalTokenCount: 109 },
  ],
  [
    "counts the results of tools beside the prompt",
    { inputTokens: 100, outputTokens: 9, toolUseTokens: 60 },
    { promptTokenCount: 40, toolUsePromptTokenCount: 60, candidatesTokenCount: 9, totalTokenCount: 109 },
  ],
  [
    "counts by modality",
    {
      inputTokens: 5,
      outputTokens: 6,
      details: {
        input: [
          { modality: "text", tokens: 1 },
          { modality: "image", tokens: 4 },
        ],
        output: [{ modality: "audio", tokens: 6 }],
        cacheRead: [{ modality: "video", tokens: 0 }],
        toolUse: [{ modality: "document", tokens: 2 }],
      },
    },
    {
      promptTokenCount: 5,
      candidatesTokenCount: 6,
      totalTokenCount: 11,
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 1 },
        { modality: "IMAGE", tokenCount: 4 },
      ],
      candidatesTokensDetails: [{ modality: "AUDIO", tokenCount: 6 }],
      cacheTokensDetails: [{ modality: "VIDEO", tokenCount: 0 }],
      toolUsePromptTokensDetails: [{ modality: "DOCUMENT", tokenCount: 2 }],
    },
  ],
];

export const BACKEND_FAULTS: readonly (readonly [name: string, events: Events])[] = [
  ["arguments that are no JSON", [toolStart("a", "n"), toolDelta("a", "{")]],
  ["arguments that are no object", [toolStart("a", "n"), toolDelta("a", "[]"), toolEnd("a")]],
  ["a function call that was not begun", [toolDelta("a", "{}")]],
  ["the end of a function call that was not begun", [toolEnd("a")]],
  ["a function call that goes on after its end", [toolStart("a", "n"), toolEnd("a"), toolDelta("a", "{}")]],
  ["a function call that was begun twice", [toolStart("a", "n"), toolStart("a", "n")]],
  ["a candidate that nobody asked for", [{ type: "text-delta", text: "x", candidate: 1 }]],
];
