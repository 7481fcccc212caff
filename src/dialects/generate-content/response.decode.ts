/** An upstream's answer in this format (spec 2.9), whole or in chunks, to native events that say what they mean. */

import { isValid } from "../../http/validation.predicate.ts";
import type { ChatEvent, ContentEvent, FinishReason, NativeEvent } from "../../model/event.ts";
import type { JsonLimits, JsonObject } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerDecoder as Decoder } from "../codec.ts";
import { collected, parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";
import { decodeErrorBody } from "./errors.ts";
import { annotationsOf } from "./response.annotations.ts";
import { decodeFeedback, decodeUsage } from "./response.ts";
import { DIALECT } from "./schema.base.ts";
import { type AnswerPart, type Candidate, GenerateContentResponse, unsaidInAnswer } from "./schema.answer.ts";
import { FINISH_REASON, fromWire, LANGUAGE, OUTCOME } from "./schema.enums.ts";

const LANGUAGE_OF = fromWire(LANGUAGE);
const OUTCOME_OF = fromWire(OUTCOME);

/** With the words that the official service has beyond the spec's. */
const REASON_OF: ReadonlyMap<string, FinishReason> = new Map([
  ...fromWire(FINISH_REASON),
  ["UNEXPECTED_TOOL_CALL", "malformed-tool-call"],
  ["IMAGE_PROHIBITED_CONTENT", "unsafe-image"],
  ["IMAGE_RECITATION", "recitation"],
]);

type Meaning = NativeEvent["means"][number];

export class AnswerDecoder implements Decoder {
  #started = false;
  /** The candidates that have begun, and those that have ended. */
  readonly #begun: Set<number> = new Set();
  readonly #ended: Set<number> = new Set();
  #id: string | undefined;
  #calls = 0;
  /** The candidates that call tools. */
  readonly #callers: Set<number> = new Set();
  readonly #unsaid: Set<string> = new Set();
  readonly #limits: JsonLimits | undefined;

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
  }

  frame(_event: string | undefined, data: string): ChatEvent[] {
    const chunk = parseAnswerObject(data, this.#limits);
    // The keep-alive of some streams.
    if (Object.keys(chunk).length === 0) return [];
    return [
      {
        type: "native",
        dialect: DIALECT,
        frames: [{ data }],
        means: this.#means(chunk),
        unsaid: () => unsaidInAnswer(chunk, this.#unsaid),
      },
    ];
  }

  end(): void {
    if (!this.#isWhole) throw upstreamFailed("The model backend's answer broke off.");
  }

  answer(body: string): ChatEvent[] {
    const answer = parseAnswerObject(body, this.#limits);
    const means = this.#means(answer);
    if (!this.#isWhole) throw upstreamFailed("The model backend's answer has no end.");
    return [{ type: "native", dialect: DIALECT, body, means, unsaid: () => unsaidInAnswer(answer, this.#unsaid) }];
  }

  get #isWhole(): boolean {
    return this.#ended.size > 0 && [...this.#begun].every((index) => this.#ended.has(index));
  }

  #means(chunk: JsonObject): Meaning[] {
    if (chunk["error"] != null) throw decodeErrorBody(chunk["error"]);
    if (!isValid(GenerateContentResponse, chunk))
      throw upstreamFailed("The model backend's answer has not the shape of one.");
    return collected(this.#meaning(chunk));
  }

  *#meaning(chunk: GenerateContentResponse): Generator<Meaning> {
    yield* this.#start(chunk);
    yield* this.#content(chunk);
  }

  *#start({ responseId, modelVersion }: GenerateContentResponse): Generator<Meaning> {
    if (this.#started) return;
    this.#started = true;
    this.#id = responseId ?? undefined;
    yield {
      type: "start",
      ...(responseId != null && { id: responseId }),
      ...(modelVersion != null && { model: modelVersion }),
    };
  }

  *#content({ candidates, promptFeedback, usageMetadata }: GenerateContentResponse): Generator<Meaning> {
    let usage = usageMetadata ? decodeUsage(usageMetadata) : undefined;
    if (promptFeedback) yield { type: "prompt-feedback", ...decodeFeedback(promptFeedback) };
    if (promptFeedback?.blockReason != null && !candidates?.length) yield this.#finish(0, "content-filter", usage);
    else {
      for (const candidate of candidates ?? []) yield* this.#candidate(candidate);
      for (const { finishReason, index } of candidates ?? []) {
        if (finishReason == null) continue;
        yield this.#finish(index ?? 0, this.#reason(finishReason, index ?? 0), usage);
        usage = undefined;
      }
      if (usage) yield { type: "usage", usage };
    }
  }

  #finish(index: number, reason: FinishReason, usage: Partial<Usage> | undefined): Meaning {
    this.#ended.add(index);
    return { type: "finish", ...of(index), reason, ...(usage && { usage }) };
  }

  #reason(wire: string, index: number): FinishReason {
    const reason = REASON_OF.get(wire) ?? "other";
    return reason === "stop" && this.#callers.has(index) ? "tool-calls" : reason;
  }

  *#candidate({ content, index, ...notes }: Candidate): Generator<Meaning> {
    const at = index ?? 0;
    this.#begun.add(at);
    for (const part of content?.parts ?? []) for (const event of this.#part(part, at)) yield { ...event, ...of(at) };
    for (const annotation of annotationsOf(notes)) yield { type: "annotation", annotation, ...of(at) };
  }

  *#part(part: AnswerPart, at: number): Generator<ContentEvent> {
    const { text, inlineData, functionCall, executableCode, codeExecutionResult, thought, thoughtSignature } = part;
    const seal = thoughtSignature == null ? {} : { signature: thoughtSignature };
    if (functionCall) {
      this.#callers.add(at);
      const { id, name, args } = functionCall;
      yield { type: "tool-call", id: id || this.#inventId(), name, input: args ?? {}, ...seal };
    } else if (inlineData) {
      const { mimeType, data } = inlineData;
      yield { type: "media", mediaType: mimeType, data, ...(thought && { thought }), ...seal };
    } else if (executableCode) {
      const { id, language, code } = executableCode;
      yield { type: "code", ...idOf(id), language: LANGUAGE_OF.get(language) ?? "unspecified", code, ...seal };
    } else if (codeExecutionResult) {
      const { id, outcome, output } = codeExecutionResult;
      const result = { outcome: OUTCOME_OF.get(outcome) ?? "unspecified", ...(output != null && { output }) };
      yield { type: "code-result", ...idOf(id), ...result, ...seal };
    } else if (thought) {
      if (text) yield { type: "reasoning-delta", text };
      if (thoughtSignature != null) yield { type: "reasoning-signature", signature: thoughtSignature };
    } else if (text || thoughtSignature != null) yield { type: "text-delta", text: text ?? "", ...seal };
    // A kind of part that is not known here.
    else if (text == null && Object.keys(part).length > 0) yield { type: "provider", dialect: DIALECT, value: part };
  }

  // Told apart by the answer's id, so that two answers of one conversation never share a call's.
  #inventId(): string {
    return ["call", ...(this.#id === undefined ? [] : [this.#id]), ++this.#calls].join("_");
  }
}

const of = (index: number): { candidate?: number } => (index === 0 ? {} : { candidate: index });
const idOf = (id: string | null | undefined): { id?: string } => (id == null ? {} : { id });
