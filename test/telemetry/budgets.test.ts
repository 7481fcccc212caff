/** Gauges of budgets, over the stores of the package and over stores that fail, hang and have too many. */

import {
  AggregationTemporality,
  InMemoryMetricExporter,
  type MetricData,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { describe, expect, it } from "vitest";
import { type BudgetReport, type Clock, memoryQuotaStore } from "../../src/index.ts";
import { openStores } from "../../src/stores/open/index.ts";
import { budgetMetrics, type BudgetSource } from "../../src/telemetry/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { watched } from "./stage.ts";

interface Read {
  /** The value of each budget, by its id. */
  readonly gauge: (name: string) => Promise<Readonly<Record<string, unknown>>>;
  /** The values of all gauges of each budget, by the budget's name and id. */
  readonly all: () => Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>>>;
  readonly errors: unknown[];
  readonly stop: () => void;
}

function measured(quotas: BudgetSource, clock?: Clock): Read {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 });
  const errors: unknown[] = [];
  const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
  const stop = budgetMetrics(meter, quotas, {
    onError: (error) => errors.push(error),
    ...(clock && { clock }),
  });
  const read = async (): Promise<readonly MetricData[]> => {
    exporter.reset();
    await reader.forceFlush();
    return exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
  };
  return {
    errors,
    stop,
    async gauge(name) {
      const all = await read();
      const points = all.find(({ descriptor }) => descriptor.name === `polygate.budget.${name}`)?.dataPoints ?? [];
      return Object.fromEntries(points.map(({ attributes, value }) => [attributes["polygate.budget"], value]));
    },
    async all() {
      const budgets: Record<string, Record<string, unknown>> = {};
      for (const { descriptor, dataPoints } of await read())
        for (const { attributes, value } of dataPoints) {
          const labels = ["polygate.budget.name", "polygate.budget"].map((label) => attributes[label]);
          const gauges = (budgets[labels.join(", ")] ??= {});
          gauges[descriptor.name.replace("polygate.budget.", "")] = value;
        }
      return budgets;
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

  it("tell the units of the period, with top-ups, and beyond them the overdraft, by id and name", async () => {
    const quotas = memoryQuotaStore([{ id: "anna", apiKey: "sk-anna", budget: "team-a" }], {
      budgets: [
        { id: "company", name: "The company", amount: 1_000, period: "month" },
        { id: "team-a", amount: 30, parent: "company" },
      ],
    });
    const { all } = measured(quotas);
    await quotas.reserve(HOLD);
    await quotas.settle("h", { used: 75, certainty: "exact" });
    quotas.topUpBudget("company", 500);
    expect(await all()).toEqual({
      "The company, company": { granted: 1_500, used: 75, available: 1_425, overdraft: 0 },
      "team-a, team-a": { granted: 30, used: 30, available: 0, overdraft: 45 },
    });
  });

  it("have the currency of their units as a label", async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 });
    const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
    const quotas = memoryQuotaStore([], { budgets: [{ id: "team-a", amount: 30 }] });
    budgetMetrics(meter, quotas, { currency: "usd" });
    await reader.forceFlush();
    const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((each) => each.metrics));
    const labels = metrics.flatMap(({ dataPoints }) => dataPoints.map(({ attributes }) => attributes));
    const label = { "polygate.budget": "team-a", "polygate.budget.name": "team-a", "polygate.currency": "USD" };
    expect(labels).toEqual([label, label, label, label]);
    expect(() => budgetMetrics(meter, quotas, { currency: "dollars" })).toThrow(
      "currency must be a code of three letters",
    );
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
    const clock = manualClock();
    const { promise: hanging, resolve: answer } = Promise.withResolvers<readonly BudgetReport[]>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    const hang = (): Promise<readonly BudgetReport[]> => {
      ask();
      return hanging;
    };
    const answers = [() => report(4), hang, () => report(1)];
    const { gauge, errors } = measured({ listBudgets: () => answers.shift()?.() ?? [] }, clock);
    expect(await gauge("available")).toEqual({ b: 4 });
    const late = gauge("available");
    await asked;
    await clock.advance(999);
    expect(errors).toEqual([]);
    await clock.advance(1);
    expect(await late).toEqual({ b: 4 });
    // The next export does not ask a store once more that has not answered yet.
    expect(await gauge("available")).toEqual({ b: 4 });
    expect(answers).toHaveLength(1);
    expect(errors).toEqual([new Error("The store of the budgets does not answer in time.")]);
    answer(report(2));
    await clock.advance(0);
    expect(await gauge("available")).toEqual({ b: 1 });
    expect(clock.pending).toBe(0);
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
