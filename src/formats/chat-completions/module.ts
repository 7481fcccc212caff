/** The chat-completions format, whole: an entry of the package. Its upstreams embed in the embeddings format. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { chat } from "../../kinds/chat/index.ts";
import type { ChatCodec, EmbeddingCodec } from "../format.ts";
import type { FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { openaiEmbeddings } from "../shared/openai-embeddings.ts";
import { OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { chatCompletions as served, chatCompletionsCodec } from "./index.ts";
import { FORMAT } from "./schema.ts";

/** The chat-completions format: `POST /v1/chat/completions`, and the list of models. */
export const chatCompletions = (): GatewayFormat<"chat-completions"> => ({
  name: FORMAT,
  kinds: { chat },
  rank: 3,
  make: served,
});

/** The format of a relay whose upstream speaks chat-completions. The relay also embeds. */
export const chatCompletionsUpstream: UpstreamFormat<{
  readonly chat: ChatCodec;
  readonly embedding: EmbeddingCodec;
}> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  address: { ...OPENAI_UPSTREAM.address, route: /\/chat\/completions$/ },
  otherNames: /openai|gpt/i,
  codecs: (options) => ({ chat: chatCompletionsCodec(options), embedding: openaiEmbeddings }),
};

/** The chat-completions format, whole. */
export const chatCompletionsFormat: FormatModule<
  "chat-completions",
  object,
  { readonly chat: ChatCodec; readonly embedding: EmbeddingCodec }
> = { name: FORMAT, serve: chatCompletions, upstream: chatCompletionsUpstream };
