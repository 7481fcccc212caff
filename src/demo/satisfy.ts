/** Makes values that satisfy the JSON Schemas of callers, whatever those ask for: within bounds, or not at all. */

import { createContext, runInContext } from "node:vm";
import { Ajv2020 } from "ajv/dist/2020.js";
import { GatewayError, type JsonObject, type JsonValue } from "../index.ts";
import { filled } from "./filled.ts";
import { generate } from "./generator.ts";
import { regExpOf } from "./patterns.ts";
import { unrolled } from "./unrolled.ts";

/** To end endless loops, not to measure: a busy machine needs long for much that is harmless. */
const MAX_MS = 3_000;

/** A value that satisfies a JSON Schema, the same for the same schema; `what` names the schema in an error. */
export function satisfy(schema: JsonObject, text: string, what: string, maxMs: number = MAX_MS): JsonValue {
  const refuse = (why: string, cause?: unknown): never => {
    throw new GatewayError("failed_precondition", `The demo cannot satisfy ${what}${why}.`, { cause });
  };
  const tame = tamed(withSubject(schema, text), (why) => refuse(`: ${why}`));
  try {
    // Whichever draft it names: what can be generated is the same in all of them.
    const { $schema: _draft, ...asked } = swapped(tame, "__proto__", STAND_IN) as JsonObject;
    const made = inTime(() => generated(asked), maxMs) as JsonValue | undefined;
    return made === undefined ? refuse("") : swapped(made, STAND_IN, "__proto__");
  } catch (cause) {
    const late = (cause as { code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
    return refuse(late ? ": it would take too long" : "", cause);
  }
}

/** How far schemas are followed into one another: those that end, and those that never do. */
const DEPTHS = { finite: 64, endless: 5 };
/** Where one seed leads to nothing, such as a choice that cannot be met, another may not. Seeds near one another begin alike. */
const SEEDS = [1, 7, 49, 343, 2_401];

/** The judge reads a pattern as those do that make texts of it; by itself it takes the newest syntax alone. */
const regExp = Object.assign((pattern: string) => regExpOf(pattern), { code: "regExpOf" });

/** A value of a schema; undefined where none was found. */
function generated(asked: JsonObject): JsonValue | undefined {
  const finite = unrolled(asked);
  // Nothing finite satisfies it: the value is cut off.
  if (finite === undefined) return generate(asked, 1, DEPTHS.endless);
  const checks = { strict: false, validateFormats: false, validateSchema: false, code: { regExp } };
  const isValid = new Ajv2020(checks).compile(asked);
  // The generator gives up quietly on what is beyond it, such as a list that two parts of a schema say different things of.
  for (const schema of [filled(finite), finite])
    for (const seed of SEEDS) {
      const value = attempt(() => generate(schema, seed, DEPTHS.finite));
      if (value !== undefined && isValid(value)) return value;
    }
  return undefined;
}

/** What a function makes; undefined where it throws. */
function attempt(make: () => JsonValue): JsonValue | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** How much of a message's end is looked at for what it is about, in characters. */
const MOST_LOOKED_AT = 10_000;

/** Fills the free texts at the top of a schema with what the message is about, so that calls make sense to a reader. */
function withSubject(schema: JsonObject, text: string): JsonObject {
  const subject = text
    .slice(-MOST_LOOKED_AT)
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

/** The most that a schema may ask for at least. */
const MOST: Readonly<Record<string, number>> = {
  minLength: 10_000,
  minItems: 1_000,
  minContains: 1_000,
  minProperties: 1_000,
};

/** What may not be less than what; the second is made not much more than the first where the generator would fill it up. */
const RANGES = [
  ["minimum", "maximum"],
  ["exclusiveMinimum", "exclusiveMaximum"],
  ["minLength", "maxLength", 100],
  ["minItems", "maxItems", 5],
  ["minContains", "maxContains"],
  ["minProperties", "maxProperties"],
] as const;

/** Data, in which a keyword is only a word. */
const DATA = new Set(["const", "enum", "default", "examples"]);

/** A schema without what would hang the generator or fill the memory, which is refused, also where only a `$ref` leads to it. */
function tamed(schema: JsonValue, refuse: (why: string) => never): JsonValue {
  if (Array.isArray(schema)) return schema.map((inner) => tamed(inner, refuse));
  if (typeof schema !== "object" || schema === null) return schema;
  for (const [keyword, most] of Object.entries(MOST))
    if (Number(schema[keyword]) > most) refuse(`${keyword} is more than ${most}`);
  for (const [, times] of typeof schema["pattern"] === "string" ? schema["pattern"].matchAll(/\{(\d+)/g) : [])
    if (Number(times) > 1_000) refuse("a pattern repeats something more than 1000 times");

  const copy = Object.entries(schema).map(([key, value]): [string, JsonValue] => [
    key,
    DATA.has(key) ? value : tamed(value, refuse),
  ]);
  const result = modern(Object.fromEntries(copy));
  for (const [low, high, room] of RANGES) {
    const [least, most] = [schema[low], schema[high]];
    if (typeof most !== "number") continue;
    if (typeof least === "number" && least > most) refuse(`its ${low} is more than its ${high}`);
    if (room !== undefined) result[high] = Math.min(most, Math.max(room, Number(least ?? 0)));
  }
  return result;
}

/** A schema of an older draft in the words of the newest: its tuples, and whether an end of a range belongs to it. */
function modern(schema: JsonObject): JsonObject {
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

/** What a function makes, where it makes it soon. The engine's own timeout ends endless loops, too. */
function inTime(run: () => unknown, maxMs: number): unknown {
  sandbox.run = run;
  return runInContext("run()", sandbox, { timeout: maxMs });
}

/** Stands for `__proto__` while the generator works, which would set a prototype where it means to set a property. */
const STAND_IN = "\u{F0000}proto";

const swapped = (value: JsonValue, from: string, to: string): JsonValue =>
  JSON.parse(JSON.stringify(value).replaceAll(JSON.stringify(from), JSON.stringify(to))) as JsonValue;
