/** The generate-content stream (spec 6.2): neutral events to chunks, chunks to the lines of a stream, and back. */

import { createParser } from "eventsource-parser";
import { GatewayError } from "../../errors.ts";
import type { AnswerEvent, ChatEvent } from "../../model/event.ts";
import type { AnswerContext } from "../dialect.ts";
import type { GenerateContentErrorBody } from "./errors.ts";
import { AnswerDecoder } from "./response.decode.ts";
import { encodeFeedback, encodeUsage } from "./response.ts";
import type { Candidate, GenerateContentResponse } from "./schema.answer.ts";
import { FINISH_REASON } from "./schema.enums.ts";
import { CandidateWriter } from "./stream.candidate.ts";

type Finish = Extract<AnswerEvent, { type: "finish" }>;

/** Makes the chunks of one answer, whatever the order of its events. */
export class StreamEncoder {
  readonly #showsThoughts: boolean;
  readonly #candidates: Map<number, CandidateWriter> = new Map();
  #id: string;
  #model: string;
  #feedback: GenerateContentResponse["promptFeedback"];
  #answered = false;

  constructor({ request, requestId }: AnswerContext) {
    this.#showsThoughts = request.reasoning?.type === "disabled" || request.reasoning?.visible !== false;
    // Ids of the gateway's answers follow its request ids, so that one finds the other.
    this.#id = requestId.replace(/^req_/, "resp_");
    this.#model = request.model;
  }

  /** What an event adds. Throws `backend_failed` for one that the format cannot say. */
  chunks(event: AnswerEvent): GenerateContentResponse[] {
    switch (event.type) {
      case "start":
        this.#id = event.id ?? this.#id;
        this.#model = event.model;
        return [];
      case "prompt-feedback":
        this.#feedback = encodeFeedback(event);
        return [];
      case "finish":
        return this.#finish(event);
      default: {
        const index = event.candidate ?? 0;
        const writer = this.#writer(index);
        writer.write(event);
        return this.#content(index, writer);
      }
    }
  }

  #writer(index: number): CandidateWriter {
    let writer = this.#candidates.get(index);
    if (!writer) this.#candidates.set(index, (writer = new CandidateWriter(this.#showsThoughts)));
    return writer;
  }

  #content(index: number, writer: CandidateWriter): GenerateContentResponse[] {
    const parts = writer.take();
    if (parts.length === 0) return [];
    this.#answered = true;
    return [this.#chunk({ candidates: [{ content: { role: "model", parts }, index }] })];
  }

  /** What was kept back, and the chunk that holds the ends of all candidates and the counts together. */
  #finish({ endings, usage }: Finish): GenerateContentResponse[] {
    const kept = endings.flatMap(({ candidate, reason }) => {
      const writer = this.#writer(candidate);
      writer.end(reason);
      return this.#content(candidate, writer);
    });
    const usageMetadata = encodeUsage(usage);
    const blocked = this.#feedback?.blockReason != null && !this.#answered;
    if (blocked) return [this.#chunk({ usageMetadata })];
    const candidates = endings.map(({ candidate, reason }): Candidate => ({
      content: { role: "model", parts: [{ text: "" }] },
      finishReason: FINISH_REASON[reason],
      index: candidate,
      ...this.#writer(candidate).notes,
    }));
    return [...kept, this.#chunk({ candidates, usageMetadata })];
  }

  #chunk(fields: GenerateContentResponse): GenerateContentResponse {
    const promptFeedback = this.#feedback;
    // Said once, with the first chunk after it.
    this.#feedback = undefined;
    return { ...fields, ...(promptFeedback && { promptFeedback }), modelVersion: this.#model, responseId: this.#id };
  }
}

type Framed = GenerateContentResponse | GenerateContentErrorBody;

// Line breaks of Unicode that JSON leaves alone, and that some clients take for the end of a line.
const lineOf = (value: Framed): string =>
  JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

/** How chunks become the text of a stream. */
export interface Framer {
  readonly contentType: string;
  readonly keepAlive: string;
  chunk(chunk: Framed): string;
  /** What stands after the last chunk. */
  end(): string;
}

/** Nothing but `data:` lines: event names, comments and a closing mark each break some client. */
export const sseFramer = (): Framer => ({
  contentType: "text/event-stream; charset=utf-8",
  keepAlive: "data: {}\n\n",
  chunk: (chunk) => `data: ${lineOf(chunk)}\n\n`,
  end: () => "",
});

/** One JSON array, element by element. */
export function arrayFramer(): Framer {
  let begun = false;
  return {
    contentType: "application/json; charset=utf-8",
    keepAlive: "\n",
    chunk(chunk) {
      const before = begun ? ",\n" : "[";
      begun = true;
      return before + lineOf(chunk);
    },
    end: () => (begun ? "]" : "[]"),
  };
}

/** An answer's stream of SSE back to events, from text that was cut anywhere. */
export class StreamDecoder {
  readonly #answer = new AnswerDecoder();
  #events: ChatEvent[] = [];
  #failure: { readonly error: unknown } | undefined;
  readonly #parser = createParser({ onEvent: ({ data }) => this.#read(data) });

  /**
   * The events that a piece of text completes. Throws `backend_failed` for what is no answer, or the upstream's own error,
   * once all events before it were given: at the next call.
   */
  feed(text: string): ChatEvent[] {
    this.#assertWhole();
    this.#parser.feed(text);
    return this.#take();
  }

  /** The last events. Throws what `feed` throws, and `backend_failed` when the stream broke off before its answer had ended. */
  end(): ChatEvent[] {
    // The last line of a stream may lack its end.
    this.#parser.feed("\n\n");
    this.#assertWhole();
    if (!this.#answer.ended) throw new GatewayError("backend_failed", "The model backend's answer broke off.");
    return this.#take();
  }

  #read(data: string): void {
    if (this.#failure) return;
    try {
      for (const event of this.#answer.events(parsed(data))) this.#events.push(event);
    } catch (error) {
      this.#failure = { error };
    }
  }

  #assertWhole(): void {
    if (this.#failure) throw this.#failure.error;
  }

  #take(): ChatEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new GatewayError("backend_failed", "The model backend's answer is not valid JSON.", { cause });
  }
}
