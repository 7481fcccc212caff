/** The answers on the wire (spec 2.9, 7.3): content, errors, token counts, models. */

import * as v from "valibot";
import { array, choice } from "../../http/validation.ts";
import type { JsonObject } from "../../model/json.ts";
import { jsonObject, unsupported, type UnsupportedFinder, unsupportedFinder } from "../shared/schema.ts";
import {
  BLOCK_REASON,
  carried,
  HARM_CATEGORY,
  LANGUAGE,
  MODALITY,
  object,
  optionalText as text,
  OUTCOME,
  PROBABILITY,
  URL_STATUS,
} from "./schema.wire.ts";

const number = v.nullish(v.number());
const list = <const Item extends v.GenericSchema>(item: Item) => v.nullish(array(item));

/** A value of an enum. An upstream may send values that are not in the spec: the field is then reported as unsupported. */
const wordOf = (table: Readonly<Record<string, string>>) =>
  unsupported(v.string(), (word) => !Object.values(table).includes(word));
const optionalWordOf = (table: Readonly<Record<string, string>>) =>
  unsupported(text, (word) => !Object.values(table).includes(word));

const SafetyRating = object({
  category: wordOf(HARM_CATEGORY),
  probability: wordOf(PROBABILITY),
  blocked: v.nullish(v.boolean()),
});
export type WireRating = v.InferOutput<typeof SafetyRating>;

const jsonText = v.string();
const argumentsSchema = (input: unknown): v.GenericSchema<unknown, JsonObject | string> =>
  typeof input === "string" ? jsonText : jsonObject;

/** A part of an answer. Other kinds of parts pass unchanged. */
const AnswerPart = object({
  text,
  inlineData: v.nullish(object({ mimeType: v.string(), data: v.string() })),
  // Some upstreams send the arguments as JSON text.
  functionCall: v.nullish(
    object({
      id: text,
      name: text,
      args: v.nullish(choice([jsonObject, jsonText], argumentsSchema)),
      partialArgs: v.optional(v.unknown()),
      willContinue: v.optional(v.unknown()),
    }),
  ),
  executableCode: v.nullish(object({ id: text, language: wordOf(LANGUAGE), code: v.string() })),
  codeExecutionResult: v.nullish(object({ id: text, outcome: wordOf(OUTCOME), output: text })),
  thought: v.nullish(v.boolean()),
  thoughtSignature: text,
});
export type AnswerPart = v.InferOutput<typeof AnswerPart>;

const Citation = object({ startIndex: number, endIndex: number, uri: text, license: text });
export type CitationSource = v.InferOutput<typeof Citation>;

const GroundingSupport = object({
  groundingChunkIndices: list(v.number()),
  confidenceScores: list(v.number()),
  segment: v.nullish(object({ partIndex: number, startIndex: number, endIndex: number, text })),
});
export type GroundingSupport = v.InferOutput<typeof GroundingSupport>;

const GroundingMetadata = object({
  groundingChunks: list(object({ web: v.nullish(object({ uri: text, title: text })) })),
  groundingSupports: list(GroundingSupport),
  webSearchQueries: list(v.string()),
  searchEntryPoint: v.nullish(object({ renderedContent: text, sdkBlob: text })),
  retrievalMetadata: v.nullish(object({ googleSearchDynamicRetrievalScore: number })),
});
export type GroundingMetadata = v.InferOutput<typeof GroundingMetadata>;

const GroundingAttribution = object({
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

const UrlMetadata = object({ retrievedUrl: text, urlRetrievalStatus: optionalWordOf(URL_STATUS) });
export type UrlMetadata = v.InferOutput<typeof UrlMetadata>;

const Candidate = object({
  content: v.nullish(object({ role: text, parts: list(AnswerPart) })),
  finishReason: text,
  index: number,
  safetyRatings: list(SafetyRating),
  citationMetadata: v.nullish(object({ citationSources: list(Citation) })),
  tokenCount: number,
  groundingAttributions: list(GroundingAttribution),
  groundingMetadata: v.nullish(GroundingMetadata),
  avgLogprobs: number,
  logprobsResult: v.nullish(
    object({
      topCandidates: list(object({ candidates: list(LogprobsCandidate) })),
      chosenCandidates: list(LogprobsCandidate),
    }),
  ),
  urlRetrievalMetadata: v.nullish(object({ urlRetrievalContexts: list(object({ retrievedUrl: text })) })),
  urlContextMetadata: v.nullish(object({ urlMetadata: list(UrlMetadata) })),
});
export type Candidate = v.InferOutput<typeof Candidate>;

const Feedback = object({ blockReason: optionalWordOf(BLOCK_REASON), safetyRatings: list(SafetyRating) });
export type WireFeedback = v.InferOutput<typeof Feedback>;

const ModalityTokenCount = object({ modality: optionalWordOf(MODALITY), tokenCount: number });
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
  serviceTier: text,
  /** The tier on Vertex AI, such as `ON_DEMAND_PRIORITY`. */
  trafficType: carried,
  /** The searches of the bill. The official service adds them to some answers. */
  billedToolCalls: carried,
});
export type UsageMetadata = v.InferOutput<typeof UsageMetadata>;

/** A complete answer, or a chunk of a streamed answer. */
export const GenerateContentResponse = object({
  candidates: list(Candidate),
  promptFeedback: v.nullish(Feedback),
  usageMetadata: v.nullish(UsageMetadata),
  modelVersion: text,
  responseId: text,
});
export type GenerateContentResponse = v.InferOutput<typeof GenerateContentResponse>;

/** Finds the fields of an answer that the neutral model cannot hold. */
export const unsupportedInAnswer: UnsupportedFinder = unsupportedFinder(GenerateContentResponse);

const BadRequest = v.object({
  "@type": v.literal("type.googleapis.com/google.rpc.BadRequest"),
  fieldViolations: v.array(v.object({ field: v.string(), description: v.string() })),
});
const RetryInfo = v.object({
  "@type": v.literal("type.googleapis.com/google.rpc.RetryInfo"),
  retryDelay: v.pipe(v.string(), v.regex(/^[\d.]+s$/)),
});

export const GenerateContentError = v.object({
  error: v.object({
    code: v.pipe(v.number(), v.integer()),
    message: v.string(),
    status: v.picklist([
      "INVALID_ARGUMENT",
      "FAILED_PRECONDITION",
      "UNAUTHENTICATED",
      "PERMISSION_DENIED",
      "NOT_FOUND",
      "PAYLOAD_TOO_LARGE",
      "RESOURCE_EXHAUSTED",
      "ALREADY_EXISTS",
      "ABORTED",
      "CANCELLED",
      "UNIMPLEMENTED",
      "INTERNAL",
      "UNAVAILABLE",
      "DEADLINE_EXCEEDED",
    ]),
    details: v.array(v.variant("@type", [BadRequest, RetryInfo])),
  }),
});
export type GenerateContentErrorBody = v.InferOutput<typeof GenerateContentError>;

/** An error in the middle of a stream. Its candidate is an end for clients that do not read `error`. */
export const GenerateContentStreamError = v.object({
  ...GenerateContentError.entries,
  candidates: v.tuple([
    v.object({
      content: v.object({ role: v.literal("model"), parts: v.tuple([v.object({ text: v.literal("") })]) }),
      finishReason: v.literal("OTHER"),
      finishMessage: v.string(),
      index: v.literal(0),
    }),
  ]),
});
export type GenerateContentStreamErrorBody = v.InferOutput<typeof GenerateContentStreamError>;

const count = v.pipe(v.number(), v.integer(), v.minValue(0));

export const CountTokensAnswer = v.object({ totalTokens: count });

export const GenerateContentModel = v.object({
  name: v.pipe(v.string(), v.startsWith("models/")),
  displayName: v.string(),
  inputTokenLimit: v.optional(count),
  outputTokenLimit: v.optional(count),
  supportedGenerationMethods: v.array(v.string()),
});

export const GenerateContentModelList = v.object({
  models: v.array(GenerateContentModel),
  nextPageToken: v.optional(v.string()),
});
