/** What objects of more than one format are made of. */

import * as v from "valibot";
import { isLonger } from "../../http/characters.ts";
import { BASE64_FORMAT, isBase64 } from "../../media/base64.ts";

export const text = v.pipe(v.string(), v.minLength(1, "must not be empty"));

/** A text of so many characters at most, which are code points. */
export const atMost = <const Text extends v.GenericSchema<string>>(schema: Text, max: number) =>
  v.pipe(
    schema,
    v.check((value) => !isLonger(value, max), `must be at most ${max} characters long`),
    v.metadata({ maxLength: max }),
  );

export const base64 = v.pipe(
  v.string(),
  v.check(isBase64, "must be base64 (RFC 4648, padded, without white space)"),
  v.metadata(BASE64_FORMAT),
);
