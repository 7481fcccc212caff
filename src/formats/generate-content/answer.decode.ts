/** Decodes an upstream's answer in this format (spec 2.9), complete or in chunks, into native events with neutral events inside. */

import { isValid } from "../../http/validation.ts";
import type { ChatEvent, ContentEvent, FinishEvent, FinishReason, NativeEvent } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonLimits } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerDecoder } from "../format.ts";
import { isError } from "../shared/errors.decode.ts";
import { AnsweredArguments } from "../shared/tools.ts";
import { addEvent, collected, lostUsage, parseAnswer, upstreamFailed } from "../shared/upstream.ts";
import { annotationsOf } from "./answer.annotations.ts";
import { decodeFeedback, decodeUsage } from "./answer.ts";
import { decodeErrorBody } from "./errors.ts";
import { decodeCode } from "./request.contents.ts";
import { type AnswerPart, GenerateContentResponse, unsupportedInAnswer, UsageMetadata } from "./schema.answer.ts";
import { BLOCKED_FINISH, FORMAT, given, readBlockReason, readFinishReason } from "./schema.wire.ts";

type DecodedEvent = NativeEvent["events"][number];

/** Decodes one answer. */
export class GenerateContentDecoder implements AnswerDecoder {
  readonly #limits: JsonLimits | undefined;
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
  readonly #unsupported: Set<string> = new Set();

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
    this.#arguments = new AnsweredArguments(limits);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    // Some gateways end the stream as another format does. The official clients cannot read that frame.
    if (data.trim() === "[DONE]") return [];
    const parsed = parseAnswer(data, this.#limits);
    return this.#chunks(parsed, event).map((chunk) => this.#framed(chunk, Array.isArray(parsed) ? undefined : data));
  }

  end(): void {
    if (!this.#isComplete()) throw upstreamFailed("The model backend's answer broke off.");
  }

  /** Decodes a complete answer, or a stream that came as one JSON array. */
  answer(body: string): ChatEvent[] {
    const parsed = parseAnswer(body, this.#limits);
    const chunks = this.#chunks(parsed);
    const events: ChatEvent[] = Array.isArray(parsed)
      ? chunks.map((chunk) => this.#framed(chunk))
      : chunks.map((chunk) => ({ type: "native", format: FORMAT, body, ...this.#meaningOf(chunk) }));
    if (!this.#isComplete()) throw upstreamFailed("The model backend's answer has no end.");
    return events;
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(text, this.#limits, ({ usageMetadata }) => usageMetadata, UsageMetadata, decodeUsage);
  }

  #framed(chunk: GenerateContentResponse, data: string = JSON.stringify(chunk)): NativeEvent {
    return { type: "native", format: FORMAT, frames: [{ data }], ...this.#meaningOf(chunk) };
  }

  #isComplete(): boolean {
    return this.#ended.size > 0 && [...this.#begun].every((index) => this.#ended.has(index));
  }

  /**
   * Checks a complete answer, a chunk, or a list of chunks. Skips an empty object, which only keeps the connection open. If the upstream
   * sent an error instead, throws this error.
   */
  #chunks(parsed: unknown, event?: string): GenerateContentResponse[] {
    const chunks: GenerateContentResponse[] = [];
    for (const chunk of Array.isArray(parsed) ? (parsed as unknown[]) : [parsed]) {
      if (isError(chunk, event)) throw decodeErrorBody(chunk);
      if (!isJsonObject(chunk)) throw upstreamFailed("The model backend's answer is no JSON object.");
      if (!isValid(GenerateContentResponse, chunk))
        throw upstreamFailed("The model backend's answer has not the shape of one.");
      if (Object.keys(chunk).length > 0) addEvent(chunks, chunk);
    }
    return chunks;
  }

  #meaningOf(chunk: GenerateContentResponse): Pick<NativeEvent, "events" | "unsupported"> {
    return {
      events: collected(this.#events(chunk)),
      unsupported: () => unsupportedInAnswer(chunk, this.#unsupported),
    };
  }

  *#events(chunk: GenerateContentResponse): Generator<DecodedEvent> {
    const { responseId: id, modelVersion: model, promptFeedback, usageMetadata } = chunk;
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      this.#idOfCalls = `call_${id || crypto.randomUUID().replaceAll("-", "")}`;
      yield { type: "start", ...given({ id, model }) };
    }
    let usage = usageMetadata ? decodeUsage(usageMetadata) : undefined;
    if (promptFeedback) yield { type: "prompt-feedback", ...decodeFeedback(promptFeedback) };
    const candidates = chunk.candidates ?? [];
    for (const { content, index, ...notes } of candidates) {
      const at = index ?? 0;
      this.#begun.add(at);
      for (const part of content?.parts ?? [])
        for (const event of this.#partEvents(part, at)) yield at === 0 ? event : { ...event, candidate: at };
      for (const annotation of annotationsOf(notes)) yield { type: "annotation", annotation, ...candidateOf(at) };
    }
    // Finish the candidates after the content of all. The first finish event has the token counts of all candidates.
    for (const { finishReason, index } of candidates) {
      // An empty text is no reason: the answer goes on.
      if (!finishReason) continue;
      const reason = readFinishReason(finishReason);
      const at = index ?? 0;
      const isCall = reason === "stop" && this.#callers.has(at);
      yield this.#finish(at, isCall ? "tool-calls" : reason, usage);
      usage = undefined;
    }
    const blockReason = promptFeedback?.blockReason;
    if (blockReason != null && this.#ended.size === 0)
      yield this.#finish(0, BLOCKED_FINISH[readBlockReason(blockReason)], usage);
    else if (usage) yield { type: "usage", usage };
  }

  #finish(at: number, reason: FinishReason, usage: Partial<Usage> | undefined): FinishEvent {
    this.#ended.add(at);
    return { type: "finish", ...candidateOf(at), reason, ...(usage && { usage }) };
  }

  #partEvents(part: AnswerPart, candidate: number): ContentEvent[] {
    const { text, inlineData, functionCall, thought, thoughtSignature } = part;
    // An empty text is no signature.
    const seal = thoughtSignature ? { signature: thoughtSignature, maker: FORMAT } : undefined;
    if (functionCall) {
      this.#callers.add(candidate);
      const { name, args, partialArgs, willContinue } = functionCall;
      // Only callers of this format ask for arguments in pieces.
      if (!name || willContinue || (args == null && partialArgs != null))
        return [{ type: "provider", format: FORMAT, value: part }];
      const input = typeof args === "string" ? this.#arguments.parse(args) : (args ?? {});
      const id = this.#idOf(functionCall.id, `${candidate} ${name} ${JSON.stringify(input)}`);
      return id === undefined ? [] : [{ type: "tool-call", id, name, input, ...seal }];
    }
    if (inlineData) {
      const { mimeType, data } = inlineData;
      return [{ type: "media", mediaType: mimeType, data, ...(thought && { thought }), ...seal }];
    }
    const code = decodeCode(part);
    if (code) return [{ ...code, ...seal }];
    if (thought) {
      const events: ContentEvent[] = text ? [{ type: "reasoning-delta", text }] : [];
      if (seal) events.push({ type: "reasoning-signature", ...seal });
      return events;
    }
    if (text || seal) return [{ type: "text-delta", text: text ?? "", ...seal }];
    // Pass on a part of an unknown kind.
    return text == null && Object.keys(part).length > 0 ? [{ type: "provider", format: FORMAT, value: part }] : [];
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

const candidateOf = (index: number): { candidate?: number } => (index === 0 ? {} : { candidate: index });
