/** Pictures from words: as links, as data, in every size and number. */

import { expect, it } from "vitest";
import { headerOf } from "../pixels.ts";
import { dataOf, fetched, picturesOf, type Stage } from "./sdk.ts";

const prompt = "A lighthouse in the rain";

export function generatingSuite({ connect, playground }: Stage): void {
  it("answers with a link that can be fetched, where nothing is said", async () => {
    const before = Math.floor(Date.now() / 1000);
    const answer = await connect().images.generate({ prompt });
    expect(answer.created).toBeGreaterThanOrEqual(before);
    expect(answer.usage).toBeUndefined();
    const [picture, ...others] = picturesOf(answer);
    expect(others).toEqual([]);
    expect(picture?.b64_json).toBeUndefined();
    expect(picture?.url).toMatch(new RegExp(`^${playground().url}/v1/images/files/[\\w-]+$`));
    expect(await headerOf(await fetched(picture))).toEqual({ format: "png", width: 1024, height: 1024 });
  });

  it("answers with data where that is asked for", async () => {
    const answer = await connect().images.generate({ prompt, response_format: "b64_json", size: "256x256" });
    const [picture] = picturesOf(answer);
    expect(picture?.url).toBeUndefined();
    expect(await headerOf(dataOf(picture))).toEqual({ format: "png", width: 256, height: 256 });
  });

  it("answers with both of the same picture, and with usage, by gpt-image-1", async () => {
    const answer = await connect().images.generate({ prompt, model: "gpt-image-1", quality: "low" });
    const [picture] = picturesOf(answer);
    expect(dataOf(picture).equals(await fetched(picture))).toBe(true);
    const { usage } = answer;
    expect(usage?.input_tokens_details).toEqual({ text_tokens: expect.any(Number), image_tokens: 0 });
    expect(usage?.total_tokens).toBe((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0));
    expect(usage?.output_tokens).toBeGreaterThan(0);
  });

  it.each(["png", "jpeg", "webp"] as const)("has the format that is asked for: %s", async (output_format) => {
    const answer = await connect().images.generate({ prompt, model: "gpt-image-1", output_format });
    const [picture] = picturesOf(answer);
    expect((await headerOf(dataOf(picture))).format).toBe(output_format);
    expect((await fetch(picture?.url ?? "")).headers.get("content-type")).toBe(`image/${output_format}`);
  });
}
