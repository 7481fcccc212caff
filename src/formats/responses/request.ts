/**
 * Converts a Responses request to the neutral request and back, and lists all tools. This format groups tools in namespaces, and has items
 * that add tools in the middle of a conversation. Other formats have one flat list, so a tool of a namespace is called by both names there.
 */

import { isUnknown } from "../../http/validation.ts";
import type {
  ChatMessage,
  ChatRequest,
  Reasoning,
  ResponseFormat,
  Tool,
  ToolChoice,
  WireObject,
} from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, JsonBudget, type JsonObject } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { choiceAmong, type ConvertedFields, listConversions } from "../shared/conversions.ts";
import { argumentsSchema } from "../shared/held-schema.ts";
import {
  type EffortLevel,
  jsonInstruction,
  mayReason,
  bareName,
  nearestEffort,
  openAITier,
  outputLimit,
  levelsOf,
  sampling,
  strictOf,
} from "../shared/openai.ts";
import { enumSchema, FORMATS } from "../shared/schema.ts";
import { ONE_TEXT } from "../shared/tools.ts";
import { fieldsOf, noteEmpty, tableOf } from "./conversions.ts";
import type { ResolvedRequest, ResponsesNative } from "./kept.ts";
import { decodeInput, InputEncoder } from "./request.input.ts";
import { FORMAT } from "./routes.ts";
import {
  additionalTools,
  flatName,
  isChoice,
  isEffort,
  isNamespace,
  type NamedInSpace,
  type NamedTool,
  nameOf,
  type NamespaceTool,
  type ResponsesRequest,
  type TextFormat,
  unsupportedIn,
  type WireChoice,
  type WireTool,
} from "./schema.ts";

const LOGPROBS = "message.output_text.logprobs";

/**
 * Returns the neutral request. Unknown fields stay in `native`. Throws `invalid_request` if the arguments of the tool calls exceed the
 * budget.
 *
 * @param json The budget of JSON values. The body has used a part of it; the arguments of tool calls use the rest.
 * @param assertKnown Refuses the unknown types of the caller's body, if it has any.
 */
export function decodeRequest(
  { body, own }: ResolvedRequest,
  defaultMaxOutputTokens: number,
  json: JsonBudget = new JsonBudget(),
  assertKnown?: () => void,
): ChatRequest & { readonly native: ResponsesNative } {
  const { temperature, top_p, max_output_tokens: limit, service_tier, user, safety_identifier } = body;
  const wireTools = flatTools(body);
  const names = new Set(wireTools.flatMap((tool) => nameOf(tool) ?? []));
  const tools = wireTools.map((tool) => decodeTool(tool, names));
  const toolChoice = decodeToolChoice(body, wireTools, names);
  const responseFormat = decodeFormat(body.text?.format);
  const reasoning = decodeReasoning(body.reasoning);
  const endUser = safety_identifier ?? user;
  const { system, messages } = decodeInput(body.input, json);
  const instructions = body.instructions ? [{ type: "text", text: body.instructions } as const] : [];
  return {
    model: body.model,
    system: [...instructions, ...system],
    messages,
    tools,
    maxOutputTokens: limit ?? defaultMaxOutputTokens,
    ...(limit == null && { limitedByDefault: true }),
    stopSequences: [],
    stream: body.stream ?? false,
    ...(toolChoice && { toolChoice }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && { topP: top_p }),
    ...(body.include?.includes(LOGPROBS) && { logprobs: { top: body.top_logprobs ?? 0 } }),
    ...(responseFormat && { responseFormat }),
    ...(reasoning && { reasoning }),
    ...(service_tier != null && { serviceTier: service_tier }),
    ...(endUser != null && { endUser }),
    native: {
      format: FORMAT,
      body,
      own,
      assertKnown,
      betas: [],
      ...(preparesCache(body) && { preparesCache: true }),
      continuation: {
        prefills: false,
        body(turns) {
          const { input } = body;
          const before = typeof input === "string" ? [{ role: "user", content: input }] : (input ?? []);
          return { ...body, input: [...before, ...turns] };
        },
      },
      // The neutral request has one field for the end user: `user` is lost if `safety_identifier` is another text.
      unsupported: () => [...unsupportedIn(body), ...(user != null && user !== endUser ? ["user"] : [])],
    },
  };
}

const preparesCache = ({ prompt_cache_options: options }: WireObject): boolean =>
  isJsonObject(options) && options["prewarm"] === true;

export interface EncodedBody {
  readonly body: JsonObject;
  readonly conversions: readonly Conversion[];
}

/** The least output limit that the official service accepts, in tokens. */
const LEAST_LIMIT = 16;

/** Builds a body from the neutral fields of a request. The upstream is told to store nothing. */
export function encodeRequest(request: ChatRequest, options: CodecOptions = {}): EncodedBody {
  const fields = fieldsOf(request);
  const { toolChoice, responseFormat, serviceTier, endUser } = request;
  const reasoning = encodeReasoning(request, options, fields);
  const { temperature, topP, logprobs } = sampling(request, reasoning?.effort, fields);
  const tools = request.tools.flatMap((tool) => encodeTool(tool, fields) ?? []);
  // A single instruction stands beside the input, where the service does not look for the word.
  const added = jsonInstruction(request, request.system.length > 1 ? request.system : [], fields);
  const messages: readonly ChatMessage[] =
    added.length > 0 ? [{ role: "system", parts: added }, ...request.messages] : request.messages;
  const input = new InputEncoder({ ...request, messages }, fields, options.foreignReasoning).encode();
  if (input.length === 0) noteEmpty(fields);
  const [instructions, ...others] = request.system;
  const include = [...encryptedReasoning(request.model, options), ...(logprobs ? [LOGPROBS] : [])];
  const limit = outputLimit(request, options);
  if (limit < LEAST_LIMIT) fields.add("maxOutputTokens");
  const body = {
    model: request.model,
    input,
    max_output_tokens: Math.max(limit, LEAST_LIMIT),
    store: false,
    ...(include.length > 0 && { include }),
    ...(instructions && others.length === 0 && { instructions: instructions.text }),
    ...(request.stream && { stream: true }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(logprobs && logprobs.top > 0 && { top_logprobs: logprobs.top }),
    ...(tools.length > 0 && { tools }),
    ...(toolChoice && encodeToolChoice(toolChoice, tools, fields)),
    ...(responseFormat && { text: { format: encodeFormat(responseFormat, fields) } }),
    ...(reasoning && { reasoning }),
    ...(serviceTier !== undefined && { service_tier: openAITier(serviceTier) }),
    ...(endUser !== undefined && !fields.has("endUser") && { safety_identifier: endUser }),
  };
  // The cast is safe: all values came as JSON.
  return { body: body as JsonObject, conversions: listConversions(tableOf(options), fields, request) };
}

const NO_PARAMETERS: JsonObject = { type: "object", properties: {} };

/** @param names The names of the functions and custom tools. A tool of the provider has its type as name, unless another has this name. */
function decodeTool(tool: WireTool, names: ReadonlySet<string>): Tool {
  if (tool.type === "function") {
    const { name, description, parameters, strict } = tool as Extract<WireTool, { parameters?: unknown }>;
    return {
      type: "function",
      name,
      inputSchema: isJsonObject(parameters) ? parameters : NO_PARAMETERS,
      ...(typeof description === "string" && { description }),
      ...(typeof strict === "boolean" && { strict }),
    };
  }
  if (tool.type === "custom") {
    const { name, description, format } = tool as Extract<WireTool, { format?: unknown }>;
    const custom = isJsonObject(format) ? { format } : {};
    const described = typeof description === "string" ? { description } : {};
    return { type: "function", name, ...described, inputSchema: ONE_TEXT, custom };
  }
  if (tool.type === "code_interpreter") return { type: "code-execution" };
  return { type: "provider", format: FORMAT, ...(!names.has(tool.type) && { name: tool.type }), definition: tool };
}

/** Encodes a tool. Returns undefined for a tool that the format does not have. */
function encodeTool(tool: Tool, fields: ConvertedFields): WireTool | undefined {
  if (tool.type === "provider") return tool.format === FORMAT ? (tool.definition as WireTool) : undefined;
  if (tool.type === "code-execution") return { type: "code_interpreter", container: { type: "auto" } };
  const { name, description, inputSchema, custom } = tool;
  const described = description === undefined ? {} : { description };
  if (custom) return { type: "custom", name, ...described, ...(custom.format && { format: custom.format }) };
  // Providers take a missing `strict` for true, and then refuse schemas that are not strict.
  const parameters = argumentsSchema(inputSchema, fields);
  return { type: "function", name, ...described, parameters, strict: strictOf(tool, parameters, fields) ?? false };
}

/** Decodes the tool choice. It includes `parallel`, so a request with only `parallel_tool_calls` gets the choice `auto`. */
function decodeToolChoice(
  { tool_choice: choice, parallel_tool_calls: calls, ...body }: ResponsesRequest,
  wireTools: readonly WireTool[],
  names: ReadonlySet<string>,
): ToolChoice | undefined {
  if (choice == null) return calls == null ? undefined : { type: "auto", parallel: calls };
  if (choice === "none") return { type: "none" };
  const parallel = calls ?? true;
  if (typeof choice === "string" && !isChoice(choice)) return undefined;
  if (typeof choice === "string") return { type: choice, parallel };
  const flatNameOf = chooser(body, wireTools);
  const flat = (tool: NamedTool): string | undefined => {
    const name = nameOf(tool);
    if (name !== undefined) return flatNameOf({ ...tool, name });
    return names.has(tool.type) ? undefined : tool.type;
  };
  if ("mode" in choice) {
    const { mode, tools } = choice as Extract<WireChoice, { mode: unknown }>;
    return { type: mode, parallel, names: tools.flatMap((tool) => flat(tool) ?? []) };
  }
  const name = flat(choice);
  return name === undefined ? { type: "required", parallel } : { type: "tool", name, parallel };
}

/** Encodes the tool choice. Leaves out a choice without tools and the names of missing tools: providers refuse both. */
function encodeToolChoice(asked: ToolChoice, tools: readonly WireTool[], fields: ConvertedFields): JsonObject {
  const types = new Map<string, string>();
  for (const tool of tools) types.set(nameOf(tool) ?? tool.type, tool.type);
  const choice = choiceAmong(asked, new Set(types.keys()), tools.length > 0, fields);
  if (!choice) return {};
  if (choice.type === "none") return { tool_choice: "none" };
  // A tool of the provider is chosen by its type alone.
  const named = (name: string): JsonObject =>
    types.get(name) === name ? { type: name } : { type: types.get(name) ?? "function", name };
  const single = choice.parallel ? {} : { parallel_tool_calls: false };
  if (choice.type === "tool") return { tool_choice: named(choice.name), ...single };
  if (!choice.names) return { tool_choice: choice.type, ...single };
  return { tool_choice: { type: "allowed_tools", mode: choice.type, tools: choice.names.map(named) }, ...single };
}

function decodeFormat(format: TextFormat | null | undefined): ResponseFormat | undefined {
  if (format == null || isUnknown(format, FORMATS) || format.type === "text") return undefined;
  if (format.type === "json_object") return { type: "json", ...(format.schema && { schema: format.schema }) };
  const { name, schema, strict } = format;
  return { type: "json", name, schema, ...(strict != null && { strict }) };
}

/** The name of a schema if the request has none. The format requires a name. */
const DEFAULT_NAME = "answer";

function encodeFormat(format: ResponseFormat, fields: ConvertedFields): JsonObject {
  if (format.type === "enum")
    return { type: "json_schema", name: DEFAULT_NAME, schema: enumSchema(format.values), strict: true };
  const { name, strict } = format;
  if (!format.schema && name === undefined) return { type: "json_object" };
  if (name === undefined) fields.add("responseFormat.name");
  const schema = format.schema ?? { type: "object" };
  // Providers take a missing `strict` for true, and then refuse schemas that are not strict.
  return { type: "json_schema", name: name ?? DEFAULT_NAME, schema, strict: strict ?? false };
}

/** Decodes the reasoning. Its summary is visible only if the caller asks for one. */
function decodeReasoning(reasoning: ResponsesRequest["reasoning"]): Reasoning | undefined {
  if (reasoning == null) return undefined;
  const { effort, summary, generate_summary } = reasoning;
  if (effort === "none") return { type: "disabled" };
  const visible = (summary ?? generate_summary) != null;
  return { type: "adaptive", visible, ...(effort != null && isEffort(effort) && { effort }) };
}

/** Encodes the reasoning. Returns undefined for a model that does not reason, and refuses a request that asks for it. */
function encodeReasoning(
  { model, reasoning }: ChatRequest,
  options: CodecOptions,
  fields: ConvertedFields,
): { readonly effort?: EffortLevel; readonly summary?: "auto" } | undefined {
  if (!reasoning || !mayReason(model, reasoning, options, fields)) return undefined;
  const effort = nearestEffort(model, reasoning, fields);
  const isShown = reasoning.type !== "disabled" && reasoning.visible !== false;
  return { ...(effort && { effort }), ...(isShown && { summary: "auto" }) };
}

/** Asks for reasoning that can be sent back. Without it, an upstream that stores nothing cannot read its own reasoning again. */
const ENCRYPTED = "reasoning.encrypted_content";

/** Returns what a request includes to get its reasoning encrypted. OpenAI's models that do not reason refuse to include it. */
export function encryptedReasoning(model: string, options: CodecOptions): string[] {
  const control = options.reasoning?.(model);
  const refuses =
    control === undefined ? /^(?:gpt-\d|chatgpt)/.test(bareName(model)) && !levelsOf(model) : control === "none";
  return refuses ? [] : [ENCRYPTED];
}

/** The names of a tool on the wire. A tool outside of namespaces has only its own. */
export interface WireName {
  readonly name: string;
  readonly namespace?: string;
}

/**
 * Returns all tools under flat names. The description of a namespace stands before that of its first tool. A tool that comes again, as in a
 * continued conversation, replaces the earlier one.
 */
function flatTools({ tools, input }: Pick<ResponsesRequest, "tools" | "input">): readonly WireTool[] {
  const added = additionalTools(input).flatMap((item) => item.tools);
  if (added.length === 0 && !tools?.some(isNamespace)) return tools ?? [];
  const named = new Map<string, WireTool>();
  const others: WireTool[] = [];
  for (const tool of [...(tools ?? []), ...added]) {
    if (tool.type !== "function" && tool.type !== "custom" && !isNamespace(tool)) others.push(tool);
    // The cast is safe: of the tools with such a type, only namespaces hold others.
    else for (const inner of isNamespace(tool) ? innerTools(tool) : [tool as InnerTool]) named.set(inner.name, inner);
  }
  return [...named.values(), ...others];
}

type InnerTool = NamespaceTool["tools"][number];

const innerTools = ({ name: namespace, description, tools }: NamespaceTool): InnerTool[] =>
  tools.map((tool, index) => {
    const described = [index === 0 ? description : "", tool.description].filter(Boolean).join("\n\n");
    return { ...tool, name: flatName({ ...tool, namespace }), ...(described !== "" && { description: described }) };
  });

/** Returns a function that finds the flat name of a chosen tool. A choice may name a tool of a namespace by its own name alone. */
function chooser(body: WireObject, tools: readonly WireTool[]): (choice: NamedInSpace) => string {
  const flat = new Map<string, string>();
  for (const [name, wire] of wireNames(body)) flat.set(wire.name, name);
  // A tool outside of namespaces comes first.
  for (const tool of tools) if ("name" in tool && typeof tool.name === "string") flat.set(tool.name, tool.name);
  return (choice) => (choice.namespace ? flatName(choice) : (flat.get(choice.name) ?? choice.name));
}

/** Returns the names on the wire of the tools in namespaces, by their flat names. */
export function wireNames(body: WireObject): ReadonlyMap<string, WireName> {
  // The cast is safe: the body was decoded.
  const { tools, input } = body as ResponsesRequest;
  const names = new Map<string, WireName>();
  for (const tool of [...(tools ?? []), ...additionalTools(input).flatMap((item) => item.tools)])
    if (isNamespace(tool))
      for (const { name } of tool.tools)
        names.set(flatName({ name, namespace: tool.name }), { name, namespace: tool.name });
  return names;
}
