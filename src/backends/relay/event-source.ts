/** Reads an answer's server-sent events, wherever its bytes were cut. */

import { createParser, type EventSourceMessage, type EventSourceParser } from "eventsource-parser";
import { tooLarge } from "./body.ts";

export class EventReader {
  readonly #maxChars: number;
  readonly #parser: EventSourceParser;
  readonly #text: TextDecoder = new TextDecoder();
  #events: EventSourceMessage[] = [];
  #isTooLarge = false;

  /** @param maxChars The longest that one event may be, in characters. */
  constructor(maxChars: number) {
    this.#maxChars = maxChars;
    this.#parser = createParser({
      maxBufferSize: maxChars,
      onEvent: (event) => void this.#events.push(event),
      onError: ({ type }) => {
        this.#isTooLarge ||= type === "max-buffer-size-exceeded";
      },
    });
  }

  /** The events that end in the next piece. */
  feed(piece: Uint8Array): readonly EventSourceMessage[] {
    this.#parser.feed(this.#text.decode(piece, { stream: true }));
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }

  /** Throws `backend_failed` once an event was too long: asked behind the events that came before it. */
  assertRoom(): void {
    if (this.#isTooLarge) throw tooLarge(`An event of the upstream's is longer than ${this.#maxChars} characters.`);
  }
}
