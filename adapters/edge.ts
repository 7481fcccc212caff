/** Mounts a gateway in a runtime like Cloudflare's Workers. This entry is the whole library in one file that imports nothing. */

import type { Gateway, MountOptions } from "../src/index.ts";
import { assertNodeVersion } from "../src/node-version.ts";
import { afterBody } from "./edge-drain.ts";
import { FetchMount } from "./fetch-mount.ts";

assertNodeVersion();

export { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS, relay } from "../src/backends/relay/index.ts";
export { DEFAULT_BREAKER, DEFAULT_RETRY, route } from "../src/backends/route/index.ts";
// All that the index exports, because a bundle has classes and stores of its own.
export {
  countTokensByScript,
  createGateway,
  DEFAULT_LIMITS,
  flexibleRateLimiter,
  GatewayError,
  hashApiKey,
  imagePriceTable,
  isImageId,
  memoryImageStore,
  memoryQuotaStore,
  memoryReplayStore,
  systemClock,
  TOMBSTONE_MS,
  tokenPrice,
  unstorageImageStore,
} from "../src/index.ts";

/** What the handler touches of the last thing that a runtime calls it with. */
interface EdgeContext {
  waitUntil?(promise: Promise<unknown>): void;
}

/** `platform` is what a runtime hands on beside a request: Workers an environment and a context, others a context alone. */
export type EdgeHandler<Platform extends readonly unknown[]> = (
  request: Request,
  ...platform: Platform
) => Response | Promise<Response>;

export interface EdgeMountOptions<Platform extends readonly unknown[], Context = unknown> extends MountOptions {
  /** Answers the routes that the gateway does not own. Default: a bare 404. */
  readonly fallback?: EdgeHandler<Platform>;
  /** Makes the host's own context for a request: what `call.context` is to the backend and the stores. */
  readonly context?: (request: Request, ...platform: Platform) => Context;
}

/**
 * The gateway as the `fetch` of a Worker. A call whose client has gone lives on until it is settled: without that, a runtime
 * of this kind stops whatever works for a client the moment it hangs up.
 *
 * @example export default { fetch: toEdgeHandler(gateway, { prefix: "/ai", fallback: () => new Response("My own.") }) };
 */
export function toEdgeHandler<Platform extends readonly unknown[] = readonly unknown[], Context = unknown>(
  gateway: Gateway<Context>,
  { prefix = "", fallback = notFound, context }: EdgeMountOptions<Platform, Context> = {},
): EdgeHandler<Platform> {
  const routes = gateway.at(prefix);
  return (request, ...platform) => {
    const runtime = platform.at(-1) as EdgeContext | undefined;
    const address = request.headers.get("cf-connecting-ip") ?? undefined;
    const mounted = new FetchMount(() => context?.(request, ...platform), address, runtime?.waitUntil?.bind(runtime));
    const answering = routes.handle(request, mounted);
    return answering ? afterBody(request, answering) : fallback(request, ...platform);
  };
}

const notFound = (): Response => new Response(null, { status: 404 });
