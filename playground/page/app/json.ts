/** Reads JSON without trust in its shape. */

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [name: string]: Json | undefined;
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns a member of an object; undefined if the value is no object. */
export const member = (value: unknown, name: string): Json | undefined => (isObject(value) ? value[name] : undefined);

export const objectAt = (value: unknown, name: string): JsonObject => {
  const found = member(value, name);
  return isObject(found) ? found : {};
};

export const listAt = (value: unknown, name: string): readonly Json[] => {
  const found = member(value, name);
  return Array.isArray(found) ? (found as readonly Json[]) : [];
};

export const textAt = (value: unknown, name: string): string => {
  const found = member(value, name);
  return typeof found === "string" ? found : "";
};

export const numberAt = (value: unknown, name: string): number | undefined => {
  const found = member(value, name);
  return typeof found === "number" ? found : undefined;
};

/** Parses JSON. Returns undefined if the text is not JSON. */
export function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
