/** The format's name, and what its schemas are made of. */

import * as v from "valibot";
import { type FieldPath, object as anyObject, shown } from "../../http/validation.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";

/** The dialect's name, which `native` parts of the neutral model carry. */
export const DIALECT = "generate-content";

export const jsonObject = v.custom<JsonObject>(isJsonObject, ({ input }) => `must be an object, not ${shown(input)}`);

export const optionalText = v.nullish(v.string());

/** An object of these fields and whatever else. */
export function object<const Entries extends v.ObjectEntries>(entries: Entries) {
  type Fields = v.ObjectSchema<Entries, undefined>;
  // Said without the unknown fields, so that what is written to the wire can have none by mistake.
  return anyObject(entries) as v.GenericSchema<v.InferInput<Fields>, v.InferOutput<Fields>>;
}

export const text = v.pipe(v.string(), v.minLength(1, "must not be empty"));

/** A path as this format writes it: `contents[0].parts[1].text`. */
export const fieldName = (path: FieldPath): string =>
  path.map((key, index) => (typeof key === "number" ? `[${key}]` : index === 0 ? key : `.${key}`)).join("");
