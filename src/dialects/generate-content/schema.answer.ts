/** The generate-content answer on the wire (spec 2.9), one schema an object: what an upstream must send, and what is written. */

import * as v from "valibot";
import { unsaid, unsaidFinder, type UnsaidFinder } from "../shared/schema.unsaid.ts";
import { jsonObject, object } from "./schema.base.ts";
import { BLOCK_REASON, HARM_CATEGORY, LANGUAGE, MODALITY, OUTCOME, PROBABILITY, URL_STATUS } from "./schema.enums.ts";

const text = v.nullish(v.string());
const number = v.nullish(v.number());
const list = <const Item extends v.GenericSchema>(item: Item) => v.nullish(v.array(item));

// Enums are texts here: an upstream may know more words than the spec.
const wordOf = (table: Readonly<Record<string, string>>) =>
  unsaid(v.string(), (word) => !Object.values(table).includes(word));
const maybeWordOf = (table: Readonly<Record<string, string>>) =>
  unsaid(text, (word) => !Object.values(table).includes(word));

export const SafetyRating = object({
  category: wordOf(HARM_CATEGORY),
  probability: wordOf(PROBABILITY),
  blocked: v.nullish(v.boolean()),
});
export type SafetyRating = v.InferOutput<typeof SafetyRating>;

/** A part of an answer. Parts of other kinds are an upstream's own. */
export const AnswerPart = object({
  text,
  inlineData: v.nullish(object({ mimeType: v.string(), data: v.string() })),
  functionCall: v.nullish(object({ id: text, name: v.string(), args: v.nullish(jsonObject) })),
  executableCode: v.nullish(object({ id: text, language: wordOf(LANGUAGE), code: v.string() })),
  codeExecutionResult: v.nullish(object({ id: text, outcome: wordOf(OUTCOME), output: text })),
  thought: v.nullish(v.boolean()),
  thoughtSignature: text,
});
export type AnswerPart = v.InferOutput<typeof AnswerPart>;

const CitationMetadata = object({
  citationSources: list(object({ startIndex: number, endIndex: number, uri: text, license: text })),
});

const Segment = object({ partIndex: number, startIndex: number, endIndex: number, text });
export const GroundingMetadata = object({
  groundingChunks: list(object({ web: v.nullish(object({ uri: text, title: text })) })),
  groundingSupports: list(
    object({
      groundingChunkIndices: list(v.number()),
      confidenceScores: list(v.number()),
      segment: v.nullish(Segment),
    }),
  ),
  webSearchQueries: list(v.string()),
  searchEntryPoint: v.nullish(object({ renderedContent: text, sdkBlob: text })),
  retrievalMetadata: v.nullish(object({ googleSearchDynamicRetrievalScore: number })),
});
export type GroundingMetadata = v.InferOutput<typeof GroundingMetadata>;

export const GroundingAttribution = object({
  sourceId: v.nullish(
    object({
      groundingPassage: v.nullish(object({ passageId: text, partIndex: number })),
      semanticRetrieverChunk: v.nullish(object({ source: text, chunk: text })),
    }),
  ),
  content: v.nullish(object({ parts: list(object({ text })) })),
});
export type GroundingAttribution = v.InferOutput<typeof GroundingAttribution>;

const LogprobsCandidate = object({ token: text, tokenId: number, logProbability: number });
export type LogprobsCandidate = v.InferOutput<typeof LogprobsCandidate>;
export const LogprobsResult = object({
  topCandidates: list(object({ candidates: list(LogprobsCandidate) })),
  chosenCandidates: list(LogprobsCandidate),
});
export type LogprobsResult = v.InferOutput<typeof LogprobsResult>;

export const Candidate = object({
  content: v.nullish(object({ role: text, parts: list(AnswerPart) })),
  finishReason: text,
  index: number,
  safetyRatings: list(SafetyRating),
  citationMetadata: v.nullish(CitationMetadata),
  tokenCount: number,
  groundingAttributions: list(GroundingAttribution),
  groundingMetadata: v.nullish(GroundingMetadata),
  avgLogprobs: number,
  logprobsResult: v.nullish(LogprobsResult),
  urlRetrievalMetadata: v.nullish(object({ urlRetrievalContexts: list(object({ retrievedUrl: text })) })),
  urlContextMetadata: v.nullish(
    object({ urlMetadata: list(object({ retrievedUrl: text, urlRetrievalStatus: maybeWordOf(URL_STATUS) })) }),
  ),
});
export type Candidate = v.InferOutput<typeof Candidate>;

const PromptFeedback = object({ blockReason: maybeWordOf(BLOCK_REASON), safetyRatings: list(SafetyRating) });
export type PromptFeedback = v.InferOutput<typeof PromptFeedback>;

const ModalityTokenCount = object({ modality: maybeWordOf(MODALITY), tokenCount: number });
export type ModalityTokenCount = v.InferOutput<typeof ModalityTokenCount>;
export const UsageMetadata = object({
  promptTokenCount: number,
  cachedContentTokenCount: number,
  candidatesTokenCount: number,
  toolUsePromptTokenCount: number,
  thoughtsTokenCount: number,
  totalTokenCount: number,
  promptTokensDetails: list(ModalityTokenCount),
  cacheTokensDetails: list(ModalityTokenCount),
  candidatesTokensDetails: list(ModalityTokenCount),
  toolUsePromptTokensDetails: list(ModalityTokenCount),
});
export type UsageMetadata = v.InferOutput<typeof UsageMetadata>;

/** An answer, or a chunk of one. */
export const GenerateContentResponse = object({
  candidates: list(Candidate),
  promptFeedback: v.nullish(PromptFeedback),
  usageMetadata: v.nullish(UsageMetadata),
  modelVersion: text,
  responseId: text,
});
export type GenerateContentResponse = v.InferOutput<typeof GenerateContentResponse>;

/** The paths of what the neutral model has no words for. */
export const unsaidInAnswer: UnsaidFinder = unsaidFinder(GenerateContentResponse);
