/** Quota as a caller of the SDK sees it: held while an answer runs, charged for what was used, released on abort. */

import { expect, it } from "vitest";
import { usageOf, usedUntil } from "../playground.ts";
import { all, errorOf, say, type Stage, streamedText } from "./sdk.ts";

const KEY = "sk-metered";
const MAX_TOKENS = 5_000;

const slow = (abortSignal: AbortSignal) => say("/delay 20 /repeat 1000", { maxOutputTokens: MAX_TOKENS, abortSignal });

export function quotaSuite({ connect, playground }: Stage): void {
  const used = async (): Promise<number> => (await usageOf(playground().url, KEY)).total_used;
  const usedIs = (expected: (used: number) => boolean): Promise<number> => usedUntil(playground().url, KEY, expected);

  it.each([false, true])("is charged what the answer's usage says (stream: %s)", async (stream) => {
    const before = await used();
    const { models } = connect({ apiKey: KEY });
    const asked = say("/repeat 20", { thinkingConfig: { thinkingBudget: 100 } });
    const last = stream
      ? (await all(await models.generateContentStream(asked))).at(-1)
      : await models.generateContent(asked);
    expect(last?.usageMetadata?.totalTokenCount).toBeGreaterThan(20);
    expect(await used()).toBe(before + (last?.usageMetadata?.totalTokenCount ?? 0));
  });

  it("is released when a stream is aborted, and what was said is charged", async () => {
    const before = await used();
    const controller = new AbortController();
    const said: string[] = [];
    let during = 0;
    const read = async (): Promise<void> => {
      const stream = await connect({ apiKey: KEY }).models.generateContentStream(slow(controller.signal));
      for await (const chunk of stream) {
        said.push(streamedText([chunk]));
        if (said.length === 1) during = await used();
        if (said.length === 3) controller.abort();
      }
    };
    expect(await errorOf(read())).toMatchObject({ name: "AbortError" });
    // The hold is the worst case, so it is all there while the answer runs.
    expect(during).toBeGreaterThanOrEqual(before + MAX_TOKENS);
    const after = await usedIs((now) => now < before + MAX_TOKENS);
    expect(after).toBeGreaterThanOrEqual(before + 3);
    // Far from all of the 1000 words: the backend stopped when its caller did.
    expect(after).toBeLessThan(before + 1_000);
    for (let asked = 0; asked < 5; asked++) expect(await used()).toBe(after);
  });

  it("is released when a complete answer is no longer awaited", async () => {
    const before = await used();
    const controller = new AbortController();
    const call = errorOf(connect({ apiKey: KEY }).models.generateContent(slow(controller.signal)));
    await usedIs((now) => now >= before + MAX_TOKENS);
    controller.abort();
    expect(await call).toMatchObject({ name: "AbortError" });
    expect(await usedIs((now) => now < before + MAX_TOKENS)).toBeLessThan(before + 1_000);
  });
}
