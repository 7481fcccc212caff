/** Encodes a chat request for Converse. */

import type { CodecOptions } from "../../formats/format.ts";
import { isBlank } from "../../formats/messages/request.messages.ts";
import { encodeThinking, encodeToolChoice, fitted } from "../../formats/messages/request.ts";
import { withoutPrefill } from "../../formats/shared/claude.ts";
import { choiceAmong, type ConvertedFields } from "../../formats/shared/conversions.ts";
import { argumentsSchema, heldSchema, instructionFor, isHeld, schemaOf } from "../../formats/shared/held-schema.ts";
import { effortOf, limitWithoutReasoning, wantsReasoning } from "../../kinds/chat/reasoning.ts";
import type { ChatRequest, FunctionTool, ToolChoice } from "../../model/chat-request.ts";
import type { JsonObject } from "../../model/json.ts";
import { familyOf, type ModelFamily, nearestEffort } from "./models.ts";
import { type RequestBlock, cachePoint, ConversationEncoder, type RequestMessage } from "./request.messages.ts";

/** The fields that the host adds to each request. */
export interface HostFields {
  readonly guardrail?: JsonObject | undefined;
  readonly modelFields?: ((model: string) => JsonObject | undefined) | undefined;
}

export const MAX_TEMPERATURE = 1;

/** The tiers that a request can ask for, by the names of all vendors. */
const TIERS: ReadonlyMap<string, string> = new Map([
  ["default", "default"],
  ["standard", "default"],
  ["standard_only", "default"],
  ["flex", "flex"],
  ["priority", "priority"],
]);

/** Tells whether an identifier can stand in the metadata of a request. */
const isMetadata = (value: string): boolean => /^[a-z0-9\s:_@$#=/+,.-]{1,256}$/i.test(value);

/**
 * Builds the body. Leaves out the fields that Converse or the model does not have.
 *
 * @param lost Receives the fields that are changed or left out.
 */
export function encodeRequest(
  asked: ChatRequest,
  options: CodecOptions,
  { guardrail, modelFields }: HostFields,
  lost: ConvertedFields,
): JsonObject {
  const request = withoutPrefill(asked, lost);
  const { model, stream, stopSequences, endUser, serviceTier } = request;
  const tier = serviceTier === undefined ? undefined : TIERS.get(serviceTier);
  const family = familyOf(model);
  const encoder = new ConversationEncoder(model, options.foreignReasoning === "text", lost);
  const messages = encoder.messages(request.messages);
  const draft = family.isClaude ? fitted(request, messages.map(inMessagesWords), options, lost) : request;
  const reasoning = family.isClaude ? thinkingOf(draft) : reasoningOf(draft, family, options, lost);
  const tools = toolsOf(draft, family, encoder, lost);
  const { outputConfig, instruction } = formatOf(draft, family, messages.at(-1)?.role === "assistant", lost);
  const system = [...encoder.system(request.system), ...instruction];
  // Claude refuses a stop sequence of white space.
  const taken = stopSequences.filter((stop) => (family.isClaude ? !isBlank(stop) : stop !== ""));
  const stops = taken.slice(0, family.maxStopSequences);
  if (stops.length < stopSequences.length) lost.add("stopSequences");
  if (endUser !== undefined && !isMetadata(endUser)) lost.add("endUser");
  if (serviceTier !== undefined && tier === undefined) lost.add("serviceTier");
  const fields = { ...topKOf(draft, family, lost), ...reasoning.fields, ...tools.fields, ...modelFields?.(model) };
  return {
    // The cast is safe: blocks are JSON.
    messages: messages as unknown as JsonObject[],
    ...(system.length > 0 && { system }),
    inferenceConfig: {
      maxTokens: reasoning.maxTokens,
      ...samplingOf(draft, family, lost),
      ...(stops.length > 0 && { stopSequences: stops }),
    },
    ...(tools.config && { toolConfig: tools.config }),
    ...(outputConfig && { outputConfig }),
    ...(Object.keys(fields).length > 0 && { additionalModelRequestFields: fields }),
    // The stop sequence that has ended an answer. In a stream it stands in another place.
    ...(family.isClaude &&
      stops.length > 0 && { additionalModelResponseFieldPaths: [stream ? "/delta/stop_sequence" : "/stop_sequence"] }),
    ...(endUser !== undefined && !lost.has("endUser") && { requestMetadata: { endUser } }),
    ...(tier !== undefined && { serviceTier: { type: tier } }),
    ...(guardrail && { guardrailConfig: guardrailFor(guardrail, stream) }),
  };
}

/** Only a stream can be held back until it is checked. */
function guardrailFor({ streamProcessingMode, ...config }: JsonObject, stream: boolean): JsonObject {
  return { ...config, ...(stream && streamProcessingMode !== undefined && { streamProcessingMode }) };
}

/** Names the types of a message's blocks as the messages format does. */
const inMessagesWords = ({ role, content }: RequestMessage): { readonly role: string; readonly content: unknown } => ({
  role,
  content: content.map((block) => ({
    type: "reasoningContent" in block ? "thinking" : "toolResult" in block ? "tool_result" : "other",
  })),
});

interface EncodedReasoning {
  readonly fields: JsonObject;
  readonly maxTokens: number;
}

function thinkingOf(draft: ChatRequest): EncodedReasoning {
  const thinking = encodeThinking(draft);
  return { fields: thinking ? { thinking: thinking as JsonObject } : {}, maxTokens: draft.maxOutputTokens };
}

function reasoningOf(
  request: ChatRequest,
  family: ModelFamily,
  { reasoning: controlOf }: CodecOptions,
  lost: ConvertedFields,
): EncodedReasoning {
  const { model, reasoning, maxOutputTokens } = request;
  const control = controlOf?.(model) ?? family.control;
  const maxTokens = control === "none" ? limitWithoutReasoning(request) : maxOutputTokens;
  const nothing = { fields: {}, maxTokens };
  if (!reasoning || (control === "none" && !wantsReasoning(request))) return nothing;
  if (control === "none" || (reasoning.type === "disabled" && !family.hasNoEffort)) {
    lost.add("reasoning");
    return nothing;
  }
  if (reasoning.type === "disabled") return { fields: family.effortFields("none"), maxTokens };
  if (reasoning.type === "enabled") lost.add("reasoning.budgetTokens");
  const asked = reasoning.type === "enabled" ? effortOf(reasoning.budgetTokens) : reasoning.effort;
  if (asked === undefined && family.usualEffort === undefined) return nothing;
  const effort = asked === undefined ? family.usualEffort : nearestEffort(asked, family);
  if (effort === undefined) return nothing;
  if (asked === undefined) lost.add("reasoning.adaptive");
  else if (effort !== asked) lost.add("reasoning.effort");
  return { fields: family.effortFields(effort), maxTokens };
}

function samplingOf({ temperature, topP }: ChatRequest, { isSampled }: ModelFamily, lost: ConvertedFields): JsonObject {
  if (isSampled)
    return {
      ...(temperature !== undefined && { temperature: Math.min(temperature, MAX_TEMPERATURE) }),
      ...(topP !== undefined && { topP }),
    };
  // Values that change nothing are left out without loss.
  if (temperature !== undefined && temperature !== 1) lost.add("temperature");
  if (topP !== undefined && topP !== 1) lost.add("topP");
  return {};
}

function topKOf({ topK = 0 }: ChatRequest, family: ModelFamily, lost: ConvertedFields): JsonObject {
  // A `topK` of 0 means no limit.
  if (topK <= 0) return {};
  if (family.topK) return family.topK(topK);
  lost.add("topK");
  return {};
}

/**
 * Returns the tools, and fields of the model: only Claude's own choice of tools can forbid calls, or more than one.
 *
 * Bedrock refuses a conversation with calls unless a tool is offered, and has no way to forbid calls.
 */
function toolsOf(
  { tools, toolChoice }: ChatRequest,
  family: ModelFamily,
  { calledTools }: Pick<ConversationEncoder, "calledTools">,
  lost: ConvertedFields,
): { readonly config: JsonObject | undefined; readonly fields: JsonObject } {
  const named = toolChoice && "names" in toolChoice && toolChoice.names ? new Set(toolChoice.names) : undefined;
  const offered = tools.filter(
    (tool): tool is FunctionTool => tool.type === "function" && (!named || named.has(tool.name)),
  );
  const names = new Set(offered.map(({ name }) => name));
  const choice = toolChoice && choiceAmong(toolChoice, names, offered.length > 0, lost);
  const isForbidden = offered.length === 0 || choice?.type === "none";
  if (isForbidden && calledTools.size === 0) return { config: undefined, fields: {} };
  if (offered.length === 0) lost.add("tools");
  const specs =
    offered.length > 0
      ? offered.flatMap((tool) => encodeTool(tool, family, lost))
      : [...calledTools].map((name): RequestBlock => ({
          toolSpec: { name, inputSchema: { json: { type: "object" } } },
        }));
  if (isForbidden) {
    if (family.isClaude) return { config: { tools: specs }, fields: { tool_choice: { type: "none" } } };
    if (offered.length > 0) lost.add("toolChoice");
    return { config: { tools: specs }, fields: {} };
  }
  const isSingle = choice !== undefined && "parallel" in choice && !choice.parallel;
  if (isSingle && family.isClaude)
    return { config: { tools: specs }, fields: { tool_choice: encodeToolChoice(choice) as JsonObject } };
  if (isSingle) lost.add("toolChoice.parallel");
  const encoded = choice && encodeChoice(choice);
  return { config: { tools: specs, ...(encoded && { toolChoice: encoded }) }, fields: {} };
}

function encodeTool(tool: FunctionTool, family: ModelFamily, lost: ConvertedFields): RequestBlock[] {
  const { name, description, inputSchema, strict, cache } = tool;
  const json = argumentsSchema(inputSchema, lost);
  const isStrict = strict === true && family.isStructured && isHeld(json);
  if (strict && !isStrict) lost.add("tools.function.strict");
  const spec: RequestBlock = {
    toolSpec: {
      name,
      ...(description !== undefined && description.trim() !== "" && { description }),
      inputSchema: { json },
      ...(isStrict && { strict }),
    },
  };
  if (!cache) return [spec];
  if (family.cacheMarks === "all") return [spec, cachePoint(cache, family)];
  lost.add("messages.cache");
  return [spec];
}

/** Returns undefined for a free choice, which every model has. */
function encodeChoice(choice: ToolChoice): JsonObject | undefined {
  if (choice.type === "tool") return { tool: { name: choice.name } };
  return choice.type === "required" ? { any: {} } : undefined;
}

/** The instruction is for a model that is not held to a schema. */
function formatOf(draft: ChatRequest, family: ModelFamily, isPrefilled: boolean, lost: ConvertedFields) {
  const { responseFormat, reasoning } = draft;
  const effort = family.isClaude && reasoning?.type === "adaptive" ? reasoning.effort : undefined;
  const schema = responseFormat && schemaOf(responseFormat);
  const name = responseFormat?.type === "json" ? responseFormat.name : undefined;
  // Claude takes no schema beside a prefill.
  const held =
    schema !== undefined && family.isStructured && !(family.isClaude && isPrefilled) ? heldSchema(schema) : undefined;
  if (held && !held.isSame) lost.add("responseFormat.schema");
  const jsonSchema = held && { schema: JSON.stringify(held.schema), ...(name !== undefined && { name }) };
  const outputConfig = {
    ...(jsonSchema && { textFormat: { type: "json_schema", structure: { jsonSchema } } }),
    ...(effort !== undefined && { effort }),
  };
  const isAsked = responseFormat !== undefined && !held;
  if (isAsked) lost.add("responseFormat");
  if (isAsked && name !== undefined) lost.add("responseFormat.name");
  return {
    outputConfig: Object.keys(outputConfig).length > 0 ? outputConfig : undefined,
    instruction: isAsked ? [{ text: instructionFor(responseFormat) }] : [],
  };
}
