/** The chat-completions format as a value, for the gateways and relays of `polygate/core`. Its upstreams embed in the embeddings format. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { ChatVerbs, EmbeddingVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { embeddingRelay } from "../shared/embedding.ts";
import { Lazy, lazyCodec, lazyFormat } from "../shared/lazy.ts";
import { OPENAI_TELEMETRY, OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { FORMAT, ROUTES } from "./routes.ts";

/** The code of the two sides of the format, each loaded with its first use. */
const code = /* @__PURE__ */ new Lazy(async () => (await import("./index.ts")).chatCompletions);
const upstream = /* @__PURE__ */ new Lazy(async () => (await import("./upstream.ts")).chatCompletionsCodec);
const embeddings = /* @__PURE__ */ new Lazy(
  async () => (await import("../shared/openai-embeddings.ts")).openaiEmbeddings,
);

/** The chat-completions format: `POST /v1/chat/completions`, and the list of models. */
export const chatCompletions = (): GatewayFormat<"chat-completions"> => ({
  name: FORMAT,
  rank: 3,
  make: (context) =>
    lazyFormat(
      { name: FORMAT, telemetry: OPENAI_TELEMETRY },
      Object.values(ROUTES),
      code,
      (served) => served(context).endpoints,
    ),
});

/** The format of a relay whose upstream speaks chat-completions. The relay also embeds. */
export const chatCompletionsUpstream: UpstreamFormat<ChatVerbs & EmbeddingVerbs> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  address: { ...OPENAI_UPSTREAM.address, route: /\/(?:chat\/completions|embeddings)$/ },
  otherNames: /openai|gpt/i,
  load: () => Promise.all([upstream.get(), embeddings.get()]),
  open: (relay, options) => ({
    ...relay.chat(lazyCodec(upstream, (chatCompletionsCodec) => chatCompletionsCodec(options))),
    ...embeddingRelay(relay, { whole: () => embeddings.get() }, options),
  }),
};

/** The chat-completions format with all its sides, as a `FormatModule`. */
export const chatCompletionsFormat: FormatModule<"chat-completions", object, ChatVerbs & EmbeddingVerbs> = {
  name: FORMAT,
  serve: chatCompletions,
  upstream: chatCompletionsUpstream,
};
