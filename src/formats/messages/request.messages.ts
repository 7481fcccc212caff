/** Converts the conversation of a messages request (spec 2.6) to neutral turns and back, with the seals in it. */

import { readableTextOf } from "../../media/base64.ts";
import { isTextType } from "../../media/media-type.ts";
import type {
  CacheHint,
  ChatMessage,
  DocumentPart,
  JsonPart,
  MediaPart,
  MediaSource,
  Part,
  ProviderPart,
  TextPart,
  ToolResultPart,
} from "../../model/chat-request.ts";
import { derivedList } from "../../model/derived.ts";
import { given } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { withFilesOfUsers } from "../shared/moved-files.ts";
import { readSignature, type Seal, unwrapSeal, type PartSignature } from "../shared/seal.ts";
import { fenced, ToolIds, withResultsFirst } from "../shared/tools.ts";
import { FORMAT } from "./routes.ts";
import type { ImageBlock, ImageSource, RequestBlock, RequestMessage, TextBlock } from "./schema.ts";

/** Decodes the conversation. Consecutive messages of one role become one turn. */
export function decodeMessages(messages: readonly RequestMessage[]): ChatMessage[] {
  const starts: number[] = [];
  let last: RequestMessage["role"] | undefined;
  for (let index = 0; index < messages.length; index++) {
    const { role, content } = messages[index] as RequestMessage;
    if (content == null || role === last) continue;
    starts.push(index);
    last = role;
  }
  return decodeTurns(messages, starts);
}

const decodeTurns = derivedList((messages: readonly RequestMessage[]): ChatMessage => {
  const turn: TurnDraft = { parts: [], seals: undefined };
  for (const { content } of messages)
    if (typeof content === "string") turn.parts.push(...textParts(content));
    else for (const block of content ?? []) decodeBlock(block, turn);
  const { parts, seals } = turn;
  const role = messages[0]?.role ?? "user";
  return { role, parts: seals ? parts.map((part) => signed(part, seals)) : parts };
});

interface TurnDraft {
  readonly parts: Part[];
  /** The signatures of tool calls, by the ids of the calls. Their blocks may stand before or behind the calls. */
  seals: Map<string, PartSignature> | undefined;
}

/**
 * Adds the part of a block to a turn. The signature of a tool call or of a text has a block of its own, and is added to its part. Leaves out
 * thinking without a content: an empty wrapped block only shows that another provider wrote the turn, and callers may forge others.
 */
function decodeBlock(block: RequestBlock, turn: TurnDraft): void {
  const { parts } = turn;
  const seal = block.type === "redacted_thinking" ? unwrapSeal(block.data) : undefined;
  if (block.type === "redacted_thinking" && (seal ? seal.value : block.data) === "") return;
  if (block.type === "thinking" && block.thinking === "" && !readSignature(block.signature, FORMAT).signature) return;
  if (!seal || seal.kind === "redacted") parts.push(decodePart(block));
  else if (seal.kind === "call") (turn.seals ??= new Map()).set(seal.callId ?? "", signedBy(seal));
  else {
    const last = parts.at(-1);
    if (last?.type === "text" && last.signature === undefined) parts[parts.length - 1] = { ...last, ...signedBy(seal) };
    else parts.push({ type: "text", text: "", ...signedBy(seal) });
  }
}

const signed = (part: Part, seals: ReadonlyMap<string, PartSignature>): Part =>
  part.type === "tool-call" ? { ...part, ...seals.get(part.id) } : part;

/** Returns the signature in a wrapped text. An empty value means that the maker signs nothing, and an empty maker that nobody is known. */
const signedBy = ({ value, maker }: Seal): PartSignature => ({
  ...(value !== "" && { signature: value }),
  ...(maker !== "" && { maker }),
});

/**
 * Encodes the conversation. Leaves out what only another provider accepts, blank texts, white space at the end of a prefill, and turns that
 * have no parts then. The official service refuses files in turns of the assistant: they become the user's. Consecutive turns of one role may
 * follow, which the format allows.
 *
 * @param lost Receives what is moved, and what a prefill loses.
 */
export function encodeMessages(
  messages: readonly ChatMessage[],
  foreignReasoning: CodecOptions["foreignReasoning"] = "drop",
  lost: ConvertedFields = new Set(),
): RequestMessage[] {
  const ids = new CallIds();
  const turns = withFilesOfUsers(messages, isSayable, lost);
  const last = turns.at(-1);
  const encoded = withResultsFirst(turns).map((message): RequestMessage => {
    const { role, parts } = message;
    if (role === "assistant") ids.beginTurn();
    const blocks = sealed(parts).flatMap((part) => encodePart(part, ids, foreignReasoning));
    // Instructions in the middle of a conversation become the user's, because the format has none there.
    if (role !== "assistant") return { role: "user", content: blocks };
    return { role, content: message === last ? prefillOf(blocks, lost) : blocks };
  });
  return encoded.filter(({ content = [] }) => content !== null && content.length > 0);
}

/** Returns the blocks of a prefill. The official service accepts no thinking in a prefill, and no white space at its end. */
function prefillOf(blocks: readonly RequestBlock[], lost: ConvertedFields): RequestBlock[] {
  const allowed = blocks.filter(({ type }) => {
    if (type === "thinking") lost.add("messages.reasoning");
    if (type === "redacted_thinking") lost.add("messages.redacted-reasoning");
    return type !== "thinking" && type !== "redacted_thinking";
  });
  const last = allowed.at(-1);
  if (last?.type !== "text" || last.text === last.text.trimEnd()) return allowed;
  lost.add("messages.prefill");
  return [...allowed.slice(0, -1), { ...last, text: last.text.trimEnd() }];
}

/** Tells whether the official service accepts the id of a tool call. */
export const isToolId = (id: string): boolean => /^[\w-]+$/.test(id);

/** Replaces the ids of tool calls that the format does not accept, and ids that an earlier call has: ids must be unique in a request. */
export class CallIds {
  readonly #ids: ToolIds;
  readonly #used: Set<string> = new Set();
  /** The last number at the end of a replacement. */
  #number = 1;
  #turn = 0;
  /** The calls of one id in its latest turn: their ids as they were written, and the number of results that have followed. */
  readonly #calls: Map<string, { readonly turn: number; readonly written: string[]; results: number }> = new Map();

  constructor(ids: ToolIds = new ToolIds(isToolId)) {
    this.#ids = ids;
  }

  beginTurn(): void {
    this.#turn++;
  }

  ofCall(id: string): string {
    const accepted = this.#ids.of(id);
    let unique = accepted;
    // Never count from the start again: this would be quadratic.
    while (this.#used.has(unique)) unique = `${accepted}_${++this.#number}`;
    this.#used.add(unique);
    const calls = this.#calls.get(id);
    if (calls?.turn === this.#turn) calls.written.push(unique);
    else this.#calls.set(id, { turn: this.#turn, written: [unique], results: 0 });
    return unique;
  }

  /** Returns the id for a result. Results of several calls with one id belong to these calls in their order. */
  ofResult(id: string): string {
    const calls = this.#calls.get(id);
    return calls?.written[Math.min(calls.results++, calls.written.length - 1)] ?? this.#ids.of(id);
  }
}

/** Joins reasoning and its signature into one part, because this format has one block for both. Some formats send two parts. */
export function sealed(parts: readonly Part[]): Part[] {
  const joined: Part[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    const isOpen = last?.type === "reasoning" && last.signature === undefined;
    if (part.type === "reasoning" && isOpen && (last.maker === undefined || last.maker === part.maker))
      joined[joined.length - 1] = { ...part, text: last.text + part.text };
    else joined.push(part);
  }
  return joined;
}

/** Tells whether an upstream of this format accepts a signature or encrypted reasoning: its own, or a signature whose maker is unknown. */
export const isOwn = ({ maker }: { readonly maker?: string }): boolean => maker === undefined || maker === FORMAT;

function decodePart(block: RequestBlock): Part {
  switch (block.type) {
    case "text":
      return decodeText(block);
    case "image":
      return decodeImage(block);
    case "document":
      return decodeDocument(block) ?? { type: "provider", format: FORMAT, value: block };
    case "tool_use":
      return { type: "tool-call", id: block.id, name: block.name, input: block.input, ...cacheOf(block) };
    case "tool_result":
      return decodeToolResult(block);
    case "thinking": {
      // An empty signature means none: the gateway writes it if the upstream sent none.
      const { signature = "", maker = "" } = readSignature(block.signature, FORMAT);
      return { type: "reasoning", text: block.thinking, ...signedBy({ value: signature, maker, kind: "part" }) };
    }
    case "redacted_thinking": {
      const { value: data, maker } = unwrapSeal(block.data) ?? { value: block.data, maker: FORMAT };
      return { type: "redacted-reasoning", data, ...(maker !== "" && { maker }) };
    }
    default:
      return { type: "provider", format: FORMAT, value: block };
  }
}

function encodePart(
  part: Part | JsonPart,
  ids: CallIds,
  foreignReasoning: CodecOptions["foreignReasoning"],
): RequestBlock[] {
  switch (part.type) {
    case "text":
      return isBlank(part.text) ? [] : [encodeText(part)];
    case "media":
      return isSayable(part) ? [encodeMedia(part)] : [];
    case "document":
      return isSayable(part) ? [encodeDocument(part)] : [];
    case "tool-call":
      return [
        { type: "tool_use", id: ids.ofCall(part.id), name: part.name, input: part.input, ...cacheControlOf(part) },
      ];
    case "tool-result":
      return [encodeToolResult(part, ids, foreignReasoning)];
    case "refusal":
      return isBlank(part.text) ? [] : [{ type: "text", text: part.text }];
    case "reasoning":
      // Leave out reasoning without a signature: the format refuses it as forged.
      if (isOwn(part) && part.signature) return [{ type: "thinking", thinking: part.text, signature: part.signature }];
      return foreignReasoning === "text" && !isBlank(part.text) ? [{ type: "text", text: part.text }] : [];
    case "redacted-reasoning":
      return isOwn(part) ? [{ type: "redacted_thinking", data: part.data }] : [];
    // The format has no code and no structured results, so they become text.
    case "code":
    case "code-result":
      return [{ type: "text", text: fenced(part) }];
    case "json":
      return [{ type: "text", text: JSON.stringify(part.value) }];
    case "provider":
      return part.format === FORMAT ? [part.value as RequestBlock] : [];
  }
}

/** Tells whether a text is empty or only white space. The official service refuses such blocks. */
export const isBlank = (text: string): boolean => !/\S/.test(text);

/** Returns the parts for a text that was sent in place of blocks. An empty text gives no part. */
export const textParts = (text: string): TextPart[] => (text === "" ? [] : [{ type: "text", text }]);

export const decodeText = (block: TextBlock): TextPart => ({ type: "text", text: block.text, ...cacheOf(block) });

export const encodeText = (part: TextPart): TextBlock => ({ type: "text", text: part.text, ...cacheControlOf(part) });

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

const encodeToolResult = (
  part: ToolResultPart,
  ids: CallIds,
  foreignReasoning: CodecOptions["foreignReasoning"],
): ToolResultBlock => ({
  type: "tool_result",
  tool_use_id: ids.ofResult(part.callId),
  // The cast is safe: each part of a result becomes a block that a result may have.
  content: part.parts.flatMap((inner) => encodePart(inner, ids, foreignReasoning)) as Exclude<
    ToolResultBlock["content"],
    string
  >,
  ...(part.isError !== undefined && { is_error: part.isError }),
  ...cacheControlOf(part),
});

const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

/** Tells whether the format has a block for a medium or a document. */
export function isSayable(part: MediaPart | DocumentPart): boolean {
  if (part.type === "media")
    return part.kind === "image" && (part.source.type !== "base64" || IMAGE_TYPES.has(part.source.mediaType));
  const { source } = part;
  if (source.type === "parts") return source.parts.every((inner) => inner.type === "text" || isSayable(inner));
  return source.type !== "base64" || source.mediaType === "application/pdf" || isTextType(source.mediaType);
}

const encodeMedia = (part: MediaPart): ImageBlock => ({
  type: "image",
  source: encodeSource(part.source),
  ...cacheControlOf(part),
});

function decodeImage(block: ImageBlock): MediaPart | ProviderPart {
  const source = decodeSource(block.source);
  if (!source) return { type: "provider", format: FORMAT, value: block };
  return { type: "media", kind: "image", source, ...cacheOf(block) };
}

/** Decodes the source of a file; undefined for one of an unknown type. */
function decodeSource(
  source: ImageSource | { type: "base64"; media_type: string; data: string },
): MediaSource | undefined {
  switch (source.type) {
    case "base64":
      return { type: "base64", mediaType: source.media_type, data: source.data };
    case "url":
      return { type: "url", url: source.url };
    case "file":
      return { type: "file", id: source.file_id };
    default:
      return undefined;
  }
}

function encodeSource(source: MediaSource): ImageSource {
  // The cast is safe: `isSayable` has excluded pictures of other types. A document that comes here is a PDF.
  if (source.type === "base64")
    return { type: "base64", media_type: source.mediaType as "image/png", data: source.data };
  return source.type === "url" ? { type: "url", url: source.url } : { type: "file", file_id: source.id };
}

type DocumentBlock = Extract<RequestBlock, { type: "document" }>;

/** Decodes a document; undefined for one whose source or content is of an unknown type. */
function decodeDocument(block: DocumentBlock): DocumentPart | undefined {
  const source = decodeDocumentSource(block.source);
  return (
    source && {
      type: "document",
      source,
      ...given({ title: block.title, context: block.context, citations: block.citations?.enabled }),
      ...cacheOf(block),
    }
  );
}

const encodeDocument = (part: DocumentPart): DocumentBlock => ({
  type: "document",
  source: encodeDocumentSource(part.source),
  ...given({ title: part.title, context: part.context }),
  ...(part.citations !== undefined && { citations: { enabled: part.citations } }),
  ...cacheControlOf(part),
});

function decodeDocumentSource(source: DocumentBlock["source"]): DocumentPart["source"] | undefined {
  if (source.type === "text") return { type: "text", text: source.data };
  if (source.type !== "content") return decodeSource(source);
  const parts = typeof source.content === "string" ? textParts(source.content) : source.content.map(decodePart);
  if (parts.some(({ type }) => type === "provider")) return undefined;
  // The cast is safe: the schema allows only texts, images and unknown blocks here.
  return { type: "parts", parts: parts as (TextPart | MediaPart)[] };
}

function encodeDocumentSource(source: DocumentPart["source"]): DocumentBlock["source"] {
  if (source.type === "text") return { type: "text", media_type: "text/plain", data: source.text };
  if (source.type === "parts") {
    const content = source.parts.map((part) => (part.type === "text" ? encodeText(part) : encodeMedia(part)));
    return { type: "content", content };
  }
  // The format accepts text documents only as `text/plain`.
  if (source.type === "base64" && isTextType(source.mediaType))
    return { type: "text", media_type: "text/plain", data: readableTextOf(source.data) };
  return encodeSource(source) as DocumentBlock["source"];
}

type CacheControlled = Pick<TextBlock, "cache_control">;

export const cacheOf = ({ cache_control }: CacheControlled): { cache?: CacheHint } =>
  cache_control ? { cache: cache_control.ttl == null ? {} : { ttl: cache_control.ttl } } : {};

export const cacheControlOf = ({ cache }: { readonly cache?: CacheHint }): CacheControlled =>
  cache ? { cache_control: { type: "ephemeral", ...cache } } : {};
