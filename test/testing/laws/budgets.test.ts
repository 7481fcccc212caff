/** The memory store keeps the laws of budgets, and each law notices a fault. */

import { AssertionError } from "node:assert";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  type BudgetChanges,
  type BudgetEvent,
  type BudgetOptions,
  type BudgetReport,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { spanAt } from "../../../src/stores/budgets.ts";
import {
  budgetLaws,
  type BudgetStoreSetup,
  type OpenBudgetStore,
  type OpenedBudgetStore,
} from "../../../src/testing/laws/budgets.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { verbsOf } from "./faults.ts";

function openMemoryBudgets({ keys, ...options }: BudgetStoreSetup): OpenedBudgetStore {
  const clock = manualClock(Date.now());
  const store = memoryQuotaStore(keys, { clock, ...options });
  return {
    store,
    budgets: store,
    advance: (ms) => clock.advance(ms),
    audit(keyId) {
      const report = store.report(keyId);
      if (!report) throw new Error(`The store does not know the key ${keyId}.`);
      return report;
    },
    removeSecret: (apiKey) => store.removeSecret(apiKey),
  };
}

/** The verbs of a memory store's budgets, without their object. */
const budgetsOf = ({ budgets }: OpenedBudgetStore): OpenedBudgetStore["budgets"] => ({
  addBudget: (budget) => budgets.addBudget(budget),
  removeBudget: (id) => budgets.removeBudget(id),
  updateBudget: (id, changes) => budgets.updateBudget(id, changes),
  topUpBudget: (id, units) => budgets.topUpBudget(id, units),
  lowerBudget: (id, units) => budgets.lowerBudget(id, units),
  assignBudget: (keyId, budgetId) => budgets.assignBudget(keyId, budgetId),
  budgetReport: (id) => budgets.budgetReport(id),
});

/** Reads the report of a budget that is there. */
async function reportIn({ budgets }: OpenedBudgetStore, id: string): Promise<BudgetReport> {
  const report = await budgets.budgetReport(id);
  if (!report) throw new RangeError(`There is no budget ${id}.`);
  return report;
}

interface BudgetMutant {
  readonly fault: string;
  readonly open: OpenBudgetStore;
}

const withSetup = (fault: string, change: (setup: BudgetStoreSetup) => BudgetStoreSetup): BudgetMutant => ({
  fault,
  open: (setup) => openMemoryBudgets(change(setup)),
});

const withTerms = (fault: string, change: (budget: BudgetOptions) => BudgetOptions): BudgetMutant =>
  withSetup(fault, (setup) => ({ ...setup, budgets: setup.budgets.map(change) }));

const withFault = (
  fault: string,
  change: (opened: OpenedBudgetStore, setup: BudgetStoreSetup) => Partial<OpenedBudgetStore>,
): BudgetMutant => ({
  fault,
  open(setup) {
    const opened = openMemoryBudgets(setup);
    return { ...opened, ...change(opened, setup) };
  },
});

const HIDDEN = 1_000_000;

const mutants: readonly BudgetMutant[] = [
  withSetup("knows no budgets of keys", (setup) => ({
    ...setup,
    keys: setup.keys.map(({ budget: _budget, ...key }) => key),
  })),
  withTerms("knows no parents", ({ parent: _parent, ...budget }) => budget),
  withFault("takes nothing over", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      addBudget: ({ rollover: _rollover, ...budget }) => opened.budgets.addBudget(budget),
    },
  })),
  withTerms("takes all periods over", (budget) => (budget.period ? { ...budget, rollover: true } : budget)),
  withTerms("begins all periods without a time zone in UTC", (budget) =>
    budget.period ? { timeZone: "UTC", ...budget } : budget,
  ),
  withTerms("never begins a period", ({ period: _period, rollover: _rollover, ...budget }) => budget),
  withTerms("begins a period each week", (budget) => (budget.period ? { ...budget, period: "week" } : budget)),
  withSetup("tells each threshold twice", (setup) => ({
    ...setup,
    onBudget(event) {
      setup.onBudget(event);
      setup.onBudget(event);
    },
  })),
  withSetup("tells of nothing", (setup) => ({ ...setup, onBudget() {} })),
  {
    fault: "tells of a lowered amount at the next call alone",
    open(setup) {
      const late: BudgetEvent[] = [];
      let isChanging = false;
      const onBudget: BudgetStoreSetup["onBudget"] = (event) => {
        if (isChanging) late.push(event);
        else [...late.splice(0), event].forEach(setup.onBudget);
      };
      const opened = openMemoryBudgets({ ...setup, onBudget });
      const updateBudget = async (id: string, changes: BudgetChanges): Promise<BudgetReport> => {
        isChanging = true;
        const report = await opened.budgets.updateBudget(id, changes);
        await setImmediate();
        isChanging = false;
        return report;
      };
      return { ...opened, budgets: { ...budgetsOf(opened), updateBudget } };
    },
  },
  withFault("lowers no hold", ({ store }) => ({
    store: { ...verbsOf(store), renew: (id, { leaseMs, used }) => store.renew(id, { leaseMs, used }) },
  })),
  withFault("forgets what a too small amount took away", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      async updateBudget(id, changes) {
        const before = await opened.budgets.budgetReport(id);
        const changed = await opened.budgets.updateBudget(id, changes);
        return before?.granted === 0 && changes.amount !== undefined
          ? opened.budgets.topUpBudget(id, Math.max(0, (before.gap ?? 0) - before.used - before.amount))
          : changed;
      },
    },
  })),
  withFault("ignores top-ups", (opened) => ({
    budgets: { ...budgetsOf(opened), topUpBudget: (id) => reportIn(opened, id) },
  })),
  withFault("takes no top-up back", (opened) => ({
    budgets: { ...budgetsOf(opened), lowerBudget: (id) => reportIn(opened, id) },
  })),
  withFault("returns a budget as it was before its change", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      async updateBudget(id, changes) {
        const before = await reportIn(opened, id);
        await opened.budgets.updateBudget(id, changes);
        return before;
      },
    },
  })),
  withFault("takes units of running calls back", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      async lowerBudget(id, units) {
        const amount = (await opened.budgets.budgetReport(id))?.amount ?? 0;
        return opened.budgets.updateBudget(id, { amount: Math.max(0, amount - units) });
      },
    },
  })),
  withFault("ignores new names", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      updateBudget: (id, { amount }) => opened.budgets.updateBudget(id, amount === undefined ? {} : { amount }),
    },
  })),
  withFault("ignores new amounts", (opened) => ({
    budgets: { ...budgetsOf(opened), updateBudget: (id) => reportIn(opened, id) },
  })),
  withFault("ignores new budgets of keys", (opened) => ({ budgets: { ...budgetsOf(opened), assignBudget() {} } })),
  withFault("tops up for all periods", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      async topUpBudget(id, units) {
        const report = await opened.budgets.budgetReport(id);
        return opened.budgets.updateBudget(id, { amount: (report?.amount ?? 0) + units });
      },
    },
  })),
  withFault("charges late calls to the present", ({ store, budgets }, setup) => {
    const reserved = new Map<string, { readonly keyId: string; readonly startsAt: number | undefined }>();
    const beginOf = async () => (await budgets.budgetReport(setup.budgets[0]?.id ?? ""))?.startsAt;
    return {
      store: {
        ...verbsOf(store),
        async reserve(hold) {
          reserved.set(hold.id, { keyId: hold.keyId, startsAt: await beginOf() });
          return store.reserve(hold);
        },
        async settle(id, outcome) {
          const { keyId = "", startsAt } = reserved.get(id) ?? {};
          if (startsAt === (await beginOf())) return store.settle(id, outcome);
          await store.settle(id, { ...outcome, used: 0 });
          await store.reserve({ id: `${id} late`, keyId, atLeast: 0, atMost: 0, leaseMs: 1_000 });
          await store.settle(`${id} late`, outcome);
        },
      },
    };
  }),
  withFault("charges twice what is settled twice", ({ store }) => {
    const keyIds = new Map<string, string>();
    const settled = new Map<string, number>();
    return {
      store: {
        ...verbsOf(store),
        async reserve(hold) {
          keyIds.set(hold.id, hold.keyId);
          return store.reserve(hold);
        },
        async settle(id, outcome) {
          const count = settled.get(id) ?? 0;
          settled.set(id, count + 1);
          if (count === 0) return store.settle(id, outcome);
          const again = { id: `${id} ${count}`, keyId: keyIds.get(id) ?? "", leaseMs: 1_000 };
          await store.reserve({ ...again, atLeast: 0, atMost: outcome.used });
          await store.settle(again.id, outcome);
        },
      },
    };
  }),
  withFault("drops what is settled after expiry", ({ store, budgets }, setup) => ({
    store: {
      ...verbsOf(store),
      async settle(id, outcome) {
        const [before] = await Promise.all(setup.budgets.map(async ({ id }) => budgets.budgetReport(id)));
        if ((before?.held ?? 0) > 0) await store.settle(id, outcome);
      },
    },
  })),
  {
    fault: "reads what is left, and holds a moment later",
    open({ budgets, keys, ...setup }) {
      const opened = openMemoryBudgets({
        ...setup,
        keys,
        budgets: budgets.map((budget) => ({ ...budget, amount: budget.amount + HIDDEN })),
      });
      const report: OpenedBudgetStore["budgets"]["budgetReport"] = async (id) => {
        const told = await opened.budgets.budgetReport(id);
        return told && { ...told, granted: told.granted - HIDDEN, available: told.available - HIDDEN };
      };
      return {
        ...opened,
        budgets: { ...budgetsOf(opened), budgetReport: report },
        store: {
          ...verbsOf(opened.store),
          async reserve(hold) {
            const reports = await Promise.all(budgets.map(async ({ id }) => report(id)));
            await setImmediate();
            const atMost = Math.min(hold.atMost, ...reports.map((told) => told?.available ?? 0));
            if (atMost < hold.atLeast) return { refused: true, available: Math.max(0, atMost), held: 0 };
            return opened.store.reserve({ ...hold, atMost });
          },
        },
      };
    },
  },
  withFault("removes nothing", (opened) => ({ budgets: { ...budgetsOf(opened), removeBudget() {} } })),
  withFault("forgets what it removes", (opened) => {
    const removed = new Set<string>();
    return {
      budgets: {
        ...budgetsOf(opened),
        async removeBudget(id) {
          await opened.budgets.removeBudget(id);
          removed.add(id);
        },
        budgetReport: (id) => (removed.has(id) ? undefined : opened.budgets.budgetReport(id)),
      },
    };
  }),
  withFault("looks for keys, and removes a moment later", (opened) => {
    const budgetsOfKeys = new Map<string, string | undefined>();
    const removed = new Set<string>();
    return {
      budgets: {
        ...budgetsOf(opened),
        async assignBudget(keyId, id) {
          if (id !== undefined && removed.has(id)) throw new RangeError("Removed.");
          await opened.budgets.assignBudget(keyId, id);
          budgetsOfKeys.set(keyId, id);
        },
        async removeBudget(id) {
          if ([...budgetsOfKeys.values()].includes(id)) throw new RangeError("In use.");
          await setImmediate();
          removed.add(id);
        },
        async budgetReport(id) {
          const report = await opened.budgets.budgetReport(id);
          return report && removed.has(id) ? { ...report, removed: true } : report;
        },
      },
    };
  }),
  withFault("reports that a lowered budget was granted what it has used", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      async budgetReport(id) {
        const report = await opened.budgets.budgetReport(id);
        return report && { ...report, granted: report.used + report.available };
      },
    },
  })),
  withFault("takes any budget", (opened) => ({
    budgets: {
      ...budgetsOf(opened),
      async addBudget(budget) {
        const { id, amount } = budget;
        const told = { id, name: id, amount, granted: amount, available: amount };
        const nothing = { used: 0, held: 0, overdraft: 0, estimated: 0 };
        return (async () => opened.budgets.addBudget(budget))().catch(() => ({ ...told, ...nothing }));
      },
    },
  })),
];

/** The laws that a store breaks. */
async function brokenBy({ open }: BudgetMutant): Promise<Map<string, unknown>> {
  const broken = new Map<string, unknown>();
  for (const law of budgetLaws) await law.verify(open).catch((error: unknown) => broken.set(law.name, error));
  return broken;
}

describe("budgets of memoryQuotaStore", () => {
  it.each(budgetLaws)("$name", async (law) => {
    await expect(law.verify(openMemoryBudgets)).resolves.toBeUndefined();
  });

  it("return what a removed key has held", async () => {
    const store = memoryQuotaStore([{ apiKey: "one", budget: "team" }], { budgets: [{ id: "team", amount: 10 }] });
    await store.reserve({ id: "call", keyId: "key-1", atLeast: 8, atMost: 8, leaseMs: 1_000 });
    store.remove("key-1");
    expect(store.budgetReport("team")).toMatchObject({ used: 0, available: 10, held: 0 });
  });

  it("are named before the keys that draw on them", () => {
    expect(() => memoryQuotaStore([{ apiKey: "one", budget: "team" }])).toThrow("There is no budget of the id team.");
  });

  it("go on when the host's function throws, rejects or hangs", async () => {
    for (const onBudget of [
      () => {
        throw new Error("no pager");
      },
      () => Promise.reject(new Error("no pager")),
      () => new Promise(() => {}),
    ]) {
      const budgets = [{ id: "team", amount: 10 }];
      const store = memoryQuotaStore([{ apiKey: "one", budget: "team" }], { budgets, onBudget });
      for (const id of ["one", "two"]) {
        await store.reserve({ id, keyId: "key-1", atLeast: 5, atMost: 5, leaseMs: 1_000 });
        await store.settle(id, { used: 5, certainty: "exact" });
      }
      expect(store.budgetReport("team")).toMatchObject({ used: 10, available: 0 });
    }
  });
});

describe("budgetLaws", () => {
  it.each(mutants)("notice a store that $fault", async (mutant) => {
    const broken = [...(await brokenBy(mutant)).values()];
    expect(broken.some((error) => error instanceof AssertionError)).toBe(true);
  });

  it("are each broken by a mutant at least", async () => {
    const broken = await Promise.all(mutants.map(brokenBy));
    const names = new Set(broken.flatMap((laws) => [...laws.keys()]));
    expect(budgetLaws.map(({ name }) => name).filter((name) => !names.has(name))).toEqual([]);
  });
});

const at = (period: "day" | "week" | "month", timeZone: string, now: string): readonly string[] => {
  const { startsAt, endsAt } = spanAt({ period, timeZone }, Date.parse(now));
  return [startsAt, endsAt].map((time) => new Date(time).toISOString());
};

describe("the period of a budget", () => {
  it.each([
    ["day", "UTC", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z"],
    ["day", "UTC", "2026-03-01T23:59:59.999Z", "2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z"],
    ["day", "Asia/Kathmandu", "2026-03-01T18:14:59Z", "2026-02-28T18:15:00.000Z", "2026-03-01T18:15:00.000Z"],
    // The clocks change: a day of 23 hours, and one of 25.
    ["day", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"],
    ["day", "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00.000Z", "2026-10-25T23:00:00.000Z"],
    // There is no midnight on this day, because the clocks go from 24:00 to 1:00.
    ["day", "Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-23T22:00:00.000Z", "2026-04-24T21:00:00.000Z"],
    // The island has skipped the 30th.
    ["day", "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00.000Z", "2011-12-30T10:00:00.000Z"],
    ["week", "UTC", "2026-03-01T12:00:00Z", "2026-02-23T00:00:00.000Z", "2026-03-02T00:00:00.000Z"],
    ["week", "UTC", "2026-03-02T00:00:00Z", "2026-03-02T00:00:00.000Z", "2026-03-09T00:00:00.000Z"],
    ["month", "UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"],
    ["month", "America/New_York", "2026-11-01T03:59:59Z", "2026-10-01T04:00:00.000Z", "2026-11-01T04:00:00.000Z"],
    ["month", "America/New_York", "2026-11-01T04:00:00Z", "2026-11-01T04:00:00.000Z", "2026-12-01T05:00:00.000Z"],
  ] as const)("a %s in %s at %s", (period, timeZone, now, startsAt, endsAt) => {
    expect(at(period, timeZone, now)).toEqual([startsAt, endsAt]);
  });
});
