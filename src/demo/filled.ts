/** Changes a JSON Schema to demand lists with at least one item, so that examples show the items. */

import type { JsonObject, JsonValue } from "../index.ts";
import { INNER, isObject, NAMED } from "./keywords.ts";

/** Keywords whose schemas stay unchanged: longer lists there would change the meaning of the whole schema. */
const CONDITIONS: ReadonlySet<string> = new Set(["not", "if", "contains", "propertyNames"]);

/** Returns the schema with at least one item in each list that allows items. Replaces an impossible schema by `false`. */
export function filled(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return schema.map(filled);
  if (!isObject(schema)) return schema;
  const inner = Object.entries(schema).map(([key, value]): [string, JsonValue] => [key, fillKeyword(key, value)]);
  const result: JsonObject = Object.fromEntries(inner);
  if (isImpossible(result)) return false;
  if (!mayHaveItems(result)) return result;
  const { items, prefixItems, minItems } = result;
  // The generator makes no items unless the schema describes them.
  const any = items === undefined && prefixItems === undefined ? { items: { type: "string" } } : {};
  return { ...result, ...any, minItems: Math.max(1, Number(minItems ?? 0)) };
}

const isImpossible = ({ not }: JsonObject): boolean => not === true || (isObject(not) && Object.keys(not).length === 0);

function fillKeyword(key: string, value: JsonValue): JsonValue {
  if (NAMED.has(key) && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, named]) => [name, filled(named)]));
  return INNER.has(key) && !CONDITIONS.has(key) ? filled(value) : value;
}

function mayHaveItems({ type, items, prefixItems, maxItems }: JsonObject): boolean {
  const isList =
    type === undefined ? items !== undefined : type === "array" || (Array.isArray(type) && type.includes("array"));
  return isList && maxItems !== 0 && (items !== false || prefixItems !== undefined);
}
