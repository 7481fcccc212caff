/** The fields of an image request on the wire (spec 2.1 to 2.3), in JSON or as the texts of a form. */

import * as v from "valibot";
import { object } from "../../http/validation.ts";
import { text } from "../shared/schema.parts.ts";

const integer = v.pipe(v.number(), v.integer());
const percent = v.pipe(integer, v.minValue(0, "must be at least 0"), v.maxValue(100, "must be at most 100"));

/** What a field may hold for any model; what a model makes of it is in its profile. */
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

/** How the texts of a form are read: a form knows no types, so numbers, booleans and null come spelled out. */
const NUMBERS: ReadonlySet<string> = new Set(["n", "output_compression", "partial_images"]);
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);
/** Texts of the caller's own, in which `null` is a word. */
const FREE_TEXTS: ReadonlySet<string> = new Set(["prompt", "user"]);

/** The value that a form's text stands for; a text that stands for none stays, for the schema to refuse. */
export function readFormText(field: string, value: string): string | number | boolean | null {
  if (FREE_TEXTS.has(field)) return value;
  if (value === "null") return null;
  if (NUMBERS.has(field) && /^-?\d{1,15}(?:\.\d{1,15})?$/.test(value)) return Number(value);
  return field === "stream" ? (BOOLEANS.get(value.toLowerCase()) ?? value) : value;
}
