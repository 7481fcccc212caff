/** The lists that commands print: their pages, and their form as CSV or as a table. */

import { given } from "../model/json.ts";
import { type BudgetPage, MOST_LISTED } from "../stores/durable.ts";
import { UsageError } from "../stores/open/connection.ts";
import { optionOf } from "./call-admin.ts";
import { type FittedTable, type Spreadsheet, SPREADSHEETS } from "./columns.ts";
import type { Terminal, Values, Words } from "./commands.ts";
import { pagesOf } from "./pages.ts";
import { wordOf } from "./values.ts";

/** The help of a list that is whole in CSV. */
export const PAGE_WORDS: Words = {
  limit: `the most rows: 1 to ${MOST_LISTED}; 100 by default, and all in CSV`,
};

/** The help of the options of a list that takes times. */
export const SINCE_WORDS =
  "from a day (2026-11-01), a span ago (7d, 2h) or a time (2026-11-01T12:00Z); by default all that are kept";
export const UNTIL_WORDS = "until a day, which counts as a whole, or before a time";

export const pageOf = ({ after, limit }: Values): BudgetPage =>
  given({ after, limit: limit === undefined ? undefined : countOf(limit) });

function countOf(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count < 1 || count > MOST_LISTED)
    throw new UsageError(`--limit must be an integer from 1 to ${MOST_LISTED}, not ${text}.`);
  return count;
}

/** Reads all pages of a list, or those behind an id. */
export async function everyPage<Row extends { readonly id: string }>(
  list: (page: BudgetPage) => Promise<readonly Row[]>,
  from?: string,
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for await (const page of pagesOf(list, from)) rows.push(...page);
  return rows;
}

/** Returns a page of a list for people, and all rows for CSV: a report for others is whole. */
export async function listed<Row extends { readonly id: string }>(
  list: (page: BudgetPage) => Promise<readonly Row[]>,
  page: BudgetPage,
  values: Values,
  terminal: Pick<Terminal, "warn">,
): Promise<readonly Row[]> {
  if (csvOf(values).csv && page.limit === undefined) return everyPage(list, page.after);
  const rows = await list(page);
  noteRest(rows.length, rows.at(-1)?.id, page, terminal);
  return rows;
}

/** Notes that more may follow, also beside JSON, because a list that is cut looks like a whole one. */
export function noteRest(
  count: number,
  lastId: string | undefined,
  { limit = 100 }: BudgetPage,
  { warn }: Pick<Terminal, "warn">,
): void {
  if (lastId === undefined || count < limit) return;
  const more = limit < MOST_LISTED ? `, or --limit ${MOST_LISTED}` : "";
  warn?.(
    `The first ${limit === 1 ? "one is" : `${limit} are`} shown. More may follow: add ${optionOf("after", lastId)}${more}.`,
  );
}

/** Reads in which form the rows are printed. A spreadsheet reads CSV. */
export function csvOf({ csv: isCsv = false, json = false, spreadsheet: text }: Values): {
  readonly csv: boolean;
  readonly spreadsheet: Spreadsheet | undefined;
} {
  const spreadsheet = wordOf("--spreadsheet", text, SPREADSHEETS);
  const csv = isCsv || spreadsheet !== undefined;
  if (csv && json) throw new UsageError("Choose --csv or --json.");
  return { csv, spreadsheet };
}

/** Returns CSV without its last line break, which `print` adds, and with the line breaks of a terminal. */
export const linesOfCsv = (csv: string): string => csv.trimEnd().replaceAll("\r\n", "\n");

/**
 * Prints a table, and notes the columns that it leaves out.
 *
 * @param whole The options with which the command prints all columns.
 */
export function printTable(
  { text, leftOut }: FittedTable,
  print: (line: string) => void,
  warn: (line: string) => void,
  whole: string = "--csv and --json have",
): void {
  if (text !== "") print(text);
  if (leftOut.length > 0) warn(`Left out for the width: ${leftOut.join(", ")}. ${whole} them.`);
}
