/** The generate-content format of upstreams. */

import { generateContentCodec, generateContentEmbeddings } from "../../../formats/generate-content/index.ts";
import { type ChatRelay, openChat } from "../chat.ts";
import { embeddingRelay, type EmbeddingRelay } from "../embeddings.ts";
import type { UpstreamFormat } from "../relay.ts";

/** The format of a relay whose upstream speaks generate-content. The relay also embeds. */
export const generateContentUpstream: UpstreamFormat<ChatRelay & EmbeddingRelay> = {
  name: "generate-content",
  open(upstream, options, codecOptions) {
    const { verbs, codec } = openChat(upstream, options, generateContentCodec(codecOptions));
    return { verbs: { ...verbs, ...embeddingRelay(upstream, options, generateContentEmbeddings) }, codec };
  },
};
