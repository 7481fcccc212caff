/** Counting tokens: the input alone, without an answer and at no charge. */

import { expect, it } from "vitest";
import { usageOf } from "../playground.ts";
import { type Stage } from "./sdk.ts";

export function countTokensSuite({ connect, playground }: Stage): void {
  it("counts the input and says nothing else", async () => {
    const { totalTokens } = await connect().models.countTokens({ model: "demo-chat", contents: "Think of me" });
    expect(Number.isSafeInteger(totalTokens)).toBe(true);
    expect(totalTokens).toBeGreaterThan(0);
  });

  it("costs nothing", async () => {
    const before = await usageOf(playground().url, "sk-metered");
    await connect({ apiKey: "sk-metered" }).models.countTokens({ model: "demo-chat", contents: "Think of me" });
    expect(await usageOf(playground().url, "sk-metered")).toEqual(before);
  });
}
