/**
 * Tells the format and the size of a picture by its first bytes, without decoding a pixel.
 *
 * image-dimensions reads the sizes of PNG and WEBP. The walk through a JPEG is our own: image-dimensions copies the whole file first, and
 * does not notice a file that breaks off.
 */

import { imageDimensionsFromData } from "image-dimensions";
import { type FieldPath, GatewayError } from "../errors.ts";

/** The types of the pictures whose sizes are read. */
type PictureType = "image/png" | "image/jpeg" | "image/webp";

/** A size in pixels, as stored. The orientation in the metadata of a camera is ignored. */
export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

export interface ImageFacts extends ImageSize {
  readonly mediaType: PictureType;
}

export interface ImageBounds {
  /** The most pixels (width × height). */
  readonly maxPixels: number;
  /** The path of the picture's field in the request, for the error. */
  readonly path?: FieldPath;
}

/** The longest side of a picture, in pixels. A JPEG cannot have a longer side. This also limits the memory for one row. */
const MAX_SIDE_PIXELS = 65_535;

/**
 * The bytes at the beginning of a PNG or WEBP that image-dimensions receives. They contain the size. No file can cause more work than they do.
 */
const HEAD_BYTES = 64;

/**
 * Returns the format and size of a picture. File names and declared types are ignored. Reads only headers; `inspectPng` checks the pixels
 * of a PNG.
 *
 * @throws GatewayError `invalid_request` for bytes that are not PNG, WEBP or JPEG, for a header without a size, for a JPEG or WEBP that
 * breaks off, and for too many pixels.
 */
export function probeImage(bytes: Uint8Array, bounds: ImageBounds): ImageFacts {
  const mediaType = mediaTypeOf(bytes);
  if (!mediaType) throw faulty("The file is not a PNG, WEBP or JPEG image.", bounds);
  let size: ImageSize;
  try {
    size = mediaType === "image/jpeg" ? jpegSize(bytes) : headerSize(bytes, mediaType);
  } catch (cause) {
    throw faulty("The file is a broken image: its size cannot be read, or it breaks off.", bounds, cause);
  }
  assertPixels(size, bounds);
  return { mediaType, ...size };
}

/** Returns the format by the magic bytes; undefined for other formats. */
export function mediaTypeOf(bytes: Uint8Array): PictureType | undefined {
  const head = String.fromCharCode(...bytes.subarray(0, 12));
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  return head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : undefined;
}

/** Throws `invalid_request` if a picture of this size has too many pixels, or too long a side. */
export function assertPixels({ width, height }: ImageSize, bounds: ImageBounds): void {
  if (Math.max(width, height) > MAX_SIDE_PIXELS)
    throw faulty(`The image has a side of more than ${MAX_SIDE_PIXELS} pixels: ${width} × ${height}.`, bounds);
  if (width * height > bounds.maxPixels)
    throw faulty(`The image has ${width} × ${height} pixels; at most ${bounds.maxPixels} are allowed.`, bounds);
}

/** Makes the error `invalid_request` for a picture that is broken or not allowed. */
export const faulty = (message: string, { path = [] }: ImageBounds, cause?: unknown): GatewayError =>
  new GatewayError("invalid_request", path.length > 0 ? `${path.join(".")}: ${message}` : message, { path, cause });

/** Reads the size of a PNG or WEBP. Throws any error for a header without a size, and for a WEBP that breaks off. */
function headerSize(bytes: Uint8Array, mediaType: PictureType): ImageSize {
  const { type, width, height } = imageDimensionsFromData(bytes.subarray(0, HEAD_BYTES)) ?? { width: 0, height: 0 };
  if (mediaType === "image/webp") assertWholeWebp(bytes);
  if (`image/${type}` !== mediaType || width < 1 || height < 1) throw new RangeError(`No size of ${mediaType}`);
  return { width, height };
}

const RIFF_HEADER_BYTES = 12;
const CHUNK_HEADER_BYTES = 8;

/** The types of WEBP chunks that hold pixels, of a still picture or of one frame of an animation. */
const WEBP_PIXELS: ReadonlySet<string> = new Set(["VP8 ", "VP8L", "ANMF"]);

/** The most chunks before the pixels. Usual files have up to three: a colour profile, the animation's header and alpha. */
const MAX_WEBP_CHUNKS = 1_000;

/** Throws a RangeError for a WEBP that breaks off or has no pixels (RFC 9649, section 2). Trailing bytes are allowed. */
function assertWholeWebp(bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = CHUNK_HEADER_BYTES + view.getUint32(4, true);
  if (end > bytes.length) throw new RangeError("The file is shorter than its header says");
  let at = RIFF_HEADER_BYTES;
  for (let count = 0; count < MAX_WEBP_CHUNKS && at + CHUNK_HEADER_BYTES <= end; count++) {
    const type = String.fromCharCode(...bytes.subarray(at, at + 4));
    const length = view.getUint32(at + 4, true);
    at += CHUNK_HEADER_BYTES + length;
    if (at > end) throw new RangeError("A chunk is longer than the file");
    if (WEBP_PIXELS.has(type) && length > 0) return;
    // Chunks begin at even offsets.
    at += length % 2;
  }
  throw new RangeError("The file has no pixels");
}

const FILL = 0xff;
const START_OF_IMAGE = 0xd8;
const END_OF_IMAGE = 0xd9;
const START_OF_SCAN = 0xda;

/** The JPEG markers without a length: a stuffed byte, TEM, and the restart markers. */
const ALONE: ReadonlySet<number> = new Set([0x00, 0x01, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7]);

/** The JPEG frames that decoders know: sequential and progressive, Huffman and arithmetic. */
const START_OF_FRAME: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2, 0xc3, 0xc9, 0xca, 0xcb]);

/**
 * The most markers before the pixels, fill bytes included. A colour profile takes up to 255 segments of 64 KiB. No real picture has this
 * many small segments, and reading them costs time.
 */
const MAX_MARKERS = 5_000;
const MAX_MARKERS_OF_HEAD = 1_000;

/**
 * Reads the size of a JPEG (ITU-T T.81, annex B). Bytes between segments are skipped, as decoders do. Throws a RangeError for a file
 * without a size, and for a file that breaks off.
 *
 * @param isHead True if `bytes` are only the beginning of a file. The size is then returned as soon as it is known.
 */
export function jpegSize(bytes: Uint8Array, isHead = false): ImageSize {
  const maxMarkers = isHead ? MAX_MARKERS_OF_HEAD : MAX_MARKERS;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let size: ImageSize | undefined;
  let at = 2;
  for (let count = 0; count < maxMarkers; count++) {
    if (bytes[at] !== 0xff) at = bytes.indexOf(0xff, at);
    if (at < 0 || at + 4 > bytes.length) throw new RangeError("The file ends before its scan");
    const marker = view.getUint8(at + 1);
    if (marker === FILL) {
      at += 1;
      continue;
    }
    if (ALONE.has(marker)) {
      at += 2;
      continue;
    }
    if (marker === START_OF_IMAGE || marker === END_OF_IMAGE)
      throw new RangeError("A second image begins, or the first one ends");
    const length = view.getUint16(at + 2);
    const end = at + 2 + length;
    if (length < 2 || end > bytes.length) throw new RangeError("A segment has a wrong length");
    if (START_OF_FRAME.has(marker) && !size) {
      if (length < 8) throw new RangeError("The frame has a wrong length");
      size = { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
      // A height of 0 means that the height follows the first scan. Common decoders do not support this.
      if (size.width === 0 || size.height === 0) throw new RangeError("The frame has no pixels");
      if (isHead) return size;
    }
    if (marker === START_OF_SCAN) {
      if (!size) throw new RangeError("The scan comes before the frame");
      if (!hasEnd(bytes, end)) throw new RangeError("The scan has no end");
      return size;
    }
    at = end;
  }
  throw new RangeError(`There are more than ${maxMarkers} markers`);
}

/**
 * Tells whether the end marker follows the start of the first scan; pixels cannot contain that marker. Some cameras append a video, so the
 * whole file is searched. The search runs backwards, because the marker usually ends the file.
 */
function hasEnd(bytes: Uint8Array, from: number): boolean {
  // Look at every other byte: each is the first byte of the marker, the second, or neither.
  for (let at = bytes.length - 1; at >= from; at -= 2) {
    const byte = bytes[at];
    if (byte === END_OF_IMAGE && at > from && bytes[at - 1] === 0xff) return true;
    if (byte === 0xff && bytes[at + 1] === END_OF_IMAGE) return true;
  }
  return false;
}
