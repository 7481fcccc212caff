/** The generator of values by JSON Schema, and what it is taught: it has answers of its own for part of the keywords only. */

import { define, type ExtensionCallback, generateSync } from "json-schema-faker";
import type { JsonValue } from "../index.ts";
import { rangeOf } from "./bounds.ts";
import { samplesOf, textOf } from "./patterns.ts";

/** Sampling one by its pattern takes long: there are many emoji. */
const FORMATS = { emoji: () => "👍" };
const OPTIONS = { optionalsProbability: 1, maxDefaultItems: 2, formats: FORMATS };

/** A value that most likely satisfies a schema, the same for the same seed. Throws where the generator finds none. */
export const generate = (schema: JsonValue, seed: number, maxDepth: number): JsonValue =>
  generateSync(schema as Schema, { ...OPTIONS, seed, maxDepth }) as JsonValue;

type Schema = Parameters<ExtensionCallback>[1];
/** Makes a value of a schema, within the one that is being made. */
type Make = (schema: Schema) => unknown;
/** Makes a value of a schema, or leaves it to the generator. */
type Lesson = (schema: Schema, make: Make, seed: () => number) => unknown;

/** Makes the generator ask for each schema that has one of the keywords, before it makes a value of it. */
function teach(keywords: readonly string[], lesson: Lesson): void {
  for (const keyword of keywords)
    define(keyword, (_value, schema, { proceed, random }) =>
      proceed
        ? lesson(
            schema,
            (other) => proceed(other),
            () => random.int(0, 2 ** 31 - 1),
          )
        : undefined,
    );
}

/** Keywords by which the generator joins schemas or picks values; what it joins them to, it asks for again. */
const JOINING = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "const", "enum"];

const isJoined = (schema: Schema): boolean => JOINING.some((keyword) => schema[keyword] !== undefined);

teach(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], (schema, make) => {
  if (isJoined(schema)) return undefined;
  const { exclusiveMinimum: _above, exclusiveMaximum: _below, ...rest } = schema;
  const range = rangeOf(schema);
  const isReady = Object.keys(rest).length === Object.keys(schema).length;
  if (isReady && schema.minimum === range.minimum && schema.maximum === range.maximum) return undefined;
  return make({ ...rest, ...range });
});

/** Marks a schema whose pattern is left to the generator. */
const PLAIN = "x-plain";
/** How often the generator tries by itself: its texts are the plainer ones. */
const PLAIN_TRIES = 10;

teach(["pattern"], (schema, make, seed) => {
  const { pattern, minLength, maxLength, format } = schema;
  if (isJoined(schema) || pattern === undefined || schema[PLAIN] !== undefined || !mayBeText(schema)) return undefined;
  return textOf([pattern], { minLength, maxLength }, function* (of) {
    if (format !== undefined) yield String(make({ type: "string", format }));
    yield* samples(of, make, seed);
  });
});

// Of the patterns of schemas that it joins, the generator keeps the last one.
teach(["allOf"], (schema, make, seed) => {
  const parts = partsOf(schema);
  const patterns = parts.flatMap(({ pattern }) => pattern ?? []);
  if (patterns.length < 2 || parts.some((part) => part.const !== undefined)) return undefined;
  const minLength = Math.max(...parts.map((part) => part.minLength ?? 0));
  const maxLength = Math.min(...parts.map((part) => part.maxLength ?? Infinity));
  const text = textOf(patterns, { minLength, maxLength }, (of) => samples(of, make, seed));
  return text === undefined ? undefined : make({ ...schema, const: text });
});

/** A schema and all that must hold beside it. */
const partsOf = (schema: Schema): Schema[] => [
  schema,
  ...(schema.allOf ?? []).flatMap((part) => (typeof part === "object" ? partsOf(part) : [])),
];

const mayBeText = ({ type }: Schema): boolean => type === undefined || [type].flat().includes("string");

function* samples(pattern: string, make: Make, seed: () => number): Generator<string> {
  for (let tries = 0; tries < PLAIN_TRIES; tries++) yield String(make({ type: "string", pattern, [PLAIN]: true }));
  try {
    yield* samplesOf(pattern, seed());
  } catch {
    // It has something that cannot be sampled, such as a backreference.
  }
}

/** How often a name is looked for that is not there yet. */
const NAME_TRIES = 100;

// The generator has names of its own for properties that are not named, whatever they should be like.
teach(["minProperties"], (schema, make) => {
  const { minProperties = 0, properties = {}, required = [] } = schema;
  const asked = namesIn(schema);
  if (isJoined(schema) || !asked) return undefined;
  const names = new Set([...required, ...Object.keys(properties)]);
  const known = names.size;
  for (let tries = 0; tries < NAME_TRIES && names.size < minProperties; tries++) {
    const name = String(make({ type: "string", ...asked }));
    if (!(name in Object.prototype)) names.add(name);
  }
  return names.size === known ? undefined : make({ ...schema, required: [...names] });
});

/** What names must be like. */
function namesIn({ propertyNames, patternProperties }: Schema): Schema | undefined {
  if (typeof propertyNames === "object" && propertyNames !== null) return propertyNames;
  const [pattern] = Object.keys(patternProperties ?? {});
  return pattern === undefined ? undefined : { pattern };
}
