/** What is known about models by their names. Providers of this format differ most in how their models reason. */

import type { ReasoningControl } from "../../kinds/chat/request.ts";
import type { CodecOptions } from "../format.ts";

/** Returns the name in lower case, without a provider or the mark of fine-tuning before it: `openai/gpt-5` is `gpt-5`. */
const nameOf = (model: string): string =>
  model
    .slice(model.lastIndexOf("/") + 1)
    .replace(/^ft:/, "")
    .toLowerCase();

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

/** The levels of effort, from least to most, with `none` for no reasoning. */
const LEVELS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type EffortLevel = (typeof LEVELS)[number];

/** OpenAI's reasoning models: the series o1, o3, o4, and GPT-5 and later. */
interface ReasoningModel {
  /** The levels of effort that the model accepts. */
  readonly levels: readonly EffortLevel[];
}

/** Returns what is known of an OpenAI model that reasons; undefined for any other model. */
export function reasoningModel(model: string): ReasoningModel | undefined {
  const name = nameOf(model);
  if (/^o[1-9](?:-|$)/.test(name)) return { levels: ["low", "medium", "high"] };
  const [, major = "0", minor = "0", rest = ""] = /^gpt-(\d+)(?:\.(\d+))?(.*)/.exec(name) ?? [];
  if (Number(major) < 5 || rest.startsWith("-chat") || rest.startsWith("-search")) return undefined;
  const version = Number(major) * 100 + Number(minor);
  if (rest.startsWith("-pro")) return { levels: version === 500 ? ["high"] : ["medium", "high", "xhigh"] };
  if (rest.startsWith("-codex")) return { levels: ["low", "medium", "high"] };
  if (version === 500) return { levels: ["minimal", "low", "medium", "high"] };
  return { levels: ["none", "low", "medium", "high", ...(version > 501 ? (["xhigh"] as const) : [])] };
}

/** Returns how a model's reasoning is controlled, by the names that are known. An unknown model is given an effort. */
export const reasoningControl = (model: string): ReasoningControl =>
  reasoningModel(model) || !/^(?:gpt-[345]|chatgpt)/.test(nameOf(model)) ? "effort" : "none";

/** Returns the level that a model accepts and that is nearest to the wanted one, rather more than less. */
export function nearestLevel(model: string, level: EffortLevel): EffortLevel {
  const { levels = LEVELS } = reasoningModel(model) ?? {};
  const wanted = LEVELS.indexOf(level);
  return levels.find((known) => LEVELS.indexOf(known) >= wanted) ?? levels.at(-1) ?? level;
}
