/** What the user asks for, before it is written in a format. */

import type { JsonObject } from "../json.ts";
import type { Answer } from "./answer.ts";

export interface ChatDraft {
  readonly model: string;
  readonly system: string;
  /** The turns before this one, with the answers that came in the format that the draft is written in. */
  readonly past: readonly PastTurn[];
  /** Results of the calls of the answer before, sent along with the prompt or without one. */
  readonly results: readonly ToolResult[];
  readonly prompt: string;
  readonly maxTokens: number;
  /** Undefined leaves it to the model. */
  readonly temperature: number | undefined;
  readonly stream: boolean;
  /** The effort of the model's thinking; undefined for none. */
  readonly thinking: Effort | undefined;
  /** Whether the model may call the weather tool. */
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

/** All turns of a draft; the last one has no answer yet. */
export const turnsOf = ({ past, prompt, results }: ChatDraft): readonly (Said & { readonly answer?: Answer })[] => [
  ...past,
  { prompt, results },
];

/** The one tool of the page. */
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

/** The share of the output that a model may think, for the formats that ask for a number of tokens. */
const SHARES = { low: 0.25, medium: 0.5, high: 0.75 } as const satisfies Record<Effort, number>;

/** The least that such formats take. */
const LEAST_THINKING = 1_024;

/** How many tokens a model may think. */
export const thinkingTokens = (effort: Effort, maxTokens: number): number =>
  Math.max(LEAST_THINKING, Math.floor(SHARES[effort] * maxTokens));
