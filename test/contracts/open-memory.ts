/** Opens the memory store for the laws of its port. */

import { memoryQuotaStore } from "../../src/index.ts";
import { manualClock, type OpenedQuotaStore, type QuotaStoreSetup } from "./index.ts";

/** A memory store on a clock that stands still until it is advanced. */
export function openMemoryStore({ keys }: QuotaStoreSetup): OpenedQuotaStore {
  // By chance a store might read the machine's clock and tell the right time: this one begins with it.
  const clock = manualClock(Date.now());
  const store = memoryQuotaStore(keys, { clock });
  return {
    store,
    advance: (ms) => clock.advance(ms),
    audit(keyId) {
      const report = store.report(keyId);
      if (!report) throw new Error(`The store does not know the key ${keyId}.`);
      return report;
    },
    removeSecret: (apiKey) => store.removeSecret(apiKey),
  };
}
