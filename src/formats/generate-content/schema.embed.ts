/** The requests and answers of `embedContent` and `batchEmbedContents`, in camelCase. Unknown fields are allowed. */

import * as v from "valibot";
import type { FieldPath } from "../../errors.ts";
import { array, crossCheck, type RuleBreach, textOr, upTo } from "../../http/validation.ts";
import { MAX_DIMENSIONS, MAX_INPUTS } from "../../model/embedding.ts";
import { atMost, TASK_TYPE, unsupported, unsupportedFinder } from "../shared/schema.ts";
import { Content, partBreaches, type RequestPart } from "./schema.ts";
import { carried, object, optionalText, readWord } from "./schema.wire.ts";

/** The value of a task type that means none. */
const UNSPECIFIED = "TASK_TYPE_UNSPECIFIED";

const Embedded = object({
  // Ignored: the address names the model, and clients repeat the name here.
  model: carried,
  content: textOr(Content),
  // The official service adds task types from time to time, so an unknown one passes to an upstream of this format.
  taskType: unsupported(
    v.nullish(atMost(v.string(), 64)),
    (word) => word !== UNSPECIFIED && readWord(TASK_TYPE, word) === undefined,
  ),
  title: optionalText,
  outputDimensionality: v.nullish(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1, "must be at least 1"),
      v.maxValue(MAX_DIMENSIONS, `must be at most ${MAX_DIMENSIONS}`),
    ),
  ),
});
export type EmbedContentRequest = v.InferOutput<typeof Embedded>;

export const EmbedContentRequest = v.pipe(
  Embedded,
  crossCheck<EmbedContentRequest>(({ content }) => contentBreaches(content, ["content"])),
);

const Batch = object({
  requests: upTo(
    v.pipe(array(Embedded), v.minLength(1, "must hold at least one request")),
    MAX_INPUTS,
    `must hold at most ${MAX_INPUTS} requests`,
  ),
});
export type BatchEmbedContentsRequest = v.InferOutput<typeof Batch>;

export const BatchEmbedContentsRequest = v.pipe(Batch, crossCheck<BatchEmbedContentsRequest>(batchBreaches));

/** Find the fields of a body that the neutral model cannot hold. */
export const unsupportedInOne = unsupportedFinder(Embedded);
export const unsupportedInBatch = unsupportedFinder(Batch);

const EMBEDDABLE = ["text", "inlineData", "fileData"] as const satisfies (keyof RequestPart)[];

function* contentBreaches(content: EmbedContentRequest["content"], path: FieldPath): Generator<RuleBreach> {
  if (typeof content === "string") {
    if (content === "") yield { path, message: "must not be empty" };
    return;
  }
  let isEmpty = true;
  for (const [index, part] of content.parts.entries()) {
    const at = [...path, "parts", index];
    yield* partBreaches(part, at);
    if (EMBEDDABLE.every((kind) => part[kind] == null))
      yield { path: at, message: `must hold one of ${EMBEDDABLE.join(", ")}: nothing else can be embedded` };
    if (part.text == null || part.text !== "") isEmpty = false;
  }
  if (isEmpty) yield { path: [...path, "parts"], message: "must not be empty" };
}

function* batchBreaches({ requests }: BatchEmbedContentsRequest): Generator<RuleBreach> {
  for (const [index, { content }] of requests.entries())
    yield* contentBreaches(content, ["requests", index, "content"]);
}

const count = v.pipe(v.number(), v.integer(), v.minValue(0));

export const ContentEmbedding = v.object({ values: v.array(v.number()) });

const usageMetadata = v.object({ promptTokenCount: count, totalTokenCount: count });

export const EmbedContentResponse = v.object({ embedding: ContentEmbedding, usageMetadata });

export const BatchEmbedContentsResponse = v.object({ embeddings: v.array(ContentEmbedding), usageMetadata });
