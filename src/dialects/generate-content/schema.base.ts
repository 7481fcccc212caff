/** The format's name, and what its schemas are made of. */

import * as v from "valibot";
import { choice, type FieldPath, object as anyObject } from "../../http/validation.ts";
import type { JsonObject } from "../../model/json.ts";
import { unsaid } from "../shared/schema.unsaid.ts";

/** The dialect's name, which `native` parts of the neutral model carry. */
export const DIALECT = "generate-content";

/** The user's own object. What JSON.parse made holds nothing but JSON. */
export const jsonObject = anyObject({}) as v.GenericSchema as v.GenericSchema<JsonObject>;

export const optionalText = v.nullish(v.string());

/** An object of these fields and whatever else. */
export function object<const Entries extends v.ObjectEntries>(entries: Entries) {
  type Fields = v.ObjectSchema<Entries, undefined>;
  // Said without the unknown fields, so that what is written to the wire can have none by mistake.
  return anyObject(entries) as v.GenericSchema<v.InferInput<Fields>, v.InferOutput<Fields>>;
}

/** What is held to nothing. */
export const anything = v.unknown();

/** A field of the official service's beyond the spec, carried as it is. It is named so that a backend sees one spelling of it. */
export const carried = v.optional(anything);

/** The same where the field holds an object of the service's own, whose fields have two spellings too. */
export const carriedAs = (shape: v.GenericSchema) => v.optional(choice([shape, anything], () => anything));

/** A field of the official service's that the neutral model has no words for. */
export const unsaidField = unsaid(carried);

/** A list, for which its only element is sent too. The spelling walk has put that into a list before it is held to this. */
export const listOrOne = <const Items extends v.GenericSchema>(items: Items, one: v.GenericSchema) =>
  choice([items, one], () => items) as v.GenericSchema<unknown, v.InferOutput<Items>>;

/** One of these words, in capitals, in small letters, or in small ones after a capital: clients write all three. */
export function word(words: readonly string[]) {
  const message = `must be one of ${words.join(", ")}`;
  return v.pipe(
    v.string(message),
    v.check((input) => words.includes(input.toUpperCase()), message),
    v.metadata({ enum: words.flatMap((each) => [each, each.toLowerCase(), each[0] + each.slice(1).toLowerCase()]) }),
  );
}

/** A path as this format writes it: `contents[0].parts[1].text`. */
export const fieldName = (path: FieldPath): string =>
  path.map((key, index) => (typeof key === "number" ? `[${key}]` : index === 0 ? key : `.${key}`)).join("");
