/** The size of a JPEG is found behind whatever a camera writes before it, and no file makes it a long search. */

import sharp from "sharp";
import { describe, expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../src/limits.ts";
import { probeImage } from "../../src/media/picture.ts";
import { type Bytes, joined } from "./png-file.ts";

const BOUNDS = { maxPixels: 10_000 };

const jpeg: Bytes = new Uint8Array(
  await sharp({ create: { width: 60, height: 40, channels: 3, background: "red" } })
    .jpeg()
    .toBuffer(),
);

const segment = (marker: number, length: number): Bytes => {
  const bytes = new Uint8Array(2 + length);
  bytes.set([0xff, marker, length >> 8, length & 0xff]);
  return bytes;
};

const copies = (piece: Uint8Array, count: number): Bytes => new Uint8Array(Buffer.alloc(piece.length * count, piece));

/** The JPEG with something before all else. */
const after = (...pieces: readonly Uint8Array[]): Bytes => joined(jpeg.subarray(0, 2), ...pieces, jpeg.subarray(2));

describe("a JPEG", () => {
  it.each<[what: string, pieces: Uint8Array[]]>([
    ["no more than it needs", []],
    ["a colour profile and a preview of many megabytes", [copies(segment(0xe2, 65_535), 300)]],
    ["thousands of small segments", [copies(segment(0xe0, 2), 4_900)]],
    ["bytes that fill up", [copies(Uint8Array.of(0xff), 1_000)]],
    ["markers without parameters", [Uint8Array.of(0xff, 0x01, 0xff, 0xd0, 0xff, 0xd7)]],
    ["bytes between its segments", [segment(0xe1, 10), copies(Uint8Array.of(1, 2, 3), 1_000)]],
  ])("with %s before its frame tells its size", (_what, pieces) => {
    expect(probeImage(after(...pieces), BOUNDS)).toEqual({ mediaType: "image/jpeg", width: 60, height: 40 });
  });

  it("of a camera with 48 megapixels is within the limits", () => {
    const large = jpeg.slice();
    // The frame: marker, length and depth, then height and width.
    new DataView(large.buffer, large.indexOf(0xc0) + 4).setUint32(0, 6_048 * 65_536 + 8_064);
    const bounds = { maxPixels: DEFAULT_LIMITS.maxImagePixels };
    expect(probeImage(large, bounds)).toEqual({ mediaType: "image/jpeg", width: 8_064, height: 6_048 });
  });

  it.each([1, 2, 1_000, 3_000_001])("may be followed by %d bytes of something else", (length) => {
    const bytes = joined(jpeg, new Uint8Array(length).fill(0xd9));
    expect(probeImage(bytes, BOUNDS)).toMatchObject({ width: 60 });
  });

  it.each<[what: string, bytes: Bytes]>([
    ["of more small segments than a reader should walk through", after(copies(segment(0xe0, 2), 5_000))],
    ["of more bytes that fill up", after(copies(Uint8Array.of(0xff), 5_000))],
    ["of more stuffed bytes", after(copies(Uint8Array.of(0xff, 0), 5_000))],
    ["with a segment shorter than its own length", after(Uint8Array.of(0xff, 0xe0, 0, 0))],
    ["with a segment longer than the file", joined(jpeg.subarray(0, 2), segment(0xe0, 60_000).subarray(0, 9))],
    ["that begins twice", after(jpeg)],
    ["that ends before it has begun", after(Uint8Array.of(0xff, 0xd9))],
    ["whose scan comes before its frame", after(segment(0xda, 8))],
    ["that is cut to its headers", jpeg.slice(0, jpeg.lastIndexOf(0xda) - 1)],
    ["that is cut to the header of its scan", jpeg.slice(0, jpeg.lastIndexOf(0xda) + 13)],
    ["that is 30 bytes short", jpeg.slice(0, -30)],
    ["that is one byte short", jpeg.slice(0, -1)],
    ["whose frame is cut short", after(segment(0xc0, 7))],
    ["whose frame has no pixels", after(segment(0xc0, 17))],
  ])("%s is broken", (_what, bytes) => {
    expect(() => probeImage(bytes, BOUNDS)).toThrow(
      "The file is a broken image: its size cannot be read, or it breaks off.",
    );
  });
});
