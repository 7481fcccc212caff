/** The chat-completions format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { chatCompletions as format } from "../formats/chat-completions/index.ts";
import type { GatewayFormat } from "../gateway.ts";

export { chatCompletionsUpstream } from "../upstreams/relay/formats/chat-completions.ts";

/** The chat-completions format: `POST /v1/chat/completions`, and the list of models. */
export const chatCompletions = (): GatewayFormat<"chat-completions"> => ({
  name: "chat-completions",
  options: {},
  make: format,
});
