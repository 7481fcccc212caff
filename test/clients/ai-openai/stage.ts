/** The `ai` SDK's openai image models, as the suites take them. */

import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, type ImageModel } from "ai";
import type { Playground } from "../playground.ts";

/** What a suite runs with. */
export interface Stage {
  readonly playground: () => Playground;
  /** What every call says beside what it tests: it is tried once. */
  readonly plain: (id?: string, apiKey?: string) => { readonly model: ImageModel; readonly maxRetries: number };
}

export function stageOf(playground: () => Playground): Stage {
  const plain: Stage["plain"] = (id = "gpt-image-1", apiKey = "sk-demo") => ({
    model: createOpenAI({ baseURL: `${playground().url}/v1`, apiKey }).image(id),
    maxRetries: 0,
  });
  return { playground, plain };
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
