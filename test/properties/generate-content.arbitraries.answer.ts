/** Random answers: those that the generate-content format can say, and events in any order at all. */

import fc from "fast-check";
import type {
  Annotation,
  ChatEvent,
  ContentEvent,
  FinishEvent,
  FinishReason,
  PromptFeedback,
  Usage,
} from "../../src/index.ts";
import { base64, count, name, number, record, some, text, userObject } from "./generate-content.arbitraries.ts";

const maker = "generate-content";
const signed = base64.chain((signature) => fc.constantFrom({}, { signature, maker }));
const thought = fc.boolean().map((is) => (is ? { thought: true } : {}));
const type = <const Type extends string>(value: Type): fc.Arbitrary<Type> => fc.constant(value);

const content: fc.Arbitrary<ContentEvent> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .tuple(text, signed)
      .map(([value, seal]): ContentEvent => ({ type: "text-delta", text: value, ...seal })),
  },
  fc.record({ type: type("text-delta"), text: fc.constant(""), signature: base64, maker: fc.constant(maker) }),
  fc.record({ type: type("reasoning-delta"), text }),
  fc.record({ type: type("reasoning-signature"), signature: base64, maker: fc.constant(maker) }),
  fc
    .tuple(fc.constantFrom("image/png", "audio/wav"), base64, thought, signed)
    .map(([mediaType, data, is, seal]): ContentEvent => ({ type: "media", mediaType, data, ...is, ...seal })),
  fc
    .tuple(
      record({ language: fc.constantFrom("python" as const, "unspecified" as const), code: text }, { id: name }),
      signed,
    )
    .map(([code, seal]): ContentEvent => ({ type: "code", ...code, ...seal })),
  fc
    .tuple(
      record(
        {
          outcome: fc.constantFrom(
            "ok" as const,
            "failed" as const,
            "deadline-exceeded" as const,
            "unspecified" as const,
          ),
          // Always there: the encoder writes an empty output where there is none.
          output: text,
        },
        { id: name },
      ),
      signed,
    )
    .map(([result, seal]): ContentEvent => ({ type: "code-result", ...result, ...seal })),
  fc
    .tuple(fc.uuid(), name, userObject, signed)
    .map(([id, tool, input, seal]): ContentEvent => ({ type: "tool-call", id, name: tool, input, ...seal })),
);

const rating = record(
  {
    category: fc.constantFrom(
      "harassment" as const,
      "civic-integrity" as const,
      "toxicity" as const,
      "unspecified" as const,
    ),
    probability: fc.constantFrom(
      "unspecified" as const,
      "negligible" as const,
      "low" as const,
      "medium" as const,
      "high" as const,
    ),
  },
  { blocked: fc.boolean() },
);
/** More than an upstream may add to a small request would be doubted. */
const counted = fc.nat({ max: 15_000 });

const logprob = record({ token: text, logProbability: number(-20, 0) }, { tokenId: count });
const few = <T>(item: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(item, { maxLength: 2 });

const grounding = some({
  chunks: few(some({ uri: text, title: text })),
  supports: few(
    some({
      chunkIndices: few(count),
      confidenceScores: few(number(0, 1)),
      segment: some({ partIndex: count, start: count, end: count, text }),
    }),
  ),
  searchQueries: few(text),
  searchEntryPoint: some({ renderedContent: text, sdkBlob: base64 }),
  dynamicRetrievalScore: number(0, 1),
});

/** One of each kind at most, in the order of the kinds: that is what an answer keeps of them. */
const annotations: fc.Arbitrary<Annotation[]> = fc
  .tuple(
    fc.record({ type: type("safety"), ratings: few(rating) }),
    fc.record({
      type: type("citations"),
      citations: few(some({ start: count, end: count, uri: text, license: text })),
    }),
    grounding.map((found) => ({ type: "grounding" as const, ...found })),
    fc.record({
      type: type("attributions"),
      attributions: few(
        some({ passage: some({ id: text, partIndex: count }), chunk: some({ source: text, chunk: text }), text }),
      ),
    }),
    fc.oneof(
      fc.record({ type: type("logprobs"), chosen: few(logprob), top: few(few(logprob)), average: number(-20, 0) }),
      // Of tokens that are there, the mean is always told.
      fc.record({ type: type("logprobs"), chosen: fc.constant([]), top: few(few(logprob)) }),
    ),
    fc.record({ type: type("retrieved-urls"), urls: few(text) }),
    fc.record({
      type: type("url-context"),
      urls: few(
        fc.record({ url: text, status: fc.constantFrom("unspecified" as const, "success" as const, "error" as const) }),
      ),
    }),
    fc.record({ type: type("token-count"), tokens: count }),
  )
  .chain((all) => fc.subarray<Annotation>(all));

const modalities = few(
  fc.record({
    modality: fc.constantFrom("unspecified", "text", "image", "video", "audio", "document"),
    tokens: counted,
  }),
);

/** Counts whose parts are no greater than their wholes; a count of nothing is left out. */
const usage: fc.Arbitrary<Partial<Usage>> = fc
  .tuple(fc.tuple(counted, counted, counted, counted), some({ toolUseTokens: counted, details: detailsOf() }))
  .map(([[input, output, cacheReadTokens, reasoningTokens], rest]) => ({
    inputTokens: input + cacheReadTokens + (rest.toolUseTokens ?? 0),
    outputTokens: output + reasoningTokens,
    ...(cacheReadTokens > 0 && { cacheReadTokens }),
    ...(reasoningTokens > 0 && { reasoningTokens }),
    ...rest,
  }));

function detailsOf(): fc.Arbitrary<NonNullable<Usage["details"]>> {
  return some({ input: modalities, output: modalities, cacheRead: modalities, toolUse: modalities }).filter(
    (details) => Object.keys(details).length > 0,
  );
}

const REASONS: readonly FinishReason[] = [
  "length",
  "content-filter",
  "recitation",
  "language",
  "other",
  "blocklist",
  "prohibited-content",
  "personal-data",
  "malformed-tool-call",
  "unsafe-image",
];

const start = record({ type: type("start"), id: name, model: name }, {});

/** An answer of some candidates, in the parts that make it up. */
export interface Answer {
  readonly start: ChatEvent;
  readonly feedback: readonly ChatEvent[];
  /** In the order of their making; of several candidates, mixed. */
  readonly content: readonly ContentEvent[];
  readonly notes: readonly ContentEvent[];
  readonly finishes: readonly FinishEvent[];
}

const of = (candidate: number): { candidate?: number } => (candidate === 0 ? {} : { candidate });

/** Every answer that the format can say. */
export const answer: fc.Arbitrary<Answer> = fc
  .tuple(
    start,
    fc.option(few(rating), { nil: undefined }),
    fc.array(fc.record({ noted: annotations, why: fc.option(fc.constantFrom(...REASONS), { nil: undefined }) }), {
      minLength: 1,
      maxLength: 3,
    }),
    fc.array(fc.tuple(content, fc.nat()), { maxLength: 10 }),
    usage,
  )
  .map(([begun, ratings, candidates, written, counts]) => {
    const mixed = written.map(([event, at]): ContentEvent => ({ ...event, ...of(at % candidates.length) }));
    const calls = new Set(mixed.flatMap((event) => (event.type === "tool-call" ? (event.candidate ?? 0) : [])));
    return {
      start: begun,
      feedback: ratings ? [{ type: "prompt-feedback", ratings }] : [],
      content: mixed,
      notes: candidates.flatMap(({ noted }, index) =>
        noted.map((annotation): ContentEvent => ({ type: "annotation", annotation, ...of(index) })),
      ),
      finishes: candidates.map(({ why }, index) => ({
        type: "finish",
        reason: why ?? (calls.has(index) ? "tool-calls" : "stop"),
        ...of(index),
        ...(index === 0 && { usage: counts }),
      })),
    };
  });

/** A prompt that was blocked: no candidates at all. */
export const blocked: fc.Arbitrary<ChatEvent[]> = fc
  .tuple(
    start,
    fc.constantFrom<[NonNullable<PromptFeedback["blockReason"]>, FinishReason][]>(
      ["unspecified", "content-filter"],
      ["safety", "content-filter"],
      ["other", "content-filter"],
      ["blocklist", "blocklist"],
      ["prohibited-content", "prohibited-content"],
      ["unsafe-image", "unsafe-image"],
    ),
    few(rating),
    usage,
  )
  .map(([begun, [blockReason, reason], ratings, counts]) => [
    begun,
    { type: "prompt-feedback", blockReason, ratings },
    { type: "finish", reason, usage: counts },
  ]);

const id = fc.constantFrom("a", "b");
const candidate = some({ candidate: fc.constantFrom(0, 1, 2) });

const hostile: fc.Arbitrary<ChatEvent> = fc.oneof(
  content,
  annotations.map((all): ChatEvent => ({
    type: "annotation",
    annotation: all[0] ?? { type: "token-count", tokens: 1 },
  })),
  fc.record({ type: type("text-delta"), text: fc.constant("") }),
  fc.record({ type: type("redacted-reasoning"), data: base64 }),
  fc.record({ type: type("tool-call-start"), id, name }),
  fc.record({ type: type("tool-call-delta"), id, json: fc.constantFrom("{}", '{"a":', "1}", "[1]", "") }),
  fc.record({ type: type("tool-call-end"), id }),
  fc.record({ type: type("tool-call"), id, name, input: userObject }),
  record({ type: type("finish"), reason: fc.constantFrom("stop", ...REASONS) }, { usage }),
  fc.record({ type: type("usage"), usage }),
  start,
  record(
    { type: type("prompt-feedback"), ratings: few(rating) },
    { blockReason: fc.constantFrom("safety" as const, "other" as const) },
  ),
);

/** Events in any order at all: calls that never began or ended twice, arguments that are no JSON, ends before the end. */
export const hostileEvents: fc.Arbitrary<ChatEvent[]> = fc.array(
  fc.tuple(hostile, candidate).map(([event, at]): ChatEvent => ({ ...event, ...at })),
  { maxLength: 12 },
);
