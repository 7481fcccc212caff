/** Asks a JSON Schema for lists that hold something, so that a reader sees what would be in them. */

import type { JsonObject, JsonValue } from "../index.ts";
import { INNER, isObject, NAMED } from "./keywords.ts";

/** Keywords under which a list that must not be empty would change what the schema means. */
const CONDITIONS: ReadonlySet<string> = new Set(["not", "if", "contains", "propertyNames"]);

/** The same schema, with one item at least in each list that may have one, and `false` for what nothing satisfies. */
export function filled(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return schema.map(filled);
  if (!isObject(schema)) return schema;
  const inner = Object.entries(schema).map(([key, value]): [string, JsonValue] => [key, filledUnder(key, value)]);
  const result: JsonObject = Object.fromEntries(inner);
  if (isImpossible(result)) return false;
  if (!mayHaveItems(result)) return result;
  const { items, prefixItems, minItems } = result;
  // The generator makes none of what it is told nothing of.
  const any = items === undefined && prefixItems === undefined ? { items: { type: "string" } } : {};
  return { ...result, ...any, minItems: Math.max(1, Number(minItems ?? 0)) };
}

const isImpossible = ({ not }: JsonObject): boolean => not === true || (isObject(not) && Object.keys(not).length === 0);

function filledUnder(key: string, value: JsonValue): JsonValue {
  if (NAMED.has(key) && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, named]) => [name, filled(named)]));
  return INNER.has(key) && !CONDITIONS.has(key) ? filled(value) : value;
}

function mayHaveItems({ type, items, prefixItems, maxItems }: JsonObject): boolean {
  const isList =
    type === undefined ? items !== undefined : type === "array" || (Array.isArray(type) && type.includes("array"));
  return isList && maxItems !== 0 && (items !== false || prefixItems !== undefined);
}
