/** Mounts a gateway in Cloudflare's Workers and similar runtimes. */

import type { Mountable, MountOptions, SocketHandler } from "../src/index.ts";
import { afterBody, connect, FETCH_SHAPES, FetchMount } from "./fetch-mount.ts";
import { mountedRoutes } from "./mount.ts";
import { attach, type WebSocketLike } from "./web-socket.ts";

/** The most bytes that are read of the body of a refused request. */
const MAX_BYTES = 4 * 1024 * 1024;

/** The part of the runtime's context, the last argument of a handler, that this adapter uses. */
interface EdgeContext {
  waitUntil?(promise: Promise<unknown>): void;
}

/**
 * A `fetch` handler. `platform` holds the arguments after the request: the environment and the context in Workers, only the context
 * in other runtimes.
 */
export type EdgeHandler<Platform extends readonly unknown[]> = (
  request: Request,
  ...platform: Platform
) => Response | Promise<Response>;

/** The options of the handler for Workers and other runtimes at the edge. */
export interface EdgeMountOptions<Platform extends readonly unknown[], Context = unknown> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: the 404 of `wrongAddress`. */
  readonly fallback?: EdgeHandler<Platform>;
  /** Makes the host's own context for a request. The backend and the stores receive it as `call.context`. */
  readonly context?: (request: Request, ...platform: Platform) => Context;
}

/**
 * Returns the gateway as the `fetch` of a Worker. Passes unfinished calls to `waitUntil`: otherwise the runtime would stop a call when its
 * client disconnects, before the call is settled.
 *
 * @example export default { fetch: toEdgeHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }) };
 */
export function toEdgeHandler<Platform extends readonly unknown[] = readonly unknown[], Context = unknown>(
  gateway: Mountable<Context>,
  options: EdgeMountOptions<Platform, Context> = {},
): EdgeHandler<Platform> {
  const routes = mountedRoutes("toEdgeHandler", gateway, options, FETCH_SHAPES);
  const { fallback, context } = options;
  return (request, ...platform) => {
    const runtime = platform.at(-1) as EdgeContext | undefined;
    const address = request.headers.get("cf-connecting-ip") ?? undefined;
    const mounted = new FetchMount(() => context?.(request, ...platform), address, runtime?.waitUntil?.bind(runtime));
    const handle = (): Promise<Response> | undefined => routes.handle(request, mounted);
    const mayUpgrade = "WebSocketPair" in globalThis && !isBroken(request);
    const connecting = mayUpgrade ? connect(routes, request, mounted, upgraded, handle) : undefined;
    if (connecting) return connecting;
    const response = handle();
    if (!response && fallback) return fallback(request, ...platform);
    // workerd closes the connection of a client that is still sending.
    return afterBody(request, response ?? routes.fetch(request), MAX_BYTES);
  };
}

/**
 * Tells whether a handshake lacks what the runtime needs: workerd then answers 400 by itself, and never tells the Worker that its end of
 * the connection leads nowhere. Only a request that came over a network has a host; one of another Worker has no such headers.
 */
const isBroken = ({ headers }: Request): boolean =>
  headers.has("host") && !(headers.has("sec-websocket-key") && headers.get("sec-websocket-version") === "13");

/** The two ends of a connection in a Worker. */
type Pair = new () => { readonly 0: WebSocketLike; readonly 1: WebSocketLike & { accept(): void } };

function upgraded(handler: SocketHandler): Response {
  const { WebSocketPair } = globalThis as unknown as { readonly WebSocketPair: Pair };
  const { 0: client, 1: own } = new WebSocketPair();
  own.accept();
  attach(own, handler);
  const init: object = { status: 101, webSocket: client };
  return new Response(null, init);
}
