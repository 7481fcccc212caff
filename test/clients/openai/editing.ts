/** Edits and variations: what is changed in a picture and what is not, and every field that there is. */

import type { ImageEditParamsNonStreaming } from "openai/resources/images";
import { describe, expect, it } from "vitest";
import { differences, headerOf, patchwork, pixelsOf, type Region } from "../pixels.ts";
import { dataOf, fetched, picturesOf, type Stage } from "./sdk.ts";

/** Of the pictures that are compared with their edits pixel by pixel, and so asked for in their own size. */
const SIDE = 256;
const size = "256x256";
const prompt = "A red balloon";

/** Fields of null, spelled as the SDK asks for them in a form: as a text. */
const nulls = (...fields: readonly string[]): object => Object.fromEntries(fields.map((field) => [field, "null"]));

const isOne: Region = (x, y) => x === 77 && y === 5;
const isMiddle: Region = (x, y) => x >= 32 && x < 96 && y >= 48 && y < 80;

export function editingSuite(stage: Stage): void {
  describe("an edit", () => {
    editSuite(stage);
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

  it.each([
    ["dall-e-2", size],
    ["gpt-image-1", "auto"],
    ["gpt-image-1", null],
  ] as const)("changes only what is transparent in the mask, by %s in size %s", async (model, asked) => {
    const image = await patchwork(SIDE, SIDE);
    const mask = await patchwork(SIDE, SIDE, isMiddle);
    const files = { image: await png(image), mask: await png(mask, "mask.png") };
    const bytes = await edited({ model, ...files, ...(asked !== null && { size: asked }) });
    const { inside, outside } = differences(await pixelsOf(image), await pixelsOf(bytes), isMiddle);
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(0);
  });

  it("changes no pixel beside one that it may", async () => {
    const image = await patchwork(SIDE, SIDE);
    const mask = await png(await patchwork(SIDE, SIDE, isOne), "mask.png");
    const bytes = await edited({ image: await png(image), mask, size });
    expect(differences(await pixelsOf(image), await pixelsOf(bytes), isOne).outside).toBe(0);
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
