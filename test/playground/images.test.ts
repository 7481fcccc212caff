/** The playground's image models honour the size and the format that they are asked for, in edits and on the way too. */

import sharp from "sharp";
import { describe, expect, it } from "vitest";
import { demoModel } from "../../src/demo/backend.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { differences, headerOf, patchwork, pixelsOf, type Region } from "../clients/pixels.ts";

const gateway = createGateway({ backend: demoModel(), quotas: memoryQuotaStore([{ apiKey: "sk-demo" }]) });
const headers = { authorization: "Bearer sk-demo" };

const isCorner: Region = (x, y) => x < 20 && y < 20;

function post(path: string, body: BodyInit, type?: string): Promise<Response> {
  const init = { method: "POST", headers: { ...headers, ...(type !== undefined && { "content-type": type }) }, body };
  return gateway.fetch(new Request(`http://host/v1/images/${path}`, init));
}

async function edited(image: Buffer, fields: Readonly<Record<string, string>> = {}, mask?: Buffer): Promise<Buffer> {
  const form = new FormData();
  for (const [name, value] of Object.entries({ prompt: "A hat", response_format: "b64_json", ...fields }))
    form.append(name, value);
  form.append("image", new Blob([new Uint8Array(image)]), "a.png");
  if (mask) form.append("mask", new Blob([new Uint8Array(mask)]), "mask.png");
  const { data } = (await (await post("edits", form)).json()) as { data: { b64_json: string }[] };
  return Buffer.from(data[0]?.b64_json ?? "", "base64");
}

describe("an edit", () => {
  it.each([
    [undefined, 1024],
    ["256x256", 256],
    ["512x512", 512],
    ["1024x1024", 1024],
  ])("of size %s has it, and leaves what the mask does not mark", async (size, side) => {
    const image = await patchwork(64, 64, isCorner);
    const bytes = await edited(image, size === undefined ? {} : { size });
    expect(await headerOf(bytes)).toEqual({ format: "png", width: side, height: side });
    const grown = await sharp(image).resize({ width: side, height: side, kernel: "nearest" }).png().toBuffer();
    const scale = side / 64;
    const { inside, outside } = differences(await pixelsOf(grown), await pixelsOf(bytes), (x, y) =>
      isCorner(Math.floor(x / scale), Math.floor(y / scale)),
    );
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(0);
  });

  it.each([
    ["1536x1024", 1536, 1024],
    ["1024x1536", 1024, 1536],
    ["auto", 300, 200],
    [undefined, 300, 200],
  ])("of size %s by image-model-multi comes in it", async (size, width, height) => {
    const image = await patchwork(300, 200);
    const fields = { model: "image-model-multi", ...(size !== undefined && { size }) };
    const mask = await patchwork(300, 200, isCorner);
    expect(await headerOf(await edited(image, fields, mask))).toMatchObject({ width, height });
  });

  it("cuts off evenly what its size has no room for", async () => {
    // Three stripes of 100 pixels, of which a square in the middle shows the second, and halves of the others.
    const colors = ["#f00", "#0f0", "#00f"].map((background) => ({ width: 100, height: 200, channels: 3, background }));
    const stripes = colors.map((create, index) => ({
      input: { create: { ...create, channels: 3 as const } },
      left: 100 * index,
      top: 0,
    }));
    const blank = { width: 300, height: 200, channels: 4, background: "#000" } as const;
    const image = await sharp({ create: blank }).composite(stripes).png().toBuffer();
    const mask = await patchwork(300, 200, (x, y) => x === 0 && y === 0);
    const fields = { model: "image-model-multi", size: "1024x1024" };
    const { data, width } = await pixelsOf(await edited(image, fields, mask));
    const at = (x: number): number[] => Array.from(data.subarray(x * 4, x * 4 + 4));
    expect([at(0), at(width / 2), at(width - 1)]).toEqual([
      [255, 0, 0, 255],
      [0, 255, 0, 255],
      [0, 0, 255, 255],
    ]);
  });
});

const whole = (): Promise<Buffer> => patchwork(64, 64);

/** A picture whose head and end are whole, and whose pixels are not: a fifth of its bytes is overwritten. */
async function damaged(format: "jpeg" | "webp"): Promise<Buffer> {
  const bytes = await sharp(await whole())
    .flatten()
    .toFormat(format, { lossless: true })
    .toBuffer();
  return bytes.fill(0x55, Math.floor(bytes.length * 0.6), Math.floor(bytes.length * 0.8));
}

describe("a damaged picture is refused", () => {
  it.each([
    ["a JPEG", async () => [await damaged("jpeg")], "image"],
    ["a WEBP", async () => [await damaged("webp")], "image"],
    ["the second of two", async () => [await whole(), await damaged("jpeg")], "image.1"],
  ] as const)("%s", async (_what, pictures, param) => {
    const form = new FormData();
    for (const [name, value] of Object.entries({ prompt: "A hat", model: "image-model-multi" }))
      form.append(name, value);
    const files = await pictures();
    for (const file of files) form.append(files.length > 1 ? "image[]" : "image", new Blob([new Uint8Array(file)]));
    const response = await post("edits", form);
    expect({ status: response.status, body: await response.json() }).toMatchObject({
      status: 400,
      body: { error: { param } },
    });
  });
});

function ask(fields: object): Promise<Response> {
  const all = { prompt: "A hat", model: "gpt-image-1", partial_images: 2, ...fields };
  return post("generations", JSON.stringify(all), "application/json");
}

describe("unfinished images", () => {
  it.each(["png", "jpeg", "webp"])("come before the finished one, as %s like it", async (format) => {
    const text = await (await ask({ stream: true, output_format: format })).text();
    const events = text
      .split("\n")
      .filter((line) => line.startsWith("data: "))
      .map((line) => JSON.parse(line.slice(6)) as { type: string; b64_json: string; output_format: string });
    expect(events.map(({ type }) => type.replace("image_generation.", ""))).toEqual([
      "partial_image",
      "partial_image",
      "completed",
    ]);
    for (const event of events) {
      expect(event.output_format).toBe(format);
      expect(await headerOf(Buffer.from(event.b64_json, "base64"))).toEqual({ format, width: 1024, height: 1024 });
    }
    expect(new Set(events.map((event) => event.b64_json)).size).toBe(3);
  });

  it("are no part of a complete answer", async () => {
    expect(await (await ask({})).json()).toMatchObject({ data: [{ b64_json: expect.any(String) as string }] });
  });
});
