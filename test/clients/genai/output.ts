/** Structured output: JSON of a schema, and one of some values. */

import { type GenerateContentConfig, type Schema, Type } from "@google/genai";
import { describe, expect, it } from "vitest";
import { expectSatisfies } from "./schemas.ts";
import { errorOf, say, type Stage, streamedText, textOf, wireError } from "./sdk.ts";

const JSON_TYPE = { responseMimeType: "application/json" };
const ENUM_TYPE = { responseMimeType: "text/x.enum" };

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

export function outputSuite({ sdk, ask, chunks }: Stage): void {
  describe("JSON", () => {
    it.each<[string, GenerateContentConfig]>([
      ["a schema", { ...JSON_TYPE, responseSchema: recipes }],
      ["a JSON schema", { ...JSON_TYPE, responseJsonSchema: recipesJsonSchema }],
    ])("satisfies %s, complete and streamed", async (_what, config) => {
      const text = textOf(await ask(say("List some recipes", config)));
      expectSatisfies(JSON.parse(text), recipesJsonSchema);
      expect(streamedText(await chunks(say("List some recipes", config)))).toBe(text);
    });

    it("has its properties in the order that was asked for", async () => {
      const [recipe] = JSON.parse(
        textOf(await ask(say("List some", { ...JSON_TYPE, responseSchema: recipes }))),
      ) as object[];
      expect(Object.keys(recipe ?? {})).toEqual(["course", "name", "steps", "minutes", "rating"]);
    });

    it("speaks of what the message is about", async () => {
      const responseSchema: Schema = {
        type: Type.OBJECT,
        properties: { city: { type: Type.STRING } },
        required: ["city"],
      };
      const response = await ask(say("Tell me about Oslo", { ...JSON_TYPE, responseSchema }));
      expect(response.text).toBe('{"city":"Oslo"}');
    });

    it("is any JSON where no schema is given", async () => {
      expect(JSON.parse(textOf(await ask(say("Hello", JSON_TYPE))))).toEqual({ answer: "You said: Hello" });
    });

    it("is cut at its limit", async () => {
      const config = { ...JSON_TYPE, responseSchema: recipes };
      const whole = textOf(await ask(say("List some", config)));
      const cut = await ask(say("List some", { ...config, maxOutputTokens: 3 }));
      expect(cut.candidates?.[0]?.finishReason).toBe("MAX_TOKENS");
      expect(cut.usageMetadata?.candidatesTokenCount).toBe(3);
      expect(textOf(cut)).not.toBe(whole);
      expect(whole.startsWith(textOf(cut))).toBe(true);
    });

    it("ends at a stop sequence", async () => {
      const config = { ...JSON_TYPE, responseSchema: recipes, stopSequences: ['"name"'] };
      const text = textOf(await ask(say("List some", config)));
      expect(text).toMatch(/^\[\{"course":"(?:starter|main)",$/);
    });

    it("is different for each candidate", async () => {
      const responseSchema: Schema = {
        type: Type.OBJECT,
        properties: { city: { type: Type.STRING } },
        required: ["city"],
      };
      const response = await ask(say("About Oslo", { ...JSON_TYPE, responseSchema, candidateCount: 2 }));
      expect([textOf(response, 0), textOf(response, 1)]).toEqual(['{"city":"Oslo"}', '{"city":"Oslo Second"}']);
    });

    it("of a schema can be made after a function was called", async () => {
      const config = {
        ...JSON_TYPE,
        responseJsonSchema: { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] },
      };
      const contents = [
        { role: "model", parts: [{ functionCall: { name: "look", args: {} } }] },
        { role: "user", parts: [{ functionResponse: { name: "look", response: { found: 1 } } }] },
      ];
      const tools = [{ functionDeclarations: [{ name: "look" }] }];
      expect(typeof (JSON.parse(textOf(await ask(say(contents, { ...config, tools })))) as { ok: boolean }).ok).toBe(
        "boolean",
      );
    });
  });

  describe("one of some values", () => {
    const responseSchema: Schema = { type: Type.STRING, enum: ["Percussion", "String", "Woodwind"] };

    it.each([
      ["the one that the message speaks of", "Is a cello a string instrument?", "String"],
      ["the first where it speaks of none", "What is a cello?", "Percussion"],
      ["none that only stands inside of a word", "Is a cello stringy?", "Percussion"],
    ])("is %s", async (_what, message, value) => {
      expect(textOf(await ask(say(message, { ...ENUM_TYPE, responseSchema })))).toBe(value);
      expect(streamedText(await chunks(say(message, { ...ENUM_TYPE, responseSchema })))).toBe(value);
    });

    it("is another for each candidate", async () => {
      const response = await ask(say("A string?", { ...ENUM_TYPE, responseSchema, candidateCount: 3 }));
      expect([0, 1, 2].map((candidate) => textOf(response, candidate))).toEqual(["String", "Woodwind", "Percussion"]);
    });

    it("is cut at its limit and at a stop sequence", async () => {
      const cut = await ask(say("Hello", { ...ENUM_TYPE, responseSchema, maxOutputTokens: 1 }));
      expect(textOf(cut)).toBe("Percussi");
      expect(cut.candidates?.[0]?.finishReason).toBe("MAX_TOKENS");
      const stopped = await ask(say("Hello", { ...ENUM_TYPE, responseSchema, stopSequences: ["cuss"] }));
      expect(textOf(stopped)).toBe("Per");
    });
  });

  it.each<[string, GenerateContentConfig, readonly string[]]>([
    ["a schema without its type", { responseSchema: recipes }, ["responseSchema", "responseMimeType"]],
    [
      "both kinds of schema",
      { ...JSON_TYPE, responseSchema: recipes, responseJsonSchema: {} },
      ["responseSchema", "responseJsonSchema"],
    ],
    ["values without a schema", ENUM_TYPE, ["responseSchema"]],
    ["values of no string", { ...ENUM_TYPE, responseSchema: { type: Type.INTEGER } }, ["responseSchema"]],
    ["a type of no kind", { responseMimeType: "text/html" }, ["responseMimeType"]],
    ["probabilities that are not asked for", { logprobs: 2 }, ["logprobs", "responseLogprobs"]],
    ["too many stop sequences", { stopSequences: ["a", "b", "c", "d", "e", "f"] }, ["stopSequences"]],
    ["a temperature too warm", { temperature: 2.1 }, ["temperature"]],
  ])("refuses %s, and names the fields", async (_what, config, named) => {
    const error = await errorOf(ask(say("Hello", config)));
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(wireError(error)).toMatchObject({ code: 400, status: "INVALID_ARGUMENT" });
    for (const name of named) expect(wireError(error).message).toContain(name);
  });
}
