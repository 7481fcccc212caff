/** Both spellings as a law: the format's own fields may be written in either, at every depth, and what is the user's survives. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { decodeRequest } from "../../src/formats/generate-content/request.ts";
import { toJsonSchema } from "../../src/formats/generate-content/schema.openapi.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/model/json.ts";
import { readBody } from "../formats/generate-content/read-body.ts";
import { RUNS, userObject } from "./generate-content.arbitraries.ts";
import { openApiSchema, wireRequest } from "./generate-content.arbitraries.wire.ts";
import { REQUEST, respelled, snakeCase } from "./generate-content.shapes.ts";

const target = { model: "m", stream: false, defaultMaxOutputTokens: 1 };

function decoded(wire: unknown): string {
  const { native: _, ...request } = decodeRequest(readBody(wire), target);
  return JSON.stringify(request);
}

/** Random choices, as many as are asked for. */
const coins = fc.infiniteStream(fc.boolean());

describe("either spelling", () => {
  it("of every field, at random, says the same", () => {
    fc.assert(
      fc.property(wireRequest, coins, (wire, coin) => {
        const mixed = respelled(wire, REQUEST, (field) => [coin.next().value ? snakeCase(field) : field]);
        expect(JSON.stringify(readBody(mixed))).toBe(JSON.stringify(wire));
        expect(decoded(mixed)).toBe(decoded(wire));
      }),
      RUNS,
    );
  });

  it("of all fields at once says the same, and the body stays as it came", () => {
    fc.assert(
      fc.property(wireRequest, (wire) => {
        const snake = respelled(wire, REQUEST, (field) => [snakeCase(field)]);
        const before = JSON.stringify(snake);
        expect(decoded(snake)).toBe(decoded(wire));
        expect(JSON.stringify(snake)).toBe(before);
      }),
      RUNS,
    );
  });

  it("beside the other is refused, and both are named", () => {
    fc.assert(
      fc.property(wireRequest, fc.nat(), (wire, choice) => {
        const twins = fieldsOf(wire);
        let place = choice % twins.length;
        const field = twins[place] ?? "";
        const twice = respelled(wire, REQUEST, (name) => {
          if (snakeCase(name) === name) return [name];
          return place-- === 0 ? [name, snakeCase(name)] : [name];
        });
        const refused = refusalOf(() => readBody(twice));
        expect(refused).toMatchObject({ code: "invalid_request" });
        expect(refused?.message).toContain(field);
        expect(refused?.message).toContain(snakeCase(field));
        expect(refused?.path?.at(-1)).toBe(snakeCase(field));
      }),
      RUNS,
    );
  });
});

describe("what is the user's", () => {
  const NAMED = { name: "f" } as const;

  it.each<[name: string, body: (own: JsonObject) => object, read: (body: ReturnType<typeof decodeRequest>) => unknown]>(
    [
      [
        "args",
        (args) => ({ contents: [{ role: "model", parts: [{ function_call: { ...NAMED, args } }] }] }),
        ({ messages }) => firstPart(messages, "tool-call")?.input,
      ],
      [
        "response",
        (response) => ({ contents: [{ parts: [{ function_response: { ...NAMED, response } }] }] }),
        ({ messages }) =>
          firstPart(messages, "tool-result")?.parts.flatMap((part) => (part.type === "json" ? part.value : []))[0],
      ],
      [
        "parametersJsonSchema",
        (schema) => ({
          contents: "Hi",
          tools: [{ function_declarations: [{ ...NAMED, parameters_json_schema: schema }] }],
        }),
        ({ tools: [tool] }) => (tool?.type === "function" ? tool.inputSchema : undefined),
      ],
      [
        "responseJsonSchema",
        (schema) => ({
          contents: "Hi",
          generation_config: { response_mime_type: "application/json", response_json_schema: schema },
        }),
        ({ responseFormat }) => (responseFormat?.type === "json" ? responseFormat.schema : undefined),
      ],
    ],
  )("survives in %s, whatever its keys", (_name, body, read) => {
    fc.assert(
      fc.property(userObject, (own) => {
        const wire: unknown = JSON.parse(JSON.stringify(body(own)));
        expect(JSON.stringify(read(decodeRequest(readBody(wire), target)))).toBe(JSON.stringify(own));
        expect(Object.keys(Object.prototype)).toEqual([]);
      }),
      RUNS,
    );
  });

  it("survives in schemas: names of properties, examples, defaults and enum values", () => {
    fc.assert(
      fc.property(openApiSchema, (schema) => {
        const schemaRead = { tools: [{ functionDeclarations: [{ ...NAMED, parameters: schema }] }], contents: "Hi" };
        const [tool] = decodeRequest(readBody(schemaRead), target).tools;
        const decodedSchema = tool?.type === "function" ? tool.inputSchema : {};
        expect(JSON.stringify(decodedSchema)).toBe(JSON.stringify(toJsonSchema(schema)));
        expectSameValues(schema, decodedSchema);
      }),
      RUNS,
    );
  });
});

/** The format's own fields of a body that have two spellings, in the order in which they are met. */
function fieldsOf(wire: unknown): string[] {
  const fields: string[] = [];
  respelled(wire, REQUEST, (field) => {
    if (snakeCase(field) !== field) fields.push(field);
    return [field];
  });
  return fields;
}

function refusalOf(read: () => unknown): GatewayError | undefined {
  try {
    read();
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  return undefined;
}

type Messages = ReturnType<typeof decodeRequest>["messages"];
type PartOf<Type> = Extract<Messages[number]["parts"][number], { type: Type }>;

const firstPart = <Type extends string>(messages: Messages, type: Type): PartOf<Type> | undefined =>
  messages.flatMap(({ parts }) => parts).find((part): part is PartOf<Type> => part.type === type);

/** Holds a schema of the format against the JSON Schema that it became. */
function expectSameValues(schema: JsonObject, json: JsonObject): void {
  expect(JSON.stringify(json["examples"])).toBe("example" in schema ? JSON.stringify([schema["example"]]) : undefined);
  expect(JSON.stringify(json["default"])).toBe(JSON.stringify(schema["default"]));
  const values = listOf(schema["enum"]);
  expect(listOf(json["enum"])).toEqual(values.length > 0 && schema["nullable"] === true ? [...values, null] : values);
  const properties = entriesOf(schema["properties"]);
  const read = new Map(entriesOf(json["properties"]));
  expect([...read.keys()].toSorted()).toEqual(properties.map(([key]) => key).toSorted());
  for (const [key, inner] of properties) expectSameValues(inner, read.get(key) ?? {});
  if (isJsonObject(schema["items"]))
    expectSameValues(schema["items"], isJsonObject(json["items"]) ? json["items"] : {});
  for (const [index, inner] of listOf(schema["anyOf"]).entries()) {
    const other = listOf(json["anyOf"])[index];
    if (isJsonObject(inner)) expectSameValues(inner, isJsonObject(other) ? other : {});
  }
}

const listOf = (value: JsonValue | undefined): JsonValue[] => (Array.isArray(value) ? value : []);

const entriesOf = (value: JsonValue | undefined): [string, JsonObject][] =>
  isJsonObject(value) ? Object.entries(value).map(([key, inner]) => [key, isJsonObject(inner) ? inner : {}]) : [];
