/** The exports of "polygate": makes a gateway, with its stores, limits and prices. */

import { assertNodeVersion } from "./node-version.ts";

assertNodeVersion();

export { createGateway } from "./every-format.ts";
export type { FormatOptions, WireFormat } from "./formats/all.ts";
export type { CoreGateway, Gateway, GatewayEndpoint, GatewayOptions, Mountable, MountOptions } from "./gateway.ts";
export type { CoreRoutes, GatewayApp, GatewayRoutes } from "./routes.ts";
export { type WrongAddress, wrongAddress } from "./wrong-address.ts";
export type { GatewayHealth, HealthOptions, StoreHealth } from "./pipeline/health.ts";
export type { CorsOptions, SocketHandler, SocketPeer } from "./http/answer.ts";
export type { Mounted } from "./pipeline/call.ts";
export type {
  DuringCode,
  Hook,
  HookAnswer,
  HookCall,
  HookDecision,
  HookEvent,
  HookRequest,
  HookStep,
  HookToolCall,
} from "./ports/hook.ts";
export type {
  CallOutcome,
  CallRecord,
  FailedUpstream,
  Failure,
  MovedOn,
  OnCall,
  OnFailure,
  RecordedKey,
  UnsettledCharge,
  UpstreamAttempt,
} from "./ports/observer.ts";
export type {
  AskedUpstream,
  BegunCall,
  BreakerGauge,
  BreakerState,
  CallObserver,
  GatewayGauges,
  HoldChange,
  LiveCall,
  Observer,
  RateDecision,
  TelemetryNames,
  UpstreamErrors,
  UpstreamFailure,
  UpstreamObserver,
  UpstreamOutcome,
  UpstreamStatus,
} from "./ports/observer.ts";
export type { EncryptionKey } from "./encryption.ts";
export type { Answer } from "./http/answer.ts";
export {
  type ContextTokens,
  GatewayError,
  type GatewayErrorCode,
  type GatewayErrorDetails,
  type VendorLimits,
  type VendorReason,
  type Port,
  type RefusedBy,
} from "./errors.ts";
export { DEFAULT_LIMITS, type Limits } from "./limits.ts";
export type { FileProfile, ImageProfile, ImagesOptions, OperationProfile } from "./formats/images/request.profiles.ts";
export type { MessagesOptions } from "./formats/messages/routes.ts";
export type { CompactionOptions } from "./formats/responses/compaction.keys.ts";
export type { ResponsesOptions } from "./formats/responses/routes.ts";
export { type CountTokens, countTokensByScript } from "./kinds/count-tokens.ts";
export { type ImageKind, type ImagePrice, imagePriceTable } from "./kinds/image/price.ts";
export { type Price, tokenPrice } from "./kinds/chat/price.ts";
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
  ReasoningControl,
  ReasoningEffort,
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
} from "./model/chat-request.ts";
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
} from "./model/chat-event.ts";
export type { ChatEvent, ContentEvent, FinishEvent, FinishReason, StartEvent } from "./model/chat-event.ts";
export type { ConversionKind, Conversion } from "./model/conversion.ts";
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
export type {
  EmbeddingContent,
  EmbeddingCount,
  EmbeddingEvent,
  EmbeddingInput,
  EmbeddingRequest,
  EmbeddingTask,
  EmbeddingUsage,
  EmbeddingVector,
} from "./model/embedding.ts";
export type { JsonObject, JsonValue } from "./model/json.ts";
export type { Certainty, ModalityCount, NativeUsage, Usage, UsageDetails, UsageStep } from "./model/usage.ts";
export { type Cancel, type Clock, systemClock } from "./ports/clock.ts";
export type { CodeCall, CodeResult, CodeRunner, CodeToRun } from "./ports/code-runner.ts";
export type { WaitUntil } from "./ports/call-info.ts";
export type { CallInfo } from "./ports/call-info.ts";
export {
  type ImageBooking,
  type ImageStore,
  isImageId,
  type StoredImage,
  TOMBSTONE_MS,
  type WantedRoom,
} from "./ports/image-store.ts";
export type { CallContext, HangUp, ModelBackend, ModelInfo, UpstreamModel } from "./ports/model-backend.ts";
export type { ModelKind } from "./ports/call-info.ts";
export type {
  ApiKey,
  Balance,
  HoldRequest,
  Outcome,
  QuotaRecalls,
  QuotaStore,
  Refusal,
  Renewal,
  Reservation,
  TightestBudget,
} from "./ports/quota-store.ts";
export type {
  CallDemand,
  RateKind,
  RateLimit,
  RateLimiter,
  RateRefusal,
  RateVerdict,
  TokenDemand,
} from "./ports/rate-limiter.ts";
export type {
  RecordedAnswer,
  ReplayClaim,
  ReplayHolder,
  ReplayRecord,
  ReplayState,
  ReplayStore,
} from "./ports/replay-store.ts";
export type { DocumentPage, DocumentUpdate, KeptDocument, NewDocument, ResponseStore } from "./ports/response-store.ts";
export type {
  BudgetChanges,
  BudgetEvent,
  BudgetBooks,
  BudgetOptions,
  BudgetPeriod,
  BudgetReport,
  OnBudget,
} from "./stores/budgets.ts";
export type { KeyDirectory, KeyPage, KeyReport, DurableKeyOptions } from "./stores/durable.ts";
export {
  type BorrowedUnits,
  type BorrowingQuotaStore,
  borrowingQuotaStore,
  type BorrowingQuotaStoreOptions,
} from "./stores/borrowing.ts";
export { hashApiKey } from "./stores/ledger.ts";
export type { ApiKeyOptions, KeyChanges } from "./stores/ledger.ts";
export {
  type LedgerReport,
  type MemoryQuotaStore,
  type MemoryQuotaStoreOptions,
  memoryQuotaStore,
} from "./stores/memory.ts";
export { type MemoryImageStore, memoryImageStore, type MemoryImageStoreOptions } from "./stores/memory-images.ts";
export { type MemoryReplayStore, memoryReplayStore, type MemoryReplayStoreOptions } from "./stores/memory-replays.ts";
export { encryptedResponseStore, type EncryptedResponseStoreOptions } from "./stores/encrypted-responses.ts";
export {
  type MemoryResponseStore,
  memoryResponseStore,
  type MemoryResponseStoreOptions,
} from "./stores/memory-responses.ts";
export { flexibleRateLimiter, type FlexibleRateLimiterOptions } from "./stores/rate-limits.ts";
export type { RateCount, RateCounter, RateLimits, RateTier } from "./stores/rate-limits.ts";
export {
  type ImageStorage,
  type UnstorageImageStore,
  type UnstorageImageStoreOptions,
  unstorageImageStore,
} from "./stores/unstorage-images.ts";
export {
  type ResponseStorage,
  type UnstorageResponseStore,
  type UnstorageResponseStoreOptions,
  unstorageResponseStore,
} from "./stores/unstorage-responses.ts";
