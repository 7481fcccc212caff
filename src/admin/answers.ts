/** Formats the answers of commands as text, adds the budgets of each key, and reads and writes amounts of units or money. */

import { oneLine } from "../options.ts";
import type { BudgetReport } from "../stores/budgets.ts";
import type { DurableQuotaStore, KeyReport } from "../stores/durable.ts";
import { MOST_UNITS } from "../stores/ledger.ts";
import { UsageError } from "../stores/open/connection.ts";
import { stateOf } from "./key-admin.ts";

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

const isKey = (item: object): item is KeyShown => "secrets" in item && "unlimited" in item;

/** Adds to each key of an answer the budgets that it draws on. Such a key is not unlimited, also without a quota of its own. */
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
 */
export function textOf(answer: object, currency?: string): string {
  const text = new Text(currency);
  if (Array.isArray(answer)) return (answer as (KeyShown | BudgetReport)[]).map((item) => text.row(item)).join("\n");
  const lines = isKey(answer) ? text.key(answer) : text.lines(answer);
  if ("apiKey" in answer) lines.push("Store the secret now: it is not kept, and cannot be shown again.");
  return lines.join("\n");
}

/** The fields of keys and budgets that are amounts. */
const AMOUNTS: ReadonlySet<string> = new Set([
  "granted",
  "used",
  "available",
  "held",
  "overdraft",
  "estimated",
  "amount",
] satisfies (keyof BudgetReport)[]);

/** The words in place of the quota of a key that has none of its own, without a budget and with one. */
export const UNLIMITED = "unlimited";
export const OF_BUDGET = "none of its own";

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
    const { budgets = [], budget, ...others } = { budgets: undefined, ...key };
    const none = budget === undefined ? UNLIMITED : OF_BUDGET;
    return [
      ...this.lines({ id, name }),
      ...this.lines(unlimited || granted === null ? { quota: none } : { granted, available }),
      ...this.lines(others),
      ...budgets.map(
        (each) =>
          `budget ${oneLine(each.id)}: ${this.#amount(each.available)} of ${this.#amount(each.granted)} available`,
      ),
    ];
  }

  row(report: KeyShown | BudgetReport): string {
    const row = [oneLine(report.id), oneLine(report.name), `${this.#amount(report.used)} used`];
    if ("amount" in report)
      return [...row, `${this.#amount(report.available)} available`, report.period ?? "no period"].join("\t");
    const { budget } = report;
    const state = stateOf(report, Date.now());
    row.push(state === "active" ? this.#rest(report) : state);
    return [...row, ...(budget === undefined ? [] : [`budget ${oneLine(budget)}`])].join("\t");
  }

  /** Says what a key has left: in its quota, or in the budget that has the least. */
  #rest(key: KeyShown): string {
    const budgets = "budgets" in key ? key.budgets : [];
    const own = key.unlimited || key.available === null ? [] : [key.available];
    const limits = [...own, ...budgets.map(({ available }) => available)];
    return limits.length === 0 ? UNLIMITED : `${this.#amount(Math.min(...limits))} available`;
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

// Amounts: units, or money of which a unit is a millionth. Exact, because no amount becomes a binary fraction.

/** The digits behind the point: a unit is a millionth of a currency. */
const DECIMALS = 6;
const MONEY = /^(\d+)(?:\.(\d{1,6}))?$/;

/** Returns the code of a currency in capitals; undefined without one. */
export function currencyOf(code: string | undefined): string | undefined {
  if (code === undefined || code === "") return undefined;
  if (!/^[a-z]{3}$/i.test(code))
    throw new UsageError(
      `--currency (or POLYGATE_CURRENCY) must be a code of three letters, such as usd, not ${code}.`,
    );
  return code.toUpperCase();
}

/** Reads an amount of units, or of money if there is a currency. */
export function unitsOf(name: string, text: string, currency: string | undefined): number {
  const units = millionthsOf(text);
  if (currency !== undefined) {
    if (units === undefined)
      throw new UsageError(
        `${name} must be an amount of ${currency} such as 12.5, with at most ${DECIMALS} digits after the point, not ${text}.`,
      );
    if (units > MOST_UNITS)
      throw new UsageError(`${name} must be at most ${moneyOf(MOST_UNITS, currency)}, not ${text}.`);
    return Number(units);
  }
  if (text.includes(".") && units !== undefined)
    throw new UsageError(
      `${name} must be a whole number of units, not ${text}. With prices in a currency, a unit is a millionth of it: write ${units}, or write ${text} and add --currency usd.`,
    );
  const whole = /^\d+$/.test(text) ? BigInt(text) : -1n;
  if (whole < 0 || whole > MOST_UNITS)
    throw new UsageError(`${name} must be an integer from 0 to ${MOST_UNITS}, not ${text}.`);
  return Number(whole);
}

/** Returns the millionths of a decimal number; undefined for any other text. */
function millionthsOf(text: string): bigint | undefined {
  const [, whole, fraction = ""] = MONEY.exec(text) ?? [];
  return whole === undefined ? undefined : BigInt(whole + fraction.padEnd(DECIMALS, "0"));
}

/** Formats units as they are, or as money with two to six digits behind the point. */
function amountOf(units: number, currency: string | undefined): string {
  return currency === undefined ? String(units) : moneyOf(units, currency);
}

function moneyOf(units: number, currency: string): string {
  // The numbers of a corrupt key are shown as they are.
  if (!Number.isSafeInteger(units)) return `${units} millionths of ${currency}`;
  const digits = String(Math.abs(units)).padStart(DECIMALS + 1, "0");
  const fraction = digits.slice(-DECIMALS).replace(/0{1,4}$/, "");
  return `${units < 0 ? "-" : ""}${digits.slice(0, -DECIMALS)}.${fraction} ${currency}`;
}
