/** The `ai` SDK's anthropic provider, as the suites take it, and what the suites share. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { jsonSchema, type LanguageModel, type Schema, type TextStreamPart, tool, type Tool, type ToolSet } from "ai";
import type { Playground } from "../playground.ts";

/** What every call says beside what it tests: it is tried once, and its limit keeps the SDK from warning of an unknown model. */
interface PlainCall {
  readonly model: LanguageModel;
  readonly maxRetries: number;
  readonly maxOutputTokens: number;
}

/** What a suite runs with. */
export interface Stage {
  readonly playground: () => Playground;
  readonly modelFor: (apiKey: string, id?: string) => LanguageModel;
  readonly plain: (apiKey?: string) => PlainCall;
}

export function stageOf(playground: () => Playground): Stage {
  const modelFor = (apiKey: string, id = "demo-chat"): LanguageModel =>
    createAnthropic({ baseURL: `${playground().url}/v1`, apiKey })(id);
  const plain = (apiKey = "sk-demo"): PlainCall => ({
    model: modelFor(apiKey),
    maxRetries: 0,
    maxOutputTokens: 1_000,
  });
  return { playground, modelFor, plain };
}

export interface City {
  readonly city: string;
}

export const citySchema: Schema<City> = jsonSchema<City>({
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
});

export const weather: Tool<City, string> = tool({
  description: "Tells the weather of a city.",
  inputSchema: citySchema,
  execute: ({ city }) => `sunny in ${city}`,
});
export const tides: Tool<Record<string, never>, string> = tool({
  description: "Tells when the sea is high.",
  inputSchema: jsonSchema<Record<string, never>>({ type: "object", properties: {}, additionalProperties: false }),
  execute: () => "at noon",
});

/** Provider options that ask for thoughts. */
export const thinking: { readonly anthropic: { readonly thinking: { type: string; budgetTokens: number } } } = {
  anthropic: { thinking: { type: "enabled", budgetTokens: 1_024 } },
};

/** Everything that a stream brings. */
export async function partsOf<Tools extends ToolSet>(
  stream: AsyncIterable<TextStreamPart<Tools>>,
): Promise<TextStreamPart<Tools>[]> {
  const parts: TextStreamPart<Tools>[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}
