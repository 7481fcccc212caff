/** What a backend yields while it answers: one union, for streamed and complete answers alike. */

import type { JsonObject } from "./json.ts";
import type { Usage } from "./usage.ts";

/** Why an answer ended. */
export type FinishReason = "stop" | "stop-sequence" | "length" | "tool-calls" | "content-filter";

/** The answer begins. Optional: where it is missing, the gateway names the answer itself. */
export interface StartEvent {
  readonly type: "start";
  /** The upstream's identifier of this answer. */
  readonly id?: string;
  /** The model that answers, where it is more exact than the one asked for. */
  readonly model?: string;
  readonly usage?: Partial<Usage>;
}

/** The answer is over. Optional: where it is missing, the end of the iteration is the end of the answer. */
export interface FinishEvent {
  readonly type: "finish";
  readonly reason: FinishReason;
  /** Which of the request's stop sequences ended the answer. */
  readonly stopSequence?: string;
  readonly usage?: Partial<Usage>;
}

/**
 * A step of an answer. Text and reasoning deltas extend what came before them; tool deltas name their call, and calls
 * may run in parallel. A call that arrives whole is one `tool-call`; one that arrives in pieces is a `tool-call-start`,
 * its `tool-call-delta`s (fragments of the JSON of its arguments) and a `tool-call-end`. The sooner a call ends, the
 * sooner what follows it can be written.
 */
export type ChatEvent =
  | StartEvent
  | { readonly type: "text-delta"; readonly text: string }
  | { readonly type: "reasoning-delta"; readonly text: string }
  /** Ends the reasoning so far and seals it. */
  | { readonly type: "reasoning-signature"; readonly signature: string }
  | { readonly type: "redacted-reasoning"; readonly data: string }
  | { readonly type: "tool-call"; readonly id: string; readonly name: string; readonly input: JsonObject }
  | { readonly type: "tool-call-start"; readonly id: string; readonly name: string }
  | { readonly type: "tool-call-delta"; readonly id: string; readonly json: string }
  | { readonly type: "tool-call-end"; readonly id: string }
  /** Counts so far; cumulative, so a later report replaces an earlier one. */
  | { readonly type: "usage"; readonly usage: Partial<Usage> }
  | FinishEvent;

/** The events between start and finish, which an answer's content is made of. */
export type ContentEvent = Exclude<ChatEvent, { type: "start" | "usage" | "finish" }>;

/**
 * An answer as the metering hands it to a dialect: exactly one complete start, content, exactly one complete finish.
 */
export type AnswerEvent =
  | { readonly type: "start"; readonly id: string | undefined; readonly model: string; readonly usage: Usage }
  | ContentEvent
  | {
      readonly type: "finish";
      readonly reason: FinishReason;
      readonly stopSequence: string | undefined;
      readonly usage: Usage;
    };
