/** Reasoning: given, signed, counted, and taken back. */

import { generateText } from "ai";
import { expect, it } from "vitest";
import { takenBackSuite } from "../shared.suites.ts";
import { type Stage, thinking } from "./stage.ts";

export function reasoningSuite(stage: Stage): void {
  const { plain, asGemini } = stage;
  it("is given where it is asked for", async () => {
    const result = await generateText({ ...plain(), prompt: "Think of me", providerOptions: thinking });
    expect(result.reasoningText).toBe("The user wrote 3 words. I will tell them back what arrived.");
    expect(result.text).toBe("You said: Think of me");
    expect(result.usage.outputTokens).toBe(12 + 5);
    expect(result.usage.outputTokenDetails).toMatchObject({ reasoningTokens: 12, textTokens: 5 });
  });

  it.each(["low", "high"] as const)("is asked for by the SDK's own setting (%s)", async (reasoning) => {
    for (const call of [plain(), asGemini()]) {
      const result = await generateText({ ...call, prompt: "Think of me", reasoning });
      expect(result.text).toBe("You said: Think of me");
      expect(result.usage.outputTokenDetails.reasoningTokens).toBe(12);
    }
  });

  takenBackSuite(stage, thinking);
}
