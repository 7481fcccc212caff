/** The format's schema objects (spec 2.8), in the style of OpenAPI: what they must be, and the JSON Schema that says the same. */

import * as v from "valibot";
import { choice, type FieldPath, record, type RuleBreach, shown } from "../../http/validation.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
import { whole } from "../shared/schema.unsaid.ts";
import { anything, carried, object, word } from "./schema.base.ts";
import { SCHEMAS_INSIDE, typeName } from "./schema.keywords.ts";

const TYPES = ["TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];

const text = v.nullish(v.string("must be a string"));
const names = v.nullish(v.array(v.string("must be a string"), "must be an array"));
const number = v.nullish(v.pipe(v.number("must be a number"), v.finite("must be a finite number")));
const NO_COUNT = "must be an integer from 0 up";
// JSON writes 64-bit integers as text, and so does the official client.
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
  format: text,
  title: text,
  description: text,
  pattern: text,
  nullable: v.nullish(v.boolean("must be true or false")),
  enum: v.nullish(
    v.pipe(v.array(v.string("must be a string"), "must be an array"), v.minLength(1, "must hold at least one value")),
  ),
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
  required: names,
  propertyOrdering: names,
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

/** The format's schema object, with those inside it. To its holders it is a JSON object, for it is handed on as one. */
export const OpenApiSchema = whole(Keywords) as v.GenericSchema as v.GenericSchema<JsonObject>;

const BOUNDS = [
  ["minimum", "maximum"],
  ["minItems", "maxItems"],
  ["minLength", "maxLength"],
  ["minProperties", "maxProperties"],
] as const;

/** What may stand for the type. */
const INSTEAD_OF_TYPE = ["anyOf", "oneOf", "allOf", "$ref", "ref"];

/** A schema, and its place within the schema around it. */
interface Placed {
  readonly schema: JsonObject;
  readonly around: Placed | undefined;
  readonly at: FieldPath;
}

/**
 * The rules of a schema, and of those inside it, that look at several fields. It keeps a list of its own of what is still to be looked
 * at, and makes a path for a breach alone: what each level of a deep schema hands through all others takes the square of their number.
 */
export function* schemaBreaches(root: JsonObject, path: FieldPath): Generator<RuleBreach> {
  const open: Placed[] = [{ schema: root, around: undefined, at: path }];
  for (let placed = open.pop(); placed; placed = open.pop()) {
    const { schema } = placed;
    for (const breach of ownBreaches(schema)) yield { ...breach, path: [...pathOf(placed), ...breach.path] };
    const inside = Array.from(innerSchemas(schema), ([inner, at]): Placed => ({ schema: inner, around: placed, at }));
    for (const each of inside.toReversed()) open.push(each);
  }
}

function pathOf(placed: Placed): FieldPath {
  const places: FieldPath[] = [];
  for (let each: Placed | undefined = placed; each; each = each.around) places.push(each.at);
  return places.toReversed().flat();
}

/** The breaches of one schema, by their place in it. */
function* ownBreaches(node: Keywords & JsonObject): Generator<RuleBreach> {
  if (node.type == null && !INSTEAD_OF_TYPE.some((name) => node[name] != null))
    yield { path: ["type"], message: "is required" };
  for (const [min, max] of BOUNDS)
    if (node[min] != null && node[max] != null && Number(node[min]) > Number(node[max]))
      yield { path: [min], message: `must not be greater than ${max} (${node[max]})` };
  const { required, properties } = node;
  for (const [index, name] of (required ?? []).entries())
    if (!Object.hasOwn(properties ?? {}, name))
      yield { path: ["required", index], message: `must name one of the properties: there is no ${shown(name)}` };
}

function* innerSchemas(schema: Keywords): Generator<[JsonObject, FieldPath]> {
  const { items, additionalProperties } = schema;
  if (items != null) yield [items, ["items"]];
  if (isJsonObject(additionalProperties)) yield [additionalProperties, ["additionalProperties"]];
  for (const map of ["properties", "defs", "$defs"] as const)
    for (const [name, other] of Object.entries(schema[map] ?? {})) yield [other, [map, name]];
  for (const list of ["anyOf", "oneOf", "allOf", "prefixItems"] as const)
    for (const [index, other] of (schema[list] ?? []).entries()) yield [other, [list, index]];
}

/**
 * The JSON Schema of a schema object. One that is JSON Schema already, or part of it, is carried: what means nothing here is
 * taken over as it is.
 */
export const toJsonSchema = (schema: JsonObject): JsonObject => Object.fromEntries(keywordsOf(schema));

type Keyword = [name: string, value: JsonValue];

function* keywordsOf(schema: JsonObject): Generator<Keyword> {
  const { type = null, nullable = null } = schema;
  const types = typesOf(type, nullable === true);
  if (types !== null) yield ["type", types];
  for (const [key, value] of Object.entries(schema)) {
    const convert = CONVERSIONS.get(key);
    if (convert) yield* convert(value, schema);
    // Null is a value where it is the user's, and otherwise absent.
    else if (value !== null || VALUES.has(key)) yield [key, inside(key, value)];
  }
}

/** Keywords whose value is the user's. */
const VALUES: ReadonlySet<string> = new Set(["default", "const"]);

const isUnspecified = (type: JsonValue): boolean =>
  type === null || (typeof type === "string" && type.toUpperCase() === "TYPE_UNSPECIFIED");

function typesOf(type: JsonValue, nullable: boolean): JsonValue {
  if (isUnspecified(type)) return null;
  const named = typeName(type);
  if (!nullable) return named;
  const types = Array.isArray(named) ? named : [named];
  return types.includes("null") ? named : [...types, "null"];
}

type Convert = (value: JsonValue, schema: JsonObject) => readonly Keyword[];

const nothing: Convert = () => [];

const inside = (key: string, value: JsonValue): JsonValue => SCHEMAS_INSIDE.get(key)?.(value, toJsonSchema) ?? value;

const definitions: Convert = (held) => (held === null ? [] : [["$defs", inside("$defs", held)]]);

const wholeNumber =
  (key: string): Convert =>
  (value) =>
    value === null ? [] : [[key, typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value]];

const CONVERSIONS: ReadonlyMap<string, Convert> = new Map<string, Convert>([
  ["type", nothing],
  ["nullable", nothing],
  ["propertyOrdering", nothing],
  ["enum", (values, schema) => (values === null ? [] : [["enum", enumValues(values, schema)]])],
  // A format that says no more than the enum does.
  ["format", (format) => (format === null || format === "enum" ? [] : [["format", format]])],
  ["example", (example) => [["examples", [example]]]],
  [
    "properties",
    (properties, { propertyOrdering }) =>
      properties === null ? [] : [["properties", inOrder(properties, propertyOrdering)]],
  ],
  ["anyOf", (anyOf, schema) => (anyOf === null ? [] : [["anyOf", alternatives(anyOf, schema)]])],
  // The format has its own spelling of definitions and references beside that of JSON Schema.
  ["defs", definitions],
  ["ref", (ref) => (typeof ref === "string" ? [["$ref", ref.replace(/^#\/defs\//, "#/$defs/")]] : [])],
  ...BOUNDS.slice(1)
    .flat()
    .map((key) => [key, wholeNumber(key)] as const),
]);

/** Enumerated numbers come as text. */
function enumValues(values: JsonValue, { type = null, nullable = null }: JsonObject): JsonValue {
  if (!Array.isArray(values)) return values;
  const named = typeName(type);
  const numeric = named === "integer" || named === "number";
  const typed = numeric
    ? values.map((value) => (typeof value === "string" && isNumber(value) ? Number(value) : value))
    : values;
  return nullable === true && !typed.includes(null) ? [...typed, null] : typed;
}

const isNumber = (digits: string): boolean => digits.trim() !== "" && Number.isFinite(Number(digits));

function alternatives(anyOf: JsonValue, { type = null, nullable = null }: JsonObject): JsonValue {
  const converted = inside("anyOf", anyOf);
  return nullable === true && isUnspecified(type) && Array.isArray(converted)
    ? [...converted, { type: "null" }]
    : converted;
}

/** The order that the caller wants is the order of the keys: that is how a model is told it. */
function inOrder(properties: JsonValue, ordering: JsonValue | undefined): JsonValue {
  if (!isJsonObject(properties)) return properties;
  const wanted = Array.isArray(ordering) ? ordering.map(String) : [];
  const keys = new Set([...wanted.filter((name) => Object.hasOwn(properties, name)), ...Object.keys(properties)]);
  return Object.fromEntries(
    Array.from(keys, (name) => {
      const property = properties[name] ?? null;
      return [name, isJsonObject(property) ? toJsonSchema(property) : property];
    }),
  );
}
