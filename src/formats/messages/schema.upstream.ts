/** The messages answers as upstreams send them. Most fields may be missing or null, and unknown fields are allowed. */

import * as v from "valibot";
import { array, choice, isValid, object, textOr } from "../../http/validation.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { MAX_STEPS } from "../../model/usage.ts";
import { unsupported, unsupportedFinder, type UnsupportedFinder, whole } from "../shared/schema.ts";
import { DirectCaller, RedactedThinkingBlock, ThinkingBlock } from "./schema.ts";

const mayBeText = v.nullish(v.string());
const mayBeNumber = v.nullish(v.number());
const jsonObject = v.custom<JsonObject>(isJsonObject);
/** A field that is not validated, because it is not read, or read only if it has the expected type. */
const anything = v.optional(v.unknown());

/** Matches the name of an upstream's count of cache writes. The group is the time to live. */
export const CACHE_WRITES: RegExp = /^ephemeral_(.+)_input_tokens$/;
/** Matches the name of an upstream's count of tool uses. The group is the name of the tool. */
export const TOOL_USES: RegExp = /^(.+)_requests$/;

const counts = (form: RegExp) =>
  unsupported(v.nullish(jsonObject), (named) => !Object.keys(named).every((name) => form.test(name)));

/** The usage of one step of an answer, such as a compaction. */
const UpstreamIteration = object({
  type: v.string(),
  /** The model of the step; missing for a step of the model that answers. */
  model: mayBeText,
  input_tokens: mayBeNumber,
  output_tokens: mayBeNumber,
  cache_creation_input_tokens: mayBeNumber,
  cache_read_input_tokens: mayBeNumber,
  cache_creation: v.nullish(jsonObject),
});
export type UpstreamIteration = v.InferOutput<typeof UpstreamIteration>;

/** Returns the steps of a usage, up to one more than are believed. Leaves out those without the shape of one. */
export const iterationsIn = (iterations: unknown): readonly UpstreamIteration[] =>
  Array.isArray(iterations)
    ? iterations.slice(0, MAX_STEPS + 1).filter((step) => isValid(UpstreamIteration, step))
    : [];

export const UpstreamUsage = object({
  input_tokens: mayBeNumber,
  output_tokens: mayBeNumber,
  cache_creation_input_tokens: mayBeNumber,
  cache_read_input_tokens: mayBeNumber,
  output_tokens_details: v.nullish(object({ thinking_tokens: mayBeNumber })),
  cache_creation: counts(CACHE_WRITES),
  server_tool_use: counts(TOOL_USES),
  service_tier: mayBeText,
  speed: anything,
  inference_geo: anything,
  iterations: anything,
});
export type UpstreamUsage = v.InferOutput<typeof UpstreamUsage>;

/** A citation, which names its source in `url` or `source`. The neutral model has no position in the source. */
const UpstreamCitation = object({
  type: anything,
  url: anything,
  source: anything,
  title: anything,
  document_title: anything,
  // Most formats have no quote.
  cited_text: unsupported(anything),
});
export type UpstreamCitation = v.InferOutput<typeof UpstreamCitation>;

const KNOWN_BLOCKS = {
  text: object({ type: v.literal("text"), text: mayBeText, citations: v.nullish(array(UpstreamCitation)) }),
  thinking: object({ ...ThinkingBlock.entries, signature: mayBeText }),
  redacted_thinking: RedactedThinkingBlock,
  tool_use: object({
    type: v.literal("tool_use"),
    id: v.string(),
    name: v.string(),
    // Some upstreams begin streamed arguments with an empty text.
    input: v.nullish(textOr(jsonObject, v.literal(""))),
    caller: DirectCaller,
  }),
} as const;
type KnownType = keyof typeof KNOWN_BLOCKS;

const isKnown = (type: unknown): type is KnownType => typeof type === "string" && Object.hasOwn(KNOWN_BLOCKS, type);

/** A block of any other type, which is passed on unchanged. */
const ProviderBlock = whole(object({ type: v.string() }));

const UpstreamBlock = choice([...Object.values(KNOWN_BLOCKS), ProviderBlock], (input) =>
  isJsonObject(input) && isKnown(input["type"]) ? KNOWN_BLOCKS[input["type"]] : ProviderBlock,
);
export type UpstreamBlock = v.InferOutput<typeof UpstreamBlock>;

/** Returns a block of a known type, with its TypeScript type; undefined for any other block. */
export const knownBlock = (block: UpstreamBlock): v.InferOutput<(typeof KNOWN_BLOCKS)[KnownType]> | undefined =>
  isKnown(block.type) ? (block as v.InferOutput<(typeof KNOWN_BLOCKS)[KnownType]>) : undefined;

const KnownDelta = object({
  type: mayBeText,
  text: mayBeText,
  thinking: mayBeText,
  signature: mayBeText,
  partial_json: mayBeText,
  citation: v.nullish(UpstreamCitation),
});
/** The types of the deltas that the gateway reads. */
const DELTAS: ReadonlySet<string> = new Set([
  "text_delta",
  "thinking_delta",
  "signature_delta",
  "input_json_delta",
  "citations_delta",
]);
const OtherDelta = object({ type: v.string() }) as v.GenericSchema as typeof KnownDelta;

const begun = { type: anything, role: anything, id: mayBeText, model: mayBeText, usage: v.nullish(UpstreamUsage) };

export const UpstreamAnswer = object({
  ...begun,
  content: array(UpstreamBlock),
  stop_reason: mayBeText,
  stop_sequence: mayBeText,
});
export type UpstreamAnswer = v.InferOutput<typeof UpstreamAnswer>;

const frame = <const Entries extends v.ObjectEntries>(entries: Entries) => object({ type: anything, ...entries });

/** The frames of an upstream's stream by their type. The decoder gives no events for frames of other types. */
export const UPSTREAM_FRAMES = {
  message_start: frame({ message: object(begun) }),
  content_block_start: frame({ index: v.number(), content_block: UpstreamBlock }),
  content_block_delta: frame({
    index: v.number(),
    delta: choice([KnownDelta, OtherDelta], (input) =>
      isJsonObject(input) && typeof input["type"] === "string" && !DELTAS.has(input["type"]) ? OtherDelta : KnownDelta,
    ),
  }),
  content_block_stop: frame({ index: v.number() }),
  message_delta: frame({
    delta: object({ stop_reason: mayBeText, stop_sequence: mayBeText, usage: v.nullish(UpstreamUsage) }),
    usage: v.nullish(UpstreamUsage),
  }),
  message_stop: frame({}),
} as const;
export type UpstreamFrameType = keyof typeof UPSTREAM_FRAMES;
export type UpstreamFrame<Type extends UpstreamFrameType> = v.InferOutput<(typeof UPSTREAM_FRAMES)[Type]>;

export const unsupportedInAnswer: UnsupportedFinder = unsupportedFinder(UpstreamAnswer);

const FINDERS: ReadonlyMap<string, UnsupportedFinder> = new Map(
  Object.entries(UPSTREAM_FRAMES).map(([type, schema]) => [type, unsupportedFinder(schema)]),
);
const inOtherFrames = unsupportedFinder(frame({}));

export const unsupportedInFrame = (type: string): UnsupportedFinder => FINDERS.get(type) ?? inOtherFrames;
