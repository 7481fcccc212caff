/** Replaces the references in a JSON Schema by what they lead to: whole, until they come back to themselves; then as short as can be. */

import type { JsonObject, JsonValue } from "../index.ts";
import { DEFINITIONS, INNER, isObject, NAMED } from "./keywords.ts";

/** What a reference stands for; undefined where nothing finite does. */
type Lookup = (reference: string) => JsonValue | undefined;

/** More references than this are replaced by their shortest ends at once: schemas that branch would have no bound. */
const MOST_WHOLE = 1_000;
/** How many references may stand in one another before the first one that ends. */
const MOST_ROUNDS = 64;

/** The schema without references; undefined where nothing finite satisfies it, or a reference leads nowhere. */
export function unrolled(root: JsonObject): JsonValue | undefined {
  const targets = new Map(Array.from(referencesIn(root), (reference) => [reference, resolve(root, reference)]));
  if (targets.size === 0) return root;
  const ends = shortestEnds(targets);
  const open = new Set(["#"]);
  let whole = 0;
  const lookup: Lookup = (reference) => {
    const target = targets.get(reference);
    if (open.has(reference) || target === undefined || ++whole > MOST_WHOLE) return ends.get(reference);
    open.add(reference);
    const found = expand(target, lookup);
    open.delete(reference);
    return found;
  };
  return expand(root, lookup);
}

/** Each reference as what ends soonest: optional properties and choices that lead on are left out. */
function shortestEnds(targets: ReadonlyMap<string, JsonValue | undefined>): ReadonlyMap<string, JsonValue> {
  const ends = new Map<string, JsonValue>();
  for (let round = 0; round < MOST_ROUNDS; round++) {
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

/** A schema with its references looked up; undefined where one that must be followed has no end. */
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

/** Keywords that ask for nothing. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  "title",
  "description",
  "default",
  "examples",
  "$id",
  "$anchor",
  "$comment",
]);

/** What stands for one keyword of a schema: nothing where it may be left out, undefined where it has no end. */
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
    // What lies beyond the named ones need not be there; what is a condition is checked afterwards.
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

/** Every reference in a schema, those that only references lead to as well. */
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

/** What a reference within a schema leads to, by a JSON pointer. */
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
