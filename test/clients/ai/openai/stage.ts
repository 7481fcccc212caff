/** The `ai` SDK's openai image models, as the suites take them. */

import { createOpenAI } from "@ai-sdk/openai";
import type { ImageModel } from "ai";
import type { Playground } from "../../playground.ts";

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
