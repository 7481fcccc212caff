/** The borrowing store keeps the laws of its port over every store, while its calls live in blocks. */

import { describe, expect, it } from "vitest";
import { memoryQuotaStore } from "../../src/index.ts";
import { budgetLaws } from "../contracts/budgets.ts";
import { manualClock, quotaStoreLaws, type QuotaStoreSetup } from "../contracts/index.ts";
import { borrowingBudgetsFrom, borrowingFrom } from "./borrowing/open.ts";

function openMemory({ keys }: QuotaStoreSetup, options = {}) {
  const clock = manualClock(Date.now());
  const store = memoryQuotaStore(keys, { clock, ...options });
  return {
    store,
    advance: (ms: number) => clock.advance(ms),
    audit(keyId: string) {
      const report = store.report(keyId);
      if (!report) throw new Error(`The store does not know the key ${keyId}.`);
      return report;
    },
    removeSecret: (apiKey: string) => store.removeSecret(apiKey),
  };
}

describe("borrowingQuotaStore over memory", () => {
  it.each(quotaStoreLaws)("$name", async (law) => {
    await expect(law.verify((setup) => borrowingFrom(openMemory(setup), setup))).resolves.toBeUndefined();
  });

  it.each(budgetLaws)("budgets: $name", async (law) => {
    const verified = law.verify(({ keys, ...options }) => {
      const opened = openMemory({ keys }, options);
      return borrowingBudgetsFrom({ ...opened, budgets: opened.store }, { keys });
    });
    await expect(verified).resolves.toBeUndefined();
  });
});
