/** The Responses format as a value, for the gateways and relays of `polygate/core`. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { assertOptions } from "../../options.ts";
import type { ChatVerbs, FormatModule, GatewayFormat, UpstreamFormat } from "../module.ts";
import { Lazy, lazyCodec, lazyFormat } from "../shared/lazy.ts";
import { OPENAI_TELEMETRY, OPENAI_UPSTREAM } from "../shared/upstream.ts";
import { Compactions } from "./compaction.keys.ts";
import { KeyDocuments } from "./documents.ts";
import { FORMAT, RESPONSES_SHAPES, type ResponsesOptions, routesOf } from "./routes.ts";

export type { EncryptionKey } from "../../encryption.ts";
export { type CompactionOptions, COMPACTION_PROMPT } from "./compaction.keys.ts";
export type { ResponsesOptions } from "./routes.ts";

/** The code of the two sides of the format, each loaded with its first use. */
const code = /* @__PURE__ */ new Lazy(async () => (await import("./index.ts")).responses);
const upstream = /* @__PURE__ */ new Lazy(async () => (await import("./upstream.ts")).responsesCodec);

/** The Responses format: `POST /v1/responses`, token counts, and the routes of kept responses and conversations. */
export const responses = (options: ResponsesOptions = {}): GatewayFormat<"responses"> => {
  assertOptions("responses", options, RESPONSES_SHAPES);
  // The secrets stay out of what a gateway tells of its options.
  return {
    name: FORMAT,
    rank: 4,
    make(context) {
      const compactions = options.compaction && new Compactions(options.compaction);
      return lazyFormat(
        {
          name: FORMAT,
          telemetry: OPENAI_TELEMETRY,
          openDocuments: (call, key, store, retainMs) => new KeyDocuments(call, key, store, retainMs),
        },
        routesOf(options),
        code,
        (served) => served(context, compactions).endpoints,
      );
    },
  };
};

/** The format of a relay whose upstream speaks Responses. */
export const responsesUpstream: UpstreamFormat<ChatVerbs> = {
  ...OPENAI_UPSTREAM,
  name: FORMAT,
  takesSockets: true,
  makesCompactions: true,
  address: { ...OPENAI_UPSTREAM.address, route: /\/responses(?:\/(?:input_tokens|compact))?$/ },
  load: () => upstream.get(),
  open: (relay, options) => relay.chat(lazyCodec(upstream, (responsesCodec) => responsesCodec(options))),
};

/** The Responses format with all its sides, as a `FormatModule`. */
export const responsesFormat: FormatModule<"responses", ResponsesOptions, ChatVerbs> = {
  name: FORMAT,
  serve: responses,
  options: RESPONSES_SHAPES,
  upstream: responsesUpstream,
};
