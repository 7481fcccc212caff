/** The embeddings format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { embeddings as format } from "../formats/embeddings/index.ts";
import type { GatewayFormat } from "../gateway.ts";

/** The embeddings format: `POST /v1/embeddings`. */
export const embeddings = (): GatewayFormat<"embeddings"> => ({
  name: "embeddings",
  options: {},
  make: () => format(),
});
