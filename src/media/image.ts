/** Tells what an uploaded image is, from its first bytes and without decoding it. */

import { imageMeta } from "image-meta";
import { GatewayError } from "../errors.ts";
import type { ImageMediaType } from "../model/image.ts";
import { readJpegSize } from "./jpeg.ts";
import type { ImageSize } from "./size.ts";
import { assertWholeWebp } from "./webp.ts";

/** The longest side that an image may have, in pixels: what a JPEG can say, and a bound for one row in memory. */
const MAX_SIDE_PIXELS = 65_535;

/** What an image is held to. */
export interface ImageBounds {
  /** The most pixels (width × height) that it may unfold into. */
  readonly maxPixels: number;
  /** The field that it was sent in, for the error. */
  readonly path?: readonly (string | number)[];
}

export interface ImageFacts extends ImageSize {
  readonly mediaType: ImageMediaType;
}

/**
 * The format and size of an image. Its name and declared type are never asked. Throws `invalid_request` for bytes that are
 * no PNG, WEBP or JPEG image, that tell no size, that break off (JPEG, WEBP), or that would unfold into too many pixels.
 *
 * This reads headers only, and no pixels: a PNG that must be whole is for `inspectPng` to read.
 */
export function probeImage(bytes: Uint8Array, bounds: ImageBounds): ImageFacts {
  const mediaType = mediaTypeOf(bytes);
  if (!mediaType) throw faulty("The file is not a PNG, WEBP or JPEG image.", bounds);
  let size: ImageSize;
  try {
    size = sizeOf(bytes, mediaType);
  } catch (cause) {
    throw faulty("The file is a broken image: its size cannot be read, or it breaks off.", bounds, cause);
  }
  assertPixels(size, bounds);
  return { mediaType, ...size };
}

/** The format whose magic bytes these are. */
export function mediaTypeOf(bytes: Uint8Array): ImageMediaType | undefined {
  const head = String.fromCharCode(...bytes.subarray(0, 12));
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  return head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : undefined;
}

/** Where a PNG or WEBP tells its size, in bytes. Nothing more is shown to who reads it: no file may keep it busy. */
const HEAD_BYTES = 64;

/** Throws an error of whatever kind for a file whose headers say no size, or a JPEG or WEBP that breaks off. */
function sizeOf(bytes: Uint8Array, mediaType: ImageMediaType): ImageSize {
  if (mediaType === "image/jpeg") return readJpegSize(bytes);
  const { type, width, height } = imageMeta(bytes.subarray(0, HEAD_BYTES));
  if (mediaType === "image/webp") assertWholeWebp(bytes);
  if (`image/${type}` !== mediaType || height < 1) throw new RangeError(`No size of ${mediaType}`);
  return { width, height };
}

/** Throws `invalid_request` when an image of this size is larger than it may be. */
export function assertPixels({ width, height }: ImageSize, bounds: ImageBounds): void {
  if (Math.max(width, height) > MAX_SIDE_PIXELS)
    throw faulty(`The image has a side of more than ${MAX_SIDE_PIXELS} pixels: ${width} × ${height}.`, bounds);
  if (width * height > bounds.maxPixels)
    throw faulty(`The image has ${width} × ${height} pixels; at most ${bounds.maxPixels} are allowed.`, bounds);
}

/** The error of a file that is not the image it should be. */
export const faulty = (message: string, { path = [] }: ImageBounds, cause?: unknown): GatewayError =>
  new GatewayError("invalid_request", path.length > 0 ? `${path.join(".")}: ${message}` : message, { path, cause });
