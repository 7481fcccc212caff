/** The embeddings format as a value, for the gateways and relays of `polygate/core`. Upstreams of chat-completions speak it too. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { FormatModule, GatewayFormat } from "../module.ts";
import { Lazy, lazyFormat } from "../shared/lazy.ts";
import { OPENAI_TELEMETRY } from "../shared/upstream.ts";
import { FORMAT, ROUTE } from "./routes.ts";

/** The code of the format, which is loaded with its first use. */
const code = /* @__PURE__ */ new Lazy(async () => (await import("./index.ts")).embeddings);

/** The embeddings format: `POST /v1/embeddings`. */
export const embeddings = (): GatewayFormat<"embeddings"> => ({
  name: FORMAT,
  rank: 5,
  make: () => lazyFormat({ name: FORMAT, telemetry: OPENAI_TELEMETRY }, [ROUTE], code, (endpoint) => [endpoint]),
});

/** The embeddings format with all its sides, as a `FormatModule`. */
export const embeddingsFormat: FormatModule<"embeddings", object, never> = { name: FORMAT, serve: embeddings };
