/** The messages answer on the wire (spec 2.7, 6.1), one schema an object: what an upstream must send to be understood. */

import * as v from "valibot";
import { choice, object } from "../../http/validation.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { unsaid, unsaidFinder, type UnsaidFinder, whole } from "../shared/schema.unsaid.ts";

const text = v.nullish(v.string());
const number = v.nullish(v.number());
const anyObject = v.custom<JsonObject>(isJsonObject);
/** Read where it is of the type that is looked for, or the same in every answer. */
const anything = v.optional(v.unknown());

/** By what the counts of writes to a cache are named, each with its time to live. */
export const CACHE_WRITES: RegExp = /^ephemeral_(.+)_input_tokens$/;
/** By what the counts of the provider's own tools are named. */
export const TOOL_USES: RegExp = /^(.+)_requests$/;

const counts = (form: RegExp) =>
  unsaid(v.nullish(anyObject), (named) => !Object.keys(named).every((name) => form.test(name)));

const Usage = object({
  input_tokens: number,
  output_tokens: number,
  cache_creation_input_tokens: number,
  cache_read_input_tokens: number,
  output_tokens_details: v.nullish(object({ thinking_tokens: number })),
  cache_creation: counts(CACHE_WRITES),
  server_tool_use: counts(TOOL_USES),
  service_tier: text,
});
export type WireUsage = v.InferOutput<typeof Usage>;

/** A citation has one of these; where in its source it stands, and its words, the neutral model does not say. */
const Citation = object({ type: anything, url: anything, source: anything });
export type WireCitation = v.InferOutput<typeof Citation>;

/** A block as it begins. */
const KNOWN_BLOCKS = {
  text: object({ type: v.literal("text"), text: v.string(), citations: v.nullish(v.array(Citation)) }),
  thinking: object({ type: v.literal("thinking"), thinking: v.string(), signature: text }),
  redacted_thinking: object({ type: v.literal("redacted_thinking"), data: v.string() }),
  tool_use: object({ type: v.literal("tool_use"), id: v.string(), name: v.string(), input: v.nullish(anyObject) }),
} as const;

type BlockType = keyof typeof KNOWN_BLOCKS;
type KnownBlock = v.InferOutput<(typeof KNOWN_BLOCKS)[BlockType]>;

const isKnown = (type: unknown): type is BlockType => typeof type === "string" && Object.hasOwn(KNOWN_BLOCKS, type);

/** A block of another type: the upstream's own. */
const OwnBlock = whole(object({ type: v.string() }));

const Block = choice([...Object.values(KNOWN_BLOCKS), OwnBlock], (input) =>
  isJsonObject(input) && isKnown(input["type"]) ? KNOWN_BLOCKS[input["type"]] : OwnBlock,
);
export type WireBlock = v.InferOutput<typeof Block>;

/** A block that is known, else undefined. */
export const knownBlock = (block: WireBlock): KnownBlock | undefined =>
  isKnown(block.type) ? (block as KnownBlock) : undefined;

const message = { type: anything, role: anything, id: text, model: text, usage: v.nullish(Usage) };

/** A complete answer. */
export const MessageAnswer = object({ ...message, content: v.array(Block), stop_reason: text, stop_sequence: text });
export type MessageAnswer = v.InferOutput<typeof MessageAnswer>;

const frame = <const Entries extends v.ObjectEntries>(entries: Entries) => object({ type: anything, ...entries });

/** The frames of a stream that mean something; those of other types are passed over. */
export const Frame = {
  message_start: frame({ message: object(message) }),
  content_block_start: frame({ index: v.number(), content_block: Block }),
  content_block_delta: frame({
    index: v.number(),
    delta: object({
      type: v.string(),
      text,
      thinking: text,
      signature: text,
      partial_json: text,
      citation: v.nullish(Citation),
    }),
  }),
  content_block_stop: frame({ index: v.number() }),
  message_delta: frame({
    // The spec has the usage in here, the official service beside it.
    delta: object({ stop_reason: text, stop_sequence: text, usage: v.nullish(Usage) }),
    usage: v.nullish(Usage),
  }),
  message_stop: frame({}),
} as const;

export type FrameType = keyof typeof Frame;
export type FrameOf<Type extends FrameType> = v.InferOutput<(typeof Frame)[Type]>;

/** The paths of what the neutral model has no words for. */
export const unsaidInAnswer: UnsaidFinder = unsaidFinder(MessageAnswer);
const IN_FRAME: ReadonlyMap<string, UnsaidFinder> = new Map(
  Object.entries(Frame).map(([type, schema]) => [type, unsaidFinder(schema)]),
);
const inOtherFrame = unsaidFinder(frame({}));
export const unsaidInFrame = (type: string): UnsaidFinder => IN_FRAME.get(type) ?? inOtherFrame;
