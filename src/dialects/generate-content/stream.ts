/** The generate-content stream (spec 6.2): neutral events to the chunks of an answer. */

import type { ChatRequest } from "../../model/chat.ts";
import type { AnswerEvent } from "../../model/event.ts";
import type { AnswerContext } from "../dialect.ts";
import { answerId } from "../shared/answer-id.ts";
import { encodeFeedback, encodeUsage } from "./response.ts";
import type { Candidate, GenerateContentResponse } from "./schema.answer.ts";
import { DIALECT } from "./schema.base.ts";
import { FINISH_REASON } from "./schema.enums.ts";
import { CandidateWriter } from "./stream.candidate.ts";

type Finish = Extract<AnswerEvent, { type: "finish" }>;

/** Makes the chunks of one answer, whatever the order of its events. */
export class StreamEncoder {
  readonly #request: ChatRequest;
  readonly #candidates: Map<number, CandidateWriter> = new Map();
  #id: string;
  #model: string;
  #feedback: GenerateContentResponse["promptFeedback"];
  #answered = false;

  constructor({ request, requestId }: AnswerContext) {
    this.#request = request;
    // Ids of the gateway's answers follow its request ids, so that one finds the other.
    this.#id = requestId.replace(/^req_/, "resp_");
    this.#model = request.model;
  }

  /** What an event adds. Throws `backend_failed` for one that the format cannot say. */
  chunks(event: AnswerEvent): GenerateContentResponse[] {
    switch (event.type) {
      case "start":
        this.#id = answerId(event, DIALECT, this.#id);
        this.#model = event.model;
        return [];
      case "prompt-feedback":
        this.#feedback = encodeFeedback(event);
        return [];
      case "finish":
        return this.#finish(event);
      case "native":
        return event.means.flatMap((meant) => this.chunks(meant));
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
    if (!writer) this.#candidates.set(index, (writer = new CandidateWriter(this.#request)));
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
