/** Mounts a gateway in Express, 4 and 5, which take the mount's prefix off the request's address themselves. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Gateway } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { type NodeHandlerOptions, toNodeHandler } from "./node.ts";

assertNodeVersion();

/** A middleware, as `app.use` takes it. */
export type ExpressHandler = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void;

/**
 * The gateway as an Express middleware. A route that the gateway does not own goes to the next handler, its body unread; what
 * fails in the mount itself goes to the error handlers.
 *
 * @example app.use("/ai", toExpressHandler(gateway, { context: (req: Request) => ({ user: req.user }) }));
 */
export const toExpressHandler = <Context = unknown, Req extends IncomingMessage = IncomingMessage>(
  gateway: Gateway<Context>,
  options: NodeHandlerOptions<Context, Req> = {},
): ExpressHandler => toNodeHandler(gateway, options);
