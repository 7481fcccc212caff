/** The images format, whole: an entry of the package. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { IMAGE } from "../../model/image.ts";
import { assertOptions } from "../../options.ts";
import { memoryImageStore } from "../../stores/memory-images.ts";
import type { FormatModule, GatewayFormat, ImageVerbs, UpstreamFormat } from "../module.ts";
import { OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { images as served } from "./index.ts";
import { imageRelay } from "./relay.ts";
import { IMAGES_SHAPES, type ImagesOptions } from "./request.profiles.ts";
import { FORMAT } from "./request.ts";

export type { FileProfile, ImageProfile, ImagesOptions, OperationProfile } from "./request.profiles.ts";

/** The images format: `POST /v1/images/generations`, `/edits` and `/variations`, and the links of finished images. */
export const images = (options?: ImagesOptions): GatewayFormat<"images"> => {
  if (options !== undefined) assertOptions("images", options, IMAGES_SHAPES);
  return {
    name: FORMAT,
    options,
    rank: 6,
    make: ({ clock, limits }) =>
      served({ ...options, store: options?.store ?? memoryImageStore({ clock }), clock, limits }),
  };
};

/** The format of a relay whose upstream draws images. */
export const imagesUpstream: UpstreamFormat<ImageVerbs> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  address: { ...OPENAI_UPSTREAM.address, route: /\/images\/(?:generations|edits|variations)$/ },
  modelKinds: [IMAGE],
  open: imageRelay,
};

/** The images format, whole. */
export const imagesFormat: FormatModule<"images", ImagesOptions, ImageVerbs> = {
  name: FORMAT,
  serve: images,
  options: IMAGES_SHAPES,
  upstream: imagesUpstream,
};
