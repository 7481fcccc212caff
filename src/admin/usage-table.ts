/** Formats a report of usage as a table for people. */

import { given } from "../model/json.ts";
import type { UsageReport, UsageRow } from "../stores/calls.ts";
import { endRows, usageColumns } from "./call-admin.ts";
import { amountColumn, type Column, type FittedTable, longestOf, tableFor, tableOf, tableRowsOf } from "./columns.ts";

/**
 * Formats a report for people, with the sum of all rows at its end. Leaves out columns in which every row is zero or empty, and the units
 * beside their amount.
 *
 * @param width The most characters of a line. Parts of other figures are left out for it, and then names are cut.
 */
export function usageText(report: UsageReport, given: string | undefined, width: number): FittedTable {
  const { rows, currency = given } = report;
  const all = [...rows, ...endRows(report)];
  const columns = usageColumns(report, given).flatMap((column): Column<UsageRow>[] => {
    const { name } = column;
    if (BELOW.has(name) || (name === "units" && currency !== undefined)) return [];
    const shown = name === "units" ? { ...column, heading: "spent" } : column;
    const id = NAMED_BY[name];
    const isId = (row: UsageRow): boolean => id !== undefined && column.cell(row) === row[id];
    const isNews = (row: UsageRow): boolean => {
      const cell = column.cell(row);
      if (typeof cell === "object") return !("units" in cell) || cell.units !== 0;
      return cell !== 0 && (cell ?? "") !== "" && !isId(row);
    };
    const ofMoney = name === "estimated" && currency !== undefined;
    const amount = ofMoney ? amountColumn<UsageRow>(shown, currency, ({ estimated }) => estimated) : shown;
    // A name that is the id says nothing more.
    const told = { ...amount, cell: (row: UsageRow) => (isId(row) ? undefined : amount.cell(row)) };
    return [name === "calls" ? told : { ...told, isNews }];
  });
  const whole = tableOf(tableRowsOf(columns, all));
  if (longestOf(whole) <= width) return { text: whole, leftOut: [] };
  const kept = columns.filter(({ name }) => !Object.hasOwn(NAMED_BY, name));
  const spare = ["estimated", "reasoningTokens", "cacheWriteTokens", "cacheReadTokens", "images"];
  const { text, leftOut } = tableFor(kept, namesForIds(all), width, spare);
  const hasNames = tableRowsOf(columns, all).some((row) => "KEY NAME" in row || "BUDGET NAME" in row);
  return { text, leftOut: [...(hasNames ? ["ids beside names"] : []), ...leftOut] };
}

/** The columns that stand once for all rows: in the headings of amounts, and below the table. */
const BELOW: ReadonlySet<string> = new Set(["since", "until", "timeZone", "currency"]);

/** The columns of ids, by those of their names. */
const NAMED_BY: Readonly<Record<string, "key" | "budget">> = { keyName: "key", budgetName: "budget" };

/** Returns rows with names in place of ids. A name that several have does not tell them apart, so their ids stay. */
function namesForIds(rows: readonly UsageRow[]): readonly UsageRow[] {
  const unique = (name: "keyName" | "budgetName", id: "key" | "budget") => {
    const rowsOf = Map.groupBy(rows, (row) => row[name]);
    return (row: UsageRow) =>
      (new Set(rowsOf.get(row[name])?.map((other) => other[id])).size === 1 && row[name]) || row[id];
  };
  const [key, budget] = [unique("keyName", "key"), unique("budgetName", "budget")];
  return rows.map((row) => ({ ...row, ...given({ key: key(row), budget: budget(row) }) }));
}
