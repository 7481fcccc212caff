/** What a call consumed, in tokens (counted units, never secrets). */

/**
 * Token counts of one call, cumulative: a later report replaces an earlier one, it never adds to it.
 * `inputTokens` is the whole input; the cache counts are parts of it, so a dialect that reports them apart subtracts.
 */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Input tokens that were read from a prompt cache. */
  readonly cacheReadTokens: number;
  /** Input tokens that were written to a prompt cache. */
  readonly cacheWriteTokens: number;
  /** Output tokens spent on reasoning; a part of `outputTokens`. */
  readonly reasoningTokens: number;
  /** Input tokens that the results of the provider's own tools took; a part of `inputTokens`. */
  readonly toolUseTokens?: number;
  /** Input tokens that were written to a cache, by how long it lives (`5m`, `1h`): they differ in price. */
  readonly cacheWritesByTtl?: Readonly<Record<string, number>>;
  /** How often each of the provider's own tools ran, by its name, such as `web_search`. */
  readonly serverToolUses?: Readonly<Record<string, number>>;
  /** The service tier that the answer was given at, in the provider's own word. */
  readonly serviceTier?: string;
  /** The counts by what they count, as far as the backend knows. */
  readonly details?: UsageDetails;
}

/** Token counts by kinds of content. */
export interface UsageDetails {
  readonly input?: readonly ModalityCount[];
  readonly output?: readonly ModalityCount[];
  readonly cacheRead?: readonly ModalityCount[];
  readonly toolUse?: readonly ModalityCount[];
}

/** Tokens of one kind of content. */
export interface ModalityCount {
  readonly modality: "unspecified" | "text" | "image" | "video" | "audio" | "document";
  readonly tokens: number;
}

/** Whether a charge rests on the backend's own counts or on the gateway's estimate. */
export type Certainty = "exact" | "estimated";

/** Nothing at all. */
export const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

/**
 * The same counts, where a whole that is less than its parts, and so leaves them out, has them added: cached tokens are a part of the
 * input, and reasoning of the output. The same object where nothing is to be added.
 */
export function withParts(counts: Partial<Usage>): Partial<Usage> {
  const { inputTokens, outputTokens, cacheReadTokens = 0, cacheWriteTokens = 0, reasoningTokens = 0 } = counts;
  const cached = cacheReadTokens + cacheWriteTokens;
  const isInputShort = inputTokens !== undefined && inputTokens < cached;
  const isOutputShort = outputTokens !== undefined && outputTokens < reasoningTokens;
  if (!isInputShort && !isOutputShort) return counts;
  return {
    ...counts,
    ...(isInputShort && { inputTokens: inputTokens + cached }),
    ...(isOutputShort && { outputTokens: outputTokens + reasoningTokens }),
  };
}
