/** The image answers on the wire (spec 2.4, 7.4): complete, streamed and refused. */

import * as v from "valibot";
import { OpenAIError } from "../shared/schema.openai-errors.ts";

const text = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const url = v.pipe(text, v.url());
const b64_json = v.pipe(text, v.metadata({ contentEncoding: "base64" }));

export const ImagesUsage = v.object({
  total_tokens: count,
  input_tokens: count,
  output_tokens: count,
  input_tokens_details: v.object({ text_tokens: count, image_tokens: count }),
});

export const ImageObject = v.object({
  url: v.optional(url),
  b64_json: v.optional(b64_json),
  revised_prompt: v.optional(text),
});

export const ImagesAnswer = v.object({
  created: count,
  data: v.array(ImageObject),
  usage: v.optional(ImagesUsage),
});

const traits = {
  created_at: count,
  size: text,
  quality: text,
  background: text,
  output_format: v.picklist(["png", "jpeg", "webp"]),
};
const operation = (kind: string) =>
  ["image_generation", "image_edit", "image_variation"].map((name) => `${name}.${kind}`);

/** The data of one event of a stream. */
export const ImagesStreamEvent = v.union([
  v.object({ type: v.picklist(operation("partial_image")), b64_json, partial_image_index: count, ...traits }),
  v.object({
    type: v.picklist(operation("completed")),
    b64_json,
    url: v.optional(url),
    revised_prompt: v.optional(text),
    ...traits,
    usage: v.optional(ImagesUsage),
  }),
  OpenAIError,
]);
