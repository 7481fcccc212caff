/** Converts the conversation in both directions. This format has one message for each tool result; a neutral turn holds several. */

import { type FieldPath, invalidField } from "../../errors.ts";
import type {
  ChatMessage,
  ChatRequest,
  DocumentPart,
  JsonPart,
  MediaPart,
  Part,
  ProviderPart,
  ReasoningPart,
  RedactedReasoningPart,
  TextPart,
  ToolResultPart,
  WireObject,
} from "../../model/chat-request.ts";
import { type JsonBudget, JsonLimitError } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import type { ConvertedField, ConvertedFields } from "../shared/conversions.ts";
import { withFilesOfUsers } from "../shared/moved-files.ts";
import { audioFormat, decodeFile, decodePicture, decodeSound, NAMELESS_FILE } from "../shared/openai.ts";
import { dataUrl } from "../shared/schema.ts";
import type { Signed } from "../shared/seal.ts";
import { argumentsIn, fenced, ToolIds, withResultsFirst } from "../shared/tools.ts";
import {
  decodeReasoning,
  demandsSignatures,
  historyOf,
  isGemini,
  isGoogles,
  NO_SIGNATURE,
  readExtra,
  recordBudget,
  ReturnedReasoning,
  thinkingText,
  writeExtra,
} from "./reasoning.ts";
import { FORMAT } from "./routes.ts";
import {
  type AssistantContent,
  type AssistantMessage,
  type CompletionCall,
  type CompletionMessage,
  isKnownMessage,
  type TextContent,
  type UserContent,
} from "./schema.ts";

interface DecodedTurn {
  readonly role: ChatMessage["role"];
  readonly name?: string;
  readonly parts: Part[];
}

/** Decodes the instructions before the conversation, and its turns. Consecutive messages of one role become one turn. */
export function decodeMessages(
  wire: readonly CompletionMessage[],
  json: JsonBudget,
): { system: TextPart[]; messages: ChatMessage[] } {
  const system: TextPart[] = [];
  const messages: DecodedTurn[] = [];
  for (const [index, message] of wire.entries()) {
    const turn = decodeMessage(message, index, json);
    const last = messages.at(-1);
    const isInstruction = turn.role === "system" && turn.name === undefined;
    if (!last && isInstruction && turn.parts.every(({ type }) => type === "text")) {
      for (const part of turn.parts) if (part.type === "text") system.push(part);
    } else if (last?.role !== turn.role || last.name !== turn.name) messages.push(turn);
    // Push one by one: `push(...parts)` fails for a very long list.
    else for (const part of turn.parts) last.parts.push(part);
  }
  return { system, messages };
}

const unknownPart = (value: WireObject): ProviderPart => ({ type: "provider", format: FORMAT, value });
const unknownContent = (value: WireObject): ProviderPart => ({ ...unknownPart(value), isContent: true });

/** Tells whether a part is a message or a call of a type that the gateway does not know. */
const isOwnUnknown = (part: Part): part is ProviderPart & { readonly isContent?: false } =>
  part.type === "provider" && part.format === FORMAT && !part.isContent;

function decodeMessage(message: CompletionMessage, index: number, json: JsonBudget): DecodedTurn {
  if (!isKnownMessage(message)) return { role: "user", parts: [unknownPart(message)] };
  if (message.role === "tool") {
    const { tool_call_id: callId, content } = message;
    return { role: "user", parts: [{ type: "tool-result", callId, parts: decodeContent(content) }] };
  }
  const name = message.name == null ? {} : { name: message.name };
  if (message.role === "assistant") return { role: "assistant", ...name, parts: decodeAssistant(message, index, json) };
  return { role: message.role === "user" ? "user" : "system", ...name, parts: decodeContent(message.content) };
}

/** Decodes the content of a message. An empty text gives no part. */
const decodeContent = (content: string | readonly UserContent[]): ContentPart[] =>
  typeof content !== "string" ? content.map(decodePart) : content === "" ? [] : [{ type: "text", text: content }];

type ContentPart = TextPart | MediaPart | DocumentPart | ProviderPart;

function decodePart(part: UserContent): ContentPart {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text };
    case "image_url":
      return decodePicture(part.image_url.url, part.image_url.detail);
    case "input_audio":
      return decodeSound(part.input_audio);
    case "file": {
      const { file_data, file_id, filename } = part.file;
      return decodeFile({ file_data, file_id, filename });
    }
    default:
      return unknownContent(part);
  }
}

function decodeAssistant(message: AssistantMessage, index: number, json: JsonBudget): Part[] {
  const { content, refusal, tool_calls } = message;
  const parts: Part[] = decodeReasoning(message);
  if (typeof content === "string") {
    if (content !== "") parts.push({ type: "text", text: content });
  } else
    for (const part of content ?? []) {
      if (part.type === "text") parts.push({ type: "text", text: part.text });
      else if (part.type === "refusal") parts.push({ type: "refusal", text: part.refusal });
      else if (part.type === "thinking")
        parts.push({ type: "reasoning", text: thinkingText(part.thinking), maker: FORMAT });
      else parts.push(unknownContent(part));
    }
  // The signature of a message stands on its last text, where the model wrote it.
  const last = parts.findLastIndex(({ type }) => type === "text");
  const text = parts[last];
  if (text?.type === "text" && message.extra_content) parts[last] = { ...text, ...readExtra(message.extra_content) };
  if (refusal) parts.push({ type: "refusal", text: refusal });
  for (const [at, call] of (tool_calls ?? []).entries()) {
    const path = message.function_call?.name ? ["function_call"] : ["tool_calls", at, "function"];
    parts.push(decodeCall(call, ["messages", index, ...path], json));
  }
  return parts;
}

/**
 * Decodes a tool call. Arguments that are no JSON object are kept as text: a model may have written them, and its client sends them back
 * with an error as the result.
 */
function decodeCall(call: CompletionCall, at: FieldPath, budget: JsonBudget): Part {
  if (call.type === "custom") {
    const { name, input } = call.custom;
    return { type: "tool-call", id: call.id, name, input: { input } };
  }
  if (call.type !== "function") return unknownPart(call);
  const { name, arguments: json } = call.function;
  try {
    const input = argumentsIn(json, budget) ?? { invalid_arguments: json };
    return { type: "tool-call", id: call.id, name, input, ...readExtra(call.extra_content) };
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    throw invalidField([...at, "arguments"], `${error.message}, with those of the body`);
  }
}

/** The longest id of a call that providers of this format accept, in characters. */
const MAX_CALL_ID = 40;
const isShortId = (id: string): boolean => id.length <= MAX_CALL_ID;

const DETAIL = { low: "low", medium: "auto", high: "high" } as const;

export class MessagesEncoder {
  readonly #fields: ConvertedFields;
  readonly #model: string;
  readonly #options: CodecOptions;
  readonly #history: ReturnType<typeof historyOf>;
  readonly #records: JsonBudget = recordBudget();
  readonly #detail: "low" | "auto" | "high" | undefined;
  readonly #ids: ToolIds = new ToolIds(isShortId);

  constructor(fields: ConvertedFields, { model, mediaResolution }: ChatRequest, options: CodecOptions) {
    this.#fields = fields;
    this.#model = model;
    this.#options = options;
    this.#history = historyOf(model, options);
    this.#detail = mediaResolution && DETAIL[mediaResolution];
  }

  encode(system: readonly TextPart[], messages: readonly ChatMessage[]): CompletionMessage[] {
    const encoded: CompletionMessage[] = [];
    if (system.length > 0) encoded.push(this.#system({ role: "system", parts: system }));
    // The format demands results directly after their calls.
    const isFile = (part: Part): boolean => this.#content(part).some(({ type }) => type !== "text");
    for (const message of withResultsFirst(withFilesOfUsers(messages, isFile, this.#fields)))
      if (message.role === "user") this.#user(message, encoded);
      else encoded.push(message.role === "system" ? this.#system(message) : this.#assistant(message));
    return this.#withReasoning(encoded);
  }

  /**
   * Gives each turn with tool calls a `reasoning_content`, if the provider demands it or one turn has it: thinking modes refuse a turn
   * without the field, and take an empty text.
   */
  #withReasoning(encoded: CompletionMessage[]): CompletionMessage[] {
    const isWanted =
      this.#history.demands ||
      encoded.some((message) => "reasoning_content" in message && message.reasoning_content != null);
    if (!isWanted) return encoded;
    return encoded.map((message) =>
      message.role === "assistant" && message.tool_calls && message.reasoning_content == null
        ? { ...message, reasoning_content: "" }
        : message,
    );
  }

  #system({ name, parts }: ChatMessage): CompletionMessage {
    const texts: TextContent[] = [];
    for (const part of parts)
      for (const content of this.#content(part)) if (content.type === "text") texts.push(content);
    return { role: "system", content: shortest(texts), ...(name !== undefined && { name }) };
  }

  /** Encodes a turn of the user. Pictures and files of a result follow in a message of the user. */
  #user({ name, parts }: ChatMessage, encoded: CompletionMessage[]): void {
    const moved: UserContent[] = [];
    const said: UserContent[] = [];
    const named = name !== undefined && { name };
    let hasResults = false;
    for (const part of parts) {
      if (isOwnUnknown(part)) {
        if (said.length > 0) encoded.push({ role: "user", content: shortest(said.splice(0)), ...named });
        hasResults = true;
        encoded.push(part.value as CompletionMessage);
        continue;
      }
      if (part.type !== "tool-result") {
        for (const content of this.#content(part)) said.push(content);
        continue;
      }
      hasResults = true;
      encoded.push(this.#result(part, moved));
    }
    const content = moved.length > 0 ? [...moved, ...said] : said;
    if (content.length === 0 && hasResults) return;
    encoded.push({ role: "user", content: shortest(content), ...named });
  }

  #result(part: ToolResultPart, moved: UserContent[]): CompletionMessage {
    const texts: TextContent[] = [];
    if (part.isError) texts.push({ type: "text", text: "The tool has failed." });
    for (const inner of part.parts)
      for (const content of this.#content(inner)) {
        if (content.type === "text") texts.push(content);
        else {
          this.#fields.add("messages.tool-result.media");
          moved.push(content);
        }
      }
    this.#dropSignature(part);
    return { role: "tool", tool_call_id: this.#id(part.callId), content: shortest(texts) };
  }

  #assistant({ name, parts }: ChatMessage): CompletionMessage {
    const said: AssistantContent[] = [];
    const tool_calls: CompletionCall[] = [];
    const returned = new ReturnedReasoning();
    let extra: ReturnType<typeof writeExtra> = {};
    const say = (content: AssistantContent): void => {
      if (tool_calls.length > 0) this.#fields.add("messages.tool-call.order");
      said.push(content);
    };
    for (const part of parts) {
      if (part.type === "tool-call") {
        const call = { name: part.name, arguments: JSON.stringify(part.input) };
        // Only the first of parallel calls has a signature.
        const isUnsigned = tool_calls.length === 0 && demandsSignatures(this.#model) && !isGoogles(part);
        const signature = isUnsigned ? writeExtra({ signature: NO_SIGNATURE }) : this.#extra(part);
        if (isUnsigned) this.#dropSignature(part);
        tool_calls.push({ type: "function", id: this.#id(part.id), function: call, ...signature });
      } else if (isOwnUnknown(part)) {
        tool_calls.push(part.value as CompletionCall);
      } else if (part.type === "refusal") {
        say({ type: "refusal", refusal: part.text });
      } else if (part.type === "reasoning" || part.type === "redacted-reasoning") {
        const content = this.#reasoning(part, returned);
        if (content) say(content);
      } else if (part.type === "text") {
        extra = { ...extra, ...this.#extra(part) };
        if (part.text !== "") say({ type: "text", text: part.text });
      } else {
        for (const content of this.#content(part)) say(content as AssistantContent);
      }
    }
    const fields = returned.message;
    const isRefused = this.#history.refusesFields && Object.keys(fields).length > 0;
    if (isRefused) this.#fields.add("messages.reasoning");
    return {
      role: "assistant",
      ...((said.length > 0 || tool_calls.length === 0) && { content: shortest(said) }),
      ...(!isRefused && fields),
      ...extra,
      ...(tool_calls.length > 0 && { tool_calls }),
      ...(name !== undefined && { name }),
    };
  }

  /** Adds a block of reasoning to the fields that go back to the upstream. Returns a part of the content instead, where it belongs there. */
  #reasoning(part: ReasoningPart | RedactedReasoningPart, returned: ReturnedReasoning): AssistantContent | undefined {
    const { reasoningHistory, foreignReasoning } = this.#options;
    const { maker } = part;
    const text = part.type === "reasoning" ? part.text : "";
    const isAlways = reasoningHistory === "always";
    if (maker !== undefined && maker !== FORMAT) {
      if (part.type === "redacted-reasoning") return void this.#fields.add("messages.redacted-reasoning");
      this.#fields.add("messages.reasoning.foreign");
      if (foreignReasoning !== "text" || text === "") return undefined;
      if (!isAlways) return { type: "text", text };
      returned.addText(text);
    } else if (!this.#history.refusesParts && maker === FORMAT) {
      const isRedacted = part.type === "redacted-reasoning";
      return returned.add(text, isRedacted ? part.data : (part.signature ?? ""), isRedacted, this.#records);
    } else if (isAlways && text !== "") returned.addText(text);
    else this.#fields.add(`messages.${part.type}`);
    return undefined;
  }

  /** Returns the field for a signature, which only Gemini models take. */
  #extra(part: Signed): ReturnType<typeof writeExtra> {
    if (isGemini(this.#model) && isGoogles(part)) return writeExtra({ signature: part.signature });
    this.#dropSignature(part);
    return {};
  }

  #dropSignature({ signature, maker }: Signed): void {
    if (signature === undefined) return;
    this.#fields.add(maker === undefined || maker === FORMAT ? "messages.signature" : "messages.signature.foreign");
  }

  /** Returns the content for a part: several pieces for a document, none for a part that the format does not have. */
  #content(part: Part | JsonPart): UserContent[] {
    if ("signature" in part) this.#dropSignature(part);
    switch (part.type) {
      case "text":
        return [{ type: "text", text: part.text }];
      case "media":
        return this.#media(part);
      case "document":
        return this.#document(part);
      case "refusal":
        return [{ type: "text", text: part.text }];
      case "code":
      case "code-result":
        return [{ type: "text", text: fenced(part) }];
      case "json":
        return [{ type: "text", text: JSON.stringify(part.value) }];
      // Tool calls and results are not written as content, and the other parts do not exist in the format.
      case "tool-call":
      case "tool-result":
      case "reasoning":
      case "redacted-reasoning":
        return this.#drop(`messages.${part.type}`);
      case "provider":
        if (part.format === FORMAT && part.isContent) return [part.value as UserContent];
        return this.#drop("messages.provider");
    }
  }

  #media({ kind, source, detail = this.#detail }: MediaPart): UserContent[] {
    if (kind === "video") return this.#drop("messages.media.video");
    if (source.type === "file") return this.#drop("messages.media");
    if (kind === "image") {
      const url = source.type === "url" ? source.url : dataUrl(source.mediaType, source.data);
      return [{ type: "image_url", image_url: { url, ...(detail && { detail }) } }];
    }
    if (source.type === "url") return this.#drop("messages.media.audio");
    return [{ type: "input_audio", input_audio: { data: source.data, format: audioFormat(source.mediaType) } }];
  }

  #document({ source, title, context }: DocumentPart): UserContent[] {
    const about: UserContent[] = context === undefined ? [] : [{ type: "text", text: context }];
    const filename = title === undefined ? {} : { filename: title };
    switch (source.type) {
      case "url":
        return this.#drop("messages.document.url");
      case "file":
        return [...about, { type: "file", file: { file_id: source.id, ...filename } }];
      case "base64": {
        const file_data = dataUrl(source.mediaType, source.data);
        return [...about, { type: "file", file: { file_data, filename: title ?? NAMELESS_FILE } }];
      }
      case "text":
      case "parts": {
        this.#fields.add("messages.document.text");
        const heading: UserContent[] = title === undefined ? [] : [{ type: "text", text: title }];
        const parts = source.type === "text" ? [source] : source.parts;
        return [...heading, ...about, ...parts.flatMap((part) => this.#content(part))];
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

/** Returns a single text as a string, because some servers cannot read a list of parts. */
function shortest<Content extends UserContent | AssistantContent>(parts: Content[]): string | Content[] {
  const [first] = parts;
  if (!first) return "";
  return parts.length === 1 && first.type === "text" && first.text !== "" ? first.text : parts;
}
