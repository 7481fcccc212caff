/** The public face of "polygate/testing": what a host checks its own ports with, under any test runner. */

export { type ImageStoreLaw, type ImageStoreSetup, imageStoreLaws, type OpenImageStore } from "./image-store.ts";
export { type ManualClock, manualClock } from "./manual-clock.ts";
export { type OpenQuotaStore, type QuotaStoreLaw, type QuotaStoreSetup, quotaStoreLaws } from "./quota-store.ts";
