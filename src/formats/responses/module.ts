/** The Responses format, whole: an entry of the package. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { ChatVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { responses as served, responsesCodec } from "./index.ts";
import { FORMAT } from "./schema.ts";

/** The Responses format: `POST /v1/responses`, token counts, and the routes of kept responses and conversations. */
export const responses = (): GatewayFormat<"responses"> => ({ name: FORMAT, rank: 4, make: served });

/** The format of a relay whose upstream speaks Responses. */
export const responsesUpstream: UpstreamFormat<ChatVerbs> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  address: { ...OPENAI_UPSTREAM.address, route: /\/responses(?:\/input_tokens)?$/ },
  open: (relay, options) => relay.chat(responsesCodec(options)),
};

/** The Responses format, whole. */
export const responsesFormat: FormatModule<"responses", object, ChatVerbs> = {
  name: FORMAT,
  serve: responses,
  upstream: responsesUpstream,
};
