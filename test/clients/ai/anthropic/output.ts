/** Structured output: objects of a schema, by either way that the provider asks for them. */

import { generateText, jsonSchema, Output, streamText } from "ai";
import { expect, it } from "vitest";
import type { Stage } from "./stage.ts";

export function outputSuite({ plain }: Stage): void {
  const person = jsonSchema<{ name: string; tags: string[] }>({
    type: "object",
    properties: {
      name: { type: "string" },
      tags: { type: "array", items: { type: "string", enum: ["old", "new"] }, minItems: 1 },
    },
    required: ["name", "tags"],
    additionalProperties: false,
  });
  const output = Output.object({ schema: person });

  it.each(["outputFormat", "jsonTool", "auto"] as const)("is an object of the schema (%s)", async (mode) => {
    const result = await generateText({
      ...plain(),
      prompt: "Describe a woman called Ada",
      output,
      providerOptions: { anthropic: { structuredOutputMode: mode } },
    });
    expect(result.output.name).toBe("Ada");
    expect(["old", "new"]).toEqual(expect.arrayContaining(result.output.tags));
    expect(result.output.tags).not.toEqual([]);
  });

  it.each(["outputFormat", "jsonTool"] as const)("is streamed in growing parts (%s)", async (mode) => {
    const result = streamText({
      ...plain(),
      prompt: "Describe a woman called Ada",
      output,
      providerOptions: { anthropic: { structuredOutputMode: mode } },
    });
    const partial: unknown[] = [];
    for await (const part of result.partialOutputStream) partial.push(part);
    expect(partial.at(-1)).toEqual(await result.output);
    expect(await result.output).toMatchObject({ name: "Ada" });
  });
}
