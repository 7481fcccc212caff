/** The Responses format, whole: an entry of the package. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { assertOptions } from "../../options.ts";
import type { ChatVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { responses as served, RESPONSES_SHAPES, responsesCodec, type ResponsesOptions } from "./index.ts";
import { FORMAT } from "./schema.ts";

export type { EncryptionKey } from "../../encryption.ts";
export { type CompactionOptions, COMPACTION_PROMPT } from "./compaction.ts";
export type { ResponsesOptions } from "./index.ts";

/** The Responses format: `POST /v1/responses`, token counts, and the routes of kept responses and conversations. */
export const responses = (options: ResponsesOptions = {}): GatewayFormat<"responses"> => {
  assertOptions("responses", options, RESPONSES_SHAPES);
  // The secrets stay out of what a gateway tells of its options.
  return { name: FORMAT, rank: 4, make: (context) => served(context, options) };
};

/** The format of a relay whose upstream speaks Responses. */
export const responsesUpstream: UpstreamFormat<ChatVerbs> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  takesSockets: true,
  address: { ...OPENAI_UPSTREAM.address, route: /\/responses(?:\/(?:input_tokens|compact))?$/ },
  open: (relay, options) => relay.chat(responsesCodec(options)),
};

/** The Responses format, whole. */
export const responsesFormat: FormatModule<"responses", ResponsesOptions, ChatVerbs> = {
  name: FORMAT,
  serve: responses,
  options: RESPONSES_SHAPES,
  upstream: responsesUpstream,
};
