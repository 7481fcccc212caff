/** Converts the thinking config of a request in both directions. Each model lets a request control its thinking in another way. */

import { budgetOf, budgetWithin, effortOf } from "../../kinds/chat/reasoning.ts";
import type { ChatRequest, Reasoning, ReasoningControl, ReasoningEffort } from "../../kinds/chat/request.ts";
import type { CodecOptions } from "../format.ts";
import type { ConvertedField } from "../shared/conversions.ts";
import type { ThinkingConfig } from "./schema.config.ts";
import { given, readWord, THINKING_LEVEL } from "./schema.wire.ts";

type Level = "minimal" | "low" | "medium" | "high";
const LEVELS: readonly Level[] = ["minimal", "low", "medium", "high"];

/** The thinking of a family of models, as Google documents it. */
interface ThinkingModel {
  readonly name: RegExp;
  readonly control: ReasoningControl;
  /** The levels that the models know, from least to most. */
  readonly levels?: readonly Level[];
  /** The smallest and the largest budget, in tokens. A budget of 0 turns the thinking off, unless `isAlwaysOn` is set. */
  readonly budgets?: readonly [min: number, max: number];
  readonly isAlwaysOn?: true;
}

/** The first entry whose name matches is the model's. */
const MODELS: readonly ThinkingModel[] = [
  { name: /(?:^|\/)gemini-(?:1|2\.0|2\.5-.*(?:image|tts))/, control: "none" },
  { name: /(?:^|\/)gemma-[123]/, control: "none" },
  { name: /(?:^|\/)gemini-2\.5-pro/, control: "budget", budgets: [128, 32_768], isAlwaysOn: true },
  { name: /(?:^|\/)gemini-2\.5-flash-lite/, control: "budget", budgets: [512, 24_576] },
  { name: /(?:^|\/)gemini-2\.5-/, control: "budget", budgets: [1, 24_576] },
  { name: /(?:^|\/)gemini-3-pro/, control: "effort", levels: ["low", "high"] },
  { name: /(?:^|\/)gemini-3\.\d+-pro/, control: "effort", levels: ["low", "medium", "high"] },
  { name: /(?:^|\/)gemini-3/, control: "effort" },
];

const readLevel = (level: string | null | undefined): ReasoningEffort | undefined =>
  readWord(THINKING_LEVEL, level?.toUpperCase());

/** Tells whether the neutral request cannot hold the config's level. */
export const isUnsupportedLevel = ({ thinkingLevel, thinkingBudget }: ThinkingConfig): boolean =>
  thinkingLevel != null && ((thinkingBudget ?? -1) >= 0 || !readLevel(thinkingLevel));

/** Decodes the thinking config. Thoughts are visible only if the caller asks for them. */
export function decodeThinking({
  includeThoughts,
  thinkingBudget,
  thinkingLevel,
}: ThinkingConfig): Reasoning | undefined {
  if (thinkingBudget === 0) return { type: "disabled" };
  if (includeThoughts == null && thinkingBudget == null && thinkingLevel == null) return undefined;
  const visible = includeThoughts ?? false;
  if (thinkingBudget != null && thinkingBudget > 0) return { type: "enabled", budgetTokens: thinkingBudget, visible };
  return { type: "adaptive", ...given({ effort: readLevel(thinkingLevel) }), visible };
}

/** The thinking config for a model, and the field of the reasoning that it does not say exactly. */
interface EncodedThinking {
  readonly config?: ThinkingConfig;
  readonly field?: ConvertedField;
}

const modelNamed = (model: string): ThinkingModel | undefined => MODELS.find(({ name }) => name.test(model));

/** Returns how a request controls a model's thinking: as the host says, or as is known. Unknown models are sent what the caller asked for. */
export const controlOf = (model: string, { reasoning }: CodecOptions): ReasoningControl =>
  reasoning?.(model) ?? modelNamed(model)?.control ?? "any";

/** The model and the output limit of a request. */
type Limited = Pick<ChatRequest, "model" | "maxOutputTokens">;

/** Encodes the reasoning for a model. */
export function encodeThinking(reasoning: Reasoning, request: Limited, control: ReasoningControl): EncodedThinking {
  switch (control) {
    case "none":
      return reasoning.type === "disabled" ? {} : { field: "reasoning" };
    case "budget":
      return inTokens(reasoning, request);
    case "effort":
      return inLevels(reasoning, modelNamed(request.model)?.levels ?? LEVELS);
    case "any": {
      const isLevel = reasoning.type === "adaptive" && reasoning.effort !== undefined;
      return isLevel ? inLevels(reasoning, LEVELS) : inTokens(reasoning, request);
    }
  }
}

function inTokens(reasoning: Reasoning, request: Limited): EncodedThinking {
  const { budgets: [min, max] = [1, Infinity], isAlwaysOn } = modelNamed(request.model) ?? {};
  if (reasoning.type === "disabled")
    return isAlwaysOn
      ? { config: { thinkingBudget: min }, field: "reasoning.budgetTokens" }
      : { config: { thinkingBudget: 0 } };
  const includeThoughts = reasoning.visible ?? true;
  // A budget of -1 leaves the amount to the model.
  if (reasoning.type === "adaptive" && reasoning.effort === undefined)
    return { config: { includeThoughts, thinkingBudget: -1 } };
  const wanted = reasoning.type === "enabled" ? reasoning.budgetTokens : budgetOf(reasoning.effort);
  const thinkingBudget = budgetInLimit(Math.max(min, Math.min(max, wanted)), request);
  if (thinkingBudget === 0) return { config: { thinkingBudget }, field: "reasoning" };
  const config = { includeThoughts, thinkingBudget };
  if (reasoning.type === "adaptive") return { config, field: "reasoning.effort" };
  return thinkingBudget === wanted ? { config } : { config, field: "reasoning.budgetTokens" };
}

/**
 * Returns a positive budget, or as much of it as leaves room for the answer in the output limit. Returns 0, which turns the thinking off,
 * where this is less than the model accepts.
 */
export function budgetInLimit(budget: number, { model, maxOutputTokens }: Limited): number {
  const { budgets: [min] = [1], isAlwaysOn } = modelNamed(model) ?? {};
  const within = budgetWithin(budget, maxOutputTokens);
  if (within === budget || within >= min) return within;
  return isAlwaysOn ? Math.min(budget, min) : 0;
}

function inLevels(reasoning: Reasoning, levels: readonly Level[]): EncodedThinking {
  // No model turns its thinking off by a level. The least is nearest to that.
  if (reasoning.type === "disabled")
    return { config: { thinkingLevel: levelNear("minimal", levels) }, field: "reasoning.effort" };
  const includeThoughts = reasoning.visible ?? true;
  if (reasoning.type === "enabled") {
    const thinkingLevel = levelNear(effortOf(reasoning.budgetTokens), levels);
    return { config: { includeThoughts, thinkingLevel }, field: "reasoning.budgetTokens" };
  }
  const { effort } = reasoning;
  if (effort === undefined) return { config: { includeThoughts } };
  const config = { includeThoughts, thinkingLevel: levelNear(effort, levels) };
  return levels.some((level) => level === effort) ? { config } : { config, field: "reasoning.effort" };
}

/** Returns the word for the smallest level that is at least as high as an effort; for the highest level if there is none. */
function levelNear(effort: ReasoningEffort, levels: readonly Level[]): string {
  const rank = LEVELS.indexOf(effort as Level);
  const near = rank < 0 ? undefined : levels.find((level) => LEVELS.indexOf(level) >= rank);
  return THINKING_LEVEL[near ?? "high"];
}
