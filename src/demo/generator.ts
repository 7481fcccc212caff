/** Generates values of JSON Schemas, and extends json-schema-faker for keywords that it handles badly. */

import { define, type ExtensionCallback, generateSync } from "json-schema-faker";
import type { JsonValue } from "../index.ts";
import { samplesOf, textOf } from "./patterns.ts";

/** Values of formats. The library samples an emoji from a long pattern, which is slow. */
const FORMATS = { emoji: () => "👍" };
const OPTIONS = { optionalsProbability: 1, maxDefaultItems: 2, formats: FORMATS };

/** Returns a value that most likely satisfies a schema, always the same for one seed. Throws if the generator finds no value. */
export const generate = (schema: JsonValue, seed: number, maxDepth: number): JsonValue =>
  generateSync(schema as Schema, { ...OPTIONS, seed, maxDepth }) as JsonValue;

type Schema = Parameters<ExtensionCallback>[1];
/** Makes a value of a schema, as a part of the current value. */
type Make = (schema: Schema) => unknown;
/** Makes a value of a schema, or returns undefined to let the generator make the value. */
type Extension = (schema: Schema, make: Make, seed: () => number) => unknown;

/** Registers an extension. The generator calls the extension first for each schema with one of the keywords. */
function extend(keywords: readonly string[], extension: Extension): void {
  for (const keyword of keywords)
    define(keyword, (_value, schema, { proceed, random }) =>
      proceed
        ? extension(
            schema,
            (other) => proceed(other),
            () => random.int(0, 2 ** 31 - 1),
          )
        : undefined,
    );
}

/** Keywords that the generator must resolve before an extension works: it then calls the extension again with the result. */
const JOINING = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "const", "enum"];

const isJoined = (schema: Schema): boolean => JOINING.some((keyword) => schema[keyword] !== undefined);

extend(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], (schema, make) => {
  if (isJoined(schema)) return undefined;
  const { exclusiveMinimum: _above, exclusiveMaximum: _below, ...rest } = schema;
  const range = rangeOf(schema);
  const isReady = Object.keys(rest).length === Object.keys(schema).length;
  if (isReady && schema.minimum === range.minimum && schema.maximum === range.maximum) return undefined;
  return make({ ...rest, ...range });
});

/** Marks a schema whose pattern the generator itself must match. */
const PLAIN = "x-plain";
/** The tries of the generator itself before sampling: its texts look simpler. */
const PLAIN_TRIES = 10;

extend(["pattern"], (schema, make, seed) => {
  const { pattern, minLength, maxLength, format } = schema;
  if (isJoined(schema) || pattern === undefined || schema[PLAIN] !== undefined || !mayBeText(schema)) return undefined;
  return textOf([pattern], { minLength, maxLength }, function* (of) {
    if (format !== undefined) yield String(make({ type: "string", format }));
    yield* samples(of, make, seed);
  });
});

// The generator keeps only the last pattern when it joins schemas.
extend(["allOf"], (schema, make, seed) => {
  const parts = partsOf(schema);
  const patterns = parts.flatMap(({ pattern }) => pattern ?? []);
  if (patterns.length < 2 || parts.some((part) => part.const !== undefined)) return undefined;
  const minLength = Math.max(...parts.map((part) => part.minLength ?? 0));
  const maxLength = Math.min(...parts.map((part) => part.maxLength ?? Infinity));
  const text = textOf(patterns, { minLength, maxLength }, (of) => samples(of, make, seed));
  return text === undefined ? undefined : make({ ...schema, const: text });
});

/** Returns a schema and all schemas of its `allOf`, at any depth. */
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
    // Some patterns cannot be sampled, such as a pattern with a backreference.
  }
}

const NAME_TRIES = 100;

// The generator invents property names without regard to `propertyNames` and `patternProperties`.
extend(["minProperties"], (schema, make) => {
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

/** Returns the schema of property names; undefined if any name is allowed. */
function namesIn({ propertyNames, patternProperties }: Schema): Schema | undefined {
  if (typeof propertyNames === "object" && propertyNames !== null) return propertyNames;
  const [pattern] = Object.keys(patternProperties ?? {});
  return pattern === undefined ? undefined : { pattern };
}

/** The keywords of a JSON Schema that limit a number. */
interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
}

/** The distance from zero of an end that the schema leaves open. */
const DEFAULT_END = 1_000;

/** An end farther from zero counts as open: it is often just the limit of a number type. */
const FAR = 1e12;

/**
 * Returns a range within the bounds, with both ends included. Given a range that it returned, returns the same range. The library picks
 * useful numbers only from a range with two near ends.
 */
function rangeOf(bounds: Bounds): { minimum: number; maximum: number } {
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below, multipleOf = 0 } = bounds;
  const least = Math.max(minimum ?? -Number.MAX_VALUE, above === undefined ? -Infinity : above + stepAt(above));
  const most = Math.min(maximum ?? Number.MAX_VALUE, below === undefined ? Infinity : below - stepAt(below));
  const room = (end: number): number => Math.max(DEFAULT_END, Math.abs(end) / DEFAULT_END, multipleOf);
  return {
    minimum: least < -FAR ? Math.max(least, Math.min(-DEFAULT_END, most - room(most))) : least,
    maximum: most > FAR ? Math.min(most, Math.max(DEFAULT_END, least + room(least))) : most,
  };
}

/** Returns the smallest step that changes a number. */
const stepAt = (number: number): number => Math.max(Math.abs(number) * Number.EPSILON, Number.MIN_VALUE);
