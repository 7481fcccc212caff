/** What is noted about an answer beside its content: sources, ratings, probabilities. */

import type { HarmCategory } from "./chat.ts";

/** A note on one candidate. Where a note of a kind comes again, it replaces what came before, unless it says otherwise. */
export type Annotation =
  | { readonly type: "safety"; readonly ratings: readonly SafetyRating[] }
  /** Adds to the citations before. */
  | { readonly type: "citations"; readonly citations: readonly Citation[] }
  | ({ readonly type: "grounding" } & Grounding)
  /** Adds to the attributions before. */
  | { readonly type: "attributions"; readonly attributions: readonly Attribution[] }
  /** Adds to the steps before. */
  | ({ readonly type: "logprobs" } & Logprobs)
  | { readonly type: "retrieved-urls"; readonly urls: readonly string[] }
  | { readonly type: "url-context"; readonly urls: readonly RetrievedUrl[] }
  /** The tokens of the candidate alone. */
  | { readonly type: "token-count"; readonly tokens: number };

/** How likely content is to be harmful. */
export type HarmProbability = "unspecified" | "negligible" | "low" | "medium" | "high";

/** How harmful content was found to be, in one category. */
export interface SafetyRating {
  readonly category: HarmCategory;
  readonly probability: HarmProbability;
  /** Whether the content was blocked for it. */
  readonly blocked?: boolean;
}

/** What was found in a prompt. */
export interface PromptFeedback {
  /** Why the prompt was not answered. */
  readonly blockReason?: "unspecified" | "safety" | "other" | "blocklist" | "prohibited-content" | "unsafe-image";
  readonly ratings: readonly SafetyRating[];
}

/** A piece of the answer that stands word for word in a source; indices count bytes of the answer's text. */
export interface Citation {
  readonly start?: number;
  /** Exclusive. */
  readonly end?: number;
  readonly uri?: string;
  readonly license?: string;
}

/** What the answer rests on. */
export interface Grounding {
  readonly chunks?: readonly { readonly uri?: string; readonly title?: string }[];
  readonly supports?: readonly Support[];
  readonly searchQueries?: readonly string[];
  /** A search entry that the provider asks to be shown: HTML, and an opaque blob in base64. */
  readonly searchEntryPoint?: { readonly renderedContent?: string; readonly sdkBlob?: string };
  /** How likely a search would have helped, from 0 to 1. */
  readonly dynamicRetrievalScore?: number;
}

/** Which chunks support a segment of the answer. */
export interface Support {
  readonly chunkIndices?: readonly number[];
  /** From 0 to 1, one for each chunk. */
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

/** Log probabilities, a step a token. */
export interface Logprobs {
  readonly chosen: readonly Logprob[];
  /** The most likely tokens of each step. */
  readonly top: readonly (readonly Logprob[])[];
  /** The mean over the chosen tokens. */
  readonly average?: number;
}

/** A token and how likely it was. */
export interface Logprob {
  readonly token: string;
  readonly tokenId?: number;
  readonly logProbability: number;
}

/** An address that the model has looked at. */
export interface RetrievedUrl {
  readonly url: string;
  readonly status: "unspecified" | "success" | "error";
}
