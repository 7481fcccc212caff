/** Opens the SQL store on a clock that can be advanced. */

import { sql } from "kysely";
import { type DurableQuotaStore, sqlQuotaStore, type SqlQuotaStoreOptions } from "../../../src/stores/sql/index.ts";
import type { BudgetStoreSetup, OpenBudgetStore, OpenedBudgetStore } from "../../../src/testing/laws/budgets.ts";
import type { OpenedQuotaStore, OpenQuotaStore } from "../../../src/testing/laws/index.ts";
import type { TestPlace } from "./databases.ts";

/** Opens a store whose clock can be advanced beyond the database's, and returns this clock for other stores of the same database. */
export function storeAt(
  { dialect, prefix, ...place }: TestPlace,
  db: TestPlace["db"] = place.db,
  options: Pick<SqlQuotaStoreOptions, "onBudget" | "maxVerbsPerTransaction"> = {},
): { store: DurableQuotaStore; advance: (ms: number) => void; clock: NonNullable<SqlQuotaStoreOptions["clock"]> } {
  let ahead = 0;
  const clock: SqlQuotaStoreOptions["clock"] = (now) => sql`(${now} + ${sql.lit(ahead)})`;
  const store = sqlQuotaStore({ db, dialect, prefix, clock, ...options });
  return { store, advance: (ms) => void (ahead += ms), clock };
}

/** Opens stores for the laws, all in the same place of a database. */
export const openAt =
  (place: () => TestPlace): OpenQuotaStore =>
  async ({ keys }) =>
    openedOf(storeAt(place()), keys);

export async function openedOf(
  { store, advance }: { store: DurableQuotaStore; advance: (ms: number) => void | Promise<void> },
  keys: Parameters<OpenQuotaStore>[0]["keys"],
): Promise<OpenedQuotaStore> {
  for (const key of keys) await store.add(key);
  return {
    store,
    advance,
    async audit(keyId) {
      const report = await store.report(keyId);
      if (!report) throw new Error(`The store does not know the key ${keyId}.`);
      return report;
    },
    removeSecret: (apiKey) => store.removeSecret(apiKey),
  };
}

/** Opens stores for the laws of budgets. */
export const openBudgetsAt =
  (place: () => TestPlace): OpenBudgetStore =>
  ({ onBudget, ...setup }) =>
    openedBudgetsOf(storeAt(place(), place().db, { onBudget }), setup);

export async function openedBudgetsOf(
  at: { store: DurableQuotaStore; advance: (ms: number) => void | Promise<void> },
  { keys, budgets }: Omit<BudgetStoreSetup, "onBudget">,
): Promise<OpenedBudgetStore> {
  for (const budget of budgets) await at.store.addBudget(budget);
  return { ...(await openedOf(at, keys)), budgets: at.store };
}
