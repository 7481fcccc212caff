/** The format's schema objects (spec 2.8), in the style of OpenAPI: what they must be, and the JSON Schema that says the same. */

import * as v from "valibot";
import { type FieldPath, type RuleBreach, shown } from "../../http/validation.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
import { jsonObject, object } from "./schema.base.ts";

const TYPES = ["TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];
const isType = (type: unknown): type is string => typeof type === "string" && TYPES.includes(type.toUpperCase());

const text = v.nullish(v.string("must be a string"));
const names = v.nullish(v.array(v.string("must be a string"), "must be an array"));
const number = v.nullish(v.pipe(v.number("must be a number"), v.finite("must be a finite number")));
// JSON writes 64-bit integers as text, and so does the official client.
const isCount = (count: unknown): count is number | string =>
  (typeof count === "number" || (typeof count === "string" && /^\d+$/.test(count))) &&
  Number.isSafeInteger(Number(count)) &&
  Number(count) >= 0;
const count = v.nullish(v.custom<number | string>(isCount, "must be an integer from 0 up"));
const several = v.nullish(
  v.pipe(v.array(jsonObject, "must be an array"), v.minLength(1, "must hold at least one schema")),
);

/** One schema, without those inside it. */
const Node = object({
  type: v.nullish(v.custom<string>(isType, `must be one of ${TYPES.join(", ")}`)),
  format: text,
  title: text,
  description: text,
  pattern: text,
  nullable: v.nullish(v.boolean("must be true or false")),
  enum: v.nullish(
    v.pipe(v.array(v.string("must be a string"), "must be an array"), v.minLength(1, "must hold at least one value")),
  ),
  items: v.nullish(jsonObject),
  properties: v.nullish(jsonObject),
  defs: v.nullish(jsonObject),
  $defs: v.nullish(jsonObject),
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
export type OpenApiSchema = v.InferOutput<typeof Node>;

const BOUNDS = [
  ["minimum", "maximum"],
  ["minItems", "maxItems"],
  ["minLength", "maxLength"],
  ["minProperties", "maxProperties"],
] as const;

/** What may stand for the type. */
const INSTEAD_OF_TYPE = ["anyOf", "oneOf", "allOf", "$ref", "ref"];

/** What is wrong with a schema or one inside it. `typed`: each must say its type. */
export function* schemaBreaches(schema: unknown, path: FieldPath, typed: boolean): Generator<RuleBreach> {
  const result = v.safeParse(Node, schema, { abortEarly: true });
  if (!result.success) {
    const [{ path: inner = [], message }] = result.issues;
    yield { path: [...path, ...inner.map(({ key }) => key as string | number)], message };
    return;
  }
  // The schema as it came: valibot's copy lacks what it does not know.
  const node = schema as OpenApiSchema & Readonly<Record<string, unknown>>;
  if (typed && node.type == null && !INSTEAD_OF_TYPE.some((name) => node[name] != null))
    yield { path: [...path, "type"], message: "is required" };
  for (const [min, max] of BOUNDS)
    if (node[min] != null && node[max] != null && Number(node[min]) > Number(node[max]))
      yield { path: [...path, min], message: `must not be greater than ${max} (${node[max]})` };
  yield* requiredBreaches(node, path);
  for (const [inner, at] of innerSchemas(node)) yield* schemaBreaches(inner, [...path, ...at], typed);
}

function* requiredBreaches({ required, properties }: OpenApiSchema, path: FieldPath): Generator<RuleBreach> {
  for (const [index, name] of (required ?? []).entries())
    if (!Object.hasOwn(properties ?? {}, name))
      yield {
        path: [...path, "required", index],
        message: `must name one of the properties: there is no ${shown(name)}`,
      };
}

function* innerSchemas(
  schema: OpenApiSchema & { readonly additionalProperties?: unknown },
): Generator<[unknown, FieldPath]> {
  const { items, additionalProperties } = schema;
  if (items != null) yield [items, ["items"]];
  if (isJsonObject(additionalProperties)) yield [additionalProperties, ["additionalProperties"]];
  for (const map of ["properties", "defs", "$defs"] as const)
    for (const [name, inner] of Object.entries(schema[map] ?? {})) yield [inner, [map, name]];
  for (const list of ["anyOf", "oneOf", "allOf", "prefixItems"] as const)
    for (const [index, inner] of (schema[list] ?? []).entries()) yield [inner, [list, index]];
}

/** The JSON Schema of a schema without breaches. Keywords that it does not know are taken over as they are. */
export const toJsonSchema = (schema: JsonObject): JsonObject => Object.fromEntries(keywordsOf(schema));

type Keyword = [name: string, value: JsonValue];

function* keywordsOf(schema: JsonObject): Generator<Keyword> {
  const { type, nullable } = schema as OpenApiSchema;
  const named = typeof type === "string" && type.toUpperCase() !== "TYPE_UNSPECIFIED" ? type.toLowerCase() : undefined;
  if (named !== undefined) yield ["type", nullable ? [named, "null"] : named];
  for (const [key, value] of Object.entries(schema)) {
    const convert = CONVERSIONS.get(key);
    if (convert) yield* convert(value, schema, named);
    // Null is a value where it is the user's, and otherwise absent.
    else if (value !== null || key === "default") yield [key, value];
  }
}

type Convert = (value: JsonValue, schema: JsonObject, type: string | undefined) => Iterable<Keyword>;

const nothing: Convert = () => [];

const inner =
  (key: string): Convert =>
  (value) =>
    isJsonObject(value) ? [[key, toJsonSchema(value)]] : value === null ? [] : [[key, value]];

const definitions: Convert = (schemas) =>
  isJsonObject(schemas)
    ? [
        [
          "$defs",
          Object.fromEntries(
            Object.entries(schemas).map(([name, value]) => [name, isJsonObject(value) ? toJsonSchema(value) : value]),
          ),
        ],
      ]
    : [];

const inners =
  (key: string): Convert =>
  (value) =>
    Array.isArray(value) ? [[key, value.filter(isJsonObject).map(toJsonSchema)]] : [];

const wholeNumber =
  (key: string): Convert =>
  (value) =>
    value === null ? [] : [[key, Number(value)]];

const CONVERSIONS: ReadonlyMap<string, Convert> = new Map<string, Convert>([
  ["type", nothing],
  ["nullable", nothing],
  ["propertyOrdering", nothing],
  [
    "enum",
    (values, { nullable }, type) =>
      Array.isArray(values) ? [["enum", enumValues(values, nullable === true, type)]] : [],
  ],
  // A format that says no more than the enum does.
  ["format", (format) => (format === null || format === "enum" ? [] : [["format", format]])],
  ["example", (example) => [["examples", [example]]]],
  [
    "properties",
    (properties, { propertyOrdering }) =>
      isJsonObject(properties) ? [["properties", inOrder(properties, propertyOrdering)]] : [],
  ],
  ["anyOf", (schemas, { nullable }, type) => anyOf(schemas, nullable === true && type === undefined)],
  ["items", inner("items")],
  // The format has its own spelling of references beside that of JSON Schema.
  ["defs", definitions],
  ["$defs", definitions],
  ["ref", (ref) => (typeof ref === "string" ? [["$ref", ref.replace(/^#\/defs\//, "#/$defs/")]] : [])],
  ["additionalProperties", inner("additionalProperties")],
  ...["oneOf", "allOf", "prefixItems"].map((key) => [key, inners(key)] as const),
  ...BOUNDS.slice(1)
    .flat()
    .map((key) => [key, wholeNumber(key)] as const),
]);

/** Enumerated numbers come as text. */
function enumValues(values: readonly JsonValue[], nullable: boolean, type: string | undefined): JsonValue[] {
  const typed = type === "integer" || type === "number" ? values.map(Number) : [...values];
  return nullable ? [...typed, null] : typed;
}

const anyOf = (schemas: JsonValue, nullable: boolean): Keyword[] =>
  Array.isArray(schemas)
    ? [["anyOf", [...schemas.filter(isJsonObject).map(toJsonSchema), ...(nullable ? [{ type: "null" }] : [])]]]
    : [];

/** The order that the caller wants is the order of the keys: that is how a model is told it. */
function inOrder(properties: JsonObject, ordering: JsonValue | undefined): JsonObject {
  const wanted = Array.isArray(ordering) ? ordering.map(String) : [];
  const keys = new Set([...wanted.filter((name) => Object.hasOwn(properties, name)), ...Object.keys(properties)]);
  return Object.fromEntries(
    Array.from(keys, (name) => {
      const property = properties[name];
      return [name, isJsonObject(property) ? toJsonSchema(property) : (property ?? {})];
    }),
  );
}
