/** Facts about models, found by their names: how their providers treat signatures and earlier reasoning. */

import type { CodecOptions } from "../format.ts";
import { nameOf } from "../shared/openai.ts";

export const isGemini = (model: string): boolean => nameOf(model).includes("gemini");

/** Tells whether a Gemini model refuses a tool call without a signature. The models before Gemini 3 do not. */
export const demandsSignatures = (model: string): boolean => isGemini(model) && !/gemini-[12]\b/.test(nameOf(model));

/** Tells whether a model is known to come from another maker than Google. Such a provider may refuse the field for signatures. */
export const isOfOthers = (model: string): boolean =>
  /^(?:gpt|o\d|chatgpt|claude|deepseek|qwen|qwq|glm|kimi|moonshot|minimax|grok|llama|command|(?:mi|ma|mini|code|dev)stral)/.test(
    nameOf(model),
  );

/** The treatment of earlier reasoning by a provider: it takes the fields of its own answers, demands them, or refuses them. */
interface History {
  /** True where each turn with tool calls must have `reasoning_content`, at least as an empty text. */
  readonly demands: boolean;
  /** True where a message may have no field for reasoning. */
  readonly refusesFields: boolean;
  /** True where a message may have no part for reasoning in its content. */
  readonly refusesParts: boolean;
}

/** Returns the treatment by the option of the host, or by the models that are known: OpenAI's, Mistral's, DeepSeek's and Kimi's. */
export function historyOf(model: string, { reasoningHistory = "auto" }: CodecOptions): History {
  if (reasoningHistory !== "auto") {
    const refuses = reasoningHistory === "never";
    return { demands: !refuses, refusesFields: refuses, refusesParts: refuses };
  }
  const name = nameOf(model);
  const isOpenAI = /^(?:gpt-\d|chatgpt|o[1-9](?:-|$))/.test(name);
  return {
    demands: /deepseek|kimi/.test(name),
    refusesFields: isOpenAI || /(?:mi|ma|mini|code|dev)stral/.test(name),
    refusesParts: isOpenAI,
  };
}
