/** Converts a messages request (spec 2.6) to the neutral request and back. The two directions of each field stand next to each other. */

import type {
  CacheHint,
  ChatMessage,
  ChatRequest,
  DocumentPart,
  JsonPart,
  MediaPart,
  MediaSource,
  Part,
  Reasoning,
  TextPart,
  Tool,
  ToolChoice,
  ToolResultPart,
} from "../../kinds/chat/request.ts";
import { fromBase64 } from "../../media/base64.ts";
import { enumSchema } from "../shared/schema.ts";
import { fenced, ToolIds } from "../shared/tools.ts";
import {
  type BuiltInTool,
  type CustomTool,
  type ImageBlock,
  type ImageSource,
  isEffort,
  type MessagesRequest,
  type RequestBlock,
  type RequestMessage,
  type RequestToolChoice,
  type TextBlock,
  type Thinking,
  unsupportedIn,
} from "./schema.ts";

export const FORMAT = "messages";

/** The values of the request headers that the format reads (spec 4, note 3). */
export interface MessagesHeaders {
  readonly version?: string;
  readonly betas: readonly string[];
}

/** Decodes a request. Unknown fields stay in `native`. Consecutive messages of one role become one turn. */
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
      format: FORMAT,
      body,
      betas,
      ...(version !== undefined && { version }),
      unsupported: () => unsupportedIn(body),
    },
  };
}

/** Builds a body from the neutral fields. Leaves out the fields that the format does not have; the table of conversions lists them. */
export function encodeRequest(request: ChatRequest): MessagesRequest {
  const { endUser, serviceTier, temperature, topP, topK } = request;
  const system = request.system.filter(({ text }) => text !== "");
  const tools = offeredTools(request);
  const toolChoice = sayableChoice(request);
  const output_config = encodeOutputConfig(request);
  return {
    model: request.model,
    max_tokens: request.maxOutputTokens,
    messages: encodeMessages(request.messages),
    ...(system.length > 0 && { system: system.map(encodeText) }),
    ...(tools.length > 0 && { tools: tools.map(encodeTool) }),
    ...(request.stopSequences.length > 0 && { stop_sequences: [...request.stopSequences] }),
    ...(request.stream && { stream: true }),
    ...(toolChoice && { tool_choice: encodeToolChoice(toolChoice) }),
    ...(request.reasoning && { thinking: encodeThinking(request.reasoning, request.maxOutputTokens) }),
    ...(endUser !== undefined && { metadata: { user_id: endUser } }),
    ...(temperature !== undefined && { temperature: Math.min(temperature, MAX_TEMPERATURE) }),
    // A `topP` of 1 and a `topK` of 0 change nothing, and the format does not allow these values: leave them out.
    ...(topP !== undefined && topP < 1 && { top_p: topP === 0 ? LEAST_TOP_P : topP }),
    ...(topK !== undefined && topK > 0 && { top_k: topK }),
    ...(output_config && { output_config }),
    ...(isServiceTier(serviceTier) && { service_tier: serviceTier }),
  };
}

/** The highest temperature of the format (spec 2.6). */
export const MAX_TEMPERATURE = 1;

/** Replaces a `topP` of 0, which means only the most likely token. The format allows only values above 0. */
const LEAST_TOP_P = 1e-6;

/** Tells whether a request can ask for a service tier of this name. */
export const isServiceTier = (tier: string | undefined): boolean => tier === "auto" || tier === "standard_only";

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

/** Returns the tools that the format has. If the tool choice lists the tools that may be called, the others are left out. */
function offeredTools({ tools, toolChoice }: ChatRequest): readonly EncodableTool[] {
  const named = toolChoice && "names" in toolChoice && toolChoice.names ? new Set(toolChoice.names) : undefined;
  return tools.filter((tool): tool is EncodableTool => {
    // The format has no general tool for code execution, only dated versions, so the neutral tool is left out.
    if (tool.type === "code-execution" || (tool.type === "provider" && tool.format !== FORMAT)) return false;
    return !named || tool.name === undefined || named.has(tool.name);
  });
}

/** Returns the tool choice; undefined if it chooses among no tools or a tool that is not offered, because the format refuses both. */
export function sayableChoice(request: ChatRequest): ToolChoice | undefined {
  const { toolChoice } = request;
  const offered = offeredTools(request);
  if (toolChoice?.type !== "tool") return offered.length > 0 ? toolChoice : undefined;
  return offered.some(({ name }) => name === toolChoice.name) ? toolChoice : undefined;
}

function decodeToolChoice(choice: RequestToolChoice): ToolChoice {
  if (choice.type === "none") return { type: "none" };
  const parallel = !(choice.disable_parallel_tool_use ?? false);
  if (choice.type === "tool") return { type: "tool", name: choice.name, parallel };
  return { type: choice.type === "any" ? "required" : "auto", parallel };
}

function encodeToolChoice(choice: ToolChoice): RequestToolChoice {
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
  // `between_tools` becomes `adaptive`: in the neutral request, the model decides whether it reasons between tool calls.
  return { type: "adaptive", ...(isEffort(effort) && { effort }), ...visible };
}

/** The smallest budget for reasoning, in tokens (spec 2.6). */
export const MIN_BUDGET_TOKENS = 1024;

/** Encodes the reasoning, with its budget in the format's range. If the output limit has no room for the smallest budget, disables it. */
function encodeThinking(reasoning: Reasoning, maxOutputTokens: number): Thinking {
  if (reasoning.type !== "enabled") return { type: reasoning.type };
  const budget_tokens = Math.min(Math.max(MIN_BUDGET_TOKENS, reasoning.budgetTokens), maxOutputTokens - 1);
  return budget_tokens < MIN_BUDGET_TOKENS ? { type: "disabled" } : { type: "enabled", budget_tokens };
}

function encodeOutputConfig({ responseFormat: format, reasoning }: ChatRequest): MessagesRequest["output_config"] {
  const effort = reasoning?.type === "adaptive" ? reasoning.effort : undefined;
  if (!format && effort === undefined) return undefined;
  const schema = format?.type === "enum" ? enumSchema(format.values) : (format?.schema ?? {});
  return {
    ...(format && { format: { type: "json_schema", schema } }),
    ...(effort !== undefined && { effort: effort === "minimal" ? "low" : effort }),
  };
}

function decodeMessages(messages: readonly RequestMessage[]): ChatMessage[] {
  const turns: { role: RequestMessage["role"]; parts: Part[] }[] = [];
  for (const { role, content } of messages) {
    const parts = typeof content === "string" ? textParts(content) : content.map(decodePart);
    const last = turns.at(-1);
    if (last?.role !== role) turns.push({ role, parts });
    // Push one by one: `push(...parts)` fails for a very long list.
    else for (const part of parts) last.parts.push(part);
  }
  return turns;
}

/** Encodes the conversation. Leaves out a turn without parts. Consecutive turns of one role may then follow, which the format allows. */
function encodeMessages(messages: readonly ChatMessage[]): RequestMessage[] {
  const ids = new ToolIds(isToolId);
  const encoded = messages.map(({ role, parts }): RequestMessage => ({
    // Instructions in the middle of a conversation become the user's, because the format has none there.
    role: role === "assistant" ? "assistant" : "user",
    content: sealed(parts).flatMap((part) => encodePart(part, ids)),
  }));
  return encoded.filter(({ content }) => content.length > 0);
}

/** Tells whether the official service accepts the id of a tool call. */
export const isToolId = (id: string): boolean => /^[\w-]+$/.test(id);

/** Joins reasoning and its signature into one part, because this format has one block for both. Some formats send two parts. */
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

function decodePart(block: RequestBlock): Part {
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
      // An empty signature means none: the gateway writes it if the upstream sent none.
      return { type: "reasoning", text: block.thinking, ...(block.signature !== "" && { signature: block.signature }) };
    case "redacted_thinking":
      return { type: "redacted-reasoning", data: block.data };
    default:
      return { type: "provider", format: FORMAT, value: block };
  }
}

function encodePart(part: Part | JsonPart, ids: ToolIds): RequestBlock[] {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [encodeText(part)];
    case "media":
      return isSayable(part) ? [encodeMedia(part)] : [];
    case "document":
      return isSayable(part) ? [encodeDocument(part)] : [];
    case "tool-call":
      return [{ type: "tool_use", id: ids.of(part.id), name: part.name, input: part.input, ...cacheControlOf(part) }];
    case "tool-result":
      return [encodeToolResult(part, ids)];
    case "refusal":
      return part.text === "" ? [] : [{ type: "text", text: part.text }];
    case "reasoning":
      // Leave out reasoning without a signature: the format refuses it as forged.
      return part.signature === undefined ? [] : [{ type: "thinking", thinking: part.text, signature: part.signature }];
    case "redacted-reasoning":
      return [{ type: "redacted_thinking", data: part.data }];
    // The format has no code and no structured results, so they become text.
    case "code":
      return [{ type: "text", text: fenced(part.code, part.language) }];
    case "code-result":
      return [{ type: "text", text: fenced(part.output ?? "", "") }];
    case "json":
      return [{ type: "text", text: JSON.stringify(part.value) }];
    case "provider":
      return part.format === FORMAT ? [part.value as RequestBlock] : [];
  }
}

/** Returns the parts for a text that was sent in place of blocks. An empty text gives no part. */
const textParts = (text: string): TextPart[] => (text === "" ? [] : [{ type: "text", text }]);

const decodeText = (block: TextBlock): TextPart => ({ type: "text", text: block.text, ...cacheOf(block) });

const encodeText = (part: TextPart): TextBlock => ({ type: "text", text: part.text, ...cacheControlOf(part) });

type ToolResultBlock = Extract<RequestBlock, { type: "tool_result" }>;

function decodeToolResult(block: ToolResultBlock): ToolResultPart {
  const content = block.content ?? "";
  const parts = typeof content === "string" ? textParts(content) : content.map(decodePart);
  return {
    type: "tool-result",
    callId: block.tool_use_id,
    // The cast is safe: the schema allows only blocks that become these parts.
    parts: parts as ToolResultPart["parts"],
    ...(block.is_error != null && { isError: block.is_error }),
    ...cacheOf(block),
  };
}

const encodeToolResult = (part: ToolResultPart, ids: ToolIds): ToolResultBlock => ({
  type: "tool_result",
  tool_use_id: ids.of(part.callId),
  // The cast is safe: each part of a result becomes a block that a result may have.
  content: part.parts.flatMap((inner) => encodePart(inner, ids)) as Exclude<ToolResultBlock["content"], string>,
  ...(part.isError !== undefined && { is_error: part.isError }),
  ...cacheControlOf(part),
});

const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const TEXT_TYPE = /^(?:text\/|application\/json\b)/;

/** Tells whether the format has a block for a medium or a document. */
export function isSayable(part: MediaPart | DocumentPart): boolean {
  if (part.type === "media")
    return part.kind === "image" && (part.source.type !== "base64" || IMAGE_TYPES.has(part.source.mediaType));
  const { source } = part;
  if (source.type === "parts") return source.parts.every((inner) => inner.type === "text" || isSayable(inner));
  return source.type !== "base64" || source.mediaType === "application/pdf" || TEXT_TYPE.test(source.mediaType);
}

const encodeMedia = (part: MediaPart): ImageBlock => ({
  type: "image",
  source: encodeSource(part.source),
  ...cacheControlOf(part),
});

function decodeSource(source: ImageSource | { type: "base64"; media_type: string; data: string }): MediaSource {
  if (source.type === "base64") return { type: "base64", mediaType: source.media_type, data: source.data };
  return source.type === "url" ? { type: "url", url: source.url } : { type: "file", id: source.file_id };
}

function encodeSource(source: MediaSource): ImageSource {
  // The cast is safe: `isSayable` has excluded pictures of other types. A document that comes here is a PDF.
  if (source.type === "base64")
    return { type: "base64", media_type: source.mediaType as "image/png", data: source.data };
  return source.type === "url" ? { type: "url", url: source.url } : { type: "file", file_id: source.id };
}

type DocumentBlock = Extract<RequestBlock, { type: "document" }>;

const decodeDocument = (block: DocumentBlock): DocumentPart => ({
  type: "document",
  source: decodeDocumentSource(block.source),
  ...(block.title != null && { title: block.title }),
  ...(block.context != null && { context: block.context }),
  ...(block.citations?.enabled != null && { citations: block.citations.enabled }),
  ...cacheOf(block),
});

const encodeDocument = (part: DocumentPart): DocumentBlock => ({
  type: "document",
  source: encodeDocumentSource(part.source),
  ...(part.title !== undefined && { title: part.title }),
  ...(part.context !== undefined && { context: part.context }),
  ...(part.citations !== undefined && { citations: { enabled: part.citations } }),
  ...cacheControlOf(part),
});

function decodeDocumentSource(source: DocumentBlock["source"]): DocumentPart["source"] {
  if (source.type === "text") return { type: "text", text: source.data };
  if (source.type !== "content") return decodeSource(source);
  const parts = typeof source.content === "string" ? textParts(source.content) : source.content.map(decodePart);
  // The cast is safe: the schema allows only texts and images here.
  return { type: "parts", parts: parts as (TextPart | MediaPart)[] };
}

function encodeDocumentSource(source: DocumentPart["source"]): DocumentBlock["source"] {
  if (source.type === "text") return { type: "text", media_type: "text/plain", data: source.text };
  if (source.type === "parts") {
    const content = source.parts.map((part) => (part.type === "text" ? encodeText(part) : encodeMedia(part)));
    return { type: "content", content };
  }
  // The format accepts text documents only as `text/plain`.
  if (source.type === "base64" && TEXT_TYPE.test(source.mediaType))
    return { type: "text", media_type: "text/plain", data: new TextDecoder().decode(fromBase64(source.data)) };
  return encodeSource(source) as DocumentBlock["source"];
}

type CacheControlled = Pick<TextBlock, "cache_control">;

const cacheOf = ({ cache_control }: CacheControlled): { cache?: CacheHint } =>
  cache_control ? { cache: cache_control.ttl == null ? {} : { ttl: cache_control.ttl } } : {};

const cacheControlOf = ({ cache }: { readonly cache?: CacheHint }): CacheControlled =>
  cache ? { cache_control: { type: "ephemeral", ...cache } } : {};
