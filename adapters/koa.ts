/** Mounts a gateway in Koa. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeRequest, sendNodeResponse } from "srvx/node";
import type { Gateway } from "../src/index.ts";
import { drain, dropIdle, PATIENCE_MS } from "./connection.ts";
import type { NodeHandlerOptions } from "./node.ts";
import { mountedAt } from "./mounted-at.ts";
import { withVaryOf } from "./send.ts";

/** What the middleware touches of Koa's context. */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly request: { readonly body?: unknown };
  readonly originalUrl?: string;
  respond?: boolean;
  status: number;
  body: unknown;
  set(name: string, value: string): void;
}

export type KoaMiddleware = (context: KoaContext, next: () => Promise<unknown>) => Promise<void>;

/**
 * The gateway as a Koa middleware. A route that the gateway does not own goes to the next one, its body unread.
 *
 * @example app.use(toKoaMiddleware(gateway, { prefix: "/ai" })); // or app.use(mount("/ai", toKoaMiddleware(gateway)))
 */
export function toKoaMiddleware(
  gateway: Gateway,
  { prefix = "", patienceMs = PATIENCE_MS }: NodeHandlerOptions = {},
): KoaMiddleware {
  const routes = gateway.at(prefix);
  return async (context, next) => {
    const { req, res, request } = context;
    // Koa's body parsers leave a body in Koa's own request, and not where Node's leave theirs.
    if (request.body !== undefined) Object.assign(req, { body: request.body });
    const response = await routes.handle(new NodeRequest({ req, res }), mountedAt(req, context));
    if (!response) return void (await next());
    drain(req, patienceMs);
    dropIdle(res, patienceMs);
    withVaryOf(res, response);
    // A stream goes past Koa, which would report each client that hangs up on one as an error of the app.
    context.respond = !response.headers.get("cache-control")?.includes("no-transform");
    if (!context.respond) return sendNodeResponse(res, response);
    context.body = response.body && Buffer.from(await response.arrayBuffer());
    context.status = response.status;
    for (const [name, value] of response.headers) context.set(name, value);
  };
}
