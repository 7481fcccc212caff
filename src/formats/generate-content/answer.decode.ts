/** Decodes an upstream's answer in this format (spec 2.9), complete or in chunks, into native events with neutral events inside. */

import { backendFailed } from "../../errors.ts";
import { isValid } from "../../http/validation.ts";
import type { ChatEvent, ContentEvent, FinishReason, NativeEvent } from "../../model/chat-event.ts";
import { given, isJsonObject, jsonLine, type JsonLimits, type JsonObject } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import { isError } from "../shared/errors.decode.ts";
import type { VariedFields } from "../shared/frame-shape.ts";
import { elementsIn } from "../shared/json-text.ts";
import { AnsweredArguments } from "../shared/tools.ts";
import { addEvent, lostUsage, NativeDecoder, parseAnswer } from "../shared/upstream.ts";
import { GroundingUses } from "../shared/usage.decode.ts";
import { annotationsOf, decodeFeedback, decodeUsage } from "./answer.metadata.ts";
import { decodeErrorBody } from "./errors.ts";
import { decodeCode } from "./request.contents.ts";
import { FORMAT } from "./routes.ts";
import { type AnswerPart, GenerateContentResponse, unsupportedInAnswer, UsageMetadata } from "./schema.answer.ts";
import { BLOCKED_FINISH, readBlockReason, readFinishReason } from "./schema.wire.ts";

/** The fields of a part that is a text. */
const TEXT_FIELDS: ReadonlySet<string> = new Set(["text", "thought", "thoughtSignature"]);

const VARIED_FIELDS: VariedFields = {
  text: ["candidates", 0, "content", "parts", 0, "text"],
  counts: ["candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"].map((name) => ["usageMetadata", name]),
};

export class GenerateContentDecoder extends NativeDecoder {
  readonly #arguments: AnsweredArguments;
  #hasStarted = false;
  /** The beginning of the ids that are invented for calls. */
  #idOfCalls: string | undefined;
  /** The calls by their ids, each as JSON. */
  readonly #calls: Map<string, string> = new Map();
  #invented = 0;
  readonly #begun: Set<number> = new Set();
  readonly #ended: Set<number> = new Set();
  /** The candidates that call tools. */
  readonly #callers: Set<number> = new Set();
  /** The searches of the answer; undefined before the first search. */
  #searches: GroundingUses | undefined;
  /** The events of the text that is being decoded, up to a wrong chunk; undefined while the text is not parsed. */
  #decoded: ChatEvent[] | undefined;

  constructor(limits?: JsonLimits) {
    super(FORMAT, limits, unsupportedInAnswer);
    this.#arguments = new AnsweredArguments(limits);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    // Some gateways end the stream as another format does. The official clients cannot read that frame.
    if (data.trim() === "[DONE]") return [];
    this.#decoded = undefined;
    const parsed = parseAnswer(data, this.limits);
    if (Array.isArray(parsed)) return this.#list(parsed, event);
    return this.#chunks(parsed, event).map((chunk) => this.#chunk(chunk, data));
  }

  /** Returns the counts of a chunk, and the chunks in front of the place where a list of chunks is wrong or breaks off. */
  lost(text: string): ChatEvent[] {
    const decoded = (this.#decoded ??= this.#brokenList(text));
    return [
      ...decoded,
      ...lostUsage(text, this.limits, ({ usageMetadata }) => usageMetadata, UsageMetadata, decodeUsage),
    ];
  }

  /** Decodes the complete chunks of a list that is no valid JSON. */
  #brokenList(text: string): ChatEvent[] {
    this.#decoded = [];
    try {
      for (const chunk of elementsIn(text.trim())) this.#list([parseAnswer(chunk, this.limits)]);
    } catch {
      // The chunk that broke off, or is wrong.
    }
    return this.#decoded;
  }

  protected isComplete(): boolean {
    if (this.#ended.size === 0) return false;
    for (const index of this.#begun) if (!this.#ended.has(index)) return false;
    return true;
  }

  /** Decodes a complete answer, or a stream that came as one JSON array. */
  protected override answered(wire: unknown, body: string): ChatEvent[] {
    const events = Array.isArray(wire) ? this.#list(wire) : super.answered(wire, body);
    if (!this.isComplete()) throw backendFailed("The model backend's answer has no end.");
    return events;
  }

  protected whole(wire: unknown): void {
    for (const chunk of this.#chunks(wire)) this.read(chunk as unknown as JsonObject);
  }

  protected variedIn(wire: JsonObject): VariedFields | undefined {
    const [candidate, ...others] = (wire as unknown as GenerateContentResponse).candidates ?? [];
    const [part, ...more] = candidate?.content?.parts ?? [];
    // A part of another kind is kept as it came.
    const isText = part && Object.keys(part).every((name) => TEXT_FIELDS.has(name));
    return isText && others.length === 0 && more.length === 0 ? VARIED_FIELDS : undefined;
  }

  /** Decodes a list of chunks. */
  #list(wire: readonly unknown[], event?: string): ChatEvent[] {
    const events = (this.#decoded ??= []);
    for (const one of wire) for (const chunk of this.#chunks(one, event)) addEvent(events, this.#chunk(chunk));
    return events;
  }

  #chunk(chunk: GenerateContentResponse, data: string = jsonLine(chunk)): NativeEvent {
    const wire = chunk as unknown as JsonObject;
    this.read(wire);
    return this.framed({ data }, wire);
  }

  /**
   * Checks a complete answer or a chunk. Returns none for an empty object, which only keeps the connection open. If the upstream sent an error
   * instead, throws this error.
   */
  #chunks(chunk: unknown, event?: string): GenerateContentResponse[] {
    if (isError(chunk, event)) throw decodeErrorBody(chunk);
    if (!isJsonObject(chunk)) throw backendFailed("The model backend's answer is no JSON object.");
    if (!isValid(GenerateContentResponse, chunk))
      throw backendFailed("The model backend's answer has not the shape of one.");
    return Object.keys(chunk).length > 0 ? [chunk] : [];
  }

  protected read(wire: JsonObject): void {
    const chunk = wire as unknown as GenerateContentResponse;
    const { responseId: id, modelVersion: model, promptFeedback, usageMetadata } = chunk;
    let usage = usageMetadata ? decodeUsage(usageMetadata) : undefined;
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      this.#idOfCalls = `call_${id || crypto.randomUUID().replaceAll("-", "")}`;
      // The first chunk has the counts of the prompt, which callers of messages get with the start.
      this.add({ type: "start", ...given({ id, model, usage }) });
    }
    if (promptFeedback) this.add({ type: "prompt-feedback", ...decodeFeedback(promptFeedback) });
    const candidates = chunk.candidates ?? [];
    for (const { content, index, ...notes } of candidates) {
      const at = index ?? 0;
      this.#begun.add(at);
      for (const part of content?.parts ?? []) this.#part(part, at);
      for (const annotation of annotationsOf(notes)) this.#tell({ type: "annotation", annotation }, at);
      if (notes.groundingMetadata)
        this.hold((this.#searches ??= new GroundingUses()).add(notes.groundingMetadata as JsonObject));
    }
    if (usageMetadata?.billedToolCalls) (this.#searches ??= new GroundingUses()).learn(usageMetadata.billedToolCalls);
    const searches = this.#searches?.report();
    if (searches) usage = { ...usage, ...searches };
    // Finish the candidates after the content of all. The first finish event has the token counts of all candidates.
    for (const { finishReason, index } of candidates) {
      // An empty text is no reason: the answer goes on.
      if (!finishReason) continue;
      const reason = readFinishReason(finishReason);
      const at = index ?? 0;
      const isCall = reason === "stop" && this.#callers.has(at);
      this.#finish(at, isCall ? "tool-calls" : reason, usage);
      usage = undefined;
    }
    const blockReason = promptFeedback?.blockReason;
    if (blockReason != null && this.#ended.size === 0)
      this.#finish(0, BLOCKED_FINISH[readBlockReason(blockReason)], usage);
    else if (usage) this.add({ type: "usage", usage });
  }

  #finish(at: number, reason: FinishReason, usage: Partial<Usage> | undefined): void {
    this.#ended.add(at);
    this.add({ type: "finish", ...(at !== 0 && { candidate: at }), reason, ...(usage && { usage }) });
  }

  #tell(event: ContentEvent, candidate: number): void {
    this.add(candidate === 0 ? event : { ...event, candidate });
  }

  #part(part: AnswerPart, candidate: number): void {
    const { text, inlineData, functionCall, thought, thoughtSignature } = part;
    // An empty text is no signature.
    const seal = thoughtSignature ? { signature: thoughtSignature, maker: FORMAT } : undefined;
    if (functionCall) {
      this.#callers.add(candidate);
      const { name, args, partialArgs, willContinue } = functionCall;
      // Only callers of this format ask for arguments in pieces.
      if (!name || willContinue || (args == null && partialArgs != null))
        return this.#tell({ type: "provider", format: FORMAT, value: part }, candidate);
      const input = typeof args === "string" ? this.#arguments.parse(args) : (args ?? {});
      const id = this.#idOf(functionCall.id, `${candidate} ${name} ${JSON.stringify(input)}`);
      if (id !== undefined) this.#tell({ type: "tool-call", id, name, input, ...seal }, candidate);
      return;
    }
    if (inlineData) {
      const { mimeType, data } = inlineData;
      return this.#tell({ type: "media", mediaType: mimeType, data, ...(thought && { thought }), ...seal }, candidate);
    }
    const code = decodeCode(part);
    if (code) return this.#tell({ ...code, ...seal }, candidate);
    if (thought) {
      if (text) this.#tell({ type: "reasoning-delta", text }, candidate);
      if (seal) this.#tell({ type: "reasoning-signature", ...seal }, candidate);
    } else if (text || seal) this.#tell({ type: "text-delta", text: text ?? "", ...seal }, candidate);
    // Pass on a part of an unknown kind.
    else if (text == null && Object.keys(part).length > 0)
      this.#tell({ type: "provider", format: FORMAT, value: part }, candidate);
  }

  /**
   * Returns the id of a tool call. Invents an id for a call without one, and for a call whose id another call has. An invented id contains
   * the answer's id, so that two answers of one conversation never share the id of a call. Returns undefined for a call that an upstream
   * has sent before: with the same id, name and arguments.
   */
  #idOf(given: string | null | undefined, call: string): string | undefined {
    if (given && this.#calls.get(given) === call) return undefined;
    let id = given;
    while (!id || this.#calls.has(id)) id = `${this.#idOfCalls}_${++this.#invented}`;
    this.#calls.set(id, call);
    return id;
  }
}
