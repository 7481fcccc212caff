/** Gauges of budgets, over the stores of the package and over stores that fail, hang and have too many. */

import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { describe, expect, it, vi } from "vitest";
import { type BudgetReport, memoryQuotaStore } from "../../src/index.ts";
import { openStores } from "../../src/stores/open/index.ts";
import { budgetMetrics, type BudgetSource } from "../../src/telemetry/index.ts";
import { watched } from "./stage.ts";

interface Read {
  /** The value of each budget, by its id. */
  readonly gauge: (name: string) => Promise<Readonly<Record<string, unknown>>>;
  readonly errors: unknown[];
  readonly stop: () => void;
}

function measured(quotas: BudgetSource): Read {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 });
  const errors: unknown[] = [];
  const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
  const stop = budgetMetrics(meter, quotas, { onError: (error) => errors.push(error) });
  return {
    errors,
    stop,
    async gauge(name) {
      exporter.reset();
      await reader.forceFlush();
      const all = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
      const points = all.find(({ descriptor }) => descriptor.name === `polygate.budget.${name}`)?.dataPoints ?? [];
      return Object.fromEntries(points.map(({ attributes, value }) => [attributes["polygate.budget"], value]));
    },
  };
}

const BUDGETS = [
  { id: "company", amount: 1_000, period: "month" as const },
  { id: "team-a", amount: 300, parent: "company" },
];

const HOLD = { id: "h", keyId: "anna", atLeast: 1, atMost: 40, leaseMs: 60_000 };

describe("the gauges of budgets", () => {
  it("tell the books of a store in memory, without removed budgets", async () => {
    const quotas = memoryQuotaStore([{ id: "anna", apiKey: "sk-anna", budget: "team-a" }], {
      budgets: [...BUDGETS, { id: "gone", amount: 5 }],
    });
    quotas.removeBudget("gone");
    await quotas.reserve(HOLD);
    const { gauge, errors, stop } = measured(quotas);
    expect(await gauge("used")).toEqual({ company: 40, "team-a": 40 });
    await quotas.settle("h", { used: 30, certainty: "exact" });
    expect(await gauge("available")).toEqual({ company: 970, "team-a": 270 });
    stop();
    // The SDK keeps the last numbers of gauges that are not read any more.
    quotas.topUpBudget("company", 1);
    expect(await gauge("available")).toEqual({ company: 970, "team-a": 270 });
    expect(errors).toEqual([]);
  });

  it("tell all budgets of a store in SQL, page by page", async () => {
    const stores = await openStores("sqlite::memory:", { sweepMs: 0 });
    const { quotas } = stores.ports;
    const ids = Array.from({ length: 501 }, (_, at) => `team-${String(at).padStart(3, "0")}`);
    for (const id of ids) await quotas.addBudget({ id, amount: 7 });
    const { gauge, errors } = measured(quotas);
    expect(await gauge("available")).toEqual(Object.fromEntries(ids.map((id) => [id, 7])));
    expect(errors).toEqual([]);
    await stores.close();
  });

  it("are 1,000 at most, and say so once", async () => {
    const budgets = Array.from({ length: 1_001 }, (_, at) => ({ id: String(10_000 + at), amount: 1 }));
    const { gauge, errors } = measured(memoryQuotaStore([], { budgets }));
    expect(Object.keys(await gauge("used"))).toHaveLength(1_000);
    await gauge("used");
    expect(errors).toEqual([new Error("Only the first 1000 budgets have metrics.")]);
  });
});

const report = (available: number): readonly BudgetReport[] => [
  { id: "b", name: "b", amount: 9, granted: 9, used: 9 - available, available, held: 0, overdraft: 0, estimated: 0 },
];

describe("a store that", () => {
  it("fails is told once, and again after it has answered, and its last numbers are shown", async () => {
    let isDown = true;
    const { gauge, errors } = measured({
      listBudgets: async () => {
        if (isDown) throw new Error("away");
        return report(4);
      },
    });
    expect([await gauge("available"), await gauge("available")]).toEqual([{}, {}]);
    expect(errors).toEqual([new Error("away")]);
    isDown = false;
    expect(await gauge("available")).toEqual({ b: 4 });
    isDown = true;
    expect(await gauge("available")).toEqual({ b: 4 });
    expect(errors).toHaveLength(2);
  });

  it("hangs delays an export for a second at most, and its last numbers are shown", async () => {
    const { promise: hanging, resolve: answer } = Promise.withResolvers<readonly BudgetReport[]>();
    const listBudgets = vi.fn<BudgetSource["listBudgets"]>(async () => hanging).mockResolvedValueOnce(report(4));
    const { gauge, errors } = measured({ listBudgets });
    expect(await gauge("available")).toEqual({ b: 4 });
    expect(await gauge("available")).toEqual({ b: 4 });
    // The next export does not ask a store once more that has not answered yet.
    expect(await gauge("available")).toEqual({ b: 4 });
    expect(listBudgets).toHaveBeenCalledTimes(2);
    expect(errors).toEqual([new Error("The store of the budgets does not answer in time.")]);
    answer(report(2));
    await expect.poll(() => gauge("available")).toEqual({ b: 2 });
  });
});

it("counts the refusals of each budget by its name", async () => {
  const bench = watched();
  bench.store.addBudget({ id: "small", amount: 1 });
  bench.store.assignBudget("one", "small");
  expect((await bench.send()).status).toBe(429);
  expect((await bench.metrics())["polygate.budget.refusals"]).toEqual([
    { value: 1, attributes: { "polygate.budget": "small" } },
  ]);
});

it("counts no refusal of a budget from the first call that draws on it, so that a rate sees the first refusals", async () => {
  const bench = watched();
  bench.store.addBudget({ id: "large", amount: 1_000_000 });
  bench.store.assignBudget("one", "large");
  for (let call = 0; call < 2; call++) expect((await bench.send()).status).toBe(200);
  expect((await bench.metrics())["polygate.budget.refusals"]).toEqual([
    { value: 0, attributes: { "polygate.budget": "large" } },
  ]);
});

it("refuses a store without budgets and an option that does not exist", () => {
  const meter = new MeterProvider().getMeter("test");
  expect(() => budgetMetrics(meter, {} as BudgetSource)).toThrow(
    "budgetMetrics: quotas must be a quota store with budgets",
  );
  expect(() => budgetMetrics({} as never, memoryQuotaStore())).toThrow("budgetMetrics: meter must be a Meter");
  expect(() => budgetMetrics(meter, memoryQuotaStore(), { onErorr: () => {} } as never)).toThrow(
    "did you mean onError?",
  );
});
