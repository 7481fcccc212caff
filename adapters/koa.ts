/** Mounts a gateway in Koa, so that the middleware around it sees an ordinary answer. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { NodeRequest } from "srvx/node";
import type { Gateway, MountOptions } from "../src/index.ts";

/** What the middleware touches of Koa's context. */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly request: { readonly body?: unknown };
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
export function toKoaMiddleware(gateway: Gateway, { prefix = "" }: MountOptions = {}): KoaMiddleware {
  const routes = gateway.at(prefix);
  return async (context, next) => {
    const { req, res, request } = context;
    // Koa's body parsers leave a body in Koa's own request, and not where Node's leave theirs.
    if (request.body !== undefined) Object.assign(req, { body: request.body });
    const response = await routes.handle(new NodeRequest({ req, res }));
    if (!response) return void (await next());
    // The platform's stream and Node's own type of it differ in name alone.
    const body = response.body && Readable.fromWeb(response.body as ReadableStream);
    res.once("close", () => body?.destroy(HUNG_UP));
    context.body = body;
    context.status = response.status;
    for (const [name, value] of response.headers) context.set(name, value);
  };
}

// Koa reports how a stream broke off as an error of the app; one that is exposed does not reach its log.
const HUNG_UP: Error = Object.assign(new Error("The client closed the connection."), { status: 499, expose: true });
