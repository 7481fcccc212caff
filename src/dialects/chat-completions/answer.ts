/** The chat-completions answer as the gateway writes it, and what of it is a table, in both directions. */

import type { Annotation, Logprob, Logprobs } from "../../model/annotation.ts";
import type { FinishReason } from "../../model/event.ts";
import type { ModalityCount, Usage } from "../../model/usage.ts";
import type { Choice, Logprob as WireLogprob, Usage as WireUsage } from "./schema.answer.ts";

export type WireFinish = "stop" | "length" | "tool_calls" | "content_filter";

/** The format knows four reasons; what ended an answer for any other cause ended it. */
export const FINISH_REASON: Readonly<Record<FinishReason, WireFinish>> = {
  stop: "stop",
  "stop-sequence": "stop",
  length: "length",
  "tool-calls": "tool_calls",
  pause: "stop",
  refusal: "stop",
  "context-window": "length",
  "content-filter": "content_filter",
  recitation: "content_filter",
  language: "content_filter",
  blocklist: "content_filter",
  "prohibited-content": "content_filter",
  "personal-data": "content_filter",
  "unsafe-image": "content_filter",
  "malformed-tool-call": "stop",
  other: "stop",
};

const REASON_OF: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool-calls",
  function_call: "tool-calls",
  content_filter: "content-filter",
} satisfies Record<WireFinish | "function_call", FinishReason>;

export const decodeFinish = (wire: string): FinishReason =>
  Object.hasOwn(REASON_OF, wire) ? (REASON_OF[wire] ?? "other") : "other";

/** Ends after which a call may be left half said. */
export const isCutShort = (reason: FinishReason): boolean =>
  reason === "malformed-tool-call" || reason === "other" || /^(?:length|content_filter)$/.test(FINISH_REASON[reason]);

export interface UsageBody {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number; audio_tokens: number; cache_write_tokens?: number };
  completion_tokens_details: {
    reasoning_tokens: number;
    audio_tokens: number;
    accepted_prediction_tokens: number;
    rejected_prediction_tokens: number;
  };
}

/** The counts of the whole input and of the whole output; those of their parts stand beside them. */
export const encodeUsage = ({ inputTokens, outputTokens, details, ...usage }: Usage): UsageBody => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
  prompt_tokens_details: {
    cached_tokens: usage.cacheReadTokens,
    audio_tokens: audioIn(details?.input),
    ...(usage.cacheWriteTokens > 0 && { cache_write_tokens: usage.cacheWriteTokens }),
  },
  completion_tokens_details: {
    reasoning_tokens: usage.reasoningTokens,
    audio_tokens: audioIn(details?.output),
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
});

const audioIn = (counts: readonly ModalityCount[] = []): number =>
  counts.reduce((sum, { modality, tokens }) => (modality === "audio" ? sum + tokens : sum), 0);

/** Leaves out what an upstream does not tell. */
export function decodeUsage(usage: WireUsage): Partial<Usage> {
  const { prompt_tokens_details: input, completion_tokens_details: output } = usage;
  const cacheRead = input?.cached_tokens ?? usage.prompt_cache_hit_tokens;
  const details = {
    ...(input?.audio_tokens && { input: [{ modality: "audio", tokens: input.audio_tokens } as const] }),
    ...(output?.audio_tokens && { output: [{ modality: "audio", tokens: output.audio_tokens } as const] }),
  };
  const outputTokens = outputOf(usage);
  return {
    ...(usage.prompt_tokens != null && { inputTokens: usage.prompt_tokens }),
    ...(outputTokens != null && { outputTokens }),
    ...(cacheRead != null && { cacheReadTokens: cacheRead }),
    ...(input?.cache_write_tokens != null && { cacheWriteTokens: input.cache_write_tokens }),
    ...(output?.reasoning_tokens != null && { reasoningTokens: output.reasoning_tokens }),
    ...(Object.keys(details).length > 0 && { details }),
  };
}

/** All that was generated: some upstreams count reasoning beside `completion_tokens`, and not as a part of it. */
function outputOf({ prompt_tokens, completion_tokens, total_tokens, completion_tokens_details }: WireUsage) {
  const reasoning = completion_tokens_details?.reasoning_tokens ?? 0;
  if (completion_tokens == null || reasoning === 0) return completion_tokens;
  const isBeside =
    reasoning > completion_tokens || total_tokens === (prompt_tokens ?? 0) + completion_tokens + reasoning;
  return isBeside ? completion_tokens + reasoning : completion_tokens;
}

export interface TokenLogprob {
  token: string;
  logprob: number;
  bytes: number[];
  top_logprobs: Omit<TokenLogprob, "top_logprobs">[];
}

const encoder = new TextEncoder();

const encodeLogprob = ({ token, logProbability }: Logprob): Omit<TokenLogprob, "top_logprobs"> => ({
  token,
  logprob: logProbability,
  bytes: [...encoder.encode(token)],
});

export const encodeLogprobs = ({ chosen, top }: Logprobs): TokenLogprob[] =>
  chosen.map((one, step) => ({ ...encodeLogprob(one), top_logprobs: (top[step] ?? []).map(encodeLogprob) }));

const decodeLogprob = ({ token, logprob }: WireLogprob): Logprob => ({ token, logProbability: logprob });

export function decodeLogprobs({ content }: NonNullable<Choice["logprobs"]>): Annotation | undefined {
  if (!content?.length) return undefined;
  const top = content.map((step) => (step.top_logprobs ?? []).map(decodeLogprob));
  return { type: "logprobs", chosen: content.map(decodeLogprob), top };
}

/** A source on the web. Where in the text it is cited is not said: the neutral indices count bytes, this format's do not. */
export interface UrlCitation {
  type: "url_citation";
  url_citation: { start_index: 0; end_index: 0; url: string; title: string };
}

/** The sources that a note names. */
export function encodeSources(note: Annotation): UrlCitation[] {
  if (note.type === "citations") return note.citations.flatMap(({ uri }) => urlCitation(uri, uri));
  return note.type === "grounding" ? (note.chunks ?? []).flatMap(({ uri, title }) => urlCitation(uri, title)) : [];
}

function urlCitation(url: string | undefined, title: string | undefined): UrlCitation[] {
  if (url === undefined) return [];
  return [{ type: "url_citation", url_citation: { start_index: 0, end_index: 0, url, title: title ?? url } }];
}

export interface WireCall {
  id?: string;
  type?: "function" | "custom";
  function?: { name?: string; arguments: string };
  custom?: unknown;
}

/** A piece of the call at a place among the calls of a message. */
export interface WireCallDelta extends WireCall {
  index: number;
}

export interface Audio {
  id: string;
  data: string;
  transcript: string;
  expires_at: number;
}

/** What one chunk adds to the message of a choice. */
export interface Delta {
  role?: "assistant";
  content?: string | null;
  refusal?: string | null;
  reasoning_content?: string;
  tool_calls?: WireCallDelta[];
  annotations?: UrlCitation[];
  audio?: Audio;
  images?: { type: "image_url"; index: number; image_url: { url: string } }[];
}

export interface ChunkChoice {
  index: number;
  delta: Delta;
  logprobs: { content: TokenLogprob[]; refusal: null } | null;
  finish_reason: WireFinish | null;
}

export interface Chunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  system_fingerprint: null;
  service_tier?: string;
  choices: ChunkChoice[];
  usage?: UsageBody | null;
}
