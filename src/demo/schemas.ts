/**
 * Rewrites JSON Schemas for the generator of values. Replaces references by their targets: a reference inside its own target becomes the
 * shortest finite schema. Demands lists with at least one item, so that examples show the items.
 */

import type { JsonObject, JsonValue } from "../index.ts";

/** Keywords whose value is a schema or a list of schemas. */
const INNER: ReadonlySet<string> = new Set([
  "items",
  "prefixItems",
  "additionalItems",
  "unevaluatedItems",
  "contains",
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
  "allOf",
  "anyOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
]);

/** Keywords whose value holds a schema for each name. */
const NAMED: ReadonlySet<string> = new Set(["properties", "patternProperties", "dependentSchemas"]);

/** Keywords whose schemas have an effect only through references. */
const DEFINITIONS: ReadonlySet<string> = new Set(["$defs", "definitions"]);

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the schema that replaces a reference; undefined if no finite schema does. */
type Lookup = (reference: string) => JsonValue | undefined;

/** The most references to replace by whole targets. Further references get short ends, because a branching schema grows without limit. */
const MAX_WHOLE_TARGETS = 1_000;
/** The most nested references in a shortest end. */
const MAX_ROUNDS = 64;

/** Returns the schema without references; undefined if no finite value satisfies the schema, or a reference has no target. */
export function unrolled(root: JsonObject): JsonValue | undefined {
  const targets = new Map(Array.from(referencesIn(root), (reference) => [reference, resolve(root, reference)]));
  if (targets.size === 0) return root;
  const ends = shortestEnds(targets);
  const open = new Set(["#"]);
  let wholeTargets = 0;
  const lookup: Lookup = (reference) => {
    const target = targets.get(reference);
    if (open.has(reference) || target === undefined || ++wholeTargets > MAX_WHOLE_TARGETS) return ends.get(reference);
    open.add(reference);
    const found = expand(target, lookup);
    open.delete(reference);
    return found;
  };
  return expand(root, lookup);
}

/** Returns the shortest finite schema for each reference, without optional properties and without endless choices. */
function shortestEnds(targets: ReadonlyMap<string, JsonValue | undefined>): ReadonlyMap<string, JsonValue> {
  const ends = new Map<string, JsonValue>();
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const found: [string, JsonValue][] = [];
    for (const [reference, target] of targets) {
      if (ends.has(reference) || target === undefined) continue;
      const end = expand(target, (inner) => ends.get(inner), true);
      if (end !== undefined) found.push([reference, end]);
    }
    if (found.length === 0) break;
    for (const [reference, end] of found) ends.set(reference, end);
  }
  return ends;
}

/** Replaces the references in a schema. Returns undefined if a required reference has no finite schema. */
function expand(schema: JsonValue, lookup: Lookup, isShort = false): JsonValue | undefined {
  if (!isObject(schema)) return schema;
  const { $ref, ...own } = schema;
  const result: JsonObject = {};
  for (const [key, value] of Object.entries(own)) {
    if (DEFINITIONS.has(key)) continue;
    const replaced = expandUnder(key, value, schema, lookup, isShort);
    if (replaced === undefined) return undefined;
    Object.assign(result, replaced);
  }
  if (typeof $ref !== "string") return result;
  const target = lookup($ref);
  if (target === undefined) return undefined;
  return Object.keys(result).every((key) => ANNOTATIONS.has(key)) ? target : { allOf: [target, result] };
}

/** Keywords that demand nothing of a value. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  "title",
  "description",
  "default",
  "examples",
  "$id",
  "$anchor",
  "$comment",
]);

/** Returns the replacement of a keyword: `{}` to omit an optional keyword, undefined if no finite schema exists. */
function expandUnder(
  key: string,
  value: JsonValue,
  schema: JsonObject,
  lookup: Lookup,
  isShort: boolean,
): JsonObject | undefined {
  if (NAMED.has(key) && isObject(value)) return expandNamed(key, value, schema, lookup, isShort);
  if (!INNER.has(key)) return { [key]: value };
  if (key === "items" && !Array.isArray(value)) {
    const items = expand(value, lookup, isShort);
    if (items !== undefined) return { items };
    const before = Array.isArray(schema["prefixItems"]) ? schema["prefixItems"].length : 0;
    return Number(schema["minItems"] ?? 0) > before ? undefined : { maxItems: before };
  }
  if (!Array.isArray(value)) {
    const inner = expand(value, lookup, isShort);
    // The value can do without further properties and items. The validator checks conditions later.
    return inner === undefined ? (key === "contains" ? undefined : {}) : { [key]: inner };
  }
  const inner = value.map((one) => expand(one, lookup, isShort));
  const ending = inner.filter((one) => one !== undefined);
  if (key === "anyOf" || key === "oneOf") return ending.length > 0 ? { [key]: ending } : undefined;
  return ending.length === inner.length ? { [key]: ending } : undefined;
}

function expandNamed(
  key: string,
  schemas: JsonObject,
  { required }: JsonObject,
  lookup: Lookup,
  isShort: boolean,
): JsonObject | undefined {
  const named: [string, JsonValue][] = [];
  for (const [name, schema] of Object.entries(schemas)) {
    const isRequired = key === "properties" && Array.isArray(required) && required.includes(name);
    const inner = expand(schema, isShort && !isRequired ? () => undefined : lookup, isShort);
    if (inner !== undefined) named.push([name, inner]);
    else if (isRequired) return undefined;
  }
  return { [key]: Object.fromEntries(named) };
}

function referencesIn(root: JsonValue): ReadonlySet<string> {
  const references = new Set<string>();
  const open: JsonValue[] = [root];
  for (let schema = open.pop(); schema !== undefined; schema = open.pop()) {
    if (!isObject(schema)) continue;
    if (typeof schema["$ref"] === "string") references.add(schema["$ref"]);
    for (const [key, value] of Object.entries(schema))
      if ((NAMED.has(key) || DEFINITIONS.has(key)) && isObject(value))
        for (const inner of Object.values(value)) open.push(inner);
      else if (INNER.has(key)) for (const inner of Array.isArray(value) ? value : [value]) open.push(inner);
  }
  return references;
}

/** Returns the target of a JSON pointer in a schema; undefined if the reference has no target. */
function resolve(root: JsonObject, reference: string): JsonValue | undefined {
  if (!reference.startsWith("#")) return undefined;
  const names = decodeURIComponent(reference).split("/").slice(1);
  if (names.length === 0 && reference !== "#") return undefined;
  let found: JsonValue | undefined = root;
  for (const name of names) {
    const key = name.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Readonly<Record<string, JsonValue>>)[key];
  }
  return found;
}

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

/** Returns the schema without its optional properties: one of them may be impossible. */
export function withoutOptionals(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return schema.map(withoutOptionals);
  if (!isObject(schema)) return schema;
  const required: readonly JsonValue[] = Array.isArray(schema["required"]) ? schema["required"] : [];
  const inner = Object.entries(schema).map(([key, value]): [string, JsonValue] => {
    if (key !== "properties" || !isObject(value))
      return [key, INNER.has(key) && !CONDITIONS.has(key) ? withoutOptionals(value) : value];
    const kept = Object.entries(value).filter(([name]) => required.includes(name));
    return [key, Object.fromEntries(kept.map(([name, named]) => [name, withoutOptionals(named)]))];
  });
  return Object.fromEntries(inner);
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
