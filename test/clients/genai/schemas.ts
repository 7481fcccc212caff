/** Functions with schemas that ask for much, and whether arguments satisfy one. */

import { type FunctionDeclaration, Type } from "@google/genai";
import { Ajv } from "ajv";
import { expect } from "vitest";

export const weather: FunctionDeclaration = {
  name: "get_weather",
  description: "Tells the weather of a city.",
  parameters: {
    type: Type.OBJECT,
    properties: { city: { type: Type.STRING }, unit: { type: Type.STRING, enum: ["celsius", "fahrenheit"] } },
    required: ["city", "unit"],
    propertyOrdering: ["city", "unit"],
  },
};

const flightSchema = {
  type: "object",
  properties: {
    passengers: {
      type: "array",
      minItems: 1,
      maxItems: 3,
      items: {
        type: "object",
        properties: {
          name: { type: "string", minLength: 2, maxLength: 40 },
          age: { type: "integer", minimum: 18, maximum: 99 },
          class: { type: "string", enum: ["economy", "business"] },
        },
        required: ["name", "age", "class"],
        additionalProperties: false,
      },
    },
    refundable: { type: "boolean" },
    note: { type: ["string", "null"] },
  },
  required: ["passengers", "refundable", "note"],
  additionalProperties: false,
};

export const bookFlight: FunctionDeclaration = {
  name: "book_flight",
  description: "Reserves seats.",
  parametersJsonSchema: flightSchema,
};

/** A function that takes nothing. */
export const tides: FunctionDeclaration = { name: "get_tides", description: "Tells when the sea is high." };

/** Holds arguments to the schema of `book_flight`, by a validator that is not the demo's. */
export const expectFlight = (args: unknown): void => expectSatisfies(args, flightSchema);

/** Holds a value to a JSON Schema. */
export function expectSatisfies(value: unknown, schema: object): void {
  const ajv = new Ajv({ allErrors: true, allowUnionTypes: true });
  const valid = ajv.validate(schema, value);
  expect(valid, `${JSON.stringify(value)}: ${ajv.errorsText()}`).toBe(true);
}
