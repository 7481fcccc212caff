/** The generate-content answer (spec 2.9): its parts and counts in both directions, and the complete answer. */

import { GatewayError } from "../../errors.ts";
import type { PromptFeedback } from "../../model/annotation.ts";
import type { ModalityCount, Usage, UsageDetails } from "../../model/usage.ts";
import { decodeRating, encodeRating } from "./response.annotations.ts";
import type {
  AnswerPart,
  Candidate,
  GenerateContentResponse,
  ModalityTokenCount,
  PromptFeedback as WireFeedback,
  UsageMetadata,
} from "./schema.answer.ts";
import { BLOCK_REASON, fromWire, MODALITY } from "./schema.enums.ts";

const MODALITY_OF = fromWire(MODALITY);
const BLOCK_REASON_OF = fromWire(BLOCK_REASON);

/** The format counts the results of tools beside the prompt, and reasoning beside the answer. */
export function encodeUsage(usage: Usage): UsageMetadata {
  const { inputTokens, outputTokens, cacheReadTokens, reasoningTokens, toolUseTokens, details = {} } = usage;
  return {
    promptTokenCount: Math.max(0, inputTokens - (toolUseTokens ?? 0)),
    ...(cacheReadTokens > 0 && { cachedContentTokenCount: cacheReadTokens }),
    candidatesTokenCount: Math.max(0, outputTokens - reasoningTokens),
    ...(toolUseTokens !== undefined && { toolUsePromptTokenCount: toolUseTokens }),
    ...(reasoningTokens > 0 && { thoughtsTokenCount: reasoningTokens }),
    totalTokenCount: inputTokens + outputTokens,
    ...(details.input && { promptTokensDetails: details.input.map(encodeCount) }),
    ...(details.cacheRead && { cacheTokensDetails: details.cacheRead.map(encodeCount) }),
    ...(details.output && { candidatesTokensDetails: details.output.map(encodeCount) }),
    ...(details.toolUse && { toolUsePromptTokensDetails: details.toolUse.map(encodeCount) }),
  };
}

export function decodeUsage(usage: UsageMetadata): Partial<Usage> {
  const { promptTokenCount, toolUsePromptTokenCount, candidatesTokenCount, thoughtsTokenCount } = usage;
  const details = decodeDetails(usage);
  return {
    ...(promptTokenCount != null && { inputTokens: promptTokenCount + (toolUsePromptTokenCount ?? 0) }),
    // A count of nothing is left out by the official service.
    ...((candidatesTokenCount ?? thoughtsTokenCount) != null && {
      outputTokens: (candidatesTokenCount ?? 0) + (thoughtsTokenCount ?? 0),
    }),
    ...(usage.cachedContentTokenCount != null && { cacheReadTokens: usage.cachedContentTokenCount }),
    ...(thoughtsTokenCount != null && { reasoningTokens: thoughtsTokenCount }),
    ...(toolUsePromptTokenCount != null && { toolUseTokens: toolUsePromptTokenCount }),
    ...(Object.keys(details).length > 0 && { details }),
  };
}

function decodeDetails(usage: UsageMetadata): UsageDetails {
  const { promptTokensDetails, cacheTokensDetails, candidatesTokensDetails, toolUsePromptTokensDetails } = usage;
  return {
    ...(promptTokensDetails && { input: promptTokensDetails.map(decodeCount) }),
    ...(candidatesTokensDetails && { output: candidatesTokensDetails.map(decodeCount) }),
    ...(cacheTokensDetails && { cacheRead: cacheTokensDetails.map(decodeCount) }),
    ...(toolUsePromptTokensDetails && { toolUse: toolUsePromptTokensDetails.map(decodeCount) }),
  };
}

const encodeCount = ({ modality, tokens }: ModalityCount): ModalityTokenCount => ({
  modality: MODALITY[modality],
  tokenCount: tokens,
});
const decodeCount = ({ modality, tokenCount }: ModalityTokenCount): ModalityCount => ({
  modality: MODALITY_OF.get(modality ?? "") ?? "unspecified",
  tokens: tokenCount ?? 0,
});

export const encodeFeedback = ({ blockReason, ratings }: PromptFeedback): WireFeedback => ({
  ...(blockReason && { blockReason: BLOCK_REASON[blockReason] }),
  ...(ratings.length > 0 && { safetyRatings: ratings.map(encodeRating) }),
});
export const decodeFeedback = ({ blockReason, safetyRatings }: WireFeedback): PromptFeedback => ({
  // A reason that is not known here is a reason nevertheless.
  ...(blockReason != null && { blockReason: BLOCK_REASON_OF.get(blockReason) ?? "other" }),
  ratings: (safetyRatings ?? []).map(decodeRating),
});

/** The complete answer: the chunks of the stream, collected, so that both forms always agree. */
export class AnswerCollector {
  readonly #candidates: Map<number, { candidate: Candidate; parts: PartCollector }> = new Map();
  #answer: GenerateContentResponse | undefined;

  add(chunk: GenerateContentResponse): void {
    const { candidates, ...rest } = chunk;
    this.#answer = { ...this.#answer, ...rest };
    for (const { content, index, ...fields } of candidates ?? []) {
      const known = this.#candidates.get(index ?? 0);
      const collected = known ?? { candidate: {}, parts: new PartCollector() };
      if (!known) this.#candidates.set(index ?? 0, collected);
      Object.assign(collected.candidate, fields);
      for (const part of content?.parts ?? []) collected.parts.add(part);
    }
  }

  get body(): GenerateContentResponse {
    if (!this.#answer) throw new GatewayError("backend_failed", "The model backend gave no answer.");
    if (this.#candidates.size === 0) return this.#answer;
    const candidates = Array.from(this.#candidates)
      .toSorted(([a], [b]) => a - b)
      .map(([index, { candidate, parts }]) => ({
        content: { role: "model", parts: parts.parts },
        ...candidate,
        index,
      }));
    return { candidates, ...this.#answer };
  }
}

/** Joins the pieces of one text; a signature seals the piece that it comes with, and what comes after is another part. */
class PartCollector {
  readonly #parts: { part: AnswerPart; text: string[] }[] = [];

  add(part: AnswerPart): void {
    const { text, thought, thoughtSignature } = part;
    // The text of a stream's last chunk: it says nothing.
    if (text === "" && thoughtSignature == null && !thought) return;
    const last = this.#parts.at(-1);
    const continues =
      text != null && last?.part.text != null && !last.part.thought === !thought && last.part.thoughtSignature == null;
    if (!continues) {
      this.#parts.push({ part: { ...part }, text: [text ?? ""] });
      return;
    }
    last.text.push(text);
    if (thoughtSignature != null) last.part.thoughtSignature = thoughtSignature;
  }

  get parts(): AnswerPart[] {
    const parts = this.#parts.map(({ part, text }) => (part.text == null ? part : { ...part, text: text.join("") }));
    return parts.length > 0 ? parts : [{ text: "" }];
  }
}
