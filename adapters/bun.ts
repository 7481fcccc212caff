/** Mounts a gateway in `Bun.serve`. */

import type { Gateway, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { ServerMount } from "./fetch-mount.ts";

assertNodeVersion();

/** What the handler touches of Bun's server. */
export interface BunServer {
  timeout(request: Request, seconds: number): void;
  requestIP?(request: Request): { readonly address: string } | null;
}

/** What `Bun.serve` takes as its `fetch`. */
export type BunHandler<Server extends BunServer> = (request: Request, server: Server) => Response | Promise<Response>;

export interface BunMountOptions<Server extends BunServer, Context = unknown> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: a bare 404. */
  readonly fallback?: BunHandler<Server>;
  /** Makes the host's own context for a request: what `call.context` is to the backend and the stores. */
  readonly context?: (request: Request, server: Server) => Context;
}

/**
 * The gateway as the `fetch` of `Bun.serve`, or one of its `routes`. Bun would close a connection on which nothing was written
 * for ten seconds; on the gateway's own routes that is off, because the gateway has a deadline of its own.
 *
 * @example Bun.serve({ fetch: toBunHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }) });
 */
export function toBunHandler<Server extends BunServer = BunServer, Context = unknown>(
  gateway: Gateway<Context>,
  { prefix = "", fallback = notFound, context }: BunMountOptions<Server, Context> = {},
): BunHandler<Server> {
  const routes = gateway.at(prefix);
  return (request, server) => {
    const address = server.requestIP?.(request)?.address;
    const response = routes.handle(request, new ServerMount(request, () => context?.(request, server), address));
    if (!response) return fallback(request, server);
    server.timeout(request, 0);
    return response;
  };
}

const notFound = (): Response => new Response(null, { status: 404 });
