/** What the user asks for, before it is written in a format. */

import type { JsonObject } from "../json.ts";

export interface ChatDraft {
  readonly model: string;
  readonly system: string;
  readonly prompt: string;
  readonly maxTokens: number;
  readonly stream: boolean;
  readonly thinking: boolean;
  /** Whether the model may call the weather tool. */
  readonly tools: boolean;
  /** The JSON Schema that the answer must satisfy, as text. */
  readonly schema: string | undefined;
  readonly codeExecution: boolean;
}

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

/** How many tokens a model may think. */
export const THINKING_TOKENS = 1_024;
