/** Draws the demo's images with the package sharp: always the same for the same request, and different for different ones. */

import sharp, { type Sharp } from "sharp";
import type { ImageMediaType } from "../index.ts";
import { chanceOf, sceneOf, type Size, sizeOf, USUAL_SIZE } from "./scene.ts";

/** How an image is to come out. */
export interface Finish {
  /** Such as `1024x1024`. Where it is `auto` or missing: what the images have, or 1024 × 1024. */
  readonly size?: string;
  /** PNG unless told. */
  readonly outputFormat?: ImageMediaType;
  /** 0 to 100, for JPEG and WEBP; 100 unless told. */
  readonly outputCompression?: number;
}

export interface Drawing extends Finish {
  readonly prompt: string;
  readonly quality?: string;
  readonly style?: string;
  /** `transparent` paints nothing behind the scene. */
  readonly background?: string;
  /** Which of several images of one request this is, from 0. */
  readonly index: number;
}

export interface Editing extends Drawing {
  /** The first is edited, and the others are shown in what is painted into it. */
  readonly images: readonly [Uint8Array, ...Uint8Array[]];
  /** A PNG of the first image's size, fully transparent where that is to be edited. */
  readonly mask?: Uint8Array;
}

export interface Varying extends Finish {
  readonly image: Uint8Array;
  readonly index: number;
}

interface Pixels extends Size {
  /** Red, green, blue and alpha, a byte each. */
  readonly data: Buffer;
}

/** A new image in which the prompt can be read. */
export async function draw(drawing: Drawing): Promise<Uint8Array> {
  const size = sizeOf(drawing.size) ?? USUAL_SIZE;
  return finished(scene(drawing, size), size, drawing);
}

/**
 * The first image in the size asked for, painted over exactly where the mask (or without one the image itself) is fully
 * transparent; every other pixel is one of the image's own. Where nothing is transparent: a new image that shows all of them.
 */
export async function edit(editing: Editing): Promise<Uint8Array> {
  const { images, mask } = editing;
  const [first, ...others] = images;
  const original = await pixelsOf(first);
  const marked = mask ? await pixelsOf(mask) : original;
  if (marked.width !== original.width || marked.height !== original.height)
    throw new RangeError("The mask must have the size of the image that it is for.");
  const size = sizeOf(editing.size) ?? original;
  if (!mask && !isHoled(original)) return finished(await collage(editing, images, size), size, editing);

  const image = scaled(original, size);
  const holes = scaled(marked, size);
  const paint = await pixelsOf(await (await collage(editing, others, size)).png(PASSING).toBuffer());
  for (let alpha = 3; alpha < image.data.length; alpha += 4)
    if (holes.data[alpha] === 0) paint.data.copy(image.data, alpha - 3, alpha - 3, alpha + 1);
  return finished(sharp(image.data, { raw: { ...dimensions(image), channels: 4 } }), size, editing);
}

/** An image that is plainly made from the given one, and from no other index the same. */
export async function vary({ image, index, ...finish }: Varying): Promise<Uint8Array> {
  const own = await pixelsOf(image);
  const size = sizeOf(finish.size) ?? own;
  const chance = chanceOf(own.data, index);
  const veil = sceneOf({ prompt: "", ...dimensions(own), index: Math.floor(chance() * 2 ** 32), isTransparent: true });
  const turned = sharp(own.data, { raw: { ...dimensions(own), channels: 4 } })
    .modulate({ hue: 30 + Math.floor(chance() * 300), saturation: 0.8 + 0.6 * chance() })
    .flop(index % 2 === 0);
  const base = await turned.png(PASSING).toBuffer();
  return finished(sharp(base).composite([{ input: Buffer.from(veil), blend: "soft-light" }]), size, finish);
}

/** What an image looks like before it is done: the smaller the share from 0 to 1, the less can be seen of it. */
export async function unfinished(image: Uint8Array, share: number, finish: Finish = {}): Promise<Uint8Array> {
  return encoded(sharp(image).blur(1 + 40 * (1 - share)), finish);
}

/** Whether an image can be shown whole: its headers do not tell what its pixels are like. */
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

/** A scene with images on it, side by side. */
async function collage(drawing: Drawing, images: readonly Uint8Array[], size: Size): Promise<Sharp> {
  const side = Math.max(1, Math.floor((0.8 * size.width) / Math.max(2, images.length)));
  const room = { width: side, height: Math.max(1, Math.floor(size.height * 0.3)) };
  const left = Math.floor((size.width - side * images.length) / 2);
  const shown = await Promise.all(
    images.map(async (image, index) => ({
      input: await sharp(image)
        .resize({ ...room, fit: "inside" })
        .png(PASSING)
        .toBuffer(),
      left: left + index * side,
      top: Math.floor(size.height * 0.05),
    })),
  );
  return scene(drawing, size).composite(shown);
}

/** The pixels as they are stored: no profile is applied and nothing is turned, so that what stays can stay as it was. */
async function pixelsOf(image: Uint8Array): Promise<Pixels> {
  const { data, info } = await sharp(image, { ignoreIcc: true })
    .toColourspace("srgb")
    .ensureAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { data, width: info.width, height: info.height };
}

/** The pixels in another size, each of them one of the image's own; what does not fit its shape is cut off evenly. */
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

function isHoled({ data }: Pixels): boolean {
  for (let alpha = 3; alpha < data.length; alpha += 4) if (data[alpha] === 0) return true;
  return false;
}

async function finished(image: Sharp, size: Size, finish: Finish): Promise<Uint8Array> {
  // Composed first and resized then: in one go the two would be done the other way round.
  const isPng = (finish.outputFormat ?? "image/png") === "image/png";
  const { data, info } = await image.png(isPng ? {} : PASSING).toBuffer({ resolveWithObject: true });
  const isSized = info.width === size.width && info.height === size.height;
  // What is a PNG of that size already is not encoded twice.
  if (isSized && isPng) return data;
  return encoded(isSized ? sharp(data) : sharp(data).resize({ ...dimensions(size), fit: "cover" }), finish);
}

async function encoded(image: Sharp, { outputFormat, outputCompression = 100 }: Finish): Promise<Uint8Array> {
  const quality = Math.max(1, outputCompression);
  switch (outputFormat) {
    case "image/jpeg":
      return image.flatten({ background: "#fff" }).jpeg({ quality }).toBuffer();
    case "image/webp":
      // The usual effort takes twice as long, to make it a quarter smaller.
      return image.webp({ quality, effort: 1 }).toBuffer();
    default:
      return image.png().toBuffer();
  }
}

/** A picture that one step only hands to the next need not be small. */
const PASSING = { compressionLevel: 0 } as const;

const dimensions = ({ width, height }: Size): Size => ({ width, height });
