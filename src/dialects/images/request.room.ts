/** How many bytes the images of a request can take, so that room is booked for them before they are drawn. */

import type { ImageRequest } from "../../model/image.ts";
import type { OperationProfile } from "./schema.profiles.ts";

/** Red, green, blue and alpha: an image format that makes them more is none. */
const BYTES_A_PIXEL = 4;
/** What a file has beside its pixels. */
const HEADER_BYTES = 64 * 1024;
/** Of a host's own model whose sizes are none in pixels. */
const UNKNOWN_PIXELS = 1024 * 1024;

/** The most bytes that all images of a request take together. Where the backend chooses the size, the model's largest. */
export function mostImageBytes(
  { size, count }: Pick<ImageRequest, "size" | "count">,
  { sizes }: OperationProfile,
): number {
  const pixels = pixelsOf(size) ?? Math.max(0, ...sizes.map((each) => pixelsOf(each) ?? 0));
  return count * (BYTES_A_PIXEL * (pixels || UNKNOWN_PIXELS) + HEADER_BYTES);
}

function pixelsOf(size: string): number | undefined {
  const [, width, height] = /^(\d{1,5})x(\d{1,5})$/.exec(size) ?? [];
  return width === undefined ? undefined : Number(width) * Number(height);
}
