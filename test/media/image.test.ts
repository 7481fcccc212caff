/** An image is told by its bytes, whatever it is called. */

import fc from "fast-check";
import sharp from "sharp";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { probeImage } from "../../src/media/picture.ts";

const BOUNDS = { maxPixels: 10_000, path: ["image"] };

const blank = (width: number, height: number, channels: 3 | 4 = 3) =>
  sharp({ create: { width, height, channels, background: { r: 200, g: 100, b: 0, alpha: 0.5 } } });

const FORMATS = [
  ["image/png", () => blank(60, 40).png()],
  ["image/jpeg", () => blank(60, 40).jpeg()],
  [
    "image/jpeg",
    () =>
      blank(60, 40)
        .jpeg({ progressive: true })
        .withExif({ IFD0: { Copyright: "nobody" } }),
  ],
  ["image/jpeg", () => blank(60, 40).withMetadata({ orientation: 6 }).jpeg()],
  ["image/webp", () => blank(60, 40).webp()],
  ["image/webp", () => blank(60, 40).webp({ lossless: true })],
  ["image/webp", () => blank(60, 40, 4).webp()],
] as const;

describe("an image", () => {
  it.each(FORMATS)("of %s is known by its bytes", async (mediaType, make) => {
    expect(probeImage(await make().toBuffer(), BOUNDS)).toEqual({ mediaType, width: 60, height: 40 });
  });

  it.each(FORMATS)("of %s may have as many pixels as are allowed, and no more", async (_mediaType, make) => {
    const bytes = await make().toBuffer();
    expect(probeImage(bytes, { maxPixels: 2_400 })).toBeDefined();
    expect(() => probeImage(bytes, { maxPixels: 2_399, path: ["mask"] })).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        path: ["mask"],
        message: "mask: The image has 60 × 40 pixels; at most 2399 are allowed.",
      }),
    );
  });

  const STREAMED = FORMATS.filter(([mediaType]) => mediaType !== "image/png");

  it.each(STREAMED)("of %s that breaks off anywhere is refused", async (_mediaType, make) => {
    const bytes = await make().toBuffer();
    const taken = Array.from(bytes.keys()).filter((length) => attempt(bytes.subarray(0, length)) !== "refused");
    expect(taken).toEqual([]);
    expect(attempt(Buffer.concat([bytes, Buffer.from("and more")]))).toMatchObject({ width: 60 });
  });

  it("of many pictures is taken, and one of none is not", async () => {
    const film = await sharp({
      create: { width: 60, height: 80, pageHeight: 40, channels: 4, background: "red" },
    })
      .webp()
      .toBuffer();
    expect(attempt(film)).toMatchObject({ mediaType: "image/webp", width: 60, height: 40 });
    const head = Buffer.concat([film.subarray(0, 30), Buffer.from("EXIF\x02\0\0\0ab", "latin1")]);
    head.writeUInt32LE(head.length - 8, 4);
    expect(attempt(head)).toBe("refused");
    expect(attempt(head.subarray(0, 30))).toBe("refused");
  });

  it.each(FORMATS)(
    "of %s that breaks off before its size is broken, and never anything worse",
    async (mediaType, make) => {
      const bytes = await make().toBuffer();
      const facts = { mediaType, width: 60, height: 40 };
      for (let length = 0; length < bytes.length; length++)
        expect([facts, "refused"]).toContainEqual(attempt(bytes.subarray(0, length)));
      expect(attempt(bytes.subarray(0, 20))).toBe("refused");
      expect(() => probeImage(bytes.subarray(0, 20), BOUNDS)).toThrow("broken");
    },
  );

  it.each([
    ["nothing", ""],
    ["text", "hello"],
    ["a GIF", "GIF89a\x01\0\x01\0\0\0\0"],
    ["a drawing", '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'],
    ["a RIFF of another kind", "RIFF\0\0\0\0WAVEfmt "],
    ["a bitmap", "BM\0\0\0\0"],
  ])("is not %s", (_what, text) => {
    expect(() => probeImage(Buffer.from(text, "latin1"), BOUNDS)).toThrow("The file is not a PNG, WEBP or JPEG image.");
  });

  it("is never anything but facts or a refusal, whatever follows its magic bytes", () => {
    const magic = fc.constantFrom(
      "\x89PNG\r\n\x1a\n",
      "\xff\xd8\xff",
      "RIFF\0\0\0\0WEBP",
      "RIFF\0\0\0\0WEBPVP8X",
      "RIFF\0\0\0\0WEBPVP8 ",
    );
    fc.assert(
      fc.property(magic, fc.uint8Array({ maxLength: 200 }), (magic, rest) => {
        expect(attempt(Buffer.concat([Buffer.from(magic, "latin1"), rest]))).toBeDefined();
      }),
      { numRuns: 500 },
    );
  });
});

/** The facts, or that they were refused; throws what is neither. */
function attempt(bytes: Uint8Array): unknown {
  try {
    return probeImage(bytes, { maxPixels: Number.POSITIVE_INFINITY });
  } catch (error) {
    if (error instanceof GatewayError && error.code === "invalid_request") return "refused";
    throw error;
  }
}
