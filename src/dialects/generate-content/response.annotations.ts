/** What is noted on a candidate beside its content (spec 2.9), in both directions. */

import type {
  Annotation,
  Attribution,
  Citation,
  Grounding,
  Logprob,
  RetrievedUrl,
  SafetyRating,
  Support,
} from "../../model/annotation.ts";
import type {
  Candidate,
  GroundingAttribution,
  GroundingMetadata,
  LogprobsCandidate,
  LogprobsResult,
  SafetyRating as WireRating,
} from "./schema.answer.ts";
import { fromWire, HARM_CATEGORY, PROBABILITY, URL_STATUS } from "./schema.enums.ts";

/** The fields of a candidate that hold notes. */
export type Notes = Omit<Candidate, "content" | "finishReason" | "index">;

/** Null is as good as absent. */
type Given<T> = { [K in keyof T]?: NonNullable<T[K]> };
const given = <T extends object>(fields: T): Given<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as Given<T>;

const CATEGORY_OF = fromWire(HARM_CATEGORY);
const PROBABILITY_OF = fromWire(PROBABILITY);
const URL_STATUS_OF = fromWire(URL_STATUS);

/** Notes one more: it adds to those of its kind, or takes their place, as the neutral model says. */
export function annotate(notes: Notes, annotation: Annotation): void {
  switch (annotation.type) {
    case "safety":
      notes.safetyRatings = annotation.ratings.map(encodeRating);
      return;
    case "citations":
      notes.citationMetadata ??= {};
      add((notes.citationMetadata.citationSources ??= []), annotation.citations.map(encodeCitation));
      return;
    case "grounding":
      notes.groundingMetadata = encodeGrounding(annotation);
      return;
    case "attributions":
      add((notes.groundingAttributions ??= []), annotation.attributions.map(encodeAttribution));
      return;
    case "logprobs":
      if (annotation.average !== undefined) notes.avgLogprobs = annotation.average;
      addLogprobs((notes.logprobsResult ??= {}), annotation);
      return;
    case "retrieved-urls":
      notes.urlRetrievalMetadata = { urlRetrievalContexts: annotation.urls.map((retrievedUrl) => ({ retrievedUrl })) };
      return;
    case "url-context":
      notes.urlContextMetadata = { urlMetadata: annotation.urls.map(encodeRetrievedUrl) };
      return;
    case "token-count":
      notes.tokenCount = annotation.tokens;
      return;
    default:
      annotation satisfies never;
  }
}

/** Adds in place: a long answer has a note for each of its tokens. */
function add<Item>(list: Item[], items: Iterable<Item>): void {
  for (const item of items) list.push(item);
}

/** The notes on a candidate as annotations. */
export function* annotationsOf(notes: Notes): Generator<Annotation> {
  const { safetyRatings, citationMetadata, groundingMetadata, groundingAttributions, tokenCount } = notes;
  if (safetyRatings) yield { type: "safety", ratings: safetyRatings.map(decodeRating) };
  if (citationMetadata)
    yield { type: "citations", citations: (citationMetadata.citationSources ?? []).map(decodeCitation) };
  if (groundingMetadata) yield { type: "grounding", ...decodeGrounding(groundingMetadata) };
  if (groundingAttributions) yield { type: "attributions", attributions: groundingAttributions.map(decodeAttribution) };
  if (notes.logprobsResult || notes.avgLogprobs != null) yield decodeLogprobs(notes);
  if (notes.urlRetrievalMetadata) {
    const contexts = notes.urlRetrievalMetadata.urlRetrievalContexts ?? [];
    yield { type: "retrieved-urls", urls: contexts.map(({ retrievedUrl }) => retrievedUrl ?? "") };
  }
  if (notes.urlContextMetadata) {
    yield { type: "url-context", urls: (notes.urlContextMetadata.urlMetadata ?? []).map(decodeRetrievedUrl) };
  }
  if (tokenCount != null) yield { type: "token-count", tokens: tokenCount };
}

export const encodeRating = ({ category, probability, blocked }: SafetyRating): WireRating => ({
  category: HARM_CATEGORY[category],
  probability: PROBABILITY[probability],
  ...given({ blocked }),
});
export const decodeRating = ({ category, probability, blocked }: WireRating): SafetyRating => ({
  category: CATEGORY_OF.get(category) ?? "unspecified",
  probability: PROBABILITY_OF.get(probability) ?? "unspecified",
  ...given({ blocked }),
});

type WireCitation = NonNullable<NonNullable<Candidate["citationMetadata"]>["citationSources"]>[number];

const encodeCitation = ({ start, end, uri, license }: Citation): WireCitation =>
  given({ startIndex: start, endIndex: end, uri, license });
const decodeCitation = ({ startIndex, endIndex, uri, license }: WireCitation): Citation =>
  given({ start: startIndex, end: endIndex, uri, license });

const encodeGrounding = (grounding: Grounding): GroundingMetadata =>
  given({
    groundingChunks: grounding.chunks?.map((web) => ({ web })),
    groundingSupports: grounding.supports?.map(encodeSupport),
    webSearchQueries: grounding.searchQueries && [...grounding.searchQueries],
    searchEntryPoint: grounding.searchEntryPoint,
    retrievalMetadata:
      grounding.dynamicRetrievalScore === undefined
        ? undefined
        : { googleSearchDynamicRetrievalScore: grounding.dynamicRetrievalScore },
  });

const decodeGrounding = (metadata: GroundingMetadata): Grounding =>
  given({
    // Chunks of other kinds than the web keep their place: supports refer to them by it.
    chunks: metadata.groundingChunks?.map(({ web }) => given({ uri: web?.uri, title: web?.title })),
    supports: metadata.groundingSupports?.map(decodeSupport),
    searchQueries: metadata.webSearchQueries,
    searchEntryPoint:
      metadata.searchEntryPoint &&
      given({
        renderedContent: metadata.searchEntryPoint.renderedContent,
        sdkBlob: metadata.searchEntryPoint.sdkBlob,
      }),
    dynamicRetrievalScore: metadata.retrievalMetadata?.googleSearchDynamicRetrievalScore,
  });

type WireSupport = NonNullable<GroundingMetadata["groundingSupports"]>[number];

const encodeSupport = ({ chunkIndices, confidenceScores, segment }: Support): WireSupport =>
  given({
    groundingChunkIndices: chunkIndices && [...chunkIndices],
    confidenceScores: confidenceScores && [...confidenceScores],
    segment:
      segment &&
      given({ partIndex: segment.partIndex, startIndex: segment.start, endIndex: segment.end, text: segment.text }),
  });

const decodeSupport = ({ groundingChunkIndices, confidenceScores, segment }: WireSupport): Support =>
  given({
    chunkIndices: groundingChunkIndices,
    confidenceScores,
    segment:
      segment &&
      given({ partIndex: segment.partIndex, start: segment.startIndex, end: segment.endIndex, text: segment.text }),
  });

const encodeAttribution = ({ passage, chunk, text }: Attribution): GroundingAttribution =>
  given({
    sourceId:
      passage || chunk
        ? given({
            groundingPassage: passage && given({ passageId: passage.id, partIndex: passage.partIndex }),
            semanticRetrieverChunk: chunk,
          })
        : undefined,
    content: text === undefined ? undefined : { parts: [{ text }] },
  });

function decodeAttribution({ sourceId, content }: GroundingAttribution): Attribution {
  const passage = sourceId?.groundingPassage;
  const chunk = sourceId?.semanticRetrieverChunk;
  return given({
    passage: passage && given({ id: passage.passageId, partIndex: passage.partIndex }),
    chunk: chunk && given({ source: chunk.source, chunk: chunk.chunk }),
    text: content?.parts?.map(({ text }) => text ?? "").join(""),
  });
}

type WireRetrievedUrl = NonNullable<NonNullable<Candidate["urlContextMetadata"]>["urlMetadata"]>[number];

const encodeRetrievedUrl = ({ url, status }: RetrievedUrl): WireRetrievedUrl => ({
  retrievedUrl: url,
  urlRetrievalStatus: URL_STATUS[status],
});
const decodeRetrievedUrl = ({ retrievedUrl, urlRetrievalStatus }: WireRetrievedUrl): RetrievedUrl => ({
  url: retrievedUrl ?? "",
  status: URL_STATUS_OF.get(urlRetrievalStatus ?? "") ?? "unspecified",
});

type Logprobs = Extract<Annotation, { type: "logprobs" }>;

function addLogprobs(result: LogprobsResult, { chosen, top }: Logprobs): void {
  const steps = top.map((step) => ({ candidates: step.map(encodeLogprob) }));
  add((result.topCandidates ??= []), steps);
  add((result.chosenCandidates ??= []), chosen.map(encodeLogprob));
}

/** The mean over the chosen tokens, which only this format tells beside them; undefined where none is known. */
export function averageOf({ logprobsResult }: Notes): number | undefined {
  const chosen = logprobsResult?.chosenCandidates ?? [];
  if (chosen.length === 0) return undefined;
  return chosen.reduce((sum, { logProbability }) => sum + (logProbability ?? 0), 0) / chosen.length;
}

const decodeLogprobs = ({ logprobsResult, avgLogprobs }: Notes): Logprobs => ({
  type: "logprobs",
  chosen: (logprobsResult?.chosenCandidates ?? []).map(decodeLogprob),
  top: (logprobsResult?.topCandidates ?? []).map(({ candidates }) => (candidates ?? []).map(decodeLogprob)),
  ...(avgLogprobs != null && { average: avgLogprobs }),
});

const encodeLogprob = ({ token, tokenId, logProbability }: Logprob): LogprobsCandidate => ({
  token,
  ...given({ tokenId }),
  logProbability,
});
const decodeLogprob = ({ token, tokenId, logProbability }: LogprobsCandidate): Logprob => ({
  token: token ?? "",
  ...given({ tokenId }),
  // The official service leaves out a zero.
  logProbability: logProbability ?? 0,
});
