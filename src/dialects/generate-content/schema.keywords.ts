/** JSON Schema as clients send it: where schemas stand inside of one another, and the names of its types in capitals. */

import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";

/** Keywords that hold a schema, or a list of them. */
const ONE_OR_MORE = [
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
] as const;

/** Keywords that hold schemas by names of the user's. */
const BY_NAME = [
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies",
] as const;

type Convert = (schema: JsonObject) => JsonObject;

/** A value in which each schema is converted, where it holds some. What needs no change is returned as it is. */
type Inside = (value: JsonValue, convert: Convert) => JsonValue;

const oneOrMore: Inside = (value, convert) => {
  if (isJsonObject(value)) return convert(value);
  if (!Array.isArray(value)) return value;
  const converted = value.map((inner) => (isJsonObject(inner) ? convert(inner) : inner));
  return converted.every((inner, index) => inner === value[index]) ? value : converted;
};

const byName: Inside = (value, convert) => {
  if (!isJsonObject(value)) return value;
  const converted = Object.entries(value).map(([name, inner]) => [name, oneOrMore(inner, convert)] as const);
  return converted.every(([name, inner]) => inner === value[name]) ? value : Object.fromEntries(converted);
};

/** What a keyword may hold. A keyword that is not here holds a value of the user's. */
export const SCHEMAS_INSIDE: ReadonlyMap<string, Inside> = new Map<string, Inside>([
  ...ONE_OR_MORE.map((keyword) => [keyword, oneOrMore] as const),
  ...BY_NAME.map((keyword) => [keyword, byName] as const),
]);

const TYPES: ReadonlySet<string> = new Set(["string", "number", "integer", "boolean", "array", "object", "null"]);

const lowerCase = (type: JsonValue): JsonValue =>
  typeof type === "string" && TYPES.has(type.toLowerCase()) ? type.toLowerCase() : type;

/** The `type` of a schema, one or a list, as JSON Schema spells it. What is no type of its is returned as it is. */
export const typeName = (type: JsonValue): JsonValue =>
  Array.isArray(type) && !type.every((one) => one === lowerCase(one)) ? type.map(lowerCase) : lowerCase(type);

/** A JSON Schema with the names of types as it spells them, inside of it too; values of the user's stay. */
export function withTypeNames(schema: JsonObject): JsonObject {
  let copy: JsonObject | undefined;
  for (const [keyword, value] of Object.entries(schema)) {
    const inside = SCHEMAS_INSIDE.get(keyword);
    const converted = keyword === "type" ? typeName(value) : (inside?.(value, withTypeNames) ?? value);
    if (converted !== value) (copy ??= Object.fromEntries(Object.entries(schema)))[keyword] = converted;
  }
  return copy ?? schema;
}
