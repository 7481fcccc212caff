/** A PNG is taken when it is whole, and its transparency told as other decoders see it. */

import { deflateSync } from "node:zlib";
import fc from "fast-check";
import { encode } from "fast-png";
import sharp from "sharp";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { inspectPng, type PngFacts } from "../../src/media/png.ts";
import {
  type Bytes,
  chunk,
  data,
  END,
  file,
  fileOf,
  header,
  joined,
  type Picture,
  SAMPLES,
  SIGNATURE,
  zeros,
} from "./png-file.ts";

const BOUNDS = { maxPixels: 1_000_000, path: ["image"] };

const inspect = (bytes: Uint8Array): Promise<PngFacts> => inspectPng(bytes, BOUNDS, { seekTransparency: true });

async function faultOf(bytes: Uint8Array, bounds: typeof BOUNDS = BOUNDS): Promise<GatewayError> {
  const outcome: unknown = await inspectPng(bytes, bounds).catch((error: unknown) => error);
  if (!(outcome instanceof GatewayError)) throw new Error("the file was taken", { cause: outcome });
  expect(outcome).toMatchObject({ code: "invalid_request", path: ["image"] });
  return outcome;
}

/** One gray pixel of eight bits, and the chunks that make it up. */
const HEADER = header({ width: 1, height: 1 });
const DATA = data(Uint8Array.of(0, 128));

/** The same with other rows, right or wrong. */
const grayOf = (...rows: number[]): Bytes => file(HEADER, data(Uint8Array.from(rows)), END);

/** Whether a pixel has alpha zero, by its samples. */
function hasTransparency({ colorType, samples, transparency }: Picture): boolean {
  const perPixel = SAMPLES[colorType] ?? 1;
  const pixels = Array.from({ length: samples.length / perPixel }, (_, index) =>
    samples.slice(index * perPixel, (index + 1) * perPixel),
  );
  if (colorType >= 4) return pixels.some((pixel) => pixel.at(-1) === 0);
  if (!transparency) return false;
  return pixels.some((pixel) =>
    colorType === 3 ? transparency[pixel[0] ?? 0] === 0 : pixel.every((sample) => sample === 0),
  );
}

describe("a PNG", () => {
  const KINDS = [
    ...[1, 2, 4, 8, 16].map((depth) => ({ colorType: 0, depth })),
    ...[8, 16].flatMap((depth) => [2, 4, 6].map((colorType) => ({ colorType, depth }))),
    ...[1, 2, 4, 8].map((depth) => ({ colorType: 3, depth })),
  ];

  /** Pictures of few colours, so that transparent ones are met and missed alike. */
  const pictures = fc
    .record({
      kind: fc.constantFrom(...KINDS),
      width: fc.integer({ min: 1, max: 20 }),
      height: fc.integer({ min: 1, max: 20 }),
      interlace: fc.constantFrom(0, 1),
      filters: fc.array(fc.nat(4), { minLength: 1, maxLength: 5 }),
      pieceBytes: fc.integer({ min: 1, max: 100 }),
      seed: fc.array(fc.nat(2), { minLength: 1, maxLength: 40 }),
      isTransparent: fc.boolean(),
    })
    .map(({ kind: { colorType, depth }, seed, isTransparent, ...rest }): Picture => {
      const perPixel = SAMPLES[colorType] ?? 1;
      const most = 2 ** depth - 1;
      const shades =
        colorType === 3 && depth === 1 ? [0, 1, 1] : [most, colorType === 3 ? 1 : 0, colorType === 3 ? 2 : most];
      const samples = Array.from(
        { length: rest.width * rest.height * perPixel },
        (_, at) => shades[seed[at % seed.length] ?? 0] ?? 0,
      );
      const palette = colorType === 3 && { palette: new Uint8Array(3 * 2 ** depth).fill(99) };
      const key = colorType === 3 ? Uint8Array.of(255, 0) : new Uint8Array(2 * perPixel);
      const transparency = isTransparent && colorType < 4 && { transparency: key };
      return { ...rest, colorType, depth, samples, ...palette, ...transparency };
    });

  it("of every kind, filter and interlacing is seen as another decoder sees it", () =>
    fc.assert(
      fc.asyncProperty(pictures, async (picture) => {
        const bytes = fileOf(picture);
        const { width, height } = picture;
        const seen = await inspect(bytes);
        expect(seen).toEqual({ mediaType: "image/png", width, height, hasTransparency: hasTransparency(picture) });
        const raw = await sharp(bytes).ensureAlpha().toColourspace("srgb").raw().toBuffer();
        expect(raw.some((value, at) => at % 4 === 3 && value === 0)).toBe(seen.hasTransparency);
      }),
      { numRuns: 150 },
    ));

  it("that others encode is taken", async () => {
    const pixels = Buffer.alloc(64 * 48 * 4, 200);
    pixels[4 * 1_000 + 3] = 0;
    const raw = sharp(pixels, { raw: { width: 64, height: 48, channels: 4 } });
    const made = [
      encode({ width: 64, height: 48, data: new Uint8Array(pixels) }),
      encode({ width: 64, height: 48, data: new Uint8Array(pixels) }, { interlace: "Adam7" }),
      await raw.clone().png({ progressive: true, adaptiveFiltering: true }).toBuffer(),
      await raw.clone().png({ palette: true }).toBuffer(),
      await raw.clone().withMetadata({ density: 300 }).png({ compressionLevel: 0 }).toBuffer(),
    ];
    for (const bytes of made)
      expect(await inspect(bytes)).toMatchObject({ width: 64, height: 48, hasTransparency: true });
  });

  it("whose pixels are all but transparent is not transparent", async () => {
    const pixels = new Uint8Array(4 * 4 * 4).fill(1);
    expect(await inspect(encode({ width: 4, height: 4, data: pixels }))).toMatchObject({ hasTransparency: false });
    const deep = new Uint16Array(4 * 4 * 4).fill(0x00ff);
    // Only the last sample of each pixel is its opacity.
    const black = deep.map((sample, at) => (at % 4 === 3 ? sample : 0));
    for (const data of [deep, black])
      expect(await inspect(encode({ width: 4, height: 4, depth: 16, data }))).toMatchObject({ hasTransparency: false });
  });

  it("is not searched for transparent pixels where nobody asks", async () => {
    const pixels = new Uint8Array(4 * 4 * 4);
    const clear = encode({ width: 4, height: 4, data: pixels });
    expect(await inspect(clear)).toMatchObject({ hasTransparency: true });
    expect(await inspectPng(clear, BOUNDS)).toMatchObject({ hasTransparency: false });
  });

  it("is whole or refused all the same where nobody asks", async () => {
    await fc.assert(
      fc.asyncProperty(pictures, async (picture) => {
        await expect(inspectPng(fileOf(picture), BOUNDS)).resolves.toBeDefined();
      }),
      { numRuns: 60 },
    );
    await expect(inspectPng(grayOf(5, 1), BOUNDS)).rejects.toThrow("filter 5");
    await expect(inspectPng(grayOf(0), BOUNDS)).rejects.toThrow("less pixel data");
    await expect(inspectPng(grayOf(0, 1, 0), BOUNDS)).rejects.toThrow("more pixel data");
  });

  it("of one pixel is taken, with what may stand beside it", async () => {
    const text = chunk("tEXt", Buffer.from("Comment\0hello"));
    const animation = [chunk("acTL", new Uint8Array(8)), chunk("fcTL", new Uint8Array(26))];
    for (const bytes of [
      file(HEADER, DATA, END),
      file(HEADER, text, ...animation, DATA, chunk("fdAT", new Uint8Array(40)), text, END),
      file(HEADER, chunk("IDAT"), DATA, chunk("IDAT"), END),
      joined(file(HEADER, DATA, END), Buffer.from("bytes after the end")),
    ])
      expect(await inspect(bytes)).toEqual({ mediaType: "image/png", width: 1, height: 1, hasTransparency: false });
  });

  it("may be a view of a larger buffer", async () => {
    const bytes = file(HEADER, DATA, END);
    expect(await inspect(joined(new Uint8Array(7), bytes).subarray(7))).toMatchObject({ width: 1 });
  });
});

describe("a broken PNG", () => {
  const picture = fileOf({
    width: 9,
    height: 9,
    depth: 8,
    colorType: 3,
    interlace: 1,
    samples: Array.from({ length: 81 }, (_, at) => at % 3),
    filters: [0, 1, 2, 3, 4],
    palette: new Uint8Array(9),
    transparency: Uint8Array.of(255, 0),
    pieceBytes: 20,
  });

  it("is refused wherever it breaks off", async () => {
    await expect(inspect(picture)).resolves.toBeDefined();
    for (let length = 0; length < picture.length; length++)
      expect(await faultOf(picture.slice(0, length)), `at ${length}`).toBeDefined();
  });

  it("is refused for every bit that was turned", async () => {
    for (let bit = 0; bit < picture.length * 8; bit++) {
      const turned = picture.slice();
      turned[bit >> 3] = (turned[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(await faultOf(turned), `bit ${bit}`).toBeDefined();
    }
  });

  const PALETTE = header({ width: 1, height: 1, colorType: 3 });
  const colors = chunk("PLTE", new Uint8Array(6));

  it.each<[why: string, bytes: Bytes]>([
    ["the checksum of its chunk IDAT is wrong", file(HEADER, chunk("IDAT", deflateSync(Uint8Array.of(0, 1)), 7), END)],
    ["the checksum of its chunk tEXt is wrong", file(HEADER, chunk("tEXt", Buffer.from("a\0b"), 7), DATA, END)],
    ["its first chunk is not IHDR", file(DATA, HEADER, END)],
    ["its IHDR has a wrong size", file(chunk("IHDR", new Uint8Array(12)), DATA, END)],
    ["its chunk IHDR is unknown", file(HEADER, HEADER, DATA, END)],
    ["it has no pixels", file(header({ width: 0, height: 1 }), DATA, END)],
    ["colour type 5", file(header({ width: 1, height: 1, colorType: 5 }), DATA, END)],
    ["colour type 2 with 4 bits", file(header({ width: 1, height: 1, colorType: 2, depth: 4 }), DATA, END)],
    ["unknown method", file(header({ width: 1, height: 1, interlace: 2 }), DATA, END)],
    ["unknown method", file(header({ width: 1, height: 1, compression: 1 }), DATA, END)],
    ["unknown method", file(header({ width: 1, height: 1, filter: 64 }), DATA, END)],
    ["it has a chunk without a type", file(HEADER, chunk("ID T"), DATA, END)],
    ["its chunk ABCD is unknown", file(HEADER, chunk("ABCD"), DATA, END)],
    ["it has no pixel data", file(HEADER, END)],
    ["it ends before its last chunk", file(HEADER, DATA)],
    ["its chunk IDAT stands where none may be", file(HEADER, DATA, chunk("tEXt"), DATA, END)],
    ["it has no palette", file(PALETTE, DATA, END)],
    ["its palette has a wrong size", file(PALETTE, chunk("PLTE", new Uint8Array(4)), DATA, END)],
    ["its palette has a wrong size", file(PALETTE, chunk("PLTE", new Uint8Array(3 * 257)), DATA, END)],
    ["its chunk PLTE stands where none may be", file(PALETTE, colors, colors, DATA, END)],
    ["its chunk PLTE stands where none may be", file(HEADER, colors, DATA, END)],
    ["its tRNS has a wrong size", file(PALETTE, colors, chunk("tRNS", new Uint8Array(3)), DATA, END)],
    ["its tRNS has a wrong size", file(PALETTE, chunk("tRNS", new Uint8Array(1)), colors, DATA, END)],
    ["its tRNS has a wrong size", file(HEADER, chunk("tRNS", new Uint8Array(6)), DATA, END)],
    ["its chunk tRNS stands where none may be", file(HEADER, DATA, chunk("tRNS", new Uint8Array(2)), END)],
    [
      "its chunk tRNS stands where none may be",
      file(header({ width: 1, height: 1, colorType: 4 }), chunk("tRNS", new Uint8Array(4)), DATA, END),
    ],
    ["its pixel data cannot be inflated", file(HEADER, chunk("IDAT", Buffer.from("no zlib")), END)],
    ["its pixel data cannot be inflated", file(HEADER, chunk("IDAT"), END)],
    // Some decoders pass over bytes after the compressed stream; not every platform that inflates for us can.
    [
      "its pixel data cannot be inflated",
      file(HEADER, chunk("IDAT", joined(deflateSync(Uint8Array.of(0, 1)), Uint8Array.of(1, 2, 3))), END),
    ],
    [
      "its pixel data cannot be inflated",
      file(HEADER, chunk("IDAT", deflateSync(Uint8Array.of(0, 1)).subarray(0, -1)), END),
    ],
    ["it holds more pixel data than its size tells", file(HEADER, data(Uint8Array.of(0, 1, 0)), END)],
    ["it holds less pixel data than its size tells", file(HEADER, data(Uint8Array.of(0)), END)],
    ["it has a row with filter 5, which is none", file(HEADER, data(Uint8Array.of(5, 1)), END)],
  ])("is told why: %s", async (why, bytes) => {
    const { message } = await faultOf(bytes);
    expect(message).toMatch(/^image: The file is not a valid PNG: .*\.$/);
    expect(message).toContain(why);
  });

  it.each<[what: string, bytes: Uint8Array]>([
    ["nothing", new Uint8Array()],
    ["half a signature", SIGNATURE.subarray(0, 7)],
    ["a JPEG", Uint8Array.of(0xff, 0xd8, 0xff, 0xe0)],
  ])("that is %s is no PNG at all", async (_what, bytes) => {
    expect((await faultOf(bytes)).message).toBe("image: The file is not a PNG image.");
  });
});

describe("a small file", () => {
  it("that tells more pixels than may be is refused before it is unfolded", async () => {
    const bomb = zeros(30_000, 30_000, 100_000_000);
    expect(bomb.length).toBeLessThan(120_000);
    expect((await faultOf(bomb)).message).toBe(
      "image: The image has 30000 × 30000 pixels; at most 1000000 are allowed.",
    );
    expect((await faultOf(zeros(100_000, 1, 1))).message).toContain("65535");
    await expect(inspect(zeros(1_000, 1_000, 4_001_000))).resolves.toMatchObject({ hasTransparency: true });
    await faultOf(zeros(1_000, 1_001, 4_005_001));
  });

  it("that holds more than it tells is refused where that begins", async () => {
    expect((await faultOf(zeros(1, 1, 100_000_000))).message).toContain("more pixel data");
  });

  it("may hide what it likes where nobody looks", async () => {
    const hidden = chunk("zTXt", joined(Buffer.from("a\0\0"), deflateSync(new Uint8Array(50_000_000))));
    await expect(inspect(file(HEADER, hidden, DATA, END))).resolves.toBeDefined();
  });

  it("unfolds in the memory of its rows", async () => {
    const sides = 8_000;
    const bytes = zeros(sides, sides, sides * (1 + 4 * sides));
    const before = process.memoryUsage.rss();
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 1);
    try {
      await expect(inspectPng(bytes, { maxPixels: sides * sides }, { seekTransparency: true })).resolves.toMatchObject({
        hasTransparency: true,
      });
    } finally {
      clearInterval(watch);
    }
    // It unfolds into 244 MiB.
    expect(most - before).toBeLessThan(128 * 1024 * 1024);
  });

  it("is let go of when the signal fires", async () => {
    const reason = new GatewayError("deadline_exceeded", "Too late.");
    const inspecting = inspectPng(file(HEADER, DATA, END), BOUNDS, { signal: AbortSignal.abort(reason) });
    await expect(inspecting).rejects.toBe(reason);
  });
});
