/** The messages format, whole: an entry of the package. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { assertOptions } from "../../options.ts";
import type { ChatVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { MAX_LISTED_MODELS, VERSIONED } from "../shared/upstream.ts";
import { MESSAGES_SHAPES, messages as served, messagesCodec, type MessagesOptions, TELEMETRY } from "./index.ts";
import { FORMAT } from "./schema.ts";

export type { MessagesOptions } from "./index.ts";

/** The messages format: `POST /v1/messages`, token counts, and the list of models. */
export const messages = (options?: MessagesOptions): GatewayFormat<"messages"> => {
  if (options !== undefined) assertOptions("messages", options, MESSAGES_SHAPES);
  return { name: FORMAT, options, rank: 1, make: () => served(options) };
};

/** The format of a relay whose upstream speaks messages. */
export const messagesUpstream: UpstreamFormat<ChatVerbs> = {
  name: FORMAT,
  telemetry: TELEMETRY,
  // The official clients add the version themselves, so their addresses are documented without it.
  address: { version: "/v1", complete: VERSIONED, route: /\/messages(?:\/count_tokens)?$/ },
  credential: (apiKey) => ({ "x-api-key": apiKey }),
  listPath: `/models?limit=${MAX_LISTED_MODELS}`,
  otherNames: /anthropic|claude/i,
  open: (relay, options) => relay.chat(messagesCodec(options)),
};

/** The messages format, whole. */
export const messagesFormat: FormatModule<"messages", MessagesOptions, ChatVerbs> = {
  name: FORMAT,
  serve: messages,
  options: MESSAGES_SHAPES,
  upstream: messagesUpstream,
};
