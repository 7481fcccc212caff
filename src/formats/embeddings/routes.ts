/** The route of the embeddings format: all that a gateway needs before the format's first request. */

import type { LazyRoute } from "../format.ts";
import { openaiEndpoint } from "../shared/errors.ts";

/** The name of the format in routes, and in the native parts of requests and answers. */
export const FORMAT = "embeddings";

export const ROUTE: LazyRoute = {
  format: FORMAT,
  ...openaiEndpoint,
  kind: "embedding",
  method: "POST",
  path: "/v1/embeddings",
};
