/** Mounts a gateway in `Deno.serve`. */

import type { Gateway, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { ServerMount } from "./fetch-mount.ts";

assertNodeVersion();

/** What `Deno.serve` takes as its handler. */
export type DenoHandler<Info> = (request: Request, info: Info) => Response | Promise<Response>;

export interface DenoMountOptions<Info, Context = unknown> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: a bare 404. */
  readonly fallback?: DenoHandler<Info>;
  /** Makes the host's own context for a request: what `call.context` is to the backend and the stores. */
  readonly context?: (request: Request, info: Info) => Context;
}

/**
 * The gateway as the handler of `Deno.serve`.
 *
 * @example Deno.serve(toDenoHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }));
 */
export function toDenoHandler<Info = unknown, Context = unknown>(
  gateway: Gateway<Context>,
  { prefix = "", fallback = notFound, context }: DenoMountOptions<Info, Context> = {},
): DenoHandler<Info> {
  const routes = gateway.at(prefix);
  return (request, info) =>
    routes.handle(request, new ServerMount(request, () => context?.(request, info), addressOf(info))) ??
    fallback(request, info);
}

/** A connection over TCP tells its other end; one over a socket file has none. */
const addressOf = (info: unknown): string | undefined =>
  (info as { remoteAddr?: { hostname?: string } } | undefined)?.remoteAddr?.hostname;

const notFound = (): Response => new Response(null, { status: 404 });
