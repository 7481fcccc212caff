/** The predicate of a schema as a law: for every input its verdict is valibot's. */

import fc from "fast-check";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { encodeRequest } from "../../src/dialects/messages/request.ts";
import { CountTokensRequest, GenerateContentRequest } from "../../src/dialects/generate-content/schema.ts";
import { ImageFields } from "../../src/dialects/images/schema.ts";
import { messagesRequest } from "../../src/dialects/messages/schema.ts";
import { assertValid, choice, crossCheck, object, record, textOr, variant } from "../../src/http/validation.ts";
import { predicateOf } from "../../src/http/validation.predicate.ts";
import { chatRequest } from "../properties/arbitraries.ts";
import { wireRequest } from "../properties/generate-content.arbitraries.wire.ts";

const RUNS = { numRuns: 600 } as const;

const holdsForValibot = (schema: v.GenericSchema, body: unknown): boolean =>
  v.safeParse(schema, body, { abortEarly: true }).success;

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

/** Values that stand for another in a mutated body: of every type, and many that some field takes. */
const scalar = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -1,
    1,
    1.5,
    2 ** 53,
    "",
    "text",
    "TEXT",
    "custom",
    "AAAA",
    "A===",
    "1",
  ),
  fc.constantFrom<unknown>(
    "bash_20241022",
    "x_20250101",
    "image/png",
    "text/plain",
    "😀".repeat(70),
    Number.POSITIVE_INFINITY,
    -0,
  ),
  fc.constantFrom<unknown>([], {}, [1], ["x"], [null], { type: "text" }, { type: "STRING" }, { parts: [] }, [[]]),
  fc.jsonValue({ maxDepth: 2 }),
);

const FIELDS = (
  "type text name id content source system tools thinking thread top_p metadata contents parts role inlineData functionCall " +
  "generationConfig responseSchema items properties anyOf minItems additionalProperties required toolConfig videoMetadata " +
  "__proto__ constructor n size stream generateContentRequest"
).split(" ");

interface Mutation {
  readonly at: number;
  readonly kind: "replace" | "drop" | "add" | "wrap";
  readonly field: string;
  readonly value: unknown;
}
const mutations = fc.array(
  fc.record<Mutation>({
    at: fc.nat(),
    kind: fc.constantFrom("replace", "drop", "add", "wrap"),
    field: fc.constantFrom(...FIELDS),
    value: scalar,
  }),
  { maxLength: 3 },
);

/** Each place of a body: what holds it, and its key there. */
function placesIn(value: unknown, places: [holder: Record<string, unknown>, key: string][] = []): typeof places {
  if (typeof value !== "object" || value === null) return places;
  for (const [key, inner] of Object.entries(value)) {
    places.push([value as Record<string, unknown>, key]);
    placesIn(inner, places);
  }
  return places;
}

/** Not by assignment: `__proto__` is a key like any other in JSON. */
const OWN = { enumerable: true, writable: true, configurable: true } as const;

function mutated(body: unknown, changes: readonly Mutation[]): unknown {
  const copy = structuredClone(body);
  for (const { at, kind, field, value: given } of changes) {
    // A copy: the same list in two changes would come to hold itself.
    const value = structuredClone(given);
    const places = placesIn(copy);
    const place = places[at % Math.max(places.length, 1)];
    if (!place) return value;
    const [holder, key] = place;
    if (kind === "replace") holder[key] = value;
    else if (kind === "wrap") holder[key] = [holder[key]];
    else if (kind === "add" && !Array.isArray(holder)) Object.defineProperty(holder, field, { value, ...OWN });
    else if (kind === "drop" && !Array.isArray(holder)) delete holder[key];
    else if (Array.isArray(holder)) holder.pop();
  }
  return copy;
}

const messagesBody = chatRequest.map((request) => json(encodeRequest(request)));
const contentBody = wireRequest.map(json);
const imageFields = fc.record(
  {
    prompt: fc.string({ minLength: 1 }),
    n: fc.option(fc.integer({ min: 1, max: 10 })),
    response_format: fc.constantFrom("url", "b64_json", null),
    output_compression: fc.nat(100),
    partial_images: fc.nat(3),
    stream: fc.boolean(),
    user: fc.string(),
  },
  { requiredKeys: [] },
);

const spec = messagesRequest({ vendorRanges: false, vendorSources: false });
const vendor = messagesRequest({ vendorRanges: true, vendorSources: true });

describe("the predicate of a request's schema agrees with valibot", () => {
  it.each<[name: string, schema: v.GenericSchema, body: fc.Arbitrary<unknown>]>([
    ["messages as the spec has it", spec, messagesBody],
    ["messages as the official service takes it", vendor, messagesBody],
    ["generate-content", GenerateContentRequest, contentBody],
    [
      "countTokens",
      CountTokensRequest,
      fc.oneof(
        contentBody,
        contentBody.map((it) => ({ generateContentRequest: it })),
      ),
    ],
    ["images", ImageFields, imageFields.map(json)],
  ])("for %s, on bodies in order and mutated ones", (_name, schema, body) => {
    const verdicts = { true: 0, false: 0 };
    fc.assert(
      fc.property(body, mutations, (whole, changes) => {
        const changed = mutated(whole, changes);
        const verdict = holdsForValibot(schema, changed);
        verdicts[`${verdict}`]++;
        expect(predicateOf(schema)(changed)).toBe(verdict);
      }),
      RUNS,
    );
    // A law that meets one kind alone says little.
    expect(verdicts.true).toBeGreaterThan(50);
    expect(verdicts.false).toBeGreaterThan(50);
  });
});

interface Tree {
  readonly children?: readonly Tree[] | null | undefined;
}
const Tree: v.GenericSchema<Tree> = v.lazy(() => object({ children: v.nullish(v.array(Tree)) }));
const Animal = variant([
  object({ type: v.literal("cat"), lives: v.number() }),
  object({ type: v.nullish(v.picklist(["dog", "wolf"])), name: v.nullish(v.string()) }),
  object({ type: v.pipe(v.string(), v.regex(/^x_/)) }),
]);

/** Of each kind of schema and of action, those that are compiled and those that are left to valibot. */
const SCHEMAS: readonly v.GenericSchema[] = [
  v.unknown(),
  v.string(),
  v.number(),
  v.boolean(),
  v.null(),
  v.literal("text"),
  v.literal(Number.NaN),
  v.picklist(["a", 1]),
  v.nullable(v.string()),
  v.optional(v.string()),
  v.nullish(v.string()),
  v.nullish(v.pipe(v.string(), v.minLength(3)), "a"),
  v.optional(v.number(), 1),
  v.fallback(v.string(), "x"),
  v.array(v.number()),
  v.looseObject({ type: v.string() }),
  v.strictObject({ type: v.string() }),
  v.object({ type: v.optional(v.string(), "x"), value: v.string() }),
  v.tuple([v.number()]),
  v.record(v.string(), v.number()),
  v.union([v.string(), v.array(v.string())]),
  v.variant("type", [v.object({ type: v.literal("text") }), v.object({ type: v.literal("a"), value: v.string() })]),
  v.custom((input) => input === "text"),
  v.pipe(v.string(), v.minLength(2), v.maxLength(3), v.regex(/e/)),
  v.pipe(v.string(), v.trim(), v.minLength(1)),
  v.pipe(
    v.string(),
    v.transform((text) => text.length),
    v.minValue(2),
  ),
  v.pipe(v.string(), v.url()),
  v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(9), v.metadata({ title: "x" })),
  v.pipe(v.number(), v.gtValue(0), v.ltValue(1)),
  v.pipe(v.number(), v.finite()),
  v.pipe(
    v.array(v.unknown()),
    v.minLength(1),
    v.check((list) => list[0] !== null),
  ),
  v.pipe(
    v.unknown(),
    v.rawCheck(({ dataset, addIssue }) => {
      if (dataset.value === 1) addIssue({ message: "must not be 1" });
    }),
  ),
  v.pipe(
    object({ type: v.nullish(v.string()) }),
    crossCheck(function* ({ type }) {
      if (type === "text") yield { path: ["type"], message: "must not be text" };
    }),
  ),
  object({}),
  object({ type: v.string(), value: v.nullish(v.number()), list: v.optional(v.array(v.string()), []) }),
  record(v.nullish(v.string())),
  textOr(v.array(v.string())),
  choice([v.string(), v.number()], (input) => (typeof input === "string" ? v.string() : v.number())),
  Animal,
  v.pipe(
    Animal,
    v.check((animal) => Object.keys(animal).length < 3),
  ),
  Tree,
];

const anyInput = fc.oneof(
  scalar,
  fc.constantFrom<unknown>(
    undefined,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    "abc",
    5,
    0.5,
    "dog",
    "x_1",
    " ",
    "http://a.b",
  ),
  fc.dictionary(fc.constantFrom("type", "value", "lives", "name", "children", "list"), scalar),
  fc.letrec<{ tree: Tree }>((tie) => ({
    tree: fc.record({ children: fc.oneof({ maxDepth: 3 }, fc.constant(null), fc.array(tie("tree"))) }),
  })).tree,
);

describe("the predicate of any schema agrees with valibot", () => {
  it.each(SCHEMAS.map((schema, index) => [`${index}: ${schema.type}`, schema] as const))("%s", (_name, schema) => {
    fc.assert(
      fc.property(anyInput, (input) => {
        expect(predicateOf(schema)(input)).toBe(holdsForValibot(schema, input));
      }),
      { numRuns: 400 },
    );
  });

  it("is compiled once", () => {
    expect(predicateOf(Animal)).toBe(predicateOf(Animal));
  });
});

const listOf = (value: number): { list: number[] } => ({ list: Array.from({ length: 10_000 }, () => value) });

describe("a body of very many breaches", () => {
  it("is left at the first one, in its fields as in the rules that look at several", () => {
    let seen = 0;
    const counting = v.pipe(
      object({
        list: v.array(
          v.pipe(
            v.number(),
            v.check((value) => {
              seen++;
              return value > 0;
            }),
          ),
        ),
      }),
      crossCheck<{ list: number[] }>(function* ({ list }) {
        for (const [index, value] of list.entries()) {
          seen++;
          if (value > 1) yield { path: ["list", index], message: "must be at most 1" };
        }
      }),
    );
    expect(() => assertValid(counting, listOf(0))).toThrow("list.0: ");
    // Once to judge, and once to explain.
    expect(seen).toBe(2);
    seen = 0;
    expect(() => assertValid(counting, listOf(2))).toThrow("list.0: must be at most 1");
    expect(seen).toBe(2 * 10_001);
  });
});
