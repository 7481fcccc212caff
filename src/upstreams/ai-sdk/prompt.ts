/** Encodes the turns of a request as a prompt of the providers' interface, with the metadata that a provider needs back. */

import type { ConvertedFields } from "../../formats/shared/conversions.ts";
import { withFilesOfUsers } from "../../formats/shared/moved-files.ts";
import { fenced, withResultsFirst } from "../../formats/shared/tools.ts";
import { readableTextOf, toBase64 } from "../../media/base64.ts";
import type {
  CacheHint,
  ChatMessage,
  ChatRequest,
  DocumentPart,
  JsonPart,
  MediaPart,
  Part,
  ReasoningPart,
  RedactedReasoningPart,
  TextPart,
  ToolResultPart,
} from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { JsonBudget, type JsonObject, type JsonValue } from "../../model/json.ts";
import { isTextFile, promisedType, takesUrl, type Traits } from "./conversions.ts";
import type { ProviderOptions } from "./options.ts";
import { mergedMetadata, metadataFrom, metadataFromRedacted } from "./seals.ts";

interface WithOptions {
  readonly providerOptions?: ProviderOptions;
}

export type PromptMessage = WithOptions &
  (
    | { readonly role: "system"; readonly content: string }
    | { readonly role: "user" | "assistant" | "tool"; readonly content: PromptPart[] }
  );

type PromptPart = WithOptions &
  (
    | { readonly type: "text" | "reasoning"; readonly text: string }
    | FilePart
    | {
        readonly type: "tool-call";
        readonly toolCallId: string;
        readonly toolName: string;
        readonly input: JsonObject;
      }
    | {
        readonly type: "tool-result";
        readonly toolCallId: string;
        readonly toolName: string;
        readonly output: ToolOutput;
      }
  );

/** A file in a turn. Version 4 tags the data with its type; older versions accept base64 or an address. */
interface FilePart extends WithOptions {
  readonly type: "file" | "reasoning-file";
  readonly mediaType: string;
  readonly filename?: string;
  readonly data: string | URL | FileData;
}

type FileData =
  | { readonly type: "data"; readonly data: string }
  | { readonly type: "url"; readonly url: URL }
  | { readonly type: "text"; readonly text: string };

type ToolOutput =
  | { readonly type: "text" | "error-text"; readonly value: string }
  | { readonly type: "json" | "error-json"; readonly value: JsonValue }
  | { readonly type: "content"; readonly value: readonly ToolOutputPart[] };

/** Each version of the interface has its own shape of files. */
type ToolOutputPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "file"; readonly mediaType: string; readonly data: FileData }
  | { readonly type: "image-data" | "file-data" | "media"; readonly mediaType: string; readonly data: string }
  | { readonly type: "image-url" | "file-url"; readonly url: string };

/** The families whose providers leave files in turns of the assistant out in silence. */
const FILES_OF_USERS_ALONE: ReadonlySet<Traits["family"]> = new Set(["anthropic", "openai"]);

/**
 * Encodes the prompt, and lists the conversions of parts that this provider cannot use.
 *
 * @param lost Receives the fields of files that are moved.
 */
export function encodePrompt(
  { system, messages: asked }: ChatRequest,
  traits: Traits,
  lost: ConvertedFields,
): { prompt: PromptMessage[]; conversions: Conversion[] } {
  const writer = new PromptWriter(traits);
  const isMoved = (part: MediaPart | DocumentPart): boolean =>
    encodeFile(part, traits).some(({ type }) => type === "file");
  const messages = FILES_OF_USERS_ALONE.has(traits.family) ? withFilesOfUsers(asked, isMoved, lost) : asked;
  for (const part of system) writer.prompt.push({ role: "system", content: part.text, ...writer.options(part) });
  for (const message of messages)
    for (const part of message.parts) if (part.type === "tool-call") writer.toolNames.set(part.id, part.name);
  for (const message of withResultsFirst(messages)) writer.message(message);
  writer.addMoved();
  return { prompt: writer.prompt, conversions: [...writer.conversions.values()] };
}

class PromptWriter {
  readonly prompt: PromptMessage[] = [];
  readonly conversions: Map<string, Conversion> = new Map();
  /** The name of the tool, by the call's id. Used for tool results without a name. */
  readonly toolNames: Map<string, string> = new Map();
  readonly #traits: Traits;
  readonly #signatures = new JsonBudget();
  /** The files of tool results. They follow all results of their turn. */
  #moved: FilePart[] = [];

  constructor(traits: Traits) {
    this.#traits = traits;
  }

  message({ role, parts }: ChatMessage): void {
    if (role === "system") {
      this.addMoved();
      const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");
      if (this.#traits.supports.has("messages.role.system")) this.prompt.push({ role: "system", content: text });
      else this.#add("user", { type: "text", text });
      return;
    }
    // In the interface, tool results form a separate turn.
    for (const part of withWholeReasoning(parts))
      for (const encoded of this.#part(part)) this.#add(encoded.type === "tool-result" ? "tool" : role, encoded);
  }

  /** Adds the files of tool results as the user's. */
  addMoved(): void {
    if (this.#moved.length === 0) return;
    const files = this.#moved;
    this.#moved = [];
    const why = "The files of a tool's result follow in a turn of the user.";
    this.#tell({ field: "messages.tool-result.media", conversion: "approximated", why });
    for (const file of files) this.#add("user", file);
  }

  #add(role: "user" | "assistant" | "tool", part: PromptPart): void {
    if (role !== "tool") this.addMoved();
    const last = this.prompt.at(-1);
    // Append in place: a copy for each part would take quadratic time.
    if (last?.role === role) last.content.push(part);
    else this.prompt.push({ role, content: [part] });
  }

  #part(part: Part): readonly PromptPart[] {
    switch (part.type) {
      case "text": {
        if (part.thought) return this.#reasoning(part);
        const options = this.options(part);
        // An empty text may carry a signature.
        return part.text === "" && !options.providerOptions ? [] : [{ type: "text", text: part.text, ...options }];
      }
      case "media":
      case "document": {
        const { providerOptions } = this.options(part);
        return encodeFile(part, this.#traits).map((file) => withOptions(file, providerOptions));
      }
      case "tool-call": {
        const { id: toolCallId, name: toolName, input } = part;
        return [{ type: "tool-call", toolCallId, toolName, input, ...this.options(part) }];
      }
      case "tool-result": {
        const toolName = part.name ?? this.toolNames.get(part.callId) ?? "unknown";
        const output = encodeOutput(part, this.#traits, this.#moved);
        return [{ type: "tool-result", toolCallId: part.callId, toolName, output, ...this.options(part) }];
      }
      case "reasoning":
        return this.#reasoning(part);
      case "redacted-reasoning":
        return this.#redacted(part);
      case "refusal":
        return [{ type: "text", text: part.text }];
      case "code":
      case "code-result":
        return [{ type: "text", text: fenced(part), ...this.options(part) }];
      case "provider":
        return [];
    }
  }

  /** Encodes earlier reasoning. Only its own maker gets it as reasoning, because other providers refuse or ignore it. */
  #reasoning({ text, signature = "", maker }: Omit<ReasoningPart, "type">): PromptPart[] {
    const { signer, takesUnsigned, foreignReasoning } = this.#traits;
    const providerOptions = metadataFrom({ signature, maker }, signer, this.#signatures);
    if (providerOptions) return [{ type: "reasoning", text, providerOptions }];
    const isForeign = maker !== undefined && maker !== signer.maker && maker !== signer.jsonMaker;
    if (takesUnsigned && !isForeign) {
      if (signature !== "") this.#drop("messages.signature", "The signature belongs to another provider.");
      return text === "" ? [] : [{ type: "reasoning", text }];
    }
    if (text === "" && signature === "") return [];
    const field = isForeign ? "messages.reasoning.foreign" : "messages.reasoning.unsealed";
    if (foreignReasoning === "drop" || text === "") {
      this.#drop(field, "The provider accepts only its own reasoning, with its signature.");
      return [];
    }
    this.#tell({ field, conversion: "approximated", why: "Reasoning of another provider is sent as text." });
    return [{ type: "text", text }];
  }

  #redacted(part: RedactedReasoningPart): PromptPart[] {
    const providerOptions = metadataFromRedacted(part, this.#traits.signer, this.#signatures);
    if (providerOptions) return [{ type: "reasoning", text: "", providerOptions }];
    const field = part.maker === undefined ? "messages.redacted-reasoning" : "messages.reasoning.foreign";
    this.#drop(field, "The encrypted reasoning belongs to another provider.");
    return [];
  }

  /** Returns the provider options of a part other than reasoning: its cache hint and its signature. */
  options(part: Pick<TextPart, "cache" | "signature" | "maker">): WithOptions {
    const { signature = "", maker } = part;
    const cache = "cache" in part ? part.cache : undefined;
    const { signer, family } = this.#traits;
    // Claude signs only reasoning.
    const isUsable = signer.field !== "signature" || maker === signer.jsonMaker;
    const metadata = isUsable ? metadataFrom({ signature, maker }, signer, this.#signatures) : undefined;
    if (signature !== "" && !metadata) {
      const field = maker === undefined || maker === signer.maker ? "messages.signature" : "messages.signature.foreign";
      this.#drop(field, "The signature belongs to another provider.");
    }
    const hint = cache && family === "anthropic" ? hintOf(cache) : {};
    const providerOptions = mergedMetadata(metadata ?? {}, hint);
    return Object.keys(providerOptions).length > 0 ? { providerOptions } : {};
  }

  #drop(field: string, why: string): void {
    this.#tell({ field, conversion: "dropped", why });
  }

  #tell(conversion: Conversion): void {
    this.conversions.set(conversion.field, conversion);
  }
}

/** Joins reasoning and a signature that follows as a part without a text: some formats send the two apart. */
function* withWholeReasoning(parts: readonly Part[]): Generator<Part> {
  let open: ReasoningPart | undefined;
  for (const part of parts) {
    if (open && part.type === "reasoning" && part.text === "") {
      yield { ...part, text: open.text };
      open = undefined;
      continue;
    }
    if (open) yield open;
    open = part.type === "reasoning" && part.signature === undefined && part.maker === undefined ? part : undefined;
    if (!open) yield part;
  }
  if (open) yield open;
}

export const hintOf = ({ ttl }: CacheHint): ProviderOptions => ({
  anthropic: { cacheControl: { type: "ephemeral", ...(ttl !== undefined && { ttl }) } },
});

const withOptions = (part: PromptPart, more: ProviderOptions | undefined): PromptPart =>
  more ? { ...part, providerOptions: mergedMetadata(part.providerOptions ?? {}, more) } : part;

/** @param moved Receives the files that the provider does not take in a result. */
function encodeOutput({ parts, isError = false }: ToolResultPart, traits: Traits, moved: FilePart[]): ToolOutput {
  const [first] = parts;
  if (first?.type === "json" && parts.length === 1)
    return { type: isError ? "error-json" : "json", value: first.value };
  const encodable = parts.filter((part) => part.type !== "provider");
  if (encodable.every((part) => part.type === "text" || part.type === "json"))
    return { type: isError ? "error-text" : "text", value: encodable.map(textOf).join("\n") };
  if (traits.hasTextResults) {
    const texts: string[] = [];
    for (const part of encodable) {
      if (part.type === "text" || part.type === "json") texts.push(textOf(part));
      else
        for (const file of encodeFile(part, traits, true))
          if (file.type === "text") texts.push(file.text);
          else moved.push(file);
    }
    return { type: isError ? "error-text" : "text", value: texts.join("\n") };
  }
  const value = encodable.flatMap((part): readonly ToolOutputPart[] =>
    part.type === "text" || part.type === "json"
      ? [{ type: "text", text: textOf(part) }]
      : encodeFile(part, traits, true).map((file) => outputPartOf(file, traits.version)),
  );
  return { type: "content", value: isError ? [{ type: "text", text: "The tool failed." }, ...value] : value };
}

const textOf = (part: TextPart | JsonPart): string => (part.type === "text" ? part.text : JSON.stringify(part.value));

function outputPartOf(file: EncodedFile, version: Traits["version"]): ToolOutputPart {
  if (file.type === "text") return { type: "text", text: file.text };
  const { mediaType, data } = file;
  const isImage = mediaType.startsWith("image/");
  if (typeof data === "string")
    return { type: version === "v2" ? "media" : isImage ? "image-data" : "file-data", mediaType, data };
  if (data instanceof URL) return { type: isImage ? "image-url" : "file-url", url: data.href };
  return { type: "file", mediaType, data };
}

type EncodedFile = FilePart | { readonly type: "text"; readonly text: string };

/**
 * Encodes a file of a turn or of a tool result. A document may become several parts, or a text part.
 *
 * @param isInner The file is in a tool result, where no provider takes a document of text.
 */
function encodeFile(part: MediaPart | DocumentPart, traits: Traits, isInner = false): readonly EncodedFile[] {
  const { source } = part;
  const title = part.type === "document" ? part.title : undefined;
  switch (source.type) {
    // Nothing to encode: the conversion of this field rejects the request.
    case "file":
      return [];
    case "url":
      // The conversion rejects an address that the model cannot fetch.
      if (!takesUrl(source.url, part, traits)) return [];
      return [filePart(part, promisedType(source.url, part), { type: "url", url: new URL(source.url) }, traits)];
    case "base64":
    case "text": {
      if (source.type === "base64" && !(part.type === "document" && isTextFile(part, traits)))
        return [filePart(part, source.mediaType, { type: "data", data: source.data }, traits)];
      const text = source.type === "text" ? source.text : readableTextOf(source.data);
      if (!isInner && traits.supports.has("messages.document.text"))
        return [filePart(part, "text/plain", { type: "text", text }, traits)];
      return [{ type: "text", text: (title === undefined ? "" : `${title}\n\n`) + text }];
    }
    case "parts":
      return [
        ...(title === undefined ? [] : [{ type: "text" as const, text: title }]),
        ...source.parts.flatMap((inner): readonly EncodedFile[] =>
          inner.type === "text" ? [{ type: "text", text: inner.text }] : encodeFile(inner, traits),
        ),
      ];
  }
}

function filePart(part: MediaPart | DocumentPart, mediaType: string, data: FileData, traits: Traits): FilePart {
  const title = part.type === "document" ? part.title : undefined;
  const isV4 = traits.version === "v4";
  return {
    type: part.thought && isV4 ? "reasoning-file" : "file",
    mediaType,
    data: isV4 ? data : olderData(data),
    ...(title !== undefined && { filename: title }),
    ...fileOptions(part, traits),
  };
}

/** Encodes a file's data for versions before 4. They have no text in files, so a text is sent as bytes. */
function olderData(data: FileData): string | URL {
  if (data.type === "url") return data.url;
  return data.type === "data" ? data.data : toBase64(new TextEncoder().encode(data.text));
}

function fileOptions(part: MediaPart | DocumentPart, { family }: Traits): WithOptions {
  if (part.type === "media") {
    if (family !== "openai" || part.detail === undefined) return {};
    return { providerOptions: { openai: { imageDetail: part.detail } } };
  }
  if (family !== "anthropic") return {};
  const anthropic: JsonObject = {
    ...(part.title !== undefined && { title: part.title }),
    ...(part.context !== undefined && { context: part.context }),
    ...(part.citations !== undefined && { citations: { enabled: part.citations } }),
  };
  return Object.keys(anthropic).length > 0 ? { providerOptions: { anthropic } } : {};
}
