/** The messages answer on the wire (spec 2.7, 6.1), one schema an object: what an upstream must send to be understood. */

import * as v from "valibot";
import { object } from "../../http/validation.ts";
import { isValid } from "../../http/validation.predicate.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";

const text = v.nullish(v.string());
const number = v.nullish(v.number());
const anyObject = v.custom<JsonObject>(isJsonObject);

const Usage = object({
  input_tokens: number,
  output_tokens: number,
  cache_creation_input_tokens: number,
  cache_read_input_tokens: number,
  output_tokens_details: v.nullish(object({ thinking_tokens: number })),
  cache_creation: v.nullish(anyObject),
  server_tool_use: v.nullish(anyObject),
  service_tier: text,
});
export type WireUsage = v.InferOutput<typeof Usage>;

/** A block as it begins. Blocks of other types are the upstream's own. */
const KNOWN_BLOCKS = {
  text: object({ text: v.string(), citations: v.nullish(v.array(anyObject)) }),
  thinking: object({ thinking: v.string(), signature: text }),
  redacted_thinking: object({ data: v.string() }),
  tool_use: object({ id: v.string(), name: v.string(), input: v.nullish(anyObject) }),
} as const;

type KnownBlock = {
  [Type in keyof typeof KNOWN_BLOCKS]: { type: Type } & v.InferOutput<(typeof KNOWN_BLOCKS)[Type]>;
}[keyof typeof KNOWN_BLOCKS];

type BlockType = keyof typeof KNOWN_BLOCKS;
const isKnown = (type: unknown): type is BlockType => typeof type === "string" && Object.hasOwn(KNOWN_BLOCKS, type);

/** A block that is known, else undefined; false where its type is known but its shape is not. */
export function knownBlock(block: JsonObject): KnownBlock | undefined | false {
  const { type } = block;
  if (!isKnown(type)) return undefined;
  return isValid(KNOWN_BLOCKS[type], block) && (block as unknown as KnownBlock);
}

const Block = v.custom<JsonObject>((input) => isJsonObject(input) && typeof input["type"] === "string");

/** A complete answer. */
export const MessageAnswer = object({
  id: text,
  model: text,
  content: v.array(Block),
  stop_reason: text,
  stop_sequence: text,
  usage: v.nullish(Usage),
});
export type MessageAnswer = v.InferOutput<typeof MessageAnswer>;

/** The frames of a stream that mean something; those of other types are passed over. */
export const Frame = {
  message_start: object({ message: object({ id: text, model: text, usage: v.nullish(Usage) }) }),
  content_block_start: object({ index: v.number(), content_block: Block }),
  content_block_delta: object({
    index: v.number(),
    delta: object({
      type: v.string(),
      text,
      thinking: text,
      signature: text,
      partial_json: text,
      citation: v.nullish(anyObject),
    }),
  }),
  content_block_stop: object({ index: v.number() }),
  message_delta: object({
    // The spec has the usage in here, the official service beside it.
    delta: object({ stop_reason: text, stop_sequence: text, usage: v.nullish(Usage) }),
    usage: v.nullish(Usage),
  }),
  message_stop: object({}),
} as const;

export type FrameType = keyof typeof Frame;
export type FrameOf<Type extends FrameType> = v.InferOutput<(typeof Frame)[Type]>;
