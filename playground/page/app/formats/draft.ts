/** The user's chat request, independent of any format. */

import type { JsonObject } from "../json.ts";
import type { Answer } from "./answer.ts";

export interface ChatDraft {
  readonly model: string;
  readonly system: string;
  /** The earlier turns, with their answers in the format of this conversation. */
  readonly past: readonly PastTurn[];
  /** The results of the last answer's calls, to send with or without a prompt. */
  readonly results: readonly ToolResult[];
  readonly prompt: string;
  readonly maxTokens: number;
  /** Undefined uses the model's default. */
  readonly temperature: number | undefined;
  readonly stream: boolean;
  /** The effort of the model's thinking; undefined for none. */
  readonly thinking: Effort | undefined;
  /** True if the model may call the weather tool. */
  readonly tools: boolean;
  /** The JSON Schema that the answer must satisfy, as text. */
  readonly schema: string | undefined;
  readonly codeExecution: boolean;
}

/** The user's side of a turn. */
export type Said = Pick<ChatDraft, "prompt" | "results">;

export interface PastTurn extends Said {
  readonly answer: Answer;
}

export interface ToolResult {
  /** The call's id. */
  readonly id: string;
  readonly name: string;
  readonly text: string;
}

/** Returns all turns of a draft. The last turn has no answer yet. */
export const turnsOf = ({ past, prompt, results }: ChatDraft): readonly (Said & { readonly answer?: Answer })[] => [
  ...past,
  { prompt, results },
];

/** The only tool of the page. */
export const WEATHER: { readonly name: string; readonly description: string; readonly schema: JsonObject } = {
  name: "get_weather",
  description: "The weather in a city right now.",
  schema: {
    type: "object",
    properties: { city: { type: "string" }, unit: { type: "string", enum: ["celsius", "fahrenheit"] } },
    required: ["city"],
  },
};

export const EFFORTS = ["low", "medium", "high"] as const;
export type Effort = (typeof EFFORTS)[number];

/** The share of the output for thinking, for formats that need a number of tokens. */
const SHARES = { low: 0.25, medium: 0.5, high: 0.75 } as const satisfies Record<Effort, number>;

/** The smallest number of tokens that such formats accept. */
const LEAST_THINKING = 1_024;

/** Returns the tokens for thinking. */
export const thinkingTokens = (effort: Effort, maxTokens: number): number =>
  Math.max(LEAST_THINKING, Math.floor(SHARES[effort] * maxTokens));
