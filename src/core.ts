/**
 * The exports of `polygate/core`: gateways and relays that take their formats as values, so that a bundler leaves out the code of all other
 * formats. The other exports are those of `polygate/edge`.
 */

import { assertNodeVersion } from "./node-version.ts";

assertNodeVersion();

export { type EdgeHandler, type EdgeMountOptions, toEdgeHandler } from "../adapters/edge-mount.ts";
export { GatewayError } from "./errors.ts";
export { type GatewayFeature, withCors, withHooks, withReplays, withSockets } from "./features.ts";
export { type CoreGateway, type CoreGatewayOptions, type CoreOptions, createGateway } from "./gateway.ts";
export type {
  AnswerCollector,
  AnswerContext,
  AnswerDecoder,
  AnswerStream,
  ChatCodec,
  CodecOptions,
  EmbeddingCodec,
  Endpoint,
  EndpointOf,
  Format,
  Incoming,
  Query,
} from "./formats/format.ts";
export type {
  AddressRules,
  ChatVerbs,
  EmbeddingVerbs,
  FormatModule,
  FormatUpstreamOptions,
  GatewayFormat,
  ImageVerbs,
  RelayTools,
  UpstreamFormat,
  UpstreamResponse,
} from "./formats/module.ts";
export { chat as chatKind } from "./kinds/chat/index.ts";
export { embedding as embeddingKind } from "./kinds/embedding/index.ts";
export { image as imageKind } from "./kinds/image/index.ts";
export type { KindModule } from "./kinds/kind.ts";
export { tokenPrice } from "./kinds/chat/price.ts";
export { countTokensByScript } from "./kinds/count-tokens.ts";
export { imagePriceTable } from "./kinds/image/price.ts";
export { DEFAULT_LIMITS } from "./limits.ts";
export { systemClock } from "./ports/clock.ts";
export { isImageId, TOMBSTONE_MS } from "./ports/image-store.ts";
export { borrowingQuotaStore } from "./stores/borrowing.ts";
export { encryptedResponseStore } from "./stores/encrypted-responses.ts";
export { hashApiKey } from "./stores/ledger.ts";
export { memoryImageStore } from "./stores/memory-images.ts";
export { memoryReplayStore } from "./stores/memory-replays.ts";
export { memoryResponseStore } from "./stores/memory-responses.ts";
export { memoryQuotaStore } from "./stores/memory.ts";
export { flexibleRateLimiter } from "./stores/rate-limits.ts";
export { unstorageImageStore } from "./stores/unstorage-images.ts";
export { unstorageResponseStore } from "./stores/unstorage-responses.ts";
export { type WrongAddress, wrongAddress } from "./wrong-address.ts";
export { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "./upstreams/relay/options.ts";
export {
  type CoreRelayBackend,
  type CoreRelayOptions,
  type CoreRelayParts,
  relay,
  type RelayFeature,
  withCodeLoop,
  withCredentials,
} from "./upstreams/relay/relay.ts";
export { checkRelay } from "./upstreams/relay/check.ts";
export { balance, canary, DEFAULT_BREAKER, DEFAULT_RETRY, hedge, route, shadow } from "./upstreams/route/index.ts";
