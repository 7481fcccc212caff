/** Converts units to money: a unit is a millionth of the currency. Amounts stay exact, because none becomes a binary fraction. */

/** The digits behind the point: a unit is a millionth of a currency. */
export const DECIMALS = 6;

/** Returns the code of a currency in capitals; undefined for any other text. */
export const currencyCode = (text: string): string | undefined =>
  /^[a-z]{3}$/i.test(text) ? text.toUpperCase() : undefined;

/** Formats units as a decimal number of a currency, with two to six digits behind the point. */
export function decimalsOf(units: number): string {
  const digits = String(Math.abs(units)).padStart(DECIMALS + 1, "0");
  const fraction = digits.slice(-DECIMALS).replace(/0{1,4}$/, "");
  return `${units < 0 ? "-" : ""}${digits.slice(0, -DECIMALS)}.${fraction}`;
}
