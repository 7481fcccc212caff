/** Mounts a gateway on Node's own http server, or behind anything that calls a handler with (req, res, next). */

import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeRequest, sendNodeResponse } from "srvx/node";
import type { Gateway } from "../src/index.ts";

/** A handler for `http.createServer`; with a third argument, a middleware in Connect's form. */
export type NodeHandler = (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void;

/**
 * The gateway as a Node handler. A route that the gateway does not own goes to `next`, or is a bare 404 without one.
 *
 * @example http.createServer(toNodeHandler(gateway)).listen(3000);
 */
export function toNodeHandler(gateway: Gateway): NodeHandler {
  const answer = async (...[req, res, next]: Parameters<NodeHandler>): Promise<void> => {
    const response = await gateway.handle(new NodeRequest({ req, res }));
    if (!response && next) next();
    else await sendNodeResponse(res, response ?? new Response(null, { status: 404 }));
  };
  // A response that breaks off has nobody left to be told; the call itself has settled by then.
  return (req, res, next) => void answer(req, res, next).catch(() => res.destroy());
}
