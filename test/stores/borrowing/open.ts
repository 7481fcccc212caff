/** Opens borrowing stores for laws, on a clock that the law moves. */

import {
  type BorrowingQuotaStore,
  borrowingQuotaStore,
  type BorrowingQuotaStoreOptions,
  type QuotaRecalls,
  type QuotaStore,
} from "../../../src/index.ts";
import type { OpenedBudgetStore } from "../../../src/testing/laws/budgets.ts";
import {
  manualClock,
  type OpenedQuotaStore,
  type QuotaAudit,
  type QuotaStoreSetup,
} from "../../../src/testing/laws/index.ts";

const WINDOW_MS = 60_000;

/** Every call borrows, and no call waits for other processes. */
const ALWAYS: BorrowingQuotaStoreOptions = {
  minCalls: 0,
  recallWaitMs: 0,
  keyCacheMs: 0,
  windowMs: WINDOW_MS,
  recallMs: WINDOW_MS / 2,
};

interface Opened extends OpenedQuotaStore {
  readonly store: QuotaStore & QuotaRecalls;
}

/** A store whose calls live in blocks. The books are those of the store, with the blocks of this process as what their calls used. */
export function borrowingFrom(
  opened: Opened,
  { keys }: QuotaStoreSetup,
): OpenedQuotaStore & { readonly store: BorrowingQuotaStore } {
  const clock = manualClock();
  const store = borrowingQuotaStore(opened.store, { ...ALWAYS, clock });
  const keyIds = Promise.all(keys.map(async ({ apiKey }) => (await store.find([apiKey].flat()[0] ?? ""))?.id ?? ""));
  return {
    ...opened,
    store,
    async advance(ms) {
      // Both clocks go on together, and the calls that expire on the way reach the store.
      for (let [step, end] = [1, clock.now() + ms]; clock.now() < end; step++) {
        const stepMs = Math.min(end - clock.now(), step < 20 ? WINDOW_MS : 60 * WINDOW_MS);
        await opened.advance(stepMs);
        await clock.advance(stepMs);
        for (const keyId of await keyIds) await store.balance(keyId);
      }
      // A hold that a call has left behind expires a millisecond later.
      await opened.advance(1);
    },
    async audit(keyId): Promise<QuotaAudit> {
      await store.balance(keyId);
      const { free, charged, overdraft, estimated } = store.borrowed(keyId);
      const audit = await opened.audit(keyId);
      return {
        used: audit.used - free,
        available: audit.available === null ? null : audit.available + free,
        held: audit.held - free - charged,
        overdraft: audit.overdraft + overdraft,
        estimated: audit.estimated + estimated,
      };
    },
    async close() {
      await store.close();
      await opened.close?.();
    },
  };
}

/** A store whose calls live in blocks, and whose blocks have ended before a budget is read or removed. */
export function borrowingBudgetsFrom(opened: OpenedBudgetStore & Opened, setup: QuotaStoreSetup): OpenedBudgetStore {
  const borrowing = borrowingFrom(opened, setup);
  return {
    ...borrowing,
    budgets: {
      addBudget: (budget) => opened.budgets.addBudget(budget),
      async removeBudget(id) {
        await borrowing.advance(WINDOW_MS);
        await opened.budgets.removeBudget(id);
      },
      updateBudget: (id, changes) => opened.budgets.updateBudget(id, changes),
      topUpBudget: (id, units) => opened.budgets.topUpBudget(id, units),
      lowerBudget: (id, units) => opened.budgets.lowerBudget(id, units),
      assignBudget: (keyId, budgetId) => opened.budgets.assignBudget(keyId, budgetId),
      async budgetReport(id) {
        await borrowing.advance(WINDOW_MS);
        return opened.budgets.budgetReport(id);
      },
    },
  };
}
