/** Converts neutral events to the chunks of a generate-content answer (spec 2.9, 6.2), streamed or joined into a complete answer. */

import { GatewayError } from "../../errors.ts";
import type {
  AnswerEvent,
  ContentEvent,
  FinishReason,
  NativeAnswerEvent,
  NativeFrame,
} from "../../kinds/chat/event.ts";
import type { ChatRequest } from "../../kinds/chat/request.ts";
import type { AnswerContext, AnswerStream } from "../format.ts";
import { answerId, frameOf, showsThoughts } from "../shared/answer.ts";
import { EnumeratedText } from "../shared/schema.ts";
import { type Signed, signatureText, wrapSeal } from "../shared/seal.ts";
import { AnsweredArguments, CUT_SHORT, ToolCalls } from "../shared/tools.ts";
import { annotate, averageOf, type CandidateNotes } from "./answer.annotations.ts";
import { encodeFeedback, encodeUsage } from "./answer.ts";
import { encodeError } from "./errors.ts";
import { encodeCode } from "./request.contents.ts";
import type { Framing } from "./request.ts";
import type {
  AnswerPart,
  Candidate,
  GenerateContentErrorBody,
  GenerateContentResponse,
  GenerateContentStreamErrorBody,
  WireFeedback,
} from "./schema.answer.ts";
import { FINISH_REASON, FORMAT } from "./schema.wire.ts";

/** Writes one answer as a stream. Chunks of an upstream of this format pass unchanged; all other events are encoded. */
export class GenerateContentStream implements AnswerStream<AnswerEvent> {
  readonly contentType: string;
  readonly keepAlive: string;
  readonly #framing: Framing;
  readonly #encoder: GenerateContentEncoder;
  /** Native events that came without frames. They wait until `finish` shows whether it has their frames. */
  readonly #heldBack: NativeAnswerEvent[] = [];
  #hasBegun = false;

  constructor(answer: AnswerContext, framing: Framing) {
    this.#framing = framing;
    this.#encoder = new GenerateContentEncoder(answer);
    this.contentType = framing === "sse" ? "text/event-stream; charset=utf-8" : "application/json; charset=utf-8";
    this.keepAlive = framing === "sse" ? EMPTY_FRAME : "\n";
  }

  encode(event: AnswerEvent): string {
    if (event.type === "finish") return this.#encodeFinish(event);
    if (event.type !== "native" || event.format !== FORMAT) return this.#encodeChunks(event);
    if (event.frames) return this.#passFrames(event.frames);
    this.#heldBack.push(event);
    return "";
  }

  error(error: GatewayError): string {
    const json = lineOf(withEnding(encodeError(error)));
    // Send the error twice, because some clients look for it inside a frame, and others outside. The second copy must not end in
    // a blank line: clients would take it for a frame without data, and skip it.
    return this.#frame(json) + (this.#framing === "sse" ? json : "]");
  }

  #encodeFinish(finish: AnswerFinish): string {
    const frames = finish.native?.format === FORMAT ? finish.native.frames : [];
    let text = this.#passFrames(frames);
    if (frames.length === 0) for (const event of [...this.#heldBack, finish]) text += this.#encodeChunks(event);
    if (this.#framing === "sse") return text;
    return this.#hasBegun ? `${text}]` : "[]";
  }

  #passFrames(frames: readonly NativeFrame[]): string {
    let text = "";
    for (const { data } of frames) text += this.#frame(data);
    return text;
  }

  #encodeChunks(event: AnswerEvent): string {
    let text = "";
    for (const chunk of this.#encoder.chunks(event)) text += this.#frame(lineOf(chunk));
    return text;
  }

  /**
   * Writes a chunk as a server-sent event or as an element of the array. The server-sent event has only `data:`, because names and
   * comments break some clients.
   */
  #frame(json: string): string {
    if (this.#framing === "sse") return frameOf({ data: json });
    const before = this.#hasBegun ? ",\n" : "[";
    this.#hasBegun = true;
    return before + json;
  }
}

/** Adds an unusual end of the answer to an error. Clients that look for no error in a stream, such as LangChain's, notice the end. */
const withEnding = ({ error }: GenerateContentErrorBody): GenerateContentStreamErrorBody => ({
  error,
  candidates: [
    {
      content: { role: "model", parts: [{ text: "" }] },
      finishReason: "OTHER",
      finishMessage: error.message,
      index: 0,
    },
  ],
});

type AnswerFinish = Extract<AnswerEvent, { type: "finish" }>;

/** Writes a line of JSON. Escapes U+2028 and U+2029, which `JSON.stringify` leaves alone: some clients end a line there. */
const lineOf = (value: object): string =>
  JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

/**
 * The frame that keeps a connection open. Its content has a role and a part: if a chunk had none, the official client's chats would
 * drop the whole turn from their history.
 */
const EMPTY_FRAME = frameOf({
  data: JSON.stringify({ candidates: [{ content: { role: "model", parts: [{ text: "" }] }, index: 0 }] }),
});

/** Joins the chunks of a stream into the complete answer, so that a complete and a streamed answer always agree. */
export class JoinedChunks {
  readonly #candidates: Map<number, { fields: Candidate; parts: AnswerPart[] }> = new Map();
  #answer: GenerateContentResponse | undefined;

  add({ candidates, ...answer }: GenerateContentResponse): void {
    this.#answer = { ...this.#answer, ...answer };
    for (const { content, index, ...fields } of candidates ?? []) {
      let candidate = this.#candidates.get(index ?? 0);
      if (!candidate) this.#candidates.set(index ?? 0, (candidate = { fields: {}, parts: [] }));
      Object.assign(candidate.fields, fields);
      for (const part of content?.parts ?? []) join(candidate.parts, part);
    }
  }

  get body(): GenerateContentResponse {
    if (!this.#answer) throw new GatewayError("backend_failed", "The model backend gave no answer.");
    if (this.#candidates.size === 0) return this.#answer;
    const candidates = Array.from(this.#candidates)
      .toSorted(([a], [b]) => a - b)
      .map(([index, { fields, parts }]) => ({
        content: { role: "model", parts: parts.length > 0 ? parts : [{ text: "" }] },
        ...fields,
        index,
      }));
    return { candidates, ...this.#answer };
  }
}

/** Adds a part, or joins its text to the last part. A signature belongs to the text before it, so the text after it begins a new part. */
function join(parts: AnswerPart[], part: AnswerPart): void {
  const { text, thought, thoughtSignature } = part;
  // Skip the empty text of the last chunk.
  if (text === "" && thoughtSignature == null && !thought) return;
  const last = parts.at(-1);
  if (text == null || last?.text == null || !last.thought !== !thought || last.thoughtSignature != null) {
    parts.push({ ...part });
    return;
  }
  last.text += text;
  if (thoughtSignature != null) last.thoughtSignature = thoughtSignature;
}

/** Encodes the events of one answer as chunks. */
export class GenerateContentEncoder {
  readonly #request: ChatRequest;
  readonly #candidates: Map<number, CandidateEncoder> = new Map();
  #id: string;
  #model: string;
  #feedback: WireFeedback | undefined;
  #hasContent = false;

  constructor({ request, requestId }: AnswerContext) {
    this.#request = request;
    // The answer's id contains the request's id, so that support can find one by the other.
    this.#id = requestId.replace(/^req_/, "resp_");
    this.#model = request.model;
  }

  /** Returns the chunks that an event adds. Throws `backend_failed` for an event out of order. */
  chunks(event: AnswerEvent): GenerateContentResponse[] {
    switch (event.type) {
      case "start":
        this.#id = answerId(event, FORMAT, this.#id);
        this.#model = event.model;
        return [];
      case "prompt-feedback":
        this.#feedback = encodeFeedback(event);
        return [];
      case "finish":
        return this.#finish(event);
      case "native":
        return event.events.flatMap((inner) => this.chunks(inner));
      default: {
        const index = event.candidate ?? 0;
        const candidate = this.#candidate(index);
        candidate.add(event);
        return this.#content(index, candidate.take());
      }
    }
  }

  #candidate(index: number): CandidateEncoder {
    let candidate = this.#candidates.get(index);
    if (!candidate) this.#candidates.set(index, (candidate = new CandidateEncoder(this.#request)));
    return candidate;
  }

  #content(index: number, parts: AnswerPart[]): GenerateContentResponse[] {
    if (parts.length === 0) return [];
    this.#hasContent = true;
    return [this.#chunk({ candidates: [{ content: { role: "model", parts }, index }] })];
  }

  /** Returns the parts that were held back, and then the chunk with all finish reasons and the token counts. */
  #finish({ endings, usage }: AnswerFinish): GenerateContentResponse[] {
    const chunks = endings.flatMap(({ candidate: index, reason }) => {
      const candidate = this.#candidate(index);
      candidate.end(reason);
      return this.#content(index, candidate.take());
    });
    const usageMetadata = encodeUsage(usage);
    const isBlocked = this.#feedback?.blockReason != null && !this.#hasContent;
    if (isBlocked) return [this.#chunk({ usageMetadata })];
    const candidates = endings.map(({ candidate: index, reason }): Candidate => ({
      content: { role: "model", parts: [{ text: "" }] },
      finishReason: this.#candidate(index).finishReason(reason),
      index,
      ...this.#candidate(index).notes,
    }));
    return [...chunks, this.#chunk({ candidates, usageMetadata })];
  }

  #chunk(fields: GenerateContentResponse): GenerateContentResponse {
    const promptFeedback = this.#feedback;
    // Only the next chunk has the feedback.
    this.#feedback = undefined;
    return { ...fields, ...(promptFeedback && { promptFeedback }), modelVersion: this.#model, responseId: this.#id };
  }
}

type BegunCall = Extract<ContentEvent, { type: "tool-call" | "tool-call-start" }>;

/** A tool call whose arguments are not complete yet. The format can only send complete calls. */
class PendingCall {
  readonly id: string;
  readonly name: string;
  seal: WireSeal | undefined;
  json: string;
  ended = false;

  constructor(event: BegunCall, json: string) {
    this.id = event.id;
    this.name = event.name;
    this.seal = sealOf(event);
    this.json = json;
  }
}

/** Encodes one candidate: its parts, in the order in which they began, and its annotations. */
class CandidateEncoder {
  readonly #showsThoughts: boolean;
  /** Collects the text of the answer if the request wants one of several values. */
  readonly #enumerated: EnumeratedText | undefined;
  /** The parts that wait for an earlier call to end. */
  readonly #pending: (AnswerPart | PendingCall)[] = [];
  readonly #calls: ToolCalls<PendingCall> = new ToolCalls();
  readonly #notes: CandidateNotes = {};
  readonly #arguments = new AnsweredArguments();
  #hasRefused = false;

  constructor(request: ChatRequest) {
    this.#showsThoughts = showsThoughts(request);
    const { responseFormat } = request;
    this.#enumerated = responseFormat?.type === "enum" ? new EnumeratedText(responseFormat.values) : undefined;
  }

  get notes(): CandidateNotes {
    const { avgLogprobs = averageOf(this.#notes) } = this.#notes;
    return { ...this.#notes, ...(avgLogprobs != null && { avgLogprobs }) };
  }

  /** Returns the word for the end. A refusal never ends as a complete answer does, even if its upstream said so. */
  finishReason(reason: FinishReason): string {
    return FINISH_REASON[this.#hasRefused && reason === "stop" ? "refusal" : reason];
  }

  add(event: ContentEvent): void {
    switch (event.type) {
      case "text-delta":
        return this.#addText(this.#enumerated?.feed(event.text) ?? event.text, sealOf(event));
      case "refusal-delta":
        this.#hasRefused = true;
        return this.#addText(event.text);
      case "reasoning-delta":
        if (this.#showsThoughts && event.text !== "") this.#pending.push({ text: event.text, thought: true });
        return;
      // Callers who want no thoughts get the signature too, because they must send it back. The part stands alone, because the official
      // clients keep an empty text only in a thought.
      case "reasoning-signature": {
        const seal = sealOf(event);
        if (seal) this.#pending.push({ text: "", thought: true, ...seal });
        return;
      }
      // The format has no part for encrypted reasoning. The reasoning travels as the signature of an empty thought.
      case "redacted-reasoning": {
        const { data: value, maker = "" } = event;
        this.#pending.push({ text: "", thought: true, thoughtSignature: wrapSeal({ maker, value, kind: "redacted" }) });
        return;
      }
      case "provider":
        if (event.format === FORMAT) this.#pending.push(event.value);
        return;
      case "media": {
        const { mediaType: mimeType, data, thought } = event;
        if (thought && !this.#showsThoughts) return;
        this.#pending.push({ inlineData: { mimeType, data }, ...(thought && { thought }), ...sealOf(event) });
        return;
      }
      case "code":
      case "code-result":
        this.#pending.push({ ...encodeCode(event), ...sealOf(event) });
        return;
      case "tool-call-start":
        this.#begin(event, "");
        return;
      case "tool-call-delta":
        this.#calls.open(event.id).json += event.json;
        return;
      case "tool-call-end": {
        const call = this.#calls.get(event.id);
        call.ended = true;
        call.seal ??= sealOf(event);
        return;
      }
      case "tool-call":
        this.#begin(event, JSON.stringify(event.input)).ended = true;
        return;
      case "annotation":
        return annotate(this.#notes, event.annotation);
      default:
        return event satisfies never;
    }
  }

  /** Takes the parts up to the first call that is not complete. */
  take(): AnswerPart[] {
    const parts: AnswerPart[] = [];
    for (const part of this.#pending) {
      if (!(part instanceof PendingCall)) parts.push(part);
      else if (part.ended) parts.push(this.#encodeCall(part));
      else break;
    }
    this.#pending.splice(0, parts.length);
    return parts;
  }

  /** Ends the text and every open call. If the answer was cut short, a call with incomplete arguments is left out. */
  end(reason: FinishReason): void {
    this.#addText(this.#enumerated?.end() ?? "");
    for (const [index, part] of [...this.#pending.entries()].toReversed()) {
      if (!(part instanceof PendingCall) || part.ended) continue;
      if (CUT_SHORT.has(reason) && !this.#arguments.find(part.json)) this.#pending.splice(index, 1);
      else part.ended = true;
    }
  }

  #addText(text: string, seal?: WireSeal): void {
    if (text !== "" || seal) this.#pending.push({ text, ...seal });
  }

  #begin(event: BegunCall, json: string): PendingCall {
    const call = this.#calls.begin(event.id, new PendingCall(event, json));
    this.#pending.push(call);
    return call;
  }

  #encodeCall(call: PendingCall): AnswerPart {
    const { id, name, json, seal } = call;
    return { functionCall: { id, name, args: this.#arguments.parse(json) }, ...seal };
  }
}

type WireSeal = Required<Pick<AnswerPart, "thoughtSignature">>;

/** Returns the field for a signature; undefined without one. */
function sealOf(event: Signed): WireSeal | undefined {
  const thoughtSignature = event.signature === undefined ? "" : signatureText(event, FORMAT);
  return thoughtSignature === "" ? undefined : { thoughtSignature };
}
