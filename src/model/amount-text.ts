/** Parses the amounts that people write, on a command line and in a field of a page: units, or money in a currency. */

import { currencyCode, DECIMALS, MOST_UNITS, moneyOf, twoAmounts } from "./money.ts";

/** A comma before three digits may stand between thousands, and otherwise before decimals, as people in half of the world write them. */
const MONEY = /^(\d+)(?:\.(\d{1,6})|,(\d{1,2}|\d{4,6}))?$/;

/**
 * Reads an amount of units, or of money if there is a currency. A unit is a millionth of the currency.
 *
 * @param name The name of the option or field, for the error.
 * @param moneyHint Says how to name a currency beside the amount, such as ` and add --currency usd`. Default: the reader cannot.
 * @throws RangeError for any text that is no amount, or that may be either of two.
 */
export function readUnits(
  name: string,
  text: string,
  currency: string | undefined,
  moneyHint?: (code: string) => string,
): number {
  const units = millionthsOf(text);
  const two = twoAmounts(text);
  if (currency !== undefined) {
    if (two) throw new RangeError(`${name}: ${text} may be two amounts. Write ${two.join(" or ")}.`);
    if (units === undefined)
      throw new RangeError(
        `${name} must be an amount of ${currency} such as 12.5, with at most ${DECIMALS} digits after the point, not ${text}.${besideHint(text, currency, () => "") || hintOf(text)}`,
      );
    if (units > MOST_UNITS)
      throw new RangeError(`${name} must be at most ${moneyOf(MOST_UNITS, currency)}, not ${text}.`);
    return Number(units);
  }
  const inMoney = (amount: string, words: string): string =>
    moneyHint === undefined ? "" : `, or ${words}${amount}${moneyHint("usd")}`;
  const pointed = text.replace(",", ".");
  const millionths = millionthsOf(pointed);
  if (/[.,]/.test(text) && !two && millionths !== undefined)
    throw new RangeError(
      `${name} must be a whole number of units, not ${text}. With prices in a currency, a unit is a millionth of it: write ${millionths}${inMoney(pointed, "write ")}.`,
    );
  const whole = /^\d+$/.test(text) ? BigInt(text) : -1n;
  if (whole < 0 || whole > MOST_UNITS) {
    const hint = two
      ? ` Write ${two[1]}${inMoney(two[0], "")}.`
      : besideHint(text, undefined, moneyHint) || hintOf(text);
    throw new RangeError(`${name} must be an integer from 0 to ${MOST_UNITS}, not ${text}.${hint}`);
  }
  return Number(whole);
}

/** Reads an amount that is added or taken, as `readUnits` does. Throws a RangeError for 0, too: nothing would change. */
export function readAddition(...args: Parameters<typeof readUnits>): number {
  const units = readUnits(...args);
  if (units === 0) throw new RangeError(`${args[0]} must be more than 0.`);
  return units;
}

/** Says how to write an amount with the code of its currency beside it, such as `300usd`. Empty for any other text or currency. */
function besideHint(text: string, currency: string | undefined, moneyHint: Parameters<typeof readUnits>[3]): string {
  const [, before = "", amount = "", after = ""] = /^([a-z]{3})?\s*(\d+(?:[.,]\d+)?)\s*([a-z]{3})?$/i.exec(text) ?? [];
  const code = currencyCode(before + after);
  if (code === undefined || moneyHint === undefined || (currency ?? code) !== code) return "";
  return ` Write ${amount}${moneyHint(code.toLowerCase())}.`;
}

/** Says how to write an amount that has commas or signs between thousands. None is guessed: an amount that is read wrong is money. */
function hintOf(text: string): string {
  if (/^\d+,\d{1,6}$/.test(text)) return ` Write ${text.replace(",", ".")}.`;
  return /^\d+(?:[.,'’_\s]\d+)+$/.test(text) && !/^\d+\.\d+$/.test(text)
    ? " Write a point before the decimals and nothing between thousands: 1234.56."
    : "";
}

/** Returns the millionths of a decimal number with a point or a comma; undefined for any other text. */
function millionthsOf(text: string): bigint | undefined {
  const [, whole, ofPoint = "", fraction = ofPoint] = MONEY.exec(text) ?? [];
  return whole === undefined ? undefined : BigInt(whole + fraction.padEnd(DECIMALS, "0"));
}
