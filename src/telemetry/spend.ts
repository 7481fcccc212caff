/** Chooses the labels of spend. Each set of labels is a series, so only the first sets have a series of their own. */

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

export class SpendLabels {
  readonly #by: readonly SpendColumn[];
  readonly #groupOf: GroupOf;
  readonly #known = new Set<string>();

  constructor(by: readonly SpendColumn[] = ["group", "budget"], groupOf: GroupOf = groupInMetadata) {
    this.#by = by;
    this.#groupOf = groupOf;
  }

  /** Returns the labels of a call. A call without a group or a budget lacks that label. */
  labelsOf(record: CallRecord): Readonly<Record<string, string>> {
    const values = this.#by.map((column) => [`polygate.${column}`, this.#valueOf(column, record)] as const);
    const id = JSON.stringify(values);
    if (this.#known.size < MOST_SETS) this.#known.add(id);
    const isKnown = this.#known.has(id);
    return Object.fromEntries(
      values.flatMap(([name, value]) => (isKnown ? (value === undefined ? [] : [[name, value]]) : [[name, OTHER]])),
    );
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
