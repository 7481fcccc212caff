/** Words the questions for changes that are often mistakes, on the command line, over HTTP and on the page. */

import { UNITS_OF_ONE, unitsInWords, usualDigits } from "../model/money.ts";
import { nearest, oneLine } from "../options.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { BudgetReport } from "../stores/budgets.ts";

/** Says over HTTP how to confirm a change. The page says it in words of its own. */
export const CONFIRM_BY_HEADER =
  "Nothing was changed. If this is meant, send the request again with the header confirm: true.";

/** The words for what was given before. */
const NAMES = {
  key: "what this key was granted so far",
  budget: "what this budget was given so far",
} as const;

/** Units that a user adds. */
export interface Addition {
  readonly added: number;
  /** The units that were given so far. After 0, the added ones are a first amount. */
  readonly given: number;
  readonly to: keyof typeof NAMES;
}

/** A new amount of a budget. */
export interface NewAmount {
  readonly amount: number;
  /** The budget before the change. */
  readonly before: Pick<BudgetReport, "amount" | "used" | "available" | "gap" | "period">;
}

/** A quota for a key that has none. */
export interface NewQuota {
  readonly quota: number;
}

/** The amount of a new key or a new budget. */
export interface FirstAmount {
  readonly first: number;
}

/** A change of what a key or a budget is given. */
export type AmountChange = Addition | NewAmount | NewQuota | FirstAmount;

/** Writes amounts and numbers. */
interface Writer {
  readonly amount: (units: number) => string;
  /** The currency of the amounts. Undefined for units that are no money, or not known to be any. */
  readonly currency: string | undefined;
  readonly numbers?: Pick<Intl.NumberFormat, "format">;
}

/**
 * Says what makes a change of an amount doubtful: it adds more than was given so far, it leaves a budget less than a tenth of its amount, or
 * nothing, it gives a key a quota of nothing, or it is a first amount of money that looks like units. Undefined for any other change.
 */
export function doubtInWords(change: AmountChange, writer: Writer): string | undefined {
  if ("first" in change) return largeInWords(change.first, writer);
  if ("added" in change) {
    const { added, given, to } = change;
    if (given <= 0) return largeInWords(added, writer);
    return added > given ? muchInWords(added, given, NAMES[to], writer) : undefined;
  }
  if ("quota" in change)
    return change.quota === 0
      ? `With a quota of ${writer.amount(0)}, this key can use nothing: its calls are refused until it is granted more.`
      : largeInWords(change.quota, writer);
  const { before } = change;
  if (change.amount < before.amount) return lowInWords(change, writer);
  if (before.amount <= 0) return largeInWords(change.amount, writer);
  return change.amount > 2 * before.amount ? muchInWords(change.amount, before.amount, OF_BUDGET, writer) : undefined;
}

const OF_BUDGET = "the amount of this budget";

const ENGLISH = new Intl.NumberFormat("en");

function muchInWords(units: number, given: number, name: string, { amount, numbers = ENGLISH }: Writer): string {
  const times = Number((units / given).toPrecision(2));
  return `${amount(units)} is ${times >= 2 ? `${numbers.format(times)} times` : "more than"} ${name}, ${amount(given)}.`;
}

/** A whole number of money from here on was probably meant as units. */
const LEAST_LARGE = 1_000_000 * UNITS_OF_ONE;

/** Says how much larger usual numbers are in a currency: people write a hundred times as much without decimals, as in JPY. */
const scaleOf = (currency: string): number => (usualDigits(currency) === 0 ? 100 : 1);

function largeInWords(units: number, { amount, currency, numbers }: Writer): string | undefined {
  if (currency === undefined || units < LEAST_LARGE * scaleOf(currency) || units % UNITS_OF_ONE !== 0) return undefined;
  const count = units / UNITS_OF_ONE;
  return `${amount(units)} is a large first amount. A unit is a millionth: as units, ${numbers?.format(count) ?? count} is only ${amount(count)}.`;
}

function lowInWords({ amount: units, before }: NewAmount, { amount }: Writer): string | undefined {
  const { used, available, gap = 0, period } = before;
  const until = `until ${units > 0 && period !== undefined ? "the next period begins, or " : ""}the budget gets more.`;
  if (available - gap <= before.amount - units) {
    const use = used > 0 ? `, which has used ${amount(used)}` : "";
    return `With ${amount(units)}, nothing is left of this budget${use}: its calls are refused ${until}`;
  }
  if (units * 10 >= before.amount) return undefined;
  return `${amount(units)} is less than a tenth of ${OF_BUDGET}, ${amount(before.amount)}. When it is used up, calls are refused ${until}`;
}

/**
 * Fewer units than these were probably meant as money: less than 1 in a currency with decimals for the amount of a budget, and less than a tenth
 * for a quota, which may be small, and for units that are added or taken.
 */
const LEAST_MONEY = { amount: 1_000_000, granted: 100_000, units: 100_000 } as const;

/** The field of a request that has units. */
export type UnitsField = keyof typeof LEAST_MONEY;

/** True for some units that are hardly anything in a currency. */
export const isLittle = (units: number, field: UnitsField, currency: string): boolean =>
  units > 0 && units < LEAST_MONEY[field] * scaleOf(currency);

/** Says what some units are in a currency, and how many units so much money is. */
export const littleInWords = (units: number, currency: string): string =>
  `A unit is a millionth of ${currency}: ${unitsInWords(units, undefined)} would be only ${unitsInWords(units, currency)}. ${units} ${currency} would be ${units * UNITS_OF_ONE} units.`;

/** The metadata of a key that a gateway reads by itself. */
const READ_BY_GATEWAYS = ["tier", "group"] as const;

/**
 * Says of names of metadata that they are nearly those that a gateway reads: such a key has no rate tier, or no group, and nothing else would
 * tell. Undefined for other names, and for those that the key has already.
 */
export function metadataDoubt(
  metadata: Readonly<Record<string, unknown>> | undefined,
  before: Readonly<Record<string, string>> = {},
): string | undefined {
  const notes = Object.entries(metadata ?? {}).flatMap(([name, text]) => {
    // A longer name that has one of these in it is a name of its own, such as `price-tier`.
    const alike = READ_BY_GATEWAYS.filter((known) => known !== name && Math.abs(known.length - name.length) < 2);
    const meant = text === null || Object.hasOwn(before, name) ? undefined : nearest(name, alike);
    return meant === undefined
      ? []
      : `A gateway reads the metadata ${READ_BY_GATEWAYS.join(" and ")} by itself, not ${oneLine(name)}. Did you mean ${meant}?`;
  });
  return notes.length > 0 ? notes.join(" ") : undefined;
}

/** Says that a key was revoked before. */
export const revokedInWords = (id: string): string => `The key "${id}" is revoked already: nothing was changed.`;

/** Says that nothing limits a key. */
export const unlimitedInWords = (id: string): string =>
  `The key "${id}" is unlimited: it has neither a quota nor a budget.`;

/**
 * Says that a key would be unlimited without its quota or its budget. Undefined for a key that something still limits, or that has no such
 * limit.
 */
export function unlimitedWithout(
  taken: "quota" | "budget",
  { id, hasQuota, budget }: { readonly id: string; readonly hasQuota: boolean; readonly budget?: string | undefined },
): string | undefined {
  const limits = [...(hasQuota ? ["quota"] : []), ...(budget === undefined ? [] : ["budget"])];
  return limits.length === 1 && limits[0] === taken
    ? `Without its ${taken}, the key ${id} is unlimited: nothing refuses its calls.`
    : undefined;
}

/**
 * Returns the condition of a change that takes a limit without a question: that another change has not taken the other limit meanwhile. The
 * stores ask it in one step with the change.
 */
export const isLimitedWithout =
  (taken: "quota" | "budget") =>
  ({ id, unlimited, budget }: ApiKey): boolean =>
    unlimitedWithout(taken, { id, hasQuota: !unlimited, budget }) === undefined;
