/** polygate/testing: a scripted backend, the demo's model, a gateway and matchers for a host's own tests, and laws for a host's own stores. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export { demoModel } from "../demo/backend.ts";
export {
  assertCharged,
  assertRecorded,
  type ExpectedRecord,
  type MatcherResult,
  type PolygateMatchers,
  polygateMatchers,
} from "./matchers.ts";
export { type Script, type ScriptedBackend, scriptedBackend, type ScriptedBackendOptions } from "./scripted-backend.ts";
export { type TestGateway, testGateway, type TestGatewayOptions, type TestKeyOptions } from "./test-gateway.ts";
export {
  type AskedRequest,
  delay,
  embedding,
  type EmbeddingPiece,
  type EmbeddingTurnOptions,
  endless,
  failure,
  image,
  type ImagePiece,
  type ImageTurnOptions,
  refusal,
  reply,
  type ReplyOptions,
  type ReplyPiece,
  type ReplyUsage,
  silence,
  toolCall,
  type ToolCallOptions,
  type Turn,
} from "./turns.ts";
export {
  type BudgetLaw,
  budgetLaws,
  type BudgetStoreSetup,
  type ImageStoreLaw,
  imageStoreLaws,
  type ImageStoreSetup,
  type ManualClock,
  manualClock,
  type OpenBudgetStore,
  type OpenedBudgetStore,
  type OpenedQuotaStore,
  type OpenedRateLimiter,
  type OpenedReplayStore,
  type OpenedResponseStore,
  type OpenImageStore,
  type OpenQuotaStore,
  type OpenRateLimiter,
  type OpenReplayStore,
  type OpenResponseStore,
  type QuotaAudit,
  type QuotaStoreLaw,
  quotaStoreLaws,
  type QuotaStoreSetup,
  type RateLimiterLaw,
  rateLimiterLaws,
  type RateLimiterSetup,
  type ReplayStoreLaw,
  replayStoreLaws,
  type ResponseStoreLaw,
  responseStoreLaws,
  type ResponseStoreSetup,
} from "./laws/index.ts";
