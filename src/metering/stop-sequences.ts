/** Ends an answer's text at the first stop sequence, whatever its backend does about them. */

import { GatewayError } from "../errors.ts";
import type { Limits } from "../limits.ts";
import type { ChatEvent, ContentEvent, NativeEvent } from "../model/event.ts";
import { TextMatcher, Words } from "./text-matcher.ts";

/** How much is looked for in one answer: for each call, the search is made ready anew. */
export type StopLimits = Pick<Limits, "maxStopSequences" | "maxStopSequenceChars">;

/** Throws `invalid_request` for more stop sequences, or longer ones, than the limits allow. */
export function assertSearchable(sequences: readonly string[], limits: StopLimits): void {
  const { maxStopSequences, maxStopSequenceChars } = limits;
  if (sequences.length > maxStopSequences)
    throw new GatewayError(
      "invalid_request",
      `There must be at most ${maxStopSequences} stop sequences, not ${sequences.length}.`,
    );
  const chars = sequences.reduce((sum, { length }) => sum + length, 0);
  if (chars > maxStopSequenceChars)
    throw new GatewayError(
      "invalid_request",
      `The stop sequences must have at most ${maxStopSequenceChars} characters in all, not ${chars}.`,
    );
}

/** Whose answer it is, and who is told how it ends. */
export interface StopOptions {
  readonly candidateCount: number;
  /** The caller's. */
  readonly dialect: string;
  /** The backend is left before it has counted all that it said. */
  readonly left: () => void;
}

/**
 * The events of a backend, where each candidate's text ends at the first of the sequences; none is part of it. What comes in the
 * caller's own format was asked to end there itself, and is passed on as it is; of another format, which may take fewer sequences,
 * what it means ends there too.
 *
 * @param sequences Such as `assertSearchable` lets through.
 */
export async function* endAtStopSequences(
  events: AsyncIterable<ChatEvent | string>,
  sequences: readonly string[],
  { candidateCount, dialect, left }: StopOptions,
): AsyncGenerator<ChatEvent> {
  const words = new Words(sequences.filter((sequence) => sequence !== ""));
  const texts = new Map<number, CandidateText>();
  let isCounted = true;
  const textOf = (candidate: number): CandidateText => {
    let text = texts.get(candidate);
    if (!text) texts.set(candidate, (text = new CandidateText(words, candidate)));
    return text;
  };
  const ended = (event: OwnEvent): readonly OwnEvent[] => {
    const passed = isOfCandidate(event) ? textOf(event.candidate ?? 0).next(event) : [event];
    for (const { type, usage } of passed as readonly { type: string; usage?: unknown }[])
      if (usage !== undefined || type === "finish") isCounted = usage !== undefined;
    return passed;
  };
  for await (const yielded of events) {
    const event: ChatEvent = typeof yielded === "string" ? { type: "text-delta", text: yielded } : yielded;
    if (event.type !== "native") yield* ended(event);
    else if (event.dialect === dialect) yield event;
    else yield { ...event, means: event.means.flatMap(ended) };
    if (texts.size < candidateCount || !Array.from(texts.values()).every(({ isOver }) => isOver)) continue;
    // The backend is told to stop where no candidate is left.
    if (!isCounted) left();
    return;
  }
  for (const text of texts.values()) yield* text.flush();
}

type OwnEvent = Exclude<ChatEvent, NativeEvent>;
type OfCandidate = ContentEvent | Extract<ChatEvent, { type: "finish" }>;
type TextDelta = Extract<ContentEvent, { type: "text-delta" }>;

const isOfCandidate = (event: OwnEvent): event is OfCandidate =>
  event.type !== "start" && event.type !== "usage" && event.type !== "prompt-feedback";

/** How many notes may wait for the text that they stand behind. */
const MOST_WAITING = 1_000;

/** How many events behind its end a candidate may have, while a call that was begun before is waited for. */
const MOST_PASSED_OVER = 1_000;

/** The text of one candidate, on its way to a stop sequence. */
class CandidateText {
  #isStopped = false;
  /** The end that waits until the calls that were begun before it are whole. */
  #end: OwnEvent | undefined;
  readonly #calls = new Set<string>();
  #passedOver = 0;
  readonly #matcher: TextMatcher;
  readonly #candidate: { readonly candidate?: number };
  /** The block of the text that was kept back. */
  #block: string | undefined;
  /** Notes on text that was kept back. */
  #waiting: OwnEvent[] = [];

  constructor(words: Words, candidate: number) {
    this.#matcher = new TextMatcher(words);
    this.#candidate = candidate === 0 ? {} : { candidate };
  }

  /** Whether a stop sequence has ended it, and nothing of it is left to come. */
  get isOver(): boolean {
    return this.#isStopped && !this.#end;
  }

  /** What an event comes to, once it is clear that no stop sequence begins in it. */
  next(event: OfCandidate): readonly OwnEvent[] {
    const isOfCall = this.#follow(event);
    if (this.#isStopped) return isOfCall ? [event, ...this.#endOnceWhole()] : this.#passOver(event);
    if (event.type === "text-delta") return event.block === this.#block ? this.#read(event) : this.#begin(event);
    // A note is no content: the text goes on behind it, as it does where each token's likelihood is told.
    if (event.type !== "annotation" || this.#waiting.length === MOST_WAITING) return [...this.flush(), event];
    if (!this.#matcher.isHolding) return [event];
    this.#waiting.push(event);
    return [];
  }

  /** What was kept back, because nothing that follows can end it. */
  flush(): readonly OwnEvent[] {
    if (this.#isStopped) return this.#end ? [this.#end] : [];
    const text = this.#matcher.flush();
    const waiting = this.#waiting;
    this.#waiting = [];
    return text === "" ? waiting : [this.#delta(text), ...waiting];
  }

  #begin(event: TextDelta): readonly OwnEvent[] {
    const before = this.flush();
    this.#block = event.block;
    return [...before, ...this.#read(event)];
  }

  #read(event: TextDelta): readonly OwnEvent[] {
    const { text, word } = this.#matcher.feed(event.text);
    const passed: OwnEvent[] = text !== "" || event.signature !== undefined ? [{ ...event, text }] : [];
    if (word === undefined) {
      if (passed.length === 0 || this.#waiting.length === 0) return passed;
      passed.push(...this.#waiting);
      this.#waiting = [];
      return passed;
    }
    this.#isStopped = true;
    this.#waiting = [];
    this.#end = { type: "finish", reason: "stop-sequence", stopSequence: word, ...this.#candidate };
    return [...passed, ...this.#endOnceWhole()];
  }

  /** Follows the calls that come in pieces; whether the event is of one that has begun. */
  #follow(event: OfCandidate): boolean {
    if (event.type === "tool-call-start" && !this.#isStopped) this.#calls.add(event.id);
    if (event.type === "tool-call-end") return this.#calls.delete(event.id);
    return event.type === "tool-call-delta" && this.#calls.has(event.id);
  }

  /** What still counts of an event behind the end. A backend that goes on and on is not waited for. */
  #passOver(event: OfCandidate): readonly OwnEvent[] {
    if (++this.#passedOver === MOST_PASSED_OVER) this.#calls.clear();
    return [...usageOf(event), ...this.#endOnceWhole()];
  }

  #endOnceWhole(): readonly OwnEvent[] {
    if (!this.#end || this.#calls.size > 0) return [];
    const end = this.#end;
    this.#end = undefined;
    return [end];
  }

  #delta(text: string): OwnEvent {
    return { type: "text-delta", text, ...this.#candidate, ...(this.#block !== undefined && { block: this.#block }) };
  }
}

/** What still counts of a candidate that was stopped. */
const usageOf = (event: OfCandidate): readonly OwnEvent[] =>
  event.type === "finish" && event.usage ? [{ type: "usage", usage: event.usage }] : [];
