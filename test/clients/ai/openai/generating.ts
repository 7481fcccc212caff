/** `generateImage` from words. */

import { generateImage } from "ai";
import { expect, it } from "vitest";
import { headerOf } from "../../pixels.ts";
import type { Stage } from "./stage.ts";

const prompt = "A lighthouse in the rain";

export function generatingSuite({ plain }: Stage): void {
  it.each([
    ["dall-e-2", "256x256"],
    ["image-model-2", "512x512"],
    ["dall-e-3", "1024x1792"],
    ["image-model-3", "1024x1024"],
    ["gpt-image-1", "1536x1024"],
    ["image-model-multi", "1024x1024"],
  ] as const)("draws by %s", async (id, size) => {
    const { image, images, warnings } = await generateImage({ ...plain(id), prompt, size });
    const { format, width, height } = await headerOf(image.uint8Array);
    expect([format, `${width}x${height}`, image.mediaType]).toEqual(["png", size, "image/png"]);
    expect(images).toHaveLength(1);
    expect(warnings).toEqual([]);
  });

  it.each(["dall-e-2", "gpt-image-1"])("draws several at once by %s", async (id) => {
    const { images } = await generateImage({ ...plain(id), prompt, n: 3 });
    expect(new Set(images.map(({ base64 }) => base64)).size).toBe(3);
  });

  it("draws more than one call may, by several calls", async () => {
    const { images, responses } = await generateImage({ ...plain("dall-e-3"), prompt, n: 2 });
    expect(images).toHaveLength(2);
    expect(responses).toHaveLength(2);
  });

  it("tells what it took", async () => {
    const { usage } = await generateImage({ ...plain(), prompt });
    expect(usage.totalTokens).toBe((usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
    expect(usage.outputTokens).toBeGreaterThan(0);
  });

  it("hands on what only this provider knows", async () => {
    const openai = { quality: "low", background: "opaque", outputFormat: "webp", outputCompression: 50, user: "me" };
    const { image } = await generateImage({ ...plain(), prompt, providerOptions: { openai } });
    expect([(await headerOf(image.uint8Array)).format, image.mediaType]).toEqual(["webp", "image/webp"]);
    const styled = { ...plain("dall-e-3"), prompt, providerOptions: { openai: { style: "natural", quality: "hd" } } };
    expect((await generateImage(styled)).images).toHaveLength(1);
  });
}
