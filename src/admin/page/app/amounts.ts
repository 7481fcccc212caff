/** Formats and parses units for the page. Units are money if the host has set a currency. */

/** The currency of the amounts; empty for units. */
export const CURRENCY: string = document.documentElement.dataset["currency"] ?? "";
/** A unit is a millionth of the currency. */
const UNITS_OF_ONE = 1_000_000;

export const plain: Intl.NumberFormat = new Intl.NumberFormat();

/** The decimals of a unit. */
const MOST_DECIMALS = 6;
const inMoney = (options: Intl.NumberFormatOptions = {}): Intl.NumberFormat =>
  new Intl.NumberFormat(undefined, { style: "currency", currency: CURRENCY, ...options });
/** The decimals that people write in this currency, such as 2. */
const USUAL_DECIMALS = CURRENCY === "" ? 0 : (inMoney().resolvedOptions().maximumFractionDigits ?? 2);

/** The name of an amount in labels. */
export const AMOUNT: string = CURRENCY === "" ? "units" : CURRENCY;

/** Returns the decimals that show three digits of an amount, or all of them. */
function decimalsOf(units: number): number {
  const digits = String(Math.abs(units));
  const exact = MOST_DECIMALS - (/0*$/.exec(digits)?.[0].length ?? 0);
  return units === 0 ? USUAL_DECIMALS : Math.max(USUAL_DECIMALS, Math.min(exact, MOST_DECIMALS + 3 - digits.length));
}

/** Formats amounts with the same decimals. */
export interface AmountFormat {
  readonly shown: (units: number) => string;
  /** Shows also the decimals that `shown` rounds away. */
  readonly exact: (units: number) => string;
  /** Rounds amounts so that the shown ones add up to their shown sum: those that lose most are rounded up. */
  readonly addUp: (all: readonly number[]) => readonly number[];
}

const formats = new Map<number, AmountFormat>();

/** Returns the format of some amounts: as many decimals as the amount needs that needs most. */
export function formatFor(all: readonly number[]): AmountFormat {
  const decimals = all.reduce(
    (most, units) => Math.min(MOST_DECIMALS, Math.max(most, decimalsOf(units))),
    USUAL_DECIMALS,
  );
  const format = formats.get(decimals) ?? formatWith(decimals);
  formats.set(decimals, format);
  return format;
}

const inUnits = (units: number): string => plain.format(units);

function formatWith(decimals: number): AmountFormat {
  if (CURRENCY === "") return { shown: inUnits, exact: inUnits, addUp: (all) => all };
  const step = 10 ** (MOST_DECIMALS - decimals);
  const rounded = inMoney({ minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const precise = inMoney({ minimumFractionDigits: decimals, maximumFractionDigits: MOST_DECIMALS });
  return {
    shown: (units) => rounded.format((Math.round(units / step) * step) / UNITS_OF_ONE),
    exact: (units) => precise.format(units / UNITS_OF_ONE),
    addUp(all) {
      const lost = all.map((units) => units % step);
      const steps = Math.round(lost.reduce((sum, units) => sum + units, 0) / step);
      const byLoss = lost.map((_, at) => at).toSorted((a, b) => (lost[b] ?? 0) - (lost[a] ?? 0));
      const up = new Set(byLoss.slice(0, steps));
      return all.map((units, at) => units - (units % step) + (up.has(at) ? step : 0));
    },
  };
}

/**
 * Says for how many calls a sum is, and how many of them stand in no shown row.
 *
 * @param rows The shown rows; undefined if there are more on later pages.
 */
export function callsOf(
  total: { readonly calls: number },
  rows: readonly { readonly calls: number }[] | undefined,
): string {
  const hidden = rows ? rows.reduce((left, { calls }) => left - calls, total.calls) : 0;
  const free = hidden > 0 ? `, ${plain.format(hidden)} of them free and not shown` : "";
  return `${plain.format(total.calls)} calls${free}`;
}

/** Returns the units that a user has written. Throws for a text that is no amount. */
export function readAmount(written: string): number {
  const units = Math.round(Number(written.trim().replaceAll(/[_\s]/g, "")) * (CURRENCY ? UNITS_OF_ONE : 1));
  if (written.trim() === "" || !Number.isSafeInteger(units) || units < 0)
    throw new Error(
      `${JSON.stringify(written)} is no amount. Write a number, such as ${CURRENCY ? "12.50" : "1000000"}.`,
    );
  return units;
}

/** Returns an amount as a user writes it. */
export const writtenAmount = (units: number): string => String(CURRENCY ? units / UNITS_OF_ONE : units);

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
