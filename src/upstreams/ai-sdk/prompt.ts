/**
 * Encodes the turns of a request as a prompt of the providers' interface, and the metadata that a provider needs back with its own
 * parts.
 */

import { fenced } from "../../formats/shared/tools.ts";
import type {
  CacheHint,
  ChatMessage,
  ChatRequest,
  DocumentPart,
  JsonPart,
  MediaPart,
  Part,
  TextPart,
  ToolResultPart,
} from "../../kinds/chat/request.ts";
import { isBase64, textOfBase64, toBase64 } from "../../media/base64.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, JsonBudget, type JsonObject, type JsonValue, parseJson } from "../../model/json.ts";
import { mediaTypeOf, takesUrl, type Traits } from "./conversions.ts";
import type { ProviderOptions } from "./options.ts";

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

/** Encodes the prompt, and lists the conversions of parts that this provider cannot use. */
export function encodePrompt(
  { system, messages }: ChatRequest,
  traits: Traits,
): { prompt: PromptMessage[]; conversions: Conversion[] } {
  const writer = new PromptWriter(traits);
  for (const { text, cache, signature } of system)
    writer.prompt.push({ role: "system", content: text, ...writer.options(cache, signature) });
  for (const message of messages)
    for (const part of message.parts) if (part.type === "tool-call") writer.toolNames.set(part.id, part.name);
  for (const message of messages) writer.message(message);
  return { prompt: writer.prompt, conversions: [...writer.conversions.values()] };
}

class PromptWriter {
  readonly prompt: PromptMessage[] = [];
  readonly conversions: Map<string, Conversion> = new Map();
  /** The name of the tool, by the call's id. Used for tool results without a name. */
  readonly toolNames: Map<string, string> = new Map();
  readonly #traits: Traits;
  readonly #signatures = new JsonBudget();

  constructor(traits: Traits) {
    this.#traits = traits;
  }

  message({ role, parts }: ChatMessage): void {
    if (role === "system") {
      const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");
      if (this.#traits.supports.has("messages.role.system")) this.prompt.push({ role: "system", content: text });
      else this.#add("user", { type: "text", text });
      return;
    }
    // In the interface, tool results form a separate turn.
    for (const part of parts)
      for (const encoded of this.#part(part)) this.#add(encoded.type === "tool-result" ? "tool" : role, encoded);
  }

  #add(role: "user" | "assistant" | "tool", part: PromptPart): void {
    const last = this.prompt.at(-1);
    // Append in place: a copy for each part would take quadratic time.
    if (last?.role === role) last.content.push(part);
    else this.prompt.push({ role, content: [part] });
  }

  #part(part: Part): readonly PromptPart[] {
    const cache = "cache" in part ? part.cache : undefined;
    const signature = "signature" in part ? part.signature : undefined;
    const options = this.options(cache, signature);
    switch (part.type) {
      case "text":
        if (part.thought) return [{ type: "reasoning", text: part.text, ...options }];
        return part.text === "" && signature === undefined ? [] : [{ type: "text", text: part.text, ...options }];
      case "media":
      case "document":
        return encodeFile(part, this.#traits).map((file) => withOptions(file, options.providerOptions));
      case "tool-call":
        return [{ type: "tool-call", toolCallId: part.id, toolName: part.name, input: part.input, ...options }];
      case "tool-result": {
        const toolName = part.name ?? this.toolNames.get(part.callId) ?? "unknown";
        const output = encodeOutput(part, this.#traits);
        return [{ type: "tool-result", toolCallId: part.callId, toolName, output, ...options }];
      }
      case "reasoning":
        return [{ type: "reasoning", text: part.text, ...options }];
      case "redacted-reasoning": {
        const redacted = { anthropic: { redactedData: part.data } };
        if (this.#traits.family === "anthropic") return [{ type: "reasoning", text: "", providerOptions: redacted }];
        this.#drop("messages.redacted-reasoning", "The encrypted reasoning belongs to another provider.");
        return [];
      }
      case "refusal":
        return [{ type: "text", text: part.text }];
      case "code":
        return [{ type: "text", text: fenced(part.code, part.language), ...options }];
      case "code-result":
        return [{ type: "text", text: fenced(part.output ?? "", ""), ...options }];
      case "provider":
        return [];
    }
  }

  /** Returns the provider options of a part: its cache hint and its signature. */
  options(cache: CacheHint | undefined, signature: string | undefined): WithOptions {
    const hint = cache && this.#traits.family === "anthropic" ? hintOf(cache) : {};
    const metadata = signature === undefined ? {} : metadataIn(signature, this.#traits.provider, this.#signatures);
    if (!metadata) this.#drop("messages.signature", "The signature belongs to another provider.");
    const providerOptions = mergedMetadata(metadata ?? {}, hint);
    return Object.keys(providerOptions).length > 0 ? { providerOptions } : {};
  }

  #drop(field: string, why: string): void {
    this.conversions.set(field, { field, conversion: "dropped", why });
  }
}

export const hintOf = ({ ttl }: CacheHint): ProviderOptions => ({
  anthropic: { cacheControl: { type: "ephemeral", ...(ttl !== undefined && { ttl }) } },
});

const withOptions = (part: PromptPart, more: ProviderOptions | undefined): PromptPart =>
  more ? { ...part, providerOptions: mergedMetadata(part.providerOptions ?? {}, more) } : part;

function encodeOutput({ parts, isError = false }: ToolResultPart, traits: Traits): ToolOutput {
  const [first] = parts;
  if (first?.type === "json" && parts.length === 1)
    return { type: isError ? "error-json" : "json", value: first.value };
  const encodable = parts.filter((part) => part.type !== "provider");
  if (encodable.every((part) => part.type === "text" || part.type === "json"))
    return { type: isError ? "error-text" : "text", value: encodable.map(textOf).join("\n") };
  const value = encodable.flatMap((part): readonly ToolOutputPart[] =>
    part.type === "text" || part.type === "json"
      ? [{ type: "text", text: textOf(part) }]
      : encodeFile(part, traits).map((file) => outputPartOf(file, traits.version)),
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

/** Encodes a file of a turn or of a tool result. A document may become several parts, or a text part. */
function encodeFile(part: MediaPart | DocumentPart, traits: Traits): readonly EncodedFile[] {
  const { source } = part;
  const title = part.type === "document" ? part.title : undefined;
  switch (source.type) {
    // Nothing to encode: the conversion of this field rejects the request.
    case "file":
      return [];
    case "url":
      // The conversion rejects an address that the model cannot fetch.
      if (!takesUrl(source.url, part, traits)) return [];
      return [filePart(part, mediaTypeOf(part), { type: "url", url: new URL(source.url) }, traits)];
    case "base64":
      return [filePart(part, source.mediaType, { type: "data", data: source.data }, traits)];
    case "text":
      if (traits.supports.has("messages.document.text"))
        return [filePart(part, "text/plain", { type: "text", text: source.text }, traits)];
      return [{ type: "text", text: (title === undefined ? "" : `${title}\n\n`) + source.text }];
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

// A provider needs its metadata on a part of its answer back with the next turn. Callers get the metadata as one opaque signature,
// because every format has a field for signatures. A provider's own signature stays as it is; all other metadata is packed as JSON in
// base64.

/** The field of each provider's metadata that contains a signature. */
const SIGNATURE_FIELD: Readonly<Record<string, string>> = {
  anthropic: "signature",
  google: "thoughtSignature",
  googleVertex: "thoughtSignature",
  vertex: "thoughtSignature",
};

const MARK = "ai-sdk";
/** The beginning of every packed signature: base64 of `{"ai-sdk"`. */
const BEGINNING = "eyJhaS1zZGsi";

/** Returns the objects in a part's metadata, by provider. Ignores everything else. */
export function metadataOf(value: unknown): ProviderOptions {
  if (!isJsonObject(value)) return {};
  const objects = Object.entries(value).filter(([, own]) => isJsonObject(own) && Object.keys(own).length > 0);
  return Object.fromEntries(objects) as Record<string, JsonObject>;
}

/** Merges later metadata of the same part into earlier metadata. */
export function mergedMetadata(earlier: ProviderOptions, later: ProviderOptions): ProviderOptions {
  const merged: Record<string, JsonObject> = { ...earlier };
  for (const [provider, more] of Object.entries(later)) {
    // Null means that the value is not known yet, so it must not replace an earlier value.
    const known = Object.entries(more).filter(([key, value]) => value !== null || !(key in (merged[provider] ?? {})));
    merged[provider] = { ...merged[provider], ...Object.fromEntries(known) };
  }
  return merged;
}

/** Converts metadata to a signature; to undefined when the metadata is empty. */
export function signatureOf(metadata: ProviderOptions): string | undefined {
  const entries = Object.entries(metadata);
  if (entries.length === 0) return undefined;
  const signatures = entries.map(([provider, own]) => {
    const signature = own[SIGNATURE_FIELD[provider] ?? ""];
    return Object.keys(own).length === 1 && typeof signature === "string" ? signature : undefined;
  });
  const [signature] = signatures;
  const isPlain = signature !== undefined && signatures.every((other) => other === signature);
  if (isPlain && !signature.startsWith(BEGINNING)) return signature;
  return toBase64(new TextEncoder().encode(JSON.stringify({ [MARK]: metadata })));
}

/**
 * Converts a signature back to metadata; to undefined when this provider cannot use it. A caller can forge a signature, so the
 * metadata is given only to the part with this signature.
 *
 * @param budget Counts the JSON of all signatures of a request.
 */
export function metadataIn(
  signature: string,
  provider: string,
  budget: JsonBudget = new JsonBudget(),
): ProviderOptions | undefined {
  if (signature.startsWith(BEGINNING)) {
    const json = isBase64(signature) ? textOfBase64(signature) : undefined;
    if (json === undefined) return undefined;
    try {
      const packed = parseJson(json, budget);
      return isJsonObject(packed) ? metadataOf(packed[MARK]) : undefined;
    } catch {
      return undefined;
    }
  }
  if (/anthropic/i.test(provider)) return { anthropic: { signature } };
  const google = { thoughtSignature: signature };
  if (/vertex/i.test(provider)) return { googleVertex: google, vertex: google };
  return /google/i.test(provider) ? { google } : undefined;
}
