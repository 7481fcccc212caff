// postgres-driver.test.ts
// Run it on an empty database: `DATABASE_URL=postgres://… npx vitest run postgres-driver`.
import { Pool } from "pg";
import { ledgerQuotaStore } from "polygate/stores";
import { budgetLaws, type OpenBudgetStore, quotaStoreLaws } from "polygate/testing";
import { afterAll, beforeAll, describe, it } from "vitest";
import { postgresDriver, SCHEMA } from "./postgres-driver.ts";

const pool = new Pool({ connectionString: process.env["DATABASE_URL"] });
beforeAll(() => pool.query(SCHEMA).then(() => {}));
afterAll(() => pool.end());

const open: OpenBudgetStore = async ({ keys, budgets, onBudget }) => {
  let ahead = 0; // The laws move the clock forward.
  const driver = postgresDriver(pool, () => ahead);
  const store = ledgerQuotaStore(driver, { onBudget });
  for (const budget of budgets) await store.addBudget(budget);
  for (const key of keys) await store.add(key);
  return {
    store,
    budgets: store,
    advance: (ms) => void (ahead += ms),
    async audit(keyId) {
      const report = await store.report(keyId);
      if (!report) throw new Error(`There is no key ${keyId}.`);
      return report;
    },
    removeSecret: (apiKey) => store.removeSecret(apiKey),
  };
};

describe("a store over postgres-driver.ts", () => {
  for (const law of quotaStoreLaws)
    it(law.name, () => law.verify(({ keys }) => open({ keys, budgets: [], onBudget() {} })));
  for (const law of budgetLaws) it(law.name, () => law.verify(open));
});
