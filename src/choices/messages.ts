/** The messages format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { messages as format, MESSAGES_SHAPES, type MessagesOptions } from "../formats/messages/index.ts";
import type { GatewayFormat } from "../gateway.ts";
import { assertOptions } from "../options.ts";

export type { MessagesOptions } from "../formats/messages/index.ts";
export { messagesUpstream } from "../upstreams/relay/formats/messages.ts";

/** The messages format: `POST /v1/messages`, token counts, and the list of models. */
export const messages = (options?: MessagesOptions): GatewayFormat<"messages"> => {
  if (options !== undefined) assertOptions("messages", options, MESSAGES_SHAPES);
  return {
    name: "messages",
    options: options ? { messages: options } : {},
    make: () => format(options),
  };
};
