/** Tools with schemas that ask for much, and whether an input satisfies one. */

import type { Tool } from "@anthropic-ai/sdk/resources/messages";
import { Ajv } from "ajv";
import { expect } from "vitest";

export const weather: Tool = {
  name: "get_weather",
  description: "Tells the weather of a city.",
  input_schema: {
    type: "object",
    properties: { city: { type: "string" }, unit: { type: "string", enum: ["celsius", "fahrenheit"] } },
    required: ["city", "unit"],
    additionalProperties: false,
  },
};

export const bookFlight: Tool = {
  name: "book_flight",
  description: "Reserves seats.",
  input_schema: {
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
            class: { enum: ["economy", "business"] },
          },
          required: ["name", "age", "class"],
          additionalProperties: false,
        },
      },
      code: { type: "string", pattern: "^[A-Z]{2}[0-9]{3}$" },
      price: { type: "number", exclusiveMinimum: 0, maximum: 500 },
      refundable: { type: "boolean" },
      note: { type: ["string", "null"] },
    },
    required: ["passengers", "code", "price", "refundable", "note"],
    additionalProperties: false,
  },
};

/** Holds an input to its tool's schema, by a validator that is not the demo's. */
export function expectSatisfies(input: unknown, { input_schema }: Tool): void {
  const ajv = new Ajv({ allErrors: true, allowUnionTypes: true });
  const valid = ajv.validate(input_schema, input);
  expect(valid, `${JSON.stringify(input)}: ${ajv.errorsText()}`).toBe(true);
}
