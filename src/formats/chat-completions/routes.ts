/** The routes of the chat-completions format: all that a gateway needs before the format's first request. */

import type { LazyRoute } from "../format.ts";
import { isModelAddress, openaiEndpoint } from "../shared/errors.ts";

/** The name of the format in routes, and in the native parts of requests and answers. */
export const FORMAT = "chat-completions";

const common = { format: FORMAT, ...openaiEndpoint } as const;

export const ROUTES: Readonly<Record<"generate" | "list" | "read", LazyRoute>> = {
  generate: { ...common, kind: "chat", method: "POST", path: "/v1/chat/completions" },
  list: { ...common, kind: "query", method: "GET", path: "/v1/models" },
  read: { ...common, kind: "query", method: "GET", path: "/v1/models/**", owns: isModelAddress },
};
