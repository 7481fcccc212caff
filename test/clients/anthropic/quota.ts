/** Quota as a caller of the SDK sees it: held while an answer runs, charged for what was used, released on abort. */

import { expect, it } from "vitest";
import { usageOf, usedUntil } from "../playground.ts";
import { errorOf, say, type Stage } from "./sdk.ts";

const KEY = "sk-metered";
const MAX_TOKENS = 5_000;

export function quotaSuite({ sdk, connect, playground }: Stage): void {
  const used = async (): Promise<number> => (await usageOf(playground().url, KEY)).total_used;
  const usedIs = (expected: (used: number) => boolean): Promise<number> => usedUntil(playground().url, KEY, expected);
  const slow = say("/delay 20 /repeat 1000", { max_tokens: MAX_TOKENS });

  it.each([false, true])("is charged what the answer's usage says (stream: %s)", async (stream) => {
    const before = await used();
    const client = connect({ apiKey: KEY });
    const message = stream
      ? await client.messages.stream(say("/repeat 20")).finalMessage()
      : await client.messages.create(say("/repeat 20"));
    const { input_tokens, output_tokens } = message.usage;
    expect(await used()).toBe(before + input_tokens + output_tokens);
  });

  it("is released when the helper's stream is aborted, and what was said is charged", async () => {
    const before = await used();
    const stream = connect({ apiKey: KEY }).messages.stream(slow);
    let words = 0;
    stream.on("text", () => {
      if (++words === 3) stream.abort();
    });
    expect(await errorOf(stream.done())).toBeInstanceOf(sdk.Anthropic.APIUserAbortError);
    const after = await usedIs((now) => now < before + MAX_TOKENS);
    expect(after).toBeGreaterThanOrEqual(before + 3);
    // Far from all of the 1000 words: the backend stopped when its caller did.
    expect(after).toBeLessThan(before + 1_000);
    for (let asked = 0; asked < 5; asked++) expect(await used()).toBe(after);
  });

  it("is released when a raw stream's reader leaves", async () => {
    const before = await used();
    const stream = await connect({ apiKey: KEY }).messages.create({ ...slow, stream: true });
    for await (const event of stream) {
      if (event.type !== "content_block_delta") continue;
      // The hold is the worst case, so it is all there while the answer runs.
      expect(await used()).toBeGreaterThanOrEqual(before + MAX_TOKENS);
      break;
    }
    const after = await usedIs((now) => now < before + MAX_TOKENS);
    expect(after).toBeGreaterThan(before);
    expect(after).toBeLessThan(before + 1_000);
  });

  it("is released when a complete answer is no longer awaited", async () => {
    const before = await used();
    const controller = new AbortController();
    const call = errorOf(connect({ apiKey: KEY }).messages.create(slow, { signal: controller.signal }));
    await usedIs((now) => now >= before + MAX_TOKENS);
    controller.abort();
    expect(await call).toBeInstanceOf(sdk.Anthropic.APIUserAbortError);
    expect(await usedIs((now) => now < before + MAX_TOKENS)).toBeLessThan(before + 1_000);
  });
}
