/** All of a request beside its turns: limits, sampling, tools, reasoning, and the providers' own options for what the interface lacks. */

import { enumSchema } from "../../dialects/shared/enumerated.ts";
import type { ChatRequest, FunctionTool, ReasoningEffort } from "../../model/chat.ts";
import type { FieldFate } from "../../model/fate.ts";
import type { JsonObject } from "../../model/json.ts";
import type { CallOptions, FunctionToolOption } from "./call-options.ts";
import { fatesOf, isOffered } from "./fates.ts";
import { mergedMetadata } from "./metadata.ts";
import type { ProviderOptions } from "./options.ts";
import { encodePrompt } from "./prompt.ts";
import type { Traits } from "./traits.ts";

export interface EncodedCall {
  readonly options: Omit<CallOptions, "abortSignal">;
  readonly fates: readonly FieldFate[];
}

/** @param own The host's own options, which win. */
export function encodeCall(request: ChatRequest, traits: Traits, own: ProviderOptions): EncodedCall {
  const { prompt, fates } = encodePrompt(request, traits);
  const { temperature, topP, topK, seed, presencePenalty, frequencyPenalty, stopSequences } = request;
  const providerOptions = mergedMetadata(providerOptionsOf(request, traits), own);
  const options = {
    prompt,
    maxOutputTokens: outputLimit(request, traits),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(topK !== undefined && { topK }),
    ...(seed !== undefined && { seed }),
    ...(presencePenalty !== undefined && { presencePenalty }),
    ...(frequencyPenalty !== undefined && { frequencyPenalty }),
    ...(stopSequences.length > 0 && { stopSequences }),
    ...formatOf(request),
    ...toolsOf(request, traits),
    ...effortOf(request, traits),
    ...(Object.keys(providerOptions).length > 0 && { providerOptions }),
  };
  return { options, fates: [...fatesOf(request, traits), ...fates] };
}

/** This provider adds the budget for reasoning to the limit, of which it is a part here. */
function outputLimit(request: ChatRequest, { isAnthropic }: Traits): number {
  const budget = isAnthropic ? budgetOf(request) : undefined;
  return Math.max(1, request.maxOutputTokens - (budget ?? 0));
}

function budgetOf({ reasoning, maxOutputTokens }: ChatRequest): number | undefined {
  return reasoning?.type === "enabled" ? Math.min(reasoning.budgetTokens, maxOutputTokens - 1) : undefined;
}

function formatOf({ responseFormat }: ChatRequest): Pick<CallOptions, "responseFormat"> {
  if (!responseFormat) return {};
  if (responseFormat.type === "enum")
    return { responseFormat: { type: "json", schema: enumSchema(responseFormat.values) } };
  const { schema, name } = responseFormat;
  return { responseFormat: { type: "json", ...(schema && { schema }), ...(name !== undefined && { name }) } };
}

function toolsOf(request: ChatRequest, traits: Traits): Pick<CallOptions, "tools" | "toolChoice"> {
  const { tools, toolChoice } = request;
  const names = toolChoice && "names" in toolChoice ? toolChoice.names : undefined;
  const offered = tools.flatMap((tool) =>
    tool.type === "function" && (names?.includes(tool.name) ?? true) ? [toolOf(tool, traits)] : [],
  );
  if (offered.length === 0) return {};
  if (!toolChoice || !isOffered(request)) return { tools: offered };
  const { type } = toolChoice;
  return { tools: offered, toolChoice: type === "tool" ? { type, toolName: toolChoice.name } : { type } };
}

const toolOf = (
  { name, description, inputSchema, strict, cache }: FunctionTool,
  traits: Traits,
): FunctionToolOption => ({
  type: "function",
  name,
  ...(description !== undefined && { description }),
  inputSchema,
  ...(strict !== undefined && traits.says.has("tools.function.strict") && { strict }),
  ...(cache &&
    traits.isAnthropic && {
      providerOptions: {
        anthropic: { cacheControl: { type: "ephemeral", ...(cache.ttl !== undefined && { ttl: cache.ttl }) } },
      },
    }),
});

/** How much reasoning is wanted, in the words of version 4; the providers' own options say it more exactly where they can. */
function effortOf({ reasoning }: ChatRequest, { version, says, isAnthropic }: Traits): Pick<CallOptions, "reasoning"> {
  if (!reasoning || version !== "v4") return {};
  if (reasoning.type === "adaptive") return reasoning.effort === undefined ? {} : { reasoning: reasoning.effort };
  if (reasoning.type === "disabled") return isAnthropic ? {} : { reasoning: "none" };
  return says.has("reasoning.budgetTokens") ? {} : { reasoning: effortOfBudget(reasoning.budgetTokens) };
}

/** The effort that a budget of so many tokens stands for. */
function effortOfBudget(budgetTokens: number): ReasoningEffort {
  if (budgetTokens <= 2_048) return "low";
  return budgetTokens <= 8_192 ? "medium" : "high";
}

function providerOptionsOf(request: ChatRequest, traits: Traits): ProviderOptions {
  const { toolChoice, endUser } = request;
  const isSingle = toolChoice !== undefined && toolChoice.type !== "none" && !toolChoice.parallel;
  const options: [string, JsonObject][] = [];
  if (traits.isAnthropic)
    options.push([
      "anthropic",
      {
        ...anthropicThinking(request, traits),
        ...(isSingle && { disableParallelToolUse: true }),
        ...(endUser !== undefined && { metadata: { userId: endUser } }),
      },
    ]);
  if (traits.isGoogle) {
    const google = googleOptions(request, traits);
    options.push(
      ...(/vertex/i.test(traits.provider) ? ["googleVertex", "vertex"] : ["google"]).map(
        (name): [string, JsonObject] => [name, google],
      ),
    );
  }
  if (traits.isOpenai)
    options.push([
      "openai",
      {
        ...(isSingle && { parallelToolCalls: false }),
        ...(endUser !== undefined && { user: endUser }),
        ...(traits.version !== "v4" && openaiEffort(request)),
      },
    ]);
  return Object.fromEntries(options.filter(([, own]) => Object.keys(own).length > 0));
}

function anthropicThinking(request: ChatRequest, { version }: Traits): JsonObject {
  const { reasoning } = request;
  if (!reasoning) return {};
  if (reasoning.type === "enabled") return { thinking: { type: "enabled", budgetTokens: budgetOf(request) ?? 1 } };
  const effort = reasoning.type === "adaptive" ? reasoning.effort : undefined;
  if (effort === undefined) return { thinking: { type: reasoning.type } };
  // Version 4 says it for every provider, which then finds the way that its model knows.
  return version === "v4" ? {} : { thinking: { type: "adaptive" }, effort: effort === "minimal" ? "low" : effort };
}

const MODALITY = { text: "TEXT", image: "IMAGE", audio: "AUDIO" } as const;

function googleOptions({ reasoning, modalities }: ChatRequest, { version }: Traits): JsonObject {
  const thinkingConfig: JsonObject = {
    ...(reasoning?.type === "disabled" && version !== "v4" && { thinkingBudget: 0 }),
    ...(reasoning?.type === "enabled" && { thinkingBudget: reasoning.budgetTokens }),
    ...(reasoning && reasoning.type !== "disabled" && { includeThoughts: reasoning.visible ?? true }),
  };
  const responseModalities = (modalities ?? []).flatMap((modality) =>
    modality === "audio" ? [] : [MODALITY[modality]],
  );
  return {
    ...(Object.keys(thinkingConfig).length > 0 && { thinkingConfig }),
    ...(responseModalities.length > 0 && { responseModalities }),
  };
}

function openaiEffort({ reasoning }: ChatRequest): JsonObject {
  if (reasoning?.type === "enabled") return { reasoningEffort: effortOfBudget(reasoning.budgetTokens) };
  if (reasoning?.type === "disabled") return { reasoningEffort: "none" };
  return reasoning?.effort === undefined ? {} : { reasoningEffort: reasoning.effort };
}
