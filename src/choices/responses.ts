/** The Responses format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { responses as format } from "../formats/responses/index.ts";
import type { GatewayFormat } from "../gateway.ts";
import { chat } from "../kinds/chat/index.ts";
import { acceptSocket } from "../pipeline/socket.ts";

export { responsesUpstream } from "../upstreams/relay/formats/responses.ts";

/** The Responses format: `POST /v1/responses`, token counts, and the routes of kept responses and conversations. */
export const responses = (): GatewayFormat<"responses"> => ({
  name: "responses",
  kinds: { chat },
  acceptSocket,
  options: {},
  make: format,
});
