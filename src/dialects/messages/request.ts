/** A messages request (spec 2.6) to the neutral request and back; both directions of a field stand side by side. */

import type {
  CacheHint,
  ChatMessage,
  ChatRequest,
  DocumentPart,
  JsonPart,
  MediaPart,
  MediaSource,
  Part,
  ProviderPart,
  Reasoning,
  ResponseFormat,
  TextPart,
  Tool,
  ToolChoice,
  ToolResultPart,
} from "../../model/chat.ts";
import {
  type Block,
  type BuiltInTool,
  type CustomTool,
  type ImageBlock,
  type ImageSource,
  isEffort,
  type Message,
  type MessagesRequest,
  type TextBlock,
  type Thinking,
  type ToolChoice as WireToolChoice,
  unsaidIn,
} from "./schema.ts";
import type { JsonObject } from "../../model/json.ts";
import { enumSchema } from "../shared/enumerated.ts";
import { fenced } from "../shared/fenced.ts";
import { ToolIds } from "../shared/tool-ids.ts";
import { encodeDocumentSource, encodeSource, isSayable } from "./request.media.ts";

export const DIALECT = "messages";

/** The headers that belong to a request (spec 4, note 3). */
export interface MessagesHeaders {
  readonly version?: string;
  readonly betas: readonly string[];
}

/** Unknown fields stay in `native`; consecutive messages of one role become one turn. */
export function decodeRequest(body: MessagesRequest, { version, betas }: MessagesHeaders): ChatRequest {
  const { tool_choice, thinking, metadata, temperature, top_p, top_k, output_config, service_tier } = body;
  const reasoning = thinking ? decodeThinking(thinking, output_config?.effort) : undefined;
  return {
    model: body.model,
    maxOutputTokens: body.max_tokens,
    messages: decodeMessages(body.messages),
    system: typeof body.system === "string" ? textParts(body.system) : (body.system ?? []).map(decodeText),
    tools: (body.tools ?? []).map(decodeTool),
    stopSequences: body.stop_sequences ?? [],
    stream: body.stream ?? false,
    ...(tool_choice && { toolChoice: decodeToolChoice(tool_choice) }),
    ...(reasoning && { reasoning }),
    ...(metadata?.user_id != null && { endUser: metadata.user_id }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && { topP: top_p }),
    ...(top_k != null && { topK: top_k }),
    ...(output_config?.format?.type === "json_schema" &&
      output_config.format.schema && { responseFormat: { type: "json", schema: output_config.format.schema } }),
    ...(typeof service_tier === "string" && { serviceTier: service_tier }),
    native: {
      dialect: DIALECT,
      body,
      betas,
      ...(version !== undefined && { version }),
      unsaid: () => [...unsaidIn(body), ...unsaidReasoning(body)],
    },
  };
}

/**
 * The request as this format says it, made of the neutral fields alone; what the format cannot say is left out, as its table of
 * fates tells.
 */
export function encodeRequest(request: ChatRequest): MessagesRequest {
  const { endUser, serviceTier } = request;
  const system = request.system.filter(({ text }) => text !== "");
  const tools = offeredTools(request).map(encodeTool);
  const toolChoice = sayableChoice(request);
  const thinking = request.reasoning && encodeThinking(request.reasoning, request.maxOutputTokens);
  const output_config = encodeOutputConfig(request);
  return {
    model: request.model,
    max_tokens: request.maxOutputTokens,
    messages: encodeMessages(request.messages),
    ...(system.length > 0 && { system: system.map(encodeText) }),
    ...(tools.length > 0 && { tools }),
    ...(request.stopSequences.length > 0 && { stop_sequences: [...request.stopSequences] }),
    ...(request.stream && { stream: true }),
    ...(toolChoice && { tool_choice: encodeToolChoice(toolChoice) }),
    ...(thinking && { thinking }),
    ...(endUser !== undefined && { metadata: { user_id: endUser } }),
    ...encodeSampling(request),
    ...(output_config && { output_config }),
    ...(isServiceTier(serviceTier) && { service_tier: serviceTier }),
  };
}

/** The hottest that the format takes (spec 2.6). */
export const MAX_TEMPERATURE = 1;

/** What stands for a `topP` of 0: the most likely token alone. The format's own begins above 0. */
const LEAST_TOP_P = 1e-6;

/** A `topP` of 1 and a `topK` of 0 ask for nothing, and the format has no such values: they are left out. */
function encodeSampling({
  temperature,
  topP,
  topK,
}: ChatRequest): Pick<MessagesRequest, "temperature" | "top_p" | "top_k"> {
  return {
    ...(temperature !== undefined && { temperature: Math.min(temperature, MAX_TEMPERATURE) }),
    ...(topP !== undefined && topP < 1 && { top_p: topP === 0 ? LEAST_TOP_P : topP }),
    ...(topK !== undefined && topK > 0 && { top_k: topK }),
  };
}

/** Whether a tier is one of those that can be asked for. */
export const isServiceTier = (tier: string | undefined): boolean => tier === "auto" || tier === "standard_only";

/** The tools that the format can say. Where a choice names those that may be called, the others are not offered. */
function offeredTools({ tools, toolChoice }: ChatRequest): readonly EncodableTool[] {
  const named = toolChoice && "names" in toolChoice && toolChoice.names ? new Set(toolChoice.names) : undefined;
  return tools
    .filter(isEncodable)
    .filter((tool) => !named || !("name" in tool) || tool.name === undefined || named.has(tool.name));
}

/** The choice among tools; the format takes one without tools, or of a tool that is not there, for an error. */
export function sayableChoice(request: ChatRequest): ToolChoice | undefined {
  const { toolChoice } = request;
  const offered = offeredTools(request);
  if (toolChoice?.type !== "tool") return offered.length > 0 ? toolChoice : undefined;
  return offered.some((tool) => "name" in tool && tool.name === toolChoice.name) ? toolChoice : undefined;
}

type OutputConfig = NonNullable<MessagesRequest["output_config"]>;

function encodeOutputConfig({ responseFormat, reasoning }: ChatRequest): OutputConfig | undefined {
  const effort = reasoning?.type === "adaptive" ? reasoning.effort : undefined;
  if (!responseFormat && effort === undefined) return undefined;
  return {
    ...(responseFormat && { format: encodeResponseFormat(responseFormat) }),
    ...(effort !== undefined && { effort: effort === "minimal" ? "low" : effort }),
  };
}

const encodeResponseFormat = (format: ResponseFormat): { type: string; schema: JsonObject } => ({
  type: "json_schema",
  schema: format.type === "enum" ? enumSchema(format.values) : (format.schema ?? {}),
});

function decodeMessages(messages: readonly Message[]): ChatMessage[] {
  const turns: { role: Message["role"]; parts: Part[] }[] = [];
  for (const { role, content } of messages) {
    const parts = typeof content === "string" ? textParts(content) : content.map(decodePart);
    const last = turns.at(-1);
    if (last?.role !== role) turns.push({ role, parts });
    // One by one: a turn may have more parts than a call can have arguments.
    else for (const part of parts) last.parts.push(part);
  }
  return turns;
}

/** The string shorthand for one text block; an empty one, where the format allows it, is none. */
const textParts = (text: string): TextPart[] => (text === "" ? [] : [{ type: "text", text }]);

function decodePart(block: Block): Part {
  switch (block.type) {
    case "text":
      return decodeText(block);
    case "image":
      return { type: "media", kind: "image", source: decodeSource(block.source), ...cacheOf(block) };
    case "document":
      return decodeDocument(block);
    case "tool_use":
      return { type: "tool-call", id: block.id, name: block.name, input: block.input, ...cacheOf(block) };
    case "tool_result":
      return decodeToolResult(block);
    case "thinking":
      // An empty seal is what stands for none in an answer whose upstream gave none.
      return { type: "reasoning", text: block.thinking, ...(block.signature !== "" && { signature: block.signature }) };
    case "redacted_thinking":
      return { type: "redacted-reasoning", data: block.data };
    default:
      return { type: "provider", dialect: DIALECT, value: block };
  }
}

/** A turn of which nothing can be said is left out; neighbours of one role are one turn to this format. */
function encodeMessages(messages: readonly ChatMessage[]): Message[] {
  const ids = new ToolIds(isToolId);
  const encoded = messages.map(({ role, parts }): Message => ({
    // Instructions in the middle of a conversation are told as the user's.
    role: role === "assistant" ? "assistant" : "user",
    content: sealed(parts).flatMap((part) => encodePart(withToolId(part, ids))),
  }));
  return encoded.filter(({ content }) => content.length > 0);
}

/** Reasoning whose seal comes in a part of its own, as some formats send it back, is one block in this one. */
export function sealed(parts: readonly Part[]): Part[] {
  const joined: Part[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (part.type === "reasoning" && last?.type === "reasoning" && last.signature === undefined)
      joined[joined.length - 1] = { ...part, text: last.text + part.text };
    else joined.push(part);
  }
  return joined;
}

/** The signs that the official service takes in the id of a call. */
export const isToolId = (id: string): boolean => /^[\w-]+$/.test(id);

function withToolId(part: Part, ids: ToolIds): Part {
  if (part.type === "tool-call") return { ...part, id: ids.of(part.id) };
  return part.type === "tool-result" ? { ...part, callId: ids.of(part.callId) } : part;
}

function encodePart(part: Part | JsonPart): Block[] {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [encodeText(part)];
    case "media":
      return isSayable(part) ? [encodeMedia(part)] : [];
    case "document":
      return isSayable(part) ? [encodeDocument(part)] : [];
    case "tool-call":
      return [{ type: "tool_use", id: part.id, name: part.name, input: part.input, ...cacheControlOf(part) }];
    case "tool-result":
      return [encodeToolResult(part)];
    case "refusal":
      return part.text === "" ? [] : [{ type: "text", text: part.text }];
    case "reasoning":
      // Without its seal, the format takes reasoning for forged, and refuses the request.
      return part.signature === undefined ? [] : [{ type: "thinking", thinking: part.text, signature: part.signature }];
    case "redacted-reasoning":
      return [{ type: "redacted_thinking", data: part.data }];
    // This format has neither code nor structured results: they are told in words.
    case "code":
      return [{ type: "text", text: fenced(part.code, part.language) }];
    case "code-result":
      return [{ type: "text", text: fenced(part.output ?? "", "") }];
    case "json":
      return [{ type: "text", text: JSON.stringify(part.value) }];
    case "provider":
      return part.dialect === DIALECT ? [part.value as Block] : [];
  }
}

const decodeText = (block: TextBlock): TextPart => ({ type: "text", text: block.text, ...cacheOf(block) });
const encodeText = (part: TextPart): TextBlock => ({ type: "text", text: part.text, ...cacheControlOf(part) });

function decodeSource(source: ImageSource | { type: "base64"; media_type: string; data: string }): MediaSource {
  switch (source.type) {
    case "base64":
      return { type: "base64", mediaType: source.media_type, data: source.data };
    case "url":
      return { type: "url", url: source.url };
    case "file":
      return { type: "file", id: source.file_id };
  }
}

const encodeMedia = (part: MediaPart): ImageBlock => ({
  type: "image",
  source: encodeSource(part.source),
  ...cacheControlOf(part),
});

type DocumentBlock = Extract<Block, { type: "document" }>;

function decodeDocument({ source, title, context, citations, ...block }: DocumentBlock): DocumentPart {
  return {
    type: "document",
    source: decodeDocumentSource(source),
    ...(title != null && { title }),
    ...(context != null && { context }),
    ...(citations?.enabled != null && { citations: citations.enabled }),
    ...cacheOf(block),
  };
}

function encodeDocument(part: DocumentPart): DocumentBlock {
  return {
    type: "document",
    source: encodeDocumentSource(part.source, encodeInner),
    ...(part.title !== undefined && { title: part.title }),
    ...(part.context !== undefined && { context: part.context }),
    ...(part.citations !== undefined && { citations: { enabled: part.citations } }),
    ...cacheControlOf(part),
  };
}

function decodeDocumentSource(source: DocumentBlock["source"]): DocumentPart["source"] {
  if (source.type === "text") return { type: "text", text: source.data };
  if (source.type !== "content") return decodeSource(source);
  const parts = typeof source.content === "string" ? textParts(source.content) : source.content.map(decodePart);
  return { type: "parts", parts: parts as (TextPart | MediaPart)[] };
}

const encodeInner = (part: TextPart | MediaPart): TextBlock | ImageBlock =>
  part.type === "text" ? encodeText(part) : encodeMedia(part);

type ToolResultBlock = Extract<Block, { type: "tool_result" }>;

function decodeToolResult(block: ToolResultBlock): ToolResultPart {
  const content = block.content ?? "";
  const parts = typeof content === "string" ? textParts(content) : content.map(decodePart);
  return {
    type: "tool-result",
    callId: block.tool_use_id,
    parts: parts as (TextPart | MediaPart | DocumentPart | ProviderPart)[],
    ...(block.is_error != null && { isError: block.is_error }),
    ...cacheOf(block),
  };
}

function encodeToolResult(part: ToolResultPart): ToolResultBlock {
  return {
    type: "tool_result",
    tool_use_id: part.callId,
    content: part.parts.flatMap(encodePart) as Exclude<ToolResultBlock["content"], string>,
    ...(part.isError !== undefined && { is_error: part.isError }),
    ...cacheControlOf(part),
  };
}

function decodeTool(tool: CustomTool | BuiltInTool): Tool {
  if (!isCustom(tool))
    return {
      type: "provider",
      dialect: DIALECT,
      definition: tool,
      ...(tool.name != null && { name: tool.name }),
    };
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

/** Whether the format has the tool. A neutral wish to run code has no one dated tool of it. */
const isEncodable = (tool: Tool): tool is EncodableTool =>
  tool.type === "function" || (tool.type === "provider" && tool.dialect === DIALECT);

type EncodableTool = Exclude<Tool, { type: "code-execution" }>;

function encodeTool(tool: EncodableTool): CustomTool | BuiltInTool {
  if (tool.type === "provider") return tool.definition as BuiltInTool;
  const { name, description, inputSchema, strict } = tool;
  return {
    name,
    input_schema: inputSchema,
    ...(description !== undefined && { description }),
    ...(strict !== undefined && { strict }),
    ...cacheControlOf(tool),
  };
}

const isCustom = (tool: CustomTool | BuiltInTool): tool is CustomTool => tool.type == null || tool.type === "custom";

function decodeToolChoice(choice: WireToolChoice): ToolChoice {
  if (choice.type === "none") return { type: "none" };
  const parallel = !(choice.disable_parallel_tool_use ?? false);
  if (choice.type === "tool") return { type: "tool", name: choice.name, parallel };
  return { type: choice.type === "any" ? "required" : "auto", parallel };
}

function encodeToolChoice(choice: ToolChoice): WireToolChoice {
  if (choice.type === "none") return { type: "none" };
  const single = choice.parallel ? {} : { disable_parallel_tool_use: true };
  if (choice.type === "tool") return { type: "tool", name: choice.name, ...single };
  return { type: choice.type === "required" ? "any" : "auto", ...single };
}

function decodeThinking(thinking: Thinking, effort: unknown): Reasoning {
  if (thinking.type === "disabled") return { type: "disabled" };
  const { display } = thinking;
  const visible = display === "summarized" || display === "omitted" ? { visible: display === "summarized" } : {};
  if (thinking.type === "enabled") return { type: "enabled", budgetTokens: thinking.budget_tokens, ...visible };
  // When to think between tool calls is the model's own decision in the neutral request.
  return { type: "adaptive", ...(isEffort(effort) && { effort }), ...visible };
}

/** When to think between tool calls, and an effort beside a budget or none: the neutral request knows an effort of the model's own. */
function* unsaidReasoning({ thinking, output_config }: MessagesRequest): Generator<string> {
  if (thinking?.type === "between_tools") yield "thinking.type";
  const isModels = thinking && thinking.type !== "enabled" && thinking.type !== "disabled";
  if (isEffort(output_config?.effort) && !isModels) yield "output_config.effort";
}

/** The least that the format takes as a budget for reasoning (spec 2.6). */
export const MIN_BUDGET_TOKENS = 1024;

/** The budget within what the format takes; where the whole output is too short for one, there is no reasoning. */
export function encodeThinking(reasoning: Reasoning, maxOutputTokens: number): Thinking {
  if (reasoning.type !== "enabled") return { type: reasoning.type };
  const budget_tokens = Math.min(Math.max(MIN_BUDGET_TOKENS, reasoning.budgetTokens), maxOutputTokens - 1);
  return budget_tokens < MIN_BUDGET_TOKENS ? { type: "disabled" } : { type: "enabled", budget_tokens };
}

type CacheControlled = Pick<TextBlock, "cache_control">;

const cacheOf = ({ cache_control }: CacheControlled): { cache?: CacheHint } =>
  cache_control ? { cache: cache_control.ttl == null ? {} : { ttl: cache_control.ttl } } : {};

const cacheControlOf = ({ cache }: { readonly cache?: CacheHint }): CacheControlled =>
  cache ? { cache_control: { type: "ephemeral", ...cache } } : {};
