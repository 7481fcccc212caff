/** Builds the generate-content answer (spec 2.9, 6.2) of neutral events: as the chunks of a stream, or as the complete answer that joins them. */

import type { ContentEvent, FinishReason } from "../../model/chat-event.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import type { AnswerContext } from "../format.ts";
import {
  AnswerBuilder,
  type AnswerFinish,
  answerId,
  type Emit,
  type NeutralEvent,
  showsThoughts,
} from "../shared/answer.ts";
import { EnumeratedText } from "../shared/schema.ts";
import { type Signed, signatureText, wrapSeal } from "../shared/seal.ts";
import { CUT_SHORT, ToolCalls } from "../shared/tools.ts";
import {
  annotate,
  averageOf,
  type CandidateNotes,
  encodeFeedback,
  encodePrompt,
  encodeUsage,
} from "./answer.metadata.ts";
import { encodeCode } from "./request.contents.ts";
import { FORMAT } from "./routes.ts";
import type { AnswerPart, Candidate, GenerateContentResponse, UsageMetadata, WireFeedback } from "./schema.answer.ts";
import { FINISH_REASON } from "./schema.wire.ts";

/** Builds one answer as chunks. A stream emits each chunk; a complete answer joins them. */
export class GenerateContentBuilder extends AnswerBuilder {
  readonly #request: ChatRequest;
  /** Undefined for a complete answer. */
  readonly #emit: Emit<GenerateContentResponse> | undefined;
  /** The chunks of a complete answer. */
  #joined: JoinedChunks | undefined;
  readonly #candidates: Map<number, CandidateEncoder> = new Map();
  #id: string;
  #model: string;
  /** The counts at the beginning. Each chunk has counts, as the official service writes them: some clients skip a chunk without. */
  #begun: UsageMetadata = {};
  #feedback: WireFeedback | undefined;
  #hasContent = false;

  constructor({ request, requestId }: AnswerContext, emit?: Emit<GenerateContentResponse>) {
    super();
    this.#request = request;
    this.#emit = emit;
    // The answer's id contains the request's id, so that support can find one by the other.
    this.#id = requestId.replace(/^req_/, "resp_");
    this.#model = request.model;
  }

  protected write(event: NeutralEvent): void {
    switch (event.type) {
      case "start":
        this.#id = answerId(event, FORMAT, this.#id);
        this.#model = event.model;
        this.#begun = encodePrompt(event.usage);
        return;
      case "prompt-feedback":
        this.#feedback = encodeFeedback(event);
        return;
      case "finish":
        return this.#finish(event);
      default: {
        const index = event.candidate ?? 0;
        const candidate = this.#candidate(index);
        candidate.add(event);
        this.#content(index, candidate.take());
      }
    }
  }

  protected complete(): GenerateContentResponse {
    return this.#joined?.body ?? {};
  }

  #candidate(index: number): CandidateEncoder {
    let candidate = this.#candidates.get(index);
    if (!candidate) this.#candidates.set(index, (candidate = new CandidateEncoder(this.#request)));
    return candidate;
  }

  #content(index: number, parts: AnswerPart[]): void {
    if (parts.length === 0) return;
    this.#hasContent = true;
    this.#add({ candidates: [{ content: { role: "model", parts }, index }], usageMetadata: this.#begun });
  }

  /** Adds the parts that were held back, and then the chunk with all finish reasons and the token counts. */
  #finish({ endings, usage }: AnswerFinish): void {
    for (const { candidate: index, reason } of endings) {
      const candidate = this.#candidate(index);
      candidate.end(reason);
      this.#content(index, candidate.take());
    }
    const usageMetadata = encodeUsage(usage);
    const isBlocked = this.#feedback?.blockReason != null && !this.#hasContent;
    if (isBlocked) return this.#add({ usageMetadata });
    const candidates = endings.map(({ candidate: index, reason }): Candidate => ({
      content: { role: "model", parts: [{ text: "" }] },
      finishReason: this.#candidate(index).finishReason(reason),
      index,
      ...this.#candidate(index).notes,
    }));
    this.#add({ candidates, usageMetadata });
  }

  #add(fields: GenerateContentResponse): void {
    const promptFeedback = this.#feedback;
    // Only the next chunk has the feedback.
    this.#feedback = undefined;
    const own = { modelVersion: this.#model, responseId: this.#id };
    const chunk = promptFeedback ? { ...fields, promptFeedback, ...own } : { ...fields, ...own };
    if (this.#emit) this.#emit(chunk);
    else (this.#joined ??= new JoinedChunks()).add(chunk);
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
  readonly #sources: Map<string, number> = new Map();
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
        // `@ai-sdk/google` 2 refuses an answer with a result that has no output.
        this.#pending.push({
          ...encodeCode(event.type === "code" ? event : { ...event, output: event.output ?? "" }),
          ...sealOf(event),
        });
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
        return annotate(this.#notes, event.annotation, this.#sources);
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
      if (CUT_SHORT.has(reason) && !this.#calls.find(part.json)) this.#pending.splice(index, 1);
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
    return { functionCall: { id, name, args: this.#calls.parse(json) }, ...seal };
  }
}

type WireSeal = Required<Pick<AnswerPart, "thoughtSignature">>;

/** Returns the field for a signature; undefined without one. */
function sealOf(event: Signed): WireSeal | undefined {
  const thoughtSignature = event.signature === undefined ? "" : signatureText(event, FORMAT);
  return thoughtSignature === "" ? undefined : { thoughtSignature };
}

/** Joins the chunks of a stream into the complete answer. */
export class JoinedChunks {
  readonly #candidates: Map<number, { fields: Candidate; parts: AnswerPart[] }> = new Map();
  #answer: GenerateContentResponse = {};

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
