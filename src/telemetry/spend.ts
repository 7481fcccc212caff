/** Counts spend by group, budget or key. Each set of labels is a series, so only the first sets have a series of their own. */

import type { CallRecord } from "../index.ts";
import { OTHER } from "./models.ts";

/** A label of spend, as in a report of usage: the group, the own budget or the id of a call's key. */
export type SpendColumn = "group" | "budget" | "key";

export const SPEND_COLUMNS: readonly SpendColumn[] = ["group", "budget", "key"];

/** Returns the group of a call; undefined for a call without a group. */
export type GroupOf = (record: CallRecord) => string | undefined;

/** The most sets of labels. An SDK keeps 2,000 series of a metric by default. */
const MOST_SETS = 1_000;

const groupInMetadata: GroupOf = ({ key }) => key?.metadata?.["group"];

/** The sum of one series. */
interface Sum {
  readonly labels: Readonly<Record<string, string>>;
  units: number;
  /** True until a reader has seen the series. */
  isNew: boolean;
}

/**
 * The sums of spend. A new series is exported as 0 first, and with its units from the next export on: otherwise Prometheus would not see
 * the units of the first calls.
 */
export class Spend {
  readonly #by: readonly SpendColumn[];
  readonly #groupOf: GroupOf;
  readonly #sums = new Map<string, Sum>();
  #isLast = false;

  constructor(by: readonly SpendColumn[] = ["group", "budget"], groupOf: GroupOf = groupInMetadata) {
    this.#by = by;
    this.#groupOf = groupOf;
  }

  /** Passes each sum to an export. */
  report(observe: (units: number, labels: Sum["labels"]) => void): void {
    for (const sum of this.#sums.values()) {
      observe(sum.isNew && !this.#isLast ? 0 : sum.units, sum.labels);
      sum.isNew = false;
    }
  }

  add(record: CallRecord): void {
    const values = this.#by.map((column) => this.#valueOf(column, record));
    const own = JSON.stringify(values);
    const id = this.#sums.has(own) || this.#sums.size < MOST_SETS ? own : OTHER;
    let sum = this.#sums.get(id);
    if (!sum) {
      const labels = this.#by.flatMap((column, at) => {
        const value = id === OTHER ? OTHER : values[at];
        return value === undefined ? [] : [[`polygate.${column}`, value] as const];
      });
      this.#sums.set(id, (sum = { labels: Object.fromEntries(labels), units: 0, isNew: true }));
    }
    sum.units += record.units;
  }

  /** Exports new series with their units at once, because the next export may be the last. */
  end(): void {
    this.#isLast = true;
  }

  #valueOf(column: SpendColumn, record: CallRecord): string | undefined {
    if (column === "budget") return record.key?.budget;
    return column === "key" ? record.key?.id : this.#groupIn(record);
  }

  /** Asks the host's function, which may throw, and may return anything. */
  #groupIn(record: CallRecord): string | undefined {
    try {
      const group: unknown = this.#groupOf(record);
      return typeof group === "string" && group !== "" ? group : undefined;
    } catch {
      return undefined;
    }
  }
}
