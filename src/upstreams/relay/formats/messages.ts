/** The messages format of upstreams. */

import { messagesCodec } from "../../../formats/messages/index.ts";
import { type ChatRelay, openChat } from "../chat.ts";
import type { UpstreamFormat } from "../relay.ts";

/** The format of a relay whose upstream speaks messages. */
export const messagesUpstream: UpstreamFormat<ChatRelay> = {
  name: "messages",
  open: (upstream, options, codec) => openChat(upstream, options, messagesCodec(codec)),
};
