/** Edits and variations of pictures that are sent: in memory, from a disk, one, several, with a mask. */

import { createReadStream } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ImageEditParamsNonStreaming } from "openai/resources/images";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { differences, headerOf, patchwork, pixelsOf, type Region } from "../pixels.ts";
import { dataOf, fetched, picturesOf, type Stage } from "./sdk.ts";

const SIDE = 128;
const prompt = "A red balloon";

/** Fields of null, spelled as the SDK asks for them in a form: as a text. */
const nulls = (...fields: readonly string[]): object => Object.fromEntries(fields.map((field) => [field, "null"]));

const isOne: Region = (x, y) => x === 77 && y === 5;
const isMiddle: Region = (x, y) => x >= 32 && x < 96 && y >= 48 && y < 80;

export function editingSuite(stage: Stage): void {
  describe("an edit", () => {
    editSuite(stage);
  });
  describe("a file on a disk", () => {
    diskSuite(stage);
  });
  describe("a variation", () => {
    variationSuite(stage);
  });
}

function editSuite({ sdk, connect }: Stage): void {
  const png = async (bytes: Uint8Array, name = "picture.png"): Promise<File> =>
    sdk.toFile(bytes, name, { type: "image/png" });

  async function edited(request: Omit<ImageEditParamsNonStreaming, "prompt">): Promise<Buffer> {
    const answer = await connect().images.edit({ prompt, response_format: "b64_json", ...request });
    return dataOf(picturesOf(answer)[0]);
  }

  it("of one picture answers with a link, where nothing is said", async () => {
    const answer = await connect().images.edit({ prompt, image: await png(await patchwork(SIDE, SIDE, isMiddle)) });
    expect(answer.usage).toBeUndefined();
    expect(picturesOf(answer)).toEqual([{ url: expect.any(String) }]);
    expect((await headerOf(await fetched(picturesOf(answer)[0]))).format).toBe("png");
  });

  it("changes only what is transparent in the picture", async () => {
    const image = await patchwork(SIDE, SIDE, isMiddle);
    const [before, after] = [await pixelsOf(image), await pixelsOf(await edited({ image: await png(image) }))];
    const { inside, outside } = differences(before, after, isMiddle);
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(0);
  });

  it.each(["dall-e-2", "gpt-image-1"])("changes only what is transparent in the mask, by %s", async (model) => {
    const image = await patchwork(SIDE, SIDE);
    const mask = await patchwork(SIDE, SIDE, isMiddle);
    const bytes = await edited({ model, image: await png(image), mask: await png(mask, "mask.png") });
    const { inside, outside } = differences(await pixelsOf(image), await pixelsOf(bytes), isMiddle);
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(0);
  });

  it("changes no pixel beside one that it may", async () => {
    const image = await patchwork(SIDE, SIDE);
    const mask = await png(await patchwork(SIDE, SIDE, isOne), "mask.png");
    const bytes = await edited({ image: await png(image), mask });
    expect(differences(await pixelsOf(image), await pixelsOf(bytes), isOne).outside).toBe(0);
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

  it("of an array of one picture is an edit of one", async () => {
    const image = [await png(await patchwork(SIDE, SIDE, isMiddle))];
    const answer = await connect().images.edit({ prompt, image });
    expect(picturesOf(answer)).toEqual([{ url: expect.any(String) }]);
  });

  it("takes every field that the SDK has, and null for what is not said", async () => {
    const image = await png(await patchwork(SIDE, SIDE, isMiddle));
    const nothing = nulls("n", "size", "quality", "response_format", "background");
    expect(picturesOf(await connect().images.edit({ prompt, image, ...nothing }))).toHaveLength(1);
    const answer = await connect().images.edit({
      prompt,
      image,
      model: "gpt-image-1",
      n: 2,
      size: "1536x1024",
      quality: "low",
      background: "opaque",
      output_format: "webp",
      output_compression: 60,
      input_fidelity: "high",
      user: "null",
    });
    const [first, second] = picturesOf(answer);
    expect(await headerOf(dataOf(first))).toEqual({ format: "webp", width: 1536, height: 1024 });
    expect(second).toBeDefined();
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
    expect(await headerOf(dataOf(picturesOf(answer)[0]))).toEqual({ format: "png", width: 700, height: 700 });
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

function variationSuite({ sdk, connect }: Stage): void {
  it("is not the picture that was sent, and not the one before", async () => {
    const bytes = await patchwork(SIDE, SIDE);
    const image = await sdk.toFile(bytes, "picture.png", { type: "image/png" });
    const request = { image, n: 2, size: "256x256", response_format: "b64_json" } as const;
    const pictures = picturesOf(await connect().images.createVariation(request)).map(dataOf);
    for (const picture of pictures) expect(await headerOf(picture)).toMatchObject({ width: 256, height: 256 });
    const all = [bytes, ...pictures].map((picture) => picture.toString("base64"));
    expect(new Set(all).size).toBe(3);
  });

  it("takes null for what is not said", async () => {
    const image = await sdk.toFile(await patchwork(SIDE, SIDE), "picture.png");
    const nothing = nulls("model", "n", "size", "response_format");
    const answer = await connect().images.createVariation({ image, ...nothing });
    expect((await headerOf(await fetched(picturesOf(answer)[0]))).format).toBe("png");
  });
}
