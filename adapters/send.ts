/** Writes an answer to Node's response, also one that a middleware has wrapped. */

import type { ServerResponse } from "node:http";
import { sendNodeResponse } from "srvx/node";

/** Resolves when the answer is written, or its client is gone. */
export const send = (res: ServerResponse, response: Response): Promise<void> =>
  // srvx ends a body that is no stream with a callback, and a wrapped `end`, as of compression, takes that for the body.
  sendNodeResponse(res, Object.hasOwn(res, "end") ? new Response(response.body, response) : response);
