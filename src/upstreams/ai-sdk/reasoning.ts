/** Fits the reasoning that a request asks for to the model, and encodes it for each provider. */

import { approximated, dropped } from "../../formats/shared/conversions.ts";
import { budgetOf, effortOf, limitWithoutReasoning, loopStart, turnsOf } from "../../kinds/chat/reasoning.ts";
import type { ChatRequest, Reasoning } from "../../kinds/chat/request.ts";
import type { Conversion } from "../../model/conversion.ts";
import type { JsonObject } from "../../model/json.ts";
import { anthropicBudget, functionChoice, MIN_BUDGET, type Traits } from "./conversions.ts";
import type { PromptMessage } from "./prompt.ts";

/**
 * Returns the request with reasoning that the model accepts, and the conversions of what had to change. The provider itself leaves out the
 * sampling options that a reasoning model refuses, and warns of them.
 *
 * @param prompt The encoded conversation.
 */
export function fitReasoning(
  request: ChatRequest,
  prompt: readonly PromptMessage[],
  traits: Traits,
): { readonly request: ChatRequest; readonly conversions: readonly Conversion[] } {
  const { reasoning: asked, ...rest } = request;
  if (!asked) return { request, conversions: [] };
  // A model of which nothing is known may refuse a limit with room for more than its answer.
  const mayExceed = traits.control === undefined ? asked.type === "enabled" : traits.control !== "none";
  const others = mayExceed ? rest : { ...rest, maxOutputTokens: limitWithoutReasoning(request) };
  const conversions: Conversion[] = [];
  const reasoning = controlled(asked, traits, conversions);
  const fitting = reasoning ? { ...others, reasoning } : others;
  const why = traits.family === "anthropic" ? obstacleTo(fitting, prompt) : undefined;
  if (why === undefined) return { request: fitting, conversions };
  // Models that take only an effort may refuse this word, and accept what stands beside reasoning. Others reason unless it is forbidden.
  const off = traits.control === "effort" ? {} : { reasoning: { type: "disabled" } as const };
  return { request: { ...others, ...off }, conversions: [{ field: "reasoning", ...dropped(why) }] };
}

/** Converts reasoning to the control that the model has, if that is known. */
function controlled(asked: Reasoning, { control }: Traits, conversions: Conversion[]): Reasoning | undefined {
  const visible = asked.type !== "disabled" && asked.visible !== undefined ? { visible: asked.visible } : {};
  if (control === "none") {
    if (asked.type !== "disabled") conversions.push({ field: "reasoning", ...dropped("The model does not reason.") });
    return undefined;
  }
  if (control === "budget" && asked.type === "adaptive") {
    const field = asked.effort === undefined ? "reasoning.adaptive" : "reasoning.effort";
    conversions.push({ field, ...approximated("The model takes a budget, so the usual budget is sent.") });
    return { type: "enabled", budgetTokens: budgetOf(asked.effort), ...visible };
  }
  if (control === "effort" && asked.type === "enabled") {
    const why = "The model takes an effort, so the nearest effort is sent.";
    conversions.push({ field: "reasoning.budgetTokens", ...approximated(why) });
    return { type: "adaptive", effort: effortOf(asked.budgetTokens), ...visible };
  }
  return asked;
}

/** Returns the reason why Anthropic would refuse the request because of its reasoning; undefined when there is none. */
function obstacleTo(request: ChatRequest, prompt: readonly PromptMessage[]): string | undefined {
  const { reasoning } = request;
  if (!reasoning || reasoning.type === "disabled") return undefined;
  const forced = functionChoice(request)?.type;
  if (forced === "required" || forced === "tool") return "A model that reasons cannot be forced to call a tool.";
  if (prompt.at(-1)?.role === "assistant") return "A model that reasons cannot continue a turn.";
  if (reasoning.type === "adaptive") return undefined;
  if (anthropicBudget(request) < MIN_BUDGET) return "The output limit has no room for reasoning.";
  const start = loopStart(prompt, ({ role }) => role === "tool");
  if (turnsOf(prompt.slice(start)).every(beginsWithReasoning)) return undefined;
  return "A turn of the tool calls that the results continue began without this provider's reasoning.";
}

const beginsWithReasoning = ({ content: [first] }: PromptMessage): boolean =>
  typeof first === "object" && first.type === "reasoning";

/**
 * Encodes the reasoning effort as the field of version 4. Leaves it out when the provider's own options express the reasoning more
 * exactly.
 */
export function reasoningField(
  { reasoning }: ChatRequest,
  { version, supports, family }: Traits,
): { reasoning?: string } {
  if (!reasoning || version !== "v4") return {};
  if (reasoning.type === "adaptive") return reasoning.effort === undefined ? {} : { reasoning: reasoning.effort };
  if (reasoning.type === "disabled") return family === "anthropic" ? {} : { reasoning: "none" };
  return supports.has("reasoning.budgetTokens") ? {} : { reasoning: effortOf(reasoning.budgetTokens) };
}

export function anthropicThinking(request: ChatRequest, version: Traits["version"]): JsonObject {
  const { reasoning } = request;
  if (!reasoning) return {};
  if (reasoning.type === "enabled") return { thinking: { type: "enabled", budgetTokens: anthropicBudget(request) } };
  const effort = reasoning.type === "adaptive" ? reasoning.effort : undefined;
  if (effort === undefined) return { thinking: { type: reasoning.type } };
  // In version 4, `reasoningField` sends the effort, and the provider translates it for its model.
  return version === "v4" ? {} : { thinking: { type: "adaptive" }, effort: effort === "minimal" ? "low" : effort };
}

export function googleThinking({ reasoning }: ChatRequest, version: Traits["version"]): JsonObject {
  return {
    ...(reasoning?.type === "disabled" && version !== "v4" && { thinkingBudget: 0 }),
    ...(reasoning?.type === "enabled" && { thinkingBudget: reasoning.budgetTokens }),
    ...(reasoning && reasoning.type !== "disabled" && { includeThoughts: reasoning.visible ?? true }),
  };
}

export function openaiEffort({ reasoning }: ChatRequest): JsonObject {
  if (reasoning?.type === "enabled") return { reasoningEffort: effortOf(reasoning.budgetTokens) };
  if (reasoning?.type === "disabled") return { reasoningEffort: "none" };
  return reasoning?.effort === undefined ? {} : { reasoningEffort: reasoning.effort };
}
