/** Converts the conversation of a request (spec 2.8) in both directions. */

import { inStandardAlphabet, readableTextOf, textOfBase64 } from "../../media/base64.ts";
import { isTextType, usualType } from "../../media/media-type.ts";
import type {
  ChatMessage,
  CodePart,
  CodeResultPart,
  DocumentPart,
  MediaPart,
  MediaSource,
  Part,
  RedactedReasoningPart,
  Role,
  ToolResultPart,
} from "../../model/chat-request.ts";
import { given, type JsonObject } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import { readSignature, unwrapSeal } from "../shared/seal.ts";
import { withResultsFirst } from "../shared/tools.ts";
import { isPlaceholder } from "./reasoning.ts";
import { FORMAT } from "./routes.ts";
import type { AnswerPart } from "./schema.answer.ts";
import { inlineKind, isPlainText, type MediaKind, mediaKind, promisedType } from "./schema.config.ts";
import {
  isOfUnknownKind,
  PROVIDER_KINDS,
  type RequestContent,
  type RequestContents,
  type RequestMedium,
  type RequestPart,
} from "./schema.ts";
import { LANGUAGE, OUTCOME, readWord } from "./schema.wire.ts";

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
    for (const part of parts) addPart(turn.parts, part, calls, turns.length);
  }
  return turns;
}

function addPart(turn: Part[], part: RequestPart, calls: CallIds, turnNumber: number): void {
  const redacted = redactedIn(part);
  if (redacted) {
    // A client may have joined the text before the encrypted reasoning into one part with it.
    if (part.text) turn.push({ type: "reasoning", text: part.text });
    // A caller may forge an empty one.
    if (redacted.data !== "") turn.push(redacted);
    return;
  }
  const decoded = decodePart(part, calls, turnNumber);
  if (decoded.type !== "reasoning" || decoded.text !== "") {
    turn.push(decoded);
    return;
  }
  // A stream sends the signature of reasoning behind its text, in a part of its own. Both are one part.
  let text = "";
  if (decoded.maker !== undefined)
    for (let last = turn.at(-1); last?.type === "reasoning" && last.maker === undefined; last = turn.at(-1)) {
      text = last.text + text;
      turn.pop();
    }
  if (text !== "" || decoded.signature !== undefined) turn.push({ ...decoded, text });
}

/** Returns the encrypted reasoning in an empty thought of the gateway; undefined for any other part. */
function redactedIn({ thought, thoughtSignature }: RequestPart): RedactedReasoningPart | undefined {
  const seal = thought && thoughtSignature != null ? unwrapSeal(thoughtSignature) : undefined;
  if (seal?.kind !== "redacted") return undefined;
  return { type: "redacted-reasoning", data: seal.value, ...(seal.maker !== "" && { maker: seal.maker }) };
}

/** Encodes the conversation. Instructions inside it become turns of the user. */
export function encodeMessages(
  messages: readonly ChatMessage[],
  foreignReasoning?: CodecOptions["foreignReasoning"],
): RequestContent[] {
  const names = new Map<string, string>();
  /** The ids of the calls of the newest turn that has any. */
  let calls: string[] = [];
  const contents = withResultsFirst(messages).map(({ role, parts }): RequestContent => {
    const called = parts.flatMap((part) => (part.type === "tool-call" ? part.id : []));
    if (called.length > 0) calls = called;
    // An id names the newest call before its result: some upstreams use an id again in each turn.
    for (const part of parts) if (part.type === "tool-call") names.set(part.id, part.name);
    return {
      role: role === "assistant" ? "model" : "user",
      parts: inOrderOf(calls, parts).flatMap((part) => encodePart(part, names, foreignReasoning)),
    };
  });
  // The format does not allow a content without parts.
  return contents.filter(({ parts }) => parts.length > 0);
}

/** Puts the results of calls into the order of their calls, which Google demands: clients send them as the tools end. */
function inOrderOf(calls: readonly string[], parts: readonly Part[]): readonly Part[] {
  const results = parts.filter((part) => part.type === "tool-result");
  if (results.length < 2) return parts;
  const places = new Map(calls.map((id, place) => [id, place]));
  const placeOf = ({ callId }: ToolResultPart): number => places.get(callId) ?? calls.length;
  const sorted = results.toSorted((one, other) => placeOf(one) - placeOf(other)).values();
  return parts.map((part) => (part.type === "tool-result" ? (sorted.next().value ?? part) : part));
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
  if (PROVIDER_KINDS.some((kind) => part[kind] != null) || (part.text == null && isOfUnknownKind(part)))
    return { type: "provider", format: FORMAT, value: part };
  const { thought, ...seal } = marks;
  return { type: thought ? "reasoning" : "text", text: part.text ?? "", ...seal };
}

function encodePart(
  part: Part,
  names: ReadonlyMap<string, string>,
  foreignReasoning: CodecOptions["foreignReasoning"],
): RequestPart[] {
  switch (part.type) {
    case "text":
      return withContent({ text: part.text, ...encodeMarks(part) });
    case "reasoning":
      if (!isForeign(part)) return withContent({ text: part.text, ...encodeMarks({ ...part, thought: true }) });
      return foreignReasoning === "text" ? withContent({ text: part.text }) : [];
    case "refusal":
      return withContent({ text: part.text });
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
  readonly maker?: string;
  readonly thought?: boolean;
}

export function decodeMarks({ thought, thoughtSignature }: WireMarks): NeutralMarks {
  const { signature, maker } = isPlaceholder(thoughtSignature) ? {} : readSignature(thoughtSignature ?? "", FORMAT);
  return { ...(signature && { signature }), ...(maker !== undefined && { maker }), ...(thought && { thought }) };
}

/** Encodes the marks of a part. Leaves out the signature of another maker. */
export const encodeMarks = (marks: NeutralMarks): WireMarks => ({
  ...(marks.thought && { thought: marks.thought }),
  ...(marks.signature && !isForeign(marks) && { thoughtSignature: marks.signature }),
});

/** Tells whether another maker than this format's upstreams made a part. */
const isForeign = ({ maker }: Pick<NeutralMarks, "maker">): boolean => maker !== undefined && maker !== FORMAT;

/** Returns a part of text, unless the part has neither text nor signature: some upstreams refuse such a part. */
const withContent = (part: RequestPart): RequestPart[] =>
  part.text === "" && part.thoughtSignature == null ? [] : [part];

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
  return mediumOf(inlineKind(mimeType), {
    type: "base64",
    mediaType: usualType(mimeType),
    data: inStandardAlphabet(data),
  });
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
  if (source.type === "base64" && isTextType(source.mediaType)) return [{ text: readableTextOf(source.data) }];
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
  readonly #given: Set<string> = new Set();
  readonly #answered: Set<string> = new Set();
  /** The turns that call a function, by the name of the function. The newest turn is last. */
  readonly #calls: Map<string, TurnCalls[]> = new Map();
  #count = 0;

  constructor(contents: readonly (RequestContent | string)[]) {
    for (const content of contents)
      for (const { functionCall, functionResponse } of typeof content === "string" ? [] : content.parts) {
        const id = functionCall?.id || functionResponse?.id;
        if (id) this.#given.add(id);
      }
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
