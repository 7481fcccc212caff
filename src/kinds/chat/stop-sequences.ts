/** Ends an answer's text at the first stop sequence, even when the backend ignores stop sequences. */

import { GatewayError } from "../../errors.ts";
import type { Limits } from "../../limits.ts";
import { type ChatEvent, type ContentEvent, type NativeEvent, withMaker } from "../../model/chat-event.ts";

/** Throws `invalid_request` for more stop sequences, or longer ones, than the limits allow. */
export function assertSearchable(
  sequences: readonly string[],
  { maxStopSequences, maxStopSequenceChars }: Pick<Limits, "maxStopSequences" | "maxStopSequenceChars">,
): void {
  if (sequences.length > maxStopSequences)
    throw new GatewayError(
      "invalid_request",
      `There must be at most ${maxStopSequences} stop sequences, not ${sequences.length}.`,
    );
  let chars = 0;
  for (const { length } of sequences) chars += length;
  if (chars > maxStopSequenceChars)
    throw new GatewayError(
      "invalid_request",
      `The stop sequences must have at most ${maxStopSequenceChars} characters in all, not ${chars}.`,
    );
}

export interface StopOptions {
  /** The number of candidates that the request asks for. When each has ended, the backend is stopped. */
  readonly candidateCount: number;
  /** The caller's format. */
  readonly format: string;
  /** True for a caller's body that no hook has changed: an upstream of the caller's format receives it with its stop sequences. */
  readonly isOwnBody: boolean;
  /** Called when the backend is stopped before it has reported its usage. */
  readonly onCut: () => void;
}

/**
 * Passes a backend's events on, and ends the text of each candidate before the first stop sequence. When several sequences end at the same
 * character, the longest counts. A native event in the caller's format passes unchanged if its upstream received the caller's own body, with
 * the same stop sequences. A body that is encoded for an upstream may have fewer, so the neutral events of its native events are searched, too.
 *
 * @param sequences The stop sequences, which `assertSearchable` has accepted. Empty sequences are ignored.
 */
export async function* endAtStopSequences(
  events: AsyncIterable<ChatEvent | string>,
  sequences: readonly string[],
  { candidateCount, format, isOwnBody, onCut }: StopOptions,
): AsyncGenerator<ChatEvent> {
  const searched = sequences.filter((sequence) => sequence !== "");
  const candidates = new Map<number, CandidateText>();
  let isCounted = true;
  const passedOf = (event: OwnEvent): OwnEvent[] => {
    const passed = isOfCandidate(event) ? candidateOf(event.candidate ?? 0).next(event) : [event];
    for (const each of passed)
      if (each.type === "finish") isCounted = each.usage !== undefined;
      else if ((each.type === "start" || each.type === "usage") && each.usage !== undefined) isCounted = true;
    return passed;
  };
  const candidateOf = (number: number): CandidateText => {
    let candidate = candidates.get(number);
    if (!candidate) candidates.set(number, (candidate = new CandidateText(searched, number)));
    return candidate;
  };
  for await (const yielded of events) {
    const event: ChatEvent = typeof yielded === "string" ? { type: "text-delta", text: yielded } : yielded;
    // The meter refuses an event without its text.
    if (event.type === "text-delta" && typeof event.text !== "string") yield event;
    else if (event.type !== "native") yield* passedOf(event);
    else if (event.format !== format) yield { ...event, events: event.events.flatMap(passedOf) };
    else if (isOwnBody) yield event;
    // The caller would get the frames of the upstream as they are.
    else for (const inner of event.events) yield* passedOf(withMaker(inner, format));
    if (candidates.size < candidateCount || !Array.from(candidates.values()).every(({ isOver }) => isOver)) continue;
    if (!isCounted) onCut();
    return;
  }
  for (const candidate of candidates.values()) yield* candidate.flush();
}

/**
 * Searches for one sequence in a text that comes in pieces, with the algorithm of Knuth, Morris and Pratt. The time is linear in the length
 * of the text, also for hostile input. `indexOf` would take the product of both lengths for a sequence such as `baaa…`.
 */
class Search {
  readonly sequence: string;
  /** The number of characters of the sequence that match the end of the text so far. */
  matched = 0;
  /** For each number of matched characters: the next smaller number that also matches the end of the text. */
  readonly #fallbacks: Uint32Array;

  constructor(sequence: string) {
    this.sequence = sequence;
    this.#fallbacks = new Uint32Array(sequence.length + 1);
    for (let at = 1, matched = 0; at < sequence.length; at++) {
      while (matched > 0 && sequence[at] !== sequence[matched]) matched = this.#fallbacks[matched] as number;
      if (sequence[at] === sequence[matched]) matched++;
      this.#fallbacks[at + 1] = matched;
    }
  }

  /** Searches the first `length` characters of a piece. Returns the index after the first match, or -1. */
  read(piece: string, length: number): number {
    const { sequence } = this;
    const first = sequence[0] as string;
    let { matched } = this;
    for (let at = 0; at < length; at++) {
      // No match has begun: jump to the next character that begins the sequence.
      if (matched === 0) at = piece.indexOf(first, at);
      if (at < 0 || at >= length) break;
      const unit = piece.charCodeAt(at);
      while (matched > 0 && sequence.charCodeAt(matched) !== unit) matched = this.#fallbacks[matched] as number;
      if (sequence.charCodeAt(matched) !== unit) continue;
      matched++;
      if (matched === sequence.length) return at + 1;
    }
    this.matched = matched;
    return -1;
  }
}

type OwnEvent = Exclude<ChatEvent, NativeEvent>;
type CandidateEvent = ContentEvent | Extract<ChatEvent, { type: "finish" }>;
type TextDelta = Extract<ContentEvent, { type: "text-delta" }>;

const isOfCandidate = (event: OwnEvent): event is CandidateEvent =>
  event.type !== "start" && event.type !== "usage" && event.type !== "prompt-feedback";

/** The most annotations that wait for held back text before them. */
const MAX_WAITING = 1_000;

/** The most events of a candidate that are skipped after its stop sequence, while an earlier tool call is still open. */
const MAX_SKIPPED = 1_000;

/** A candidate of the answer. Holds back the end of the text while it may be the beginning of a stop sequence. */
class CandidateText {
  readonly #searches: readonly Search[];
  readonly #candidate: { readonly candidate?: number };
  /** The text that is held back, and its block. */
  #kept = "";
  #block: string | undefined;
  /** The annotations of the text that is held back. */
  #waiting: OwnEvent[] = [];
  #isStopped = false;
  /** The finish, which waits for the tool calls that began before the stop sequence. */
  #finish: OwnEvent | undefined;
  readonly #openCalls = new Set<string>();
  #skipped = 0;

  constructor(sequences: readonly string[], candidate: number) {
    this.#searches = sequences.map((sequence) => new Search(sequence));
    this.#candidate = candidate === 0 ? {} : { candidate };
  }

  /** True when a stop sequence has ended the candidate, and its finish was passed on. */
  get isOver(): boolean {
    return this.#isStopped && !this.#finish;
  }

  /** Returns the events to pass on now. */
  next(event: CandidateEvent): OwnEvent[] {
    if (event.type === "tool-call-start" && !this.#isStopped) this.#openCalls.add(event.id);
    if (this.#isStopped) return this.#afterStop(event);
    if (event.type === "tool-call-end") this.#openCalls.delete(event.id);
    if (event.type === "text-delta") return this.#read(event);
    // An annotation is not content, so it does not end the held back text. Some formats send an annotation for each token.
    if (event.type !== "annotation" || this.#waiting.length === MAX_WAITING) return [...this.flush(), event];
    if (this.#kept === "") return [event];
    this.#waiting.push(event);
    return [];
  }

  /** Returns the events that were held back. Called when the text that follows cannot complete a stop sequence. */
  flush(): OwnEvent[] {
    if (this.#isStopped) return this.#finish ? [this.#finish] : [];
    const events = this.#waiting;
    if (this.#kept !== "") {
      const block = this.#block === undefined ? {} : { block: this.#block };
      events.unshift({ type: "text-delta", text: this.#kept, ...this.#candidate, ...block });
    }
    this.#kept = "";
    this.#waiting = [];
    for (const search of this.#searches) search.matched = 0;
    return events;
  }

  #read(event: TextDelta): OwnEvent[] {
    const passed = event.block === this.#block ? [] : this.flush();
    this.#block = event.block;
    // The match that ends first counts. If several matches end there, the longest counts.
    let [end, sequence, unfinished] = [-1, "", 0];
    for (const search of this.#searches) {
      const found = search.read(event.text, end < 0 ? event.text.length : end);
      if (found >= 0 && (found !== end || search.sequence.length > sequence.length))
        [end, sequence] = [found, search.sequence];
      unfinished = Math.max(unfinished, search.matched);
    }
    const isFound = end >= 0;
    const text = this.#kept + event.text;
    const ready = isFound ? this.#kept.length + end - sequence.length : text.length - unfinished;
    this.#kept = text.slice(ready);
    const isPassed = ready > 0 || event.signature !== undefined;
    if (isPassed) passed.push({ ...event, text: text.slice(0, ready) });
    if (isFound) {
      this.#isStopped = true;
      this.#finish = { type: "finish", reason: "stop-sequence", stopSequence: sequence, ...this.#candidate };
      passed.push(...this.#finishOnceWhole());
    } else if (isPassed) passed.push(...this.#waiting.splice(0));
    return passed;
  }

  /** Handles an event after the stop sequence. Passes on only usage, and the rest of tool calls that began before the stop sequence. */
  #afterStop(event: CandidateEvent): OwnEvent[] {
    const isDelta = event.type === "tool-call-delta" && this.#openCalls.has(event.id);
    const isEnd = event.type === "tool-call-end" && this.#openCalls.delete(event.id);
    if (isDelta || isEnd) return [event, ...this.#finishOnceWhole()];
    // Stop waiting when a backend continues without ending its tool calls.
    if (++this.#skipped === MAX_SKIPPED) this.#openCalls.clear();
    const usage: OwnEvent[] = event.type === "finish" && event.usage ? [{ type: "usage", usage: event.usage }] : [];
    return [...usage, ...this.#finishOnceWhole()];
  }

  #finishOnceWhole(): OwnEvent[] {
    if (!this.#finish || this.#openCalls.size > 0) return [];
    const finish = this.#finish;
    this.#finish = undefined;
    return [finish];
  }
}
