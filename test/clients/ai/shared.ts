/** What the suites of the `ai` SDK share, whatever the provider. */

import {
  APICallError,
  jsonSchema,
  type LanguageModel,
  type Schema,
  type TextStreamPart,
  tool,
  type Tool,
  type ToolSet,
} from "ai";
import type { Playground } from "../playground.ts";

/** What a suite that runs with each provider needs of it. */
export interface ChatStage {
  readonly playground: () => Playground;
  /** What every call says beside what it tests. */
  readonly plain: (apiKey?: string) => { readonly model: LanguageModel; readonly maxRetries: number };
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

/** Everything that a stream brings. */
export async function partsOf<Tools extends ToolSet>(
  stream: AsyncIterable<TextStreamPart<Tools>>,
): Promise<TextStreamPart<Tools>[]> {
  const parts: TextStreamPart<Tools>[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** The error that a call ends with; a call that succeeds fails the test. */
export async function apiErrorOf(call: PromiseLike<unknown>): Promise<APICallError> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!APICallError.isInstance(error)) throw new Error("The call was expected to fail with an APICallError.");
  return error;
}
