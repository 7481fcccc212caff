/** The schemas of the embeddings format: the request and the answer of OpenAI's clients. */

import * as v from "valibot";
import { array, choice, object, upTo } from "../../http/validation.ts";
import { MAX_DIMENSIONS, MAX_INPUTS } from "../../model/embedding.ts";
import { text, unsupportedFinder } from "../shared/schema.ts";

const token = v.pipe(v.number(), v.integer(), v.minValue(0, "must be at least 0"));

const listOf = <const Item extends v.GenericSchema>(item: Item) =>
  upTo(v.pipe(array(item), v.minLength(1, "must not be empty")), MAX_INPUTS, `must hold at most ${MAX_INPUTS} inputs`);
const texts = listOf(text);
// A single list of tokens is one input, so only the model limits its length.
const tokens = v.pipe(array(token), v.minLength(1, "must not be empty"));
const lists = listOf(tokens);

/** A text, texts, a list of tokens, or lists of tokens. The first element of a list decides which. */
const Input = choice([text, texts, tokens, lists], (input) => {
  if (!Array.isArray(input)) return text;
  const [first] = input as readonly unknown[];
  if (Array.isArray(first)) return lists;
  return typeof first === "number" ? tokens : texts;
});

/** The request body. Unknown fields are allowed. */
export const EmbeddingsRequest = object({
  model: v.pipe(text, v.maxLength(256, "must be at most 256 characters long")),
  input: Input,
  dimensions: v.nullish(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1, "must be at least 1"),
      v.maxValue(MAX_DIMENSIONS, `must be at most ${MAX_DIMENSIONS}`),
    ),
  ),
  encoding_format: v.nullish(v.picklist(["float", "base64"])),
  user: v.nullish(v.string()),
});
export type EmbeddingsRequest = v.InferOutput<typeof EmbeddingsRequest>;

/** Finds the fields of a body that the neutral model cannot hold. */
export const unsupportedIn = unsupportedFinder(EmbeddingsRequest);

const count = v.pipe(v.number(), v.integer(), v.minValue(0));

export const EmbeddingObject = v.object({
  object: v.literal("embedding"),
  index: count,
  embedding: v.union([
    v.array(v.number()),
    v.pipe(
      v.string(),
      v.description("32-bit floats, little-endian, for `base64`."),
      v.metadata({ contentEncoding: "base64" }),
    ),
  ]),
});

export const EmbeddingsAnswer = v.object({
  object: v.literal("list"),
  data: v.array(EmbeddingObject),
  model: v.string(),
  usage: v.object({ prompt_tokens: count, total_tokens: count }),
});
