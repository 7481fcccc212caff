/** Random generate-content bodies in camelCase, schemas in the style of OpenAPI and all. */

import fc from "fast-check";
import { encodeRequest } from "../../src/formats/generate-content/request.ts";
import type { GenerateContentRequest } from "../../src/formats/generate-content/schema.ts";
import { isJsonObject, type JsonObject } from "../../src/model/json.ts";
import { chatRequest } from "./generate-content.arbitraries.request.ts";
import { number, ownKeys, record, some, text, userKey, userValue } from "./generate-content.arbitraries.ts";

const pair = (min: string, max: string, value: fc.Arbitrary<number>): fc.Arbitrary<object> =>
  fc.tuple(value, value).map(([a, b]) => ({ [min]: Math.min(a, b), [max]: Math.max(a, b) }));

const notes = some({
  description: text,
  title: text,
  example: userValue,
  default: userValue,
  nullable: fc.boolean(),
});
const plain = fc.oneof(
  fc.tuple(
    fc.constantFrom("STRING", "string"),
    fc.oneof(
      fc.record({ enum: fc.array(text, { minLength: 1, maxLength: 3 }) }),
      pair("minLength", "maxLength", fc.nat()),
      fc.record({ format: fc.constantFrom("date", "date-time") }),
      fc.constant({}),
    ),
  ),
  fc.tuple(fc.constantFrom("NUMBER", "integer"), fc.oneof(pair("minimum", "maximum", number(-9, 9)), fc.constant({}))),
  fc.tuple(fc.constantFrom("BOOLEAN", "boolean"), fc.constant({})),
);

const { schema } = fc.letrec<{ schema: JsonObject }>((tie) => ({
  schema: fc
    .tuple(
      notes,
      fc.oneof(
        { maxDepth: 2 },
        plain.map(([type, limits]) => ({ type, ...limits })),
        fc
          .tuple(tie("schema"), pair("minItems", "maxItems", fc.nat()))
          .map(([items, limits]) => ({ type: "ARRAY", items, ...limits })),
        fc.tuple(ownKeys(userKey, tie("schema"), 3), fc.boolean()).map(([properties, ordered]) => ({
          type: "OBJECT",
          properties,
          required: Object.keys(properties).slice(1),
          ...(ordered && { propertyOrdering: Object.keys(properties).toReversed() }),
        })),
        fc.array(tie("schema"), { minLength: 1, maxLength: 2 }).map((anyOf) => ({ anyOf })),
      ),
    )
    .map(([noted, shaped]) => JSON.parse(JSON.stringify({ ...noted, ...shaped })) as JsonObject),
}));

/** Schemas as the format's own objects, with names and values of the user's in them. */
export const openApiSchema: fc.Arbitrary<JsonObject> = schema;

/** Bodies that are in order, with their functions and their answer described by such schemas. */
export const wireRequest: fc.Arbitrary<GenerateContentRequest> = fc
  .tuple(chatRequest, some({ responseSchema: openApiSchema }), record({ parameters: openApiSchema }, {}))
  .map(([request, format, { parameters }]) => {
    const { responseFormat: _, ...plainRequest } = request;
    const body = encodeRequest(format.responseSchema ? plainRequest : request);
    return {
      ...body,
      ...(body.tools && { tools: body.tools.map((tool) => described(tool, parameters)) }),
      generationConfig: {
        ...body.generationConfig,
        ...(format.responseSchema && { responseMimeType: "application/json" as const, ...format }),
      },
    };
  })
  .map((body) => JSON.parse(JSON.stringify(body)) as GenerateContentRequest);

type Tool = NonNullable<GenerateContentRequest["tools"]>[number];

/** A tool whose every other function is described by a schema of the format's own. */
function described(tool: Tool, parameters: JsonObject): Tool {
  const { functionDeclarations, ...rest } = tool;
  if (!functionDeclarations) return tool;
  return {
    ...rest,
    functionDeclarations: functionDeclarations.map(({ parametersJsonSchema, ...declaration }, index) => ({
      ...declaration,
      ...(index % 2 === 0 || !isJsonObject(parametersJsonSchema) ? { parameters } : { parametersJsonSchema }),
    })),
  };
}
