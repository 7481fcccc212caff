/** Formats and parses units for the page. Units are money if the host has set a currency. */

/** The currency of the amounts; empty for units. */
export const CURRENCY: string = document.documentElement.dataset["currency"] ?? "";
/** A unit is a millionth of the currency. */
const UNITS_OF_ONE = 1_000_000;

export const plain: Intl.NumberFormat = new Intl.NumberFormat();
const moneyWith = (maximumFractionDigits?: number): Intl.NumberFormat | undefined =>
  CURRENCY === ""
    ? undefined
    : new Intl.NumberFormat(undefined, { style: "currency", currency: CURRENCY, maximumFractionDigits });
const money = moneyWith();
/** Shows less than a hundredth, which `money` would round to nothing. */
const small = moneyWith(6);

/** The name of an amount in labels. */
export const AMOUNT: string = CURRENCY === "" ? "units" : CURRENCY;

export const shownAmount = (units: number): string =>
  (units < UNITS_OF_ONE / 100 ? small : money)?.format(units / UNITS_OF_ONE) ?? plain.format(units);

/** Returns the units that a user has written. Throws for a text that is no amount. */
export function readAmount(written: string): number {
  const units = Math.round(Number(written.trim().replaceAll(/[_\s]/g, "")) * (money ? UNITS_OF_ONE : 1));
  if (written.trim() === "" || !Number.isSafeInteger(units) || units < 0)
    throw new Error(`${JSON.stringify(written)} is no amount. Write a number, such as ${money ? "12.50" : "1000000"}.`);
  return units;
}

/** Returns an amount as a user writes it. */
export const writtenAmount = (units: number): string => String(money ? units / UNITS_OF_ONE : units);

const MOMENT: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" };
const moment = new Intl.DateTimeFormat(undefined, MOMENT);

/** @param ms Milliseconds since the Unix epoch. */
export const shownTime = (ms: number): string => moment.format(ms);

/** Shows a time as the clocks of a zone do. A browser may not know a zone that the server knows. */
export function shownTimeIn(timeZone: string, ms: number): string {
  try {
    return new Intl.DateTimeFormat(undefined, { ...MOMENT, timeZone }).format(ms);
  } catch {
    return new Date(ms).toISOString();
  }
}
