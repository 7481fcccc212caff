/** Encodes the conversation as content blocks of Converse. */

import { CallIds, isBlank, sealed } from "../../formats/messages/request.messages.ts";
import type { ConvertedField, ConvertedFields } from "../../formats/shared/conversions.ts";
import { withFilesOfUsers } from "../../formats/shared/moved-files.ts";
import { fenced, ToolIds, withResultsFirst } from "../../formats/shared/tools.ts";
import { toBase64 } from "../../media/base64.ts";
import { isTextType } from "../../media/media-type.ts";
import type {
  CacheHint,
  ChatMessage,
  DocumentPart,
  JsonPart,
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  ToolResultPart,
} from "../../model/chat-request.ts";
import type { JsonObject } from "../../model/json.ts";
import { acceptsSignature, familyOf, isMistral, makerOf, type ModelFamily } from "./models.ts";

/** A content block: an object with one member, which names its kind. */
export type RequestBlock = JsonObject;

/** A message of Converse. Two messages in sequence never have the same role. */
export interface RequestMessage {
  readonly role: "user" | "assistant";
  readonly content: readonly RequestBlock[];
}

const IMAGES: Readonly<Record<string, string>> = {
  "image/gif": "gif",
  "image/jpeg": "jpeg",
  "image/png": "png",
  "image/webp": "webp",
};

const VIDEOS: Readonly<Record<string, string>> = {
  "video/3gpp": "three_gp",
  "video/mp4": "mp4",
  "video/mpeg": "mpeg",
  "video/mpg": "mpg",
  "video/quicktime": "mov",
  "video/mov": "mov",
  "video/webm": "webm",
  "video/wmv": "wmv",
  "video/x-flv": "flv",
  "video/x-matroska": "mkv",
  "video/x-ms-wmv": "wmv",
};

const SOUNDS: Readonly<Record<string, string>> = {
  "audio/aac": "aac",
  "audio/flac": "flac",
  "audio/m4a": "m4a",
  "audio/mp3": "mp3",
  "audio/mp4": "mp4",
  "audio/mpeg": "mp3",
  "audio/ogg": "ogg",
  "audio/opus": "opus",
  "audio/wav": "wav",
  "audio/webm": "webm",
  "audio/x-wav": "wav",
};

const DOCUMENTS: Readonly<Record<string, string>> = {
  "application/msword": "doc",
  "application/pdf": "pdf",
  "application/vnd.ms-excel": "xls",
  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
  "text/csv": "csv",
  "text/html": "html",
  "text/markdown": "md",
  "text/plain": "txt",
};

interface Media {
  readonly formats: Readonly<Record<string, string>>;
  /** The field that is lost where a medium cannot be sent. */
  readonly field: ConvertedField;
}

const MEDIA: Readonly<Record<MediaPart["kind"], Media>> = {
  image: { formats: IMAGES, field: "messages.media" },
  video: { formats: VIDEOS, field: "messages.media.video" },
  audio: { formats: SOUNDS, field: "messages.media.audio" },
};

const formatIn = (formats: Readonly<Record<string, string>>, mediaType: string): string | undefined => {
  const type = mediaType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  return Object.hasOwn(formats, type) ? formats[type] : undefined;
};

/** Tells whether Bedrock accepts the id of a tool call. */
const isToolId = (id: string): boolean => /^[\w-]{1,64}$/.test(id);
const isMistralId = (id: string): boolean => /^[a-z0-9]{9}$/i.test(id);

const idsFor = (model: string): ToolIds =>
  isMistral(model)
    ? new ToolIds(isMistralId, (_id, number) => `call${String(number).padStart(5, "0")}`)
    : new ToolIds(isToolId);

/** The longest name of a document, without the number behind a name that another document has. */
const MAX_NAME_CHARS = 190;

/** The characters of a title that are read. */
const MAX_TITLE_CHARS = 1_000;

const NAMELESS = "document";

/** Encodes one conversation for one model. Adds the fields that lose something to `lost`. */
export class ConversationEncoder {
  readonly #model: string;
  readonly #family: ModelFamily;
  readonly #sendsForeignAsText: boolean;
  readonly #lost: ConvertedFields;
  readonly #ids: CallIds;
  /** The names of the documents so far, in lower case. */
  readonly #names: Set<string> = new Set();
  /** The last number behind a name. */
  #number = 1;
  /** The names of the tools that the conversation has called. */
  readonly calledTools: Set<string> = new Set();

  /** @param sendsForeignAsText True when the model gets the reasoning of other makers as text. */
  constructor(model: string, sendsForeignAsText: boolean, lost: ConvertedFields) {
    this.#model = model;
    this.#family = familyOf(model);
    this.#sendsForeignAsText = sendsForeignAsText;
    this.#lost = lost;
    this.#ids = new CallIds(idsFor(model));
  }

  system(parts: readonly TextPart[]): RequestBlock[] {
    return parts.flatMap((part) => this.#text(part.text, part.cache));
  }

  /** Leaves out what Bedrock refuses, and messages without content then. Joins messages of one role that follow each other. */
  messages(turns: readonly ChatMessage[]): RequestMessage[] {
    const messages: { readonly role: RequestMessage["role"]; content: RequestBlock[] }[] = [];
    for (const turn of withResultsFirst(withFilesOfUsers(turns, isSayable, this.#lost))) {
      const role = turn.role === "assistant" ? "assistant" : "user";
      if (role === "assistant") this.#ids.beginTurn();
      const content = this.#turn(sealed(turn.parts).flatMap((part) => this.#part(part)));
      const last = messages.at(-1);
      if (last?.role === role) last.content.push(...content);
      else if (content.length > 0) messages.push({ role, content });
    }
    const last = messages.at(-1);
    if (last?.role === "assistant") last.content = this.#prefill(last.content);
    for (const { role, content } of messages) if (role === "user") nameDocument(content);
    return messages;
  }

  /** Bedrock takes a turn of reasoning alone for a prefill, and refuses it. */
  #turn(content: RequestBlock[]): RequestBlock[] {
    if (content.length === 0 || !content.every((block) => "reasoningContent" in block)) return content;
    this.#lost.add("messages.reasoning");
    return [];
  }

  /** Models accept no reasoning in a turn that the answer continues, and no white space at its end. */
  #prefill(content: readonly RequestBlock[]): RequestBlock[] {
    if (!this.#family.isClaude) this.#lost.add("messages.prefill");
    const allowed = content.filter((block) => !("reasoningContent" in block));
    if (allowed.length < content.length) this.#lost.add("messages.reasoning");
    const last = allowed.findLastIndex((block) => !("cachePoint" in block));
    const text = allowed[last]?.["text"];
    if (typeof text !== "string" || text === text.trimEnd()) return allowed;
    this.#lost.add("messages.prefill");
    return allowed.with(last, { text: text.trimEnd() });
  }

  #part(part: Part): RequestBlock[] {
    switch (part.type) {
      case "text":
        return this.#text(part.text, part.cache);
      case "refusal":
        return this.#text(part.text);
      case "code":
      case "code-result":
        return [{ text: fenced(part) }];
      case "media":
        return this.#marked(this.#media(part), cacheIn(part));
      case "document":
        return this.#marked(this.#document(part), cacheIn(part));
      case "tool-call": {
        this.calledTools.add(part.name);
        const toolUseId = this.#id(part.id, this.#ids.ofCall(part.id));
        return [{ toolUse: { toolUseId, name: part.name, input: part.input } }, ...this.#mark(part.cache, true)];
      }
      case "tool-result":
        return this.#toolResult(part);
      case "reasoning":
        return this.#reasoning(part);
      case "redacted-reasoning":
        if (part.maker === undefined || part.maker === makerOf(this.#model))
          return [{ reasoningContent: { redactedContent: part.data } }];
        this.#lost.add("messages.reasoning.foreign");
        return [];
      // The list of conversions names these parts.
      case "provider":
        return [];
      default:
        return part satisfies never;
    }
  }

  #text(text: string, cache?: CacheHint): RequestBlock[] {
    if (!isBlank(text)) return [{ text }, ...this.#mark(cache)];
    if (text !== "") this.#lost.add("messages.text");
    return [];
  }

  #id(given: string, written: string): string {
    if (given !== written) this.#lost.add("messages.tool-call.id");
    return written;
  }

  /** Returns the mark for the prompt cache behind a block. */
  #mark(cache: CacheHint | undefined, isOfTool = false): RequestBlock[] {
    if (!cache) return [];
    const { cacheMarks } = this.#family;
    if (cacheMarks === "all" || (cacheMarks === "prompt" && !isOfTool)) return [cachePoint(cache, this.#family)];
    this.#lost.add("messages.cache");
    return [];
  }

  #marked(blocks: RequestBlock[], cache: CacheHint | undefined, isOfTool = false): RequestBlock[] {
    return blocks.length > 0 ? [...blocks, ...this.#mark(cache, isOfTool)] : blocks;
  }

  #media(part: MediaPart): RequestBlock[] {
    const { kind, source } = part;
    const { formats, field } = MEDIA[kind];
    if (source.type === "base64") {
      const format = formatIn(formats, source.mediaType);
      if (format) return [{ [kind]: { format, source: { bytes: source.data } } }];
    }
    // Bedrock would read a bucket of S3 with the rights of the host, for any caller: so no address is sent.
    this.#lost.add(source.type === "url" && field === "messages.media" ? "messages.media.url" : field);
    return [];
  }

  #document(part: DocumentPart): RequestBlock[] {
    const { source, context, citations } = part;
    if (source.type === "parts") {
      this.#lost.add("messages.document.text");
      for (const field of ["title", "context", "citations"] as const)
        if (part[field]) this.#lost.add(`messages.document.${field}`);
      return source.parts.flatMap((inner) => (inner.type === "text" ? this.#text(inner.text) : this.#media(inner)));
    }
    const file = fileOf(source);
    if (!file) {
      this.#lost.add(source.type === "url" ? "messages.document.url" : "messages.document");
      return [];
    }
    if (file.isApproximated) this.#lost.add("messages.document.text");
    const isCited = this.#family.isClaude;
    if (citations && !isCited) this.#lost.add("messages.document.citations");
    if (context !== undefined && !isCited) this.#lost.add("messages.document.context");
    const document = {
      format: file.format,
      name: this.#nameOf(part.title),
      source: { bytes: file.bytes },
      ...(isCited && context && { context }),
      ...(isCited && citations && { citations: { enabled: true } }),
    };
    return [{ document }];
  }

  /** Returns a name that Bedrock accepts and that no other document of the request has. */
  #nameOf(title: string | undefined): string {
    const accepted = (title ?? NAMELESS)
      .slice(0, MAX_TITLE_CHARS)
      .replaceAll(/[^a-z0-9\s()[\]-]+/gi, " ")
      .replaceAll(/\s+/g, " ")
      .slice(0, MAX_NAME_CHARS)
      .trim();
    const base = accepted === "" ? NAMELESS : accepted;
    let name = base;
    // Never count from the start again: this would be quadratic.
    while (this.#names.has(name.toLowerCase())) name = `${base} ${++this.#number}`;
    this.#names.add(name.toLowerCase());
    if (title !== undefined && name !== title) this.#lost.add("messages.document.title");
    return name;
  }

  #toolResult(part: ToolResultPart): RequestBlock[] {
    const content = part.parts.flatMap((inner) => this.#inResult(inner));
    const toolResult = {
      toolUseId: this.#id(part.callId, this.#ids.ofResult(part.callId)),
      // A model may refuse a result without content, and all models refuse a failure without text.
      content: content.length > 0 ? content : [{ text: part.isError ? "The tool has failed." : "" }],
      ...(part.isError && { status: "error" }),
    };
    // A mark cannot stand inside of a result.
    return this.#marked([{ toolResult }], cacheIn(part), true);
  }

  #inResult(part: ToolResultPart["parts"][number] | JsonPart): RequestBlock[] {
    switch (part.type) {
      case "text":
        return this.#text(part.text);
      case "json":
        return [{ json: part.value }];
      case "media":
      case "document": {
        const blocks = part.type === "media" ? this.#media(part) : this.#document(part);
        const allowed = blocks.filter((block) => !("audio" in block));
        if (allowed.length < blocks.length) this.#lost.add("messages.media.audio");
        return allowed;
      }
      case "provider":
        return [];
      default:
        return part satisfies never;
    }
  }

  #reasoning(part: ReasoningPart): RequestBlock[] {
    const { text, signature } = part;
    const isOwn = acceptsSignature(this.#model, part);
    // Models refuse reasoning without a signature, or repeat it in their answers.
    if (isOwn && signature) return [{ reasoningContent: { reasoningText: { text, signature } } }];
    if (this.#sendsForeignAsText && !isBlank(text)) return [{ text }];
    this.#lost.add(isOwn ? "messages.reasoning.unsealed" : "messages.reasoning.foreign");
    return [];
  }
}

/** Returns the mark of a part, or the last mark inside of it. */
function cacheIn(part: Part | JsonPart): CacheHint | undefined {
  if ("cache" in part && part.cache) return part.cache;
  const inner = part.type === "tool-result" ? part.parts : part.type === "document" ? partsIn(part) : [];
  return inner.map(cacheIn).findLast((cache) => cache !== undefined);
}

const partsIn = ({ source }: DocumentPart): readonly Part[] => (source.type === "parts" ? source.parts : []);

/** Returns the block of a mark. Only Claude knows lifetimes; the usual one has no name. */
export const cachePoint = ({ ttl }: CacheHint, { isClaude }: ModelFamily): RequestBlock => ({
  cachePoint: { type: "default", ...(isClaude && ttl === "1h" && { ttl }) },
});

/** The file of a document as Bedrock takes it, with its bytes in base64. */
interface DocumentFile {
  readonly format: string;
  readonly bytes: string;
  readonly isApproximated: boolean;
}

/** Returns undefined for a file that is not in the request, and for a type that Bedrock does not know. */
function fileOf(source: Exclude<DocumentPart["source"], { type: "parts" }>): DocumentFile | undefined {
  if (source.type === "text")
    return { format: "txt", bytes: toBase64(new TextEncoder().encode(source.text)), isApproximated: false };
  if (source.type !== "base64") return undefined;
  const format = formatIn(DOCUMENTS, source.mediaType);
  if (format) return { format, bytes: source.data, isApproximated: false };
  return isTextType(source.mediaType) ? { format: "txt", bytes: source.data, isApproximated: true } : undefined;
}

/** Tells whether Bedrock accepts a file, if the model does. */
function isSayable(part: MediaPart | DocumentPart): boolean {
  if (part.type === "document") return part.source.type === "parts" || fileOf(part.source) !== undefined;
  const { kind, source } = part;
  return source.type === "base64" && formatIn(MEDIA[kind].formats, source.mediaType) !== undefined;
}

/** Adds the name of a document as a text: Bedrock refuses a message with a document and without a text. */
function nameDocument(content: RequestBlock[]): void {
  const first = content.find((block) => "document" in block)?.["document"] as JsonObject | undefined;
  if (first && !content.some((block) => "text" in block)) content.push({ text: first["name"] as string });
}
