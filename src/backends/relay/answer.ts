/** An upstream's answer as events: read as it comes, within the time and the room that it may take. */

import type { AnswerDecoder } from "../../dialects/codec.ts";
import { GatewayError } from "../../errors.ts";
import { nextIteration } from "../../media/yield-to-event-loop.ts";
import { readText } from "./body.ts";
import { EventReader } from "./event-source.ts";
import { type Exchange, PhaseTimeout } from "./exchange.ts";
import { brokenOff } from "./failures.ts";
import type { RelayLimits, RelayTimeouts } from "./options.ts";
import type { UpstreamResponse } from "./transport.ts";

/** Events in the order of the answer. */
export interface Answer<Event> {
  /** The next ones, as many as have come; undefined at the end. */
  next(): Promise<readonly Event[] | undefined>;
}

export interface AnswerSource<Event> {
  readonly response: UpstreamResponse;
  readonly decoder: AnswerDecoder<Event>;
  /** Whether the answer is over with an event, though its stream is not. Asked once of each event, until one is. */
  readonly isFinish: (event: Event) => boolean;
  readonly exchange: Exchange;
  readonly timeouts: RelayTimeouts;
  readonly limits: RelayLimits;
}

/** How long a stream whose answer has finished may stay open, in milliseconds: some upstreams forget to close theirs. */
const LINGER_MS = 5_000;

/** From how many characters on a frame or a body takes some milliseconds to be walked over: others are served between two walks. */
const LARGE_CHARS = 128 * 1024;

export class StreamedAnswer<Event> implements Answer<Event> {
  readonly #source: AnswerSource<Event>;
  readonly #reader: EventReader;
  #isFirst = true;
  #isFinished = false;
  /** How much of the frames was decoded at one go, in characters. */
  #decodedChars = 0;
  /** What went wrong in a frame that came together with good ones, which are handed on before. */
  #error: { readonly thrown: unknown } | undefined;

  constructor(source: AnswerSource<Event>) {
    const { exchange, timeouts, limits } = source;
    this.#source = source;
    this.#reader = new EventReader(limits.maxEventChars);
    exchange.enter({ name: "first event", limitMs: timeouts.firstEventMs });
  }

  async next(): Promise<readonly Event[] | undefined> {
    const { response, decoder } = this.#source;
    // Of the pieces of a stream there are many: each is waited for once, and all else of it is done in one go.
    for (;;) {
      if (this.#error) throw this.#error.thrown;
      this.#reader.assertRoom();
      let piece: Uint8Array | undefined;
      try {
        piece = await response.read();
      } catch (error) {
        if (!this.#isOver) throw brokenOff(error);
      }
      if (!piece) {
        decoder.end();
        return undefined;
      }
      const events = this.#decoded(piece);
      // What is made of a large frame is a walk of its own, and so is what was just done.
      if (this.#decodedChars > LARGE_CHARS) await nextIteration();
      if (events.length > 0) return events;
    }
  }

  /** Whether an answer that has finished is kept open in vain, or has lost its connection: its stream may as well have ended. */
  get #isOver(): boolean {
    const { reason } = this.#source.exchange;
    const hasLingered = reason instanceof GatewayError && reason.cause instanceof PhaseTimeout;
    return this.#isFinished && (reason === undefined || hasLingered);
  }

  #decoded(piece: Uint8Array): readonly Event[] {
    const frames = this.#reader.feed(piece);
    const events: Event[] = [];
    this.#decodedChars = 0;
    if (frames.length === 0) return events;
    try {
      for (const { event, data } of frames) {
        this.#decodedChars += data.length;
        for (const decoded of this.#source.decoder.frame(event, data)) events.push(decoded);
      }
    } catch (thrown) {
      this.#error = { thrown };
    }
    this.#time(events);
    return events;
  }

  #time(events: readonly Event[]): void {
    // That it is there is not what its first event is waited for.
    if (this.#isFirst && events.length === 0) return;
    const { exchange, timeouts, isFinish } = this.#source;
    const wasFinished = this.#isFinished;
    this.#isFinished ||= events.some((event) => isFinish(event));
    const limitMs = this.#isFinished ? Math.min(LINGER_MS, timeouts.betweenEventsMs) : timeouts.betweenEventsMs;
    if (this.#isFirst || this.#isFinished !== wasFinished) exchange.enter({ name: "next event", limitMs });
    else if (!this.#isFinished) exchange.touch();
    this.#isFirst = false;
  }
}

export class CompleteAnswer<Event> implements Answer<Event> {
  readonly #source: AnswerSource<Event>;
  #isDone = false;

  constructor(source: AnswerSource<Event>) {
    this.#source = source;
    source.exchange.enter({ name: "next event", limitMs: source.timeouts.betweenEventsMs });
  }

  async next(): Promise<readonly Event[] | undefined> {
    if (this.#isDone) return undefined;
    this.#isDone = true;
    const { response, decoder, exchange, limits } = this.#source;
    let text: string;
    try {
      text = await readText(response, limits.maxBodyBytes, () => exchange.touch());
    } catch (error) {
      throw brokenOff(error);
    }
    const isLarge = text.length > LARGE_CHARS;
    if (isLarge) await nextIteration();
    const events = decoder.answer(text);
    if (isLarge) await nextIteration();
    return events;
  }
}
