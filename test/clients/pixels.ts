/** Pictures as pixels: makes them, reads them, and tells where two of them differ. */

import sharp from "sharp";

export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue and alpha of each pixel, a byte each. */
  readonly data: Uint8Array;
}

/** Where a picture or mask is fully transparent. */
export type Region = (x: number, y: number) => boolean;

/** The pixels of a picture of any format. */
export async function pixelsOf(bytes: Uint8Array): Promise<Pixels> {
  const { data, info } = await sharp(bytes).ensureAlpha().raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, data };
}

/** What a picture's header says of it. */
export async function headerOf(bytes: Uint8Array): Promise<{ format: string; width: number; height: number }> {
  const { format, width, height } = await sharp(bytes).metadata();
  return { format, width, height };
}

/** A PNG in which neighbouring pixels differ, fully transparent in a region. */
export function patchwork(width: number, height: number, isClear: Region = () => false): Promise<Buffer> {
  const data = new Uint8Array(width * height * 4);
  for (let at = 0; at < width * height; at++) {
    const [x, y] = [at % width, Math.floor(at / width)];
    data.set([(x * 7) % 256, (y * 13) % 256, (x * y) % 256, isClear(x, y) ? 0 : 255], at * 4);
  }
  return sharp(data, { raw: { width, height, channels: 4 } })
    .png()
    .toBuffer();
}

/** The pixels that differ between two pictures of one size, counted inside of a region and outside. */
export function differences(one: Pixels, other: Pixels, region: Region): { inside: number; outside: number } {
  if (one.width !== other.width || one.height !== other.height) throw new Error("The pictures differ in size.");
  const counts = { inside: 0, outside: 0 };
  for (let at = 0; at < one.data.length; at += 4) {
    if (Buffer.compare(one.data.subarray(at, at + 4), other.data.subarray(at, at + 4)) === 0) continue;
    const pixel = at / 4;
    counts[region(pixel % one.width, Math.floor(pixel / one.width)) ? "inside" : "outside"]++;
  }
  return counts;
}
