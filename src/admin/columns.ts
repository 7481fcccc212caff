/** Tables for people, and CSV for programs and spreadsheets, of one list of columns; and long rows as JSON. */

import { decimalsOf, digitsFor } from "../model/money.ts";
import { visible } from "../model/visible.ts";
import { oneLine } from "../options.ts";
import { nextIteration } from "../ports/clock.ts";
import { TwoGenerationMap } from "../stores/ledger.ts";

/** An amount in units, or in money if it has a currency. */
interface Amount {
  readonly units: number;
  readonly currency?: string | undefined;
}

/** A time: Unix time in milliseconds. */
interface Time {
  readonly at: number;
  /** The time zone for people and spreadsheets. Default: UTC. */
  readonly zone?: string | undefined;
  /** True for a time that people and spreadsheets read as a day. */
  readonly isDay?: boolean;
}

type Cell = string | number | boolean | Amount | Time | undefined;

/** A column of rows. */
export interface Column<Row> {
  /** The name of the field: the heading for programs. In capitals, and with spaces, it is that for people. */
  readonly name: string;
  /** The heading of a spreadsheet. */
  readonly word: string;
  readonly cell: (row: Row) => Cell;
  /** The heading for people, in place of the name: it stands in capitals. */
  readonly heading?: string;
  /** The currency of the amounts, which the heading for people names. */
  readonly currency?: string | undefined;
  /** Stands for an empty cell in a table for people. Default: a dash. */
  readonly none?: (row: Row) => string;
  /** Stands for a text that is empty, for people and in spreadsheets. Default: as for an empty cell. */
  readonly unnamed?: ((row: Row) => string) | string | undefined;
  /** Writes the cell for people, in another way than for programs. */
  readonly text?: (row: Row) => string;
  /** False for a row that has nothing here. A table for people leaves out a column without news. Default: always true. */
  readonly isNews?: (row: Row) => boolean;
}

/** Makes a column of amounts. */
export const amountColumn = <Row>(
  column: Omit<Column<Row>, "cell">,
  currency: string | undefined,
  unitsOf: (row: Row) => number | null | undefined,
): Column<Row> => ({
  ...column,
  currency,
  cell: (row) => {
    const units = unitsOf(row) ?? undefined;
    return units === undefined ? undefined : { units, currency };
  },
});

/** Makes the last column of CSV: the time at which the rows were read. */
export const asOfColumn = (at: number | undefined): Column<unknown> => ({
  name: "asOf",
  word: "As of (UTC)",
  cell: () => (at === undefined ? undefined : { at, zone: "UTC" }),
});

const headingOf = <Row>({ name, heading, currency }: Column<Row>): string =>
  (heading ?? name.replace(/Tokens$/, "").replaceAll(/(?=[A-Z])/g, " ")).toUpperCase() +
  (currency === undefined ? "" : ` ${currency}`);

/**
 * Returns a function that writes the amounts of a column for people, with their points below each other: those of a currency with as many
 * decimals as one of them needs, and spaces at the ends of those with fewer.
 */
export function amountsIn(all: readonly Amount[]): (amount: Amount) => string {
  const digits = new Map<string | undefined, number>();
  for (const { units, currency } of all)
    digits.set(currency, Math.max(digits.get(currency) ?? 0, currency === undefined ? 0 : digitsFor(units, currency)));
  const most = Math.max(0, ...digits.values());
  return ({ units, currency }) => {
    const count = digits.get(currency) ?? 0;
    const text = currency === undefined ? String(units) : decimalsOf(units, count).replace(/\.$/, "");
    // A point takes the place of a digit as well.
    return text + " ".repeat(most - count + (most > 0 && count === 0 ? 1 : 0));
  };
}

const amountAlone = (amount: Amount): string => amountsIn([amount])(amount);

/** Writes a cell for people. @param written Writes an amount. @param clear Writes a text. */
function textOf(
  cell: Cell,
  none = "-",
  written: (amount: Amount) => string = amountAlone,
  clear: (text: string) => string = oneLine,
): string {
  if (cell === undefined || cell === "") return none;
  if (typeof cell === "boolean") return cell ? "yes" : "no";
  if (typeof cell !== "object") return clear(String(cell));
  if ("units" in cell) return written(cell);
  return cell.isDay ? dayIn(cell.zone, cell.at) : timeIn(cell.zone ?? "UTC", cell.at);
}

/** Returns a cell for people and for spreadsheets. */
function shownCell<Row>({ cell, unnamed }: Column<Row>, row: Row): Cell {
  const value = cell(row);
  if (value !== "") return value;
  return typeof unnamed === "function" ? unnamed(row) : unnamed;
}

/** A row of a table: its cells, by their headings. */
type TableRow = Readonly<Record<string, string>>;

/** Writes rows for people, without the columns that have no news. The points of a column of money stand below each other. */
export function tableRowsOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): readonly TableRow[] {
  const shown = columns
    .filter(({ isNews }) => !isNews || rows.some(isNews))
    .map((column) => {
      const cells = rows.map((row) => shownCell(column, row));
      const written = amountsIn(cells.flatMap((cell) => (typeof cell === "object" && "units" in cell ? cell : [])));
      return {
        heading: headingOf(column),
        textAt: (row: Row, at: number) => column.text?.(row) ?? textOf(cells[at], column.none?.(row), written, visible),
      };
    });
  return rows.map((row, at) => Object.fromEntries(shown.map(({ heading, textAt }) => [heading, textAt(row, at)])));
}

/** The spreadsheets that `usageCsv` can write for. */
export const SPREADSHEETS = ["excel", "excel-europe"] as const;

/**
 * A spreadsheet that opens CSV by a double click.
 * - `excel`: begins with a byte order mark, without which Excel garbles letters beyond ASCII.
 * - `excel-europe`: also has semicolons between its cells and decimal commas, as Excel expects where people write 12,50.
 */
export type Spreadsheet = (typeof SPREADSHEETS)[number];

/** The rows of a part of CSV or JSON: so many are written in a few milliseconds. */
const ROWS_OF_PART = 200;
/** The characters of a part of CSV or JSON, which may have few rows. */
const CHARS_OF_PART = 256 * 1024;

/**
 * Writes rows as CSV (RFC 4180, unless a spreadsheet is named), with a line of headings. A text that a spreadsheet would take for a formula
 * begins with an apostrophe. Programs get times in UTC, and spreadsheets those of the column's time zone. A server lets other work run
 * between the parts.
 *
 * @param addsUp True for amounts that mean something as a sum, for a last row `Total` in a spreadsheet. Programs get no such row. Default:
 *   false.
 * @param note A note for the last row of a spreadsheet. Programs get no such row. Default: none.
 */
export function* csvPartsOf<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  spreadsheet: Spreadsheet | undefined,
  addsUp = false,
  note?: string,
): Generator<string, void> {
  const [separator, point] = spreadsheet === "excel-europe" ? [";", ","] : [",", "."];
  const written = (cell: Cell): string => {
    if (typeof cell !== "object") return cellOf(spreadsheet ? textOf(cell, "") : String(cell ?? ""));
    if ("units" in cell)
      return cell.currency === undefined ? String(cell.units) : decimalsOf(cell.units).replace(".", point);
    return spreadsheet ? textOf(cell) : timeOf(cell.at);
  };
  const lineOf = (cells: readonly string[]): string => `${cells.join(separator)}\r\n`;
  yield (spreadsheet ? "\uFEFF" : "") + lineOf(columns.map(({ name, word }) => (spreadsheet ? word : name)));
  const table: Cell[][] = [];
  let part = "";
  for (const [at, row] of rows.entries()) {
    const cells = columns.map((column) => (spreadsheet ? shownCell(column, row) : column.cell(row)));
    if (addsUp) table.push(cells);
    part += lineOf(cells.map(written));
    if (part.length < CHARS_OF_PART && (at + 1) % ROWS_OF_PART !== 0) continue;
    yield part;
    part = "";
  }
  if (part !== "") yield part;
  if (spreadsheet && table.length > 0) yield lineOf(columns.map((column, at) => written(totalOf(column, table, at))));
  if (spreadsheet && note !== undefined) yield lineOf(columns.map((_, at) => (at === 0 ? cellOf(note) : "")));
}

/** Writes an object as JSON in parts. Each part has some rows of the lists in the object. */
export function* jsonPartsOf(body: object): Generator<string, void> {
  let [part, rows] = ["{", 0];
  const fields = Object.entries(body).filter(([, value]) => value !== undefined);
  for (const [index, [name, value]] of fields.entries()) {
    part += `${index > 0 ? "," : ""}${JSON.stringify(name)}:`;
    if (!Array.isArray(value)) {
      part += JSON.stringify(value);
      continue;
    }
    part += "[";
    for (const [at, row] of value.entries()) {
      part += `${at > 0 ? "," : ""}${JSON.stringify(row)}`;
      rows++;
      if (part.length < CHARS_OF_PART && rows % ROWS_OF_PART !== 0) continue;
      yield part;
      part = "";
    }
    part += "]";
  }
  yield `${part}}`;
}

/** Joins the parts of CSV or JSON, and lets other work run between them. */
export async function inTurns(parts: Iterable<string>): Promise<string> {
  let text = "";
  for (const part of parts) {
    if (text !== "") await nextIteration();
    text += part;
  }
  return text;
}

/** Returns the cell of a column in a row of sums. A sum that is not exact has none. */
function totalOf({ name }: Pick<Column<never>, "name">, table: readonly (readonly Cell[])[], at: number): Cell {
  if (at === 0) return "Total";
  const [first] = table.map((cells) => cells[at]);
  if (name === "currency") return first;
  if (typeof first !== "object" || !("units" in first)) return undefined;
  const units = table.reduce((sum, cells) => sum + (cells[at] as Amount).units, 0);
  return Number.isSafeInteger(units) ? { ...first, units } : undefined;
}

/**
 * Writes a text on one line, and quotes it where needed. Spreadsheets run a cell that begins with one of these characters, also in full
 * width, and also after spaces and invisible characters. Some split cells at commas or semicolons where the file has the other one, and ignore
 * quotes in the middle of a line.
 */
function cellOf(text: string): string {
  const line = oneLine(text);
  const harmless = line.replaceAll(/(?<=^|[,;])(?=[\s\p{C}"]*[=+\-@|%\uFF0B\uFF0D\uFF1D\uFF20])/gu, "'");
  return /[",;]|^\s|\s$/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

/** Writes a time for people. A host's own limiter may tell a time that no date can hold. */
export function timeOf(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}

/** The formats of times, by their time zones. Making one takes longer than writing a hundred times. */
const formats = new TwoGenerationMap<Intl.DateTimeFormat>(100);

/** Writes a time as the clocks of a time zone show it: `2026-11-28 21:11:59`. */
export function timeIn(timeZone: string, at: number): string {
  const isTime = !Number.isNaN(new Date(at).getTime());
  let format = formats.get(timeZone);
  if (!format) {
    // Swedes write dates in this way.
    format = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" });
    formats.add(timeZone, format);
  }
  return isTime ? format.format(at) : String(at);
}

/** Writes the day of a time in a time zone. A period ends at the beginning of a day there. */
export const dayIn = (timeZone: string | undefined, at: number): string =>
  timeIn(timeZone ?? "UTC", at).replace(/ .*/, "");

/** The units of spans of time as commands read and write them, in milliseconds. */
export const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Writes a span of time as commands read it, such as `24h`, in the longest unit of which it is a whole number. */
export function spanText(ms: number): string {
  const [unit, length] = Object.entries(UNITS_MS).findLast(([, of]) => ms % of === 0) ?? ["ms", 1];
  return `${ms / length}${unit}`;
}

/** The width of a table that goes to no terminal, in characters. */
export const PLAIN_COLUMNS = 120;

/** Leaves columns out of rows. */
const without = (rows: readonly TableRow[], names: readonly string[]): readonly TableRow[] =>
  rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name))));

/** The least width to which a column of names is cut, in characters. */
const LEAST_WIDTH = 8;

/** Characters that terminals show in two columns: those of East Asia, and pictures. */
const WIDE =
  /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF01-\uFF60\uFFE0-\uFFE6\u{1F300}-\u{1FAFF}\u{20000}-\u{3FFFD}]/u;

/** Returns the columns of a terminal that a text takes. Marks stand above the letter before them. */
const widthOf = (text: string): number =>
  /^[ -~]*$/.test(text)
    ? text.length
    : Array.from(text).reduce((width, char) => width + (/\p{M}/u.test(char) ? 0 : WIDE.test(char) ? 2 : 1), 0);

/** Cuts a text that is wider than some columns. */
function cutTo(width: number, text: string): string {
  if (widthOf(text) <= width) return text;
  let cut = "";
  for (const char of text) {
    if (widthOf(cut + char) >= width) break;
    cut += char;
  }
  return `${cut}…`;
}

export const longestOf = (text: string): number =>
  text.split("\n").reduce((most, line) => Math.max(most, widthOf(line)), 0);

/** A text for people, and the columns that it leaves out to fit a width. */
export interface FittedTable {
  readonly text: string;
  readonly leftOut: readonly string[];
}

/**
 * Writes a table that fits a width, and returns the columns that it leaves out for that.
 *
 * @param spare The columns that may be left out, the first one first. They go before names are cut to less than 16 characters.
 * @param whole The columns of texts that are never cut. Default: none.
 */
export function fittedTable(
  rows: readonly TableRow[],
  most: number,
  spare: readonly string[],
  whole: readonly string[] = [],
): FittedTable {
  const known = spare.filter((name) => Object.hasOwn(rows[0] ?? {}, name));
  for (let count = 0; ; count++) {
    const leftOut = known.slice(0, count);
    const kept = without(rows, leftOut);
    if (count === known.length || longestOf(tableOf(kept, most, 2 * LEAST_WIDTH, whole)) <= most)
      return { text: tableOf(kept, most, LEAST_WIDTH, whole), leftOut };
  }
}

/** Writes rows as a table that fits a width. The columns that may be left out, and those that are never cut, are given by their names. */
export function tableFor<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  most: number,
  spare: readonly string[],
  whole: readonly string[] = [],
): FittedTable {
  const headingsOf = (names: readonly string[]): string[] =>
    names.flatMap((name) => columns.filter((column) => column.name === name).map(headingOf));
  return fittedTable(tableRowsOf(columns, rows), most, headingsOf(spare), headingsOf(whole));
}

/**
 * Writes rows as columns of equal width below their headings. Numbers stand at the right of their columns.
 *
 * @param most The width that the table should have at most, in characters. Names are cut for it, and numbers never. Default: any.
 * @param least The least width to which names are cut.
 * @param whole The columns of texts that are never cut. Default: none.
 */
export function tableOf(
  rows: readonly TableRow[],
  most: number = Infinity,
  least: number = LEAST_WIDTH,
  whole: readonly string[] = [],
): string {
  const headings = Object.keys(rows[0] ?? {});
  const lines = [headings, ...rows.map((row) => headings.map((heading) => row[heading] ?? ""))];
  const widths = headings.map((_, at) => lines.reduce((width, cells) => Math.max(width, widthOf(cells[at] ?? "")), 0));
  const isNumber = headings.map((_, at) => {
    const cells = lines.slice(1).map((line) => line[at] ?? "");
    return (
      cells.every((cell) => /^(?:<?-?[\d.]+ *(?: (?:[A-Z]{3}|units|%))?|unlimited|-)$/.test(cell)) &&
      cells.some((cell) => cell !== "-")
    );
  });
  const isWhole = headings.map((heading, at) => isNumber[at] || whole.includes(heading));
  let excess = widths.reduce((sum, width) => sum + width + 2, -2) - most;
  while (excess > 0) {
    const widest = widths.reduce((width, each, at) => (isWhole[at] ? width : Math.max(width, each)), 0);
    if (widest <= least) break;
    widths[widths.findIndex((width, at) => !isWhole[at] && width === widest)] = widest - 1;
    excess--;
  }
  const padded = (cell: string, at: number): string => {
    const width = widths[at] ?? 0;
    if (isNumber[at]) return cell.padStart(width);
    const cut = cutTo(width, cell);
    return cut + " ".repeat(Math.max(0, width - widthOf(cut)));
  };
  return lines.map((cells) => cells.map(padded).join("  ").trimEnd()).join("\n");
}
