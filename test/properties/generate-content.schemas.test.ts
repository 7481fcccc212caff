/** Schemas in generate-content requests: what is the caller's is carried, types are told as JSON Schema spells them; and texts inline. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { snakeCase } from "../../src/formats/generate-content/request.spelling.ts";
import { decodeRequest } from "../../src/formats/generate-content/request.ts";
import { promisedType } from "../../src/formats/generate-content/schema.config.ts";
import { type ChatRequest, createGateway, memoryQuotaStore } from "../../src/index.ts";
import { isJsonObject, type JsonObject } from "../../src/model/json.ts";
import { readBody } from "../formats/generate-content/read-body.ts";
import { RUNS, userObject } from "./generate-content.arbitraries.ts";

const decoded = (body: object): ChatRequest =>
  decodeRequest(readBody(JSON.parse(JSON.stringify(body))), { model: "m", stream: false, defaultMaxOutputTokens: 1 });

function inputSchemaOf(declaration: object): JsonObject | undefined {
  const { tools } = decoded({ contents: "Hi", tools: [{ functionDeclarations: [{ name: "f", ...declaration }] }] });
  return tools[0]?.type === "function" ? tools[0].inputSchema : undefined;
}

function answerSchemaOf(config: object): JsonObject | undefined {
  const generationConfig = { responseMimeType: "application/json", ...config };
  const { responseFormat } = decoded({ contents: "Hi", generationConfig });
  return responseFormat?.type === "json" ? responseFormat.schema : undefined;
}

function refusalOf(body: object): GatewayError | undefined {
  try {
    decoded(body);
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  return undefined;
}

/** Whether an object, or one within, has a field in both of its spellings. */
const givesTwice = (value: unknown): boolean =>
  isJsonObject(value)
    ? Object.entries(value).some(
        ([key, inner]) => (key !== snakeCase(key) && snakeCase(key) in value) || givesTwice(inner),
      )
    : Array.isArray(value) && value.some(givesTwice);

describe("the parameters of a function", () => {
  it.each<[what: string, parameters: JsonObject, carried: JsonObject]>([
    ["a list of types", { type: ["STRING", "null"] }, { type: ["string", "null"] }],
    [
      "a nullable list of types",
      { type: ["STRING", "NUMBER"], nullable: true },
      { type: ["string", "number", "null"] },
    ],
    ["a constant", { const: 5 }, { const: 5 }],
    ["a constant null", { const: null }, { const: null }],
    [
      "boolean schemas",
      { type: "object", properties: { a: true, b: false }, items: false, anyOf: [true, { type: "STRING" }] },
      { type: "object", properties: { a: true, b: false }, items: false, anyOf: [true, { type: "string" }] },
    ],
    ["an enum of every type", { enum: ["a", 1, true, null, {}] }, { enum: ["a", 1, true, null, {}] }],
    [
      "an enum of numbers, as text or not",
      { type: "INTEGER", enum: ["1", 2, "x"] },
      { type: "integer", enum: [1, 2, "x"] },
    ],
    ["required names without properties", { type: "OBJECT", required: ["a"] }, { type: "object", required: ["a"] }],
    ["a type that nobody knows", { type: "DATE" }, { type: "DATE" }],
    ["limits the wrong way round", { minLength: 2, maxLength: 1 }, { minLength: 2, maxLength: 1 }],
    ["counts as text, or as no count at all", { min_items: "3", maxItems: "many" }, { minItems: 3, maxItems: "many" }],
    [
      "both spellings, at every depth",
      { any_of: [{ type: "ARRAY", min_items: 1, prefix_items: [{ max_length: "4" }] }] },
      { anyOf: [{ type: "array", minItems: 1, prefixItems: [{ maxLength: 4 }] }] },
    ],
    [
      "schemas under keywords that the format does not know",
      { not: { type: "STRING" }, patternProperties: { type: { type: "NUMBER" } }, if: { enum: ["STRING"] } },
      { not: { type: "string" }, patternProperties: { type: { type: "number" } }, if: { enum: ["STRING"] } },
    ],
    [
      "definitions, in the format's words",
      { defs: { type: { type: "STRING" } }, items: { ref: "#/defs/type" } },
      { $defs: { type: { type: "string" } }, items: { $ref: "#/$defs/type" } },
    ],
  ])("are carried with %s", (_what, parameters, carried) => {
    expect(inputSchemaOf({ parameters })).toEqual(carried);
  });

  it("are carried whatever the object is, in a request that is answered", () => {
    fc.assert(
      fc.property(userObject, (own) => {
        expect(inputSchemaOf({ parameters: { default: own, type: own } })).toMatchObject({ default: own });
        // No object of the caller's is refused, but one that gives a field twice; nor does it make a decoder throw.
        fc.pre(!givesTwice(own));
        expect(inputSchemaOf({ parameters: own })).toBeTypeOf("object");
      }),
      RUNS,
    );
  });

  it("must be an object all the same", () => {
    for (const parameters of ["{}", true, []])
      expect(
        refusalOf({ contents: "Hi", tools: [{ functionDeclarations: [{ name: "f", parameters }] }] })?.path,
      ).toEqual(["tools", 0, "functionDeclarations", 0, "parameters"]);
  });
});

const CAPITALS = {
  type: "OBJECT",
  properties: {
    type: { type: "STRING", enum: ["STRING", "OBJECT"], default: "STRING", examples: ["OBJECT"] },
    list: { type: ["ARRAY", "NULL"], items: [{ type: "INTEGER" }, true], contains: { const: { type: "NUMBER" } } },
    enum: { type: "BOOLEAN" },
  },
  $defs: { type: { type: "NUMBER" } },
  dependencies: { a: ["STRING"], b: { type: "STRING" } },
  additionalProperties: { anyOf: [{ type: "STRING" }], not: { type: "NULL" } },
  default: { type: "OBJECT" },
};
const SMALL = {
  type: "object",
  properties: {
    type: { type: "string", enum: ["STRING", "OBJECT"], default: "STRING", examples: ["OBJECT"] },
    list: { type: ["array", "null"], items: [{ type: "integer" }, true], contains: { const: { type: "NUMBER" } } },
    enum: { type: "boolean" },
  },
  $defs: { type: { type: "number" } },
  dependencies: { a: ["STRING"], b: { type: "string" } },
  additionalProperties: { anyOf: [{ type: "string" }], not: { type: "null" } },
  default: { type: "OBJECT" },
};

describe("types in capitals", () => {
  it("reach a backend in small letters, where they are types", () => {
    expect(inputSchemaOf({ parametersJsonSchema: CAPITALS })).toEqual(SMALL);
    expect(answerSchemaOf({ responseJsonSchema: CAPITALS })).toEqual(SMALL);
  });

  it("are told of a list of texts too", () => {
    const generationConfig = {
      responseMimeType: "text/x.enum",
      responseJsonSchema: { type: "STRING", enum: ["STRING"] },
    };
    expect(decoded({ contents: "Hi", generationConfig }).responseFormat).toEqual({ type: "enum", values: ["STRING"] });
  });

  it("leave a schema as it is that has none", () => {
    expect(inputSchemaOf({ parametersJsonSchema: SMALL })).toEqual(SMALL);
    expect(inputSchemaOf({ parametersJsonSchema: { type: "DATE" } })).toEqual({ type: "DATE" });
  });
});

describe("a response schema is held to the format's own object", () => {
  it.each<[what: string, responseSchema: unknown, path: readonly (string | number)[]]>([
    ["a list of types", { type: ["STRING"] }, ["type"]],
    ["a boolean schema", { type: "OBJECT", properties: { a: true } }, ["properties", "a"]],
    ["a number in an enum", { type: "STRING", enum: ["a", 1] }, ["enum", 1]],
    ["a list of schemas", { type: "ARRAY", items: [{ type: "STRING" }] }, ["items"]],
    ["a required name of no property", { type: "OBJECT", required: ["a"] }, ["required", 0]],
    ["an inner schema without type", { type: "ARRAY", items: { anyOf: [{}] } }, ["items", "anyOf", 0, "type"]],
  ])("which is not %s", (_what, responseSchema, path) => {
    const body = { contents: "Hi", generationConfig: { responseMimeType: "application/json", responseSchema } };
    expect(refusalOf(body)).toMatchObject({
      code: "invalid_request",
      path: ["generationConfig", "responseSchema", ...path],
    });
  });
});

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const inline = (mimeType: string, data: string): object => ({
  contents: [{ parts: [{ text: "Read." }, { inlineData: { mimeType, data } }] }],
});

describe("inlineData beyond the spec's list", () => {
  it.each(["text/plain", "text/csv", "application/json", "Text/Plain; charset=utf-8"])(
    "takes %s as a document",
    (type) => {
      const text = 'a,"ß"\n😀';
      expect(decoded(inline(type, base64(text))).messages[0]?.parts[1]).toEqual({
        type: "document",
        source: { type: "text", text },
      });
    },
  );

  it("takes a GIF as an image", () => {
    expect(decoded(inline("image/gif", "R0lGODlh")).messages[0]?.parts[1]).toEqual({
      type: "media",
      kind: "image",
      source: { type: "base64", mediaType: "image/gif", data: "R0lGODlh" },
    });
  });

  it("takes them in a function's response", () => {
    const parts = [{ inlineData: { mimeType: "text/csv", data: base64("a,b") } }];
    const body = { contents: [{ parts: [{ functionResponse: { name: "f", response: {}, parts } }] }] };
    expect(decoded(body).messages[0]?.parts[0]).toMatchObject({
      parts: [{ type: "json" }, { type: "document", source: { type: "text", text: "a,b" } }],
    });
  });

  it("refuses a text that is no UTF-8, and files of these types", () => {
    const bytes = Buffer.from([0xff, 0xfe]).toString("base64");
    expect(refusalOf(inline("text/plain", bytes))?.path).toEqual(["contents", 0, "parts", 1, "inlineData", "data"]);
    for (const mimeType of ["image/gif", "text/csv"]) {
      const fileData = { mimeType, fileUri: "https://example.com/a" };
      expect(refusalOf({ contents: [{ parts: [{ fileData }] }] })?.path?.at(-1)).toBe("mimeType");
    }
  });

  it("reaches the backend of a gateway, and is counted", async () => {
    const asked: ChatRequest[] = [];
    const gateway = createGateway({
      backend: {
        async *chat(request) {
          asked.push(request);
          yield "Read.";
        },
      },
      quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    });
    const send = (method: string, body: object): Promise<Response> =>
      gateway.fetch(
        new Request(`http://gateway.test/v1beta/models/m:${method}`, {
          method: "POST",
          headers: { "x-goog-api-key": "sk-test", "content-type": "application/json" },
          body: JSON.stringify(body),
        }),
      );
    const body = inline("application/json", base64('{"a": 1}'));
    expect((await send("generateContent", body)).status).toBe(200);
    expect(asked[0]?.messages[0]?.parts[1]).toMatchObject({ source: { type: "text", text: '{"a": 1}' } });
    const counted = (await (await send("countTokens", body)).json()) as { totalTokens: number };
    expect(counted.totalTokens).toBeGreaterThan(0);
  });
});

describe("the type that a file's name promises", () => {
  it.each([
    ["https://a.b/c.png", "image/png"],
    ["https://a.b/c.JPG?x=.gif#.webp", "image/jpeg"],
    ["https://a.b/c.tiff", "image/jpeg"],
    ["https://a.b/png", "image/jpeg"],
    ["png", "image/jpeg"],
    [".a?".repeat(1_000_000) + "\n", "image/jpeg"],
  ])("of %.40s is %s", (uri, type) => {
    expect(promisedType(uri, "image")).toBe(type);
  });
});
