/** Converts the conversation and the tools of a request (spec 2.8) in both directions. */

import type {
  ChatMessage,
  ChatRequest,
  CodePart,
  CodeResultPart,
  DocumentPart,
  FunctionTool,
  MediaPart,
  MediaSource,
  Part,
  Role,
  Tool,
  ToolChoice,
  ToolResultPart,
} from "../../kinds/chat/request.ts";
import { inStandardAlphabet, textOfBase64 } from "../../media/base64.ts";
import type { JsonObject } from "../../model/json.ts";
import type { AnswerPart } from "./schema.answer.ts";
import { inlineKind, isPlainText, type MediaKind, mediaKind, promisedType } from "./schema.config.ts";
import { toJsonSchema, withTypeNames } from "./schema.openapi.ts";
import {
  type FunctionCallingConfig,
  type FunctionDeclaration,
  PROVIDER_KINDS,
  type RequestContent,
  type RequestContents,
  type RequestMedium,
  type RequestPart,
  type RequestTool,
} from "./schema.ts";
import { FORMAT, given, LANGUAGE, OUTCOME, readWord } from "./schema.wire.ts";

/** Decodes the conversation. Consecutive contents of one role become one turn. */
export function decodeContents(contents: RequestContents): ChatMessage[] {
  const turns: { role: Role; parts: Part[] }[] = [];
  const list = typeof contents === "string" ? [contents] : contents;
  const calls = new CallIds(list);
  for (const item of list) {
    const { role, parts }: RequestContent = typeof item === "string" ? { parts: [{ text: item }] } : item;
    // Function responses have one of several roles. In the neutral model, they belong to the user's turn.
    const neutral = role === "model" ? "assistant" : "user";
    let turn = turns.at(-1);
    if (turn?.role !== neutral) turns.push((turn = { role: neutral, parts: [] }));
    for (const part of parts) turn.parts.push(decodePart(part, calls, turns.length));
  }
  return turns;
}

/** Encodes the conversation. Instructions inside it become turns of the user. */
export function encodeMessages(messages: readonly ChatMessage[]): RequestContent[] {
  const names = new Map<string, string>();
  for (const { parts } of messages)
    for (const part of parts) if (part.type === "tool-call") names.set(part.id, part.name);
  const contents = messages.map(({ role, parts }): RequestContent => ({
    role: role === "assistant" ? "model" : "user",
    parts: parts.flatMap((part) => encodePart(part, names)),
  }));
  // The format does not allow a content without parts.
  return contents.filter(({ parts }) => parts.length > 0);
}

function decodePart(part: RequestPart, calls: CallIds, turn: number): Part {
  const { functionCall, functionResponse } = part;
  const marks = decodeMarks(part);
  const media = decodeMedium(part);
  if (media) return { ...media, ...marks };
  if (functionCall) {
    const { id, name, args } = functionCall;
    return { type: "tool-call", id: calls.ofCall(name, id, turn), name, input: args ?? {}, ...marks };
  }
  if (functionResponse) {
    const { id, name, response, parts } = functionResponse;
    const attached = (parts ?? []).flatMap((medium) => decodeMedium(medium) ?? []);
    const callId = calls.ofResponse(name, id);
    return { type: "tool-result", callId, name, parts: [{ type: "json", value: response }, ...attached], ...marks };
  }
  const code = decodeCode(part);
  if (code) return { ...code, ...marks };
  if (PROVIDER_KINDS.some((kind) => part[kind] != null)) return { type: "provider", format: FORMAT, value: part };
  const { thought, ...seal } = marks;
  return { type: thought ? "reasoning" : "text", text: part.text ?? "", ...seal };
}

function encodePart(part: Part, names: ReadonlyMap<string, string>): RequestPart[] {
  switch (part.type) {
    case "text":
      return [{ text: part.text, ...encodeMarks(part) }];
    case "reasoning":
      return [{ text: part.text, ...encodeMarks({ ...part, thought: true }) }];
    case "refusal":
      return [{ text: part.text }];
    // Only the provider that encrypted this reasoning can read it.
    case "redacted-reasoning":
      return [];
    case "media":
      return isSayable(part) ? [{ ...encodeSource(part.source, part.kind), ...encodeMarks(part) }] : [];
    case "document":
      return encodeDocument(part).map((inner) => ({ ...inner, ...encodeMarks(part) }));
    case "tool-call":
      return [{ functionCall: { id: part.id, name: part.name, args: part.input }, ...encodeMarks(part) }];
    case "tool-result":
      return [{ functionResponse: encodeResult(part, names), ...encodeMarks(part) }];
    case "code":
    case "code-result":
      return [{ ...encodeCode(part), ...encodeMarks(part) }];
    case "provider":
      return part.format === FORMAT ? [part.value] : [];
  }
}

/** The fields of any part that tell about reasoning, on the wire and in the neutral model. Clients send them back. */
type WireMarks = Pick<RequestPart, "thought" | "thoughtSignature">;
interface NeutralMarks {
  readonly signature?: string;
  readonly thought?: boolean;
}

export const decodeMarks = ({ thought, thoughtSignature }: WireMarks): NeutralMarks => ({
  ...(thoughtSignature != null && { signature: thoughtSignature }),
  ...(thought && { thought }),
});

export const encodeMarks = ({ signature, thought }: NeutralMarks): WireMarks => ({
  ...(thought && { thought }),
  ...(signature !== undefined && { thoughtSignature: signature }),
});

type WireCode = Pick<RequestPart, "executableCode" | "codeExecutionResult">;

/** Decodes code and its results, which have the same form in requests and answers. Returns undefined for any other part. */
export function decodeCode(part: WireCode | AnswerPart): CodePart | CodeResultPart | undefined {
  const { executableCode, codeExecutionResult } = part;
  if (executableCode) {
    const { id, language, code } = executableCode;
    return { type: "code", ...given({ id }), language: readWord(LANGUAGE, language) ?? "unspecified", code };
  }
  if (!codeExecutionResult) return undefined;
  const { id, outcome, output } = codeExecutionResult;
  return { type: "code-result", ...given({ id, output }), outcome: readWord(OUTCOME, outcome) ?? "unspecified" };
}

export function encodeCode(part: CodePart | CodeResultPart): WireCode {
  if (part.type === "code")
    return { executableCode: { ...given({ id: part.id }), language: LANGUAGE[part.language], code: part.code } };
  const { id, outcome, output } = part;
  return { codeExecutionResult: { ...given({ id }), outcome: OUTCOME[outcome], ...given({ output }) } };
}

/** Decodes the medium in a part; undefined if the part has none. */
export function decodeMedium({ inlineData, fileData }: RequestMedium): MediaPart | DocumentPart | undefined {
  if (fileData && !inlineData) {
    const { fileUri, mimeType } = fileData;
    const source: MediaSource = URL.canParse(fileUri) ? { type: "url", url: fileUri } : { type: "file", id: fileUri };
    return mediumOf(mediaKind(mimeType), source);
  }
  if (!inlineData) return undefined;
  const { mimeType, data } = inlineData;
  if (isPlainText(mimeType)) return { type: "document", source: { type: "text", text: textOfBase64(data) ?? "" } };
  // The official Python client writes base64url.
  return mediumOf(inlineKind(mimeType), { type: "base64", mediaType: mimeType, data: inStandardAlphabet(data) });
}

const mediumOf = (kind: MediaKind = "image", source: MediaSource): MediaPart | DocumentPart =>
  kind === "document" ? { type: "document", source } : { type: "media", kind, source };

/**
 * Tells whether the format accepts a medium or a document's file. Base64 must be of a supported type; an address is accepted only for a
 * picture (spec 4, note 5).
 */
export const isSayable = (part: MediaPart | DocumentPart): boolean =>
  part.source.type === "base64"
    ? mediaKind(part.source.mediaType) !== undefined
    : part.type === "media" && part.kind === "image";

function encodeSource(source: MediaSource, kind: MediaKind): RequestMedium {
  if (source.type === "base64") return { inlineData: { mimeType: source.mediaType, data: source.data } };
  const fileUri = source.type === "url" ? source.url : source.id;
  return { fileData: { mimeType: promisedType(fileUri, kind), fileUri } };
}

type WireDocument = RequestMedium & Pick<RequestPart, "text">;

/** Encodes a document. A document of text or of parts becomes parts of the message. */
function encodeDocument(part: DocumentPart): WireDocument[] {
  const { source } = part;
  if (source.type === "text") return [{ text: source.text }];
  if (source.type !== "parts") return isSayable(part) ? [encodeSource(source, "document")] : [];
  return source.parts.flatMap((inner): WireDocument[] => {
    if (inner.type === "text") return [{ text: inner.text }];
    return isSayable(inner) ? [encodeSource(inner.source, inner.kind)] : [];
  });
}

type FunctionResponse = NonNullable<RequestPart["functionResponse"]>;

/**
 * Encodes a tool's result. A single object becomes the response. Any other content becomes a field of the response, with the name that
 * the official service uses: `output`, or `error` for a failure. Media are attached.
 */
function encodeResult(part: ToolResultPart, names: ReadonlyMap<string, string>): FunctionResponse {
  const { callId, name = names.get(callId) ?? callId, isError } = part;
  const said: (string | JsonObject)[] = [];
  const media: RequestMedium[] = [];
  for (const inner of part.parts) {
    if (inner.type === "json") said.push(inner.value);
    else if (inner.type === "text") said.push(inner.text);
    else if (inner.type === "media" && isSayable(inner)) media.push(encodeSource(inner.source, inner.kind));
    else if (inner.type === "document")
      for (const { text, ...medium } of encodeDocument(inner))
        if (text == null) media.push(medium);
        else said.push(text);
  }
  const [only = "", ...others] = said;
  const attached = media.length > 0 ? { parts: media } : {};
  if (others.length === 0 && !isError && typeof only === "object")
    return { id: callId, name, response: only, ...attached };
  const lines = said.map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  const response = { [isError ? "error" : "output"]: others.length === 0 ? only : lines.join("\n") };
  return { id: callId, name, response, ...attached };
}

/** The calls of one function in one turn. The first `answered` calls already have a response. */
interface TurnCalls {
  readonly turn: number;
  readonly ids: string[];
  answered: number;
}

/**
 * Finds the ids of calls and responses, which must be read in order. Older official clients send no ids. A response without an id
 * answers the first open call in the newest turn that calls its function. An invented id never equals an id of the caller.
 */
class CallIds {
  readonly #given: ReadonlySet<string>;
  readonly #answered: Set<string> = new Set();
  /** The turns that call a function, by the name of the function. The newest turn is last. */
  readonly #calls: Map<string, TurnCalls[]> = new Map();
  #count = 0;

  constructor(contents: readonly (RequestContent | string)[]) {
    const parts = contents.flatMap((content) => (typeof content === "string" ? [] : content.parts));
    this.#given = new Set(parts.flatMap((part) => part.functionCall?.id || part.functionResponse?.id || []));
  }

  ofCall(name: string, id: string | null | undefined, turn: number): string {
    const callId = id || this.#invent();
    let turns = this.#calls.get(name);
    if (!turns) this.#calls.set(name, (turns = []));
    const newest = turns.at(-1);
    if (newest?.turn === turn) newest.ids.push(callId);
    else turns.push({ turn, ids: [callId], answered: 0 });
    return callId;
  }

  ofResponse(name: string, id: string | null | undefined): string {
    const callId = id || (this.#unanswered(name) ?? this.#invent());
    this.#answered.add(callId);
    return callId;
  }

  #unanswered(name: string): string | undefined {
    const turns = this.#calls.get(name) ?? [];
    for (let newest = turns.at(-1); newest; newest = turns.at(-1)) {
      while (newest.answered < newest.ids.length) {
        const id = newest.ids[newest.answered++];
        if (id !== undefined && !this.#answered.has(id)) return id;
      }
      turns.pop();
    }
    return undefined;
  }

  #invent(): string {
    for (;;) {
      const id = `call_${++this.#count}`;
      if (!this.#given.has(id)) return id;
    }
  }
}

/** Decodes the tools. Each field of a wire tool becomes a neutral tool. A tool that is unknown here is passed on for the backend. */
export function decodeTools(wireTools: readonly RequestTool[]): Tool[] {
  const tools: Tool[] = [];
  for (const wireTool of wireTools)
    for (const [kind, value] of Object.entries<unknown>(wireTool)) {
      if (value === null) continue;
      if (kind === "functionDeclarations")
        for (const declaration of wireTool.functionDeclarations ?? []) tools.push(decodeFunction(declaration));
      else if (kind === "codeExecution") tools.push({ type: "code-execution" });
      else tools.push({ type: "provider", format: FORMAT, definition: Object.fromEntries([[kind, value]]) });
    }
  return tools;
}

/** Encodes the tools. Consecutive functions share one wire tool, so that all tools keep their order. */
export function encodeTools(tools: readonly Tool[]): RequestTool[] {
  const encoded: RequestTool[] = [];
  let functions: FunctionDeclaration[] | undefined;
  for (const tool of tools) {
    if (tool.type === "function") {
      if (!functions) encoded.push({ functionDeclarations: (functions = []) });
      const { name, description, inputSchema } = tool;
      functions.push({ name, ...given({ description }), parametersJsonSchema: inputSchema });
      continue;
    }
    functions = undefined;
    if (tool.type === "code-execution") encoded.push({ codeExecution: {} });
    // Leave out tools of other formats.
    else if (tool.format === FORMAT) encoded.push(tool.definition);
  }
  return encoded;
}

const NO_PARAMETERS: JsonObject = { type: "object", properties: {} };

function decodeFunction({ name, description, parameters, parametersJsonSchema }: FunctionDeclaration): FunctionTool {
  const inputSchema =
    parameters == null ? withTypeNames(parametersJsonSchema ?? NO_PARAMETERS) : toJsonSchema(parameters);
  return { type: "function", name, ...given({ description }), inputSchema };
}

export function decodeCalling({ mode, allowedFunctionNames }: FunctionCallingConfig): ToolChoice | undefined {
  const names = allowedFunctionNames ?? [];
  const [only, ...others] = names;
  // The format cannot forbid parallel calls.
  const parallel = true;
  if (mode == null || mode === "MODE_UNSPECIFIED") return undefined;
  if (mode === "NONE") return { type: "none" };
  if (mode === "ANY" && only !== undefined && others.length === 0) return { type: "tool", name: only, parallel };
  return { type: mode === "ANY" ? "required" : "auto", parallel, ...(names.length > 0 && { names }) };
}

export function encodeCalling(choice: ToolChoice): FunctionCallingConfig {
  if (choice.type === "none") return { mode: "NONE" };
  if (choice.type === "tool") return { mode: "ANY", allowedFunctionNames: [choice.name] };
  const names = choice.names ?? [];
  if (names.length === 0) return { mode: choice.type === "required" ? "ANY" : "AUTO" };
  return { mode: choice.type === "required" ? "ANY" : "VALIDATED", allowedFunctionNames: [...names] };
}

/** Returns the tool choice with only the names of functions, because the format refuses others; undefined if no choice is left. */
export function sayableChoice({ tools, toolChoice }: ChatRequest): ToolChoice | undefined {
  const functions = new Set(tools.flatMap((tool) => (tool.type === "function" ? tool.name : [])));
  switch (toolChoice?.type) {
    case "tool":
      return functions.has(toolChoice.name) ? toolChoice : undefined;
    case "required":
    case "auto": {
      const { names, ...choice } = toolChoice;
      const known = names?.filter((name) => functions.has(name));
      if (choice.type === "required" && functions.size === 0) return undefined;
      return known && known.length > 0 ? { ...choice, names: known } : choice;
    }
    default:
      return toolChoice;
  }
}
