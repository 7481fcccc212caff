/** The format's schema objects (spec 2.8), in the style of OpenAPI: their rules, and their conversion to JSON Schema. */

import * as v from "valibot";
import type { FieldPath } from "../../errors.ts";
import { type RuleBreach, choice, record, shown } from "../../http/validation.ts";
import { type JsonObject, type JsonValue, isJsonObject } from "../../model/json.ts";
import { whole } from "../shared/schema.ts";
import { anything, carried, object, word } from "./schema.wire.ts";

const TYPES = ["TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];

const text = v.string("must be a string");
const texts = v.array(text, "must be an array");
const number = v.nullish(v.pipe(v.number("must be a number"), v.finite("must be a finite number")));
const NO_COUNT = "must be an integer from 0 up";
// A count may be a text, because the official client writes 64-bit integers as text.
const count = v.nullish(
  v.union(
    [
      v.pipe(v.number(), v.integer(NO_COUNT), v.minValue(0, NO_COUNT), v.maxValue(Number.MAX_SAFE_INTEGER, NO_COUNT)),
      v.pipe(
        v.string(),
        v.regex(/^\d+$/, NO_COUNT),
        v.check((digits) => Number.isSafeInteger(Number(digits)), NO_COUNT),
      ),
    ],
    NO_COUNT,
  ),
);

const inner: v.GenericSchema<JsonObject> = v.lazy(() => OpenApiSchema);
const schemas = v.nullish(record(inner));
const several = v.nullish(v.pipe(v.array(inner, "must be an array"), v.minLength(1, "must hold at least one schema")));

const Keywords = object({
  type: v.nullish(word(TYPES)),
  format: v.nullish(text),
  title: v.nullish(text),
  description: v.nullish(text),
  pattern: v.nullish(text),
  nullable: v.nullish(v.boolean("must be true or false")),
  enum: v.nullish(v.pipe(texts, v.minLength(1, "must hold at least one value"))),
  example: carried,
  default: carried,
  ref: carried,
  $ref: carried,
  items: v.nullish(inner),
  additionalProperties: v.optional(choice([inner, v.unknown()], (input) => (isJsonObject(input) ? inner : anything))),
  properties: schemas,
  defs: schemas,
  $defs: schemas,
  anyOf: several,
  oneOf: several,
  allOf: several,
  prefixItems: several,
  required: v.nullish(texts),
  propertyOrdering: v.nullish(texts),
  minimum: number,
  maximum: number,
  minItems: count,
  maxItems: count,
  minLength: count,
  maxLength: count,
  minProperties: count,
  maxProperties: count,
});
type Keywords = v.InferOutput<typeof Keywords>;

/** The format's schema object, with the schemas inside it. Its type is `JsonObject`, because it is passed on as JSON. */
export const OpenApiSchema = whole(Keywords) as v.GenericSchema as v.GenericSchema<JsonObject>;

const BOUNDS = [
  ["minimum", "maximum"],
  ["minItems", "maxItems"],
  ["minLength", "maxLength"],
  ["minProperties", "maxProperties"],
] as const;

const INSTEAD_OF_TYPE = ["anyOf", "oneOf", "allOf", "$ref", "ref"];

/** A schema, and the path to it from the schema around it. */
interface PlacedSchema {
  readonly schema: JsonObject;
  readonly around: PlacedSchema | undefined;
  readonly at: FieldPath;
}

/**
 * Checks the rules that compare several fields, in a schema and in the schemas inside it. Uses a stack instead of recursion, and
 * builds a path only for a breach: otherwise the cost of a deep schema grows with the square of its depth.
 */
export function* schemaBreaches(root: JsonObject, path: FieldPath): Generator<RuleBreach> {
  const open: PlacedSchema[] = [{ schema: root, around: undefined, at: path }];
  for (let placed = open.pop(); placed; placed = open.pop()) {
    for (const breach of ownBreaches(placed.schema)) yield { ...breach, path: [...pathOf(placed), ...breach.path] };
    for (const each of [...schemasInside(placed)].toReversed()) open.push(each);
  }
}

function pathOf(placed: PlacedSchema): FieldPath {
  const paths: FieldPath[] = [];
  for (let each: PlacedSchema | undefined = placed; each; each = each.around) paths.push(each.at);
  return paths.toReversed().flat();
}

/** Checks one schema. The paths of its breaches begin at this schema. */
function* ownBreaches(schema: Keywords & JsonObject): Generator<RuleBreach> {
  if (schema.type == null && !INSTEAD_OF_TYPE.some((keyword) => schema[keyword] != null))
    yield { path: ["type"], message: "is required" };
  for (const [min, max] of BOUNDS)
    if (schema[min] != null && schema[max] != null && Number(schema[min]) > Number(schema[max]))
      yield { path: [min], message: `must not be greater than ${max} (${schema[max]})` };
  const { required, properties } = schema;
  for (const [index, name] of (required ?? []).entries())
    if (!Object.hasOwn(properties ?? {}, name))
      yield { path: ["required", index], message: `must name one of the properties: there is no ${shown(name)}` };
}

function* schemasInside(around: PlacedSchema): Generator<PlacedSchema> {
  const schema: Keywords = around.schema;
  for (const key of ["items", "additionalProperties"] as const) {
    const held = schema[key];
    if (isJsonObject(held)) yield { schema: held, around, at: [key] };
  }
  for (const key of ["properties", "defs", "$defs"] as const)
    for (const [name, held] of Object.entries(schema[key] ?? {})) yield { schema: held, around, at: [key, name] };
  for (const key of ["anyOf", "oneOf", "allOf", "prefixItems"] as const)
    for (const [index, held] of (schema[key] ?? []).entries()) yield { schema: held, around, at: [key, index] };
}

/** Converts a schema object to JSON Schema. Keywords that are JSON Schema already are kept. */
export function toJsonSchema(schema: JsonObject): JsonObject {
  const { type = null } = schema;
  const keywords: Keyword[] = [];
  if (!isUnspecified(type)) keywords.push(["type", isNullable(schema) ? withNull(typeName(type)) : typeName(type)]);
  for (const [name, value] of Object.entries(schema)) {
    const keyword = toKeyword(name, value, schema);
    if (keyword) keywords.push(keyword);
  }
  return Object.fromEntries(keywords);
}

type Keyword = readonly [name: string, value: JsonValue];

/** The keywords whose value may be null. Any other keyword with null counts as absent. */
const NULL_IS_A_VALUE: ReadonlySet<string> = new Set(["default", "const", "example"]);

/** Converts a keyword to JSON Schema. Returns undefined if JSON Schema needs no such keyword, or if another keyword includes it. */
function toKeyword(name: string, value: JsonValue, schema: JsonObject): Keyword | undefined {
  if (value === null && !NULL_IS_A_VALUE.has(name)) return undefined;
  switch (name) {
    case "type":
    case "nullable":
    case "propertyOrdering":
      return undefined;
    case "format":
      // Drop the format `enum`: the keyword `enum` already says it.
      return value === "enum" ? undefined : [name, value];
    case "enum":
      return [name, enumValues(value, schema)];
    case "example":
      return ["examples", [value]];
    case "properties":
      return [name, convertInside(name, inOrder(value, schema["propertyOrdering"]), toJsonSchema)];
    case "anyOf":
      return [name, alternatives(convertInside(name, value, toJsonSchema), schema)];
    // The format allows `defs` and `ref` as well as the names of JSON Schema, `$defs` and `$ref`.
    case "defs":
      return ["$defs", convertInside("$defs", value, toJsonSchema)];
    case "ref":
      return typeof value === "string" ? ["$ref", value.replace(/^#\/defs\//, "#/$defs/")] : undefined;
    case "minItems":
    case "maxItems":
    case "minLength":
    case "maxLength":
    case "minProperties":
    case "maxProperties":
      return [name, typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value];
    default:
      return [name, convertInside(name, value, toJsonSchema)];
  }
}

const isUnspecified = (type: JsonValue): boolean =>
  type === null || (typeof type === "string" && type.toUpperCase() === "TYPE_UNSPECIFIED");

const isNullable = ({ nullable }: JsonObject): boolean => nullable === true;

function withNull(type: JsonValue): JsonValue {
  const types = Array.isArray(type) ? type : [type];
  return types.includes("null") ? type : [...types, "null"];
}

/** Returns the values of an enum. Converts numbers, which the wire has as text. */
function enumValues(values: JsonValue, schema: JsonObject): JsonValue {
  if (!Array.isArray(values)) return values;
  const type = typeName(schema["type"] ?? null);
  const isNumeric = type === "integer" || type === "number";
  const typed = isNumeric ? values.map((value) => (isNumber(value) ? Number(value) : value)) : values;
  return isNullable(schema) && !typed.includes(null) ? [...typed, null] : typed;
}

const isNumber = (value: JsonValue): boolean =>
  typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value));

/** Adds null to the alternatives of a nullable schema that has no type. If there is a type, `withNull` adds null to it. */
const alternatives = (anyOf: JsonValue, schema: JsonObject): JsonValue =>
  isNullable(schema) && isUnspecified(schema["type"] ?? null) && Array.isArray(anyOf)
    ? [...anyOf, { type: "null" }]
    : anyOf;

/** Puts the properties into the order that the caller wants, because a model follows the order of the keys. */
function inOrder(properties: JsonValue, ordering: JsonValue | undefined): JsonValue {
  if (!isJsonObject(properties) || !Array.isArray(ordering)) return properties;
  // The parameters of a function are not validated, so the order may have other values than names.
  const wanted = ordering.filter((name) => typeof name === "string").filter((name) => Object.hasOwn(properties, name));
  const names = new Set([...wanted, ...Object.keys(properties)]);
  return Object.fromEntries(Array.from(names, (name) => [name, properties[name] ?? null]));
}

/** Converts the names of types, such as `STRING`, to JSON Schema, also in the schemas inside. Other values stay. */
export function withTypeNames(schema: JsonObject): JsonObject {
  let copy: JsonObject | undefined;
  for (const [name, value] of Object.entries(schema)) {
    const converted = name === "type" ? typeName(value) : convertInside(name, value, withTypeNames);
    if (converted !== value) (copy ??= Object.fromEntries(Object.entries(schema)))[name] = converted;
  }
  return copy ?? schema;
}

const JSON_TYPES: ReadonlySet<JsonValue> = new Set(TYPES.slice(1).map((type) => type.toLowerCase()));

const lowerCase = (type: JsonValue): JsonValue => {
  const name = typeof type === "string" ? type.toLowerCase() : type;
  return JSON_TYPES.has(name) ? name : type;
};

/** Converts a `type`, which is a name or a list of names, to JSON Schema. An unknown name stays. */
const typeName = (type: JsonValue): JsonValue =>
  Array.isArray(type) && type.some((name) => name !== lowerCase(name)) ? type.map(lowerCase) : lowerCase(type);

/** Keywords that hold a schema or a list of schemas. */
const HOLDS_SCHEMAS: ReadonlySet<string> = new Set([
  "items",
  "prefixItems",
  "additionalItems",
  "additionalProperties",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contains",
  "propertyNames",
  "contentSchema",
  "not",
  "if",
  "then",
  "else",
  "allOf",
  "anyOf",
  "oneOf",
]);

/** Keywords that hold an object of schemas, whose keys the caller chose. */
const HOLDS_NAMED_SCHEMAS: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies",
]);

/** Converts the schemas in the value of a keyword. A value that does not change is returned as the same object. */
function convertInside(keyword: string, value: JsonValue, convert: (schema: JsonObject) => JsonObject): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  const convertOne = (held: JsonValue): JsonValue => (isJsonObject(held) ? convert(held) : held);
  if (HOLDS_SCHEMAS.has(keyword)) {
    if (!Array.isArray(value)) return convertOne(value);
    const converted = value.map(convertOne);
    return converted.every((held, index) => held === value[index]) ? value : converted;
  }
  if (!HOLDS_NAMED_SCHEMAS.has(keyword) || !isJsonObject(value)) return value;
  const converted = Object.entries(value).map(([name, held]) => [name, convertOne(held)] as const);
  return converted.every(([name, held]) => held === value[name]) ? value : Object.fromEntries(converted);
}
