/** The messages format as a value, for the gateways and relays of `polygate/core`. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { assertOptions } from "../../options.ts";
import type { Format } from "../format.ts";
import type { ChatVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { Lazy, lazyCodec, lazyFormat } from "../shared/lazy.ts";
import { MAX_LISTED_MODELS, VERSIONED } from "../shared/upstream.ts";
import { FORMAT, MESSAGES_SHAPES, type MessagesOptions, routesOf, TELEMETRY } from "./routes.ts";

export type { MessagesOptions } from "./routes.ts";

/** The code of the two sides of the format, each loaded with its first use. */
const code = /* @__PURE__ */ new Lazy(async () => (await import("./index.ts")).messages);
const upstream = /* @__PURE__ */ new Lazy(async () => (await import("./upstream.ts")).messagesCodec);

/** The messages format: `POST /v1/messages`, token counts, and the list of models. */
export const messages = (options?: MessagesOptions): GatewayFormat<"messages"> => {
  if (options !== undefined) assertOptions("messages", options, MESSAGES_SHAPES);
  const make = (): Format =>
    lazyFormat(
      { name: FORMAT, telemetry: TELEMETRY },
      Object.values(routesOf(options)),
      code,
      (served) => served(options).endpoints,
    );
  return { name: FORMAT, options, rank: 1, make };
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
  load: () => upstream.get(),
  open: (relay, options) => relay.chat(lazyCodec(upstream, (messagesCodec) => messagesCodec(options))),
};

/** The messages format with all its sides, as a `FormatModule`. */
export const messagesFormat: FormatModule<"messages", MessagesOptions, ChatVerbs> = {
  name: FORMAT,
  serve: messages,
  options: MESSAGES_SHAPES,
  upstream: messagesUpstream,
};
