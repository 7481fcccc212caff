/** The public names of polygate, one by one. */

export {
  createGateway,
  type Gateway,
  type GatewayOptions,
  type GatewayRoutes,
  type Mounted,
  type MountOptions,
} from "./gateway.ts";
export type { Failure } from "./pipeline.ts";
export { GatewayError, type GatewayErrorCode, type GatewayErrorDetails } from "./errors.ts";
export { DEFAULT_LIMITS, type Limits } from "./limits.ts";
export type { DialectOptions } from "./dialects/index.ts";
export type { ImagesOptions } from "./dialects/images/index.ts";
export type { FileProfile, ImageProfile, OperationProfile } from "./dialects/images/schema.profiles.ts";
export type { MessagesOptions } from "./dialects/messages/index.ts";
export { type CountTokens, countTokensByBytes } from "./metering/estimate.ts";
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
export type { Keep } from "./ports/keep.ts";
export { type ImageStore, isImageId, type StoredImage, TOMBSTONE_MS } from "./ports/image-store.ts";
export type { CallContext, ModelBackend, ModelInfo } from "./ports/model-backend.ts";
export type { ApiKeyRecord, HoldRequest, QuotaStore, Reservation } from "./ports/quota-store.ts";
export { hashApiKey } from "./stores/api-key-hash.ts";
export {
  type ApiKeyOptions,
  type LedgerReport,
  type MemoryQuotaStore,
  type MemoryQuotaStoreOptions,
  memoryQuotaStore,
} from "./stores/memory.ts";
export { type MemoryImageStore, memoryImageStore, type MemoryImageStoreOptions } from "./stores/memory-images.ts";
export {
  type ImageStorage,
  type UnstorageImageStore,
  type UnstorageImageStoreOptions,
  unstorageImageStore,
} from "./stores/unstorage-images.ts";
