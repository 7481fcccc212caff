/** Token counts and prompt feedback of answers, in both directions (spec 2.9). */

import type { PromptFeedback } from "../../kinds/chat/event.ts";
import type { ModalityCount, Usage } from "../../model/usage.ts";
import { decodeRating, encodeRating } from "./answer.annotations.ts";
import type { ModalityTokenCount, UsageMetadata, WireFeedback } from "./schema.answer.ts";
import { BLOCK_REASON, given, MODALITY, readBlockReason, readWord } from "./schema.wire.ts";

/** Encodes the token counts. The format counts tool results apart from the prompt, and reasoning apart from the answer. */
export function encodeUsage(usage: Usage): UsageMetadata {
  const { inputTokens, outputTokens, cacheReadTokens, reasoningTokens, toolUseTokens, details = {} } = usage;
  return given({
    promptTokenCount: Math.max(0, inputTokens - (toolUseTokens ?? 0)),
    cachedContentTokenCount: cacheReadTokens || undefined,
    candidatesTokenCount: Math.max(0, outputTokens - reasoningTokens),
    toolUsePromptTokenCount: toolUseTokens,
    thoughtsTokenCount: reasoningTokens || undefined,
    totalTokenCount: inputTokens + outputTokens,
    promptTokensDetails: details.input?.map(encodeCount),
    cacheTokensDetails: details.cacheRead?.map(encodeCount),
    candidatesTokensDetails: details.output?.map(encodeCount),
    toolUsePromptTokensDetails: details.toolUse?.map(encodeCount),
  });
}

export function decodeUsage(usage: UsageMetadata): Partial<Usage> {
  const { promptTokenCount, toolUsePromptTokenCount, candidatesTokenCount, thoughtsTokenCount } = usage;
  const details = given({
    input: usage.promptTokensDetails?.map(decodeCount),
    output: usage.candidatesTokensDetails?.map(decodeCount),
    cacheRead: usage.cacheTokensDetails?.map(decodeCount),
    toolUse: usage.toolUsePromptTokensDetails?.map(decodeCount),
  });
  // The official service leaves out a count of zero.
  const hasOutput = candidatesTokenCount != null || thoughtsTokenCount != null;
  return given({
    inputTokens: promptTokenCount == null ? undefined : promptTokenCount + (toolUsePromptTokenCount ?? 0),
    outputTokens: hasOutput ? (candidatesTokenCount ?? 0) + (thoughtsTokenCount ?? 0) : undefined,
    cacheReadTokens: usage.cachedContentTokenCount,
    reasoningTokens: thoughtsTokenCount,
    toolUseTokens: toolUsePromptTokenCount,
    details: Object.keys(details).length > 0 ? details : undefined,
  });
}

const encodeCount = ({ modality, tokens }: ModalityCount): ModalityTokenCount => ({
  modality: MODALITY[modality],
  tokenCount: tokens,
});
const decodeCount = ({ modality, tokenCount }: ModalityTokenCount): ModalityCount => ({
  modality: readWord(MODALITY, modality) ?? "unspecified",
  tokens: tokenCount ?? 0,
});

export const encodeFeedback = ({ blockReason, ratings }: PromptFeedback): WireFeedback => ({
  ...(blockReason && { blockReason: BLOCK_REASON[blockReason] }),
  ...(ratings.length > 0 && { safetyRatings: ratings.map(encodeRating) }),
});
export const decodeFeedback = ({ blockReason, safetyRatings }: WireFeedback): PromptFeedback => ({
  ...(blockReason != null && { blockReason: readBlockReason(blockReason) }),
  ratings: (safetyRatings ?? []).map(decodeRating),
});
