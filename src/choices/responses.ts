/** The Responses format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { responses as format, RESPONSES_SHAPES, type ResponsesOptions } from "../formats/responses/index.ts";
import type { GatewayFormat } from "../gateway.ts";
import { chat } from "../kinds/chat/index.ts";
import { assertOptions } from "../options.ts";
import { acceptSocket } from "../pipeline/socket.ts";

export type { EncryptionKey } from "../encryption.ts";
export { type CompactionOptions, COMPACTION_PROMPT } from "../formats/responses/compaction.ts";
export type { ResponsesOptions } from "../formats/responses/index.ts";
export { responsesUpstream } from "../upstreams/relay/formats/responses.ts";

/** The Responses format: `POST /v1/responses`, token counts, and the routes of kept responses and conversations. */
export const responses = (options: ResponsesOptions = {}): GatewayFormat<"responses"> => {
  assertOptions("responses", options, RESPONSES_SHAPES);
  return {
    name: "responses",
    kinds: { chat },
    acceptSocket,
    // The secrets stay out of what a gateway tells of its options.
    options: {},
    make: (context) => format(context, options),
  };
};
