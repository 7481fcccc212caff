/** Mounts a gateway in Express 4 and 5, which remove the mount's prefix from the request's address themselves. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { CoreGateway } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { assertMount } from "./mount.ts";
import { NODE_SHAPES } from "./node-mount.ts";
import { type NodeHandlerOptions, toNodeHandler } from "./node.ts";

assertNodeVersion();

/** A middleware for `app.use`. */
export type ExpressHandler = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void;

/**
 * Returns the gateway as an Express middleware. Passes a route that the gateway does not own to the next handler with its body unread, and
 * errors of the mount itself to the error handlers.
 *
 * @example app.use("/ai", toExpressHandler(gateway, { context: (req: Request) => ({ user: req.user }) }));
 */
export const toExpressHandler = <Context = unknown, Req extends IncomingMessage = IncomingMessage>(
  gateway: CoreGateway<Context>,
  options: NodeHandlerOptions<Context, Req> = {},
): ExpressHandler => {
  assertMount("toExpressHandler", gateway, options, NODE_SHAPES);
  return toNodeHandler(gateway, options);
};
