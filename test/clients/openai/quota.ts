/** What pictures cost a key, as the key itself is told. */

import { expect, it } from "vitest";
import { usageOf } from "../playground.ts";
import type { Stage } from "./sdk.ts";

const prompt = "A lighthouse in the rain";

export function quotaSuite({ connect, playground }: Stage): void {
  const used = async (): Promise<number> => (await usageOf(playground().url, "sk-metered")).total_used;

  it("is charged for each picture that came, and for nothing else", async () => {
    const client = connect({ apiKey: "sk-metered" });
    const before = await used();
    await client.images.generate({ prompt, size: "256x256" });
    const one = (await used()) - before;
    expect(one).toBeGreaterThan(0);
    await client.images.generate({ prompt, size: "256x256", n: 3 });
    expect(await used()).toBe(before + 4 * one);
    await client.images.generate({ prompt, size: "256x256", n: 0 }).catch(() => {});
    expect(await used()).toBe(before + 4 * one);
    const types: string[] = [];
    const stream = await client.images.generate({ prompt, size: "256x256", n: 2, stream: true });
    for await (const { type } of stream) types.push(type);
    expect(types).toHaveLength(2);
    expect(await used()).toBe(before + 6 * one);
  });
}
