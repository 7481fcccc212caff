/** JSON values, for the parts of a request that belong to its user: tool arguments, tool schemas, response schemas. */

export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Whether a parsed JSON value is an object rather than an array, a scalar or null. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
