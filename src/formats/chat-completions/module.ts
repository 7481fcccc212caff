/** The chat-completions format, whole: an entry of the package. Its upstreams embed in the embeddings format. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { ChatVerbs, EmbeddingVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { embeddingRelay } from "../shared/embedding.ts";
import { openaiEmbeddings } from "../shared/openai-embeddings.ts";
import { OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { chatCompletions as served, chatCompletionsCodec } from "./index.ts";
import { FORMAT } from "./schema.ts";

/** The chat-completions format: `POST /v1/chat/completions`, and the list of models. */
export const chatCompletions = (): GatewayFormat<"chat-completions"> => ({
  name: FORMAT,
  rank: 3,
  make: served,
});

/** The format of a relay whose upstream speaks chat-completions. The relay also embeds. */
export const chatCompletionsUpstream: UpstreamFormat<ChatVerbs & EmbeddingVerbs> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  address: { ...OPENAI_UPSTREAM.address, route: /\/chat\/completions$/ },
  otherNames: /openai|gpt/i,
  open: (relay, options) => ({
    ...relay.chat(chatCompletionsCodec(options)),
    ...embeddingRelay(relay, openaiEmbeddings, options),
  }),
};

/** The chat-completions format, whole. */
export const chatCompletionsFormat: FormatModule<"chat-completions", object, ChatVerbs & EmbeddingVerbs> = {
  name: FORMAT,
  serve: chatCompletions,
  upstream: chatCompletionsUpstream,
};
