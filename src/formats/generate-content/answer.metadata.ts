/** The parts of an answer beside its content (spec 2.9), in both directions: annotations of a candidate, token counts, prompt feedback. */

import type {
  Annotation,
  Attribution,
  Citation,
  Grounding,
  Logprob,
  PromptFeedback,
  RetrievedUrl,
  SafetyRating,
  Support,
} from "../../model/chat-event.ts";
import { given } from "../../model/json.ts";
import type { ModalityCount, Usage } from "../../model/usage.ts";
import { googleDetails, googleTier } from "../shared/usage.decode.ts";
import type {
  Candidate,
  GroundingAttribution,
  GroundingMetadata,
  GroundingSupport,
  LogprobsCandidate,
  ModalityTokenCount,
  UrlMetadata,
  UsageMetadata,
  CitationSource,
  WireFeedback,
  WireRating,
} from "./schema.answer.ts";
import {
  BLOCK_REASON,
  HARM_CATEGORY,
  MODALITY,
  PROBABILITY,
  readBlockReason,
  readWord,
  URL_STATUS,
} from "./schema.wire.ts";

/** The fields of a candidate that hold annotations. */
export type CandidateNotes = Omit<Candidate, "content" | "finishReason" | "index">;

/**
 * Adds an annotation to the fields of a candidate. Depending on its kind, it replaces or extends the annotations before it.
 *
 * @param sources The places of the sources among the grounding chunks.
 */
export function annotate(notes: CandidateNotes, annotation: Annotation, sources: Map<string, number>): void {
  switch (annotation.type) {
    case "safety":
      notes.safetyRatings = annotation.ratings.map(encodeRating);
      return;
    case "citations": {
      // The sources of a search have titles. A passage that is copied has none.
      const { citations } = annotation;
      const [found, copied] = [citations.filter(isFound), citations.filter((citation) => !isFound(citation))];
      if (found.length > 0) ground((notes.groundingMetadata ??= {}), found, sources);
      if (copied.length === 0 && found.length > 0) return;
      notes.citationMetadata ??= {};
      append((notes.citationMetadata.citationSources ??= []), copied.map(encodeCitation));
      return;
    }
    case "grounding":
      notes.groundingMetadata = encodeGrounding(annotation);
      return;
    case "attributions":
      append((notes.groundingAttributions ??= []), annotation.attributions.map(encodeAttribution));
      return;
    case "logprobs": {
      const { top, chosen, average } = annotation;
      if (average !== undefined) notes.avgLogprobs = average;
      const result = (notes.logprobsResult ??= {});
      append(
        (result.topCandidates ??= []),
        top.map((step) => ({ candidates: step.map(encodeLogprob) })),
      );
      append((result.chosenCandidates ??= []), chosen.map(encodeLogprob));
      return;
    }
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

type TitledCitation = Citation & { readonly uri: string; readonly title: string };

const isFound = (citation: Citation): citation is TitledCitation =>
  citation.uri !== undefined && citation.title !== undefined;

/** Adds the sources of a search. A source that is cited several times is one chunk. */
function ground(metadata: GroundingMetadata, found: readonly TitledCitation[], sources: Map<string, number>): void {
  const chunks = (metadata.groundingChunks ??= []);
  for (const { uri, title, start, end } of found) {
    const index = sources.get(uri) ?? chunks.push({ web: { uri, title } }) - 1;
    sources.set(uri, index);
    if (start === undefined || end === undefined) continue;
    const segment = { startIndex: start, endIndex: end };
    (metadata.groundingSupports ??= []).push({ groundingChunkIndices: [index], segment });
  }
}

/** Appends in place, because a long answer has an entry for each of its tokens. */
function append<Item>(list: Item[], items: readonly Item[]): void {
  for (const item of items) list.push(item);
}

/** Returns the mean log probability of the chosen tokens, for upstreams that do not report it; undefined without chosen tokens. */
export function averageOf({ logprobsResult }: CandidateNotes): number | undefined {
  const chosen = logprobsResult?.chosenCandidates ?? [];
  if (chosen.length === 0) return undefined;
  return chosen.reduce((sum, { logProbability }) => sum + (logProbability ?? 0), 0) / chosen.length;
}

export function* annotationsOf(notes: CandidateNotes): Generator<Annotation> {
  const { safetyRatings, citationMetadata, groundingMetadata, groundingAttributions, logprobsResult } = notes;
  const { avgLogprobs: average, urlRetrievalMetadata, urlContextMetadata, tokenCount } = notes;
  if (safetyRatings) yield { type: "safety", ratings: safetyRatings.map(decodeRating) };
  if (citationMetadata)
    yield { type: "citations", citations: (citationMetadata.citationSources ?? []).map(decodeCitation) };
  if (groundingMetadata) yield { type: "grounding", ...decodeGrounding(groundingMetadata) };
  if (groundingAttributions) yield { type: "attributions", attributions: groundingAttributions.map(decodeAttribution) };
  if (logprobsResult || average != null) {
    const { chosenCandidates, topCandidates } = logprobsResult ?? {};
    const top = (topCandidates ?? []).map(({ candidates }) => (candidates ?? []).map(decodeLogprob));
    yield { type: "logprobs", chosen: (chosenCandidates ?? []).map(decodeLogprob), top, ...given({ average }) };
  }
  if (urlRetrievalMetadata) {
    const contexts = urlRetrievalMetadata.urlRetrievalContexts ?? [];
    yield { type: "retrieved-urls", urls: contexts.map(({ retrievedUrl }) => retrievedUrl ?? "") };
  }
  if (urlContextMetadata)
    yield { type: "url-context", urls: (urlContextMetadata.urlMetadata ?? []).map(decodeRetrievedUrl) };
  if (tokenCount != null) yield { type: "token-count", tokens: tokenCount };
}

const encodeRating = ({ category, probability, blocked }: SafetyRating): WireRating => ({
  category: HARM_CATEGORY[category],
  probability: PROBABILITY[probability],
  ...given({ blocked }),
});
const decodeRating = ({ category, probability, blocked }: WireRating): SafetyRating => ({
  category: readWord(HARM_CATEGORY, category) ?? "unspecified",
  probability: readWord(PROBABILITY, probability) ?? "unspecified",
  ...given({ blocked }),
});

const encodeCitation = ({ start, end, uri, license }: Citation): CitationSource =>
  given({ startIndex: start, endIndex: end, uri, license });
const decodeCitation = ({ startIndex, endIndex, uri, license }: CitationSource): Citation =>
  given({ start: startIndex, end: endIndex, uri, license });

const encodeGrounding = (grounding: Grounding): GroundingMetadata => {
  const { chunks, supports, searchQueries, searchEntryPoint, dynamicRetrievalScore: score } = grounding;
  return given({
    groundingChunks: chunks?.map((web) => ({ web })),
    groundingSupports: supports?.map(encodeSupport),
    webSearchQueries: searchQueries && [...searchQueries],
    searchEntryPoint,
    retrievalMetadata: score === undefined ? undefined : { googleSearchDynamicRetrievalScore: score },
  });
};

const decodeGrounding = (metadata: GroundingMetadata): Grounding => {
  const { groundingChunks, groundingSupports, webSearchQueries, searchEntryPoint: entry, retrievalMetadata } = metadata;
  return given({
    // Keep an empty entry for a chunk that is not from the web, because supports refer to chunks by index.
    chunks: groundingChunks?.map(({ web }) => given({ uri: web?.uri, title: web?.title })),
    supports: groundingSupports?.map(decodeSupport),
    searchQueries: webSearchQueries,
    searchEntryPoint: entry && given({ renderedContent: entry.renderedContent, sdkBlob: entry.sdkBlob }),
    dynamicRetrievalScore: retrievalMetadata?.googleSearchDynamicRetrievalScore,
  });
};

const encodeSupport = ({ chunkIndices, confidenceScores, segment }: Support): GroundingSupport =>
  given({
    groundingChunkIndices: chunkIndices && [...chunkIndices],
    confidenceScores: confidenceScores && [...confidenceScores],
    segment:
      segment &&
      given({ partIndex: segment.partIndex, startIndex: segment.start, endIndex: segment.end, text: segment.text }),
  });

const decodeSupport = ({ groundingChunkIndices, confidenceScores, segment }: GroundingSupport): Support =>
  given({
    chunkIndices: groundingChunkIndices,
    confidenceScores,
    segment:
      segment &&
      given({ partIndex: segment.partIndex, start: segment.startIndex, end: segment.endIndex, text: segment.text }),
  });

const encodeAttribution = ({ passage, chunk, text }: Attribution): GroundingAttribution => {
  const groundingPassage = passage && given({ passageId: passage.id, partIndex: passage.partIndex });
  return given({
    sourceId: passage || chunk ? given({ groundingPassage, semanticRetrieverChunk: chunk }) : undefined,
    content: text === undefined ? undefined : { parts: [{ text }] },
  });
};

function decodeAttribution({ sourceId, content }: GroundingAttribution): Attribution {
  const { groundingPassage: passage, semanticRetrieverChunk: chunk } = sourceId ?? {};
  return given({
    passage: passage && given({ id: passage.passageId, partIndex: passage.partIndex }),
    chunk: chunk && given({ source: chunk.source, chunk: chunk.chunk }),
    text: content?.parts?.map(({ text }) => text ?? "").join(""),
  });
}

const encodeRetrievedUrl = ({ url, status }: RetrievedUrl): UrlMetadata => ({
  retrievedUrl: url,
  urlRetrievalStatus: URL_STATUS[status],
});
const decodeRetrievedUrl = ({ retrievedUrl, urlRetrievalStatus }: UrlMetadata): RetrievedUrl => ({
  url: retrievedUrl ?? "",
  status: readWord(URL_STATUS, urlRetrievalStatus) ?? "unspecified",
});

const encodeLogprob = ({ token, tokenId, logProbability }: Logprob): LogprobsCandidate => ({
  token,
  ...given({ tokenId }),
  logProbability,
});
const decodeLogprob = ({ token, tokenId, logProbability }: LogprobsCandidate): Logprob => ({
  token: token ?? "",
  ...given({ tokenId }),
  // The official service leaves out a value of 0.
  logProbability: logProbability ?? 0,
});

/** The tiers that the format can name. OpenAI's name of the standard tier is `default`. */
const SERVICE_TIER: ReadonlyMap<string, string> = new Map([
  ["standard", "standard"],
  ["default", "standard"],
  ["standard_only", "standard"],
  ["flex", "flex"],
  ["priority", "priority"],
]);

/** Returns the word for a tier; undefined for a tier that the format does not have, and without one. */
export const encodeTier = (tier: string | undefined): string | undefined =>
  tier === undefined ? undefined : SERVICE_TIER.get(tier);

/** Encodes the token counts. The format counts tool results apart from the prompt, and reasoning apart from the answer. */
export function encodeUsage(usage: Usage): UsageMetadata {
  const { inputTokens, outputTokens, cacheReadTokens, reasoningTokens, toolUseTokens, details = {} } = usage;
  return given({
    promptTokenCount: Math.max(0, inputTokens - (toolUseTokens ?? 0)),
    cachedContentTokenCount: cacheReadTokens || undefined,
    candidatesTokenCount: Math.max(0, outputTokens - reasoningTokens),
    toolUsePromptTokenCount: toolUseTokens,
    thoughtsTokenCount: reasoningTokens || undefined,
    totalTokenCount: inputTokens + outputTokens,
    promptTokensDetails: details.input?.map(encodeCount),
    cacheTokensDetails: details.cacheRead?.map(encodeCount),
    candidatesTokensDetails: details.output?.map(encodeCount),
    toolUsePromptTokensDetails: details.toolUse?.map(encodeCount),
    serviceTier: encodeTier(usage.serviceTier),
  });
}

/** Encodes what the beginning of an answer tells: the count of the prompt and the tier, as far as they are known by then. */
export const encodePrompt = ({ inputTokens, serviceTier }: Usage): UsageMetadata =>
  given({ promptTokenCount: inputTokens, totalTokenCount: inputTokens, serviceTier: encodeTier(serviceTier) });

export function decodeUsage(usage: UsageMetadata): Partial<Usage> {
  const { promptTokenCount, toolUsePromptTokenCount, candidatesTokenCount, thoughtsTokenCount } = usage;
  const details = given({
    input: googleDetails(usage.promptTokensDetails),
    output: googleDetails(usage.candidatesTokensDetails),
    cacheRead: googleDetails(usage.cacheTokensDetails),
    toolUse: googleDetails(usage.toolUsePromptTokensDetails),
  });
  // The official service leaves out a count of zero.
  const hasOutput = candidatesTokenCount != null || thoughtsTokenCount != null;
  return given({
    inputTokens: promptTokenCount == null ? undefined : promptTokenCount + (toolUsePromptTokenCount ?? 0),
    outputTokens: hasOutput ? (candidatesTokenCount ?? 0) + (thoughtsTokenCount ?? 0) : undefined,
    cacheReadTokens: usage.cachedContentTokenCount,
    reasoningTokens: thoughtsTokenCount,
    toolUseTokens: toolUsePromptTokenCount,
    details: Object.keys(details).length > 0 ? details : undefined,
    serviceTier: googleTier(usage.serviceTier, usage.trafficType),
  });
}

const encodeCount = ({ modality, tokens }: ModalityCount): ModalityTokenCount => ({
  modality: MODALITY[modality],
  tokenCount: tokens,
});
export const encodeFeedback = ({ blockReason, ratings }: PromptFeedback): WireFeedback => ({
  ...(blockReason && { blockReason: BLOCK_REASON[blockReason] }),
  ...(ratings.length > 0 && { safetyRatings: ratings.map(encodeRating) }),
});
export const decodeFeedback = ({ blockReason, safetyRatings }: WireFeedback): PromptFeedback => ({
  ...(blockReason != null && { blockReason: readBlockReason(blockReason) }),
  ratings: (safetyRatings ?? []).map(decodeRating),
});
