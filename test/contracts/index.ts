/** The public face of "polygate/testing": what a host checks its own ports with, under any test runner. */

import { assertNodeVersion } from "../../src/node-version.ts";

assertNodeVersion();

export { type ImageStoreLaw, type ImageStoreSetup, imageStoreLaws, type OpenImageStore } from "./image-store.ts";
export { type ManualClock, manualClock } from "./manual-clock.ts";
export type {
  OpenedQuotaStore,
  OpenQuotaStore,
  QuotaAudit,
  QuotaStoreLaw,
  QuotaStoreSetup,
} from "./quota-store/contract.ts";
export { quotaStoreLaws } from "./quota-store.ts";
export { type OpenedReplayStore, type OpenReplayStore, type ReplayStoreLaw, replayStoreLaws } from "./replay-store.ts";
