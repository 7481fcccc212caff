/** What the page says of the chosen key, whenever the answers come. */

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { chosenKey } from "../../playground/page/app/state/keys.ts";
import { followKey, quota } from "../../playground/page/app/state/quota.ts";

/** The questions that wait for an answer, by their key. */
const asked = new Map<string, (response: Response) => void>();

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", (_url: string, { headers }: { headers: { authorization: string } }) => {
    const { promise, resolve } = Promise.withResolvers<Response>();
    asked.set(headers.authorization, resolve);
    return promise;
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  asked.clear();
});

/** Answers how much a key has used, and lets the page read that. */
async function answer(key: string, used: number): Promise<void> {
  asked.get(`Bearer ${key}`)?.(Response.json({ data: { total_used: used } }));
  await vi.advanceTimersByTimeAsync(0);
}

it("is nothing of the key that was chosen before, whose answer comes late", async () => {
  chosenKey.value = "sk-metered";
  const unfollow = followKey();
  await vi.advanceTimersByTimeAsync(100);
  chosenKey.value = "sk-limited";
  await answer("sk-metered", 7);
  expect(quota.value).toBeUndefined();
  await vi.advanceTimersByTimeAsync(100);
  await answer("sk-limited", 3);
  expect(quota.value).toMatchObject({ used: 3 });
  unfollow();
});
