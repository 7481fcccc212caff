/** Parses the amounts of a command line: units, or money in a currency. A unit is a millionth of the currency. */

import { currencyCode, DECIMALS, moneyOf, twoAmounts } from "../model/money.ts";
import { MOST_UNITS } from "../stores/ledger.ts";
import { UsageError } from "../stores/open/connection.ts";

const MONEY = /^(\d+)(?:\.(\d{1,6}))?$/;

/** Returns the code of a currency in capitals; undefined without one. */
export function currencyOf(code: string | undefined): string | undefined {
  if (code === undefined || code === "") return undefined;
  const capitals = currencyCode(code);
  if (capitals !== undefined) return capitals;
  throw new UsageError(`--currency (or POLYGATE_CURRENCY) must be a code of three letters, such as usd, not ${code}.`);
}

/** Reads an amount of units, or of money if there is a currency. */
export function unitsOf(name: string, text: string, currency: string | undefined): number {
  const units = millionthsOf(text);
  const two = twoAmounts(text);
  if (currency !== undefined) {
    if (two) throw new UsageError(`${name}: ${text} may be two amounts. Write ${two.join(", or ")}.`);
    if (units === undefined)
      throw new UsageError(
        `${name} must be an amount of ${currency} such as 12.5, with at most ${DECIMALS} digits after the point, not ${text}.${hintOf(text)}`,
      );
    if (units > MOST_UNITS)
      throw new UsageError(`${name} must be at most ${moneyOf(MOST_UNITS, currency)}, not ${text}.`);
    return Number(units);
  }
  const pointed = text.replace(",", ".");
  const millionths = millionthsOf(pointed);
  if (/[.,]/.test(text) && !two && millionths !== undefined)
    throw new UsageError(
      `${name} must be a whole number of units, not ${text}. With prices in a currency, a unit is a millionth of it: write ${millionths}, or write ${pointed} and add --currency usd.`,
    );
  const whole = /^\d+$/.test(text) ? BigInt(text) : -1n;
  if (whole < 0 || whole > MOST_UNITS) {
    const hint = two ? ` Write ${two[0]}, or ${two[1]} and add --currency usd.` : hintOf(text);
    throw new UsageError(`${name} must be an integer from 0 to ${MOST_UNITS}, not ${text}.${hint}`);
  }
  return Number(whole);
}

/** Says how to write an amount that has commas. None is guessed: an amount that is read wrong is money. */
function hintOf(text: string): string {
  if (/^\d+,\d+$/.test(text)) return ` Write ${text.replace(",", ".")}.`;
  return /^\d[\d.,]*,\d+$/.test(text)
    ? " Write a point before the decimals and nothing between thousands: 1234.56."
    : "";
}

/** Returns the millionths of a decimal number; undefined for any other text. */
function millionthsOf(text: string): bigint | undefined {
  const [, whole, fraction = ""] = MONEY.exec(text) ?? [];
  return whole === undefined ? undefined : BigInt(whole + fraction.padEnd(DECIMALS, "0"));
}
