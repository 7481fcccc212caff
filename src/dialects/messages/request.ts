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
import type {
  Block,
  BuiltInTool,
  CustomTool,
  ImageSource,
  Message,
  MessagesRequest,
  TextBlock,
  Thinking,
  ToolChoice as WireToolChoice,
} from "./schema.ts";
import type { JsonObject } from "../../model/json.ts";
import { fenced } from "./response.ts";

export const DIALECT = "messages";

/** The headers that belong to a request (spec 4, note 3). */
export interface MessagesHeaders {
  readonly version?: string;
  readonly betas: readonly string[];
}

/** Unknown fields stay in `native`; consecutive messages of one role become one turn. */
export function decodeRequest(body: MessagesRequest, { version, betas }: MessagesHeaders): ChatRequest {
  const { tool_choice, thinking, metadata, temperature, top_p, top_k, output_config } = body;
  return {
    model: body.model,
    maxOutputTokens: body.max_tokens,
    messages: decodeMessages(body.messages),
    system: typeof body.system === "string" ? textParts(body.system) : (body.system ?? []).map(decodeText),
    tools: (body.tools ?? []).map(decodeTool),
    stopSequences: body.stop_sequences ?? [],
    stream: body.stream ?? false,
    ...(tool_choice && { toolChoice: decodeToolChoice(tool_choice) }),
    ...(thinking && { reasoning: decodeThinking(thinking) }),
    ...(metadata?.user_id != null && { endUser: metadata.user_id }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && { topP: top_p }),
    ...(top_k != null && { topK: top_k }),
    ...(output_config?.format?.type === "json_schema" &&
      output_config.format.schema && { responseFormat: { type: "json", schema: output_config.format.schema } }),
    native: { dialect: DIALECT, body, betas, ...(version !== undefined && { version }) },
  };
}

/** The request as this format says it. Takes the neutral fields alone: a backend that has `native` forwards that instead. */
export function encodeRequest(request: ChatRequest): MessagesRequest {
  const { toolChoice, reasoning, endUser, temperature, topP, topK, responseFormat } = request;
  return {
    model: request.model,
    max_tokens: request.maxOutputTokens,
    messages: request.messages.map(({ role, parts }) => ({ role, content: parts.map(encodePart) })),
    ...(request.system.length > 0 && { system: request.system.map(encodeText) }),
    ...(request.tools.length > 0 && { tools: request.tools.flatMap(encodeTool) }),
    ...(request.stopSequences.length > 0 && { stop_sequences: [...request.stopSequences] }),
    ...(request.stream && { stream: true }),
    ...(toolChoice && { tool_choice: encodeToolChoice(toolChoice) }),
    ...(reasoning && { thinking: encodeThinking(reasoning) }),
    ...(endUser !== undefined && { metadata: { user_id: endUser } }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(topK !== undefined && { top_k: topK }),
    ...(responseFormat && { output_config: { format: encodeResponseFormat(responseFormat) } }),
  };
}

// The format knows no enumerated text, so that becomes a JSON string of the same values.
const encodeResponseFormat = (format: ResponseFormat): { type: string; schema: JsonObject } => ({
  type: "json_schema",
  schema: format.type === "enum" ? { type: "string", enum: [...format.values] } : (format.schema ?? {}),
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
      return { type: "reasoning", text: block.thinking, signature: block.signature };
    case "redacted_thinking":
      return { type: "redacted-reasoning", data: block.data };
    default:
      return { type: "provider", dialect: DIALECT, value: block };
  }
}

function encodePart(part: Part | JsonPart): Block {
  switch (part.type) {
    case "text":
      return encodeText(part);
    case "media":
      return encodeMedia(part);
    case "document":
      return encodeDocument(part);
    case "tool-call":
      return { type: "tool_use", id: part.id, name: part.name, input: part.input, ...cacheControlOf(part) };
    case "tool-result":
      return encodeToolResult(part);
    case "reasoning":
      return { type: "thinking", thinking: part.text, signature: part.signature ?? "" };
    case "redacted-reasoning":
      return { type: "redacted_thinking", data: part.data };
    // This format has neither code nor structured results: they are told in words.
    case "code":
      return { type: "text", text: fenced(part.code, part.language) };
    case "code-result":
      return { type: "text", text: fenced(part.output ?? "", "") };
    case "json":
      return { type: "text", text: JSON.stringify(part.value) };
    case "provider":
      return part.value as Block;
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

// The wire's media types are narrower than the neutral ones; a request for this format is validated by its own schema.
function encodeSource(source: MediaSource): ImageSource {
  switch (source.type) {
    case "base64":
      return { type: "base64", media_type: source.mediaType as "image/png", data: source.data };
    case "url":
      return { type: "url", url: source.url };
    case "file":
      return { type: "file", file_id: source.id };
  }
}

const encodeMedia = (part: MediaPart): Extract<Block, { type: "image" }> => ({
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
    source: encodeDocumentSource(part.source),
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

function encodeDocumentSource(source: DocumentPart["source"]): DocumentBlock["source"] {
  if (source.type === "text") return { type: "text", media_type: "text/plain", data: source.text };
  if (source.type !== "parts") return encodeSource(source) as DocumentBlock["source"];
  return {
    type: "content",
    content: source.parts.map((part) => (part.type === "text" ? encodeText(part) : encodeMedia(part))),
  };
}

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
    content: part.parts.map(encodePart) as Exclude<ToolResultBlock["content"], string>,
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
  const { name, description, input_schema } = tool;
  return {
    type: "function",
    name,
    inputSchema: input_schema,
    ...(description != null && { description }),
    ...cacheOf(tool),
  };
}

function encodeTool(tool: Tool): (CustomTool | BuiltInTool)[] {
  // A neutral wish to run code has no one dated tool of this format.
  if (tool.type === "code-execution") return [];
  if (tool.type === "provider") return [tool.definition as BuiltInTool];
  const { name, description, inputSchema } = tool;
  return [
    {
      name,
      input_schema: inputSchema,
      ...(description !== undefined && { description }),
      ...cacheControlOf(tool),
    },
  ];
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

function decodeThinking(thinking: Thinking): Reasoning {
  if (thinking.type === "enabled") return { type: "enabled", budgetTokens: thinking.budget_tokens };
  // When to think between tool calls is the model's own decision in the neutral request.
  return { type: thinking.type === "disabled" ? "disabled" : "adaptive" };
}

const encodeThinking = (reasoning: Reasoning): Thinking =>
  reasoning.type === "enabled" ? { type: "enabled", budget_tokens: reasoning.budgetTokens } : { type: reasoning.type };

type CacheControlled = Pick<TextBlock, "cache_control">;

const cacheOf = ({ cache_control }: CacheControlled): { cache?: CacheHint } =>
  cache_control ? { cache: cache_control.ttl == null ? {} : { ttl: cache_control.ttl } } : {};

const cacheControlOf = ({ cache }: { readonly cache?: CacheHint }): CacheControlled =>
  cache ? { cache_control: { type: "ephemeral", ...cache } } : {};
