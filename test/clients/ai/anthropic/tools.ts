/** Tools: chosen, called, run by the SDK over several steps, and streamed. */

import { isStepCount, streamText } from "ai";
import { expect, it } from "vitest";
import { choiceSuite, runningSuite } from "../shared.suites.ts";
import { partsOf, weather } from "../shared.ts";
import { type Stage, thinking } from "./stage.ts";

export function toolsSuite(stage: Stage): void {
  const { plain } = stage;
  runningSuite(stage);
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
