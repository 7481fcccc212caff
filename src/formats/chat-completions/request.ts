/** Converts a request of chat completions to the neutral request and back. */

import { isUnknown, unknownIn } from "../../http/validation.ts";
import type {
  ChatRequest,
  Reasoning,
  ReasoningEffort,
  ResponseFormat,
  Tool,
  ToolChoice,
} from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { derivedList } from "../../model/derived.ts";
import { isJsonObject, JsonBudget, type JsonObject } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { choiceAmong, type ConvertedFields, listConversions } from "../shared/conversions.ts";
import { argumentsSchema } from "../shared/held-schema.ts";
import {
  type EffortLevel,
  jsonInstruction,
  mayReason,
  nearestEffort,
  levelsOf,
  openAITier,
  outputLimit,
  sampling,
  strictOf,
} from "../shared/openai.ts";
import { enumSchema, FORMATS } from "../shared/schema.ts";
import { ONE_TEXT } from "../shared/tools.ts";
import { CONVERSIONS, fieldsOf, TEXT_CONVERSIONS } from "./conversions.ts";
import { lostCallsIn, withTools } from "./functions.ts";
import { decodeMessages, MessagesEncoder } from "./request.messages.ts";
import { FORMAT } from "./routes.ts";
import {
  type ChatCompletionsRequest,
  type CompletionFormat,
  type CompletionTool,
  type CompletionToolChoice,
  isEffort,
  isKnownChoice,
  isModality,
  MAX_STOPS,
  type NamedTool,
  nameOf,
  TOOLS,
  unsupportedIn,
} from "./schema.ts";

/**
 * Returns the neutral request. Unknown fields stay in `native`. Throws `invalid_request` if the arguments of the tool calls
 * exceed the budget.
 *
 * @param json The budget of JSON values. The body has used a part of it; the arguments of tool calls use the rest.
 */
export function decodeRequest(
  body: ChatCompletionsRequest,
  defaultMaxOutputTokens: number,
  json: JsonBudget = new JsonBudget(),
): ChatRequest {
  const { temperature, top_p, presence_penalty, frequency_penalty, seed, n } = body;
  const { reasoning_effort, modalities, audio, service_tier, user, safety_identifier } = body;
  const limit = body.max_completion_tokens ?? body.max_tokens;
  const { messages, tools, tool_choice, parallel_tool_calls } = withTools(body);
  const toolChoice = decodeToolChoice(tool_choice, parallel_tool_calls);
  const responseFormat = decodeResponseFormat(body.response_format);
  const endUser = safety_identifier ?? user;
  const stops = typeof body.stop === "string" ? [body.stop] : (body.stop ?? []);
  const voice = typeof audio?.voice === "string" ? audio.voice : undefined;
  return {
    model: body.model,
    ...decodeMessages(messages, json),
    tools: decodeTools(tools ?? []),
    maxOutputTokens: limit ?? defaultMaxOutputTokens,
    ...(limit == null && { limitedByDefault: true }),
    // Drop empty texts: they stop nothing.
    stopSequences: stops.filter((stop) => stop !== ""),
    stream: body.stream ?? false,
    ...(toolChoice && { toolChoice }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && { topP: top_p }),
    ...(presence_penalty != null && { presencePenalty: presence_penalty }),
    ...(frequency_penalty != null && { frequencyPenalty: frequency_penalty }),
    ...(seed != null && { seed }),
    ...(n != null && { candidateCount: n }),
    ...(body.logprobs && { logprobs: { top: body.top_logprobs ?? 0 } }),
    ...(responseFormat && { responseFormat }),
    ...(reasoning_effort != null && isEffort(reasoning_effort) && { reasoning: decodeReasoning(reasoning_effort) }),
    ...(modalities != null && { modalities: modalities.filter(isModality) }),
    ...(voice !== undefined && { speech: { voice } }),
    ...(service_tier != null && { serviceTier: service_tier }),
    ...(endUser != null && { endUser }),
    native: {
      format: FORMAT,
      body,
      betas: [],
      assertKnown: unknownIn(body),
      continuation: {
        prefills: false,
        body: (turns) => ({ ...body, messages: [...body.messages, ...turns] }),
      },
      // The neutral request has one field for the end user: `user` is lost if `safety_identifier` is another text.
      unsupported: () => [
        ...unsupportedIn(body),
        ...lostCallsIn(body),
        ...(user != null && user !== endUser ? ["user"] : []),
      ],
    },
  };
}

interface EncodedBody {
  readonly body: ChatCompletionsRequest;
  readonly conversions: readonly Conversion[];
}

export function encodeRequest(request: ChatRequest, options: CodecOptions = {}): EncodedBody {
  const fields = fieldsOf(request);
  const { outputLimitField = "max_completion_tokens" } = options;
  const effort = encodeReasoning(request, options, fields);
  const { temperature, topP, presencePenalty, frequencyPenalty, logprobs } = sampling(request, effort, fields);
  const { seed, candidateCount, toolChoice, responseFormat, modalities, serviceTier, endUser } = request;
  // The gateway ends the answer at the texts that the upstream does not get.
  const stopSequences = levelsOf(request.model) ? [] : request.stopSequences.slice(0, MAX_STOPS);
  const tools = request.tools.flatMap((tool) => encodeTool(tool, fields) ?? []);
  const system = [...request.system, ...jsonInstruction(request, request.system, fields)];
  const messages = new MessagesEncoder(fields, request, options).encode(system, request.messages);
  if (stopSequences.length < request.stopSequences.length) fields.add("stopSequences");
  const body: ChatCompletionsRequest = {
    model: request.model,
    messages,
    [outputLimitField]: outputLimit(request, options),
    ...(request.stream && { stream: true, stream_options: { include_usage: true } }),
    ...(stopSequences.length > 0 && { stop: stopSequences }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(presencePenalty !== undefined && { presence_penalty: presencePenalty }),
    ...(frequencyPenalty !== undefined && { frequency_penalty: frequencyPenalty }),
    ...(seed !== undefined && { seed }),
    ...(candidateCount !== undefined && { n: candidateCount }),
    ...(logprobs && { logprobs: true, ...(logprobs.top > 0 && { top_logprobs: logprobs.top }) }),
    ...(tools.length > 0 && { tools }),
    ...(toolChoice && encodeToolChoice(toolChoice, tools, fields)),
    ...(responseFormat && { response_format: encodeResponseFormat(responseFormat, fields) }),
    ...(effort !== undefined && { reasoning_effort: effort }),
    ...(modalities && encodeModalities(modalities, request)),
    ...(serviceTier !== undefined && { service_tier: openAITier(serviceTier) }),
    ...(endUser !== undefined && !fields.has("endUser") && { user: endUser }),
  };
  return { body, conversions: conversionsOf(request, options, fields) };
}

const decodeTools = derivedList(([tool]: readonly CompletionTool[]) => decodeTool(tool as CompletionTool));

function decodeTool(tool: CompletionTool): Tool {
  if (isUnknown(tool, TOOLS)) {
    const name = nameOf(tool);
    return { type: "provider", format: FORMAT, ...(name !== undefined && { name }), definition: tool };
  }
  if (tool.type === "custom") {
    const { name, description, format } = tool.custom;
    const described = description == null ? {} : { description };
    return {
      type: "function",
      name,
      ...described,
      inputSchema: ONE_TEXT,
      custom: format == null ? {} : { format: grammarIn(format) },
    };
  }
  const { name, description, parameters, strict } = tool.function;
  return {
    type: "function",
    name,
    // Without `parameters`, a function takes no arguments.
    inputSchema: parameters ?? { type: "object", properties: {} },
    ...(description != null && { description }),
    ...(strict != null && { strict }),
  };
}

/** Returns the format of a custom tool's input as the neutral request has it: the fields of the grammar stand beside its type. */
function grammarIn({ grammar, ...format }: JsonObject): JsonObject {
  return isJsonObject(grammar) ? { ...format, ...grammar } : format;
}

/**
 * Encodes a tool. Returns undefined for a tool that the format does not have. A custom tool becomes a function, because few servers of the
 * format know custom tools.
 */
function encodeTool(tool: Tool, fields: ConvertedFields): CompletionTool | undefined {
  if (tool.type === "provider" && tool.format === FORMAT) return tool.definition as CompletionTool;
  if (tool.type !== "function") return undefined;
  const { name, description, inputSchema } = tool;
  const parameters = argumentsSchema(inputSchema, fields);
  const strict = strictOf(tool, parameters, fields);
  return {
    type: "function",
    function: {
      name,
      ...(description !== undefined && { description }),
      parameters,
      ...(strict !== undefined && { strict }),
    },
  };
}

/** Decodes the tool choice. It includes `parallel`, so a request with only `parallel_tool_calls` gets the choice `auto`. */
function decodeToolChoice(
  choice: CompletionToolChoice | null | undefined,
  parallelCalls: boolean | null | undefined,
): ToolChoice | undefined {
  if (choice == null) return parallelCalls == null ? undefined : { type: "auto", parallel: parallelCalls };
  if (choice === "none") return { type: "none" };
  const parallel = parallelCalls ?? true;
  if (!isKnownChoice(choice)) return undefined;
  if (typeof choice === "string") return { type: choice, parallel };
  if (choice.type !== "allowed_tools") return { type: "tool", name: nameOf(choice) ?? "", parallel };
  const { mode, tools } = choice.allowed_tools;
  return { type: mode, parallel, names: tools.map((tool) => nameOf(tool) ?? tool.type) };
}

const named = (name: string): NamedTool => ({ type: "function", function: { name } });

/** Encodes the tool choice. Leaves out a choice without tools and the names of missing tools: providers refuse both. */
function encodeToolChoice(
  asked: ToolChoice,
  tools: readonly CompletionTool[],
  fields: ConvertedFields,
): Pick<ChatCompletionsRequest, "tool_choice" | "parallel_tool_calls"> {
  const names = new Set(tools.flatMap((tool) => nameOf(tool) ?? []));
  const choice = choiceAmong(asked, names, tools.length > 0, fields);
  if (!choice) return {};
  if (choice.type === "none") return { tool_choice: "none" };
  const single = choice.parallel ? {} : { parallel_tool_calls: false };
  if (choice.type === "tool") return { tool_choice: named(choice.name), ...single };
  if (!choice.names) return { tool_choice: choice.type, ...single };
  const allowed_tools = { mode: choice.type, tools: choice.names.map(named) };
  return { tool_choice: { type: "allowed_tools", allowed_tools }, ...single };
}

function decodeResponseFormat(format: CompletionFormat | null | undefined): ResponseFormat | undefined {
  if (format == null || isUnknown(format, FORMATS) || format.type === "text") return undefined;
  if (format.type === "json_object") return { type: "json", ...(format.schema && { schema: format.schema }) };
  const { name, schema, strict } = format.json_schema;
  return { type: "json", name, ...(schema != null && { schema }), ...(strict != null && { strict }) };
}

/** The name of a schema if the request has none. The format requires a name. */
const DEFAULT_NAME = "answer";

function encodeResponseFormat(format: ResponseFormat, fields: ConvertedFields): CompletionFormat {
  if (format.type === "enum") {
    const schema = enumSchema(format.values);
    return { type: "json_schema", json_schema: { name: DEFAULT_NAME, schema, strict: true } };
  }
  const { schema, name, strict } = format;
  if (!schema && name === undefined) return { type: "json_object" };
  if (name === undefined) fields.add("responseFormat.name");
  const json_schema = {
    name: name ?? DEFAULT_NAME,
    ...(schema && { schema }),
    ...(strict !== undefined && { strict }),
  };
  return { type: "json_schema", json_schema };
}

const decodeReasoning = (effort: ReasoningEffort | "none"): Reasoning =>
  effort === "none" ? { type: "disabled" } : { type: "adaptive", effort };

/** Returns the level of effort to ask for; undefined to leave the choice to the model. */
function encodeReasoning(
  { model, reasoning }: ChatRequest,
  options: CodecOptions,
  fields: ConvertedFields,
): EffortLevel | undefined {
  if (!reasoning || !mayReason(model, reasoning, options, fields)) return undefined;
  if (reasoning.type !== "disabled" && reasoning.visible === false) fields.add("reasoning.visible");
  const level = nearestEffort(model, reasoning, fields);
  if (level === undefined) fields.add("reasoning.adaptive");
  return level;
}

export const conversionsOf = (
  request: Partial<Pick<ChatRequest, "native" | "tools" | "toolChoice">>,
  { foreignReasoning }: CodecOptions,
  fields: ConvertedFields,
): Conversion[] => listConversions(foreignReasoning === "text" ? TEXT_CONVERSIONS : CONVERSIONS, fields, request);

const DEFAULT_VOICE = "alloy";

/** Encodes the modalities. Sound also needs a voice and a file format; `pcm16` is the only format that can be streamed. */
function encodeModalities(
  modalities: NonNullable<ChatRequest["modalities"]>,
  { speech, stream }: ChatRequest,
): Pick<ChatCompletionsRequest, "modalities" | "audio"> {
  const possible = modalities.filter((modality) => modality !== "image");
  // An empty list would ask for an answer in nothing.
  if (possible.length === 0) return {};
  if (!possible.includes("audio")) return { modalities: possible };
  return { modalities: possible, audio: { voice: speech?.voice ?? DEFAULT_VOICE, format: stream ? "pcm16" : "wav" } };
}
