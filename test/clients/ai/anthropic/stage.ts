/** The `ai` SDK's anthropic provider, as the suites take it, and what the suites share. */

import { createAnthropic } from "@ai-sdk/anthropic";
import type { LanguageModel } from "ai";
import type { Playground } from "../../playground.ts";

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

/** Provider options that ask for thoughts. */
export const thinking: { readonly anthropic: { readonly thinking: { type: string; budgetTokens: number } } } = {
  anthropic: { thinking: { type: "enabled", budgetTokens: 1_024 } },
};
