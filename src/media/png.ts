/**
 * Checks that a PNG is whole and decodable, and looks for a transparent pixel.
 *
 * The packages for this keep the whole bitmap in memory: for 8,192 × 8,192 pixels in 255 KB, fast-png 8 and pngjs 7 take 1.1 GB and block
 * the event loop for 4.3 s and 1.4 s. This code keeps only two rows in memory. The process stays at 110 MB, and the work takes 0.5 s, in
 * steps of some 10 ms.
 */

import { EventLoopYielder, type YieldOptions } from "../ports/clock.ts";
import { assertPixels, faulty, type ImageBounds, type ImageFacts, mediaTypeOf } from "./picture.ts";
import { COLOR_TYPES, ColorType, PngFault, type PngHeader, PngRows } from "./png-rows.ts";

export interface PngFacts extends ImageFacts {
  readonly mediaType: "image/png";
  /** True if a pixel is fully transparent (alpha zero), by an alpha channel or by tRNS. Always false without `seekTransparency`. */
  readonly hasTransparency: boolean;
}

export interface PngOptions extends YieldOptions {
  /**
   * True to look for a transparent pixel. The filter of each row is then undone, byte by byte. Otherwise only one byte of each row is
   * checked.
   */
  readonly seekTransparency?: boolean;
}

/**
 * Inspects a PNG: its chunks must be in order, their checksums right, and its pixel data must inflate to exactly the rows of its header.
 * The platform inflates the data piece by piece, outside the event loop if it can. A small file therefore cannot fill gigabytes of memory,
 * and a large file does not delay other calls.
 *
 * @throws GatewayError `invalid_request` for a PNG that is not valid or has too many pixels; the signal's reason when the signal fires.
 */
export async function inspectPng(bytes: Uint8Array, bounds: ImageBounds, options: PngOptions = {}): Promise<PngFacts> {
  if (mediaTypeOf(bytes) !== "image/png") throw faulty("The file is not a PNG image.", bounds);
  const { signal, seekTransparency = false } = options;
  signal?.throwIfAborted();
  const yielder = new EventLoopYielder(options);
  try {
    const { header, transparency, pixelsAt } = await readChunks(bytes, yielder);
    assertPixels(header, bounds);
    const rows = new PngRows(header, transparency, seekTransparency);
    await inflateRows(chunksIn(bytes, pixelsAt), rows, yielder, signal);
    rows.end();
    return {
      mediaType: "image/png",
      width: header.width,
      height: header.height,
      hasTransparency: rows.hasTransparency,
    };
  } catch (error) {
    if (error instanceof PngFault) throw faulty(`The file is not a valid PNG: ${error.message}.`, bounds, error);
    throw error;
  }
}

interface Chunk {
  /** The offset of the chunk in the file, in bytes. */
  readonly at: number;
  readonly type: string;
  readonly data: Uint8Array;
  /** The type and the data, which the checksum covers. */
  readonly checked: Uint8Array;
  readonly crc: number;
}

const SIGNATURE_BYTES = 8;

/**
 * The most chunks of a file: 1,000, and one more for each KiB. Encoders write chunks of 8 KiB and larger, some of them one row at a time.
 * Without a limit, a file of empty chunks would keep the gateway busy for seconds.
 */
const MAX_CHUNKS = 1_000;
const BYTES_A_CHUNK = 1024;

/** The time for reading one chunk, as the number of bytes that can be read in the same time. */
const CHUNK_COST_BYTES = 1024;

/** The bytes of a chunk that are added to its checksum before the event loop may serve other work. */
const CHECKED_BYTES = 64 * 1024;

/** Yields the chunks of a file from an offset on. Does not verify checksums. */
function* chunksIn(bytes: Uint8Array, from: number = SIGNATURE_BYTES): Generator<Chunk> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const most = MAX_CHUNKS + Math.floor(bytes.length / BYTES_A_CHUNK);
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

interface PngParts {
  readonly header: PngHeader;
  /** The data of the tRNS chunk: the alpha values of the palette, or the samples of the transparent colour. */
  readonly transparency: Uint8Array | undefined;
  /** The offset of the first IDAT chunk. */
  readonly pixelsAt: number;
}

/**
 * Reads all chunks except the pixel data, and verifies their order, sizes and checksums. The memory does not grow with the number of
 * chunks. Bytes after the last chunk are allowed, as in other decoders. Throws a PngFault.
 */
async function readChunks(bytes: Uint8Array, yielder: EventLoopYielder): Promise<PngParts> {
  let header: PngHeader | undefined;
  let paletteSize: number | undefined;
  let transparency: Uint8Array | undefined;
  let pixelsAt: number | undefined;
  let last = "";
  for (const chunk of chunksIn(bytes)) {
    const { type, data } = chunk;
    if (yielder.isDue(CHUNK_COST_BYTES)) await yielder.pause();
    // The checksum of an IDAT chunk is verified while the chunk is inflated.
    if (type !== "IDAT") await verifyChecksum(chunk, yielder);
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
      if (header.colorType === ColorType.palette && paletteSize === undefined) throw new PngFault("it has no palette");
      pixelsAt ??= chunk.at;
    } else if (type === "IEND") {
      if (pixelsAt === undefined) throw new PngFault("it has no pixel data");
      return { header, transparency, pixelsAt };
    } else if (/^[A-Z]/.test(type)) throw new PngFault(`its chunk ${type} is unknown`);
    last = type;
  }
  throw new PngFault("it ends before its last chunk");
}

async function verifyChecksum(chunk: Chunk, yielder: EventLoopYielder): Promise<void> {
  let crc = 0;
  for (let at = 0; at < chunk.checked.length; at += CHECKED_BYTES) {
    const piece = chunk.checked.subarray(at, at + CHECKED_BYTES);
    crc = crc32(piece, crc);
    if (yielder.isDue(piece.length)) await yielder.pause();
  }
  if (crc !== chunk.crc) throw wrongChecksum(chunk);
}

const CRC_TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

/** Returns the CRC-32 of bytes, as an unsigned integer. To continue a checksum, pass the checksum of the bytes before them. */
function crc32(bytes: Uint8Array, before = 0): number {
  let crc = ~before;
  // Loop with an index: an iterator would take five times as long.
  for (let at = 0; at < bytes.length; at++) crc = (CRC_TABLE[(crc ^ (bytes[at] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8);
  return ~crc >>> 0;
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
  if (colorType === ColorType.gray || colorType === ColorType.grayAlpha) throw misplaced("PLTE");
  if (!Number.isInteger(size) || size < 1 || size > (colorType === ColorType.palette ? 2 ** depth : 256))
    throw new PngFault("its palette has a wrong size");
  return size;
}

function assertTransparency(data: Uint8Array, { colorType, samples }: PngHeader, paletteSize = 0): void {
  if (colorType === ColorType.grayAlpha || colorType === ColorType.rgbAlpha) throw misplaced("tRNS");
  const fits = colorType === ColorType.palette ? data.length <= paletteSize : data.length === 2 * samples;
  if (!fits) throw new PngFault("its tRNS has a wrong size");
}

const misplaced = (type: string): PngFault => new PngFault(`its chunk ${type} stands where none may be`);
const wrongChecksum = ({ type }: Chunk): PngFault => new PngFault(`the checksum of its chunk ${type} is wrong`);

/** The inflated bytes that are checked before the event loop may serve other work. */
const ROW_BYTES = 1024 * 1024;

/** Inflates the pixel data of the IDAT chunks, and passes it to `rows`. Throws a PngFault, or the signal's reason. */
async function inflateRows(
  chunks: Generator<Chunk>,
  rows: PngRows,
  yielder: EventLoopYielder,
  signal: AbortSignal | undefined,
): Promise<void> {
  let fault: unknown;
  const slices = compressedSlices(chunks, yielder);
  const compressed = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const { done, value } = await slices.next();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        // Keep this error: the inflating stream may replace it with its own.
        fault = error;
        throw error;
      }
    },
  });
  const inflated = compressed.pipeThrough(new DecompressionStream("deflate")).getReader();
  try {
    for (let step = await inflated.read(); !step.done; step = await inflated.read()) {
      signal?.throwIfAborted();
      for (let at = 0; at < step.value.length; at += ROW_BYTES) {
        const piece = step.value.subarray(at, at + ROW_BYTES);
        rows.push(piece);
        if (yielder.isDue(piece.length)) await yielder.pause();
      }
    }
  } catch (error) {
    if (signal?.aborted || error instanceof PngFault) throw error;
    throw fault ?? new PngFault("its pixel data cannot be inflated", { cause: error });
  } finally {
    // Ignore errors of the cancellation: only the data read so far counts.
    inflated.cancel().catch(() => {});
  }
}

/**
 * The compressed bytes that are inflated at once. Deflate expands data to at most 1,032 times its size. This limits the output of one step,
 * also on a platform that returns all output of a step together.
 */
const INFLATE_BYTES = 16 * 1024;

async function* compressedSlices(
  chunks: Generator<Chunk>,
  yielder: EventLoopYielder,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  for (const chunk of chunks) {
    if (chunk.type !== "IDAT") return;
    let crc = crc32(chunk.checked.subarray(0, 4));
    for (let at = 0; at < chunk.data.length; at += INFLATE_BYTES) {
      // Copy the slice: a stream may detach the buffer that it gets.
      const slice = chunk.data.slice(at, at + INFLATE_BYTES);
      crc = crc32(slice, crc);
      yield slice;
    }
    if (crc !== chunk.crc) throw wrongChecksum(chunk);
    if (yielder.isDue(CHUNK_COST_BYTES)) await yielder.pause();
  }
}
