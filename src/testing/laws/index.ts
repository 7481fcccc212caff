/** The laws of the ports: promises that a host checks on its own stores, under any test runner. */

export {
  type BudgetLaw,
  budgetLaws,
  type BudgetStoreSetup,
  type OpenBudgetStore,
  type OpenedBudgetStore,
} from "./budgets.ts";
export { type ImageStoreLaw, type ImageStoreSetup, imageStoreLaws, type OpenImageStore } from "./image-store.ts";
export { type ManualClock, manualClock } from "./manual-clock.ts";
export type { OpenedQuotaStore, OpenQuotaStore, QuotaAudit, QuotaStoreLaw, QuotaStoreSetup } from "./quota-ledger.ts";
export { quotaStoreLaws } from "./quota-store.ts";
export {
  type OpenedRateLimiter,
  type OpenRateLimiter,
  type RateLimiterLaw,
  rateLimiterLaws,
  type RateLimiterSetup,
} from "./rate-limiter.ts";
export { type OpenedReplayStore, type OpenReplayStore, type ReplayStoreLaw, replayStoreLaws } from "./replay-store.ts";
export {
  type OpenedResponseStore,
  type OpenResponseStore,
  type ResponseStoreLaw,
  responseStoreLaws,
  type ResponseStoreSetup,
} from "./response-store.ts";
