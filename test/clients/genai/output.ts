/** Structured output: JSON of a schema, and one of some values. */

import { type GenerateContentConfig, type Schema, Type } from "@google/genai";
import { describe, expect, it } from "vitest";
import { expectSatisfies } from "./schemas.ts";
import { say, type Stage, streamedText, textOf } from "./sdk.ts";

const JSON_TYPE = { responseMimeType: "application/json" };

const recipes: Schema = {
  type: Type.ARRAY,
  minItems: "2",
  maxItems: "3",
  items: {
    type: Type.OBJECT,
    properties: {
      name: { type: Type.STRING, minLength: "3", maxLength: "20" },
      minutes: { type: Type.INTEGER, minimum: 5, maximum: 90 },
      rating: { type: Type.NUMBER, nullable: true },
      course: { type: Type.STRING, format: "enum", enum: ["starter", "main"] },
      steps: { type: Type.ARRAY, items: { anyOf: [{ type: Type.STRING }, { type: Type.INTEGER }] } },
    },
    required: ["name", "minutes", "rating", "course", "steps"],
    propertyOrdering: ["course", "name", "steps", "minutes", "rating"],
  },
};

/** The same in the words of JSON Schema. */
const recipesJsonSchema = {
  type: "array",
  minItems: 2,
  maxItems: 3,
  items: {
    type: "object",
    properties: {
      name: { type: "string", minLength: 3, maxLength: 20 },
      minutes: { type: "integer", minimum: 5, maximum: 90 },
      rating: { type: ["number", "null"] },
      course: { type: "string", enum: ["starter", "main"] },
      steps: { type: "array", items: { anyOf: [{ type: "string" }, { type: "integer" }] } },
    },
    required: ["name", "minutes", "rating", "course", "steps"],
  },
};

export function outputSuite({ ask, chunks }: Stage): void {
  describe("JSON", () => {
    it.each<[string, GenerateContentConfig]>([
      ["a schema", { ...JSON_TYPE, responseSchema: recipes }],
      ["a JSON schema", { ...JSON_TYPE, responseJsonSchema: recipesJsonSchema }],
    ])("satisfies %s, complete and streamed", async (_what, config) => {
      const text = textOf(await ask(say("List some recipes", config)));
      expectSatisfies(JSON.parse(text), recipesJsonSchema);
      expect(streamedText(await chunks(say("List some recipes", config)))).toBe(text);
    });
  });
}
