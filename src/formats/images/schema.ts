/** The schemas of the images format: the fields of requests, in JSON or in a form (spec 2.1 to 2.3), and answers (2.4, 7.4). */

import * as v from "valibot";
import { object } from "../../http/validation.ts";
import { OpenAIError, text } from "../shared/schema.ts";

const integer = v.pipe(v.number(), v.integer());
const percent = v.pipe(integer, v.minValue(0, "must be at least 0"), v.maxValue(100, "must be at most 100"));

/** The request fields with all values that some model allows. The profile of a model restricts the values further. */
export const ImageFields = object({
  prompt: v.nullish(v.string()),
  model: v.nullish(v.pipe(text, v.maxLength(256, "must be at most 256 characters long"))),
  n: v.nullish(integer),
  quality: v.nullish(text),
  response_format: v.nullish(v.picklist(["url", "b64_json"])),
  size: v.nullish(text),
  style: v.nullish(text),
  user: v.nullish(v.string()),
  background: v.nullish(v.picklist(["transparent", "opaque", "auto"])),
  moderation: v.nullish(v.picklist(["low", "auto"])),
  output_format: v.nullish(v.picklist(["png", "jpeg", "webp"])),
  output_compression: v.nullish(percent),
  input_fidelity: v.nullish(v.picklist(["high", "low"])),
  partial_images: v.nullish(v.pipe(integer, v.minValue(0, "must be at least 0"), v.maxValue(3, "must be at most 3"))),
  stream: v.nullish(v.boolean()),
});
export type ImageFields = v.InferOutput<typeof ImageFields>;

/** The fields of a form that are numbers. A form has only texts, so numbers, booleans and null are written as text. */
const NUMBERS: ReadonlySet<string> = new Set(["n", "output_compression", "partial_images"]);
/** The fields with free text. In these, `null` is just a text. */
const FREE_TEXTS: ReadonlySet<string> = new Set(["prompt", "user"]);

/** Converts a form's text to the JSON value of the field. Any other text stays a text, which the schema then refuses. */
export function readFormText(field: string, value: string): string | number | boolean | null {
  if (FREE_TEXTS.has(field)) return value;
  if (value === "null") return null;
  if (NUMBERS.has(field) && /^-?\d{1,15}(?:\.\d{1,15})?$/.test(value)) return Number(value);
  if (field === "stream" && /^(?:true|false)$/i.test(value)) return value.toLowerCase() === "true";
  return value;
}

const string = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const url = v.pipe(string, v.url());
const b64_json = v.pipe(string, v.metadata({ contentEncoding: "base64" }));

export const ImagesUsage = v.object({
  total_tokens: count,
  input_tokens: count,
  output_tokens: count,
  input_tokens_details: v.object({ text_tokens: count, image_tokens: count }),
});

export const ImageObject = v.object({
  url: v.optional(url),
  b64_json: v.optional(b64_json),
  revised_prompt: v.optional(string),
});

const traits = {
  size: string,
  quality: string,
  background: string,
  output_format: v.picklist(["png", "jpeg", "webp"]),
};

export const ImagesAnswer = v.object({
  created: count,
  data: v.array(ImageObject),
  usage: v.optional(ImagesUsage),
  ...v.partial(v.object(traits)).entries,
});
const operation = (kind: string) =>
  ["image_generation", "image_edit", "image_variation"].map((name) => `${name}.${kind}`);

export const ImagesStreamEvent = v.union([
  v.object({
    type: v.picklist(operation("partial_image")),
    b64_json,
    partial_image_index: count,
    created_at: count,
    ...traits,
  }),
  v.object({
    type: v.picklist(operation("completed")),
    b64_json,
    url: v.optional(url),
    revised_prompt: v.optional(string),
    created_at: count,
    ...traits,
    usage: v.optional(ImagesUsage),
  }),
  OpenAIError,
]);
