/** The JSON Schema that can be made of each request's schema: complete, and open only where a value has no shape. */

import { toJsonSchema } from "@valibot/to-json-schema";
import { Ajv, type AnySchema } from "ajv";
import type * as v from "valibot";
import { describe, expect, it } from "vitest";
import { OpenApiSchema } from "../../src/formats/generate-content/schema.openapi.ts";
import { CountTokensRequest, GenerateContentRequest } from "../../src/formats/generate-content/schema.ts";
import { ImageFields } from "../../src/formats/images/schema.ts";
import { messagesRequest } from "../../src/formats/messages/schema.ts";
import { isJsonObject } from "../../src/model/json.ts";
import { ignoreActions } from "../../src/openapi/document.ts";

const messages = messagesRequest({ vendorRanges: false, vendorSources: false });
const vendorMessages = messagesRequest({ vendorRanges: true, vendorSources: true });
const REQUESTS: readonly [name: string, schema: v.GenericSchema][] = [
  ["messages", messages],
  ["messages as the official service takes it", vendorMessages],
  ["generate-content", GenerateContentRequest],
  ["countTokens", CountTokensRequest],
  ["images", ImageFields],
];

const schemaOf = (schema: v.GenericSchema): unknown =>
  JSON.parse(JSON.stringify(toJsonSchema(schema, { typeMode: "input", ignoreActions })));

const accepts = (schema: v.GenericSchema): ((body: unknown) => boolean) => {
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(schemaOf(schema) as AnySchema);
  return (body) => validate(JSON.parse(JSON.stringify(body))) === true;
};

/** The parts of a schema of valibot's, each with the place where it stands. */
function* partsOf(
  schema: unknown,
  at = "",
  seen = new Set<unknown>(),
): Generator<[at: string, schema: v.GenericSchema]> {
  if (typeof schema !== "object" || schema === null || seen.has(schema)) return;
  seen.add(schema);
  if ("kind" in schema && schema.kind === "schema") yield [at, schema as v.GenericSchema];
  if ("getter" in schema && typeof schema.getter === "function") yield* partsOf(schema.getter(undefined), at, seen);
  for (const key of ["wrapped", "item", "value", "options", "pipe", "entries"])
    if (key in schema) yield* childrenOf((schema as Record<string, unknown>)[key], key, at, seen);
}

function* childrenOf(child: unknown, key: string, at: string, seen: Set<unknown>): ReturnType<typeof partsOf> {
  if (key === "entries")
    for (const [name, entry] of Object.entries(child ?? {})) yield* partsOf(entry, `${at}.${name}`, seen);
  else if (Array.isArray(child))
    for (const [index, option] of child.entries()) yield* partsOf(option, `${at}|${index}`, seen);
  else yield* partsOf(child, at, seen);
}

/** The schemas in a JSON Schema that say nothing, each under the name of the field that it is for. */
function* emptyIn(schema: unknown, field: string): Generator<string> {
  if (!isJsonObject(schema)) return;
  if (Object.keys(schema).length === 0) yield field;
  for (const [name, inner] of Object.entries(schema["properties"] ?? {})) yield* emptyIn(inner, name);
  for (const [name, inner] of Object.entries(schema["$defs"] ?? {})) yield* emptyIn(inner, name);
  for (const key of ["items", "additionalProperties"]) yield* emptyIn(schema[key], field);
  for (const key of ["anyOf", "oneOf"]) {
    const branches = schema[key];
    // What the official service alone knows is shown as its object, or anything else.
    if (Array.isArray(branches)) for (const branch of branches) yield* emptyIn(branch, field);
  }
}

/** The user's own values, references, and what the official service has beyond the spec. */
const OF_ANY_SHAPE = (
  "example default ref $ref additionalProperties response responseJsonSchema displayName partialArgs willContinue " +
  "videoMetadata startOffset endOffset mediaResolution numTokens googleSearch googleSearchRetrieval urlContext googleMaps " +
  "computerUse fileSearch enterpriseWebSearch parallelAiSearch mcpServers retrievalConfig languageCode latLng imageConfig " +
  "aspectRatio imageSize toolCall toolResponse audioTranscription model role display strict eager_input_streaming effort " +
  "service_tier caller"
).split(" ");

/** Whether a union does not show in JSON Schema as many branches as it has. */
function branchesHiddenOf(part: v.GenericSchema): boolean {
  const keyword = { union: "anyOf", variant: "oneOf" }[part.type];
  if (keyword === undefined) return false;
  const shown = (schemaOf(part) as Record<string, unknown>)[keyword];
  const { options } = part as v.GenericSchema & { readonly options: readonly unknown[] };
  return !Array.isArray(shown) || shown.length !== options.length;
}

describe.each(REQUESTS)("the schema of %s", (_name, schema) => {
  it("becomes JSON Schema that compiles", () => {
    expect(accepts(schema)).toBeTypeOf("function");
  });

  it("shows the branches of every union", () => {
    const hidden = Array.from(partsOf(schema)).filter(([, part]) => !("pipe" in part) && branchesHiddenOf(part));
    expect(hidden.map(([at]) => at)).toEqual([]);
  });

  it("hides no shape in a function: a lazy schema is one that holds itself", () => {
    const hidden = Array.from(partsOf(schema)).filter(
      ([, part]) =>
        part.type === "custom" ||
        (part.type === "lazy" && (part as v.LazySchema<v.GenericSchema>).getter(1) !== OpenApiSchema),
    );
    expect(hidden.map(([at]) => at)).toEqual([]);
  });

  it("leaves open only what has no shape", () => {
    const open = [...new Set(emptyIn(schemaOf(schema), ""))];
    expect(open.filter((field) => !OF_ANY_SHAPE.includes(field))).toEqual([]);
  });
});

describe("JSON Schema", () => {
  it("counts characters, and tells limits and enums", () => {
    const { properties } = schemaOf(messages) as { properties: Record<string, object> };
    expect(properties["model"]).toEqual({ type: "string", minLength: 1, maxLength: 256 });
    expect(properties["max_tokens"]).toEqual({ type: "integer", minimum: 2, maximum: Number.MAX_SAFE_INTEGER });
    expect(properties["top_p"]).toMatchObject({
      anyOf: [{ exclusiveMinimum: 0, exclusiveMaximum: 1 }, { type: "null" }],
    });
    const accepted = accepts(messages);
    expect(["😀".repeat(64), "😀".repeat(65)].map((name) => accepted(named(name)))).toEqual([true, false]);
  });
});

const named = (name: string): object => ({
  model: "m",
  max_tokens: 2,
  messages: [{ role: "user", content: "Hi" }],
  tools: [{ name, input_schema: {} }],
});
