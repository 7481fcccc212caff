/** The generate-content format as a value, for the gateways and relays of `polygate/core`. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { ChatVerbs, EmbeddingVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { embeddingRelay } from "../shared/embedding.ts";
import { Lazy, lazyCodec, lazyFormat } from "../shared/lazy.ts";
import { MAX_LISTED_MODELS, VERSIONED } from "../shared/upstream.ts";
import { FORMAT, ROUTES, TELEMETRY } from "./routes.ts";

/** The code of the two sides of the format, each loaded with its first use. */
const code = /* @__PURE__ */ new Lazy(async () => (await import("./index.ts")).generateContent);
const upstream = /* @__PURE__ */ new Lazy(async () => (await import("./upstream.ts")).generateContentCodec);
const embedding = /* @__PURE__ */ new Lazy(async () => (await import("./upstream.ts")).generateContentEmbeddings);

/** The generate-content format: the methods of `/v1beta/models/**` for answers, token counts and embeddings, and the list of models. */
export const generateContent = (): GatewayFormat<"generate-content"> => ({
  name: FORMAT,
  rank: 2,
  make: () => lazyFormat({ name: FORMAT, telemetry: TELEMETRY }, ROUTES, code, (served) => served().endpoints),
});

/** The format of a relay whose upstream speaks generate-content. The relay also embeds. */
export const generateContentUpstream: UpstreamFormat<ChatVerbs & EmbeddingVerbs> = {
  name: FORMAT,
  telemetry: TELEMETRY,
  address: {
    version: "/v1beta",
    // The official clients add the version themselves. The addresses of Vertex AI end with `/v1/projects/…/publishers/google`.
    complete: new RegExp(`${VERSIONED.source}|/publishers/[^/]+$`),
    route: /\/(?:models|tunedModels)(?:\/.*)?$/,
    ownRoute: /:(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$/,
  },
  credential: (apiKey) => ({ "x-goog-api-key": apiKey }),
  listPath: `/models?pageSize=${MAX_LISTED_MODELS}`,
  otherNames: /gemini|google/i,
  load: () => Promise.all([upstream.get(), embedding.get()]),
  open: (relay, options) => ({
    ...relay.chat(lazyCodec(upstream, (generateContentCodec) => generateContentCodec(options))),
    ...embeddingRelay(relay, { whole: () => embedding.get() }, options),
  }),
};

/** The generate-content format with all its sides, as a `FormatModule`. */
export const generateContentFormat: FormatModule<"generate-content", object, ChatVerbs & EmbeddingVerbs> = {
  name: FORMAT,
  serve: generateContent,
  upstream: generateContentUpstream,
};
