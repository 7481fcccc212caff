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
  // What does not fit into a byte is cut to what does.
  let at = 0;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      data[at++] = x * 7;
      data[at++] = y * 13;
      data[at++] = x * y;
      data[at++] = isClear(x, y) ? 0 : 255;
    }
  return sharp(data, { raw: { width, height, channels: 4 } })
    .png()
    .toBuffer();
}

/** The pixels that differ between two pictures of one size, counted inside of a region and outside. */
export function differences(one: Pixels, other: Pixels, region: Region): { inside: number; outside: number } {
  if (one.width !== other.width || one.height !== other.height) throw new Error("The pictures differ in size.");
  const counts = { inside: 0, outside: 0 };
  const [before, after] = [numbersOf(one), numbersOf(other)];
  for (let at = 0; at < before.length; at++)
    if (before[at] !== after[at]) counts[region(at % one.width, Math.floor(at / one.width)) ? "inside" : "outside"]++;
  return counts;
}

/** Each pixel as one number: hundreds of thousands are compared. */
const numbersOf = ({ data }: Pixels): Uint32Array => new Uint32Array(data.buffer, data.byteOffset, data.length / 4);
