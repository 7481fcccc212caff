/** Mounts a gateway in `Bun.serve`. */

import type { CoreGateway, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { FETCH_SHAPES, notFound, ServerMount } from "./fetch-mount.ts";
import { assertMount } from "./mount.ts";

assertNodeVersion();

/** The parts of Bun's server that the handler uses. */
export interface BunServer {
  timeout(request: Request, seconds: number): void;
  requestIP?(request: Request): { readonly address: string } | null;
}

/** A `fetch` function for `Bun.serve`. */
export type BunHandler<Server extends BunServer> = (request: Request, server: Server) => Response | Promise<Response>;

export interface BunMountOptions<Server extends BunServer, Context = unknown> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: a 404 without a body. */
  readonly fallback?: BunHandler<Server>;
  /** Makes the host's own context for a request. The backend and the stores receive it as `call.context`. */
  readonly context?: (request: Request, server: Server) => Context;
}

/**
 * Returns the gateway as the `fetch` of `Bun.serve`, or as one of its `routes`. Switches off Bun's idle timeout of ten seconds for the
 * gateway's own routes, because the gateway has a deadline of its own.
 *
 * @example Bun.serve({ fetch: toBunHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }) });
 */
export function toBunHandler<Server extends BunServer = BunServer, Context = unknown>(
  gateway: CoreGateway<Context>,
  options: BunMountOptions<Server, Context> = {},
): BunHandler<Server> {
  assertMount("toBunHandler", gateway, options, FETCH_SHAPES);
  const { prefix = "", fallback = notFound, context } = options;
  const routes = gateway.at(prefix);
  return (request, server) => {
    const address = server.requestIP?.(request)?.address;
    const response = routes.handle(request, new ServerMount(request, () => context?.(request, server), address));
    if (!response) return fallback(request, server);
    server.timeout(request, 0);
    return response;
  };
}
