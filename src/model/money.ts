/** Converts units to money: a unit is a millionth of the currency. Amounts stay exact, because none becomes a binary fraction. */

import { type Check, checkOf, isCurrencyCode } from "../options.ts";

/** The digits behind the point: a unit is a millionth of a currency. */
export const DECIMALS = 6;

/** The units of a whole amount of 1 in a currency. */
export const UNITS_OF_ONE: number = 10 ** DECIMALS;

/** The upper limit of an amount, of each book, and of charges and holds together, in units. A number beyond it is not exact. */
export const MOST_UNITS: number = Number.MAX_SAFE_INTEGER;

/**
 * Returns the units of an amount of money, rounded to whole ones: a unit is a millionth of the currency, whichever it is. `unitsOfMoney(12.5)`
 * is 12,500,000.
 *
 * @throws TypeError for anything but a number; RangeError for a number below 0, for more than 2^53 - 1 units, and for less than a unit.
 */
export function unitsOfMoney(amount: number): number {
  assertMoney("unitsOfMoney: an amount of money", amount);
  return Math.round(amount * UNITS_OF_ONE);
}

const assertMoney: Check = (path, amount) =>
  checkOf({
    words: `0, or a number from ${decimalsOf(1)} to ${decimalsOf(MOST_UNITS)}`,
    allows: (value) => {
      const units = Math.round(value * UNITS_OF_ONE);
      return Number.isSafeInteger(units) && units >= 0 && (units > 0 || value === 0);
    },
  })(path, amount);

/** Returns the code of a currency in capitals; undefined for any other text. */
export const currencyCode = (text: string): string | undefined =>
  isCurrencyCode(text) ? text.toUpperCase() : undefined;

/** Formats units as they are, or as money. */
export function amountOf(units: number, currency: string | undefined): string {
  return currency === undefined ? String(units) : moneyOf(units, currency);
}

/** Formats units for a sentence, in which no heading says what they are. */
export const unitsInWords = (units: number, currency: string | undefined): string =>
  currency === undefined ? `${units} ${units === 1 ? "unit" : "units"}` : moneyOf(units, currency);

/** Formats units as money, exactly: `2.50 USD`. */
export function moneyOf(units: number, currency: string): string {
  // The numbers of a corrupt key are shown as they are.
  if (!Number.isSafeInteger(units)) return `${units} millionths of ${currency}`;
  return `${decimalIn(units, currency)} ${currency}`;
}

/** Formats units as an exact decimal number with the digits that people write in the currency, or with more if it needs them. */
const decimalIn = (units: number, currency: string): string =>
  decimalsOf(units, digitsFor(units, currency)).replace(/\.$/, "");

/**
 * Returns the digits behind the point of an amount of money: as many as people write in the currency, or as the amount needs. An amount that
 * needs three gets four: `1.500` may be fifteen hundred.
 */
export function digitsFor(units: number, currency: string): number {
  const usual = usualDigits(currency);
  const needed = decimalsOf(units).replaceAll(/^.*\.|0+$/g, "").length;
  return needed <= usual ? usual : needed === 3 ? 4 : needed;
}

const digitsOfCurrencies = new Map<string, number>();

/** Returns the digits behind the point that people write in a currency: 2 for USD, 0 for JPY. */
export function usualDigits(currency: string): number {
  const known = digitsOfCurrencies.get(currency);
  if (known !== undefined || currencyCode(currency) === undefined) return known ?? 2;
  const format = new Intl.NumberFormat("en", { style: "currency", currency });
  const digits = format.resolvedOptions().maximumFractionDigits ?? 2;
  digitsOfCurrencies.set(currency, digits);
  return digits;
}

/** Formats units as a decimal number of a currency, with six digits behind the point, or with fewer ones if the rest are zeros. */
export function decimalsOf(units: number, digitsBehind: number = DECIMALS): string {
  const digits = String(Math.abs(units)).padStart(DECIMALS + 1, "0");
  return `${units < 0 ? "-" : ""}${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS).slice(0, digitsBehind)}`;
}

/** Returns units as an exact decimal number of a currency, for JSON; nothing without a currency, and for a sum that is not exact. */
export const moneyIn = (units: number, currency: string | null | undefined): { readonly money?: string } =>
  currency == null || !Number.isSafeInteger(units) ? {} : { money: decimalsOf(units) };

/**
 * Notes that a report counts charges of further currencies as its own; undefined if it has no such charges.
 *
 * @param others The further currencies. An empty text stands for charges without a currency.
 */
export function mixedInWords(others: readonly string[] = [], currency: string | undefined): string | undefined {
  if (others.length === 0) return undefined;
  const recorded = others.map((other) => (other === "" ? "without a currency" : `in ${other}`)).join(" and ");
  const as = currency ?? "units without a currency";
  return `Charges that were recorded ${recorded} are counted as ${as}, unit for unit: nothing is converted.`;
}

/** Writes units as people write money on a command line or in a field, so that `twoAmounts` takes the text for one amount. */
export const writtenMoney = (units: number): string => unmistakable(decimalsOf(units));

/** Writes a number with decimals as short as possible, but never with exactly three, which may be thousands. */
const unmistakable = (decimal: string): string => decimal.replace(/\.?0+$/, "").replace(/\.\d{3}$/, "$&0");

/**
 * Returns the two amounts, as people write them, of which a text may be either: `1.500` is fifteen hundred where a point stands between
 * thousands. Undefined for any other text.
 */
export function twoAmounts(text: string): readonly [decimal: string, thousands: string] | undefined {
  const [, whole, rest] = /^([1-9]\d{0,2})[.,](\d{3})$/.exec(text) ?? [];
  return whole === undefined ? undefined : [unmistakable(`${whole}.${rest}`), `${whole}${rest}`];
}
