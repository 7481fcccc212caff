/** Ends an answer's text at the first stop sequence, whatever its backend does about them. */

import { GatewayError } from "../errors.ts";
import type { ChatEvent, ContentEvent } from "../model/event.ts";
import { TextMatcher, Words } from "./text-matcher.ts";

/** The most characters of all stop sequences of a request: what is looked for is held in memory. */
const MOST_CHARACTERS = 65_536;

/** Throws `invalid_request` for more stop sequences than can be looked for. */
export function assertSearchable(sequences: readonly string[]): void {
  const characters = sequences.reduce((sum, { length }) => sum + length, 0);
  if (characters > MOST_CHARACTERS)
    throw new GatewayError(
      "invalid_request",
      `The stop sequences must have at most ${MOST_CHARACTERS} characters in all, not ${characters}.`,
    );
}

/**
 * The events of a backend, where each candidate's text ends at the first of the sequences; none is part of it. What comes in a
 * provider's own format was asked to end there itself, and is passed on as it is.
 *
 * @param sequences Such as `assertSearchable` lets through.
 */
export async function* endAtStopSequences(
  events: AsyncIterable<ChatEvent | string>,
  sequences: readonly string[],
  candidateCount: number,
): AsyncGenerator<ChatEvent> {
  const words = new Words(sequences.filter((sequence) => sequence !== ""));
  const open = new Map<number, TextMatcher>();
  const stopped = new Set<number>();
  const flushed = (candidate: number): ChatEvent[] => {
    const text = open.get(candidate)?.flush() ?? "";
    return text === "" ? [] : [{ type: "text-delta", text, ...of(candidate) }];
  };
  for await (const yielded of events) {
    const event: ChatEvent = typeof yielded === "string" ? { type: "text-delta", text: yielded } : yielded;
    if (!isOfCandidate(event)) {
      yield event;
      continue;
    }
    const candidate = event.candidate ?? 0;
    if (stopped.has(candidate)) continue;
    if (event.type !== "text-delta") {
      yield* flushed(candidate);
      yield event;
      continue;
    }
    let matcher = open.get(candidate);
    if (!matcher) open.set(candidate, (matcher = new TextMatcher(words)));
    const { text, word } = matcher.feed(event.text);
    if (text !== "" || event.signature !== undefined) yield { ...event, text };
    if (word === undefined) continue;
    stopped.add(candidate);
    yield { type: "finish", reason: "stop-sequence", stopSequence: word, ...of(candidate) };
    // The backend is told to stop where no candidate is left.
    if (stopped.size === candidateCount) return;
  }
  for (const candidate of open.keys()) if (!stopped.has(candidate)) yield* flushed(candidate);
}

const of = (candidate: number): { candidate?: number } => (candidate === 0 ? {} : { candidate });

type OfCandidate = ContentEvent | Extract<ChatEvent, { type: "finish" }>;

const isOfCandidate = (event: ChatEvent): event is OfCandidate =>
  event.type !== "start" && event.type !== "usage" && event.type !== "prompt-feedback" && event.type !== "native";
