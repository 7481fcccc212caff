/** The public names of polygate, one by one. */

import { assertNodeVersion } from "./node-version.ts";

assertNodeVersion();

export {
  createGateway,
  type Gateway,
  type GatewayApp,
  type GatewayEndpoint,
  type GatewayOptions,
  type GatewayRoutes,
  type MountOptions,
} from "./gateway.ts";
export type { CorsOptions } from "./http/cors.ts";
export type { Mounted } from "./line/call.ts";
export type { CallOutcome, CallRecord, Failure, OnCall, OnFailure, UnsettledCharge } from "./ports/observer.ts";
export type {
  AskedUpstream,
  BegunCall,
  BreakerGauge,
  BreakerState,
  CallObserver,
  GatewayGauges,
  HoldChange,
  Observer,
  RateDecision,
  UpstreamObserver,
  UpstreamOutcome,
} from "./ports/call-observer.ts";
export type { Answer } from "./http/answer.ts";
export { GatewayError, type GatewayErrorCode, type GatewayErrorDetails, type Port } from "./errors.ts";
export { DEFAULT_LIMITS, type Limits } from "./limits.ts";
export type { DialectOptions } from "./dialects/index.ts";
export type { ImagesOptions } from "./dialects/images/index.ts";
export type { FileProfile, ImageProfile, OperationProfile } from "./dialects/images/schema.profiles.ts";
export type { MessagesOptions } from "./dialects/messages/index.ts";
export { type CountTokens, countTokensByScript } from "./metering/count-tokens.ts";
export { type ImageKind, type ImagePrice, imagePriceTable } from "./metering/image-price.ts";
export { type Price, tokenPrice } from "./metering/price.ts";
export type {
  CacheHint,
  ChatMessage,
  ChatRequest,
  CodeExecutionTool,
  CodeLanguage,
  CodeOutcome,
  CodePart,
  CodeResultPart,
  DocumentPart,
  FunctionTool,
  HarmCategory,
  JsonPart,
  MediaPart,
  MediaSource,
  NativeRequest,
  OutputModality,
  Part,
  ProviderPart,
  ProviderTool,
  Reasoning,
  ReasoningPart,
  RedactedReasoningPart,
  ResponseFormat,
  Role,
  SafetySetting,
  Speech,
  TextPart,
  Tool,
  ToolCallPart,
  ToolChoice,
  ToolResultPart,
  WireObject,
} from "./model/chat.ts";
export type {
  Annotation,
  Attribution,
  Citation,
  Grounding,
  HarmProbability,
  Logprob,
  Logprobs,
  PromptFeedback,
  RetrievedUrl,
  SafetyRating,
  Segment,
  Support,
} from "./model/annotation.ts";
export type { ChatEvent, ContentEvent, FinishEvent, FinishReason, StartEvent } from "./model/event.ts";
export type { Fate, FieldFate } from "./model/fate.ts";
export type {
  ImageDelivery,
  ImageDrawn,
  ImageEvent,
  ImageFile,
  ImageMediaType,
  ImageOperation,
  ImageRequest,
  ImageUsage,
} from "./model/image.ts";
export type { JsonObject, JsonValue } from "./model/json.ts";
export type { Certainty, ModalityCount, Usage, UsageDetails } from "./model/usage.ts";
export { type Cancel, type Clock, systemClock } from "./ports/clock.ts";
export type { CodeCall, CodeResult, CodeRunner, CodeToRun } from "./ports/code-runner.ts";
export type { WaitUntil } from "./ports/wait-until.ts";
export type { CallInfo } from "./ports/call-info.ts";
export {
  type ImageBooking,
  type ImageStore,
  isImageId,
  type StoredImage,
  TOMBSTONE_MS,
  type WantedRoom,
} from "./ports/image-store.ts";
export type { CallContext, HangUp, ModelBackend, ModelInfo, ModelKind } from "./ports/model-backend.ts";
export type {
  ApiKey,
  Balance,
  HoldRequest,
  Outcome,
  QuotaStore,
  Refusal,
  Renewal,
  Reservation,
} from "./ports/quota-store.ts";
export type { CallDemand, RateKind, RateLimit, RateLimiter, RateVerdict, TokenDemand } from "./ports/rate-limiter.ts";
export type {
  RecordedAnswer,
  ReplayClaim,
  ReplayHolder,
  ReplayRecord,
  ReplayState,
  ReplayStore,
} from "./ports/replay-store.ts";
export { hashApiKey } from "./stores/api-key-hash.ts";
export type { ApiKeyOptions } from "./stores/keyring.ts";
export {
  type LedgerReport,
  type MemoryQuotaStore,
  type MemoryQuotaStoreOptions,
  memoryQuotaStore,
} from "./stores/memory.ts";
export { type MemoryImageStore, memoryImageStore, type MemoryImageStoreOptions } from "./stores/memory-images.ts";
export { type MemoryReplayStore, memoryReplayStore, type MemoryReplayStoreOptions } from "./stores/memory-replays.ts";
export { flexibleRateLimiter, type FlexibleRateLimiterOptions, type RateLimits } from "./stores/rate-limits.ts";
export type { RateCount, RateCounter } from "./stores/rate-counters.ts";
export {
  type ImageStorage,
  type UnstorageImageStore,
  type UnstorageImageStoreOptions,
  unstorageImageStore,
} from "./stores/unstorage-images.ts";
