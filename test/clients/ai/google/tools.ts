/** Tools: chosen, called, run by the SDK over several steps, and streamed; and code that the model runs. */

import { google } from "@ai-sdk/google";
import { generateText, isStepCount, streamText } from "ai";
import { beforeAll, describe, expect, it } from "vitest";
import { choiceSuite, runningSuite } from "../shared.suites.ts";
import { partsOf, weather } from "../shared.ts";
import { type Stage, thinking } from "./stage.ts";

/** How long a run of code may take: Python is loaded for it. */
const RUN_MS = 300_000;

export function toolsSuite(stage: Stage): void {
  const { plain, asGemini } = stage;
  describe.each([
    ["as it is", plain],
    ["as a model that the provider knows", asGemini],
  ])("%s", (_as, plain) => {
    runningSuite({ ...stage, plain });
  });
  choiceSuite(stage);

  it("streams thoughts, a call with their signature, its result, and the answer to it", async () => {
    const result = streamText({
      ...plain(),
      prompt: "What is the weather in Oslo?",
      tools: { weather },
      stopWhen: isStepCount(3),
      providerOptions: thinking,
    });
    const parts = await partsOf(result.fullStream);
    const call = parts.find((part) => part.type === "tool-call");
    expect(call).toMatchObject({
      toolName: "weather",
      input: { city: "Oslo" },
      providerMetadata: { google: { thoughtSignature: expect.stringMatching(/^[\w+/]+=*$/) as unknown } },
    });
    // A signature that comes after its thoughts is a block of its own to this provider.
    const kinds = parts.map(({ type }) => type.replace(/^(reasoning|tool-input)-.*/, "$1"));
    const order = kinds.filter((kind) => kind !== "custom" && kind !== "tool-input");
    expect(order.filter((kind, index) => kind !== order[index - 1])).toEqual([
      "start",
      "start-step",
      "reasoning",
      "tool-call",
      "tool-result",
      "finish-step",
      "start-step",
      "reasoning",
      "text-start",
      "text-delta",
      "text-end",
      "finish-step",
      "finish",
    ]);
    expect(await result.text).toMatch(/^The tool weather answered: .*sunny in Oslo/);
  });
}

export function codeSuite({ asGemini }: Stage): void {
  const tools = { code_execution: google.tools.codeExecution({}) };
  const asked = { prompt: "What is 6 * 7?", tools };
  const complete = () => generateText({ ...asGemini(), ...asked });
  let result: Awaited<ReturnType<typeof complete>>;
  // A run takes seconds, so that it is looked at by several tests.
  beforeAll(async () => {
    result = await complete();
  });

  it("is run on the model's side", () => {
    expect(result.text).toBe("Let me run that.The code printed: 42.");
    expect(result.toolCalls).toMatchObject([
      { toolName: "code_execution", providerExecuted: true, input: { language: "PYTHON", code: "print(6 * 7)\n" } },
    ]);
    expect(result.toolResults).toMatchObject([{ output: { outcome: "OUTCOME_OK", output: "42\n" } }]);
    expect(result.finishReason).toBe("stop");
  });

  it("is streamed between texts", { timeout: RUN_MS }, async () => {
    const parts = await partsOf(streamText({ ...asGemini(), ...asked }).fullStream);
    const kinds = parts.map(({ type }) => type).filter((type) => /^(?:text-delta|tool-call|tool-result)$/.test(type));
    expect(kinds.filter((type, index) => type !== kinds[index - 1])).toEqual([
      "text-delta",
      "tool-call",
      "tool-result",
      "text-delta",
    ]);
  });

  it("goes back up with the next turn", async () => {
    const again = { role: "user" as const, content: "And again" };
    const messages = [{ role: "user" as const, content: asked.prompt }, ...result.response.messages, again];
    const { text, usage } = await generateText({ ...asGemini(), messages, tools });
    expect(text).toBe("You said: And again");
    expect(usage.inputTokens).toBeGreaterThan(result.usage.inputTokens ?? 0);
  });
}
