/** An upstream's answer to events: the chunks of a stream, or the whole, as loosely as local servers write them. */

import { isValid } from "../../http/validation.predicate.ts";
import type { ChatEvent, ContentEvent, NativeEvent } from "../../model/event.ts";
import { isJsonObject, type JsonLimits } from "../../model/json.ts";
import { AnsweredArguments } from "../shared/tool-calls.ts";
import type { AnswerDecoder as Decoder } from "../codec.ts";
import { collected, HeldBack, parseAnswer, upstreamFailed } from "../shared/upstream.ts";
import { decodeFinish, decodeLogprobs, decodeUsage, isCutShort } from "./answer.ts";
import { type AnswerCalls, CallReader } from "./answer.calls.ts";
import { decodeStreamError } from "./errors.ts";
import { Answer, type Choice, type Message, unsaidInAnswer } from "./schema.answer.ts";
import { DIALECT, splitDataUrl } from "./schema.base.ts";
import { DONE } from "./stream.ts";

type Meant = Exclude<ChatEvent, NativeEvent>;

export class AnswerDecoder implements Decoder {
  readonly #calls: Map<number, CallReader> = new Map();
  readonly #finished: Set<number> = new Set();
  readonly #unsaid: Set<string> = new Set();
  readonly #limits: JsonLimits | undefined;
  readonly #shared: AnswerCalls;
  #started = false;
  #id: string | undefined;
  #invented = 0;

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
    this.#shared = {
      ids: new Set(),
      suffix: 0,
      inventId: () => this.#inventId(),
      heldBack: new HeldBack(),
      args: new AnsweredArguments(limits),
    };
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    if (data.trim() === "") return [];
    const frames = [{ ...(event !== undefined && { event }), data }];
    if (data === DONE) return [{ type: "native", dialect: DIALECT, means: [...this.#done()], frames }];
    const chunk = parseAnswer(data, this.#limits);
    const means = collected(this.#read(chunk, event === "error"));
    return [{ type: "native", dialect: DIALECT, means, frames, unsaid: () => unsaidInAnswer(chunk, this.#unsaid) }];
  }

  end(): void {
    if (this.#finished.size === 0 || this.#unfinished.length > 0)
      throw upstreamFailed("The model backend's answer broke off.");
  }

  answer(body: string): ChatEvent[] {
    const answer = parseAnswer(body, this.#limits);
    if (isJsonObject(answer) && answer["error"] == null && !isNonEmpty(answer["choices"]))
      throw upstreamFailed("The model backend's answer holds no choice.");
    const means = collected(this.#whole(answer));
    return [{ type: "native", dialect: DIALECT, means, body, unsaid: () => unsaidInAnswer(answer, this.#unsaid) }];
  }

  *#whole(answer: unknown): Generator<Meant> {
    yield* this.#read(answer, false);
    yield* this.#done();
  }

  /** The ends that a server has not told of. */
  *#done(): Generator<Meant> {
    for (const index of this.#unfinished) yield* this.#finish(index, "stop");
    if (this.#finished.size === 0) yield* this.#finish(0, "stop");
  }

  /** The choices that have begun, and not ended. */
  get #unfinished(): number[] {
    return [...this.#calls.keys()].filter((index) => !this.#finished.has(index));
  }

  *#read(chunk: unknown, isError: boolean): Generator<Meant> {
    if (isError || (isJsonObject(chunk) && chunk["error"] != null))
      throw decodeStreamError(isJsonObject(chunk) ? (chunk["error"] ?? chunk) : chunk);
    if (!isValid(Answer, chunk)) throw upstreamFailed("The model backend's answer has not the shape of one.");
    yield* this.#start(chunk);
    const { choices, usage, service_tier } = chunk;
    for (const [position, choice] of (choices ?? []).entries()) yield* this.#choice(choice, choice.index ?? position);
    const tier = service_tier == null ? {} : { serviceTier: service_tier };
    if (usage) yield { type: "usage", usage: { ...decodeUsage(usage), ...tier } };
  }

  *#start({ id, model }: Answer): Generator<Meant> {
    if (this.#started) return;
    this.#started = true;
    this.#id = id || undefined;
    yield { type: "start", ...(id && { id }), ...(model && { model }) };
  }

  *#choice({ delta, message, logprobs, finish_reason }: Choice, index: number): Generator<Meant> {
    const said = delta ?? message;
    for (const event of said ? this.#message(said, index) : []) yield { ...event, ...of(index) };
    const annotation = logprobs ? decodeLogprobs(logprobs) : undefined;
    if (annotation) yield { type: "annotation", annotation, ...of(index) };
    if (finish_reason) yield* this.#finish(index, finish_reason);
  }

  *#finish(index: number, wire: string): Generator<Meant> {
    if (this.#finished.has(index)) return;
    this.#finished.add(index);
    const reason = decodeFinish(wire);
    const calls = this.#calls.get(index);
    for (const event of calls?.end(isCutShort(reason)) ?? []) yield { ...event, ...of(index) };
    yield { type: "finish", reason: reason === "stop" && calls?.called ? "tool-calls" : reason, ...of(index) };
  }

  *#message(message: Message, index: number): Generator<ContentEvent> {
    const { content, refusal, reasoning_content, reasoning, thinking, audio, images, annotations } = message;
    const thought = reasoning_content || reasoning || thinking;
    if (thought) yield { type: "reasoning-delta", text: thought };
    const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
    if (text) yield { type: "text-delta", text };
    if (refusal) yield { type: "refusal-delta", text: refusal };
    if (audio?.transcript) yield { type: "text-delta", text: audio.transcript };
    if (audio?.data) yield { type: "media", mediaType: soundType(audio.data), data: audio.data };
    for (const { image_url } of images ?? []) {
      const inline = splitDataUrl(image_url?.url ?? "");
      if (inline) yield { type: "media", ...inline };
    }
    yield* this.#callsOf(index).read(message);
    const chunks = (annotations ?? []).flatMap(({ url_citation }) => {
      const { url, title } = url_citation ?? {};
      return url ? [{ uri: url, ...(title && { title }) }] : [];
    });
    if (chunks.length > 0) yield { type: "annotation", annotation: { type: "grounding", chunks } };
  }

  #callsOf(index: number): CallReader {
    let calls = this.#calls.get(index);
    if (calls) return calls;
    this.#calls.set(index, (calls = new CallReader(this.#shared)));
    return calls;
  }

  // Told apart by the answer's id, so that two answers of one conversation never share a call's.
  #inventId(): string {
    return ["call", ...(this.#id === undefined ? [] : [this.#id]), ++this.#invented].join("_");
  }
}

const of = (index: number): { candidate?: number } => (index === 0 ? {} : { candidate: index });

const isNonEmpty = (value: unknown): boolean => Array.isArray(value) && value.length > 0;

/** By how the base64 of each form begins; what has no head is bare samples, 24,000 a second. */
const SOUND_HEADS = [
  ["UklGR", "audio/wav"],
  ["SUQz", "audio/mpeg"],
  ["//", "audio/mpeg"],
  ["T2dn", "audio/ogg"],
  ["ZkxhQ", "audio/flac"],
] as const;

const soundType = (data: string): string =>
  SOUND_HEADS.find(([head]) => data.startsWith(head))?.[1] ?? "audio/pcm;rate=24000";
