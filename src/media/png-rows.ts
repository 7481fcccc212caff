/** Counts the rows of a PNG in its inflated pixel data, and looks for a transparent pixel in them where that is asked. */

import { GRAY, GRAY_ALPHA, PALETTE, PngFault, type PngHeader, RGB_ALPHA } from "./png-chunks.ts";

/** The first column and row, and the steps, of the seven pictures that an interlaced one is sent in. */
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
  /** Pixels a row. */
  readonly width: number;
  readonly rows: number;
}

/** What to look for in a PNG. */
export interface RowOptions {
  /** Whether to look for a transparent pixel, for which every byte is worked out; otherwise one of each row is looked at. */
  readonly seekTransparency?: boolean;
}

/** Takes inflated bytes as they come; holds two rows in memory. */
export class PngRows {
  readonly #header: PngHeader;
  readonly #isFound: Finder | undefined;
  readonly #passes: readonly Pass[];
  #pass = 0;
  #row = 0;
  /** The row that is being filled, after the byte that names its filter; the one before it stands in `#above`. */
  #line: Uint8Array;
  #above: Uint8Array;
  #filled = 0;
  #hasTransparency = false;

  constructor(header: PngHeader, transparency: Uint8Array | undefined, { seekTransparency = false }: RowOptions = {}) {
    this.#header = header;
    this.#isFound = seekTransparency ? finderOf(header, transparency) : undefined;
    this.#passes = passesOf(header);
    const width = this.#passes[0]?.width ?? 0;
    this.#line = this.#newLine(width);
    this.#above = this.#newLine(width);
  }

  /** Whether a pixel was seen that is fully transparent (alpha zero). */
  get hasTransparency(): boolean {
    return this.#hasTransparency;
  }

  /** Takes the next bytes; throws a PngFault when they are more than the image has, or no rows. */
  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#pass === this.#passes.length) throw new PngFault("it holds more pixel data than its size tells");
      if (this.#filled === 0) assertFilter(bytes[at]);
      const end = Math.min(bytes.length, at + this.#line.length - this.#filled);
      if (this.#isSeeking) this.#line.set(bytes.subarray(at, end), this.#filled);
      this.#filled += end - at;
      at = end;
      if (this.#filled === this.#line.length) this.#endRow();
    }
  }

  /** Throws a PngFault when rows are missing. */
  end(): void {
    if (this.#pass < this.#passes.length) throw new PngFault("it holds less pixel data than its size tells");
  }

  /** What comes after the first transparent pixel need not be looked at. */
  get #isSeeking(): boolean {
    return this.#isFound !== undefined && !this.#hasTransparency;
  }

  #endRow(): void {
    const pass = this.#passes[this.#pass];
    if (pass && this.#isFound && this.#isSeeking) {
      const bytesPerPixel = Math.max(1, (this.#header.samples * this.#header.depth) / 8);
      unfilter(this.#line, this.#above, bytesPerPixel);
      this.#hasTransparency = this.#isFound(this.#line.subarray(1), pass.width);
      [this.#line, this.#above] = [this.#above, this.#line];
    }
    this.#filled = 0;
    if (++this.#row === pass?.rows) this.#nextPass();
  }

  #nextPass(): void {
    this.#row = 0;
    const next = this.#passes[++this.#pass];
    if (!next) return;
    this.#line = this.#newLine(next.width);
    this.#above = this.#newLine(next.width);
  }

  #newLine(width: number): Uint8Array {
    return new Uint8Array(1 + Math.ceil((width * this.#header.samples * this.#header.depth) / 8));
  }
}

function passesOf({ width, height, isInterlaced }: PngHeader): readonly Pass[] {
  if (!isInterlaced) return [{ width, rows: height }];
  return ADAM7.map(([x, y, dx, dy]) => ({
    width: Math.ceil((width - x) / dx),
    rows: Math.ceil((height - y) / dy),
  })).filter((pass) => pass.width > 0 && pass.rows > 0);
}

function assertFilter(filter = 0): void {
  if (filter > 4) throw new PngFault(`it has a row with filter ${filter}, which is none`);
}

/**
 * Undoes a row's filter in place (PNG, section 9.2). Both rows begin with the byte that names their filter. Loops without
 * calls or cases inside, because this is the one place where every byte of a large image passes through this language.
 */
function unfilter(line: Uint8Array, above: Uint8Array, step: number): void {
  const [filter] = line;
  const { length } = line;
  // To the left of the first pixel, all is zero.
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

/** Whether a row of so many pixels has a transparent one. */
type Finder = (row: Uint8Array, width: number) => boolean;

/** What to look for; undefined where no pixel can be transparent. */
function finderOf(header: PngHeader, transparency: Uint8Array | undefined): Finder | undefined {
  const { colorType, depth, samples } = header;
  const sampleBytes = depth / 8;
  if (colorType === GRAY_ALPHA || colorType === RGB_ALPHA)
    return finderOfBytes(new Uint8Array(sampleBytes), (samples - 1) * sampleBytes, samples * sampleBytes);
  if (!transparency) return undefined;
  if (colorType === PALETTE) {
    const clear = new Set(Array.from(transparency.keys()).filter((index) => transparency[index] === 0));
    return clear.size > 0 ? finderOfSamples(clear, depth) : undefined;
  }
  if (colorType === GRAY && depth < 8)
    return finderOfSamples(new Set([(transparency[1] ?? 0) & (2 ** depth - 1)]), depth);
  // Samples of tRNS have two bytes each, of which 8-bit images use the lower one.
  const color = depth === 8 ? transparency.filter((_, index) => index % 2 === 1) : transparency;
  return finderOfBytes(color, 0, samples * sampleBytes);
}

/** Looks for the given bytes at an offset in each pixel. */
const finderOfBytes =
  (wanted: Uint8Array, offset: number, bytesPerPixel: number): Finder =>
  (row) => {
    for (let at = offset; at < row.length; at += bytesPerPixel) {
      let matching = 0;
      while (matching < wanted.length && row[at + matching] === wanted[matching]) matching++;
      if (matching === wanted.length) return true;
    }
    return false;
  };

/** Looks for the given samples in a row of one sample a pixel, several of which may share a byte. */
const finderOfSamples =
  (wanted: ReadonlySet<number>, depth: number): Finder =>
  (row, width) => {
    const perByte = 8 / depth;
    for (let pixel = 0; pixel < width; pixel++) {
      const shift = 8 - depth - (pixel % perByte) * depth;
      if (wanted.has(((row[Math.floor(pixel / perByte)] ?? 0) >> shift) & (2 ** depth - 1))) return true;
    }
    return false;
  };
