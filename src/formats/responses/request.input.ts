/** Converts the input items of a request in both directions. This format has an item for each call and result; a neutral turn has several. */

import { type FieldPath, invalidField } from "../../errors.ts";
import type {
  ChatMessage,
  ChatRequest,
  DocumentPart,
  JsonPart,
  MediaPart,
  Part,
  ProviderPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../model/chat-request.ts";
import { isJsonObject, type JsonBudget, JsonLimitError, type JsonObject } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import type { ConvertedField, ConvertedFields } from "../shared/conversions.ts";
import { withFilesOfUsers } from "../shared/moved-files.ts";
import { audioFormat, decodeFile, decodePicture, decodeSound, NAMELESS_FILE } from "../shared/openai.ts";
import { dataUrl } from "../shared/schema.ts";
import { type Seal, unwrapSeal, type PartSignature } from "../shared/seal.ts";
import { argumentsIn, fenced, ToolIds, customNames } from "../shared/tools.ts";
import { FORMAT } from "./routes.ts";
import { type Content, flatName, type InputItem, isRole, type ResponsesRequest } from "./schema.ts";

interface DecodedTurn {
  readonly role: ChatMessage["role"];
  readonly parts: Part[];
}

type UserPart = TextPart | MediaPart | DocumentPart | ProviderPart;

/** Decodes the input: the instructions before the conversation, and its turns. Consecutive items of one role become one turn. */
export function decodeInput(
  input: ResponsesRequest["input"],
  json: JsonBudget,
): { system: TextPart[]; messages: ChatMessage[] } {
  if (typeof input === "string")
    return { system: [], messages: [{ role: "user", parts: [{ type: "text", text: input }] }] };
  const system: TextPart[] = [];
  const turns: DecodedTurn[] = [];
  const decoder = new ItemDecoder(json);
  for (const [index, item] of input.entries()) {
    const { role, parts } = decoder.decode(item, index);
    // An item without parts does not divide a turn.
    if (parts.length === 0) continue;
    const last = turns.at(-1);
    if (!last && role === "system") {
      for (const part of parts) if (part.type === "text") system.push(part);
    } else if (last?.role !== role) turns.push({ role, parts });
    // Push one by one: `push(...parts)` fails for a very long list.
    else for (const part of parts) add(part, last.parts);
  }
  return { system, messages: decoder.signed(turns) };
}

/** Adds a part to a turn. An empty text with a signature gives the signature to the text before. */
function add(part: Part, parts: Part[]): void {
  const last = parts.at(-1);
  if (part.type !== "text" || part.text !== "" || last?.type !== "text" || last.signature !== undefined)
    parts.push(part);
  else parts[parts.length - 1] = { ...last, ...part, text: last.text };
}

/** An empty value only names the maker, who signs nothing. */
const signedBy = ({ value, maker }: Seal): PartSignature => (value === "" ? { maker } : { signature: value, maker });

class ItemDecoder {
  readonly #json: JsonBudget;
  /** The signatures of calls, by the ids of the calls. They come in items of their own, before or after the call. */
  readonly #signatures: Map<string, PartSignature> = new Map();

  constructor(json: JsonBudget) {
    this.#json = json;
  }

  /** Returns the turns with the signatures of their calls and texts. */
  signed(turns: readonly DecodedTurn[]): ChatMessage[] {
    return turns.map(({ role, parts }) => ({
      role,
      parts: parts.map((part) =>
        part.type === "tool-call" && this.#signatures.size > 0 ? { ...part, ...this.#signatures.get(part.id) } : part,
      ),
    }));
  }

  decode(item: InputItem, index: number): DecodedTurn {
    switch (item.type) {
      case undefined:
      case "message": {
        if (!isRole(item.role)) return { role: "user", parts: [{ type: "provider", format: FORMAT, value: item }] };
        const role = item.role === "developer" ? "system" : item.role;
        return { role, parts: decodeContent(item.content, role === "assistant") };
      }
      case "function_call":
        return { role: "assistant", parts: [this.#call(item, ["input", index, "arguments"])] };
      case "custom_tool_call": {
        const { call_id: id, input } = item;
        return { role: "assistant", parts: [{ type: "tool-call", id, name: flatName(item), input: { input } }] };
      }
      case "function_call_output":
      case "custom_tool_call_output": {
        // The cast is safe: the content of a result has no refusals.
        const parts = decodeContent(item.output, false) as ToolResultPart["parts"];
        return { role: "user", parts: [{ type: "tool-result", callId: item.call_id, parts }] };
      }
      case "reasoning":
        return { role: "assistant", parts: this.#reasoning(item) };
      // References are resolved before, and tools stand beside the conversation.
      case "item_reference":
      case "additional_tools":
        return { role: "assistant", parts: [] };
      case "code_interpreter_call":
        return { role: "assistant", parts: decodeCode(item) ?? [{ type: "provider", format: FORMAT, value: item }] };
      default:
        return { role: "assistant", parts: [{ type: "provider", format: FORMAT, value: item }] };
    }
  }

  /**
   * Decodes a tool call. Arguments that are no JSON object are kept as text: a model may have written them, and its client sends them back
   * with an error as the result.
   */
  #call(call: Extract<InputItem, { type: "function_call" }>, path: FieldPath): ToolCallPart {
    const { call_id: id, arguments: json } = call;
    try {
      const input = argumentsIn(json, this.#json) ?? { invalid_arguments: json };
      return { type: "tool-call", id, name: flatName(call), input };
    } catch (error) {
      if (!(error instanceof JsonLimitError)) throw error;
      throw invalidField(path, `${error.message}, with those of the body`);
    }
  }

  /** Decodes reasoning with its seal. A seal that belongs to a call is kept for the call, which follows. */
  #reasoning({ summary, content, encrypted_content: sealed }: Extract<InputItem, { type: "reasoning" }>): Part[] {
    const text = [...(summary ?? []), ...(content ?? [])].map((part) => part.text).join("\n\n");
    const seal = sealed ? unwrapSeal(sealed) : undefined;
    if (seal?.kind === "call") {
      this.#signatures.set(seal.callId ?? "", signedBy(seal));
      return text === "" ? [] : [{ type: "reasoning", text }];
    }
    if (seal?.kind === "text") return [{ type: "text", text: "", ...signedBy(seal) }];
    if (seal?.kind === "redacted") return [{ type: "redacted-reasoning", data: seal.value, maker: seal.maker }];
    if (seal) return [{ type: "reasoning", text: seal.text ?? text, ...signedBy(seal) }];
    if (sealed) return [{ type: "reasoning", text, signature: sealed, maker: FORMAT }];
    // Only local servers show their reasoning itself, and not a summary.
    const maker = content != null && content.length > 0 ? { maker: FORMAT } : {};
    return text === "" ? [] : [{ type: "reasoning", text, ...maker }];
  }
}

/** Decodes code that has run, with its printed output. Returns undefined for other output, such as pictures. */
function decodeCode({ code, outputs }: Readonly<Record<string, unknown>>): Part[] | undefined {
  if (typeof code !== "string") return undefined;
  const ran: Part = { type: "code", language: "python", code };
  // A caller who has not asked for the outputs has none.
  if (!Array.isArray(outputs)) return [ran];
  const printed: string[] = [];
  for (const output of outputs as readonly unknown[]) {
    if (!isJsonObject(output) || output["type"] !== "logs" || typeof output["logs"] !== "string") return undefined;
    printed.push(output["logs"]);
  }
  // The format names no outcome.
  return [ran, { type: "code-result", outcome: "ok", output: printed.join("") }];
}

/** Decodes the content of a message or a result. An empty text gives no part. */
function decodeContent(content: string | readonly Content[], isAssistant: boolean): Part[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  const parts: Part[] = [];
  for (const part of content)
    if (part.type === "refusal") parts.push({ type: isAssistant ? "refusal" : "text", text: part.refusal });
    else if (!("text" in part) || part.text !== "") parts.push(decodePart(part));
  return parts;
}

function decodePart(part: Exclude<Content, { type: "refusal" }>): UserPart {
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return { type: "text", text: part.text };
    case "input_image":
      return decodePicture(part.image_url, part.detail, part.file_id ?? "");
    case "input_audio":
      return decodeSound(part.input_audio);
    case "input_file":
      return decodeFile(part);
    default:
      return { type: "provider", format: FORMAT, value: part, isContent: true };
  }
}

/** The longest id of a call that providers of this format accept, in characters. */
const MAX_CALL_ID = 64;
const isShortId = (id: string): boolean => id.length <= MAX_CALL_ID;

const DETAIL = { low: "low", medium: "auto", high: "high" } as const;

export class InputEncoder {
  readonly #system: readonly TextPart[];
  readonly #messages: readonly ChatMessage[];
  readonly #fields: ConvertedFields;
  readonly #foreignReasoning: CodecOptions["foreignReasoning"];
  readonly #detail: "low" | "auto" | "high" | undefined;
  /** The names of the tools whose input is a text. */
  readonly #custom: ReadonlySet<string>;
  readonly #customCalls: Set<string> = new Set();
  readonly #ids: ToolIds = new ToolIds(isShortId);
  readonly #items: JsonObject[] = [];

  constructor(
    { system, messages, tools, mediaResolution }: ChatRequest,
    fields: ConvertedFields,
    foreignReasoning: CodecOptions["foreignReasoning"],
  ) {
    this.#system = system;
    this.#messages = messages;
    this.#foreignReasoning = foreignReasoning;
    this.#fields = fields;
    this.#detail = mediaResolution && DETAIL[mediaResolution];
    this.#custom = customNames(tools);
  }

  encode(): JsonObject[] {
    // A single instruction stands beside the input.
    const instructed = this.#system.length > 1 ? [{ role: "system", parts: this.#system } as const] : [];
    const isSayable = (part: Part): boolean => this.#content(part, false).length > 0;
    const turns = withFilesOfUsers(this.#messages, isSayable, this.#fields);
    for (const { role, parts } of [...instructed, ...turns]) {
      let said: JsonObject[] = [];
      const say = (): void => {
        if (said.length > 0) this.#items.push({ type: "message", role, content: said });
        said = [];
      };
      for (const part of parts) {
        const item = this.#item(part);
        if (item === undefined) for (const content of this.#content(part, role === "assistant")) said.push(content);
        else {
          say();
          if (item) this.#items.push(item);
        }
      }
      say();
    }
    return this.#items;
  }

  /** Returns the item for a part; null for a part that is left out; undefined for a part that is content of a message. */
  #item(part: Part): JsonObject | null | undefined {
    switch (part.type) {
      case "tool-call": {
        const { name, input } = part;
        const call_id = this.#id(part.id);
        const { input: text, ...others } = input;
        if (!this.#custom.has(name) || typeof text !== "string" || Object.keys(others).length > 0)
          return { type: "function_call", call_id, name, arguments: JSON.stringify(input) };
        this.#customCalls.add(part.id);
        return { type: "custom_tool_call", call_id, name, input: text };
      }
      case "tool-result": {
        const type = this.#customCalls.has(part.callId) ? "custom_tool_call_output" : "function_call_output";
        return { type, call_id: this.#id(part.callId), output: this.#output(part) };
      }
      case "reasoning": {
        const { text, signature, maker } = part;
        const isOwn = maker === undefined || maker === FORMAT;
        if (signature && isOwn) {
          const summary = text === "" ? [] : [{ type: "summary_text", text }];
          return { type: "reasoning", summary, encrypted_content: signature };
        }
        // Local servers show their reasoning as it is, and want it back.
        if (maker === FORMAT) return { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text }] };
        if (isOwn) this.#fields.add("messages.reasoning.unsealed");
        return this.#foreignReasoning === "text" ? undefined : null;
      }
      case "redacted-reasoning":
        return null;
      case "provider":
        if (part.format !== FORMAT) return null;
        return part.isContent ? undefined : (part.value as JsonObject);
      default:
        return undefined;
    }
  }

  #output(part: ToolResultPart): string | JsonObject[] {
    const failure: JsonObject[] = part.isError ? [{ type: "input_text", text: "The tool has failed." }] : [];
    const content = [...failure, ...part.parts.flatMap((inner) => this.#content(inner, false))];
    const [first, ...others] = content;
    if (!first) return "";
    return typeof first["text"] === "string" && others.length === 0 ? first["text"] : content;
  }

  /** Returns the content for a part: several pieces for a document, none for a part that the format does not have. */
  #content(part: Part | JsonPart, isAssistant: boolean): JsonObject[] {
    const text = (value: string): JsonObject[] =>
      value === "" ? [] : [{ type: isAssistant ? "output_text" : "input_text", text: value }];
    switch (part.type) {
      case "text":
      case "reasoning":
        return text(part.text);
      case "refusal":
        return isAssistant ? [{ type: "refusal", refusal: part.text }] : text(part.text);
      case "code":
      case "code-result":
        return text(fenced(part));
      case "json":
        return text(JSON.stringify(part.value));
      case "media":
        return this.#media(part);
      case "document":
        return this.#document(part);
      case "provider":
        if (part.format === FORMAT && part.isContent) return [part.value as JsonObject];
        return this.#drop("messages.provider");
      default:
        return [];
    }
  }

  #media({ kind, source, detail = this.#detail }: MediaPart): JsonObject[] {
    if (kind === "video") return this.#drop("messages.media.video");
    if (kind === "audio") {
      if (source.type !== "base64") return this.#drop("messages.media.audio");
      return [{ type: "input_audio", input_audio: { data: source.data, format: audioFormat(source.mediaType) } }];
    }
    const chosen = { detail: detail ?? "auto" };
    if (source.type === "file") return [{ type: "input_image", file_id: source.id, ...chosen }];
    const image_url = source.type === "url" ? source.url : dataUrl(source.mediaType, source.data);
    return [{ type: "input_image", image_url, ...chosen }];
  }

  #document({ source, title, context }: DocumentPart): JsonObject[] {
    const about: JsonObject[] = context === undefined ? [] : [{ type: "input_text", text: context }];
    const filename = title === undefined ? {} : { filename: title };
    switch (source.type) {
      case "url":
        return [...about, { type: "input_file", file_url: source.url, ...filename }];
      case "file":
        return [...about, { type: "input_file", file_id: source.id, ...filename }];
      case "base64": {
        const file_data = dataUrl(source.mediaType, source.data);
        return [...about, { type: "input_file", file_data, filename: title ?? NAMELESS_FILE }];
      }
      case "text":
      case "parts": {
        this.#fields.add("messages.document.text");
        const heading: JsonObject[] = title === undefined ? [] : [{ type: "input_text", text: title }];
        const parts = source.type === "text" ? [source] : source.parts;
        return [...heading, ...about, ...parts.flatMap((part) => this.#content(part, false))];
      }
    }
  }

  #drop(field: ConvertedField): [] {
    this.#fields.add(field);
    return [];
  }

  #id(id: string): string {
    if (!isShortId(id)) this.#fields.add("messages.tool-call.id");
    return this.#ids.of(id);
  }
}
