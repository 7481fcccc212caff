/** Tools: chosen, called, run by the SDK over several steps, and streamed. */

import { generateText, isStepCount, streamText, tool, type Tool } from "ai";
import { expect, it } from "vitest";
import { choiceSuite } from "../shared.suites.ts";
import { type City, citySchema, partsOf, tides, weather } from "../shared.ts";
import { type Stage, thinking } from "./stage.ts";

export function toolsSuite(stage: Stage): void {
  const { plain } = stage;
  it("runs them over several steps to the answer", async () => {
    const result = await generateText({
      ...plain(),
      prompt: "What is the weather in Oslo?",
      tools: { weather, tides },
      stopWhen: isStepCount(5),
    });
    expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
    const [first] = result.steps;
    expect(first?.toolCalls).toMatchObject([{ toolName: "weather", input: { city: "Oslo" } }]);
    expect(first?.toolResults).toMatchObject([{ toolName: "weather", output: "sunny in Oslo" }]);
    expect(result.text).toBe("The tool weather answered: sunny in Oslo.");
  });

  it("runs calls in parallel", async () => {
    const result = await generateText({
      ...plain(),
      prompt: "Use every tool for Oslo",
      tools: { weather, tides },
      stopWhen: isStepCount(2),
    });
    expect(result.text).toBe("The tool weather answered: sunny in Oslo. The tool tides answered: at noon.");
  });

  it("tells the model of a tool that fails", async () => {
    const broken: Tool<City, string> = tool({
      description: "Tells the weather.",
      inputSchema: citySchema,
      execute: (): string => {
        throw new Error("the station is down");
      },
    });
    const { text } = await generateText({
      ...plain(),
      prompt: "The weather?",
      tools: { broken },
      stopWhen: isStepCount(2),
    });
    expect(text).toMatch(/^The tool broken failed: .*the station is down/);
  });

  choiceSuite(stage);

  it("streams thoughts, their signature, a call in pieces, its result, and the answer to it", async () => {
    const result = streamText({
      ...plain(),
      prompt: "What is the weather in Oslo?",
      tools: { weather },
      stopWhen: isStepCount(3),
      providerOptions: thinking,
    });
    const parts = await partsOf(result.fullStream);
    const json = parts.map((part) => (part.type === "tool-input-delta" ? part.delta : "")).join("");
    expect(JSON.parse(json)).toEqual({ city: "Oslo" });
    const order = parts.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1]);
    expect(order.filter((type) => type !== "custom")).toEqual([
      "start",
      "start-step",
      "reasoning-start",
      "reasoning-delta",
      "reasoning-end",
      "tool-input-start",
      "tool-input-delta",
      "tool-input-end",
      "tool-call",
      "tool-result",
      "finish-step",
      "start-step",
      "reasoning-start",
      "reasoning-delta",
      "reasoning-end",
      "text-start",
      "text-delta",
      "text-end",
      "finish-step",
      "finish",
    ]);
    expect(await result.text).toBe("The tool weather answered: sunny in Oslo.");
  });
}
