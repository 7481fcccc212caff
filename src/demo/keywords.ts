/** Where a JSON Schema has schemas of its own. */

import type { JsonObject, JsonValue } from "../index.ts";

/** Keywords whose value is a schema, or a list of them. */
export const INNER: ReadonlySet<string> = new Set([
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
export const NAMED: ReadonlySet<string> = new Set(["properties", "patternProperties", "dependentSchemas"]);

/** Keywords that hold schemas only for references to lead to. */
export const DEFINITIONS: ReadonlySet<string> = new Set(["$defs", "definitions"]);

export const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
