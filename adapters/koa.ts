/** Mounts a gateway in Koa. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeRequest } from "srvx/node";
import type { Gateway, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { drain, dropIdle, PATIENCE_MS } from "./connection.ts";
import { NodeMount } from "./node-mount.ts";
import { send, varyOf } from "./send.ts";

assertNodeVersion();

/** What the middleware touches of Koa's context. */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Koa's own request; `body` is where Koa's body parsers leave theirs. */
  readonly request: object;
  readonly originalUrl?: string;
  respond?: boolean | undefined;
  status: number;
  body: unknown;
  set(name: string, value: string): void;
}

/** Koa's context as a `context` function knows it whose parameter has no type of the host's. */
export interface KoaDefaultContext extends KoaContext {
  /** Where the app's middleware keeps what later middleware is to know. */
  readonly state: Readonly<Record<string, unknown>>;
}

/** A middleware, as Koa's `app.use` takes it. */
export type KoaMiddleware = (context: KoaContext, next: () => Promise<unknown>) => Promise<void>;

export interface KoaMiddlewareOptions<
  Context = unknown,
  Ctx extends KoaContext = KoaDefaultContext,
> extends MountOptions {
  /**
   * Makes the host's own context for a request, from Koa's: what `call.context` is to the backend and the stores.
   *
   * @example (context) => context.state["user"]
   */
  readonly context?: (context: Ctx) => Context;
  /** As for `toNodeHandler`. */
  readonly patienceMs?: number;
}

/**
 * The gateway as a Koa middleware. A route that the gateway does not own goes to the next one, its body unread.
 *
 * @example app.use(toKoaMiddleware(gateway, { prefix: "/ai" })); // or app.use(mount("/ai", toKoaMiddleware(gateway)))
 */
export function toKoaMiddleware<Context = unknown, Ctx extends KoaContext = KoaDefaultContext>(
  gateway: Gateway<Context>,
  { prefix = "", patienceMs = PATIENCE_MS, context: contextOf }: KoaMiddlewareOptions<Context, Ctx> = {},
): KoaMiddleware {
  const routes = gateway.at(prefix);
  return async (context, next) => {
    const { req, res } = context;
    // Koa's body parsers leave a body in Koa's own request, and not where Node's leave theirs.
    const { body: parsed } = context.request as { readonly body?: unknown };
    if (parsed !== undefined) Object.assign(req, { body: parsed });
    const mounted = new NodeMount<Context>(req, res, context, contextOf && (() => contextOf(context as Ctx)));
    const answer = await routes.answer(new NodeRequest({ req, res }), mounted);
    if (!answer) return void (await next());
    drain(req, patienceMs);
    dropIdle(res, patienceMs);
    const { status, headers, body } = answer;
    // A stream goes past Koa, which would report each client that hangs up on one as an error of the app.
    context.respond = body === null || typeof body === "string" || body instanceof Uint8Array;
    if (!context.respond) return send(res, answer);
    context.body = body === null ? null : Buffer.from(body as string | Uint8Array);
    context.status = status;
    for (const [name, value] of Object.entries({ ...headers, ...varyOf(res, headers) })) context.set(name, value);
  };
}
