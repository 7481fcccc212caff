/** Draws the demo's images with the package sharp. Equal requests get equal images, and different requests get different images. */

import sharp, { type Sharp } from "sharp";
import type { ImageMediaType } from "../index.ts";
import { chanceOf, sceneOf, type Size, sizeOf, USUAL_SIZE } from "./scene.ts";

/** The size and the file format of an image. */
export interface Finish {
  /** A size such as `1024x1024`. Default, also for `auto`: the size of the first image, or 1024 × 1024 without images. */
  readonly size?: string;
  /** Default: PNG. */
  readonly outputFormat?: ImageMediaType;
  /** The quality of a JPEG or WEBP file, from 0 to 100. Default: 100. */
  readonly outputCompression?: number;
}

export interface Drawing extends Finish {
  readonly prompt: string;
  readonly quality?: string;
  readonly style?: string;
  /** `transparent` leaves out the sky behind the scene. */
  readonly background?: string;
  /** The number of this image in its request, from 0. */
  readonly index: number;
}

export interface Editing extends Drawing {
  /** The image to edit, and then images to show in the painted area. */
  readonly images: readonly [Uint8Array, ...Uint8Array[]];
  /** A PNG of the first image's size. Its fully transparent pixels mark the area to paint. */
  readonly mask?: Uint8Array;
}

export interface Varying extends Finish {
  readonly image: Uint8Array;
  readonly index: number;
}

interface Pixels extends Size {
  /** Four bytes for each pixel: red, green, blue and alpha. */
  readonly data: Buffer;
}

/** Draws a new image that shows the prompt as text. */
export async function draw(drawing: Drawing): Promise<Uint8Array> {
  const size = sizeOf(drawing.size) ?? USUAL_SIZE;
  return finished(scene(drawing, size), size, drawing);
}

/**
 * Paints over the first image where the mask is fully transparent, or the image itself if there is no mask. All other pixels are
 * copied from the image. Draws a new image that shows all given images if neither a mask nor a transparent pixel exists.
 */
export async function edit(editing: Editing): Promise<Uint8Array> {
  const { images, mask } = editing;
  const [first, ...others] = images;
  const original = await pixelsOf(first);
  const marked = mask ? await pixelsOf(mask) : original;
  if (marked.width !== original.width || marked.height !== original.height)
    throw new RangeError("The mask must have the size of the image that it is for.");
  const size = sizeOf(editing.size) ?? original;
  if (!mask && !hasTransparentPixel(original)) return finished(await collage(editing, images, size), size, editing);

  const image = scaled(original, size);
  const holes = scaled(marked, size);
  const paint = await pixelsOf(await (await collage(editing, others, size)).png(INTERMEDIATE_PNG).toBuffer());
  for (let alpha = 3; alpha < image.data.length; alpha += 4)
    if (holes.data[alpha] === 0) paint.data.copy(image.data, alpha - 3, alpha - 3, alpha + 1);
  return finished(sharp(image.data, { raw: { ...dimensions(image), channels: 4 } }), size, editing);
}

/** Recolours an image. Each index gives another result. */
export async function vary({ image, index, ...finish }: Varying): Promise<Uint8Array> {
  const own = await pixelsOf(image);
  const size = sizeOf(finish.size) ?? own;
  const chance = chanceOf(own.data, index);
  const veil = sceneOf({ prompt: "", ...dimensions(own), index: Math.floor(chance() * 2 ** 32), isTransparent: true });
  const turned = sharp(own.data, { raw: { ...dimensions(own), channels: 4 } })
    .modulate({ hue: 30 + Math.floor(chance() * 300), saturation: 0.8 + 0.6 * chance() })
    .flop(index % 2 === 0);
  const base = await turned.png(INTERMEDIATE_PNG).toBuffer();
  return finished(sharp(base).composite([{ input: Buffer.from(veil), blend: "soft-light" }]), size, finish);
}

/** Blurs an image as if it were unfinished. `share` is the finished part, from 0 to 1: a smaller share is more blurred. */
export async function unfinished(image: Uint8Array, share: number, finish: Finish = {}): Promise<Uint8Array> {
  return encoded(sharp(image).blur(1 + 40 * (1 - share)), finish);
}

/** Tells whether all pixels of an image can be decoded. Its headers alone cannot show that. */
export async function isReadable(image: Uint8Array): Promise<boolean> {
  try {
    await pixelsOf(image);
    return true;
  } catch {
    return false;
  }
}

const scene = ({ prompt, quality, style, background, index }: Drawing, size: Size): Sharp =>
  sharp(
    Buffer.from(
      sceneOf({
        prompt,
        ...dimensions(size),
        index,
        isTransparent: background === "transparent",
        ...(quality !== undefined && { quality }),
        ...(style !== undefined && { style }),
      }),
    ),
  );

/** Draws a scene with images side by side on it. */
async function collage(drawing: Drawing, images: readonly Uint8Array[], size: Size): Promise<Sharp> {
  const side = Math.max(1, Math.floor((0.8 * size.width) / Math.max(2, images.length)));
  const room = { width: side, height: Math.max(1, Math.floor(size.height * 0.3)) };
  const left = Math.floor((size.width - side * images.length) / 2);
  const shown = await Promise.all(
    images.map(async (image, index) => ({
      input: await sharp(image)
        .resize({ ...room, fit: "inside" })
        .png(INTERMEDIATE_PNG)
        .toBuffer(),
      left: left + index * side,
      top: Math.floor(size.height * 0.05),
    })),
  );
  return scene(drawing, size).composite(shown);
}

/** Decodes the pixels as they are stored. Applies neither a colour profile nor a rotation, so that an edit keeps the other pixels unchanged. */
async function pixelsOf(image: Uint8Array): Promise<Pixels> {
  const { data, info } = await sharp(image, { ignoreIcc: true })
    .toColourspace("srgb")
    .ensureAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { data, width: info.width, height: info.height };
}

/** Scales an image without mixing pixels. Cuts both sides equally if the new shape is narrower or lower. */
function scaled(image: Pixels, { width, height }: Size): Pixels {
  if (image.width === width && image.height === height) return image;
  const scale = Math.min(image.width / width, image.height / height);
  const left = (image.width - width * scale) / 2;
  const top = (image.height - height * scale) / 2;
  const source = new Uint32Array(new Uint8Array(image.data).buffer);
  const target = new Uint32Array(width * height);
  const columns = Uint32Array.from({ length: width }, (_, x) => Math.floor(left + (x + 0.5) * scale));
  for (let y = 0; y < height; y++) {
    const row = Math.floor(top + (y + 0.5) * scale) * image.width;
    for (let x = 0; x < width; x++) target[y * width + x] = source[row + (columns[x] ?? 0)] ?? 0;
  }
  return { width, height, data: Buffer.from(target.buffer) };
}

function hasTransparentPixel({ data }: Pixels): boolean {
  for (let alpha = 3; alpha < data.length; alpha += 4) if (data[alpha] === 0) return true;
  return false;
}

async function finished(image: Sharp, size: Size, finish: Finish): Promise<Uint8Array> {
  // Compose first, because sharp would resize before composing in a single pipeline.
  const isPng = (finish.outputFormat ?? "image/png") === "image/png";
  const { data, info } = await image.png(isPng ? {} : INTERMEDIATE_PNG).toBuffer({ resolveWithObject: true });
  const isSized = info.width === size.width && info.height === size.height;
  // Do not encode a PNG of the right size a second time.
  if (isSized && isPng) return data;
  return encoded(isSized ? sharp(data) : sharp(data).resize({ ...dimensions(size), fit: "cover" }), finish);
}

async function encoded(image: Sharp, { outputFormat, outputCompression = 100 }: Finish): Promise<Uint8Array> {
  const quality = Math.max(1, outputCompression);
  switch (outputFormat) {
    case "image/jpeg":
      return image.flatten({ background: "#fff" }).jpeg({ quality }).toBuffer();
    case "image/webp":
      // The default effort takes twice as long for a file that is a quarter smaller.
      return image.webp({ quality, effort: 1 }).toBuffer();
    default:
      return image.png().toBuffer();
  }
}

/** The PNG options for an image between two steps: speed matters more than size. */
const INTERMEDIATE_PNG = { compressionLevel: 0 } as const;

const dimensions = ({ width, height }: Size): Size => ({ width, height });
