/** Makes values that satisfy the JSON Schemas of callers, within limits of time and size. */

import { createContext, runInContext } from "node:vm";
import { Ajv2020 } from "ajv/dist/2020.js";
import { GatewayError, type JsonObject, type JsonValue } from "../index.ts";
import { generate } from "./generator.ts";
import { regExpOf } from "./patterns.ts";
import { filled, unrolled, withoutOptionals } from "./schemas.ts";

/** The most milliseconds for a schema. Long enough for a harmless schema on a busy machine, and only meant to end endless loops. */
const MAX_MS = 3_000;

/**
 * Returns a value that satisfies a JSON Schema, always the same for one schema and text. Throws `failed_precondition` if no value is
 * found in time. `what` names the schema in errors.
 */
export function satisfy(schema: JsonObject, text: string, what: string, maxMs: number = MAX_MS): JsonValue {
  const refuse = (why: string, cause?: unknown): never => {
    throw new GatewayError("failed_precondition", `The demo cannot satisfy ${what}${why}.`, { cause });
  };
  const bounded = boundSchema(withSubject(schema, text), (why) => refuse(`: ${why}`));
  try {
    // Ignore the draft: the generator treats all drafts alike.
    const { $schema: _draft, ...asked } = swapped(bounded, "__proto__", STAND_IN) as JsonObject;
    const made = runWithTimeout(() => generated(asked), maxMs) as JsonValue | undefined;
    return made === undefined ? refuse("") : swapped(made, STAND_IN, "__proto__");
  } catch (cause) {
    const late = (cause as { code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
    return refuse(late ? ": it would take too long" : "", cause);
  }
}

/** The most levels of nested schemas, for schemas with finite values and for schemas without. */
const DEPTHS = { finite: 64, endless: 5 };
/** The seeds to try: a seed may fail by choosing an impossible branch. They are far apart, because near seeds begin alike. */
const SEEDS = [1, 7, 49, 343, 2_401];

/** Makes Ajv accept patterns without the flag `u`, as the generator does. */
const regExp = Object.assign((pattern: string) => regExpOf(pattern), { code: "regExpOf" });

/** Returns a value of a schema; undefined if none is found. */
function generated(asked: JsonObject): JsonValue | undefined {
  const finite = unrolled(asked);
  // No finite value satisfies the schema, so cut the value off.
  if (finite === undefined) return generate(asked, 1, DEPTHS.endless);
  const checks = { strict: false, validateFormats: false, validateSchema: false, code: { regExp } };
  const isValid = new Ajv2020(checks).compile(asked);
  // Check each value: the generator silently ignores hard cases, such as a list that two parts of a schema describe differently.
  for (const schema of [filled(finite), finite, withoutOptionals(finite)])
    for (const seed of SEEDS) {
      const value = attempt(() => generate(schema, seed, DEPTHS.finite));
      if (value !== undefined && isValid(value)) return value;
    }
  return undefined;
}

/** Returns the result of a function; undefined if it throws. */
function attempt(make: () => JsonValue): JsonValue | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** The last characters of a message that may contain its subject. */
const MAX_SEARCHED_CHARS = 10_000;

/** Sets the free texts at the top of a schema to the subject of the message, so that tool calls look sensible. */
function withSubject(schema: JsonObject, text: string): JsonObject {
  const subject = text
    .slice(-MAX_SEARCHED_CHARS)
    .match(/(?<=\s)\p{Lu}\p{L}+(?:\s\p{Lu}\p{L}+)*/gu)
    ?.at(-1);
  const { properties } = schema;
  if (!subject || typeof properties !== "object" || properties === null || Array.isArray(properties)) return schema;
  const filled = Object.entries(properties).map(([name, property]): [string, JsonValue] =>
    isFreeText(property) ? [name, { ...property, const: subject }] : [name, property],
  );
  return { ...schema, properties: Object.fromEntries(filled) };
}

const FREE_KEYS = new Set(["type", "description", "title"]);

const isFreeText = (schema: JsonValue): schema is JsonObject =>
  typeof schema === "object" &&
  schema !== null &&
  !Array.isArray(schema) &&
  schema["type"] === "string" &&
  Object.keys(schema).every((key) => FREE_KEYS.has(key));

/** The largest allowed value of each lower limit. */
const MAX_LOWER_LIMITS: Readonly<Record<string, number>> = {
  minLength: 10_000,
  minItems: 1_000,
  minContains: 1_000,
  minProperties: 1_000,
};

/** Lower limits with their upper limits. A third value lowers the upper limit, up to which the generator would fill the value. */
const RANGES = [
  ["minimum", "maximum"],
  ["exclusiveMinimum", "exclusiveMaximum"],
  ["minLength", "maxLength", 100],
  ["minItems", "maxItems", 5],
  ["minContains", "maxContains"],
  ["minProperties", "maxProperties"],
] as const;

/** Keywords whose values are data, and not schemas. */
const DATA_KEYWORDS = new Set(["const", "enum", "default", "examples"]);

/** Limits the sizes in a schema, and converts older keywords. Refuses demands that would hang the generator or fill the memory. */
function boundSchema(schema: JsonValue, refuse: (why: string) => never): JsonValue {
  if (Array.isArray(schema)) return schema.map((inner) => boundSchema(inner, refuse));
  if (typeof schema !== "object" || schema === null) return schema;
  for (const [keyword, most] of Object.entries(MAX_LOWER_LIMITS))
    if (Number(schema[keyword]) > most) refuse(`${keyword} is more than ${most}`);
  for (const [, times] of typeof schema["pattern"] === "string" ? schema["pattern"].matchAll(/\{(\d+)/g) : [])
    if (Number(times) > 1_000) refuse("a pattern repeats something more than 1000 times");

  const copy = Object.entries(schema).map(([key, value]): [string, JsonValue] => [
    key,
    DATA_KEYWORDS.has(key) ? value : boundSchema(value, refuse),
  ]);
  const result = toNewestDraft(Object.fromEntries(copy));
  for (const [low, high, room] of RANGES) {
    const [least, most] = [schema[low], schema[high]];
    if (typeof most !== "number") continue;
    if (typeof least === "number" && least > most) refuse(`its ${low} is more than its ${high}`);
    if (room !== undefined) result[high] = Math.min(most, Math.max(room, Number(least ?? 0)));
  }
  return result;
}

/** Converts tuples and exclusive limits of older drafts to the newest draft. */
function toNewestDraft(schema: JsonObject): JsonObject {
  const result: JsonObject = { ...schema };
  if (Array.isArray(schema["items"])) {
    result["prefixItems"] = schema["items"];
    delete result["items"];
  }
  for (const [end, exclusive] of ENDS) {
    if (typeof schema[exclusive] !== "boolean" || typeof schema[end] !== "number") continue;
    if (schema[exclusive]) result[exclusive] = schema[end];
    else delete result[exclusive];
  }
  return result;
}

const ENDS = [
  ["minimum", "exclusiveMinimum"],
  ["maximum", "exclusiveMaximum"],
] as const;

const sandbox: { run?: () => unknown } = createContext({});

/** Returns the result of a function. Throws after `maxMs`, even in an endless loop, because the timeout is the engine's own. */
function runWithTimeout(run: () => unknown, maxMs: number): unknown {
  sandbox.run = run;
  return runInContext("run()", sandbox, { timeout: maxMs });
}

/** Replaces `__proto__` while the generator works: otherwise, the generator sets a prototype instead of a property. */
const STAND_IN = "\u{F0000}proto";

const swapped = (value: JsonValue, from: string, to: string): JsonValue =>
  JSON.parse(JSON.stringify(value).replaceAll(JSON.stringify(from), JSON.stringify(to))) as JsonValue;
