/** Mounts a gateway in Koa. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Mountable, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { mountedRoutes } from "./mount.ts";
import {
  cutsOff,
  drain,
  dropIdle,
  endConnection,
  endKept,
  mergedHeaders,
  NODE_SHAPES,
  NodeMount,
  PATIENCE_MS,
  requestOf,
  send,
} from "./node-mount.ts";

assertNodeVersion();

/** The parts of Koa's context that the middleware uses. */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Koa's own request. Koa's body parsers store the parsed body in its `body`. */
  readonly request: object;
  readonly originalUrl?: string;
  respond?: boolean | undefined;
  status: number;
  body: unknown;
  set(name: string, value: string | string[]): void;
}

/** The type of Koa's context when the parameter of the host's `context` function declares no other type. */
export interface KoaDefaultContext extends KoaContext {
  /** The values that the app's middleware keeps for later middleware. */
  readonly state: Readonly<Record<string, unknown>>;
}

/** A middleware for Koa's `app.use`. */
export type KoaMiddleware = (context: KoaContext, next: () => Promise<unknown>) => Promise<void>;

/** The options of the middleware for Koa. */
export interface KoaMiddlewareOptions<
  Context = unknown,
  Ctx extends KoaContext = KoaDefaultContext,
> extends MountOptions {
  /**
   * Makes the host's own context for a request from Koa's context. The backend and the stores receive it as `call.context`.
   *
   * @example (context) => context.state["user"]
   */
  readonly context?: (context: Ctx) => Context;
  /** The same as in `NodeHandlerOptions`. Default: 60,000. */
  readonly patienceMs?: number;
}

/**
 * Returns the gateway as a Koa middleware. Passes a route that the gateway does not own to the next middleware, with its body unread.
 *
 * @example app.use(toKoaMiddleware(gateway, { prefix: "/ai" })); // or app.use(mount("/ai", toKoaMiddleware(gateway)))
 */
export function toKoaMiddleware<Context = unknown, Ctx extends KoaContext = KoaDefaultContext>(
  gateway: Mountable<Context>,
  options: KoaMiddlewareOptions<Context, Ctx> = {},
): KoaMiddleware {
  const routes = mountedRoutes("toKoaMiddleware", gateway, options, NODE_SHAPES);
  const { patienceMs = PATIENCE_MS, context: contextOf } = options;
  return async (context, next) => {
    const { req, res } = context;
    // Koa's body parsers store the parsed body on Koa's request; the gateway reads it from Node's request.
    const { body: parsed } = context.request as { readonly body?: unknown };
    if (parsed !== undefined) Object.assign(req, { body: parsed });
    const mounted = new NodeMount<Context>(req, res, context, contextOf && (() => contextOf(context as Ctx)));
    const request = requestOf(req, res, mounted.path);
    const answer = request && (await routes.answer(request, mounted));
    if (!answer) return void (await next());
    drain(req, patienceMs);
    if (gateway.isClosing()) endConnection(req, res);
    dropIdle(res, patienceMs);
    const { status, headers, body } = answer;
    // Send a stream without Koa: Koa would report each disconnected client as an error of the app.
    const isData = body === null || typeof body === "string" || body instanceof Uint8Array;
    context.respond = isData && !cutsOff(req, res);
    if (!context.respond) {
      await send(res, answer, req);
      if (gateway.isClosing()) endKept(req, res);
      return;
    }
    context.body = body === null ? null : Buffer.from(body as string | Uint8Array);
    context.status = status;
    for (const [name, value] of Object.entries({ ...headers, ...mergedHeaders(res, answer) })) context.set(name, value);
  };
}
