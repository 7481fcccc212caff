/** Counts the rows of a PNG in its inflated pixel data, and looks for a transparent pixel in them. */

/** A fault of a PNG. The message is the end of a sentence: `it has no pixels`. `inspectPng` converts this error to a GatewayError. */
export class PngFault extends Error {
  override readonly name = "PngFault";
}

export const ColorType = { gray: 0, rgb: 2, palette: 3, grayAlpha: 4, rgbAlpha: 6 } as const;

/** For each colour type: the samples of a pixel, and the allowed bits of a sample. */
export const COLOR_TYPES: Readonly<Record<number, { readonly samples: number; readonly depths: readonly number[] }>> = {
  [ColorType.gray]: { samples: 1, depths: [1, 2, 4, 8, 16] },
  [ColorType.rgb]: { samples: 3, depths: [8, 16] },
  [ColorType.palette]: { samples: 1, depths: [1, 2, 4, 8] },
  [ColorType.grayAlpha]: { samples: 2, depths: [8, 16] },
  [ColorType.rgbAlpha]: { samples: 4, depths: [8, 16] },
};

export interface PngHeader {
  readonly width: number;
  readonly height: number;
  /** The bits of one sample. */
  readonly depth: number;
  readonly colorType: number;
  /** The samples of one pixel. */
  readonly samples: number;
  readonly isInterlaced: boolean;
}

/** The first column and row, and the steps, of the seven passes of an interlaced picture. */
const ADAM7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

interface Pass {
  /** The pixels of one row. */
  readonly width: number;
  readonly rows: number;
}

/** Checks inflated bytes as they arrive. Keeps two rows in memory. */
export class PngRows {
  /** True once a fully transparent pixel (alpha zero) was found. */
  hasTransparency = false;
  readonly #rowBits: number;
  readonly #bytesPerPixel: number;
  /**
   * Tells whether a row has a transparent pixel; undefined if no pixel can be transparent, or if the caller does not ask for transparency.
   */
  readonly #isTransparent: RowTest | undefined;
  readonly #passes: readonly Pass[];
  #pass = 0;
  #row = 0;
  /** The current row and the row above it. Each begins with the byte that names its filter. */
  #line: Uint8Array;
  #above: Uint8Array;
  #filled = 0;

  constructor(header: PngHeader, transparency: Uint8Array | undefined, seekTransparency: boolean) {
    this.#rowBits = header.samples * header.depth;
    this.#bytesPerPixel = Math.max(1, this.#rowBits / 8);
    this.#isTransparent = seekTransparency ? transparencyTest(header, transparency) : undefined;
    this.#passes = passesOf(header);
    this.#line = this.#newLine();
    this.#above = this.#newLine();
  }

  /** Takes the next bytes. Throws a PngFault for more bytes than the picture has, and for an unknown filter. */
  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#pass === this.#passes.length) throw new PngFault("it holds more pixel data than its size tells");
      const filter = bytes[at] ?? 0;
      if (this.#filled === 0 && filter > 4) throw new PngFault(`it has a row with filter ${filter}, which is none`);
      const end = Math.min(bytes.length, at + this.#line.length - this.#filled);
      // Rows after the first transparent pixel are only counted.
      if (this.#isTransparent && !this.hasTransparency) this.#line.set(bytes.subarray(at, end), this.#filled);
      this.#filled += end - at;
      at = end;
      if (this.#filled === this.#line.length) this.#endRow();
    }
  }

  /** Throws a PngFault for missing rows. */
  end(): void {
    if (this.#pass < this.#passes.length) throw new PngFault("it holds less pixel data than its size tells");
  }

  #endRow(): void {
    const pass = this.#passes[this.#pass];
    if (pass && this.#isTransparent && !this.hasTransparency) {
      unfilter(this.#line, this.#above, this.#bytesPerPixel);
      this.hasTransparency = this.#isTransparent(this.#line.subarray(1), pass.width);
      [this.#line, this.#above] = [this.#above, this.#line];
    }
    this.#filled = 0;
    if (++this.#row !== pass?.rows) return;
    this.#row = 0;
    this.#pass++;
    this.#line = this.#newLine();
    this.#above = this.#newLine();
  }

  #newLine(): Uint8Array {
    const width = this.#passes[this.#pass]?.width ?? 0;
    return new Uint8Array(1 + Math.ceil((width * this.#rowBits) / 8));
  }
}

function passesOf({ width, height, isInterlaced }: PngHeader): readonly Pass[] {
  if (!isInterlaced) return [{ width, rows: height }];
  return ADAM7.map(([x, y, dx, dy]) => ({
    width: Math.ceil((width - x) / dx),
    rows: Math.ceil((height - y) / dy),
  })).filter((pass) => pass.width > 0 && pass.rows > 0);
}

/**
 * Undoes the filter of a row in place (PNG, section 9.2). The loops contain no calls and do not check the filter, because every byte of a
 * large picture passes through them.
 */
function unfilter(line: Uint8Array, above: Uint8Array, step: number): void {
  const [filter] = line;
  const { length } = line;
  // The bytes to the left of the first pixel count as zero.
  const second = Math.min(1 + step, length);
  if (filter === 1) for (let at = second; at < length; at++) line[at] = (line[at] ?? 0) + (line[at - step] ?? 0);
  if (filter === 2) for (let at = 1; at < length; at++) line[at] = (line[at] ?? 0) + (above[at] ?? 0);
  if (filter === 3) {
    for (let at = 1; at < second; at++) line[at] = (line[at] ?? 0) + ((above[at] ?? 0) >> 1);
    for (let at = second; at < length; at++)
      line[at] = (line[at] ?? 0) + (((line[at - step] ?? 0) + (above[at] ?? 0)) >> 1);
  }
  if (filter === 4) {
    for (let at = 1; at < second; at++) line[at] = (line[at] ?? 0) + (above[at] ?? 0);
    for (let at = second; at < length; at++) {
      const left = line[at - step] ?? 0;
      const up = above[at] ?? 0;
      const corner = above[at - step] ?? 0;
      const toLeft = Math.abs(up - corner);
      const toUp = Math.abs(left - corner);
      const toCorner = Math.abs(left + up - 2 * corner);
      const nearest = toLeft <= toUp && toLeft <= toCorner ? left : toUp <= toCorner ? up : corner;
      line[at] = (line[at] ?? 0) + nearest;
    }
  }
}

/** Tells whether a row of `width` pixels has a transparent pixel. */
type RowTest = (row: Uint8Array, width: number) => boolean;

function transparencyTest(header: PngHeader, transparency: Uint8Array | undefined): RowTest | undefined {
  const { colorType, depth, samples } = header;
  const sampleBytes = depth / 8;
  if (colorType === ColorType.grayAlpha || colorType === ColorType.rgbAlpha)
    return hasBytes(new Uint8Array(sampleBytes), (samples - 1) * sampleBytes, samples * sampleBytes);
  if (!transparency) return undefined;
  if (colorType === ColorType.palette) {
    const clear = new Set(Array.from(transparency.keys()).filter((index) => transparency[index] === 0));
    return clear.size > 0 ? hasSamples(clear, depth) : undefined;
  }
  if (colorType === ColorType.gray && depth < 8)
    return hasSamples(new Set([(transparency[1] ?? 0) & (2 ** depth - 1)]), depth);
  // The samples of tRNS have two bytes each; pictures of 8 bits use the lower one.
  const color = depth === 8 ? transparency.filter((_, index) => index % 2 === 1) : transparency;
  return hasBytes(color, 0, samples * sampleBytes);
}

/** Looks for the given bytes at an offset in each pixel. */
const hasBytes =
  (wanted: Uint8Array, offset: number, bytesPerPixel: number): RowTest =>
  (row) => {
    for (let at = offset; at < row.length; at += bytesPerPixel) {
      let matching = 0;
      while (matching < wanted.length && row[at + matching] === wanted[matching]) matching++;
      if (matching === wanted.length) return true;
    }
    return false;
  };

/** Looks for the given samples in a row of one sample a pixel; several samples may share a byte. */
const hasSamples =
  (wanted: ReadonlySet<number>, depth: number): RowTest =>
  (row, width) => {
    const perByte = 8 / depth;
    for (let pixel = 0; pixel < width; pixel++) {
      const shift = 8 - depth - (pixel % perByte) * depth;
      if (wanted.has(((row[Math.floor(pixel / perByte)] ?? 0) >> shift) & (2 ** depth - 1))) return true;
    }
    return false;
  };
