/** Thoughts: shown where that is asked for, counted either way, and taken back. */

import { expect, it } from "vitest";
import { partsOf, say, type Stage, streamedText, textOf } from "./sdk.ts";

const THOUGHTS = "The user wrote 3 words. I will tell them back what arrived.";

export function thinkingSuite({ ask, chunks }: Stage): void {
  it("puts thoughts before the answer where they are asked for", async () => {
    const response = await ask(say("Think of me", { thinkingConfig: { includeThoughts: true } }));
    const [thought, answer] = partsOf(response);
    expect(thought).toMatchObject({ text: THOUGHTS, thought: true });
    expect(answer?.thought ?? false).toBe(false);
    expect(response.text).toBe("You said: Think of me");
    expect(response.usageMetadata).toMatchObject({
      promptTokenCount: 3,
      thoughtsTokenCount: 12,
      candidatesTokenCount: 5,
      totalTokenCount: 3 + 12 + 5,
    });
  });

  it("streams them, marked as thoughts", async () => {
    const streamed = await chunks(say("Think of me", { thinkingConfig: { includeThoughts: true } }));
    const thoughts = streamed.flatMap((chunk) => partsOf(chunk)).filter(({ thought }) => thought);
    expect(thoughts.length).toBeGreaterThan(1);
    expect(thoughts.map(({ text }) => text ?? "").join("")).toBe(THOUGHTS);
    expect(streamedText(streamed)).toBe("You said: Think of me");
    expect(streamed.at(-1)?.usageMetadata?.thoughtsTokenCount).toBe(12);
  });

  it.each([{ thinkingBudget: 500 }, { thinkingBudget: -1 }, { includeThoughts: false, thinkingBudget: 500 }])(
    "counts them where they are not shown: %o",
    async (thinkingConfig) => {
      const response = await ask(say("Think of me", { thinkingConfig }));
      expect(partsOf(response).filter(({ thought }) => thought)).toEqual([]);
      expect(textOf(response)).toBe("You said: Think of me");
      expect(response.usageMetadata?.thoughtsTokenCount).toBe(12);
    },
  );

  it("takes thoughts and their signature back in the next turn", async () => {
    const config = { thinkingConfig: { includeThoughts: true } };
    const asked = { role: "user", parts: [{ text: "Think of me" }] };
    const first = await ask(say([asked], config));
    const turn = first.candidates?.[0]?.content ?? {};
    expect(partsOf(first).some(({ thoughtSignature }) => thoughtSignature)).toBe(true);
    const again = { role: "user", parts: [{ text: "And again" }] };
    const second = await ask(say([asked, turn, again], config));
    expect(textOf(second)).toBe("You said: And again");
    const text = { role: "model", parts: [{ text: textOf(first) }] };
    const without = await ask(say([asked, text, again], config));
    expect(second.usageMetadata?.promptTokenCount).toBeGreaterThan(without.usageMetadata?.promptTokenCount ?? 0);
  });
}
