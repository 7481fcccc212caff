/** Takes a PNG file apart into its chunks, and holds their order, sizes and checksums to the standard. */

import { crc32 } from "./crc32.ts";
import type { EventLoopYielder } from "./yield-to-event-loop.ts";

/** What is wrong with a PNG, as the end of a sentence; never leaves `inspectPng`. */
export class PngFault extends Error {
  override readonly name = "PngFault";
}

export const GRAY = 0;
export const RGB = 2;
export const PALETTE = 3;
export const GRAY_ALPHA = 4;
export const RGB_ALPHA = 6;

/** Samples a pixel by colour type, and the bit depths that a sample may have. */
const COLOR_TYPES: Readonly<Record<number, { readonly samples: number; readonly depths: readonly number[] }>> = {
  [GRAY]: { samples: 1, depths: [1, 2, 4, 8, 16] },
  [RGB]: { samples: 3, depths: [8, 16] },
  [PALETTE]: { samples: 1, depths: [1, 2, 4, 8] },
  [GRAY_ALPHA]: { samples: 2, depths: [8, 16] },
  [RGB_ALPHA]: { samples: 4, depths: [8, 16] },
};

/** The header of a PNG. */
export interface PngHeader {
  readonly width: number;
  readonly height: number;
  /** Bits a sample. */
  readonly depth: number;
  readonly colorType: number;
  /** Samples a pixel. */
  readonly samples: number;
  readonly isInterlaced: boolean;
}

/** A PNG in its parts. */
export interface PngParts {
  readonly header: PngHeader;
  /** What tRNS says: alpha values of the palette, or the samples of the transparent colour. */
  readonly transparency: Uint8Array | undefined;
  /** Its IDAT chunks, read as they are asked for. They are still compressed, and their checksums not looked at yet. */
  readonly pixelData: Iterable<PngChunk>;
}

export interface PngChunk {
  /** Where it begins in the file, in bytes. */
  readonly at: number;
  readonly type: string;
  readonly data: Uint8Array;
  /** Type and data, which the checksum is about. */
  readonly checked: Uint8Array;
  readonly crc: number;
}

const SIGNATURE_BYTES = 8;

/**
 * The most chunks of a file: so many, and one more for each KiB. Encoders write chunks of 8 KiB and larger, some a row at a
 * time; a file that is nothing but chunks keeps everyone who reads it busy for seconds.
 */
const MOST_CHUNKS = 1_000;
const BYTES_A_CHUNK = 1024;

/** What a chunk costs to look at, in bytes that could be read meanwhile. */
export const CHUNK_COST_BYTES = 1024;

/** How much of a chunk is summed up before others are served, in bytes. */
const PIECE_BYTES = 64 * 1024;

/**
 * The parts of a PNG whose signature was seen. Throws a PngFault. Bytes after the last chunk are passed over, as everywhere.
 * Nothing is kept for each chunk, however many there are.
 */
export async function readPngParts(bytes: Uint8Array, yielder: EventLoopYielder): Promise<PngParts> {
  let header: PngHeader | undefined;
  let paletteSize: number | undefined;
  let transparency: Uint8Array | undefined;
  let pixelsAt: number | undefined;
  let last = "";
  for (const chunk of chunksIn(bytes)) {
    const { type, data } = chunk;
    if (yielder.isDue(CHUNK_COST_BYTES)) await yielder.pause();
    // Those of IDAT are looked at while it is inflated.
    if (type !== "IDAT") await assertChecked(chunk, yielder);
    if (!header) {
      if (type !== "IHDR") throw new PngFault("its first chunk is not IHDR");
      header = readHeader(data);
    } else if (type === "PLTE") {
      if (paletteSize !== undefined || transparency || pixelsAt !== undefined) throw misplaced(type);
      paletteSize = readPaletteSize(data, header);
    } else if (type === "tRNS") {
      if (transparency || pixelsAt !== undefined) throw misplaced(type);
      assertTransparency(data, header, paletteSize);
      transparency = data;
    } else if (type === "IDAT") {
      if (pixelsAt !== undefined && last !== "IDAT") throw misplaced(type);
      if (header.colorType === PALETTE && paletteSize === undefined) throw new PngFault("it has no palette");
      pixelsAt ??= chunk.at;
    } else if (type === "IEND") {
      if (pixelsAt === undefined) throw new PngFault("it has no pixel data");
      return { header, transparency, pixelData: pixelDataIn(bytes, pixelsAt) };
    } else if (isCritical(type)) throw new PngFault(`its chunk ${type} is unknown`);
    last = type;
  }
  throw new PngFault("it ends before its last chunk");
}

/** Throws a PngFault when a chunk's checksum is not this. */
export function assertCrc({ type, crc }: PngChunk, actual: number): void {
  if (actual !== crc) throw new PngFault(`the checksum of its chunk ${type} is wrong`);
}

async function assertChecked(chunk: PngChunk, yielder: EventLoopYielder): Promise<void> {
  const { checked } = chunk;
  let crc = 0;
  for (let at = 0; at < checked.length; at += PIECE_BYTES) {
    const piece = checked.subarray(at, at + PIECE_BYTES);
    crc = crc32(piece, crc);
    if (yielder.isDue(piece.length)) await yielder.pause();
  }
  assertCrc(chunk, crc);
}

/** The IDAT chunks, which follow one another, from the first on. */
function* pixelDataIn(bytes: Uint8Array, first: number): Generator<PngChunk> {
  for (const chunk of chunksIn(bytes, first)) {
    if (chunk.type !== "IDAT") return;
    yield chunk;
  }
}

/** The chunks of a file, their checksums not looked at. */
function* chunksIn(bytes: Uint8Array, from: number = SIGNATURE_BYTES): Generator<PngChunk> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const most = MOST_CHUNKS + Math.floor(bytes.length / BYTES_A_CHUNK);
  let count = 0;
  for (let at = from; at + 12 <= bytes.length;) {
    if (++count > most) throw new PngFault(`it has more than ${most} chunks, the most for a file of its size`);
    const end = at + 8 + view.getUint32(at);
    const checked = bytes.subarray(at + 4, end);
    const type = String.fromCharCode(...checked.subarray(0, 4));
    if (!/^[A-Za-z]{4}$/.test(type)) throw new PngFault("it has a chunk without a type");
    if (end + 4 > bytes.length) return;
    yield { at, type, data: checked.subarray(4), checked, crc: view.getUint32(end) };
    at = end + 4;
  }
}

function readHeader(data: Uint8Array): PngHeader {
  if (data.length !== 13) throw new PngFault("its IHDR has a wrong size");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth = 0, colorType = 0, compression, filter, interlace = 2] = data.subarray(8);
  const { samples, depths } = COLOR_TYPES[colorType] ?? { samples: 0, depths: [] };
  if (width === 0 || height === 0) throw new PngFault("it has no pixels");
  if (!depths.includes(depth)) throw new PngFault(`it has colour type ${colorType} with ${depth} bits, which is none`);
  if (compression !== 0 || filter !== 0 || interlace > 1) throw new PngFault("its IHDR names an unknown method");
  return { width, height, depth, colorType, samples, isInterlaced: interlace === 1 };
}

function readPaletteSize(data: Uint8Array, { colorType, depth }: PngHeader): number {
  const size = data.length / 3;
  if (colorType === GRAY || colorType === GRAY_ALPHA) throw misplaced("PLTE");
  if (!Number.isInteger(size) || size < 1 || size > (colorType === PALETTE ? 2 ** depth : 256))
    throw new PngFault("its palette has a wrong size");
  return size;
}

function assertTransparency(data: Uint8Array, { colorType, samples }: PngHeader, paletteSize = 0): void {
  if (colorType === GRAY_ALPHA || colorType === RGB_ALPHA) throw misplaced("tRNS");
  const fits = colorType === PALETTE ? data.length <= paletteSize : data.length === 2 * samples;
  if (!fits) throw new PngFault("its tRNS has a wrong size");
}

const isCritical = (type: string): boolean => /^[A-Z]/.test(type);

const misplaced = (type: string): PngFault => new PngFault(`its chunk ${type} stands where none may be`);
