/** The library for Cloudflare's Workers and similar runtimes. The build puts the whole library into this one file without imports. */

import { assertNodeVersion } from "../src/node-version.ts";

assertNodeVersion();

export { type EdgeHandler, type EdgeMountOptions, toEdgeHandler } from "./edge-mount.ts";
export { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS, relay } from "../src/upstreams/relay/index.ts";
export { balance, canary, DEFAULT_BREAKER, DEFAULT_RETRY, hedge, route, shadow } from "../src/upstreams/route/index.ts";
// Export everything that the index exports: this bundle has its own copies of the classes, and a host must not mix the two.
export {
  borrowingQuotaStore,
  countTokensByScript,
  createGateway,
  DEFAULT_LIMITS,
  encryptedResponseStore,
  flexibleRateLimiter,
  GatewayError,
  hashApiKey,
  imagePriceTable,
  isImageId,
  memoryImageStore,
  memoryQuotaStore,
  memoryReplayStore,
  memoryResponseStore,
  systemClock,
  TOMBSTONE_MS,
  tokenPrice,
  unstorageImageStore,
  unstorageResponseStore,
  wrongAddress,
} from "../src/index.ts";
