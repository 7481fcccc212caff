/** What an error says of the first field that breaks a rule: its path, what it must be, and a short word on what it was. */

import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { array, assertValid, crossCheck, object, shown, upTo, variant } from "../../src/http/validation.ts";

function messageOf(schema: v.GenericSchema, body: unknown): string | undefined {
  try {
    assertValid(schema, body);
    return undefined;
  } catch (error) {
    if (error instanceof GatewayError && error.code === "invalid_request") return error.message;
    throw error;
  }
}

const Animal = variant([
  object({ type: v.literal("cat"), lives: v.number() }),
  object({ type: v.picklist(["dog", "wolf"]), name: v.nullish(v.string()) }),
]);
const text = v.pipe(v.string(), v.minLength(1, "must not be empty"));
/** The fields in an order that no body below has. */
const Ordered = object({
  a: v.nullish(v.string()),
  b: text,
  c: v.nullish(text),
  d: v.nullish(v.literal("d")),
  e: v.pipe(v.nullish(v.string()), v.metadata({ mark: true })),
  f: v.optional(v.string()),
});
const Present = v.pipe(
  v.unknown(),
  v.check((value) => value !== undefined, "must be there"),
);
const words = Array.from({ length: 20 }, (_, index) => `word ${index}`);

describe("an error", () => {
  it.each<[what: string, schema: v.GenericSchema, body: unknown, message: string]>([
    ["a missing field", object({ a: v.string() }), {}, "a: is required"],
    ["a missing field of one's own rule", object({ a: v.custom(() => false, "must be nice") }), {}, "a: is required"],
    ["null where there must be a string", object({ a: v.string() }), { a: null }, "a: must be a string, not null"],
    ["an array for an object", object({ a: object({}) }), { a: [] }, "a: must be an object, not an array"],
    ["an object for an array", object({ a: v.array(v.string()) }), { a: {} }, "a: must be an array, not an object"],
    [
      "an inner field",
      object({ a: v.array(object({ b: v.string() })) }),
      { a: [{ b: "" }, { b: 1 }] },
      "a.1.b: must be a string, not 1",
    ],
    ["the body itself", object({}), [], "The body must be an object, not an array"],
    ["the field that stands first in the schema", Ordered, { c: 1, b: 1, a: 1 }, "a: must be a string, not 1"],
    ["a missing field in front of a wrong one", Ordered, { c: 1 }, "b: is required"],
    ["a wrong field in front of a missing one", Ordered, { a: 1 }, "a: must be a string, not 1"],
    ["an empty text", Ordered, { b: "" }, "b: must not be empty"],
    ["another literal", Ordered, { b: "b", d: "e" }, 'd: must be "d", not "e"'],
    ["a marked field", Ordered, { b: "b", e: 1 }, "e: must be a string, not 1"],
    ["null for a field that may only be missing", Ordered, { b: "b", f: null }, "f: must be a string, not null"],
    ["a field by its rule, where it is missing", object({ a: Present }), {}, "a: is required"],
    ["a choice", v.picklist(["a", "b", "c"]), "d", 'The body must be "a", "b" or "c", not "d"'],
    ["a choice of two", v.picklist(["a", "b"]), 1, 'The body must be "a" or "b", not 1'],
    ["a literal", v.literal("a"), true, 'The body must be "a", not true'],
    ["a kind without type", Animal, {}, "type: is required"],
    ["a kind of an unknown type", Animal, { type: "cow" }, 'type: must be "cat", "dog" or "wolf", not "cow"'],
    ["a kind whose type is no text", Animal, { type: ["cat"] }, 'type: must be "cat", "dog" or "wolf", not an array'],
    ["a kind that is an array", Animal, [], "The body must be an object, not an array"],
    ["a field of the kind that was named", Animal, { type: "wolf", name: 1 }, "name: must be a string, not 1"],
  ])("names %s", (_what, schema, body, message) => {
    expect(messageOf(schema, body)).toBe(message);
  });

  it.each([
    ["max_tokens", { max_token: 5 }, 'max_tokens: is required. Did you mean "max_tokens" instead of "max_token"?'],
    ["max_tokens", { maxTokens: 5 }, 'max_tokens: is required. Did you mean "max_tokens" instead of "maxTokens"?'],
    [
      "max_tokens",
      { model: "m", max_output_tokens: 5 },
      'max_tokens: is required. Did you mean "max_tokens" instead of "max_output_tokens"?',
    ],
    ["messages", { prompt: "Hi" }, 'messages: is required. Did you mean "messages" instead of "prompt"?'],
    ["contents", { content: [] }, 'contents: is required. Did you mean "contents" instead of "content"?'],
    [
      "input_schema",
      { parameters: {} },
      'input_schema: is required. Did you mean "input_schema" instead of "parameters"?',
    ],
    ["max_tokens", { temperature: 1, stream: true }, "max_tokens: is required"],
    ["name", { names: "x".repeat(9) }, 'name: is required. Did you mean "name" instead of "names"?'],
    ["id", { i: 1, ids: 2 }, "id: is required"],
  ])("tells of a missing %s in %j which field was probably meant", (field, body, message) => {
    expect(messageOf(object({ [field]: v.string() }), body)).toBe(message);
    expect(messageOf(object({ deep: object({ [field]: v.string() }) }), { deep: body })).toBe(`deep.${message}`);
  });

  it.each([
    { b: "b" },
    { b: "b", a: null, c: null, d: null, e: null },
    { a: "", b: "b", c: "c", d: "d", e: "", f: "" },
  ])("is none for %j", (body) => {
    expect(messageOf(Ordered, body)).toBeUndefined();
  });

  it("is one of a field that may be absent, and whose only rule is a check", () => {
    const even = v.check((value) => value !== 3, "must not be 3");
    expect(messageOf(object({ a: v.optional(v.pipe(v.unknown(), even)) }), { a: 3 })).toContain("must not be 3");
  });

  it("is none for an object whose schema names one that is made later", () => {
    const Tree = object({ inner: v.nullish(v.lazy(() => Leaf)) });
    const Leaf = object({ name: text });
    expect(messageOf(Tree, { inner: { name: "a" } })).toBeUndefined();
    expect(messageOf(Tree, { inner: {} })).toBe("inner.name: is required");
  });

  it("takes no longer where each level of an object is wrong", () => {
    let runs = 0;
    const leaf = v.custom(() => (runs++, false), "must be right");
    let schema: v.GenericSchema = object({ a: leaf });
    let body: object = { a: 1 };
    for (let depth = 0; depth < 12; depth++) {
      schema = object({ b: v.string(), a: schema });
      body = { a: body };
    }
    // The first value of a schema also tells which fields may be missing.
    messageOf(schema, {});
    messageOf(schema, body);
    runs = 0;
    expect(messageOf(schema, body)).toBe("b: is required");
    expect(runs).toBe(1);
  });

  it("cuts a long list of choices", () => {
    const message = messageOf(v.picklist(words), "x");
    expect(message).toBe(
      `The body must be one of ${words
        .slice(0, 8)
        .map((word) => `"${word}"`)
        .join(", ")}, …, not "x"`,
    );
  });

  it("shows what it is given on one line, and never at length", () => {
    expect(messageOf(v.number(), 'a\n"b"')).toBe(String.raw`The body must be a number, not "a\n\"b\""`);
    expect(messageOf(v.number(), "x".repeat(1_000))?.length).toBeLessThan(120);
    expect(shown("𝄞".repeat(100)).length).toBeLessThan(80);
  });

  it("names the first of several breaches", () => {
    const schema = v.pipe(
      object({ a: v.string(), b: v.string() }),
      crossCheck(function* ({ a, b }) {
        if (a === b) yield { path: ["b"], message: "must differ from a" };
      }),
    );
    expect(messageOf(schema, { a: 1, b: 2 })).toBe("a: must be a string, not 1");
    expect(messageOf(schema, { a: "x", b: "x" })).toBe("b: must differ from a");
    expect(messageOf(schema, { a: "x", b: "y" })).toBeUndefined();
  });
});

it("refuses a list that is too long before it looks at an element", () => {
  let reads = 0;
  const list = new Proxy(["a", "b", "c"], {
    get: (target, key, receiver) => (
      (reads += key === "length" ? 0 : 1),
      Reflect.get(target, key, receiver) as unknown
    ),
  });
  const body = object({ list: upTo(array(v.string()), 2, "must hold at most 2 texts") });
  expect(() => assertValid(body, { list })).toThrow("list: must hold at most 2 texts");
  expect(reads).toBe(0);
  assertValid(body, { list: ["a", "b"] });
});

describe("a valid body", () => {
  it("is handed on as it is, unknown fields and all", () => {
    const body: unknown = JSON.parse('{"type": "cat", "lives": 9, "__proto__": {"a": 1}, "more": [1]}');
    expect(v.parse(Animal, body)).toBe(body);
    expect(messageOf(Animal, body)).toBeUndefined();
  });

  it.each(["__proto__", "constructor", "toString"])("is not one whose type is %s", (type) => {
    expect(messageOf(Animal, { type })).toMatch(/^type: must be/);
  });
});
