/** Decodes an upstream's answer in this format (spec 2.9), complete or in chunks, into native events with neutral events inside. */

import { isValid } from "../../http/validation.ts";
import type { ChatEvent, ContentEvent, FinishEvent, FinishReason, NativeEvent } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonLimits } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerDecoder } from "../format.ts";
import { isError } from "../shared/errors.decode.ts";
import { collected, parseAnswer, upstreamFailed } from "../shared/upstream.ts";
import { annotationsOf } from "./answer.annotations.ts";
import { decodeFeedback, decodeUsage } from "./answer.ts";
import { decodeErrorBody } from "./errors.ts";
import { decodeCode } from "./request.contents.ts";
import { type AnswerPart, GenerateContentResponse, unsupportedInAnswer } from "./schema.answer.ts";
import { FORMAT, given, readFinishReason } from "./schema.wire.ts";

type DecodedEvent = NativeEvent["events"][number];

/** Decodes one answer. */
export class GenerateContentDecoder implements AnswerDecoder {
  readonly #limits: JsonLimits | undefined;
  #hasStarted = false;
  #id: string | undefined;
  #calls = 0;
  readonly #begun: Set<number> = new Set();
  readonly #ended: Set<number> = new Set();
  /** The candidates that call tools. */
  readonly #callers: Set<number> = new Set();
  readonly #unsupported: Set<string> = new Set();

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    const chunk = this.#parse(data, event);
    // Skip an empty object: it only keeps the connection open.
    if (Object.keys(chunk).length === 0) return [];
    return [{ type: "native", format: FORMAT, frames: [{ data }], ...this.#meaningOf(chunk) }];
  }

  end(): void {
    if (!this.#isComplete()) throw upstreamFailed("The model backend's answer broke off.");
  }

  answer(body: string): ChatEvent[] {
    const native = { type: "native", format: FORMAT, body, ...this.#meaningOf(this.#parse(body)) } as const;
    if (!this.#isComplete()) throw upstreamFailed("The model backend's answer has no end.");
    return [native];
  }

  #isComplete(): boolean {
    return this.#ended.size > 0 && [...this.#begun].every((index) => this.#ended.has(index));
  }

  /** Parses a complete answer or a chunk. If the upstream sent an error instead, throws this error. */
  #parse(json: string, event?: string): GenerateContentResponse {
    const parsed = parseAnswer(json, this.#limits);
    if (isError(parsed, event)) throw decodeErrorBody(parsed);
    if (!isJsonObject(parsed)) throw upstreamFailed("The model backend's answer is no JSON object.");
    if (isValid(GenerateContentResponse, parsed)) return parsed;
    throw upstreamFailed("The model backend's answer has not the shape of one.");
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
      this.#id = id ?? undefined;
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
      if (finishReason == null) continue;
      const reason = readFinishReason(finishReason);
      const at = index ?? 0;
      const isCall = reason === "stop" && this.#callers.has(at);
      yield this.#finish(at, isCall ? "tool-calls" : reason, usage);
      usage = undefined;
    }
    if (promptFeedback?.blockReason != null && candidates.length === 0) yield this.#finish(0, "content-filter", usage);
    else if (usage) yield { type: "usage", usage };
  }

  #finish(at: number, reason: FinishReason, usage: Partial<Usage> | undefined): FinishEvent {
    this.#ended.add(at);
    return { type: "finish", ...candidateOf(at), reason, ...(usage && { usage }) };
  }

  #partEvents(part: AnswerPart, candidate: number): ContentEvent[] {
    const { text, inlineData, functionCall, thought, thoughtSignature } = part;
    const seal = thoughtSignature == null ? {} : { signature: thoughtSignature };
    if (functionCall) {
      this.#callers.add(candidate);
      const { id, name, args } = functionCall;
      return [{ type: "tool-call", id: id || this.#inventId(), name, input: args ?? {}, ...seal }];
    }
    if (inlineData) {
      const { mimeType, data } = inlineData;
      return [{ type: "media", mediaType: mimeType, data, ...(thought && { thought }), ...seal }];
    }
    const code = decodeCode(part);
    if (code) return [{ ...code, ...seal }];
    if (thought) {
      const events: ContentEvent[] = text ? [{ type: "reasoning-delta", text }] : [];
      if (thoughtSignature != null) events.push({ type: "reasoning-signature", signature: thoughtSignature });
      return events;
    }
    if (text || thoughtSignature != null) return [{ type: "text-delta", text: text ?? "", ...seal }];
    // Pass on a part of an unknown kind.
    return text == null && Object.keys(part).length > 0 ? [{ type: "provider", format: FORMAT, value: part }] : [];
  }

  /** Invents the id of a tool call. It contains the answer's id, so that two answers of one conversation never share the id of a call. */
  #inventId(): string {
    const count = ++this.#calls;
    return this.#id === undefined ? `call_${count}` : `call_${this.#id}_${count}`;
  }
}

const candidateOf = (index: number): { candidate?: number } => (index === 0 ? {} : { candidate: index });
