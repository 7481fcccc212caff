/** The complete answer; and finish reasons, token counts, log probabilities and sources in both directions. */

import { GatewayError } from "../../errors.ts";
import type { Annotation, FinishReason, Logprob, Logprobs } from "../../kinds/chat/event.ts";
import type { ModalityCount, Usage } from "../../model/usage.ts";
import type {
  Chunk,
  ChunkChoice,
  ChunkDelta,
  CompletionUsage,
  TokenLogprob,
  ToolCallDelta,
  UrlCitation,
} from "./schema.answer.ts";
import type { LooseChoice, LooseLogprob, LooseMessage, LooseUsage } from "./schema.upstream.ts";

type WireFinish = NonNullable<ChunkChoice["finish_reason"]>;

/** The wire reason for each finish reason. The format has only four reasons; `stop` stands for each one without a similar reason. */
export const FINISH_REASON: Readonly<Record<FinishReason, WireFinish>> = {
  stop: "stop",
  "stop-sequence": "stop",
  length: "length",
  "tool-calls": "tool_calls",
  pause: "stop",
  refusal: "content_filter",
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

/** The finish reasons of the format, and those of single providers: Mistral, GLM, Together, and gateways before Anthropic and Gemini. */
const REASON_OF: ReadonlyMap<string, FinishReason> = new Map([
  ["stop", "stop"],
  ["length", "length"],
  ["tool_calls", "tool-calls"],
  ["function_call", "tool-calls"],
  ["content_filter", "content-filter"],
  ["sensitive", "content-filter"],
  ["refusal", "refusal"],
  ["eos", "stop"],
  ["end_turn", "stop"],
  ["tool_use", "tool-calls"],
  ["max_tokens", "length"],
  ["model_length", "context-window"],
  ["model_context_window_exceeded", "context-window"],
]);

export const decodeFinish = (wire: string): FinishReason => REASON_OF.get(wire) ?? "other";

/** The finish reasons of an answer that its server gave up: the answer is a failure, however much of it there is. */
export const FAILED_FINISH: ReadonlySet<string> = new Set(["error", "network_error", "insufficient_system_resource"]);

export const encodeUsage = ({ inputTokens, outputTokens, details, ...usage }: Usage): CompletionUsage => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
  prompt_tokens_details: {
    cached_tokens: usage.cacheReadTokens,
    audio_tokens: audioTokens(details?.input),
    ...(usage.cacheWriteTokens > 0 && { cache_write_tokens: usage.cacheWriteTokens }),
  },
  completion_tokens_details: {
    reasoning_tokens: usage.reasoningTokens,
    audio_tokens: audioTokens(details?.output),
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
});

const audioTokens = (counts: readonly ModalityCount[] = []): number =>
  counts.reduce((sum, { modality, tokens }) => (modality === "audio" ? sum + tokens : sum), 0);

/** Decodes the token counts of an upstream. A count that the upstream left out is absent. */
export function decodeUsage(usage: LooseUsage): Partial<Usage> {
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  const { prompt_tokens_details: input, completion_tokens_details: output } = usage;
  const cacheRead = input?.cached_tokens ?? usage.prompt_cache_hit_tokens;
  const reasoning = output?.reasoning_tokens ?? 0;
  // Several upstreams leave reasoning out of `completion_tokens`. The neutral count includes it.
  const leftOut =
    completion_tokens != null &&
    (reasoning > completion_tokens || total_tokens === (prompt_tokens ?? 0) + completion_tokens + reasoning);
  const details = {
    ...(input?.audio_tokens && { input: [{ modality: "audio", tokens: input.audio_tokens } as const] }),
    ...(output?.audio_tokens && { output: [{ modality: "audio", tokens: output.audio_tokens } as const] }),
  };
  return {
    ...(prompt_tokens != null && { inputTokens: prompt_tokens }),
    ...(completion_tokens != null && { outputTokens: completion_tokens + (leftOut ? reasoning : 0) }),
    ...(cacheRead != null && { cacheReadTokens: cacheRead }),
    ...(input?.cache_write_tokens != null && { cacheWriteTokens: input.cache_write_tokens }),
    ...(output?.reasoning_tokens != null && { reasoningTokens: output.reasoning_tokens }),
    ...(Object.keys(details).length > 0 && { details }),
  };
}

const utf8 = new TextEncoder();

const encodeLogprob = ({ token, logProbability }: Logprob): Omit<TokenLogprob, "top_logprobs"> => ({
  token,
  logprob: logProbability,
  bytes: [...utf8.encode(token)],
});

export const encodeLogprobs = ({ chosen, top }: Logprobs): TokenLogprob[] =>
  chosen.map((token, step) => ({ ...encodeLogprob(token), top_logprobs: (top[step] ?? []).map(encodeLogprob) }));

const decodeLogprob = ({ token, logprob }: LooseLogprob): Logprob => ({ token, logProbability: logprob });

export function decodeLogprobs({ content }: NonNullable<LooseChoice["logprobs"]>): Annotation | undefined {
  if (!content?.length) return undefined;
  const top = content.map((step) => (step.top_logprobs ?? []).map(decodeLogprob));
  return { type: "logprobs", chosen: content.map(decodeLogprob), top };
}

/** Returns the sources on the web that an annotation names. */
export function encodeSources(annotation: Annotation): UrlCitation[] {
  if (annotation.type === "citations") return annotation.citations.flatMap(({ uri }) => urlCitation(uri, uri));
  if (annotation.type !== "grounding") return [];
  return (annotation.chunks ?? []).flatMap(({ uri, title }) => urlCitation(uri, title));
}

function urlCitation(url: string | undefined, title: string | undefined): UrlCitation[] {
  if (url === undefined) return [];
  return [{ type: "url_citation", url_citation: { start_index: 0, end_index: 0, url, title: title ?? url } }];
}

export function decodeSources(annotations: NonNullable<LooseMessage["annotations"]>): Annotation | undefined {
  const chunks = annotations.flatMap(({ url_citation }) => {
    const { url, title } = url_citation ?? {};
    return url ? [{ uri: url, ...(title && { title }) }] : [];
  });
  return chunks.length > 0 ? { type: "grounding", chunks } : undefined;
}

interface CollectedChoice {
  readonly content: string[];
  readonly refusal: string[];
  readonly reasoning: string[];
  /** The last list: it holds all details. */
  details: NonNullable<ChunkDelta["reasoning_details"]>;
  readonly calls: { first: Omit<ToolCallDelta, "index">; readonly json: string[] }[];
  readonly logprobs: TokenLogprob[];
  readonly media: Pick<ChunkDelta, "annotations" | "images" | "audio" | "extra_content">;
  finish: WireFinish | null;
}

/** Collects the chunks of a stream into the complete answer, so that a complete and a streamed answer always agree. */
export class ChunkCollector {
  readonly #choices: Map<number, CollectedChoice> = new Map();
  #last: Chunk | undefined;
  #usage: CompletionUsage | null = null;

  add(chunk: Chunk): void {
    this.#last = chunk;
    if (chunk.usage) this.#usage = chunk.usage;
    for (const { index, delta, logprobs, finish_reason } of chunk.choices) {
      let choice = this.#choices.get(index);
      if (!choice) {
        choice = {
          content: [],
          refusal: [],
          reasoning: [],
          details: [],
          calls: [],
          logprobs: [],
          media: {},
          finish: null,
        };
        this.#choices.set(index, choice);
      }
      collectDelta(choice, delta);
      for (const step of logprobs?.content ?? []) choice.logprobs.push(step);
      choice.finish = finish_reason ?? choice.finish;
    }
  }

  get body(): object {
    if (!this.#last) throw new GatewayError("backend_failed", "The model backend gave no answer.");
    const { id, created, model, service_tier } = this.#last;
    const choices = [...this.#choices]
      .toSorted(([a], [b]) => a - b)
      .map(([index, choice]) => ({
        index,
        message: messageOf(choice),
        logprobs: choice.logprobs.length > 0 ? { content: choice.logprobs, refusal: null } : null,
        finish_reason: choice.finish,
      }));
    const tier = service_tier === undefined ? {} : { service_tier };
    return { id, object: "chat.completion", created, model, choices, usage: this.#usage, ...tier };
  }
}

function collectDelta(choice: CollectedChoice, delta: ChunkDelta): void {
  const { content, refusal, reasoning, calls, media } = choice;
  if (delta.content) content.push(delta.content);
  if (delta.refusal) refusal.push(delta.refusal);
  if (delta.reasoning_content) reasoning.push(delta.reasoning_content);
  if (delta.reasoning_details) choice.details = delta.reasoning_details;
  for (const { index, ...call } of delta.tool_calls ?? []) {
    const json = call.function?.arguments ?? call.custom?.input ?? "";
    const known = calls[index];
    if (!known) calls[index] = { first: call, json: [json] };
    else {
      known.json.push(json);
      if (call.extra_content) known.first = { ...known.first, extra_content: call.extra_content };
    }
  }
  for (const annotation of delta.annotations ?? []) (media.annotations ??= []).push(annotation);
  if (delta.extra_content) media.extra_content = delta.extra_content;
  for (const image of delta.images ?? []) (media.images ??= []).push(image);
  // Join the pieces of a sound in the same way as clients that read the stream.
  if (delta.audio) media.audio = { ...delta.audio, data: (media.audio?.data ?? "") + delta.audio.data };
}

function messageOf({ content, refusal, reasoning, details, calls, media }: CollectedChoice): object {
  const text = content.join("");
  const hasOther = calls.length > 0 || refusal.length > 0 || media.audio !== undefined || media.images !== undefined;
  return {
    role: "assistant",
    content: text === "" && hasOther ? null : text,
    refusal: refusal.length > 0 ? refusal.join("") : null,
    ...(reasoning.length > 0 && { reasoning_content: reasoning.join("") }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ first, json }) => ({
        ...first,
        ...(first.function && { function: { ...first.function, arguments: json.join("") } }),
        ...(first.custom && { custom: { ...first.custom, input: json.join("") } }),
      })),
    }),
    ...media,
  };
}
