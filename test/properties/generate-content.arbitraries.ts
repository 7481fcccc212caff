/** Random values that generate-content requests and answers are made of. */

import fc from "fast-check";
import type { JsonObject, JsonValue } from "../../src/index.ts";
import { record } from "./arbitraries.openai.ts";

export { record } from "./arbitraries.openai.ts";

/** How often a law of generate-content is tried. */
export const RUNS = { numRuns: 60 } as const;

/** Text as people write it, with astral characters, line breaks and what looks like a stream's framing. */
export const text: fc.Arbitrary<string> = fc.oneof(
  fc.string({ minLength: 1, maxLength: 30, unit: "grapheme" }),
  fc.constantFrom("\u2028 line \u2029 and \u0085", "a\r\nb\n\nc", "data: {}\n\n", "😀", '"\\', "]", "null"),
);

export const name: fc.Arbitrary<string> = fc.stringMatching(/^[a-z][a-z_]{0,20}$/);
export const base64: fc.Arbitrary<string> = fc.base64String({ minLength: 4, maxLength: 40 });
export const count: fc.Arbitrary<number> = fc.nat({ max: 1_000_000 });

/** Any finite number between two, never -0, which JSON does not know. */
export const number = (min: number, max: number): fc.Arbitrary<number> =>
  fc.double({ min, max, noNaN: true }).map((value) => value + 0);

/** Names that are the format's own elsewhere, in both spellings, and those that objects treat apart. */
const ODD_KEYS = (
  "inlineData inline_data mime_type mimeType functionCall function_call args parts " +
  "min_items minItems max_length properties any_of anyOf generation_config topP top_p " +
  "__proto__ constructor toString hasOwnProperty response_schema type enum example "
).split(" ");

/** Keys as users choose them. */
export const userKey: fc.Arbitrary<string> = fc.oneof(fc.constantFrom(...ODD_KEYS), text);

/** An object with each of its keys as its own, `__proto__` too. */
export const ownKeys = <T>(
  key: fc.Arbitrary<string>,
  value: fc.Arbitrary<T>,
  max = 4,
): fc.Arbitrary<Record<string, T>> =>
  fc
    .uniqueArray(fc.tuple(key, value), { selector: ([own]) => own, maxLength: max })
    .map((entries) => Object.fromEntries(entries));

const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    fc.oneof(fc.constant(null), fc.boolean(), fc.integer(), number(-1e6, 1e6), text),
    fc.array(tie("value"), { maxLength: 3 }),
    ownKeys(userKey, tie("value"), 3),
  ),
}));

/** Whatever a user may send as their own. */
export const userValue: fc.Arbitrary<JsonValue> = value;
export const userObject: fc.Arbitrary<JsonObject> = ownKeys(userKey, value);

/** Some of the optional fields. */
export const some = <Optional>(optional: {
  [K in keyof Optional]: fc.Arbitrary<Optional[K]>;
}): fc.Arbitrary<Partial<Optional>> => record<object, Optional>({}, optional);
