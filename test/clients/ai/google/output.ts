/** Structured output: objects of a schema, lists of them, and choices. */

import { generateText, jsonSchema, Output, streamText } from "ai";
import { expect, it } from "vitest";
import { weather } from "../shared.ts";
import type { Stage } from "./stage.ts";

const person = jsonSchema<{ name: string; tags: string[]; born: number | null }>({
  type: "object",
  properties: {
    name: { type: "string" },
    tags: { type: "array", items: { type: "string", enum: ["old", "new"] }, minItems: 1 },
    born: { type: ["integer", "null"] },
  },
  required: ["name", "tags", "born"],
  additionalProperties: false,
});

export function outputSuite({ plain }: Stage): void {
  it("is an object of the schema", async () => {
    const { output } = await generateText({
      ...plain(),
      prompt: "Describe a woman called Ada",
      output: Output.object({ schema: person }),
    });
    expect(output.name).toBe("Ada");
    expect(["old", "new"]).toEqual(expect.arrayContaining(output.tags));
    expect(output.tags).not.toEqual([]);
  });

  it("is streamed in growing parts", async () => {
    const result = streamText({
      ...plain(),
      prompt: "Describe a woman called Ada",
      output: Output.object({ schema: person }),
    });
    const partial: unknown[] = [];
    for await (const part of result.partialOutputStream) partial.push(part);
    expect(partial.length).toBeGreaterThan(1);
    expect(partial.at(-1)).toEqual(await result.output);
    expect(await result.output).toMatchObject({ name: "Ada" });
  });

  it("may be asked for beside tools", async () => {
    const { toolCalls } = await generateText({
      ...plain(),
      prompt: "The weather in Oslo?",
      tools: { weather },
      output: Output.object({ schema: person }),
    });
    expect(toolCalls).toMatchObject([{ toolName: "weather" }]);
  });
}
