/** The demo answers schemas that ask for the impossible, or for all there is, with a word on what it cannot do; and soon. */

import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { satisfy } from "../../src/demo/satisfy.ts";
import type { JsonObject, JsonValue } from "../../src/index.ts";

const requiring = (x: JsonValue): JsonObject => ({ type: "object", properties: { x }, required: ["x"] });
/** Makes a value. The time is for a machine that is busy with other work. */
const make = (schema: JsonObject, maxMs = 60_000): JsonValue =>
  satisfy(schema, "Say hello to Paris", "the schema", maxMs);

const matching = (...patterns: string[]): JsonObject => ({
  type: "string",
  allOf: patterns.map((pattern) => ({ pattern })),
});

const nested = (levels: number): JsonObject =>
  levels === 0 ? { type: "integer" } : { type: "array", minItems: 100, items: nested(levels - 1) };

/** Whether what is made of a schema satisfies it, as another judge has it. */
function valid(schema: JsonObject): boolean {
  const made = make(schema);
  return new Ajv2020({ strict: false, validateFormats: false }).validate(schema, made);
}

/** As zod writes them. */
const DURATION =
  "^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$";
const EMOJI =
  "^(?=[\\s\\S]*[\\p{Extended_Pictographic}\\p{Regional_Indicator}\\u20E3])[\\p{Extended_Pictographic}\\p{Emoji_Component}]+$";

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
    [
      "joins patterns that no text has both of",
      requiring(matching("^a$", "^b$")),
      "The demo cannot satisfy the schema",
    ],
    [
      "asks for an item that nothing is",
      requiring({ type: "array", items: { not: {} }, minItems: 1 }),
      "The demo cannot satisfy the schema",
    ],
    ["refers to nothing", requiring({ $ref: "#/$defs/none" }), "The demo cannot satisfy the schema"],
  ])("%s", (_what, schema, why) => {
    const message = expect.stringContaining(why) as string;
    expect(() => make(schema)).toThrow(expect.objectContaining({ code: "failed_precondition", message }));
  });

  it.each<[what: string, schema: JsonObject]>([
    ["repeats repetitions", requiring({ type: "string", pattern: "((a{1000}){1000}){1000}" })],
    ["nests items in items", requiring(nested(5))],
    [
      "matches names by a catastrophe",
      {
        ...requiring({}),
        properties: { [NAME]: {} },
        patternProperties: { [CATASTROPHE]: {} },
        unevaluatedProperties: false,
        required: [NAME],
      },
    ],
  ])("%s, which would take too long", (_what, schema) => {
    const message = expect.stringContaining("would take too long") as string;
    // None of them would ever end.
    expect(() => make(schema, 200)).toThrow(expect.objectContaining({ code: "failed_precondition", message }));
  });
});

it("leaves out an optional property that has no value, as Python's client may write one", () => {
  const days = { anyOf: [{ type: "integer" }, { type: "null" }], type: "object" };
  const schema = { type: "object", properties: { city: { type: "string" }, days }, required: ["city"] };
  expect(make(schema)).toEqual({ city: "Paris" });
  expect(make(requiring(schema))).toEqual({ x: { city: expect.any(String) } });
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
    ["at least 1900", { type: "integer", minimum: 1_900 }],
    ["at most -1001", { type: "integer", maximum: -1_001 }],
    ["at most -2000", { type: "integer", maximum: -2_000 }],
    ["at least 1001, whole or not", { type: "number", minimum: 1_001 }],
    ["less than -5000", { type: "number", exclusiveMaximum: -5_000 }],
    ["more than 5000", { type: "integer", exclusiveMinimum: 5_000 }],
    ["more than one end and no less than the other", { type: "integer", minimum: 5_000, exclusiveMinimum: 10 }],
    ["between ends that are close", { type: "number", exclusiveMinimum: 5_000, exclusiveMaximum: 5_000.000_000_1 }],
    ["one number alone", { type: "number", minimum: 10, exclusiveMinimum: 0.5, maximum: 10 }],
    ["at least 1e12", { type: "integer", minimum: 1e12 }],
    ["more than 1e300", { type: "number", exclusiveMinimum: 1e300 }],
    ["at most -1e300", { type: "integer", maximum: -1e300 }],
    ["any number", { type: "number", minimum: -Number.MAX_VALUE, maximum: Number.MAX_VALUE }],
    ["a multiple below zero", { type: "integer", multipleOf: 5_000, maximum: -1 }],
    ["of several ends", { type: "integer", minimum: 5_000, allOf: [{ minimum: 9_000 }, { maximum: 20_000 }] }],
    ["far above or far below", { type: "integer", anyOf: [{ minimum: 5_000 }, { maximum: -5_000 }] }],
    ["large or null", { type: ["integer", "null"], minimum: 5_000 }],
    ["large without a type", { minimum: 5_000 }],
    ["whole or not, and only one of them", { oneOf: [{ type: "integer" }, { type: "number" }] }],
  ])("asks for a number %s", (_what, schema) => {
    expect(valid(requiring(schema))).toBe(true);
  });

  it("says by a boolean whether the end of a range belongs to it, as older drafts do", () => {
    const more = { type: "integer", minimum: 5, exclusiveMinimum: true, maximum: 6 };
    expect(make(requiring(more))).toEqual({ x: 6 });
    const less = { type: "integer", minimum: 5, maximum: 6, exclusiveMinimum: false, exclusiveMaximum: true };
    expect(make(requiring(less))).toEqual({ x: 5 });
  });

  it.each<[what: string, schema: JsonObject]>([
    ["that begins and ends in some way", matching("^ab.*", ".*yz$")],
    ["that ends and begins in some way, and has more between", matching("yz$", "m m", "^ab.*")],
    ["with patterns of its own and of others", { ...matching("[0-9]", "yz$"), pattern: "^ab" }],
    ["with several patterns and a length", { allOf: [matching("^ab", "yz$"), { minLength: 20, maxLength: 90 }] }],
    ["that is long", { type: "string", pattern: "^[a-z]+$", minLength: 40 }],
    ["that is short", { type: "string", pattern: "^[a-z]+$", maxLength: 2 }],
    ["of a format and a pattern", { type: "string", format: "email", pattern: "@example\\.com$" }],
    ["that is a duration", { type: "string", format: "duration", pattern: DURATION }],
    ["that is an emoji", { type: "string", format: "emoji", pattern: EMOJI }],
    ["that looks ahead", { type: "string", pattern: "^(?=.*\\d)(?=.*[(a-z]).{8,}$" }],
    ["of any letters", { type: "string", pattern: "^\\p{L}+$" }],
    ["of characters by their numbers", { type: "string", pattern: "^[\\u4e00-\\u9fa5]+\\t\\x41$" }],
  ])("asks for a text %s", (_what, schema) => {
    expect(valid(requiring(schema))).toBe(true);
  });

  it("escapes what needs none in a pattern", () => {
    expect(make(requiring({ type: "string", pattern: "^\\d{3}\\-\\d{4}$" }))).toEqual({
      x: expect.stringMatching(/^\d{3}-\d{4}$/) as string,
    });
  });

  it("has different texts of one pattern", () => {
    const items = { type: "string", pattern: "^[a-z]+$", minLength: 12 };
    expect(valid(requiring({ type: "array", items, minItems: 5, uniqueItems: true }))).toBe(true);
  });

  it.each<[what: string, items: JsonValue]>([
    ["nothing is", { not: {} }],
    ["nothing is, in other words", { not: true }],
  ])("has a list of what %s", (_what, items) => {
    expect(make({ type: "array", items })).toEqual([]);
  });

  it.each<[what: string, schema: JsonObject]>([
    ["a pattern", { propertyNames: { pattern: "^x-[a-z]+$" }, minProperties: 1 }],
    ["a length", { propertyNames: { maxLength: 3 }, minProperties: 2 }],
    ["some values", { propertyNames: { enum: ["a", "b"] }, minProperties: 2 }],
    ["a pattern beside a name", { properties: { a: {} }, propertyNames: { pattern: "^[a-z]$" }, minProperties: 3 }],
    ["only a pattern", { patternProperties: { "^x-\\d$": {} }, additionalProperties: false, minProperties: 2 }],
  ])("asks for names of %s", (_what, schema) => {
    expect(valid({ type: "object", ...schema })).toBe(true);
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
