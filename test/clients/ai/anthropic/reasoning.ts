/** Reasoning: given with its signature, and taken back. */

import { generateText } from "ai";
import { expect, it } from "vitest";
import { takenBackSuite } from "../shared.suites.ts";
import { type Stage, thinking } from "./stage.ts";

export function reasoningSuite(stage: Stage): void {
  const { plain } = stage;
  it("is given with its signature", async () => {
    const result = await generateText({ ...plain(), prompt: "Think of me", providerOptions: thinking });
    expect(result.reasoningText).toBe("The user wrote 3 words. I will tell them back what arrived.");
    expect(result.text).toBe("You said: Think of me");
    const [thought] = result.content;
    expect(thought).toMatchObject({
      type: "reasoning",
      providerMetadata: { anthropic: { signature: expect.stringMatching(/^[\w+/]+=*$/) as unknown } },
    });
  });

  takenBackSuite(stage, thinking);
}
