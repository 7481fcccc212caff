/** The borrowing store keeps the laws of its port over every store, while its calls live in blocks. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memoryQuotaStore } from "../../../src/index.ts";
import { verifyLedger } from "../../../src/stores/sql/index.ts";
import { budgetLaws } from "../../../src/testing/laws/budgets.ts";
import { manualClock, quotaStoreLaws, type QuotaStoreSetup } from "../../../src/testing/laws/index.ts";
import { drivers, redisAnswers, type RedisPlace, redisStoreAt } from "../redis/servers.ts";
import { databases, sqliteInMemory, type TestPlace } from "../sql/databases.ts";
import { openedBudgetsOf, openedOf, storeAt } from "../sql/open.ts";
import { borrowingBudgetsFrom, borrowingFrom } from "./open.ts";

/**
 * The laws of budgets that hold with blocks. A call whose lease is over moves to a hold of its own, which draws on the budgets of that
 * moment (docs/busy-keys.md). store.test.ts holds what happens then.
 */
const blockLaws = budgetLaws.filter(
  ({ name }) => name !== "a call that is settled after all is charged to a budget that was removed",
);

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

  it.each(blockLaws)("budgets: $name", async (law) => {
    const verified = law.verify(({ keys, ...options }) => {
      const opened = openMemory({ keys }, options);
      return borrowingBudgetsFrom({ ...opened, budgets: opened.store }, { keys });
    });
    await expect(verified).resolves.toBeUndefined();
  });
});

// The borrowing store has no statement of its own, so one database stands for all.
const [database] = databases.filter(({ name }) => name.startsWith("PostgreSQL"));

describe.each([database ?? sqliteInMemory])("borrowingQuotaStore over $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    beforeAll(async () => void (place = await database.place()));
    afterAll(() => place?.remove());

    it.each(quotaStoreLaws)("$name", async (law) => {
      const verified = law.verify(async (setup) => {
        const at = storeAt(place);
        return borrowingFrom({ ...(await openedOf(at, setup.keys)), store: at.store }, setup);
      });
      await expect(verified).resolves.toBeUndefined();
    });

    it.each(blockLaws)("budgets: $name", async (law) => {
      const verified = law.verify(async ({ onBudget, ...setup }) => {
        const at = storeAt(place, place.db, { onBudget });
        return borrowingBudgetsFrom({ ...(await openedBudgetsOf(at, setup)), store: at.store }, setup);
      });
      await expect(verified).resolves.toBeUndefined();
    });

    it("has a journal that comes to the same after all of them", async () => {
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });
  });
});

describe.skipIf(!redisAnswers)("borrowingQuotaStore over Redis", () => {
  let place: RedisPlace;
  beforeAll(async () => void (place = (await drivers[0]?.place()) ?? place));
  afterAll(() => place?.remove());

  it.each(quotaStoreLaws)("$name", async (law) => {
    const verified = law.verify(async (setup) => {
      const at = redisStoreAt(place);
      return borrowingFrom({ ...(await openedOf(at, setup.keys)), store: at.store }, setup);
    });
    await expect(verified).resolves.toBeUndefined();
  });

  it.each(blockLaws)("budgets: $name", async (law) => {
    const verified = law.verify(async ({ onBudget, ...setup }) => {
      const at = redisStoreAt(place, { onBudget });
      return borrowingBudgetsFrom({ ...(await openedBudgetsOf(at, setup)), store: at.store }, setup);
    });
    await expect(verified).resolves.toBeUndefined();
  });
});
