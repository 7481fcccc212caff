/** The demo draws what it is asked for: always the same, legibly, and in an edit only where it may. */

import { decode } from "fast-png";
import sharp from "sharp";
import { describe, expect, it } from "vitest";
import { draw, type Drawing, edit, unfinished, vary } from "../../src/demo/drawing.ts";
import { lettering, sceneOf } from "../../src/demo/scene.ts";
import { probeImage } from "../../src/media/picture.ts";

const SIDE = 64;
const SIZE = { width: SIDE, height: SIDE };
const RAW = { ...SIZE, channels: 4 } as const;

const asked = (changes: Partial<Drawing> = {}): Drawing => ({
  prompt: "A red bicycle",
  index: 0,
  size: "256x256",
  ...changes,
});

const factsOf = (image: Uint8Array) => probeImage(image, { maxPixels: 10_000_000 });

/** Red, green, blue and alpha of every pixel, by another decoder than the one that drew. */
async function pixelsOf(png: Uint8Array): Promise<Uint8Array> {
  const { data, channels, depth } = decode(png);
  expect({ channels, depth }).toEqual({ channels: 4, depth: 8 });
  return new Uint8Array(data);
}

/** The share of pixels in which two images differ. */
async function difference(one: Uint8Array, other: Uint8Array): Promise<number> {
  const [a, b] = await Promise.all([one, other].map((image) => sharp(image).ensureAlpha().raw().toBuffer()));
  if (!a || !b || a.length !== b.length) return 1;
  let different = 0;
  for (let at = 0; at < a.length; at += 4) if (a.compare(b, at, at + 4, at, at + 4) !== 0) different++;
  return different / (a.length / 4);
}

/** Numbers that look random and never change. */
function noise(length: number, seed: number): Uint8Array {
  let state = seed;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 24;
  });
}

/** Pixels of any colour; those in the middle, and some of the others, are fully transparent, a few nearly. */
function holedPixels(seed: number): Uint8Array {
  const pixels = noise(SIDE * SIDE * 4, seed);
  for (let y = 0; y < SIDE; y++)
    for (let x = 0; x < SIDE; x++) {
      const alpha = (y * SIDE + x) * 4 + 3;
      const inMiddle = x >= 16 && x < 48 && y >= 16 && y < 48;
      if (inMiddle || x === y) pixels[alpha] = 0;
      else if (pixels[alpha] === 0) pixels[alpha] = 1;
    }
  return pixels;
}

const pngOf = (pixels: Uint8Array): Promise<Buffer> => sharp(pixels, { raw: RAW }).png().toBuffer();

describe("a drawing", () => {
  it("is the same for the same request", async () => {
    const [one, other] = await Promise.all([draw(asked()), draw(asked())]);
    expect(Buffer.compare(one, other)).toBe(0);
  });

  it.each<[what: string, changes: Partial<Drawing>, share: number]>([
    ["prompt", { prompt: "A blue whale" }, 0.5],
    ["index", { index: 1 }, 0.5],
    ["style", { style: "natural" }, 0.5],
    ["quality, higher", { quality: "hd" }, 0.2],
    ["quality, lower", { quality: "low" }, 0.02],
    ["background", { background: "transparent" }, 0.1],
  ])("of another %s is visibly another", async (_what, changes, share) => {
    expect(await difference(await draw(asked()), await draw(asked(changes)))).toBeGreaterThan(share);
  });

  it.each([
    ["256x256", 256, 256],
    ["1792x1024", 1792, 1024],
    ["auto", 1024, 1024],
    [undefined, 1024, 1024],
  ])("of size %s has it", async (size, width, height) => {
    const { size: _none, ...rest } = asked();
    const image = await draw({ ...rest, ...(size !== undefined && { size }) });
    expect(factsOf(image)).toEqual({ mediaType: "image/png", width, height });
  });

  it.each(["image/png", "image/jpeg", "image/webp"] as const)("comes as %s", async (outputFormat) => {
    expect(factsOf(await draw(asked({ outputFormat })))).toEqual({ mediaType: outputFormat, width: 256, height: 256 });
  });

  it.each(["image/jpeg", "image/webp"] as const)("as %s is smaller the more it is compressed", async (outputFormat) => {
    const lengths = await Promise.all(
      [0, 50, 100].map(async (outputCompression) => (await draw(asked({ outputFormat, outputCompression }))).length),
    );
    expect(lengths.toSorted((a, b) => a - b)).toEqual(lengths);
  });

  it("has a transparent background where that is asked for", async () => {
    const pixels = await pixelsOf(await draw(asked({ background: "transparent" })));
    expect(pixels.some((value, at) => at % 4 === 3 && value === 0)).toBe(true);
  });

  it("may be seen before it is done", async () => {
    const image = await draw(asked());
    const [early, late] = await Promise.all([unfinished(image, 0.25), unfinished(image, 0.75)]);
    expect(factsOf(early)).toEqual(factsOf(image));
    expect(await difference(early, late)).toBeGreaterThan(0.5);
  });

  it("shows its prompt, square by square, without any font", async () => {
    const scene = { prompt: "Ünïcode & <tags> “quoted” 家", width: 512, height: 512, index: 0 };
    const svg = sceneOf(scene);
    expect(svg).not.toContain("<text");
    const [, left, top, path] = /translate\((\d+) (\d+)\)[^>]* d="([^"]+)"/.exec(svg) ?? [];
    const squares = Array.from(
      path?.matchAll(/M(\d+) (\d+)h(\d+)/g) ?? [],
      ([, x, y]) => [Number(left) + Number(x), Number(top) + Number(y)] as const,
    );
    expect(squares.length).toBeGreaterThan(200);
    const data = await sharp(await draw({ prompt: scene.prompt, index: 0, size: "512x512" }))
      .raw()
      .toBuffer();
    const channels = data.length / (512 * 512);
    for (const [x, y] of squares)
      expect(Array.from(data.subarray((y * 512 + x) * channels, (y * 512 + x) * channels + 3))).toEqual([
        255, 255, 255,
      ]);
  });

  it("has room for any prompt", async () => {
    for (const prompt of ["", " ", "x".repeat(4_000), "word ".repeat(6_400), "家".repeat(1_000), "\0\u{10FFFF}"])
      expect(factsOf(await draw(asked({ prompt })))).toMatchObject({ width: 256 });
  });
});

describe("lettering", () => {
  const box = { width: 60, height: 40, maxScale: 1 };

  it("has a glyph of its own for every character of ASCII", () => {
    const characters = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index));
    const paths = characters.map((character) => lettering(character, box).path);
    expect(new Set(paths).size).toBe(94);
    expect(paths).not.toContain("");
  });

  it("is as large as fits, and breaks between words", () => {
    expect(lettering("ab", { ...box, maxScale: 9 }).height).toBe(40);
    expect(lettering("ab cd", { ...box, maxScale: 9 }).height).toBe(20);
    expect(lettering("ab", { width: 600, height: 5, maxScale: 9 }).height).toBe(10);
    expect(lettering("one two three", box).height).toBe(20);
    expect(lettering("abcdefghijk", box).height).toBe(20);
  });

  it("is cut off where it does not fit", () => {
    const cut = lettering("word ".repeat(100), box);
    expect(cut.height).toBe(40);
    expect(cut.path).toBe(lettering("word word word word word word word wo...", box).path);
  });

  it.each([
    ["naïve", "naive"],
    ["“a” — ‘b’…", "\"a\" - 'b'..."],
    ["家", "\u{1F40B}"],
  ])("writes %j as %j", (text, plain) => {
    expect(lettering(text, box).path).toBe(lettering(plain, box).path);
  });
});

/** Whether all pixels whose alpha is zero in `holes` were painted, and which of the others were changed. */
function changesIn(
  edited: Uint8Array,
  original: Uint8Array,
  holes: Uint8Array,
): { painted: boolean; touched: number[] } {
  let painted = 0;
  const touched: number[] = [];
  for (let at = 0; at < original.length; at += 4) {
    const isSame = [0, 1, 2, 3].every((channel) => edited[at + channel] === original[at + channel]);
    if (holes[at + 3] !== 0 && !isSame) touched.push(at / 4);
    if (holes[at + 3] === 0 && edited[at + 3] === 255) painted++;
  }
  const holed = holes.filter((value, at) => at % 4 === 3 && value === 0).length;
  return { painted: holed > 1_000 && painted === holed, touched };
}

const ONLY_THE_HOLES = { painted: true, touched: [] };

describe("an edit", () => {
  const EDIT = { prompt: "a blue whale", index: 0 };

  it("paints exactly where the image is fully transparent", async () => {
    const pixels = holedPixels(1);
    const edited = await edit({ ...EDIT, images: [await pngOf(pixels)] });
    expect(changesIn(await pixelsOf(edited), pixels, pixels)).toEqual(ONLY_THE_HOLES);
  });

  it("paints exactly where the mask is fully transparent, whatever the image is", async () => {
    const [image, mask] = [holedPixels(2), holedPixels(3)];
    // The image is opaque, transparent or half so, without regard to the mask.
    for (let at = 3; at < image.length; at += 4) image[at] = [0, 1, 128, 255][at % 5] ?? 255;
    const edited = await edit({ ...EDIT, images: [await pngOf(image)], mask: await pngOf(mask) });
    expect(changesIn(await pixelsOf(edited), image, mask)).toEqual(ONLY_THE_HOLES);
  });

  it("takes images of other kinds of pixels", async () => {
    const pixels = holedPixels(4);
    const gray = Uint8Array.from({ length: SIDE * SIDE * 2 }, (_, at) =>
      at % 2 === 1 ? (pixels[at * 2 + 1] ?? 0) : (at * 7) % 256,
    );
    const few = pixels.map((value, at) => (at % 4 === 3 ? (value === 0 ? 0 : 255) : value & 0x80));
    const kinds = [
      sharp(few, { raw: RAW }).png({ palette: true }),
      sharp(pixels, { raw: RAW }).png({ progressive: true }),
      sharp(gray, { raw: { ...SIZE, channels: 2 } })
        .toColourspace("b-w")
        .png(),
      sharp(pixels, { raw: RAW }).withIccProfile("p3").png(),
    ];
    for (const kind of kinds) {
      const png = await kind.toBuffer();
      const stored = await sharp(png, { ignoreIcc: true }).toColourspace("srgb").ensureAlpha().raw().toBuffer();
      expect(changesIn(await pixelsOf(await edit({ ...EDIT, images: [png] })), stored, stored)).toEqual(ONLY_THE_HOLES);
    }
  });

  it("shows the other images in what it paints, and nowhere else", async () => {
    const [image, mask] = [holedPixels(5), holedPixels(6)];
    const others = await Promise.all(
      [7, 8].map((seed) => pngOf(noise(SIDE * SIDE * 4, seed).map((value, at) => (at % 4 === 3 ? 255 : value)))),
    );
    const [first, maskFile] = await Promise.all([pngOf(image), pngOf(mask)]);
    const alone = await edit({ ...EDIT, images: [first], mask: maskFile });
    const together = await edit({ ...EDIT, images: [first, ...others], mask: maskFile });
    expect(changesIn(await pixelsOf(together), image, mask)).toEqual(ONLY_THE_HOLES);
    expect(await difference(alone, together)).toBeGreaterThan(0.02);
  });

  it("is the same for the same request, and another for another prompt or index", async () => {
    const images = [await pngOf(holedPixels(9))] as const;
    const [one, same, prompt, index] = await Promise.all([
      edit({ ...EDIT, images: [...images] }),
      edit({ ...EDIT, images: [...images] }),
      edit({ ...EDIT, images: [...images], prompt: "a red fox" }),
      edit({ ...EDIT, images: [...images], index: 1 }),
    ]);
    expect(Buffer.compare(one, same)).toBe(0);
    expect(await difference(one, prompt)).toBeGreaterThan(0.1);
    expect(await difference(one, index)).toBeGreaterThan(0.1);
  });

  it("comes in the size and format that it is asked in", async () => {
    const images = [await pngOf(holedPixels(10))] as const;
    const image = await edit({ ...EDIT, images: [...images], size: "256x512", outputFormat: "image/webp" });
    expect(factsOf(image)).toEqual({ mediaType: "image/webp", width: 256, height: 512 });
  });

  it("of images without a hole is a picture of all of them", async () => {
    const [one, other] = await Promise.all([draw(asked({ outputFormat: "image/jpeg" })), draw(asked({ index: 1 }))]);
    const size = "256x256";
    const both = await edit({ ...EDIT, images: [one, other], size });
    expect(factsOf(both)).toEqual({ mediaType: "image/png", width: 256, height: 256 });
    expect(await difference(both, await edit({ ...EDIT, images: [one], size }))).toBeGreaterThan(0.02);
    expect(await difference(both, await edit({ ...EDIT, images: [other, one], size }))).toBeGreaterThan(0.02);
  });

  it("refuses a mask of another size", async () => {
    const images = [await draw(asked())] as const;
    const editing = edit({ ...EDIT, images: [...images], mask: await pngOf(holedPixels(11)) });
    await expect(editing).rejects.toThrow(RangeError);
  });
});

describe("a variation", () => {
  it("differs from its image and from every other, and is always the same", async () => {
    const image = await draw(asked());
    const variations = await Promise.all(Array.from({ length: 10 }, (_, index) => vary({ image, index })));
    const all = [image, ...variations];
    for (const [at, one] of all.entries())
      for (const other of all.slice(at + 1)) expect(await difference(one, other)).toBeGreaterThan(0.2);
    expect(Buffer.compare(await vary({ image, index: 3 }), variations[3] ?? image)).toBe(0);
  });

  it("of gray, or of one colour, differs as well", async () => {
    const gray = await sharp({ create: { ...SIZE, channels: 3, background: "#808080" } })
      .png()
      .toBuffer();
    const [one, other] = await Promise.all([vary({ image: gray, index: 0 }), vary({ image: gray, index: 1 })]);
    expect(await difference(one, other)).toBeGreaterThan(0.1);
  });

  it("comes in the size that it is asked in, or else in the image's own", async () => {
    const image = await draw(asked());
    expect(factsOf(await vary({ image, index: 0, size: "512x512" }))).toMatchObject({ width: 512, height: 512 });
    expect(factsOf(await vary({ image, index: 0 }))).toMatchObject({ width: 256, height: 256 });
  });
});
