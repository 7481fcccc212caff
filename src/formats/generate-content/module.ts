/** The generate-content format, whole: an entry of the package. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { ChatVerbs, EmbeddingVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { embeddingRelay } from "../shared/embedding.ts";
import { MAX_LISTED_MODELS, VERSIONED } from "../shared/upstream.ts";
import { generateContent as served, generateContentCodec, generateContentEmbeddings, TELEMETRY } from "./index.ts";
import { FORMAT } from "./schema.wire.ts";

/** The generate-content format: the methods of `/v1beta/models/**` for answers, token counts and embeddings, and the list of models. */
export const generateContent = (): GatewayFormat<"generate-content"> => ({
  name: FORMAT,
  rank: 2,
  make: () => served(),
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
    ownRoute: /:(?:generateContent|streamGenerateContent|countTokens)$/,
  },
  credential: (apiKey) => ({ "x-goog-api-key": apiKey }),
  listPath: `/models?pageSize=${MAX_LISTED_MODELS}`,
  otherNames: /gemini|google/i,
  open: (relay, options) => ({
    ...relay.chat(generateContentCodec(options)),
    ...embeddingRelay(relay, generateContentEmbeddings, options),
  }),
};

/** The generate-content format, whole. */
export const generateContentFormat: FormatModule<"generate-content", object, ChatVerbs & EmbeddingVerbs> = {
  name: FORMAT,
  serve: generateContent,
  upstream: generateContentUpstream,
};
