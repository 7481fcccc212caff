/** Formats the answers of commands as text, adds the budgets of each key, and writes budgets as CSV. */

import { amountOf, decimalsOf } from "../model/money.ts";
import { oneLine } from "../options.ts";
import type { BudgetReport } from "../stores/budgets.ts";
import type { DurableQuotaStore, KeyReport } from "../stores/durable.ts";
import { modelsOf } from "../stores/ledger.ts";
import { cellOf, csvFile, separatorsOf, type Spreadsheet, timeOf } from "./call-admin.ts";
import { type IssuedKey, stateOf } from "./key-admin.ts";

/** A budget that a key draws on, in units. */
type BudgetShown = Pick<BudgetReport, "id" | "granted" | "used" | "available" | "held">;

/** A key with the state of its budgets. */
interface KeyWithBudgets extends Omit<KeyReport, "granted" | "available"> {
  /** Null for a key without a quota of its own. */
  readonly granted: number | null;
  readonly available: number | null;
  /** The key's budget, its parent, and so on. */
  readonly budgets: readonly BudgetShown[];
}

type KeyShown = KeyReport | KeyWithBudgets;

/** A new key, with its secret. */
export interface KeyMade extends IssuedKey {
  readonly unlimited: boolean;
  /** Null for a key without a quota of its own. */
  readonly granted: number | null;
  readonly budget?: string;
  /** Unix time in seconds; absent for a key that never expires. */
  readonly expiresAt?: number;
  /** A star for every model. */
  readonly models: readonly string[] | "*";
}

const isMade = (answer: object): answer is KeyMade => "apiKey" in answer && "models" in answer;

const isKey = (item: object): item is KeyShown => "secrets" in item && "unlimited" in item;

const isBudget = (item: object): item is BudgetReport => "amount" in item && "granted" in item;

/** A budget with what its bill says. */
export interface BudgetTold extends BudgetReport {
  /** The charges of the period, as reports of usage sum them up: also beyond the budget, without the holds of running calls. */
  readonly spent: number;
  /** The share of what the period was given that is spent, in whole percent, rounded down. It may be above 100. */
  readonly percentUsed: number;
}

/** Adds to a budget what was spent. */
export function budgetTold(report: BudgetReport): BudgetTold {
  const spent = spentOf(report);
  const given = givenTo(report);
  // A budget without any units has none left.
  return { ...report, spent, percentUsed: given === 0 ? 100 : Math.floor((100 * spent) / given) };
}

/** The units that the period of a budget was given. */
const givenTo = ({ granted, gap = 0 }: Pick<BudgetReport, "granted" | "gap">): number => granted - gap;

/**
 * Adds to each key of an answer the budgets that it draws on, and to each budget what was spent. Such a key is not unlimited, also without a
 * quota of its own.
 */
export async function withBudgets(answer: object, store: DurableQuotaStore): Promise<object> {
  const read = new Map<string, BudgetReport | undefined>();
  const budgetsOf = async (key: KeyReport): Promise<BudgetShown[]> => {
    const budgets: BudgetShown[] = [];
    for (let next = key.budget; next !== undefined;) {
      if (!read.has(next)) read.set(next, await store.budgetReport(next));
      const report = read.get(next);
      if (!report) break;
      const { id, granted, used, available, held } = report;
      budgets.push({ id, granted, used, available, held });
      next = report.parent;
    }
    return budgets;
  };
  const shown = async (item: object): Promise<object> => {
    if (isBudget(item)) return budgetTold(item);
    if (!isKey(item) || item.budget === undefined) return item;
    const budgets = await budgetsOf(item as KeyReport);
    return { ...item, unlimited: false, ...(item.unlimited && { granted: null, available: null }), budgets };
  };
  if (!Array.isArray(answer)) return shown(answer);
  const items: object[] = [];
  for (const item of answer as object[]) items.push(await shown(item));
  return items;
}

/**
 * Formats an answer for people: a line for each field, or for each key or budget of a list. Amounts are units, or money if there is a
 * currency.
 *
 * @param width The most characters of a line in a list.
 */
export function textOf(answer: object, currency?: string, width: number = PLAIN_COLUMNS): FittedTable {
  if (Array.isArray(answer)) {
    // The casts are safe: lists are of keys or of budgets, and `withBudgets` has told the latter.
    return answer.every(isBudget)
      ? budgetsText(answer as BudgetTold[], currency, width)
      : keysText(answer as KeyShown[], currency, width);
  }
  const text = new Text(currency);
  const lines = isKey(answer) ? text.key(answer) : isMade(answer) ? text.made(answer) : text.lines(answer);
  if ("olderEndAt" in answer) lines.splice(-1, 1, olderLine(answer.olderEndAt as number));
  if ("apiKey" in answer) lines.push("Store the secret now: it is not kept, and cannot be shown again.");
  return { text: lines.join("\n"), leftOut: [] };
}

/** Formats keys as a table. Leaves out the columns in which no key has anything. */
function keysText(keys: readonly KeyShown[], currency: string | undefined, width: number): FittedTable {
  const amounts = amountsIn(currency);
  const rows = keys.map((key) => {
    const { granted, available } = limitOf(key) ?? { granted: UNLIMITED, available: UNLIMITED };
    return {
      ...namesOf(key),
      ...amounts({ GRANTED: granted, SPENT: spentOf(key), AVAILABLE: available, OVERDRAFT: key.overdraft }),
      STATE: stateOf(key, Date.now()),
      MODELS: wordsOf(modelsOf(key), MOST_MODELS),
      EXPIRES: endOf(key.expiresAt).slice(0, "2030-01-31".length),
      BUDGET: oneLine(key.budget ?? "-"),
    };
  });
  const none = { ...NO_NAME, ...amounts({ OVERDRAFT: 0 }), MODELS: wordsOf(undefined), EXPIRES: endOf(0), BUDGET: "-" };
  return fittedTable(
    withoutEmpty(rows, none),
    width,
    ["MODELS", "EXPIRES", ...Object.keys(amounts({ GRANTED: 0 })), "BUDGET", ...Object.keys(amounts({ SPENT: 0 }))],
    ["ID", "STATE", "EXPIRES"],
  );
}

/** Formats budgets as a table. Leaves out the columns in which no budget has anything. */
function budgetsText(budgets: readonly BudgetTold[], currency: string | undefined, width: number): FittedTable {
  const amounts = amountsIn(currency);
  const rows = budgets.map((budget) => {
    const { spent, percentUsed, available, overdraft, period, timeZone = "UTC", endsAt, parent = "-" } = budget;
    return {
      ...namesOf(budget),
      ...amounts({ AMOUNT: givenTo(budget), SPENT: spent }),
      USED: spent > 0 && percentUsed === 0 ? "<1 %" : `${percentUsed} %`,
      ...amounts({ AVAILABLE: available, OVERDRAFT: overdraft }),
      PERIOD: period ?? "no period",
      ENDS: endsAt === undefined ? "" : dayIn(timeZone, endsAt),
      PARENT: oneLine(parent),
    };
  });
  const none = { ...NO_NAME, ...amounts({ OVERDRAFT: 0 }), PARENT: "-" };
  return fittedTable(withoutEmpty(rows, none), width, [], ["ID", "PERIOD", "ENDS"]);
}

/** The fields of a budget in CSV, with the headings of spreadsheets. */
const BUDGET_FIELDS = {
  id: "Budget",
  name: "Budget name",
  parent: "Parent",
  amount: "Budget amount",
  spent: "Spent",
  percentUsed: "Used %",
  available: "Left",
  overdraft: "Overdraft",
  currency: "Currency",
  period: "Period",
  endsAt: "Ends",
} as const;

/** The choices for CSV of budgets. */
interface BudgetsCsvOptions {
  /** The currency of the amounts. Default: amounts are units. */
  readonly currency?: string | undefined;
  readonly spreadsheet?: Spreadsheet | undefined;
}

/**
 * Writes budgets as CSV (RFC 4180, unless a spreadsheet is named), with a line of headings. The amount is what the present period was given. A
 * text that a spreadsheet would take for a formula begins with an apostrophe. Spreadsheets get the end of a period as a day in the time
 * zone of the budget, and programs as a time in UTC.
 */
export function budgetsCsv(budgets: readonly BudgetTold[], { currency, spreadsheet }: BudgetsCsvOptions): string {
  const [separator, point] = separatorsOf(spreadsheet);
  const amount = (units: number): string =>
    currency === undefined ? String(units) : decimalsOf(units).replace(".", point);
  const lines = budgets.map((budget) => {
    const { id, name, parent = "", period = "", timeZone = "UTC", endsAt } = budget;
    const ends = endsAt === undefined ? "" : spreadsheet ? dayIn(timeZone, endsAt) : timeOf(endsAt);
    const cells: Readonly<Record<keyof typeof BUDGET_FIELDS, string>> = {
      id: cellOf(id),
      name: cellOf(name),
      parent: cellOf(parent),
      amount: amount(givenTo(budget)),
      spent: amount(budget.spent),
      percentUsed: String(budget.percentUsed),
      available: amount(budget.available),
      overdraft: amount(budget.overdraft),
      currency: currency ?? "",
      period,
      endsAt: ends,
    };
    return Object.keys(BUDGET_FIELDS)
      .map((field) => cells[field as keyof typeof cells])
      .join(separator);
  });
  return csvFile(Object.keys(BUDGET_FIELDS), lines, BUDGET_FIELDS, spreadsheet);
}

type Row = Readonly<Record<string, string>>;

const NO_NAME: Row = { NAME: "-" };

/** Writes the cells of an id and of its name. A name that is the id says nothing more. */
const namesOf = ({ id, name }: Pick<KeyReport, "id" | "name">): Row => ({
  ID: oneLine(id),
  ...(name === id ? NO_NAME : { NAME: oneLine(name) }),
});

/**
 * Returns a function that writes amounts as cells, with the currency in their headings. Amounts of money have six decimals, so that the
 * points of a column stand below each other.
 */
const amountsIn =
  (currency: string | undefined) =>
  (amounts: Readonly<Record<string, number | string>>): Row =>
    Object.fromEntries(
      Object.entries(amounts).map(([name, units]) => {
        if (currency === undefined) return [name, String(units)];
        const isMoney = typeof units === "number" && Number.isSafeInteger(units);
        return [`${name} ${currency}`, isMoney ? decimalsOf(units) : String(units)];
      }),
    );

/** Leaves columns out of rows. */
const without = (rows: readonly Row[], names: readonly string[]): readonly Row[] =>
  rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name))));

/**
 * Leaves out the columns in which no row has anything.
 *
 * @param none The cells that say so, by their columns.
 */
const withoutEmpty = (rows: readonly Row[], none: Row): readonly Row[] =>
  without(
    rows,
    Object.keys(none).filter((name) => rows.every((row) => row[name] === none[name])),
  );

const olderLine = (endAt: number): string =>
  endAt > Date.now() ? `older secrets: valid until ${new Date(endAt).toISOString()}` : "older secrets: have ended";

/** What reports of usage sum up for a key or a budget: the charges, also beyond its quota, without the holds of running calls. */
const spentOf = ({ used, held, overdraft }: Pick<KeyReport, "used" | "held" | "overdraft">): number =>
  used - held + overdraft;

/** The fields of keys and budgets that are amounts. */
const AMOUNTS: ReadonlySet<string> = new Set([
  "granted",
  "used",
  "available",
  "held",
  "overdraft",
  "estimated",
  "amount",
  "spent",
  "gap",
] satisfies (keyof BudgetTold)[]);

/** The width of a table that goes to no terminal, in characters. */
export const PLAIN_COLUMNS = 120;

/** The words in place of the quota of a key that has none of its own, without a budget and with one. */
const UNLIMITED = "unlimited";
const OF_BUDGET = "none of its own";

/** The most models of a key that a list names. */
const MOST_MODELS = 3;

/** @param most The most models to name. */
function wordsOf(models: readonly string[] | undefined, most = Infinity): string {
  if (!models) return "every model";
  const more = models.length > most ? ` and ${models.length - most} more` : "";
  return models.length === 0 ? "no model" : `${models.slice(0, most).map(oneLine).join(", ")}${more}`;
}

const endOf = (expiresAt: number): string => (expiresAt > 0 ? new Date(expiresAt * 1_000).toISOString() : "never");

/** Writes the day of a time in a time zone. A period ends at the beginning of a day there. */
const dayIn = (timeZone: string, at: number): string => new Intl.DateTimeFormat("sv-SE", { timeZone }).format(at);

/** The least width to which a column of names is cut, in characters. */
const LEAST_WIDTH = 8;

export const longestOf = (text: string): number =>
  text.split("\n").reduce((most, line) => Math.max(most, line.length), 0);

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
  rows: readonly Row[],
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

/**
 * Writes rows as columns of equal width below their headings. Numbers stand at the right of their columns.
 *
 * @param most The width that the table should have at most, in characters. Names are cut for it, and numbers never. Default: any.
 * @param least The least width to which names are cut.
 * @param whole The columns of texts that are never cut. Default: none.
 */
export function tableOf(
  rows: readonly Row[],
  most: number = Infinity,
  least: number = LEAST_WIDTH,
  whole: readonly string[] = [],
): string {
  const headings = Object.keys(rows[0] ?? {});
  const lines = [headings, ...rows.map((row) => headings.map((heading) => row[heading] ?? ""))];
  const widths = headings.map((_, at) => lines.reduce((width, cells) => Math.max(width, (cells[at] ?? "").length), 0));
  const isNumber = headings.map((_, at) =>
    lines.slice(1).every((cells) => /^(?:<?-?[\d.]+(?: (?:[A-Z]{3}|%))?|unlimited)$/.test(cells[at] ?? "")),
  );
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
    return (cell.length > width ? `${cell.slice(0, width - 1).toWellFormed()}…` : cell).padEnd(width);
  };
  return lines.map((cells) => cells.map(padded).join("  ").trimEnd()).join("\n");
}

/** Returns what limits a key the most, its own quota or the budget that has the least left; undefined for an unlimited key. */
function limitOf(key: KeyShown): Pick<BudgetShown, "granted" | "available"> | undefined {
  const { granted, available } = key;
  const own = key.unlimited || granted === null || available === null ? [] : [{ granted, available }];
  const [first, ...others] = [...own, ...("budgets" in key ? key.budgets : [])];
  return first && others.reduce((least, each) => (each.available < least.available ? each : least), first);
}

class Text {
  readonly #currency: string | undefined;

  constructor(currency: string | undefined) {
    this.#currency = currency;
  }

  lines(answer: object): string[] {
    return Object.entries(answer).map(([name, value]) => `${name}: ${oneLine(this.#word(name, value))}`);
  }

  /** Leaves out the units of a quota that the key does not have, and writes a line for each of its budgets. */
  key({ id, name, granted, available, unlimited, ...key }: KeyShown): string[] {
    const {
      budgets = [],
      budget,
      modelLimits,
      modelLimitsEnabled,
      expiresAt,
      ...others
    } = {
      budgets: undefined,
      ...key,
    };
    const none = budget === undefined ? UNLIMITED : OF_BUDGET;
    const models = wordsOf(modelsOf({ modelLimits, modelLimitsEnabled }));
    return [
      ...this.lines({ id, name }),
      ...this.lines(unlimited || granted === null ? { quota: none } : { granted, available }),
      ...this.lines({ spent: spentOf(others), models, expires: endOf(expiresAt), ...others }),
      ...budgets.map(
        (each) =>
          `budget ${oneLine(each.id)}: ${this.#amount(each.available)} of ${this.#amount(each.granted)} available`,
      ),
    ];
  }

  made({ granted, unlimited, budget, models, expiresAt = 0, ...key }: KeyMade): string[] {
    const quota = granted === null ? { quota: unlimited ? UNLIMITED : OF_BUDGET } : { granted };
    return this.lines({
      ...key,
      ...quota,
      ...(budget !== undefined && { budget }),
      models: wordsOf(models === "*" ? undefined : models),
      ...(expiresAt > 0 && { expires: endOf(expiresAt) }),
    });
  }

  #amount(units: number): string {
    return amountOf(units, this.#currency);
  }

  #word(name: string, value: unknown): string {
    if (typeof value === "number") {
      if (name === "startsAt" || name === "endsAt") return new Date(value).toISOString();
      if (AMOUNTS.has(name)) return this.#amount(value);
    }
    if (typeof value === "string") return value;
    if (Array.isArray(value)) return value.join(",");
    if (typeof value !== "object" || value === null) return JSON.stringify(value);
    return Object.entries(value)
      .map(([field, entry]) => (entry === true ? field : `${field}=${entry}`))
      .join(",");
  }
}
