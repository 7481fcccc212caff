/** What a backend yields while it answers: one union, for streamed and complete answers alike. */

import type { Annotation, PromptFeedback } from "./annotation.ts";
import type { CodeLanguage, CodeOutcome, WireObject } from "./chat.ts";
import type { JsonObject } from "./json.ts";
import type { Usage } from "./usage.ts";

/**
 * Why an answer ended. `pause`: the provider paused a long turn; sent back as it is, it goes on. `refusal`: the model declined.
 * `context-window`: the model's window was full before the output limit. `content-filter`: it was, or would have become, unsafe;
 * the reasons after it say more exactly what a filter found, or that a tool call could not be read.
 */
export type FinishReason =
  | "stop"
  | "stop-sequence"
  | "length"
  | "tool-calls"
  | "pause"
  | "refusal"
  | "context-window"
  | "content-filter"
  | "recitation"
  | "language"
  | "blocklist"
  | "prohibited-content"
  | "personal-data"
  | "unsafe-image"
  | "malformed-tool-call"
  | "other";

/** The answer begins. Optional: where it is missing, the gateway names the answer itself. */
export interface StartEvent {
  readonly type: "start";
  /** The upstream's identifier of this answer. */
  readonly id?: string;
  /** The model that answers, where it is more exact than the one asked for. */
  readonly model?: string;
  readonly usage?: Partial<Usage>;
}

/** Of which candidate an event is, where a request asks for several; absent is the first, 0. */
interface OfCandidate {
  readonly candidate?: number;
}

/** A signature that seals the reasoning behind what it stands on. */
interface Signed {
  readonly signature?: string;
}

/**
 * The answer, or one candidate of it, is over. Optional: where it is missing, the end of the iteration is the end of every
 * candidate.
 */
export interface FinishEvent extends OfCandidate {
  readonly type: "finish";
  readonly reason: FinishReason;
  /** Which of the request's stop sequences ended the answer. */
  readonly stopSequence?: string;
  readonly usage?: Partial<Usage>;
}

/** A frame of a stream as a provider sent it: its data, and the event name beside it, where its format has names. */
export interface NativeFrame {
  readonly event?: string;
  /** One frame's data, untouched. */
  readonly data: string;
}

/**
 * A piece of an answer in its provider's own format, and what it means. An encoder of the same dialect passes `frames` (or, of a
 * complete answer, `body`) on untouched; any other encodes what it means. What is counted and charged is what it means.
 */
export type NativeEvent = {
  readonly type: "native";
  readonly dialect: string;
  readonly means: readonly Exclude<ChatEvent, NativeEvent>[];
  /**
   * Tells, once, the fields of it that `means` has no words for, as keys with dots between. It is asked where the answer crosses into
   * another format.
   */
  readonly unsaid?: () => readonly string[];
} & (
  | { readonly frames: readonly NativeFrame[]; readonly body?: never }
  | { readonly body: string; readonly frames?: never }
);

/**
 * A step of an answer. Text and reasoning deltas extend what came before them; tool deltas name their call, and calls
 * may run in parallel. A call that arrives whole is one `tool-call`; one that arrives in pieces is a `tool-call-start`,
 * its `tool-call-delta`s (fragments of the JSON of its arguments) and a `tool-call-end`. The sooner a call ends, the
 * sooner what follows it can be written. Formats that cannot say an event leave it out, or say it in text.
 */
export type ChatEvent =
  | StartEvent
  | ContentEvent
  /** What was found in the prompt; with a reason to block it, there is no answer. */
  | ({ readonly type: "prompt-feedback" } & PromptFeedback)
  /** Counts so far; cumulative, so a later report replaces an earlier one. */
  | { readonly type: "usage"; readonly usage: Partial<Usage> }
  | FinishEvent
  | NativeEvent;

/** The events that an answer's content is made of, and what is noted about it. */
export type ContentEvent = OfCandidate &
  /** `block` tells blocks apart that follow one another: a delta of another block begins a new one. */
  (
    | ({ readonly type: "text-delta"; readonly text: string; readonly block?: string } & Signed)
    | { readonly type: "reasoning-delta"; readonly text: string; readonly block?: string }
    /** The words with which the model declines, where its format keeps them apart from the answer's text. */
    | { readonly type: "refusal-delta"; readonly text: string }
    /** A block that only one provider's format knows, whole: a tool that ran on its side, what came of it. */
    | { readonly type: "provider"; readonly dialect: string; readonly value: WireObject }
    /** Ends the reasoning so far and seals it. */
    | { readonly type: "reasoning-signature"; readonly signature: string }
    | { readonly type: "redacted-reasoning"; readonly data: string }
    | ({ readonly type: "tool-call"; readonly id: string; readonly name: string; readonly input: JsonObject } & Signed)
    | ({ readonly type: "tool-call-start"; readonly id: string; readonly name: string } & Signed)
    | { readonly type: "tool-call-delta"; readonly id: string; readonly json: string }
    /** A signature that came only when the call was whole. */
    | ({ readonly type: "tool-call-end"; readonly id: string } & Signed)
    /** A picture or a sound, whole, in base64. `thought`: made while reasoning, not as the answer. */
    | ({
        readonly type: "media";
        readonly mediaType: string;
        readonly data: string;
        readonly thought?: boolean;
      } & Signed)
    /** Code that is run on the model's side, and then what came of it. */
    | ({ readonly type: "code"; readonly id?: string; readonly language: CodeLanguage; readonly code: string } & Signed)
    | ({
        readonly type: "code-result";
        readonly id?: string;
        readonly outcome: CodeOutcome;
        readonly output?: string;
      } & Signed)
    | { readonly type: "annotation"; readonly annotation: Annotation }
  );

/** How one candidate ended. */
export interface Ending {
  readonly candidate: number;
  readonly reason: FinishReason;
  readonly stopSequence: string | undefined;
}

/**
 * An answer as the metering hands it to a dialect: exactly one complete start, content, exactly one complete finish.
 */
export type AnswerEvent =
  | {
      readonly type: "start";
      readonly id: string | undefined;
      readonly model: string;
      readonly usage: Usage;
      /** The dialect whose own frames follow, the first of them this start's. */
      readonly native?: string;
    }
  | ContentEvent
  /** A piece of the answer's content in its provider's own format. */
  | NativeAnswerEvent
  | ({ readonly type: "prompt-feedback" } & PromptFeedback)
  | {
      readonly type: "finish";
      /** Every candidate's, by its number from 0; always the first's. */
      readonly endings: readonly [Ending, ...Ending[]];
      readonly usage: Usage;
      /** The end in its provider's own format: the last frames, or the whole body of a complete answer. */
      readonly native?: NativeEnding;
    };

/** A piece of the answer in its provider's own format, with the content that it means. */
export interface NativeAnswerEvent {
  readonly type: "native";
  readonly dialect: string;
  /** Missing where the piece belongs to the answer's end, which is written when it is settled: `finish` has it then. */
  readonly frames?: readonly NativeFrame[];
  /** Whether it is a complete answer, whose body the finish has. */
  readonly isWhole?: boolean;
  readonly means: readonly (ContentEvent | ({ readonly type: "prompt-feedback" } & PromptFeedback))[];
  /** Tells, once, the fields of it that `means` has no words for. */
  readonly unsaid?: () => readonly string[];
}

export interface NativeEnding {
  readonly dialect: string;
  readonly frames: readonly NativeFrame[];
  readonly body: string | undefined;
}
