/** Reads generate-content answers as an upstream's, from text that was cut anywhere, to what they mean. */

import { createParser } from "eventsource-parser";
import { GenerateContentDecoder } from "../../src/formats/generate-content/answer.decode.ts";
import type { ChatEvent } from "../../src/index.ts";

/** What native events mean; the others as they are. */
const meant = (events: readonly ChatEvent[]): ChatEvent[] =>
  events.flatMap((event): readonly ChatEvent[] => (event.type === "native" ? event.events : [event]));

/** The events of a complete answer. */
export const decodeAnswer = (body: unknown): ChatEvent[] =>
  meant(new GenerateContentDecoder().answer(JSON.stringify(body)));

/** The events of a stream. What is thrown comes once all events before it were given: at the next call. */
export class StreamDecoder {
  readonly #answer = new GenerateContentDecoder();
  #events: ChatEvent[] = [];
  #failure: { readonly error: unknown } | undefined;
  readonly #parser = createParser({ onEvent: ({ event, data }) => this.#read(event, data) });

  feed(text: string): ChatEvent[] {
    if (this.#failure) throw this.#failure.error;
    this.#parser.feed(text);
    return this.#events.splice(0);
  }

  end(): ChatEvent[] {
    const last = this.feed("\n\n");
    if (this.#failure) throw this.#failure.error;
    this.#answer.end();
    return last;
  }

  #read(event: string | undefined, data: string): void {
    if (this.#failure) return;
    try {
      this.#events.push(...meant(this.#answer.frame(event, data)));
    } catch (error) {
      this.#failure = { error };
    }
  }
}
