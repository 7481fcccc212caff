// quota-store.test.ts
// Write `my-store.ts` yourself: it opens your store, with functions for what the laws look at.
import { type OpenQuotaStore, quotaStoreLaws } from "polygate/testing";
import { describe, it } from "vitest";
import { connect } from "./my-store.ts";

const open: OpenQuotaStore = async ({ keys }) => {
  const store = await connect();
  for (const key of keys) await store.addKey(key);
  return {
    store,
    advance: (ms) => store.shiftClock(ms), // Moves the clock of the leases forward.
    audit: (keyId) => store.audit(keyId), // Returns used, available, held, overdraft and estimated units.
    removeSecret: (apiKey) => store.removeSecret(apiKey),
    close: () => store.close(),
  };
};

describe("my store", () => {
  for (const law of quotaStoreLaws) it(law.name, () => law.verify(open));
});
