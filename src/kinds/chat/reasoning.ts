/** The control of a model's reasoning, the conversions between its ways, and the turns for which a model wants its reasoning back. */

import type { ChatRequest, Reasoning, ReasoningEffort } from "../../model/chat-request.ts";

/** The budget that stands for an effort, in tokens. */
const BUDGET: Readonly<Record<ReasoningEffort, number>> = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 24_576,
  max: 32_768,
};

/** The budget of a model that is asked to reason without an effort, in tokens. */
const DEFAULT_BUDGET = BUDGET.medium;

/** Returns the budget for an effort, in tokens. */
export const budgetOf = (effort: ReasoningEffort | undefined): number =>
  effort === undefined ? DEFAULT_BUDGET : BUDGET[effort];

/** Returns the effort for a budget in tokens: the smallest whose own budget is at least as large. */
export function effortOf(budgetTokens: number): "low" | "medium" | "high" {
  if (budgetTokens <= BUDGET.low) return "low";
  return budgetTokens <= BUDGET.medium ? "medium" : "high";
}

/** The output limit divided by the part that is left for the answer beside a budget, and the fewest tokens of this part. */
const ANSWER_PARTS = 5;
const MIN_ANSWER_TOKENS = 256;

/** Returns the budget, or as much of it as leaves a fair part of the output limit for the answer. Not positive for a very small limit. */
export const budgetWithin = (budgetTokens: number, maxOutputTokens: number): number =>
  Math.min(budgetTokens, maxOutputTokens - Math.max(MIN_ANSWER_TOKENS, Math.ceil(maxOutputTokens / ANSWER_PARTS)));

export const wantsReasoning = ({ reasoning }: Pick<ChatRequest, "reasoning">): boolean =>
  reasoning !== undefined && reasoning.type !== "disabled";

/** Returns the output limit for an answer of so many tokens beside reasoning, so that `budgetWithin` leaves its budget whole. */
export function limitBeside(answerTokens: number, reasoning: Reasoning | undefined): number {
  if (!reasoning || reasoning.type === "disabled") return answerTokens;
  // Some models take a budget in place of an effort. For the others, the output limit includes the reasoning, too.
  const budget = reasoning.type === "enabled" ? reasoning.budgetTokens : budgetOf(reasoning.effort);
  return Math.max(answerTokens + budget, Math.ceil((budget * ANSWER_PARTS) / (ANSWER_PARTS - 1)));
}

/** Returns the output limit for a model that does not reason: without the room that the gateway has added for reasoning. */
export const limitWithoutReasoning = ({
  maxOutputTokens,
  maxAnswerTokens = maxOutputTokens,
}: Pick<ChatRequest, "maxOutputTokens" | "maxAnswerTokens">): number => Math.min(maxOutputTokens, maxAnswerTokens);

/**
 * Returns the index of the first message of the tool loop at the end of a conversation: the message behind the last words of the user that
 * are not beside results. Returns the length if these words are the end. Consecutive messages of others than the assistant are one turn.
 */
export function loopStart<Message extends { readonly role: string }>(
  messages: readonly Message[],
  hasResult: (message: Message) => boolean,
): number {
  let start = 0;
  let hasResults = false;
  let index = 0;
  for (const message of messages) {
    index++;
    hasResults = message.role !== "assistant" && (hasResults || hasResult(message));
    const next = messages[index];
    if (message.role !== "assistant" && (!next || next.role === "assistant") && !hasResults) start = index;
  }
  return start;
}

/** Returns the first message of each turn of the assistant. */
export const turnsOf = <Message extends { readonly role: string }>(messages: readonly Message[]): Message[] =>
  messages.filter(({ role }, index) => role === "assistant" && messages[index - 1]?.role !== "assistant");
