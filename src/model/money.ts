/** Converts units to money: a unit is a millionth of the currency. Amounts stay exact, because none becomes a binary fraction. */

/** The digits behind the point: a unit is a millionth of a currency. */
export const DECIMALS = 6;

/** Returns the code of a currency in capitals; undefined for any other text. */
export const currencyCode = (text: string): string | undefined =>
  /^[a-z]{3}$/i.test(text) ? text.toUpperCase() : undefined;

/** Formats units as they are, or as money with two to six digits behind the point. */
export function amountOf(units: number, currency: string | undefined): string {
  return currency === undefined ? String(units) : moneyOf(units, currency);
}

/** Formats units as money with two to six digits behind the point. */
export function moneyOf(units: number, currency: string): string {
  // The numbers of a corrupt key are shown as they are.
  if (!Number.isSafeInteger(units)) return `${units} millionths of ${currency}`;
  return `${decimalsOf(units).replace(/0{1,4}$/, "")} ${currency}`;
}

/** Formats units as a decimal number of a currency, with six digits behind the point. */
export function decimalsOf(units: number): string {
  const digits = String(Math.abs(units)).padStart(DECIMALS + 1, "0");
  return `${units < 0 ? "-" : ""}${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}
