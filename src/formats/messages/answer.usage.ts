/** Decodes the token counts of an upstream of this format: the totals, and the steps that the upstream bills one by one. */

import { isJsonObject, type JsonValue } from "../../model/json.ts";
import type { Usage, UsageStep } from "../../model/usage.ts";
import {
  CACHE_WRITES,
  iterationsIn,
  TOOL_USES,
  type UpstreamBlock,
  type UpstreamIteration,
  type UpstreamUsage,
} from "./schema.upstream.ts";

/** A model that declined, and the model that then went on with the answer. */
export interface Fallback {
  /** The model that declined, as the request names it. */
  readonly from: string | undefined;
  readonly to: string | undefined;
  /** True for a refusal that is billed even if it came before any output. */
  readonly isBilled: boolean;
}

/** The categories of refusals that the official service bills before any output. */
const BILLED_REFUSALS: ReadonlySet<unknown> = new Set(["bio", "frontier_llm", "reasoning_extraction"]);

/** Reads the block between the outputs of two models; undefined for any other block. */
export function fallbackIn({
  type,
  from,
  to,
  trigger,
}: UpstreamBlock & Readonly<Record<string, unknown>>): Fallback | undefined {
  if (type !== "fallback") return undefined;
  return { from: modelIn(from), to: modelIn(to), isBilled: BILLED_REFUSALS.has(fieldIn(trigger, "category")) };
}

const fieldIn = (value: unknown, field: string): unknown => (isJsonObject(value) ? value[field] : undefined);

const modelIn = (value: unknown): string | undefined => textIn(fieldIn(value, "model"));

const textIn = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/**
 * Decodes the token counts of an upstream. A count that the upstream has not sent is absent.
 *
 * @param fallbacks The fallbacks in the answer, in order.
 */
export function decodeUsage(sent: UpstreamUsage, fallbacks: readonly Fallback[] = []): Partial<Usage> {
  const { speed, inference_geo } = sent;
  const [tier, pace, geo] = [sent.service_tier ?? undefined, textIn(speed), textIn(inference_geo)];
  const words: Words = {
    ...(tier !== undefined && { serviceTier: tier }),
    ...(pace !== undefined && { speed: pace }),
    ...(geo !== undefined && { inferenceGeo: geo }),
  };
  const { usage, steps } = split(sent, fallbacks, words);
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage;
  const { output_tokens_details, cache_creation, server_tool_use } = usage;
  const writes = cache_creation ? countsNamed(cache_creation, CACHE_WRITES) : undefined;
  // Some servers count the writes by their time to live alone.
  const written = cache_creation_input_tokens ?? Object.values(writes ?? {}).reduce((sum, count) => sum + count, 0);
  const read = cache_read_input_tokens ?? 0;
  return {
    ...(input_tokens != null && { inputTokens: input_tokens + written + read }),
    ...(output_tokens != null && { outputTokens: output_tokens }),
    ...((cache_creation_input_tokens != null || written > 0) && { cacheWriteTokens: written }),
    ...(cache_read_input_tokens != null && { cacheReadTokens: read }),
    ...(output_tokens_details?.thinking_tokens != null && { reasoningTokens: output_tokens_details.thinking_tokens }),
    ...(writes && { cacheWritesByTtl: writes }),
    ...(server_tool_use && { serverToolUses: countsNamed(server_tool_use, TOOL_USES) }),
    ...words,
    ...(steps && steps.length > 0 && { steps }),
  };
}

type Words = Pick<UsageStep, "serviceTier" | "speed" | "inferenceGeo">;

const COUNTS = ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"] as const;

/** The types of steps that are billed beside the totals: summaries of the context, and the answers of an advisor. */
const BESIDE_TOTALS: ReadonlySet<string> = new Set(["compaction", "advisor_message"]);

/** The type of the last step of an answer by a fallback. Its other steps are of the type `message`. */
const BY_FALLBACK = "fallback_message";

/**
 * Returns the usage with the counts of all billed steps in its totals, and the steps; without steps where they tell nothing more than the
 * totals. The official service totals only the steps of the model that has answered, and lists the steps of a model that declined, too.
 */
function split(
  usage: UpstreamUsage,
  fallbacks: readonly Fallback[],
  words: Words,
): { readonly usage: UpstreamUsage; readonly steps?: readonly UsageStep[] } {
  const iterations = iterationsIn(usage.iterations);
  if (iterations.length === 0) return { usage };
  const served = iterations.find(({ type }) => type === BY_FALLBACK)?.model ?? undefined;
  const answering: UpstreamIteration[] = [];
  /** The steps of each model that declined. */
  const declined = new Map<string, UpstreamIteration[]>();
  const beside: UpstreamIteration[] = [];
  for (const step of iterations) {
    const { type, model } = step;
    if (BESIDE_TOTALS.has(type)) beside.push(step);
    else if (type !== "message" && type !== BY_FALLBACK) continue;
    else if (served === undefined || model == null || model === served) answering.push(step);
    else if (!declined.get(model)?.push(step)) declined.set(model, [step]);
  }
  const whole = totalsOf(usage, answering);
  const { serviceTier: _, ...shared } = words;
  const steps: UsageStep[] = [];
  const add = (step: UpstreamIteration, own: Partial<UsageStep> = {}): void => {
    if (COUNTS.some((name) => step[name])) steps.push({ ...countsOf(step), ...own });
  };
  for (const [index, [model, refused]] of Array.from(declined).entries()) {
    const { from = model, isBilled = false } = fallbacks[index] ?? {};
    // A refusal before any output is billed only in some categories.
    if (!isBilled && !refused.some((step) => step.output_tokens)) continue;
    for (const step of refused) {
      addTo(whole, step);
      add(step, { model: from, ...shared });
    }
  }
  for (const step of beside) {
    addTo(whole, step);
    const { inferenceGeo } = words;
    const geo = inferenceGeo === undefined ? {} : { inferenceGeo };
    // The tier and the speed of the answer are not those of an advisor.
    add(step, step.type === "advisor_message" && step.model != null ? { model: step.model, ...geo } : {});
  }
  const isPlain = steps.length === 0 && served === undefined && answering.length < 2;
  if (isPlain) return { usage: whole };
  let thinking = usage.output_tokens_details?.thinking_tokens ?? 0;
  for (const step of answering) {
    const reasoningTokens = Math.min(thinking, step.output_tokens ?? 0);
    thinking -= reasoningTokens;
    add(step, {
      ...(reasoningTokens > 0 && { reasoningTokens }),
      ...(served !== undefined && { model: served, ...words }),
    });
  }
  return { usage: whole, steps };
}

/**
 * Returns the totals of the model that has answered. Versions of the official service total only the input of the first step, although each
 * step is billed: the sum of the steps then counts.
 */
function totalsOf(usage: UpstreamUsage, answering: readonly UpstreamIteration[]): UpstreamUsage {
  const sum: UpstreamUsage = {};
  for (const step of answering) addTo(sum, step);
  const totals = { ...usage };
  for (const name of COUNTS) if (sum[name] != null) totals[name] = Math.max(totals[name] ?? 0, sum[name]);
  const written: Record<string, JsonValue> = { ...sum.cache_creation };
  for (const [name, count] of Object.entries(usage.cache_creation ?? {}))
    written[name] = Math.max(numberIn(count), numberIn(written[name]));
  if (usage.cache_creation ?? sum.cache_creation) totals.cache_creation = written;
  return totals;
}

const numberIn = (count: unknown): number => (typeof count === "number" ? count : 0);

function addTo(usage: UpstreamUsage, step: UpstreamIteration): void {
  for (const name of COUNTS) if (step[name] != null) usage[name] = (usage[name] ?? 0) + step[name];
  if (!step.cache_creation) return;
  const written: Record<string, JsonValue> = { ...usage.cache_creation };
  for (const [name, count] of Object.entries(step.cache_creation))
    if (typeof count === "number") written[name] = numberIn(written[name]) + count;
  usage.cache_creation = written;
}

function countsOf(step: UpstreamIteration): UsageStep {
  const [written, read] = [step.cache_creation_input_tokens ?? 0, step.cache_read_input_tokens ?? 0];
  return {
    inputTokens: (step.input_tokens ?? 0) + written + read,
    outputTokens: step.output_tokens ?? 0,
    ...(read > 0 && { cacheReadTokens: read }),
    ...(written > 0 && { cacheWriteTokens: written }),
    ...(written > 0 && step.cache_creation && { cacheWritesByTtl: countsNamed(step.cache_creation, CACHE_WRITES) }),
  };
}

/** Returns the counts above zero whose names match a pattern. The group of the pattern becomes the name in the result. */
function countsNamed(counts: Readonly<Record<string, unknown>>, form: RegExp): Record<string, number> {
  const named: [string, number][] = [];
  for (const [key, count] of Object.entries(counts)) {
    const name = form.exec(key)?.[1];
    if (name !== undefined && typeof count === "number" && count > 0) named.push([name, count]);
  }
  return Object.fromEntries(named);
}
