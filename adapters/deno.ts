/** Mounts a gateway in `Deno.serve`. */

import type { Mountable, MountOptions, SocketHandler } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { connect, FETCH_SHAPES, FetchMount, ServerMount } from "./fetch-mount.ts";
import { mountedRoutes } from "./mount.ts";
import { attach, type WebSocketLike } from "./web-socket.ts";

assertNodeVersion();

/** A handler for `Deno.serve`. */
export type DenoHandler<Info> = (request: Request, info: Info) => Response | Promise<Response>;

/** The options of the handler for `Deno.serve`. */
export interface DenoMountOptions<Info, Context = unknown> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: the 404 of `wrongAddress`. */
  readonly fallback?: DenoHandler<Info>;
  /** Makes the host's own context for a request. The backend and the stores receive it as `call.context`. */
  readonly context?: (request: Request, info: Info) => Context;
}

/**
 * Returns the gateway as the handler of `Deno.serve`.
 *
 * @example Deno.serve(toDenoHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }));
 */
export function toDenoHandler<Info = unknown, Context = unknown>(
  gateway: Mountable<Context>,
  options: DenoMountOptions<Info, Context> = {},
): DenoHandler<Info> {
  const routes = mountedRoutes("toDenoHandler", gateway, options, FETCH_SHAPES);
  const { fallback, context } = options;
  return (request, info) => {
    // Deno makes the address of the header and the path: with a part of a path in the header, a proxy before it has seen another path.
    if (/[/?#@\\]/.test(request.headers.get("host") ?? "")) return new Response(null, { status: 400 });
    // A connection over a Unix socket has no address.
    const address = (info as { remoteAddr?: { hostname?: string } } | undefined)?.remoteAddr?.hostname;
    const contextOf = (): Context | undefined => context?.(request, info);
    const handle = (): Promise<Response> | undefined =>
      routes.handle(request, new ServerMount(request, contextOf, address));
    if (request.headers.has("upgrade")) {
      const mounted = new FetchMount(contextOf, address);
      const connecting = connect(routes, request, mounted, (handler) => upgraded(request, handler), handle);
      if (connecting) return connecting;
    }
    return handle() ?? (fallback ? fallback(request, info) : routes.fetch(request));
  };
}

/** The part of Deno's namespace that switches protocols. */
interface Upgrades {
  upgradeWebSocket(request: Request): { readonly socket: WebSocketLike; readonly response: Response };
}

function upgraded(request: Request, handler: SocketHandler): Response {
  const { Deno } = globalThis as unknown as { readonly Deno: Upgrades };
  const { socket, response } = Deno.upgradeWebSocket(request);
  attach(socket, handler);
  return response;
}
