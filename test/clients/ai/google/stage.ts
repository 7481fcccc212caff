/** The `ai` SDK's google provider, as the suites take it, and what the suites share. */

import { createGoogle } from "@ai-sdk/google";
import type { LanguageModel } from "ai";
import type { Playground } from "../../playground.ts";

/** What every call says beside what it tests: it is tried once. */
interface PlainCall {
  readonly model: LanguageModel;
  readonly maxRetries: number;
}

/** What a suite runs with. */
export interface Stage {
  readonly playground: () => Playground;
  readonly modelFor: (apiKey: string, id?: string, version?: string) => LanguageModel;
  readonly plain: (apiKey?: string) => PlainCall;
  /** A call to the same model under a name for which the provider offers what it holds back from names that it does not know. */
  readonly asGemini: () => PlainCall;
}

const GEMINI = "gemini-3-flash";

const renamed: typeof fetch = (input, init) =>
  fetch(String(input instanceof Request ? input.url : input).replace(GEMINI, "demo-chat"), init);

export function stageOf(playground: () => Playground): Stage {
  const modelFor = (apiKey: string, id = "demo-chat", version = "v1beta"): LanguageModel =>
    createGoogle({ baseURL: `${playground().url}/${version}`, apiKey })(id);
  const gemini = (): LanguageModel =>
    createGoogle({ baseURL: `${playground().url}/v1beta`, apiKey: "sk-demo", fetch: renamed })(GEMINI);
  return {
    playground,
    modelFor,
    plain: (apiKey = "sk-demo") => ({ model: modelFor(apiKey), maxRetries: 0 }),
    asGemini: () => ({ model: gemini(), maxRetries: 0 }),
  };
}

/** Provider options that ask for thoughts. */
export const thinking: {
  readonly google: { readonly thinkingConfig: { includeThoughts: boolean; thinkingBudget: number } };
} = { google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1_024 } } };
