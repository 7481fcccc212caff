/** The images format as a value, for the gateways and relays of `polygate/core`. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { IMAGE } from "../../model/image.ts";
import { assertOptions } from "../../options.ts";
import { memoryImageStore } from "../../stores/memory-images.ts";
import type { Format } from "../format.ts";
import type {
  FormatModule,
  FormatUpstreamOptions,
  GatewayFormat,
  ImageVerbs,
  RelayTools,
  UpstreamFormat,
} from "../module.ts";
import { Lazy, lazyFormat } from "../shared/lazy.ts";
import { OPENAI_TELEMETRY, OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { ImageModels } from "./request.models.ts";
import { IMAGES_SHAPES, type ImagesOptions } from "./request.profiles.ts";
import { FORMAT, ROUTES } from "./routes.ts";

export type { FileProfile, ImageProfile, ImagesOptions, OperationProfile } from "./request.profiles.ts";

/** The code of the format and of its relay, each loaded with its first use. */
const code = /* @__PURE__ */ new Lazy(async () => (await import("./index.ts")).images);
const relaying = /* @__PURE__ */ new Lazy(async () => (await import("./relay.ts")).relayedImage);

/** The images format: `POST /v1/images/generations`, `/edits` and `/variations`, and the links of finished images. */
export const images = (options?: ImagesOptions): GatewayFormat<"images"> => {
  if (options !== undefined) assertOptions("images", options, IMAGES_SHAPES);
  return {
    name: FORMAT,
    options,
    rank: 6,
    make: (context) => made(context, options),
  };
};

/** Throws a TypeError if `publicUrl` is no http or https URL or has a query, and for an alias of an unknown model. */
function made({ clock, limits }: Parameters<GatewayFormat["make"]>[0], options: ImagesOptions = {}): Format {
  if (options.publicUrl !== undefined) assertBaseUrl(options.publicUrl);
  const models = new ImageModels(options);
  const store = options.store ?? memoryImageStore({ clock });
  return lazyFormat(
    { name: FORMAT, telemetry: OPENAI_TELEMETRY, aliasesOf: (model) => models.aliasesOf(model) },
    Object.values(ROUTES),
    code,
    (served) => served({ ...options, store, clock, limits, models }),
  );
}

function assertBaseUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "")
    throw new TypeError(
      "images.publicUrl must be an http or https address without a query, such as https://example.com/ai",
    );
}

/** The format of a relay whose upstream draws images. */
export const imagesUpstream: UpstreamFormat<ImageVerbs> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  address: { ...OPENAI_UPSTREAM.address, route: /\/images\/(?:generations|edits|variations)$/ },
  modelKinds: [IMAGE],
  load: () => relaying.get(),
  open: opened,
};

/** The images format with all its sides, as a `FormatModule`. */
export const imagesFormat: FormatModule<"images", ImagesOptions, ImageVerbs> = {
  name: FORMAT,
  serve: images,
  options: IMAGES_SHAPES,
  upstream: imagesUpstream,
};

/** Makes the function of a relay to an upstream that draws images. Throws a TypeError for an invalid origin. */
function opened(relay: RelayTools, { imageOrigins = [] }: FormatUpstreamOptions): ImageVerbs {
  const origins = new Set([relay.origin, ...imageOrigins.map(validOrigin)]);
  return {
    image: (request, call) =>
      relay.relayed(call, () => relaying.use((relayedImage) => relayedImage(relay, origins, request, call.signal))),
  };
}

function validOrigin(origin: string): string {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isOrigin = url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`;
  if (!isOrigin)
    throw new TypeError("relay: imageOrigins must be origins alone, such as https://pictures.example.com.");
  return url.origin;
}
