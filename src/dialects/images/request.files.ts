/** The files of an image request (spec 2.2, 2.3, 8): first what their headers say, later whether their pixels keep it. */

import { GatewayError } from "../../errors.ts";
import type { UploadedFile } from "../../http/form.ts";
import { type ImageFacts, probeImage } from "../../media/image.ts";
import { inspectPng } from "../../media/png.ts";
import { EventLoopYielder } from "../../media/yield-to-event-loop.ts";
import type { ImageFile, ImageRequest } from "../../model/image.ts";
import type { FileProfile, OperationProfile } from "./schema.profiles.ts";

/** The files of a form. */
export interface FormFiles {
  readonly images: readonly UploadedFile[];
  readonly mask: UploadedFile | undefined;
}

/** What files are held to beside the rules of their model. */
export interface FileLimits {
  /** The most pixels that a picture may have. */
  readonly maxPixels: number;
  /** The most pixels that all PNGs together may have. */
  readonly maxPngPixels: number;
  /** Fires when nobody waits for the request any more. */
  readonly signal: AbortSignal;
}

type Path = readonly (string | number)[];

/**
 * Files by what their own headers say: format, size and shape. No pixel is unfolded, so this costs little for any file.
 * Throws `invalid_request` or `body_too_large`, with the field as its `path`.
 */
export async function readFiles(
  { images, mask }: FormFiles,
  rules: OperationProfile,
  limits: FileLimits,
): Promise<{ images: ImageFile[]; mask?: ImageFile }> {
  const { originals } = rules;
  if (!originals) return { images: [] };
  if (images.length === 0) throw invalid("image", "is required");
  const budget = new PngBudget(limits.maxPngPixels);
  const yielder = new EventLoopYielder(limits);
  const read: ImageFile[] = [];
  for (const [index, image] of images.entries()) {
    read.push(readFile(image, originals, imagePath(index, images.length), limits, budget));
    if (yielder.isDue(image.bytes.length)) await yielder.pause();
  }
  const [first] = read;
  if (!mask || !rules.mask || !first) return { images: read };
  const readMask = readFile(mask, rules.mask, ["mask"], limits, budget);
  assertMaskSize(readMask, first);
  return { images: read, mask: readMask };
}

/**
 * Unfolds the PNGs of a request: each must be whole, and one that is its own mask transparent somewhere. This is by far the
 * most work that a request makes; all else should be settled before. Throws `invalid_request`, with the field as its `path`.
 */
export async function inspectFiles(
  { images, mask }: ImageRequest,
  { originals }: OperationProfile,
  { maxPixels, signal }: FileLimits,
): Promise<void> {
  if (!originals) return;
  // One after another: each may unfold into as many bytes as it has pixels.
  for (const [index, { bytes, mediaType }] of images.entries()) {
    const path = imagePath(index, images.length);
    const seekTransparency = index === 0 && originals.transparentUnlessMasked && !mask;
    const isPng = mediaType === "image/png";
    const facts = isPng && (await inspectPng(bytes, { path, maxPixels }, { signal, seekTransparency }));
    if (seekTransparency && !(facts && facts.hasTransparency))
      throw invalid("image", "must have transparent areas, which are to be edited, where no mask is sent");
  }
  if (mask) await inspectPng(mask.bytes, { path: ["mask"], maxPixels }, { signal });
}

/** What all PNGs of a form may unfold into together, because each of them is work that its few bytes do not show. */
class PngBudget {
  readonly #maxPixels: number;
  #pixels = 0;

  constructor(maxPixels: number) {
    this.#maxPixels = maxPixels;
  }

  take({ width, height }: ImageFacts, path: Path): void {
    this.#pixels += width * height;
    if (this.#pixels <= this.#maxPixels) return;
    throw invalid(
      path,
      `The PNGs of a form may have ${this.#maxPixels} pixels together, and have more up to this one.`,
    );
  }
}

function readFile(
  { bytes, name }: UploadedFile,
  rules: FileProfile,
  path: Path,
  { maxPixels }: FileLimits,
  budget: PngBudget,
): ImageFile {
  if (bytes.length >= rules.belowBytes)
    throw new GatewayError("body_too_large", `${path.join(".")}: must be smaller than ${rules.belowBytes} bytes`, {
      path,
    });
  const facts = probeImage(bytes, { path, maxPixels });
  const { mediaType, width, height } = facts;
  if (!rules.formats.includes(mediaType)) {
    const formats = rules.formats.map((format) => format.replace("image/", "").toUpperCase());
    throw invalid(path, `must be a ${formats.join(", ")} file`);
  }
  if (rules.square && width !== height) throw invalid(path, `must be square, not ${width} × ${height} pixels`);
  if (mediaType === "image/png") budget.take(facts, path);
  return { bytes, mediaType, width, height, ...(name !== undefined && { name }) };
}

function assertMaskSize(mask: ImageFile, image: ImageFile): void {
  if (mask.width !== image.width || mask.height !== image.height)
    throw invalid(
      "mask",
      `must be as large as the image, ${image.width} × ${image.height} pixels, not ${mask.width} × ${mask.height}`,
    );
}

/** The field that an image was sent in, with its number where there are several. */
const imagePath = (index: number, count: number): Path => (count > 1 ? ["image", index] : ["image"]);

/** The error of a field with a wrong value. */
export function invalid(field: string | Path, message: string): GatewayError {
  const path = typeof field === "string" ? [field] : field;
  return new GatewayError("invalid_request", `${path.join(".")}: ${message}`, { path });
}
