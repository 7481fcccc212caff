/**
 * Fits thinking and sampling to the model. The official service refuses fields that its model does not know, and fields that may not stand
 * beside thinking. Such fields are changed or left out, and reported.
 */

import {
  budgetOf,
  budgetWithin,
  effortOf,
  limitWithoutReasoning,
  loopStart,
  turnsOf,
} from "../../kinds/chat/reasoning.ts";
import type { ChatRequest, ReasoningControl, ReasoningEffort } from "../../kinds/chat/request.ts";
import type { CodecOptions } from "../format.ts";
import { type ClaudeModel, claudeNamed } from "../shared/claude.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import type { RequestMessage, Thinking } from "./schema.ts";

/** The smallest budget for reasoning, in tokens (spec 2.6). */
export const MIN_BUDGET_TOKENS = 1024;

/** The beta with which a budget may exceed the output limit: it then counts for a whole turn, with the thinking between its tool calls. */
export const INTERLEAVED_THINKING = "interleaved-thinking-2025-05-14";

/** The highest temperature of the format (spec 2.6). */
export const MAX_TEMPERATURE = 1;

/** The lowest `top_p` that may stand beside thinking. */
const MIN_THINKING_TOP_P = 0.95;

/** A request that is being changed. */
type Draft = { -readonly [Field in keyof ChatRequest]: ChatRequest[Field] };

/**
 * Returns the request with the tool choice, the reasoning and the sampling that its model accepts.
 *
 * @param messages The encoded conversation.
 * @param lost Receives the fields that are changed or left out.
 */
export function fitted(
  request: ChatRequest,
  messages: readonly RequestMessage[],
  { reasoning: controlOf }: CodecOptions,
  lost: ConvertedFields,
): ChatRequest {
  const model = claudeNamed(request.model);
  const draft: Draft = { ...request };
  if (model.isAlwaysOn) freeChoice(draft, lost);
  fitReasoning(draft, controlOf?.(request.model) ?? model.control, model, lost);
  giveUpConflict(draft, messages, model, lost);
  fitSampling(draft, model, lost);
  return draft;
}

const forcesTool = ({ toolChoice }: Pick<ChatRequest, "toolChoice">): boolean =>
  toolChoice?.type === "tool" || toolChoice?.type === "required";

/** Lets the model decide whether it calls a tool. It is still offered no other tools than before. */
function freeChoice(draft: Draft, lost: ConvertedFields): void {
  const { toolChoice } = draft;
  if (!toolChoice || toolChoice.type === "none" || !forcesTool(draft)) return;
  const names = toolChoice.type === "tool" ? [toolChoice.name] : toolChoice.names;
  draft.toolChoice = { type: "auto", parallel: toolChoice.parallel, ...(names && { names }) };
  lost.add("toolChoice");
}

/** Expresses the reasoning in the way that the model knows: not at all, as a budget, or as an effort. */
function fitReasoning(draft: Draft, control: ReasoningControl, model: ClaudeModel, lost: ConvertedFields): void {
  const { reasoning, maxOutputTokens } = draft;
  if (!reasoning) return;
  if (reasoning.type === "disabled")
    return control === "none" ? void delete draft.reasoning : disable(draft, model, lost);
  if (control === "none") {
    delete draft.reasoning;
    draft.maxOutputTokens = limitWithoutReasoning(draft);
    lost.add("reasoning");
    return;
  }
  const visible = reasoning.visible === undefined ? {} : { visible: reasoning.visible };
  if (control === "effort" || (control === "any" && reasoning.type === "adaptive")) {
    if (reasoning.type === "enabled") lost.add("reasoning.budgetTokens");
    const asked = reasoning.type === "enabled" ? effortOf(reasoning.budgetTokens) : reasoning.effort;
    const effort = asked && nearestEffort(asked, control);
    if (effort !== asked) lost.add("reasoning.effort");
    draft.reasoning = { type: "adaptive", ...(effort && { effort }), ...visible };
    return;
  }
  if (reasoning.type === "adaptive") {
    lost.add("reasoning.adaptive");
    if (reasoning.effort !== undefined) lost.add("reasoning.effort");
  }
  const asked = reasoning.type === "enabled" ? reasoning.budgetTokens : budgetOf(reasoning.effort);
  const budgetTokens = budgetWithin(Math.max(MIN_BUDGET_TOKENS, asked), maxOutputTokens);
  if (budgetTokens < MIN_BUDGET_TOKENS) return giveUp(draft, model, lost);
  if (budgetTokens !== asked && reasoning.type === "enabled") lost.add("reasoning.budgetTokens");
  draft.reasoning = { type: "enabled", budgetTokens, ...visible };
}

/** The models that also know budgets do not know `xhigh`. No model knows `minimal`. */
function nearestEffort(effort: ReasoningEffort, control: ReasoningControl): ReasoningEffort {
  if (effort === "minimal") return "low";
  return effort === "xhigh" && control === "any" ? "high" : effort;
}

/** Gives thinking up where the rest of the request excludes it: a forced tool, a prefill, or a tool loop that began without thinking. */
function giveUpConflict(
  draft: Draft,
  messages: readonly RequestMessage[],
  model: ClaudeModel,
  lost: ConvertedFields,
): void {
  if (!isThinking(draft)) return;
  // With `adaptive`, a tool loop may begin without thinking.
  const isExcluded =
    forcesTool(draft) ||
    messages.at(-1)?.role === "assistant" ||
    (draft.reasoning?.type === "enabled" && lacksThinking(messages));
  if (isExcluded) giveUp(draft, model, lost);
}

const isThinking = ({ reasoning }: Pick<ChatRequest, "reasoning">): boolean =>
  reasoning !== undefined && reasoning.type !== "disabled";

function giveUp(draft: Draft, model: ClaudeModel, lost: ConvertedFields): void {
  for (const field of ["reasoning.adaptive", "reasoning.budgetTokens", "reasoning.effort"] as const) lost.delete(field);
  lost.add("reasoning");
  draft.reasoning = { type: "disabled" };
  disable(draft, model, lost);
}

/** Leaves out `disabled` where the model refuses it. */
function disable(draft: Draft, { control, isOffByDefault, isAlwaysOn }: ClaudeModel, lost: ConvertedFields): void {
  if (isAlwaysOn) lost.add("reasoning");
  if (isAlwaysOn || (control === "effort" && isOffByDefault)) delete draft.reasoning;
}

/**
 * Tells whether the conversation ends in a tool loop with an assistant's turn that does not begin with thinking. Consecutive messages of the
 * assistant are one turn.
 */
export const lacksThinking = (messages: readonly Message[]): boolean =>
  turnsOf(messages.slice(toolLoopStart(messages))).some(({ content }) => !beginsWithThinking(content));

type Message = { readonly role: string; readonly content: unknown };

/** Returns the index of the first message of the tool loop at the end of the conversation; the length if it ends in no tool loop. */
export const toolLoopStart = (messages: readonly Message[]): number =>
  loopStart(
    messages,
    ({ content }) =>
      Array.isArray(content) &&
      (content as readonly { readonly type?: unknown }[]).some(({ type }) => type === "tool_result"),
  );

function beginsWithThinking(content: unknown): boolean {
  const type: unknown = Array.isArray(content)
    ? (content as readonly { readonly type?: unknown }[])[0]?.type
    : undefined;
  return type === "thinking" || type === "redacted_thinking";
}

/** Leaves out sampling that the model refuses, alone or beside thinking. */
function fitSampling(draft: Draft, { sampling }: ClaudeModel, lost: ConvertedFields): void {
  const { topP = 1, topK = 0 } = draft;
  const temperature = Math.min(draft.temperature ?? MAX_TEMPERATURE, MAX_TEMPERATURE);
  const thinks = isThinking(draft);
  // Values that change nothing are left out without loss.
  if (sampling === "none" || (sampling === "one" && topP < 1 && temperature === MAX_TEMPERATURE)) {
    if (temperature !== MAX_TEMPERATURE) lost.add("temperature");
    delete draft.temperature;
  } else if (thinks && temperature !== MAX_TEMPERATURE) {
    delete draft.temperature;
    lost.add("temperature");
  }
  const isSecond = sampling === "one" && draft.temperature !== undefined;
  if (topP < 1 && (sampling === "none" || isSecond || (thinks && topP < MIN_THINKING_TOP_P))) {
    delete draft.topP;
    lost.add("topP");
  }
  if (topK > 0 && (sampling === "none" || thinks)) {
    delete draft.topK;
    lost.add("topK");
  }
}

/** Encodes the reasoning. */
export function encodeThinking({ model, reasoning }: ChatRequest): Thinking | undefined {
  if (!reasoning || reasoning.type === "disabled") return reasoning && { type: reasoning.type };
  if (reasoning.type === "enabled") return { type: "enabled", budget_tokens: reasoning.budgetTokens };
  // Newer models show no thinking unless a summary is asked for.
  const isHidden = claudeNamed(model).sampling === "none" && reasoning.visible !== false;
  return { type: "adaptive", ...(isHidden && { display: "summarized" }) };
}
