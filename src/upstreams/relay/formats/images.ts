/** The images format of upstreams. */

import { type ImageRelay, imageRelay } from "../images.ts";
import type { UpstreamFormat } from "../relay.ts";

/** The format of a relay whose upstream draws images. */
export const imagesUpstream: UpstreamFormat<ImageRelay> = {
  name: "images",
  open: (upstream, options) => ({ verbs: imageRelay(upstream, options) }),
};
