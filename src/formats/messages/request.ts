/**
 * Converts a messages request (spec 2.6) to the neutral request and back. The two directions of each field stand next to each other. Then fits
 * thinking and sampling to the model: the official service refuses fields that its model does not know, and fields that may not stand beside
 * thinking. Such fields are changed or left out, and reported.
 */

import { isUnknown, unknownIn } from "../../http/validation.ts";
import {
  budgetOf,
  budgetWithin,
  effortOf,
  limitWithoutReasoning,
  loopStart,
  turnsOf,
  wantsReasoning,
} from "../../kinds/chat/reasoning.ts";
import type {
  ChatRequest,
  ProviderTool,
  Reasoning,
  ReasoningControl,
  ReasoningEffort,
  TextPart,
  Tool,
  ToolChoice,
} from "../../model/chat-request.ts";
import { derivedList } from "../../model/derived.ts";
import { given, isLonger } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { type ClaudeModel, claudeNamed } from "../shared/claude.ts";
import { choiceAmong, type ConvertedFields } from "../shared/conversions.ts";
import { argumentsSchema, heldSchema, instructionFor, isHeld, schemaOf } from "../shared/held-schema.ts";
import { isWebSearch, webSearchLimits } from "../shared/tools.ts";
import {
  cacheControlOf,
  cacheOf,
  decodeMessages,
  decodeText,
  encodeMessages,
  encodeText,
  isBlank,
  textParts,
} from "./request.messages.ts";
import { FORMAT } from "./routes.ts";
import {
  type BuiltInTool,
  type CustomTool,
  isEffort,
  type MessagesRequest,
  type RequestMessage,
  type RequestToolChoice,
  type Thinking,
  THINKING,
  TOOL_CHOICES,
  unsupportedIn,
} from "./schema.ts";

/** The values of the request headers that the format reads (spec 4, note 3). */
export interface MessagesHeaders {
  readonly version?: string;
  readonly betas: readonly string[];
}

/** Decodes a request. Unknown fields stay in `native`. Consecutive messages of one role become one turn. */
export function decodeRequest(body: MessagesRequest, { version, betas }: MessagesHeaders): ChatRequest {
  const { tool_choice, thinking, metadata, temperature, top_p, top_k, output_config, service_tier } = body;
  const reasoning = thinking ? decodeThinking(thinking, output_config?.effort) : undefined;
  const toolChoice = tool_choice ? decodeToolChoice(tool_choice) : undefined;
  return {
    model: body.model,
    maxOutputTokens: body.max_tokens,
    messages: decodeMessages(body.messages),
    system: typeof body.system === "string" ? textParts(body.system) : (body.system ?? []).map(decodeText),
    tools: decodeTools(body.tools ?? []),
    stopSequences: body.stop_sequences ?? [],
    stream: body.stream ?? false,
    ...(toolChoice && { toolChoice }),
    ...(reasoning && { reasoning }),
    ...(metadata?.user_id != null && { endUser: metadata.user_id }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && top_p >= 0 && { topP: top_p }),
    ...(top_k != null && top_k >= 0 && { topK: top_k }),
    ...(output_config?.format?.type === "json_schema" &&
      output_config.format.schema && { responseFormat: { type: "json", schema: output_config.format.schema } }),
    ...(typeof service_tier === "string" && { serviceTier: service_tier }),
    native: {
      format: FORMAT,
      body,
      betas,
      ...(version !== undefined && { version }),
      unsupported: () => unsupportedIn(body),
      assertKnown: unknownIn(body),
      continuation: {
        // The official service takes no prefill beside thinking.
        prefills: !reasoning || reasoning.type === "disabled",
        body: (turns) => ({ ...body, messages: [...body.messages, ...turns] }),
      },
    },
  };
}

/**
 * Builds a body from the neutral fields. Leaves out the fields that the format does not have; the table of conversions lists them.
 *
 * @param messages The encoded conversation.
 * @param lost Receives the fields that are changed.
 */
export function encodeRequest(
  request: ChatRequest,
  messages: RequestMessage[] = encodeMessages(request.messages),
  lost: ConvertedFields = new Set(),
): MessagesRequest {
  const { endUser, serviceTier, temperature, topP, topK } = request;
  const { output_config, instruction } = encodeForm(request, messages, lost);
  const system = [...request.system, ...instruction].filter(({ text }) => !isBlank(text));
  const tools = offeredTools(request);
  const toolChoice = sayableChoice(request);
  const thinking = encodeThinking(request);
  // The service refuses a stop sequence of white space. The gateway ends the text there.
  const stops = request.stopSequences.filter((stop) => !isBlank(stop));
  if (stops.length < request.stopSequences.filter((stop) => stop !== "").length) lost.add("stopSequences");
  return {
    model: request.model,
    max_tokens: request.maxOutputTokens,
    messages,
    ...(system.length > 0 && { system: system.map(encodeText) }),
    ...(tools.length > 0 && { tools: tools.map((tool) => encodeTool(tool, request.model, lost)) }),
    ...(stops.length > 0 && { stop_sequences: stops }),
    ...(request.stream && { stream: true }),
    ...(toolChoice && { tool_choice: encodeToolChoice(toolChoice) }),
    ...given({ thinking, output_config }),
    ...(endUser !== undefined && !isLonger(endUser, MAX_END_USER) && { metadata: { user_id: endUser } }),
    ...(temperature !== undefined && { temperature: Math.min(temperature, MAX_TEMPERATURE) }),
    // A `topP` of 1 and a `topK` of 0 change nothing, and the format does not allow these values: leave them out.
    ...(topP !== undefined && topP < 1 && { top_p: topP === 0 ? LEAST_TOP_P : topP }),
    ...(topK !== undefined && topK > 0 && { top_k: topK }),
    ...(isServiceTier(serviceTier) && { service_tier: serviceTier }),
  };
}

/** Replaces a `topP` of 0, which means only the most likely token. The format allows only values above 0. */
const LEAST_TOP_P = 1e-6;

/** Tells whether a request can ask for a service tier of this name. */
export const isServiceTier = (tier: string | undefined): boolean => tier === "auto" || tier === "standard_only";

const decodeTools = derivedList(([tool]: readonly (CustomTool | BuiltInTool)[]) =>
  decodeTool(tool as CustomTool | BuiltInTool),
);

function decodeTool(tool: CustomTool | BuiltInTool): Tool {
  if (!isCustom(tool))
    return { type: "provider", format: FORMAT, definition: tool, ...(tool.name != null && { name: tool.name }) };
  const { name, description, input_schema, strict } = tool;
  return {
    type: "function",
    name,
    inputSchema: input_schema,
    ...(description != null && { description }),
    ...(typeof strict === "boolean" && { strict }),
    ...cacheOf(tool),
  };
}

const isCustom = (tool: CustomTool | BuiltInTool): tool is CustomTool => tool.type == null || tool.type === "custom";

type EncodableTool = Exclude<Tool, { type: "code-execution" }>;

function encodeTool(tool: EncodableTool, model: string, lost: ConvertedFields): CustomTool | BuiltInTool {
  if (tool.type === "provider") return isWebSearch(tool) ? encodeWebSearch(tool) : (tool.definition as BuiltInTool);
  const { name, description, inputSchema, strict } = tool;
  const input_schema = argumentsSchema(inputSchema, lost);
  const isLax = strict === true && !(claudeNamed(model).isStructured && isHeld(input_schema));
  if (isLax) lost.add("tools.function.strict");
  return {
    name,
    input_schema,
    ...given({ description, strict: isLax ? undefined : strict }),
    ...cacheControlOf(tool),
  };
}

function encodeWebSearch(tool: ProviderTool): BuiltInTool {
  const { allowedDomains, userLocation } = webSearchLimits(tool);
  return {
    type: "web_search_20250305",
    name: WEB_SEARCH,
    ...(allowedDomains.length > 0 && { allowed_domains: allowedDomains }),
    ...(userLocation && { user_location: userLocation }),
  };
}

/** Returns the tools that the format has. If the tool choice lists the tools that may be called, the others are left out. */
function offeredTools({ tools, toolChoice }: ChatRequest): readonly EncodableTool[] {
  const named = toolChoice && "names" in toolChoice && toolChoice.names ? new Set(toolChoice.names) : undefined;
  return tools.filter((tool): tool is EncodableTool => {
    // The format has no general tool for code execution, only dated versions, so the neutral tool is left out.
    if (tool.type === "code-execution") return false;
    if (tool.type === "provider" && tool.format !== FORMAT && !isWebSearch(tool)) return false;
    return !named || tool.name === undefined || named.has(tool.name);
  });
}

/** Returns the tool choice, and adds the fields that it loses; undefined for a choice without tools, which the format refuses. */
export function sayableChoice(request: ChatRequest, fields: ConvertedFields = new Set()): ToolChoice | undefined {
  const { toolChoice } = request;
  const offered = offeredTools(request);
  const names = new Set(offered.flatMap(({ name }) => name ?? []));
  const choice = toolChoice && choiceAmong(toolChoice, names, offered.length > 0, fields);
  const chosen = choice?.type === "tool" ? offered.find(({ name }) => name === choice.name) : undefined;
  return choice?.type === "tool" && chosen?.type === "provider" && isWebSearch(chosen)
    ? { ...choice, name: WEB_SEARCH }
    : choice;
}

/** The name under which the format offers a search of the web. */
const WEB_SEARCH = "web_search";

/** Decodes the tool choice; undefined for one of an unknown type. */
function decodeToolChoice(choice: RequestToolChoice): ToolChoice | undefined {
  if (isUnknown(choice, TOOL_CHOICES)) return undefined;
  if (choice.type === "none") return { type: "none" };
  const parallel = !(choice.disable_parallel_tool_use ?? false);
  if (choice.type === "tool") return { type: "tool", name: choice.name, parallel };
  return { type: choice.type === "any" ? "required" : "auto", parallel };
}

export function encodeToolChoice(choice: ToolChoice): RequestToolChoice {
  if (choice.type === "none") return { type: "none" };
  const single = choice.parallel ? {} : { disable_parallel_tool_use: true };
  if (choice.type === "tool") return { type: "tool", name: choice.name, ...single };
  return { type: choice.type === "required" ? "any" : "auto", ...single };
}

/** Decodes the thinking; undefined for a mode of an unknown type. */
function decodeThinking(thinking: Thinking, effort: unknown): Reasoning | undefined {
  if (isUnknown(thinking, THINKING)) return undefined;
  if (thinking.type === "disabled") return { type: "disabled" };
  const { display } = thinking;
  const visible = display === "summarized" || display === "omitted" ? { visible: display === "summarized" } : {};
  if (thinking.type === "enabled") return { type: "enabled", budgetTokens: thinking.budget_tokens, ...visible };
  // `between_tools` becomes `adaptive`: in the neutral request, the model decides whether it reasons between tool calls.
  return { type: "adaptive", ...(isEffort(effort) && { effort }), ...visible };
}

/** Encodes the form of the answer: a schema, or an instruction where the model cannot be held to it. */
function encodeForm(
  { model, responseFormat: format, reasoning, messages: turns }: ChatRequest,
  messages: readonly RequestMessage[],
  lost: ConvertedFields,
): { readonly output_config: MessagesRequest["output_config"]; readonly instruction: readonly TextPart[] } {
  const effort = reasoning?.type === "adaptive" ? reasoning.effort : undefined;
  const schema = format && schemaOf(format);
  // The service takes no schema beside a prefill or beside documents that are to be cited.
  const takesSchema =
    schema !== undefined &&
    claudeNamed(model).isStructured &&
    messages.at(-1)?.role !== "assistant" &&
    !turns.some(({ parts }) => parts.some((part) => part.type === "document" && part.citations));
  const held = takesSchema ? heldSchema(schema) : undefined;
  if (held && !held.isSame) lost.add("responseFormat.schema");
  if (format && !held) lost.add("responseFormat");
  const output_config = {
    ...(held && { format: { type: "json_schema" as const, schema: held.schema } }),
    ...(effort !== undefined && { effort: effort === "minimal" ? ("low" as const) : effort }),
  };
  return {
    output_config: Object.keys(output_config).length > 0 ? output_config : undefined,
    instruction: format && !held ? [{ type: "text", text: instructionFor(format) }] : [],
  };
}

/** The smallest budget for reasoning, in tokens (spec 2.6). */
export const MIN_BUDGET_TOKENS = 1024;

/** The beta with which a budget may exceed the output limit: it then counts for a whole turn, with the thinking between its tool calls. */
export const INTERLEAVED_THINKING = "interleaved-thinking-2025-05-14";

/** The longest identifier of an end user, in characters (spec 2.6). */
export const MAX_END_USER = 256;

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
  messages: readonly Message[],
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
function giveUpConflict(draft: Draft, messages: readonly Message[], model: ClaudeModel, lost: ConvertedFields): void {
  if (!wantsReasoning(draft)) return;
  // With `adaptive`, a tool loop may begin without thinking.
  const isExcluded =
    forcesTool(draft) ||
    messages.at(-1)?.role === "assistant" ||
    (draft.reasoning?.type === "enabled" && lacksThinking(messages));
  if (isExcluded) giveUp(draft, model, lost);
}

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

/** The part of a message that decides on its thinking: its role, and the types of its blocks. */
type Message = { readonly role: string; readonly content?: unknown };

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
  const thinks = wantsReasoning(draft);
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

export function encodeThinking({ model, reasoning }: ChatRequest): Thinking | undefined {
  if (!reasoning || reasoning.type === "disabled") return reasoning && { type: reasoning.type };
  if (reasoning.type === "enabled") return { type: "enabled", budget_tokens: reasoning.budgetTokens };
  // Newer models show no thinking unless a summary is asked for.
  const isHidden = claudeNamed(model).sampling === "none" && reasoning.visible !== false;
  return { type: "adaptive", ...(isHidden && { display: "summarized" }) };
}
