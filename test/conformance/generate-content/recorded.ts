/** What the backend yields in each of the recorded generate-content cases, and what else a case needs to come about. */

import {
  type Annotation,
  type ApiKeyOptions,
  type ChatEvent,
  type FinishReason,
  GatewayError,
  type HarmCategory,
  type HarmProbability,
  type Limits,
  type PromptFeedback,
} from "../../../src/index.ts";

/** What a backend yields; an error in it is thrown. */
export type Recorded = readonly (ChatEvent | Error)[];

const start = (id: string, inputTokens: number): ChatEvent => ({
  type: "start",
  id,
  model: "model-a-001",
  usage: { inputTokens },
});
const text = (text: string): ChatEvent => ({ type: "text-delta", text });
const reasoning = (text: string): ChatEvent => ({ type: "reasoning-delta", text });
const note = (annotation: Annotation): ChatEvent => ({ type: "annotation", annotation });
const finish = (reason: FinishReason, outputTokens: number): ChatEvent => ({
  type: "finish",
  reason,
  usage: { outputTokens },
});

const hello = (id: string): Recorded => [
  start(id, 9),
  text("Hello"),
  text(", 世界"),
  text(" 🌍!\n"),
  finish("stop", 7),
];

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

const rating = (category: HarmCategory, probability: HarmProbability, blocked?: boolean) => ({
  category,
  probability,
  ...(blocked !== undefined && { blocked }),
});

/** Ended before its end for a reason that a filter or the model gave. */
const ended = (reason: FinishReason): Recorded => [start(`resp_${reason}`, 6), text("Well"), finish(reason, 2)];

/** Not answered at all. */
const blocked = (blockReason: NonNullable<PromptFeedback["blockReason"]>): Recorded => [
  start(`resp_blocked_${blockReason}`, 6),
  { type: "prompt-feedback", blockReason, ratings: [rating("dangerous-content", "high", true)] },
  { type: "finish", reason: "content-filter", usage: { outputTokens: 0 } },
];

const PLAIN: Readonly<Record<string, Recorded>> = {
  plain: hello("resp_plain"),
  "text-contents": hello("resp_text"),
  "single-content": hello("resp_single"),
  "system-and-history": [start("resp_history", 48), text("Nine"), text("."), finish("stop", 2)],
  "snake-case": [start("resp_snake", 700), text('["a'), text(' dot"]'), finish("stop", 5)],
  "cached-content": [start("resp_cached", 5), text("And so on."), finish("stop", 4)],
  "line-separators": [
    start("resp_lines", 8),
    text('\u2028 and \u2029, \u0000 and \u007f, \r\n and " and \\'),
    finish("stop", 12),
  ],
  "media-image": [start("resp_image", 384), text("Five pictures, and a dot."), finish("stop", 7)],
  "media-audio": [start("resp_audio", 1536), text("Six sounds."), finish("stop", 4)],
  "media-video": [start("resp_video", 2304), text("Nine films."), finish("stop", 4)],
  "media-document": [start("resp_document", 258), text("It is empty."), finish("stop", 4)],
  "response-enum": [start("resp_enum", 31), text("Key"), text("board"), finish("stop", 1)],
  "json-schemas": [start("resp_schemas", 60), text('{"born":1815}'), finish("stop", 6)],
  "response-schema": [start("resp_schema", 120), text('{"name":"Ada",'), text('"field":"POETRY"}'), finish("stop", 12)],
};

const TOOLS: Readonly<Record<string, Recorded>> = {
  tools: [
    start("resp_tools", 310),
    text("I will look it up."),
    { type: "tool-call-start", id: "call_weather", name: "get_weather", signature: "c2VhbA==" },
    { type: "tool-call-delta", id: "call_weather", json: '{"city": "Wü' },
    { type: "tool-call-delta", id: "call_weather", json: 'rzburg", "days": 2}' },
    { type: "tool-call-end", id: "call_weather" },
    finish("tool-calls", 41),
  ],
  "tool-mode-unspecified": [
    start("resp_unspecified", 90),
    { type: "tool-call", id: "call_a", name: "get_weather", input: { city: "Oslo" } },
    finish("tool-calls", 9),
  ],
  "tool-mode-any": [
    start("resp_any", 140),
    { type: "tool-call-start", id: "call_a", name: "get_weather" },
    { type: "tool-call-delta", id: "call_a", json: '{"city":' },
    { type: "tool-call-start", id: "call_b", name: "get_time" },
    { type: "tool-call-delta", id: "call_b", json: '{"zone":"UTC"}' },
    { type: "tool-call-end", id: "call_b" },
    { type: "tool-call-delta", id: "call_a", json: '"Oslo"}' },
    { type: "tool-call-end", id: "call_a" },
    finish("tool-calls", 33),
  ],
  "tool-mode-none": [start("resp_none", 88), text("I cannot know."), finish("stop", 5)],
  "function-response": [start("resp_response", 160), text("It rains"), text(" at noon."), finish("stop", 6)],
  "provider-tools": [start("resp_provider", 14), text("Nothing."), finish("stop", 2)],
  "code-execution": [
    start("resp_code", 24),
    text("I will sum them."),
    { type: "code", language: "python", code: "print(sum(primes(50)))\n" },
    { type: "code-result", outcome: "failed", output: "NameError: name 'primes' is not defined\n" },
    { type: "code", language: "unspecified", code: "5117\n" },
    { type: "code-result", outcome: "deadline-exceeded" },
    { type: "code-result", outcome: "unspecified" },
    { type: "code", language: "python", code: "print(5117)\n", signature: "Y29kZQ==" },
    { type: "code-result", outcome: "ok", output: "5117\n" },
    text("It is 5117."),
    finish("stop", 88),
  ],
};

const CONFIG: Readonly<Record<string, Recorded>> = {
  "generation-config": [
    start("resp_config", 12),
    text("Once"),
    { type: "text-delta", text: "Twice", candidate: 1 },
    { type: "finish", reason: "stop-sequence", stopSequence: "END", candidate: 1 },
    finish("length", 2048),
  ],
  candidates: [
    start("resp_candidates", 5),
    text("He"),
    { type: "text-delta", text: "Ta", candidate: 1 },
    text("ads."),
    { type: "text-delta", text: "ils.", candidate: 1 },
    { type: "text-delta", text: "Ed", candidate: 2 },
    { type: "finish", reason: "stop", candidate: 1 },
    { type: "text-delta", text: "ge", candidate: 2 },
    { type: "finish", reason: "length", candidate: 2 },
    finish("stop", 9),
  ],
  thinking: [
    start("resp_thinking", 52),
    reasoning("27 is 3 cubed."),
    reasoning(" So the root is 3."),
    { type: "reasoning-signature", signature: "EqoBCkgIARABGAIiQL8=" },
    text("The cube root is 3."),
    { type: "finish", reason: "stop", usage: { outputTokens: 38, reasoningTokens: 25 } },
  ],
  "thought-returned": [
    start("resp_thought", 60),
    { type: "text-delta", text: "4.", signature: "c2VhbA==" },
    finish("stop", 2),
  ],
  speech: [
    start("resp_speech", 4),
    { type: "media", mediaType: "audio/wav", data: "UklGRgAAAABXQVZF" },
    finish("stop", 32),
  ],
  "speech-of-several": [
    start("resp_several", 18),
    { type: "media", mediaType: "audio/wav", data: "UklGRgAAAABXQVZF" },
    finish("stop", 96),
  ],
  "picture-answer": [
    start("resp_picture", 6),
    { type: "media", mediaType: "image/png", data: PNG, thought: true },
    text("Here it is."),
    { type: "media", mediaType: "image/png", data: PNG, signature: "cGljdHVyZQ==" },
    finish("stop", 1300),
  ],
  logprobs: [
    start("resp_logprobs", 3),
    text("Yes"),
    note({
      type: "logprobs",
      chosen: [{ token: "Yes", tokenId: 3553, logProbability: -0.125 }],
      top: [
        [
          { token: "Yes", tokenId: 3553, logProbability: -0.125 },
          { token: "yes", logProbability: -2.5 },
        ],
      ],
      average: -0.125,
    }),
    text("."),
    note({
      type: "logprobs",
      chosen: [{ token: ".", tokenId: 1, logProbability: -0.375 }],
      top: [[{ token: ".", tokenId: 1, logProbability: -0.375 }]],
      average: -0.25,
    }),
    finish("stop", 2),
  ],
};

const NOTES: Readonly<Record<string, Recorded>> = {
  safety: [
    start("resp_safety", 6),
    { type: "prompt-feedback", ratings: [rating("harassment", "negligible")] },
    text("Why did"),
    note({
      type: "safety",
      ratings: [
        rating("harassment", "negligible"),
        rating("hate-speech", "low", false),
        rating("sexually-explicit", "medium"),
        rating("dangerous-content", "high", true),
        rating("civic-integrity", "unspecified"),
        rating("unspecified", "negligible"),
        rating("derogatory", "negligible"),
        rating("toxicity", "negligible"),
        rating("violence", "negligible"),
        rating("sexual", "negligible"),
        rating("medical", "negligible"),
        rating("dangerous", "negligible"),
      ],
    }),
    finish("content-filter", 3),
  ],
  "safety-by-default": hello("resp_default"),
  grounding: [
    start("resp_grounding", 5),
    text("The home team won."),
    note({
      type: "grounding",
      chunks: [{ uri: "https://news.example/1", title: "news.example" }, { uri: "https://sport.example/2" }],
      supports: [
        {
          chunkIndices: [0, 1],
          confidenceScores: [0.75, 1],
          segment: { partIndex: 0, start: 0, end: 18, text: "The home team won." },
        },
      ],
      searchQueries: ["who won"],
      searchEntryPoint: { renderedContent: "<b>who won</b>", sdkBlob: "W10=" },
      dynamicRetrievalScore: 0.5,
    }),
    finish("stop", 5),
  ],
  citations: [
    start("resp_citations", 7),
    text("Call me Ishmael."),
    note({
      type: "citations",
      citations: [{ start: 0, end: 16, uri: "https://books.example/whale", license: "public domain" }],
    }),
    text(" Some years ago"),
    note({ type: "citations", citations: [{ start: 16, end: 31, uri: "https://books.example/whale" }] }),
    finish("stop", 8),
  ],
  attributions: [
    start("resp_attributions", 8),
    text("That it works."),
    note({
      type: "attributions",
      attributions: [
        { passage: { id: "passage-1", partIndex: 0 }, text: "It works." },
        { chunk: { source: "corpora/c/documents/d", chunk: "corpora/c/documents/d/chunks/1" }, text: "It does." },
      ],
    }),
    finish("stop", 4),
  ],
  "url-context": [
    start("resp_urls", 200),
    note({ type: "retrieved-urls", urls: ["https://a.example/"] }),
    note({
      type: "url-context",
      urls: [
        { url: "https://a.example/", status: "success" },
        { url: "https://b.example/", status: "error" },
        { url: "https://c.example/", status: "unspecified" },
      ],
    }),
    text("Only one can be read."),
    note({ type: "token-count", tokens: 6 }),
    finish("stop", 6),
  ],
  usage: [
    start("resp_usage", 100),
    text("Counted."),
    {
      type: "finish",
      reason: "stop",
      usage: {
        inputTokens: 100,
        outputTokens: 50,
        cacheReadTokens: 40,
        reasoningTokens: 20,
        toolUseTokens: 10,
        details: {
          input: [
            { modality: "text", tokens: 50 },
            { modality: "image", tokens: 10 },
            { modality: "video", tokens: 10 },
            { modality: "audio", tokens: 10 },
            { modality: "document", tokens: 10 },
          ],
          output: [{ modality: "text", tokens: 30 }],
          cacheRead: [{ modality: "text", tokens: 40 }],
          toolUse: [{ modality: "unspecified", tokens: 10 }],
        },
      },
    },
  ],
};

const ENDINGS: Readonly<Record<string, Recorded>> = {
  "finish-stop": ended("stop"),
  "finish-max-tokens": ended("length"),
  "finish-safety": ended("content-filter"),
  "finish-recitation": ended("recitation"),
  "finish-language": ended("language"),
  "finish-other": ended("other"),
  "finish-blocklist": ended("blocklist"),
  "finish-prohibited-content": ended("prohibited-content"),
  "finish-spii": ended("personal-data"),
  "finish-malformed-function-call": ended("malformed-tool-call"),
  "finish-image-safety": ended("unsafe-image"),
  "blocked-unspecified": blocked("unspecified"),
  "blocked-safety": blocked("safety"),
  "blocked-other": blocked("other"),
  "blocked-blocklist": blocked("blocklist"),
  "blocked-prohibited-content": blocked("prohibited-content"),
  "blocked-image-safety": blocked("unsafe-image"),
  "error-mid-stream": [
    start("resp_error", 9),
    text("Let me th"),
    new GatewayError("backend_unavailable", "The model is overloaded."),
  ],
};

/** Requests that are answered. */
export const RECORDED_ANSWERS: Readonly<Record<string, Recorded>> = {
  ...PLAIN,
  ...TOOLS,
  ...CONFIG,
  ...NOTES,
  ...ENDINGS,
};

/** Why a request is refused. */
export interface RecordedRefusal {
  readonly status: number;
  /** Default: the unlimited key; null for none. */
  readonly apiKey?: string | null;
  readonly model?: string;
  readonly limits?: Partial<Limits>;
  /** What the backend throws. */
  readonly thrown?: Error;
}

/** One refused request for each row of spec 7.3. */
export const RECORDED_REFUSALS: Readonly<Record<string, RecordedRefusal>> = {
  "error-invalid-argument": { status: 400 },
  "error-failed-precondition": {
    status: 400,
    thrown: new GatewayError("failed_precondition", 'There is no cached content "cachedContents/of-nobody".'),
  },
  "error-unauthenticated": { status: 401, apiKey: null },
  "error-permission-denied": { status: 403, apiKey: "sk-empty" },
  "error-not-found": { status: 404, model: "model-z" },
  "error-payload-too-large": { status: 413, limits: { maxJsonBytes: 500 } },
  "error-resource-exhausted": { status: 429, apiKey: "sk-scarce" },
  "error-internal": { status: 500, thrown: new Error("connect to 10.0.0.7") },
  "error-unavailable": { status: 503, thrown: new GatewayError("backend_unavailable", "The model is overloaded.") },
  "error-deadline-exceeded": { status: 504, thrown: new GatewayError("deadline_exceeded", "The model took too long.") },
};

export const RECORDED_KEYS: readonly ApiKeyOptions[] = [
  { apiKey: "sk-unlimited" },
  { apiKey: "sk-empty", granted: 100, used: 100 },
  { apiKey: "sk-scarce", granted: 2 },
];
