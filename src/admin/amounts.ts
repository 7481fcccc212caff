/** Parses the amounts and the currency of a command line. */

import { readUnits } from "../model/amount-text.ts";
import { currencyCode } from "../model/money.ts";
import { UsageError } from "../stores/open/connection.ts";

/** Returns the code of a currency in capitals; undefined without one. */
export function currencyOf(code: string | undefined): string | undefined {
  if (code === undefined || code === "") return undefined;
  const capitals = currencyCode(code);
  if (capitals !== undefined) return capitals;
  throw new UsageError(`--currency (or POLYGATE_CURRENCY) must be a code of three letters, such as usd, not ${code}.`);
}

/** Reads an amount of units, or of money if there is a currency. */
export function unitsOf(name: string, text: string, currency: string | undefined): number {
  try {
    return readUnits(name, text, currency, " and add --currency usd");
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}
