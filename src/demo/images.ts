/** The demo's image model: draws, edits and varies images. Equal requests get equal images. */

import { type CallContext, GatewayError, type ImageEvent, type ImageMediaType, type ImageRequest } from "../index.ts";
import type { Finish } from "./drawing.ts";
import { painter } from "./painter.ts";

export const IMAGE_MODELS = [{ id: "image-model-2" }, { id: "image-model-3" }, { id: "image-model-multi" }] as const;

/** The tokens of a drawn image by its quality. An input image costs as much as an image of low quality. */
const OUTPUT_TOKENS: Readonly<Record<string, number>> = { low: 272, medium: 1_056, high: 4_160 };
const INPUT_IMAGE_TOKENS = 272;

export async function* drawImages(request: ImageRequest, { signal }: CallContext): AsyncGenerator<ImageEvent> {
  const { prompt, images, mask, count } = request;
  const { unfinished } = await painter();
  await assertReadable(request);
  const mediaType: ImageMediaType = `image/${request.outputFormat ?? "png"}`;
  // Only a stream can show unfinished images.
  const partialImages = request.stream ? (request.partialImages ?? 0) : 0;
  for (let index = 0; index < count; index++) {
    signal.throwIfAborted();
    const bytes = await pictureOf(request, index);
    for (let step = 0; step < partialImages; step++) {
      const share = (step + 1) / (partialImages + 1);
      yield {
        type: "partial-image",
        image: index,
        step,
        bytes: await unfinished(bytes, share, finishOf(request)),
        mediaType,
      };
      signal.throwIfAborted();
    }
    yield { type: "image", bytes, mediaType };
  }
  yield {
    type: "usage",
    usage: {
      inputTextTokens: prompt.split(/\s+/).filter((word) => word !== "").length,
      inputImageTokens: INPUT_IMAGE_TOKENS * (images.length + (mask ? 1 : 0)),
      outputTokens: count * (OUTPUT_TOKENS[request.quality ?? ""] ?? 1_056),
    },
  };
}

/** Throws `invalid_request` for a damaged image. The gateway itself has checked only PNGs completely. */
async function assertReadable({ images }: ImageRequest): Promise<void> {
  const { isReadable } = await painter();
  for (const [index, { bytes, mediaType }] of images.entries()) {
    if (mediaType === "image/png" || (await isReadable(bytes))) continue;
    const path = images.length > 1 ? ["image", index] : ["image"];
    throw new GatewayError("invalid_request", `${path.join(".")}: The file is a broken image.`, { path });
  }
}

const finishOf = ({ size, outputFormat, outputCompression }: ImageRequest): Finish => ({
  size,
  ...(outputFormat !== undefined && { outputFormat: `image/${outputFormat}` as const }),
  ...(outputCompression !== undefined && { outputCompression }),
});

async function pictureOf(request: ImageRequest, index: number): Promise<Uint8Array> {
  const { operation, prompt, images, mask, quality, style, background } = request;
  const [first, ...others] = images.map(({ bytes }) => bytes);
  const finish = finishOf(request);
  const { draw, edit, vary } = await painter();
  if (operation === "vary" && first) return vary({ ...finish, image: first, index });
  const drawing = {
    ...finish,
    prompt,
    index,
    ...(quality !== undefined && { quality }),
    ...(style !== undefined && { style }),
    ...(background !== undefined && { background }),
  };
  if (operation !== "edit" || !first) return draw(drawing);
  return edit({ ...drawing, images: [first, ...others], ...(mask && { mask: mask.bytes }) });
}
