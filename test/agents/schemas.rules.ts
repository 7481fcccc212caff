/** The rules of the vendors for JSON Schemas, in the words of their refusals. */

import type { JsonObject } from "../../src/model/json.ts";
import { Refused } from "./strict.ts";

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The words of a type that Anthropic does not take. */
const UNSUPPORTED: Readonly<Record<string, readonly string[]>> = {
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  string: ["minLength", "maxLength"],
  array: ["maxItems", "uniqueItems", "prefixItems"],
  object: ["minProperties", "maxProperties", "patternProperties", "propertyNames"],
};

/** Checks a schema that a model of Anthropic is held to. */
export function checkHeldSchema(schema: unknown, at: string): void {
  if (!isObject(schema)) throw new Refused(`${at}: a schema must be an object.`);
  const checked = new Set<unknown>();
  const visit = (node: unknown, open: readonly unknown[]): void => {
    if (!isObject(node)) throw new Refused(`${at}: boolean schemas are not supported`);
    if (open.includes(node)) throw new Refused(`${at}: Circular reference detected in schema definitions`);
    if (checked.has(node)) return;
    const { $ref, type, anyOf, allOf, properties, items, additionalProperties, minItems } = node;
    const path = [...open, node];
    for (const defined of ["$defs", "definitions"] as const)
      for (const inner of Object.values(isObject(node[defined]) ? node[defined] : {})) visit(inner, path);
    if (typeof $ref === "string") {
      const [, word = "", name = ""] = $ref.split("/");
      visit((schema[word] as JsonObject | undefined)?.[name], path);
      checked.add(node);
      return;
    }
    const types = [type].flat().filter((one) => typeof one === "string");
    if (node["oneOf"] !== undefined) throw new Refused(`${at}: Schema type 'oneOf' is not supported`);
    if ([type, anyOf, allOf, node["enum"], node["const"]].every((word) => word === undefined))
      throw new Refused(`${at}: Schema must have a 'type', 'anyOf', 'allOf', 'enum' or 'const'`);
    for (const one of types)
      for (const word of UNSUPPORTED[one] ?? [])
        if (word in node) throw new Refused(`${at}: For '${one}' type, property '${word}' is not supported`);
    if (types.includes("object") && additionalProperties !== false)
      throw new Refused(`${at}: For 'object' type, 'additionalProperties' must be explicitly set to false`);
    if (minItems !== undefined && minItems !== 0 && minItems !== 1)
      throw new Refused(`${at}: For 'array' type, 'minItems' values other than 0 or 1 are not supported`);
    const inner = [...Object.values(isObject(properties) ? properties : {}), ...[anyOf ?? [], allOf ?? []].flat()];
    for (const one of [...inner, ...(items === undefined ? [] : [items])]) visit(one, path);
    checked.add(node);
  };
  visit(schema, []);
}

/** Checks the root of the schema of a tool's arguments for Anthropic. */
export function checkRoot(schema: JsonObject, at: string): void {
  if (["oneOf", "allOf", "anyOf"].some((word) => word in schema))
    throw new Refused(`${at}: input_schema does not support oneOf, allOf, or anyOf at the top level`);
}

/** Checks the schema of a function for OpenAI. A strict one must close each object, and demand all its properties. */
export function checkFunction(name: string, schema: unknown, isStrict: boolean, param: string): void {
  const refuse = (why: string): never => {
    throw new Refused(`Invalid schema for function '${name}': ${why}`, { param, code: "invalid_function_parameters" });
  };
  if (!isObject(schema)) return;
  if (schema["type"] !== "object")
    refuse(
      `schema must be a JSON Schema of 'type: "object"', got 'type: ${JSON.stringify(schema["type"] ?? "None")}'.`,
    );
  if (["oneOf", "anyOf", "allOf", "enum", "not"].some((word) => word in schema))
    refuse("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.");
  const visit = (node: unknown, path: string): void => {
    if (!isObject(node)) return;
    const { properties, required, additionalProperties, items, anyOf } = node;
    if ([node["type"]].flat().includes("object") && additionalProperties !== false)
      refuse(`In context=(${path}), 'additionalProperties' is required to be supplied and to be false.`);
    const names = Object.keys(isObject(properties) ? properties : {});
    const missing = names.find((one) => !Array.isArray(required) || !required.includes(one));
    if (missing !== undefined)
      refuse(
        `In context=(${path}), 'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`,
      );
    for (const word of ["allOf", "oneOf", "not"])
      if (word in node) refuse(`In context=(${path}), '${word}' is not permitted.`);
    for (const one of names) visit((properties as JsonObject)[one], `${path}'properties', '${one}'`);
    for (const one of [items, anyOf].flat()) visit(one, `${path}'items'`);
  };
  if (isStrict) visit(schema, "");
}

/** Checks that a conversation names JSON, where an answer of any JSON is asked for. */
export function checkJsonWord(conversation: unknown, isAsked: boolean, words: string): void {
  if (isAsked && !/json/i.test(JSON.stringify(conversation))) throw new Refused(words, { param: "messages" });
}
