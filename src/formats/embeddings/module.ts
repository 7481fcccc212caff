/** The embeddings format, whole: an entry of the package. Upstreams of chat-completions speak it too. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { FormatModule, GatewayFormat } from "../module.ts";
import { embeddings as served } from "./index.ts";
import { FORMAT } from "./schema.ts";

/** The embeddings format: `POST /v1/embeddings`. */
export const embeddings = (): GatewayFormat<"embeddings"> => ({
  name: FORMAT,
  rank: 5,
  make: () => served(),
});

/** The embeddings format, whole. */
export const embeddingsFormat: FormatModule<"embeddings", object, never> = { name: FORMAT, serve: embeddings };
