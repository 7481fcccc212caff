/** What the backend yields in each of the recorded generate-content cases, and what else a case needs to come about. */

import { type ApiKeyOptions, GatewayError, type Limits } from "../../../src/index.ts";
import { finish, hello, note, reasoning, type Recorded, start, text } from "./recorded-events.ts";
import { ENDINGS, NOTES } from "./recorded-notes.ts";

export type { Recorded } from "./recorded-events.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

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
