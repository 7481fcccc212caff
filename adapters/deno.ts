/** Mounts a gateway in `Deno.serve`. */

import type { Gateway, MountOptions } from "../src/index.ts";

export type DenoHandler<Info> = (request: Request, info: Info) => Response | Promise<Response>;

export interface DenoMountOptions<Info> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: a bare 404. */
  readonly fallback?: DenoHandler<Info>;
}

/**
 * The gateway as the handler of `Deno.serve`.
 *
 * @example Deno.serve(toDenoHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }));
 */
export function toDenoHandler<Info = unknown>(
  gateway: Gateway,
  { prefix = "", fallback = notFound }: DenoMountOptions<Info> = {},
): DenoHandler<Info> {
  const routes = gateway.at(prefix);
  return (request, info) => routes.handle(request) ?? fallback(request, info);
}

const notFound = (): Response => new Response(null, { status: 404 });
