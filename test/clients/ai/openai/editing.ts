/** `generateImage` from pictures: one, several, with a mask. */

import { generateImage } from "ai";
import sharp from "sharp";
import { expect, it } from "vitest";
import { differences, headerOf, patchwork, pixelsOf, type Region } from "../../pixels.ts";
import type { Stage } from "./stage.ts";

const SIDE = 96;
const text = "A red balloon";
const isMiddle: Region = (x, y) => x >= 24 && x < 72 && y >= 24 && y < 72;

export function editingSuite({ plain }: Stage): void {
  it("edits one picture where its mask is transparent, and nowhere else", async () => {
    const [image, mask] = [await patchwork(SIDE, SIDE), await patchwork(SIDE, SIDE, isMiddle)];
    const { image: edited } = await generateImage({ ...plain(), prompt: { text, images: [image], mask } });
    const { inside, outside } = differences(await pixelsOf(image), await pixelsOf(edited.uint8Array), isMiddle);
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(0);
  });

  it("edits one picture where it is transparent itself", async () => {
    const image = await patchwork(SIDE, SIDE, isMiddle);
    const { image: edited } = await generateImage({ ...plain(), prompt: { text, images: [image] } });
    const { inside, outside } = differences(await pixelsOf(image), await pixelsOf(edited.uint8Array), isMiddle);
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(0);
  });

  it("makes pictures of several, of any format, and tells what they took", async () => {
    const first = await patchwork(SIDE, SIDE);
    const jpeg = await sharp(await patchwork(80, 50))
      .jpeg()
      .toBuffer();
    const images = [first, jpeg, first.toString("base64")];
    const options = { quality: "low", inputFidelity: "high", outputFormat: "jpeg" };
    const { images: edited, usage } = await generateImage({
      ...plain(),
      prompt: { text, images },
      n: 2,
      size: "1024x1024",
      providerOptions: { openai: options },
    });
    expect(edited).toHaveLength(2);
    for (const { uint8Array } of edited)
      expect(await headerOf(uint8Array)).toEqual({ format: "jpeg", width: 1024, height: 1024 });
    expect(usage.inputTokens).toBeGreaterThan(0);
  });
}
