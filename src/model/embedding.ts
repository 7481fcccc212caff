/** An embedding request and its events, independent of wire formats. */

import type { DocumentPart, MediaPart, NativeRequest, TextPart } from "./chat-request.ts";
import type { ModalityCount, NativeUsage } from "./usage.ts";

/** The name of this kind. */
export const EMBEDDING = "embedding";

/** A request for the vectors of its inputs. The backend chooses the value of an absent field. */
export interface EmbeddingRequest {
  /** The model that the caller asked for. */
  readonly model: string;
  /** The inputs, in order: at least one, and at most 2,048. */
  readonly inputs: readonly EmbeddingInput[];
  /** The length of each vector, from 1 to 65,536. */
  readonly dimensions?: number;
  /** The use of the vectors. */
  readonly taskType?: EmbeddingTask;
  /** The length of each input's vector, in the order of the inputs, where they differ. `dimensions` is then absent. */
  readonly inputDimensions?: readonly (number | undefined)[];
  /** The use of each input's vector, in the order of the inputs, where they differ. `taskType` is then absent. */
  readonly taskTypes?: readonly (EmbeddingTask | undefined)[];
  /** The titles of the inputs, in the order of the inputs. An input without a title has `undefined`. */
  readonly titles?: readonly (string | undefined)[];
  /** An opaque identifier of the end user, for abuse monitoring. */
  readonly endUser?: string;
  /** The request as it arrived, for a backend that speaks the caller's format. */
  readonly native?: NativeRequest;
}

/** A text, a list of token ids, or content with files. Each input gets one vector. */
export type EmbeddingInput = string | readonly number[] | EmbeddingContent;

/** Content with files, perhaps beside texts. Only callers of generate-content can send such content. */
export interface EmbeddingContent {
  readonly parts: readonly (TextPart | MediaPart | DocumentPart)[];
}

/** The purpose of the vectors. Some models make other vectors of a query than of the documents that it searches. */
export type EmbeddingTask =
  | "retrieval-query"
  | "retrieval-document"
  | "semantic-similarity"
  | "classification"
  | "clustering"
  | "question-answering"
  | "fact-verification"
  | "code-retrieval-query";

/** A vector. Its numbers are finite as 32-bit floats. */
export type EmbeddingVector = readonly number[] | Float32Array | Float64Array;

/** The token count of an embedding request. */
export interface EmbeddingUsage {
  readonly inputTokens: number;
}

/** The count of a backend that embeds. */
export interface EmbeddingCount extends Partial<EmbeddingUsage> {
  /** The tokens by kind of content, such as pictures; parts of `inputTokens`. A price may depend on the kind. */
  readonly details?: readonly ModalityCount[];
  /**
   * The vectors that have come and will not be yielded, of a request that fails: those behind a batch that has failed. Their inputs are
   * charged like those of yielded vectors.
   */
  readonly vectors?: number;
}

/**
 * An event of a backend that embeds: the vector of the next input, or the tokens so far. Token counts are cumulative: a later report
 * replaces an earlier one.
 */
export type EmbeddingEvent =
  | EmbeddingVector
  | { readonly type: "usage"; readonly usage: EmbeddingCount; readonly native?: NativeUsage };

/** An event that the meter passes on to the encoders of formats. An answer has one start, then a vector for each input, then one finish. */
export type EmbeddingAnswerEvent =
  | { readonly type: "start" }
  | { readonly type: "embedding"; readonly vector: EmbeddingVector }
  | { readonly type: "finish"; readonly usage: EmbeddingUsage; readonly native?: NativeUsage };

/** The most inputs of one request. */
export const MAX_INPUTS = 2_048;

/** The most numbers of one vector. */
export const MAX_DIMENSIONS = 65_536;
