/** Pictures on their way to an edit or a variation: from memory and from a disk, one and several. */

import { createReadStream } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { differences, headerOf, patchwork, pixelsOf, type Region } from "../pixels.ts";
import { dataOf, fetched, picturesOf, type Stage } from "./sdk.ts";

const SIDE = 256;
const prompt = "A red balloon";

const isMiddle: Region = (x, y) => x >= 32 && x < 96 && y >= 48 && y < 80;

export function uploadingSuite(stage: Stage): void {
  describe("an edit", () => {
    memorySuite(stage);
  });
  describe("a file on a disk", () => {
    diskSuite(stage);
  });
}

function memorySuite({ sdk, connect }: Stage): void {
  const png = async (bytes: Uint8Array): Promise<File> => sdk.toFile(bytes, "picture.png", { type: "image/png" });

  it("changes only what is transparent in the picture", async () => {
    const image = await patchwork(SIDE, SIDE, isMiddle);
    const request = { prompt, image: await png(image), size: "256x256", response_format: "b64_json" } as const;
    const [edited] = picturesOf(await connect().images.edit(request));
    const [before, after] = [await pixelsOf(image), await pixelsOf(dataOf(edited))];
    const { inside, outside } = differences(before, after, isMiddle);
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(0);
  });

  it("of several pictures is made by gpt-image-1, with data, links and usage", async () => {
    const image = [await patchwork(SIDE, SIDE), await patchwork(90, 60), await patchwork(SIDE, SIDE)];
    const jpeg = await sharp(image[1]).jpeg().toBuffer();
    const files = [await png(image[0] ?? jpeg), await sdk.toFile(jpeg, "b.jpg"), await png(image[2] ?? jpeg)];
    const answer = await connect().images.edit({ prompt, image: files, n: 2 });
    const pictures = picturesOf(answer);
    expect(pictures).toHaveLength(2);
    for (const picture of pictures) expect(dataOf(picture).equals(await fetched(picture))).toBe(true);
    expect(answer.usage?.input_tokens_details.image_tokens).toBeGreaterThan(0);
  });
}

function diskSuite({ connect }: Stage): void {
  let folder: string;
  const pathOf = (name: string): string => join(folder, name);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "pictures-"));
    // Large enough to come in several chunks.
    await writeFile(pathOf("Bild ä.png"), await patchwork(700, 700, (x, y) => x > 100 && y > 100));
    await writeFile(pathOf("mask.png"), await patchwork(700, 700, isMiddle));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it("is streamed into an edit", async () => {
    const image = createReadStream(pathOf("Bild ä.png"));
    const mask = createReadStream(pathOf("mask.png"));
    const answer = await connect().images.edit({ prompt, image, mask, response_format: "b64_json" });
    expect(await headerOf(dataOf(picturesOf(answer)[0]))).toEqual({ format: "png", width: 1024, height: 1024 });
  });

  it("is streamed into a variation", async () => {
    const image = createReadStream(pathOf("Bild ä.png"));
    const answer = await connect().images.createVariation({ image });
    expect(picturesOf(answer)).toEqual([{ url: expect.any(String) }]);
  });

  it("is streamed among several", async () => {
    const image = ["Bild ä.png", "mask.png"].map((name) => createReadStream(pathOf(name)));
    const answer = await connect().images.edit({ prompt, image, model: "gpt-image-1" });
    expect(picturesOf(answer)).toHaveLength(1);
  });
}
