/** The token counts of a call. They hold no secrets. */

import type { JsonObject } from "./json.ts";

interface Counts {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Input tokens that were read from a prompt cache. */
  readonly cacheReadTokens: number;
  /** Input tokens that were written to a prompt cache. */
  readonly cacheWriteTokens: number;
  /** Output tokens for reasoning; a part of `outputTokens`. */
  readonly reasoningTokens: number;
  /** Input tokens for the results of the provider's own tools; a part of `inputTokens`. */
  readonly toolUseTokens?: number;
  /** Input tokens that were written to a cache, by the lifetime of the cache (`5m`, `1h`): lifetimes differ in price. */
  readonly cacheWritesByTtl?: Readonly<Record<string, number>>;
  /**
   * The uses of each of the provider's own tools, as the provider bills them, by the tool's name, such as `web_search`. The names are the same
   * for all formats.
   */
  readonly serverToolUses?: Readonly<Record<string, number>>;
  /** The service tier of the answer, in the provider's own word; for Vertex AI, in that of the Gemini API. */
  readonly serviceTier?: string;
  /** The speed of the answer, in the provider's own word, such as `fast`. */
  readonly speed?: string;
  /** The region in which the model ran, in the provider's own word, such as `us`. */
  readonly inferenceGeo?: string;
  /** The counts by kind of content, as far as the backend knows them. */
  readonly details?: UsageDetails;
}

/**
 * The token counts of one call. Counts are cumulative: a later report replaces an earlier one. `inputTokens` is the whole input, and the
 * cache counts are parts of it.
 */
export interface Usage extends Counts {
  /**
   * The requests inside the call that the upstream bills one by one, such as a summary of the context or the answer of an advisor. The other
   * counts are the sums of all steps. Each step is priced by itself; counts that are in no step are priced together, as one more step.
   */
  readonly steps?: readonly UsageStep[];
}

/**
 * A request that the upstream bills by itself. An absent count is 0. A step without `model` has the service tier, the speed and the region of
 * the whole usage, and a step with `model` only its own.
 */
export interface UsageStep extends Partial<Counts> {
  /** The upstream's name of the model that ran the step, where it is another model than the requested one. */
  readonly model?: string;
}

/** Token counts by kinds of content. */
export interface UsageDetails {
  readonly input?: readonly ModalityCount[];
  readonly output?: readonly ModalityCount[];
  readonly cacheRead?: readonly ModalityCount[];
  readonly toolUse?: readonly ModalityCount[];
}

/** The tokens of one kind of content. */
export interface ModalityCount {
  readonly modality: "unspecified" | "text" | "image" | "video" | "audio" | "document";
  readonly tokens: number;
}

/** The basis of a charge: `exact` for the backend's own counts, `estimated` for the gateway's estimate. */
export type Certainty = "exact" | "estimated";

/** A usage of zero tokens. */
export const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

/** The most steps of a usage. An upstream pauses an answer after about ten runs of its tools. */
export const MAX_STEPS = 1_000;

/** The fields of a usage that are a single count of tokens. */
export const TOKEN_COUNTS: readonly (
  | "inputTokens"
  | "outputTokens"
  | "cacheReadTokens"
  | "cacheWriteTokens"
  | "reasoningTokens"
  | "toolUseTokens"
)[] = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens", "toolUseTokens"];

/** Adds the usages of two answers to one call, and keeps the steps of both. The service tier, the speed and the region are those of the second. */
export function sumOfUsages<Counts extends Partial<Usage>>(first: Counts, second: Counts): Counts {
  const sum: { -readonly [Field in keyof Usage]?: Usage[Field] } = { ...first, ...second };
  for (const name of TOKEN_COUNTS)
    if (first[name] !== undefined || second[name] !== undefined) sum[name] = (first[name] ?? 0) + (second[name] ?? 0);
  for (const name of ["cacheWritesByTtl", "serverToolUses"] as const)
    if (first[name] && second[name]) sum[name] = sumOfCounts(first[name], second[name]);
  if (first.details && second.details) sum.details = sumOfDetails(first.details, second.details);
  if (first.steps && second.steps) sum.steps = [...first.steps, ...second.steps];
  // The cast is safe: a field of the sum is in one of the two.
  return sum as Counts;
}

function sumOfCounts(
  first: Readonly<Record<string, number>>,
  second: Readonly<Record<string, number>>,
): Record<string, number> {
  const sum: Record<string, number> = { ...first };
  for (const [name, count] of Object.entries(second)) sum[name] = (sum[name] ?? 0) + count;
  return sum;
}

function sumOfDetails(first: UsageDetails, second: UsageDetails): UsageDetails {
  const sum: Record<string, readonly ModalityCount[]> = { ...first };
  for (const [kind, counts] of Object.entries(second) as [string, readonly ModalityCount[]][])
    sum[kind] = sumOfModalities(sum[kind] ?? [], counts);
  return sum;
}

/** Returns the counts of a usage that are in none of its steps; undefined if the steps have more than the usage. */
export function besideSteps({ steps = [], ...whole }: Usage): Usage | undefined {
  const rest: { -readonly [Field in keyof Usage]: Usage[Field] } = { ...whole };
  const [writes, uses] = [{ ...whole.cacheWritesByTtl }, { ...whole.serverToolUses }];
  for (const step of steps) {
    for (const name of TOKEN_COUNTS) {
      const left = (rest[name] ?? 0) - (step[name] ?? 0);
      if (left < 0) return undefined;
      if (rest[name] !== undefined) rest[name] = left;
    }
    if (!isTaken(writes, step.cacheWritesByTtl) || !isTaken(uses, step.serverToolUses)) return undefined;
  }
  // No part may be larger than the rest of its total.
  rest.cacheReadTokens = Math.min(rest.cacheReadTokens, rest.inputTokens);
  rest.cacheWriteTokens = Math.min(rest.cacheWriteTokens, rest.inputTokens - rest.cacheReadTokens);
  rest.reasoningTokens = Math.min(rest.reasoningTokens, rest.outputTokens);
  if (rest.toolUseTokens !== undefined) rest.toolUseTokens = Math.min(rest.toolUseTokens, rest.inputTokens);
  if (whole.cacheWritesByTtl) rest.cacheWritesByTtl = rest.cacheWriteTokens > 0 ? writes : {};
  if (whole.serverToolUses) rest.serverToolUses = uses;
  if (whole.details) rest.details = detailsBeside(whole.details, steps);
  return rest;
}

function detailsBeside(details: UsageDetails, steps: readonly UsageStep[]): UsageDetails {
  const rest: Record<string, readonly ModalityCount[]> = {};
  for (const [kind, counts] of Object.entries(details) as [keyof UsageDetails, readonly ModalityCount[]][])
    rest[kind] = counts.map(({ modality, tokens }) => {
      const taken = steps.flatMap((step) => step.details?.[kind] ?? []).filter((count) => count.modality === modality);
      return {
        modality,
        tokens: Math.max(
          0,
          taken.reduce((left, count) => left - count.tokens, tokens),
        ),
      };
    });
  return rest;
}

/** Takes counts from others. Returns false if there are not so many. */
function isTaken(from: Record<string, number>, counts: Readonly<Record<string, number>> | undefined): boolean {
  for (const [name, count] of Object.entries(counts ?? {})) {
    const left = (from[name] ?? 0) - count;
    if (left < 0) return false;
    if (count > 0) from[name] = left;
  }
  return true;
}

/** Adds the tokens of two reports by kind of content. */
export function sumOfModalities(first: readonly ModalityCount[], second: readonly ModalityCount[]): ModalityCount[] {
  const tokens = new Map(first.map((count) => [count.modality, count.tokens]));
  for (const count of second) tokens.set(count.modality, (tokens.get(count.modality) ?? 0) + count.tokens);
  return Array.from(tokens, ([modality, total]) => ({ modality, tokens: total }));
}

/**
 * Makes each total at least the sum of its parts. Cached tokens are a part of the input, and reasoning is a part of the output. A total
 * that is smaller than its parts does not include them, so they are added to it. Returns the same object when nothing is added.
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

/** The usage of an upstream in its own format, with fields that the neutral usage cannot hold, such as a cost. */
export interface NativeUsage {
  readonly format: string;
  readonly fields: JsonObject;
}

/** Returns the usage of an upstream that speaks the caller's format; undefined for every other upstream. */
export const nativeUsage = ({ native }: { readonly native?: NativeUsage }, format: string): JsonObject | undefined =>
  native?.format === format ? native.fields : undefined;
