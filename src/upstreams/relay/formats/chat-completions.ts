/** The chat-completions format of upstreams, which embed in the embeddings format. */

import { chatCompletionsCodec } from "../../../formats/chat-completions/index.ts";
import { embeddingsCodec } from "../../../formats/embeddings/index.ts";
import { type ChatRelay, openChat } from "../chat.ts";
import { embeddingRelay, type EmbeddingRelay } from "../embeddings.ts";
import type { UpstreamFormat } from "../relay.ts";

/** The format of a relay whose upstream speaks chat-completions. The relay also embeds. */
export const chatCompletionsUpstream: UpstreamFormat<ChatRelay & EmbeddingRelay> = {
  name: "chat-completions",
  open(upstream, options, codecOptions) {
    const { verbs, codec } = openChat(upstream, options, chatCompletionsCodec(codecOptions));
    return { verbs: { ...verbs, ...embeddingRelay(upstream, options, embeddingsCodec) }, codec };
  },
};
