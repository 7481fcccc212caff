/** The events of a chat answer. Streamed and complete answers have the same events. */

import type { HarmCategory, CodeLanguage, CodeOutcome, WireObject } from "./chat-request.ts";
import type { JsonObject } from "./json.ts";
import type { Usage } from "./usage.ts";

/**
 * Information about one candidate, such as sources, ratings and log probabilities. A later annotation replaces an earlier one of the same
 * type, unless its comment says that it adds to the earlier ones.
 */
export type Annotation =
  | { readonly type: "safety"; readonly ratings: readonly SafetyRating[] }
  /** Adds to the earlier citations. */
  | ({ readonly type: "citations"; readonly citations: readonly Citation[] } & OfProvider)
  | ({ readonly type: "grounding" } & Grounding & OfProvider)
  /** Adds to the earlier attributions. */
  | { readonly type: "attributions"; readonly attributions: readonly Attribution[] }
  /** Adds to the earlier steps. */
  | ({ readonly type: "logprobs" } & Logprobs)
  | { readonly type: "retrieved-urls"; readonly urls: readonly string[] }
  | { readonly type: "url-context"; readonly urls: readonly RetrievedUrl[] }
  /** The number of output tokens of this candidate. */
  | { readonly type: "token-count"; readonly tokens: number };

/** An annotation in its provider's own format, too. An encoder of this format writes it as it is, in place of what the neutral words say. */
interface OfProvider {
  readonly native?: {
    readonly format: string;
    /** The annotations of the block of text before this event. */
    readonly values: readonly WireObject[];
    /** True for values with places in the answer's text: they are wrong once other text stands before it. */
    readonly hasPlaces?: true;
  };
}

/** The probability that content is harmful. */
export type HarmProbability = "unspecified" | "negligible" | "low" | "medium" | "high";

/** The rating of content in one category of harm. */
export interface SafetyRating {
  readonly category: HarmCategory;
  readonly probability: HarmProbability;
  /** True when the content was blocked for this category. */
  readonly blocked?: boolean;
}

/** The rating of a prompt. */
export interface PromptFeedback {
  /** The reason why the prompt was not answered. */
  readonly blockReason?: "unspecified" | "safety" | "other" | "blocklist" | "prohibited-content" | "unsafe-image";
  readonly ratings: readonly SafetyRating[];
}

/** A piece of the answer that is copied from a source, or that a source supports. Indices count bytes of the answer's text. */
export interface Citation {
  readonly start?: number;
  /** The index after the last byte. */
  readonly end?: number;
  readonly uri?: string;
  /** The title of the source. */
  readonly title?: string;
  /** The passage of the source, as the provider quotes it. */
  readonly quote?: string;
  readonly license?: string;
}

/** The sources of an answer. */
export interface Grounding {
  readonly chunks?: readonly { readonly uri?: string; readonly title?: string }[];
  readonly supports?: readonly Support[];
  readonly searchQueries?: readonly string[];
  /** The search box that the provider requires to be shown: HTML, and an opaque blob in base64. */
  readonly searchEntryPoint?: { readonly renderedContent?: string; readonly sdkBlob?: string };
  /** The probability that a search helps, from 0 to 1. */
  readonly dynamicRetrievalScore?: number;
}

/** The chunks that support a segment of the answer. */
export interface Support {
  readonly chunkIndices?: readonly number[];
  /** A score from 0 to 1 for each chunk. */
  readonly confidenceScores?: readonly number[];
  readonly segment?: Segment;
}

/** A piece of a part of the answer; indices count bytes. */
export interface Segment {
  readonly partIndex?: number;
  readonly start?: number;
  readonly end?: number;
  readonly text?: string;
}

/** A passage that contributed to the answer. */
export interface Attribution {
  readonly passage?: { readonly id?: string; readonly partIndex?: number };
  readonly chunk?: { readonly source?: string; readonly chunk?: string };
  /** The passage's text. */
  readonly text?: string;
}

/** Log probabilities, with a step for each token. */
export interface Logprobs {
  readonly chosen: readonly Logprob[];
  /** The most likely tokens at each step. */
  readonly top: readonly (readonly Logprob[])[];
  /** The mean over the chosen tokens. */
  readonly average?: number;
}

/** A token and its log probability. */
export interface Logprob {
  readonly token: string;
  readonly tokenId?: number;
  readonly logProbability: number;
}

/** An address that the model has read. */
export interface RetrievedUrl {
  readonly url: string;
  readonly status: "unspecified" | "success" | "error";
}

/**
 * The reason why an answer ended.
 * - `pause`: the provider paused a long turn. To continue the turn, the caller sends it back unchanged.
 * - `refusal`: the model declined.
 * - `context-window`: the model's window was full before the output limit was reached.
 * - `content-filter`: a filter found unsafe content, or content that was about to become unsafe. The reasons from `recitation` to
 *   `unsafe-image` name more exactly what a filter found.
 * - `malformed-tool-call`: a tool call could not be read.
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

/** The start of an answer. Optional: without it, the gateway chooses the answer's id. */
export interface StartEvent {
  readonly type: "start";
  /** The upstream's identifier of this answer. */
  readonly id?: string;
  /** The answering model, when its name is more exact than the requested one. */
  readonly model?: string;
  /** The upstream's name of the answering model, where `model` is the name that callers use. Prices go by this name. Default: `model`. */
  readonly upstreamModel?: string;
  /**
   * The maker of the answer, as its signatures name it: a wire format, or another name. A messages client then keeps a mark of a turn
   * without reasoning that no upstream of messages has written. Default: the format of `native` events, and nobody for other events.
   */
  readonly maker?: string;
  readonly usage?: Partial<Usage>;
}

/** An event of one candidate. */
interface OfCandidate {
  /** The number of the candidate, for a request that asks for several. Default: 0, the first. */
  readonly candidate?: number;
}

/** A signature of the reasoning that led to the event. */
interface OfSignature {
  readonly signature?: string;
  /** The maker of the signature: the wire format of its upstream, or the name of a provider. */
  readonly maker?: string;
}

/** The end of the answer, or of one candidate. Optional: without it, each candidate ends when the iteration ends. */
export interface FinishEvent extends OfCandidate {
  readonly type: "finish";
  readonly reason: FinishReason;
  /** The stop sequence that ended the answer. */
  readonly stopSequence?: string;
  readonly usage?: Partial<Usage>;
}

/** A frame of a stream, as a provider sent it. */
export interface NativeFrame {
  /** The name of the event, in formats that name events. */
  readonly event?: string;
  /** The data, unchanged. */
  readonly data: string;
}

/** Names the text of a run at its list of frames. A host's backend that changes frames makes another list, without the name. */
const TEXT: unique symbol = Symbol("text");

type Frames = readonly NativeFrame[] & { [TEXT]?: string };

/**
 * Returns the citations of an annotation. A source that supports several pieces of the text has a citation for each of them, and a source
 * that supports none has one without a place.
 */
export function citationsIn(annotation: Annotation): readonly Citation[] {
  if (annotation.type === "citations") return annotation.citations;
  if (annotation.type !== "grounding") return [];
  const { chunks = [], supports = [] } = annotation;
  const cited: Citation[] = [];
  const named = new Set<number>();
  for (const { chunkIndices = [], segment } of supports) {
    // A segment of a later part has its place in that part, not in the text of the answer.
    const { partIndex = 0, start = 0, end } = segment ?? {};
    if (partIndex > 0 || end === undefined) continue;
    for (const index of chunkIndices) {
      const chunk = chunks[index];
      if (!chunk) continue;
      named.add(index);
      cited.push({ ...chunk, start, end });
    }
  }
  for (const [index, chunk] of chunks.entries()) if (!named.has(index)) cited.push(chunk);
  return cited;
}

/** Moves the places in an annotation by so many bytes, behind other text of the same answer. Drops the places of the provider's own format. */
export function movedBy({ ...annotation }: Annotation, bytes: number): Annotation {
  if ("native" in annotation && annotation.native?.hasPlaces) delete annotation.native;
  const moved = <Place extends { readonly start?: number; readonly end?: number }>(place: Place): Place => ({
    ...place,
    ...(place.start !== undefined && { start: place.start + bytes }),
    ...(place.end !== undefined && { end: place.end + bytes }),
  });
  if (annotation.type === "citations") return { ...annotation, citations: annotation.citations.map(moved) };
  if (annotation.type !== "grounding" || !annotation.supports) return annotation;
  const supports = annotation.supports.map(({ segment, ...support }) => ({
    ...support,
    // The official service leaves out a start of 0. A segment of a later part has its place in that part.
    ...(segment && {
      segment: segment.end === undefined || segment.partIndex ? segment : moved({ start: 0, ...segment }),
    }),
  }));
  return { ...annotation, supports };
}

/** Names the maker of an answer or of its signature, which only the frames around the event have named. */
export function withMaker(event: NativeEvent["events"][number], maker: string): NativeEvent["events"][number] {
  if ("maker" in event && event.maker !== undefined) return event;
  const isSigned = event.type === "redacted-reasoning" || ("signature" in event && event.signature !== undefined);
  return isSigned || event.type === "start" ? { ...event, maker } : event;
}

/** Notes the text in which a run of frames is written: frames of a stream in which nothing but a text goes on. */
export function noteRun(frames: Frames, text: string): void {
  frames[TEXT] = text;
}

/** Returns the text of a run of frames; undefined for any other frames. */
export const textOfRun = (frames: Frames): string | undefined => frames[TEXT];

/**
 * A piece of an answer in its provider's own format, together with neutral events of the same content. An encoder of the same format passes
 * `frames`, each `{ event?, data }`, on unchanged, or the `body` of a complete answer. An encoder of another format encodes `events`. Only `events` are counted.
 */
export type NativeEvent = {
  readonly type: "native";
  readonly format: string;
  readonly events: readonly Exclude<ChatEvent, NativeEvent>[];
  /**
   * Returns the fields of the piece that `events` cannot express, as keys joined by dots. Each field is returned only once for an answer.
   * Called when the answer is converted into another format.
   */
  readonly unsupported?: () => readonly string[];
} & (
  | { readonly frames: readonly NativeFrame[]; readonly body?: never }
  | { readonly body: string; readonly frames?: never }
);

/**
 * A step of an answer. Text and reasoning deltas extend the text before them. A tool call is either one `tool-call`, or a
 * `tool-call-start`, its `tool-call-delta`s (fragments of the JSON of its arguments) and a `tool-call-end`. Calls may overlap, so each
 * delta names its call. End each call early: some formats cannot send later content before the call has ended. A format that cannot express
 * an event leaves it out, or writes it as text.
 */
export type ChatEvent =
  | StartEvent
  | ContentEvent
  /** The rating of the prompt. With a `blockReason`, there is no answer. */
  | ({ readonly type: "prompt-feedback" } & PromptFeedback)
  /**
   * The counts so far. A later report replaces an earlier one. `model`: the upstream's name of another model, which goes on with the answer, as
   * after a fallback.
   */
  | { readonly type: "usage"; readonly usage: Partial<Usage>; readonly model?: string }
  | FinishEvent
  | NativeEvent;

/** The content of an answer, and the annotations of the content. */
export type ContentEvent = OfCandidate &
  /** `block` separates blocks: a delta begins a new block when its `block` differs from that of the delta before it. */
  (
    | ({ readonly type: "text-delta"; readonly text: string; readonly block?: string } & OfSignature)
    | { readonly type: "reasoning-delta"; readonly text: string; readonly block?: string }
    /** The text of a refusal, in formats that separate a refusal from the answer's text. */
    | { readonly type: "refusal-delta"; readonly text: string }
    /** A complete block that only one provider's format has, such as a tool that ran at the provider, or its result. */
    | { readonly type: "provider"; readonly format: string; readonly value: WireObject }
    /** Ends a block of reasoning with its signature. */
    | { readonly type: "reasoning-signature"; readonly signature: string; readonly maker?: string }
    | { readonly type: "redacted-reasoning"; readonly data: string; readonly maker?: string }
    | ({
        readonly type: "tool-call";
        readonly id: string;
        readonly name: string;
        readonly input: JsonObject;
      } & OfSignature)
    | ({ readonly type: "tool-call-start"; readonly id: string; readonly name: string } & OfSignature)
    | { readonly type: "tool-call-delta"; readonly id: string; readonly json: string }
    /** The end of a tool call. The signature is set if the provider sent it only at the end. */
    | ({ readonly type: "tool-call-end"; readonly id: string } & OfSignature)
    /** A complete picture or sound, in base64. `thought`: a part of the reasoning, not of the answer. */
    | ({
        readonly type: "media";
        readonly mediaType: string;
        readonly data: string;
        readonly thought?: boolean;
      } & OfSignature)
    /** Code that the model wrote. The backend or the provider runs it, not the caller. */
    | ({
        readonly type: "code";
        readonly id?: string;
        readonly language: CodeLanguage;
        readonly code: string;
      } & OfSignature)
    /** The result of the code before it. */
    | ({
        readonly type: "code-result";
        readonly id?: string;
        readonly outcome: CodeOutcome;
        readonly output?: string;
      } & OfSignature)
    | { readonly type: "annotation"; readonly annotation: Annotation }
  );

/** The end of one candidate. */
export interface Ending {
  readonly candidate: number;
  readonly reason: FinishReason;
  readonly stopSequence: string | undefined;
}

/**
 * An event that the meter passes on to the encoders of formats. An answer has exactly one start, then content, then exactly one finish. All
 * counts of the start and the finish are set.
 */
export type AnswerEvent =
  | {
      readonly type: "start";
      readonly id: string | undefined;
      readonly model: string;
      readonly usage: Usage;
      /** The wire format of the native frames that follow, if any. The first frame contains the start of the answer. */
      readonly native?: string;
      /** The maker of the answer, if known. */
      readonly maker?: string;
    }
  | ContentEvent
  | NativeAnswerEvent
  | ({ readonly type: "prompt-feedback" } & PromptFeedback)
  | {
      readonly type: "finish";
      /** The end of each candidate, by its number from 0: `{ candidate, reason, stopSequence }`. */
      readonly endings: readonly [Ending, ...Ending[]];
      readonly usage: Usage;
      /** The end in its provider's own format: the last frames, or the body of a complete answer. */
      readonly native?: NativeEnding;
    };

/** A piece of the answer in its provider's own format, together with neutral events of the same content. */
export interface NativeAnswerEvent {
  readonly type: "native";
  readonly format: string;
  /** Absent for the last frames, which are written only after the call is settled: `finish` has them. */
  readonly frames?: readonly NativeFrame[];
  /** True for a complete answer. `finish` has its body. */
  readonly isWhole?: boolean;
  readonly events: readonly (ContentEvent | ({ readonly type: "prompt-feedback" } & PromptFeedback))[];
  /** Returns the fields that `events` cannot express. Each field is returned only once for an answer. */
  readonly unsupported?: () => readonly string[];
}

interface NativeEnding {
  readonly format: string;
  readonly frames: readonly NativeFrame[];
  readonly body: string | undefined;
}
