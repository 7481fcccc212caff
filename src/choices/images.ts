/** The images format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { images as format } from "../formats/images/index.ts";
import { IMAGES_SHAPES, type ImagesOptions } from "../formats/images/request.profiles.ts";
import type { GatewayFormat } from "../gateway.ts";
import { assertOptions } from "../options.ts";
import { memoryImageStore } from "../stores/memory-images.ts";

export { imagesUpstream } from "../upstreams/relay/formats/images.ts";
export type { FileProfile, ImageProfile, ImagesOptions, OperationProfile } from "../formats/images/request.profiles.ts";

/** The images format: `POST /v1/images/generations`, `/edits` and `/variations`, and the links of finished images. */
export const images = (options?: ImagesOptions): GatewayFormat<"images"> => {
  if (options !== undefined) assertOptions("images", options, IMAGES_SHAPES);
  return {
    name: "images",
    options: options ? { images: options } : {},
    make: ({ clock, limits }) =>
      format({ ...options, store: options?.store ?? memoryImageStore({ clock }), clock, limits }),
  };
};
