/** The keywords of a JSON Schema that contain other schemas. */

import type { JsonObject, JsonValue } from "../index.ts";

/** Keywords whose value is a schema or a list of schemas. */
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

/** Keywords whose schemas have an effect only through references. */
export const DEFINITIONS: ReadonlySet<string> = new Set(["$defs", "definitions"]);

export const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
