/** Metrics of budgets, which are read from the quota store when an exporter collects them. */

import type { BatchObservableCallback, Meter, ObservableGauge } from "@opentelemetry/api";
import type { BudgetReport } from "../index.ts";
import { assertMethods, assertOptions, oneLine } from "../options.ts";
import { OTHER } from "./models.ts";

/** The part of a quota store that the metrics read: every store of the package has it. */
export interface BudgetSource {
  /** Lists up to `limit` budgets in the order of their ids, from the first id behind `after`. */
  listBudgets(page: {
    readonly after: string;
    readonly limit: number;
  }): readonly BudgetReport[] | Promise<readonly BudgetReport[]>;
}

/** The options of `budgetMetrics`. */
export interface BudgetMetricsOptions {
  /**
   * Is told why the budgets cannot be read, and that there are more of them than have metrics. The same reason is told once. Default: writes a
   * line to `console.error`.
   */
  readonly onError?: (error: unknown) => unknown;
}

/** The most budgets with metrics. An SDK keeps 2,000 series of a metric by default. */
const MOST_BUDGETS = 1_000;
/** The budgets of one page. */
const PAGE = 500;
/** The longest wait of an export for the store, in milliseconds. */
const WAIT_MS = 1_000;

/**
 * Adds gauges of each budget of a quota store to a meter: `polygate.budget.used` and `polygate.budget.available`,
 * in units of the current period, with the label `polygate.budget`. The first 1,000 budgets by their ids have metrics.
 *
 * An export waits at most a second for the store. While the store is slow or fails, an export has the numbers of the last reading. The SDK also
 * keeps those of a removed budget until the process ends.
 *
 * @returns A function that removes the gauges. Call it before you close the store.
 * @throws TypeError for a meter or a store without the methods that are needed.
 * @example
 * const stop = budgetMetrics(meterProvider.getMeter("my-gateway"), stores.ports.quotas);
 */
export function budgetMetrics(meter: Meter, quotas: BudgetSource, options: BudgetMetricsOptions = {}): () => void {
  assertMethods("budgetMetrics", "meter", meter, ["createObservableGauge", "addBatchObservableCallback"], "a Meter");
  assertMethods("budgetMetrics", "quotas", quotas, ["listBudgets"], "a quota store with budgets");
  assertOptions<BudgetMetricsOptions>("budgetMetrics", options, { onError: "function?" });
  const budgets = new BudgetReadings(quotas, options.onError ?? logError);
  const gauge = (name: string, description: string): ObservableGauge =>
    meter.createObservableGauge(`polygate.budget.${name}`, { unit: "{unit}", description });
  const used = gauge("used", "Quota units used in the current period, with those of live holds.");
  const available = gauge("available", "Quota units left in the current period.");
  const gauges = [used, available];
  const observe: BatchObservableCallback = async (result) => {
    for (const report of await budgets.latest()) {
      const label = { "polygate.budget": report.id };
      result.observe(used, report.used, label);
      result.observe(available, report.available, label);
    }
  };
  meter.addBatchObservableCallback(observe, gauges);
  return () => meter.removeBatchObservableCallback(observe, gauges);
}

/** Chooses the budgets that are labels of counters: the first that a call draws on, or that refuse a call. */
export class BudgetLabels {
  readonly #labelled = new Set<string>();

  /** Returns the label of a budget that gets its label now, and undefined for every other budget. */
  firstLabelOf(budget: string): string | undefined {
    return !this.#labelled.has(budget) && this.labelOf(budget) === budget ? budget : undefined;
  }

  labelOf(budget: string): string {
    if (this.#labelled.size < MOST_BUDGETS) this.#labelled.add(budget);
    return this.#labelled.has(budget) ? budget : OTHER;
  }
}

/** The budgets as they were last read. One reading runs at a time, also while the store hangs. */
class BudgetReadings {
  readonly #quotas: BudgetSource;
  readonly #onError: (error: unknown) => unknown;
  #isReading = false;
  #last: readonly BudgetReport[] = [];
  /** The last reason that was told. */
  #told = "";

  constructor(quotas: BudgetSource, onError: (error: unknown) => unknown) {
    this.#quotas = quotas;
    this.#onError = onError;
  }

  /** Begins to read the budgets, unless an earlier reading still runs, and waits for the end of its own reading for a second at most. */
  async latest(): Promise<readonly BudgetReport[]> {
    if (!this.#isReading)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(() => {
          this.#tell(new Error("The store of the budgets does not answer in time."));
          resolve();
        }, WAIT_MS);
        const end = (): void => {
          clearTimeout(timer);
          resolve();
        };
        void this.#read(end);
      });
    return this.#last;
  }

  /** @param end Is called when the reading has succeeded or failed. */
  async #read(end: () => void): Promise<void> {
    this.#isReading = true;
    try {
      const { budgets, isCut } = await this.#readPages();
      this.#last = budgets;
      if (isCut) this.#tell(new Error(`Only the first ${MOST_BUDGETS} budgets have metrics.`));
      else this.#told = "";
    } catch (error) {
      this.#tell(error);
    }
    this.#isReading = false;
    end();
  }

  async #readPages(): Promise<{ readonly budgets: readonly BudgetReport[]; readonly isCut: boolean }> {
    const budgets: BudgetReport[] = [];
    for (;;) {
      const page = await this.#quotas.listBudgets({ after: budgets.at(-1)?.id ?? "", limit: PAGE });
      if (page.length > 0 && budgets.length >= MOST_BUDGETS) return { budgets, isCut: true };
      budgets.push(...page);
      if (page.length < PAGE) return { budgets, isCut: false };
    }
  }

  #tell(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    if (reason !== this.#told) void tell(this.#onError, error);
    this.#told = reason;
  }
}

/** Calls a function of the host, which may throw, and may return a promise that rejects. */
async function tell(onError: (error: unknown) => unknown, error: unknown): Promise<void> {
  try {
    await onError(error);
  } catch {}
}

const logError = (error: unknown): void =>
  console.error(
    `The metrics of budgets have a problem: ${error instanceof Error ? oneLine(error.message) : "unknown"}`,
  );
