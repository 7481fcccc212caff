/** The Responses format of upstreams. */

import { responsesCodec } from "../../../formats/responses/index.ts";
import { type ChatRelay, openChat } from "../chat.ts";
import type { UpstreamFormat } from "../relay.ts";

/** The format of a relay whose upstream speaks Responses. */
export const responsesUpstream: UpstreamFormat<ChatRelay> = {
  name: "responses",
  open: (upstream, options, codec) => openChat(upstream, options, responsesCodec(codec)),
};
