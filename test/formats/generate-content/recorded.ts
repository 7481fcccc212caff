/** What the backend yields in each of the recorded generate-content cases, and what else a case needs to come about. */

import { finish, hello, note, reasoning, type Recorded, start, text } from "./recorded-events.ts";
import { ENDINGS, NOTES } from "./recorded-notes.ts";

export type { Recorded } from "./recorded-events.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

const PLAIN: Readonly<Record<string, Recorded>> = {
  plain: hello("resp_plain"),
  "line-separators": [
    start("resp_lines", 8),
    text('\u2028 and \u2029, \u0000 and \u007f, \r\n and " and \\'),
    finish("stop", 12),
  ],
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

export const RECORDED_ANSWERS: Readonly<Record<string, Recorded>> = {
  ...PLAIN,
  ...TOOLS,
  ...CONFIG,
  ...NOTES,
  ...ENDINGS,
};
