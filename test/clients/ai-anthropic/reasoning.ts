/** Reasoning: given with its signature, and taken back. */

import { generateText } from "ai";
import { expect, it } from "vitest";
import { type Stage, thinking } from "./stage.ts";

export function reasoningSuite({ plain }: Stage): void {
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

  it("is taken back in the next turn", async () => {
    const asked = { role: "user" as const, content: "Think of me" };
    const first = await generateText({ ...plain(), messages: [asked], providerOptions: thinking });
    const again = { role: "user" as const, content: "And again" };
    const turns = [asked, ...first.response.messages, again];
    const second = await generateText({ ...plain(), messages: turns, providerOptions: thinking });
    const answer = { role: "assistant" as const, content: first.text };
    const without = await generateText({ ...plain(), messages: [asked, answer, again], providerOptions: thinking });
    expect(second.text).toBe("You said: And again");
    expect(second.usage.inputTokens ?? 0).toBeGreaterThan(without.usage.inputTokens ?? 0);
  });
}
