/** Writes an answer to Node's response, also one that a middleware has wrapped. */

import type { ServerResponse } from "node:http";
import { sendNodeResponse } from "srvx/node";

/** Resolves when the answer is written, or its client is gone. */
export function send(res: ServerResponse, response: Response): Promise<void> {
  withVaryOf(res, response);
  // srvx ends a body that is no stream with a callback, and a wrapped `end`, as of compression, takes that for the body.
  return sendNodeResponse(res, Object.hasOwn(res, "end") ? new Response(response.body, response) : response);
}

/** Adds to what an answer varies by what the host's middleware has said already: the one would replace the other. */
export function withVaryOf(res: ServerResponse, response: Response): void {
  const vary = res.getHeader("vary");
  if (vary !== undefined && response.headers.has("vary")) response.headers.append("vary", String(vary));
}
