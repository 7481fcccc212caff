/** Walks through the segments of a JPEG for its size, and sees whether its pixels are all there (ITU-T T.81, annex B). */

import type { ImageSize } from "./size.ts";

/** A segment with parameters. */
interface Segment {
  readonly marker: number;
  /** Where its parameters begin and end in the file, in bytes. */
  readonly start: number;
  readonly end: number;
}

const FILL = 0xff;
const TEMPORARY = 0x01;
const RESTART = [0xd0, 0xd7] as const;
const START_OF_IMAGE = 0xd8;
const END_OF_IMAGE = 0xd9;
const START_OF_SCAN = 0xda;

/** The frames that decoders know: sequential and progressive, Huffman and arithmetic. */
const START_OF_FRAME: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2, 0xc3, 0xc9, 0xca, 0xcb]);

/**
 * The most markers before the pixels, the bytes counted that fill up before them. A colour profile alone may take 255
 * segments of 64 KiB; what comes in many small ones only keeps everyone busy who reads it.
 */
const MAX_MARKERS = 5_000;

/** The size of a file that begins as a JPEG does. Throws a RangeError for one that tells none, or that breaks off. */
export function readJpegSize(bytes: Uint8Array): ImageSize {
  let size: ImageSize | undefined;
  for (const { marker, start, end } of segmentsIn(bytes)) {
    if (START_OF_FRAME.has(marker)) size ??= readFrame(bytes.subarray(start, end));
    if (marker !== START_OF_SCAN) continue;
    if (!size) throw new RangeError("The scan comes before the frame");
    if (!hasEnd(bytes, end)) throw new RangeError("The scan has no end");
    return size;
  }
  throw new RangeError("The file ends before its scan");
}

/** The most markers before the size of a JPEG that is only estimated. */
const MOST_EARLY_MARKERS = 1_000;

/** Returns the size that the beginning of a JPEG tells, or undefined where it tells none so early. */
export function findJpegSize(head: Uint8Array): ImageSize | undefined {
  try {
    for (const { marker, start, end } of segmentsIn(head, MOST_EARLY_MARKERS))
      if (START_OF_FRAME.has(marker)) return readFrame(head.subarray(start, end));
  } catch {
    // The head ends within a segment, or is none.
  }
  return undefined;
}

/**
 * Whether the image ends somewhere after its first scan has begun, whose pixels cannot spell that marker. Cameras append
 * whole videos, so all of the file is searched, from its end, where the marker mostly is.
 */
function hasEnd(bytes: Uint8Array, from: number): boolean {
  // Every other byte: each is the marker's first, its second, or neither.
  for (let at = bytes.length - 1; at >= from; at -= 2) {
    const byte = bytes[at];
    if (byte === END_OF_IMAGE && at > from && bytes[at - 1] === 0xff) return true;
    if (byte === 0xff && bytes[at + 1] === END_OF_IMAGE) return true;
  }
  return false;
}

/** The segments of a file up to its pixels. As in every decoder, bytes between them are passed over. */
function* segmentsIn(bytes: Uint8Array, mostMarkers = MAX_MARKERS): Generator<Segment> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 2;
  for (let count = 0; count < mostMarkers; count++) {
    if (bytes[at] !== 0xff) at = bytes.indexOf(0xff, at);
    if (at < 0 || at + 4 > bytes.length) return;
    const marker = view.getUint8(at + 1);
    if (marker === START_OF_IMAGE || marker === END_OF_IMAGE) throw new RangeError("A second image begins, or none");
    if (marker === FILL) at += 1;
    else if (standsAlone(marker)) at += 2;
    else {
      const length = view.getUint16(at + 2);
      const end = at + 2 + length;
      if (length < 2 || end > bytes.length) throw new RangeError("A segment has a wrong length");
      yield { marker, start: at + 4, end };
      at = end;
    }
  }
  throw new RangeError(`There are more than ${mostMarkers} markers`);
}

const standsAlone = (marker: number): boolean =>
  marker === 0 || marker === TEMPORARY || (marker >= RESTART[0] && marker <= RESTART[1]);

function readFrame(data: Uint8Array): ImageSize {
  if (data.length < 6) throw new RangeError("The frame has a wrong length");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const size = { width: view.getUint16(3), height: view.getUint16(1) };
  // A height that only follows the first scan is seen by no common decoder.
  if (size.width === 0 || size.height === 0) throw new RangeError("The frame has no pixels");
  return size;
}
