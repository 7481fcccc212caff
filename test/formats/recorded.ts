/** What the backend yields in each of the recorded messages cases, and which key asks in each of the token usage ones. */

import { type ApiKeyOptions, type ChatEvent, GatewayError } from "../../src/index.ts";

/** What a backend yields; an error in it is thrown. */
export type Recorded = readonly (ChatEvent | GatewayError)[];

const start = (id: string, inputTokens: number, more: object = {}): ChatEvent => ({
  type: "start",
  id,
  usage: { inputTokens, ...more },
});

const text = (text: string): ChatEvent => ({ type: "text-delta", text });
const reasoning = (text: string): ChatEvent => ({ type: "reasoning-delta", text });
const call = (id: string, name: string): ChatEvent => ({ type: "tool-call-start", id, name });
const json = (id: string, json: string): ChatEvent => ({ type: "tool-call-delta", id, json });
const called = (id: string): ChatEvent => ({ type: "tool-call-end", id });

const finish = (reason: Extract<ChatEvent, { type: "finish" }>["reason"], outputTokens: number): ChatEvent => ({
  type: "finish",
  reason,
  usage: { outputTokens },
});

export const RECORDED_MESSAGES: Readonly<Record<string, Recorded>> = {
  plain: [start("msg_plain", 11), text("Hello"), text(", 世界"), text(" 🌍!\n"), finish("stop", 9)],
  "stop-sequence": [
    start("msg_stop", 17),
    text("1\n2\n3\n"),
    { type: "finish", reason: "stop-sequence", stopSequence: "4", usage: { outputTokens: 6 } },
  ],
  tools: [
    start("msg_tools", 310),
    text("I will look it up."),
    call("toolu_weather", "get_weather"),
    json("toolu_weather", '{"city": "Wü'),
    json("toolu_weather", 'rzburg", "days": 2}'),
    called("toolu_weather"),
    finish("tool-calls", 41),
  ],
  "parallel-tools": [
    start("msg_parallel", 290),
    call("toolu_a", "get_weather"),
    json("toolu_a", '{"city":'),
    call("toolu_b", "get_time"),
    json("toolu_b", '{"zone":"UTC"}'),
    called("toolu_b"),
    json("toolu_a", '"Oslo"}'),
    { type: "tool-call", id: "toolu_c", name: "get_weather", input: { city: "Rome" } },
    called("toolu_a"),
    finish("tool-calls", 77),
  ],
  thinking: [
    start("msg_thinking", 52),
    reasoning("27 is 3 cubed."),
    reasoning(" So the root is 3."),
    { type: "reasoning-signature", signature: "EqoBCkgIARABGAIiQL8=" },
    text("The cube root is 3."),
    { type: "finish", reason: "stop", usage: { outputTokens: 38, reasoningTokens: 25 } },
  ],
  "cached-image": [
    start("msg_cached", 1600, { cacheReadTokens: 1024, cacheWriteTokens: 256 }),
    text("A red dot."),
    finish("stop", 5),
  ],
  "error-mid-stream": [
    start("msg_error", 11),
    text("Let me th"),
    new GatewayError("backend_unavailable", "The model is overloaded."),
  ],
};

export const RECORDED_KEYS: readonly ApiKeyOptions[] = [
  { apiKey: "sk-metered", name: "Team A", granted: 1_000_000, used: 250_000, expiresAt: 1_900_000_000 },
  { apiKey: "sk-unlimited", name: "Operations", expiresAt: -1 },
  { apiKey: "sk-limited", name: "Intern", granted: 5_000, models: ["model-a", "model-b"] },
  { apiKey: "sk-expired", name: "Summer 2023", granted: 5_000, used: 5_000, expiresAt: 1_700_000_000 },
];

/** The Authorization header of each recorded token usage case; undefined where there is none. */
export const RECORDED_TOKEN_USAGE: Readonly<Record<string, string | undefined>> = {
  metered: "Bearer sk-metered",
  unlimited: "Bearer sk-unlimited",
  limited: "Bearer limited",
  expired: "Bearer sk-expired",
  "no-header": undefined,
  "wrong-scheme": "Basic c2stbWV0ZXJlZDo=",
  unknown: "Bearer sk-nobody",
};
