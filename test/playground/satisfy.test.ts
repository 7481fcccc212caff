/** The demo answers schemas that ask for the impossible, or for all there is, with a word on what it cannot do; and soon. */

import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { satisfy } from "../../playground/demo/satisfy.ts";
import type { JsonObject, JsonValue } from "../../src/index.ts";

const requiring = (x: JsonValue): JsonObject => ({ type: "object", properties: { x }, required: ["x"] });
const make = (schema: JsonObject): JsonValue => satisfy(schema, "Say hello to Paris", "the schema");

const nested = (levels: number): JsonObject =>
  levels === 0 ? { type: "integer" } : { type: "array", minItems: 100, items: nested(levels - 1) };

/** Backtracks without end before it fails. */
const CATASTROPHE = "^(a+)+$";
const NAME = `${"a".repeat(40)}!`;

describe("a schema is refused that", () => {
  it.each<[what: string, schema: JsonObject, why: string]>([
    ["asks for a long text", requiring({ type: "string", minLength: 1e8 }), "minLength is more than 10000"],
    ["asks for many items", requiring({ type: "array", minItems: 1e7, items: {} }), "minItems is more than 1000"],
    ["asks for many matches", requiring({ type: "array", contains: {}, minContains: 1e7 }), "minContains is more than"],
    ["asks for many names", { type: "object", minProperties: 1e7 }, "minProperties is more than 1000"],
    ["repeats a pattern", requiring({ type: "string", pattern: "^a{100000000}$" }), "a pattern repeats"],
    ["repeats repetitions", requiring({ type: "string", pattern: "((a{1000}){1000}){1000}" }), "would take too long"],
    ["nests items in items", requiring(nested(5)), "would take too long"],
    [
      "matches names by a catastrophe",
      {
        ...requiring({}),
        properties: { [NAME]: {} },
        patternProperties: { [CATASTROPHE]: {} },
        unevaluatedProperties: false,
        required: [NAME],
      },
      "would take too long",
    ],
    [
      "hides it behind a $ref",
      { $ref: "#/$defs/a", $defs: { a: { type: "string", minLength: 1e8 } } },
      "minLength is more",
    ],
    ["hides it in allOf", { allOf: [{ type: "array", items: {} }, { minItems: 1e7 }] }, "minItems is more"],
    [
      "has no text between its lengths",
      requiring({ type: "string", minLength: 9, maxLength: 5 }),
      "its minLength is more than its maxLength",
    ],
    [
      "has no number in its range",
      requiring({ type: "integer", minimum: 9, maximum: 5 }),
      "its minimum is more than its maximum",
    ],
    [
      "has no count of items in its range",
      requiring({ type: "array", minItems: 9, maxItems: 5 }),
      "its minItems is more than its maxItems",
    ],
    ["refers to nothing", requiring({ $ref: "#/$defs/none" }), "The demo cannot satisfy the schema"],
  ])("%s", (_what, schema, why) => {
    expect(() => make(schema)).toThrow(expect.objectContaining({ code: "invalid_request" }));
    expect(() => make(schema)).toThrow(why);
  });
});

describe("a schema is satisfied that", () => {
  it.each<[what: string, schema: JsonObject]>([
    ["allows a long text", requiring({ type: "string", maxLength: 1e9 })],
    ["allows many items", requiring({ type: "array", maxItems: 1e9, items: { type: "string", maxLength: 1e9 } })],
    [
      "asks for much that is not too much",
      requiring({ type: "array", minItems: 200, maxItems: 1e9, items: { type: "string", minLength: 20 } }),
    ],
    ["matches texts by a catastrophe", requiring({ type: "string", pattern: CATASTROPHE })],
    [
      "names a keyword as a property",
      requiring({ type: "object", properties: { minLength: { const: 1e9 } }, required: ["minLength"] }),
    ],
    ["holds a keyword as data", requiring({ const: { minLength: 1e9, maxLength: 1e8 } })],
  ])("%s", (_what, schema) => {
    const check = new Ajv2020({ strict: false }).compile(schema);
    const made = make(schema);
    expect(check(made)).toBe(true);
  });

  it.each<[what: string, schema: JsonObject]>([
    ["itself", { type: "object", properties: { next: { $ref: "#" } }, required: ["next"] }],
    ["nothing but itself", { $ref: "#" }],
    [
      "itself many times",
      { type: "object", properties: { next: { type: "array", minItems: 3, items: { $ref: "#" } } } },
    ],
  ])("refers to %s, until it is deep enough", (_what, schema) => {
    expect(JSON.stringify(make(schema)).length).toBeLessThan(1_000);
  });

  it.each(["__proto__", "constructor", "toString"])("has a property of the name %s", (name) => {
    const schema = JSON.parse(
      `{"type":"object","properties":{"${name}":{"type":"integer"}},"required":["${name}"]}`,
    ) as JsonObject;
    const made = make(schema);
    expect(Object.hasOwn(made as object, name)).toBe(true);
    expect(Object.getPrototypeOf(made)).toBe(Object.prototype);
  });
});
