/** Checks that a PNG is whole and decodable, and whether a pixel of it is transparent, in the memory of two of its rows. */

import { crc32 } from "./crc32.ts";
import { assertPixels, faulty, type ImageBounds, type ImageFacts, mediaTypeOf } from "./image.ts";
import { assertCrc, CHUNK_COST_BYTES, type PngChunk, PngFault, type PngParts, readPngParts } from "./png-chunks.ts";
import { PngRows, type RowOptions } from "./png-rows.ts";
import { EventLoopYielder, type YieldOptions } from "./yield-to-event-loop.ts";

export interface PngFacts extends ImageFacts {
  readonly mediaType: "image/png";
  /** Whether at least one pixel is fully transparent (alpha zero), by an alpha channel or by tRNS; false where nobody asked. */
  readonly hasTransparency: boolean;
}

export interface PngOptions extends YieldOptions, RowOptions {}

/**
 * What a PNG is, when it is really one: its chunks are in order, their checksums right, and its pixel data inflates to
 * exactly the rows that its header tells. Throws `invalid_request` otherwise, and when it has too many pixels; the
 * signal's reason when that fires meanwhile.
 *
 * The platform inflates, away from the event loop where it can, piece by piece; at most two rows are ever held. So a small
 * file cannot unfold into gigabytes, and a large one does not keep others waiting.
 */
export async function inspectPng(bytes: Uint8Array, bounds: ImageBounds, options: PngOptions = {}): Promise<PngFacts> {
  if (mediaTypeOf(bytes) !== "image/png") throw faulty("The file is not a PNG image.", bounds);
  options.signal?.throwIfAborted();
  const yielder = new EventLoopYielder(options);
  try {
    const parts = await readPngParts(bytes, yielder);
    assertPixels(parts.header, bounds);
    const hasTransparency = await readRows(parts, yielder, options);
    const { width, height } = parts.header;
    return { mediaType: "image/png", width, height, hasTransparency };
  } catch (error) {
    if (error instanceof PngFault) throw faulty(`The file is not a valid PNG: ${error.message}.`, bounds, error);
    throw error;
  }
}

async function readRows(parts: PngParts, yielder: EventLoopYielder, options: PngOptions): Promise<boolean> {
  const { signal } = options;
  const rows = new PngRows(parts.header, parts.transparency, options);
  const source = new PixelData(parts.pixelData, yielder);
  const inflated = source.stream.pipeThrough(new DecompressionStream("deflate")).getReader();
  try {
    for (let step = await inflated.read(); !step.done; step = await inflated.read()) {
      signal?.throwIfAborted();
      await pushInSlices(rows, step.value, yielder);
    }
  } catch (error) {
    if (signal?.aborted || error instanceof PngFault) throw error;
    throw source.fault ?? new PngFault("its pixel data cannot be inflated", { cause: error });
  } finally {
    // Its outcome has no one left to hear it: what was inflated so far has been judged.
    inflated.cancel().then(ignore, ignore);
  }
  rows.end();
  return rows.hasTransparency;
}

/** How much inflated data is looked at before others are served, in bytes. */
const PIECE_BYTES = 1024 * 1024;

async function pushInSlices(rows: PngRows, bytes: Uint8Array, yielder: EventLoopYielder): Promise<void> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    const piece = bytes.subarray(at, at + PIECE_BYTES);
    rows.push(piece);
    if (yielder.isDue(piece.length)) await yielder.pause();
  }
}

const ignore = (): void => {};

/**
 * How much is inflated at once, in bytes. Deflate unfolds to 1032 times its size at most, so this bounds what one step can
 * bring on a platform that hands it over whole.
 */
const INFLATE_BYTES = 16 * 1024;

/** The compressed pixel data in slices, its checksums held. */
class PixelData {
  /** Why it broke off, which a stream on the way may have replaced by words of its own. */
  fault: unknown;
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;

  constructor(chunks: Iterable<PngChunk>, yielder: EventLoopYielder) {
    const slices = slicesOf(chunks, yielder);
    this.stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: async (controller) => {
        try {
          const { done, value } = await slices.next();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          this.fault = error;
          throw error;
        }
      },
    });
  }
}

async function* slicesOf(
  chunks: Iterable<PngChunk>,
  yielder: EventLoopYielder,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  for (const chunk of chunks) {
    let crc = crc32(chunk.checked.subarray(0, 4));
    for (let at = 0; at < chunk.data.length; at += INFLATE_BYTES) {
      // A copy, because a stream may take the buffer of what it is given for its own.
      const slice = chunk.data.slice(at, at + INFLATE_BYTES);
      crc = crc32(slice, crc);
      yield slice;
    }
    assertCrc(chunk, crc);
    if (yielder.isDue(CHUNK_COST_BYTES)) await yielder.pause();
  }
}
