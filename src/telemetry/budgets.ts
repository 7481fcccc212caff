/** Metrics of budgets, which are read from the quota store when an exporter collects them. */

import type { BatchObservableCallback, Meter, ObservableGauge } from "@opentelemetry/api";
import { type BudgetReport, type Clock, systemClock } from "../index.ts";
import { assertMethods, assertOptions, CLOCK, CURRENCY, oneLine, printError, tellHost } from "../options.ts";
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
  /**
   * The currency of which a unit is a millionth, such as `usd`: all gauges then have it as the label `polygate.currency`, in capitals, so that
   * alerts name money. Default: no such label.
   */
  readonly currency?: string;
  /** The source of time. Default: the machine's clock. */
  readonly clock?: Clock;
}

/** The most budgets with metrics. An SDK keeps 2,000 series of a metric by default. */
const MOST_BUDGETS = 1_000;
/** The budgets of one page. */
const PAGE = 500;
/** The longest wait of an export for the store, in milliseconds. */
const WAIT_MS = 1_000;

/** The gauges: fields of `BudgetReport`. */
const GAUGES = {
  granted: "Quota units of the current period: the amount of the budget, with what was taken over and topped up.",
  used: "Quota units used in the current period, with those of live holds.",
  available: "Quota units left in the current period.",
  overdraft: "Quota units consumed in the current period beyond the budget. They are not a part of the used units.",
} as const satisfies Partial<Record<keyof BudgetReport, string>>;

/**
 * Adds gauges of each budget of a quota store to a meter: `polygate.budget.granted`, `.used`, `.available` and `.overdraft`, in units of the
 * current period, with the labels `polygate.budget` and `polygate.budget.name`. `used` and `available` add up to `granted`, unless the
 * amount was lowered below `used`; `overdraft` comes on top of `used`. The first 1,000 budgets by their ids have metrics.
 *
 * An export waits at most a second for the store. While the store is slow or fails, an export has the numbers of the last reading. A reader
 * of the SDK that reports gauges as cumulative also keeps those of a removed or renamed budget until the process ends.
 *
 * @returns A function that removes the gauges. Call it before you close the store.
 * @throws TypeError for a meter or a store without the methods that are needed, and for a text that is no code of a currency.
 * @example
 * const stop = budgetMetrics(meterProvider.getMeter("my-gateway"), stores.ports.quotas);
 */
export function budgetMetrics(meter: Meter, quotas: BudgetSource, options: BudgetMetricsOptions = {}): () => void {
  assertMethods("budgetMetrics", "meter", meter, ["createObservableGauge", "addBatchObservableCallback"], "a Meter");
  assertMethods("budgetMetrics", "quotas", quotas, ["listBudgets"], "a quota store with budgets");
  assertOptions<BudgetMetricsOptions>("budgetMetrics", options, {
    onError: "function?",
    currency: { optional: CURRENCY },
    clock: CLOCK,
  });
  const { onError = logError, currency, clock = systemClock } = options;
  const budgets = new BudgetReadings(quotas, onError, clock);
  const gauges = Object.entries(GAUGES).map(([field, description]): [keyof typeof GAUGES, ObservableGauge] => [
    // The cast is safe: `field` is a key of the table.
    field as keyof typeof GAUGES,
    meter.createObservableGauge(`polygate.budget.${field}`, { unit: "{unit}", description }),
  ]);
  const observe: BatchObservableCallback = async (result) => {
    for (const report of await budgets.latest()) {
      const labels = {
        "polygate.budget": report.id,
        "polygate.budget.name": report.name,
        ...(currency !== undefined && { "polygate.currency": currency.toUpperCase() }),
      };
      for (const [field, gauge] of gauges) result.observe(gauge, report[field], labels);
    }
  };
  const all = gauges.map(([, gauge]) => gauge);
  meter.addBatchObservableCallback(observe, all);
  return () => meter.removeBatchObservableCallback(observe, all);
}

/** Chooses the budgets that are labels of refusals: the first that a call draws on, or that refuse a call. */
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
  readonly #clock: Clock;
  #isReading = false;
  #last: readonly BudgetReport[] = [];
  /** The last reason that was told. */
  #told = "";

  constructor(quotas: BudgetSource, onError: (error: unknown) => unknown, clock: Clock) {
    this.#quotas = quotas;
    this.#onError = onError;
    this.#clock = clock;
  }

  /** Begins to read the budgets, unless an earlier reading still runs, and waits for the end of its own reading for a second at most. */
  async latest(): Promise<readonly BudgetReport[]> {
    if (!this.#isReading)
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.after(WAIT_MS, () => {
          this.#tell(new Error("The store of the budgets does not answer in time."));
          resolve();
        });
        const end = (): void => {
          cancel();
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
    if (reason !== this.#told) tellHost(this.#onError, error);
    this.#told = reason;
  }
}

const logError = (error: unknown): void =>
  printError(`The metrics of budgets have a problem: ${error instanceof Error ? oneLine(error.message) : "unknown"}`);
