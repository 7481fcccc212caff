/** Formats and parses units for the page. Units are money in the currency of the recorded calls, or of the host's option. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { readAddition, readUnits } from "../../../model/amount-text.ts";
import { digitsFor, UNITS_OF_ONE, usualDigits, writtenMoney } from "../../../model/money.ts";

/** The option `currency` of the page; empty without one. */
const OPTION = document.documentElement.dataset["currency"] ?? "";
/** The currency in which calls are recorded. Undefined while none is known. */
export const recordedCurrency: Signal<string | undefined> = signal(undefined);

/** Says that the option names another currency than that of the calls. Empty otherwise. */
export const wrongCurrency: ReadonlySignal<string> = computed(() =>
  OPTION === "" || OPTION === (recordedCurrency.value ?? OPTION)
    ? ""
    : `Calls are recorded in ${recordedCurrency.value}, but the option currency of this page is ${OPTION}: amounts of keys and budgets are units, millionths of ${recordedCurrency.value}.`,
);

/** The currency of the amounts; empty for units. No amount is written in a currency that may be wrong. */
export const pageCurrency: ReadonlySignal<string> = computed(() =>
  wrongCurrency.value === "" ? OPTION || (recordedCurrency.value ?? "") : "",
);

/** Returns the label of a field for an amount, and says how the amount is written. */
export const amountField = (name: string): { readonly label: string; readonly hint: string } =>
  pageCurrency.value
    ? { label: `${name} in ${pageCurrency.value}`, hint: "Such as 12.50." }
    : {
        label: `${name} in units`,
        hint: `Such as 1000000. A unit is a millionth of ${recordedCurrency.value ?? "the currency of the prices, if these have one"}.`,
      };

export const plain: Intl.NumberFormat = new Intl.NumberFormat();

/** The decimals of a unit. */
const MOST_DECIMALS = 6;

const countIn = (units: number, currency: string): number => (currency === "" ? units : units / UNITS_OF_ONE);

/** Rounds the amounts of a list: down what is left, up what is spent. Default: to the nearest. */
export type Rounding = "down" | "up";

/** Rounds an amount to whole steps. */
function roundedTo(step: number, units: number, rounding?: Rounding): number {
  const above = ((units % step) + step) % step;
  const isDown = rounding === undefined ? above * 2 < step : rounding === "down" || above === 0;
  return units - above + (isDown ? 0 : step);
}

/** Returns the decimals of an amount in a list: the usual ones of the currency; below one, as many as its first two digits need. */
export function decimalsOf(units: number, currency: string = pageCurrency.value, rounding?: Rounding): number {
  if (currency === "") return 0;
  const size = Math.abs(units);
  const coin =
    size < UNITS_OF_ONE ? 10 ** Math.max(0, String(size).length - 2) : UNITS_OF_ONE / 10 ** usualDigits(currency);
  // An amount just above one coin is not shown as two, nor one just below as nothing.
  return Math.max(...[undefined, rounding].map((way) => digitsFor(roundedTo(coin, units, way), currency)));
}

/** True for an amount that a list shows rounded. */
export const isRounded = (units: number, currency: string): boolean =>
  currency !== "" && decimalsOf(units, currency) < digitsFor(units, currency);

/** Writes an amount exactly, for sentences and fields: its reader may compare it with another one. */
export const amountOf = (units: number, currency: string = pageCurrency.value): string =>
  written(units, currency, currency === "" ? 0 : digitsFor(units, currency), { style: "currency", currency });

/** Writes an amount below a heading that names the currency or the units, rounded. The exact amount must be at hand. */
export const amountBelow = (units: number, currency: string = pageCurrency.value, rounding?: Rounding): string =>
  roughly(units, currency, {}, rounding);

function roughly(units: number, currency: string, style: Intl.NumberFormatOptions, rounding?: Rounding): string {
  if (currency === "") return written(units, currency, 0, style);
  const decimals = decimalsOf(units, currency, rounding);
  return written(roundedTo(10 ** (MOST_DECIMALS - decimals), units, rounding), currency, decimals, style);
}

function written(units: number, currency: string, digits: number, style: Intl.NumberFormatOptions): string {
  if (currency === "") return plain.format(units);
  return countIn(units, currency).toLocaleString(undefined, {
    ...style,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** Writes an amount for a sentence, in which no heading names the units. */
export const amountInWords = (units: number, currency: string = pageCurrency.value): string =>
  `${amountOf(units, currency)}${currency !== "" ? "" : units === 1 ? " unit" : " units"}`;

/** Writes what is spent for a sentence as a list shows it, rounded up. The exact sum must be at hand. */
export const spentInWords = (units: number, currency: string = pageCurrency.value): string =>
  currency === "" ? amountInWords(units, currency) : roughly(units, currency, { style: "currency", currency }, "up");

/** Returns the format of the values of an axis, which are whole multiples of a step. */
export function axisFormat(step: number, currency: string): (units: number) => string {
  const size = countIn(step, currency);
  const format = new Intl.NumberFormat(undefined, {
    ...(currency !== "" && { style: "currency", currency }),
    ...(size < 1_000
      ? { minimumFractionDigits: size < 1 ? Math.max(2, Math.ceil(-Math.log10(size))) : 0 }
      : { notation: "compact", minimumFractionDigits: 0 }),
    maximumFractionDigits: size < 1 ? MOST_DECIMALS : 1,
  });
  return (units) => format.format(countIn(units, currency));
}

const percent = new Intl.NumberFormat(undefined, { style: "percent" });

/** Writes the used share of an amount, rounded down, but never as nothing when something is used. */
export function shareOf(used: number, all: number): string {
  const hundredths = all > 0 ? Math.floor((used * 100) / all) : 0;
  return used > 0 && hundredths === 0 && all > 0 ? `<${percent.format(0.01)}` : percent.format(hundredths / 100);
}

/**
 * Returns the units that a user has written, in the one way that the command line takes, too.
 *
 * @param field The name of the field, for the error.
 * @throws RangeError for a text that is no amount, or that may be either of two.
 */
export const readAmount = (field: string, written: string): number =>
  readUnits(field, written.trim(), pageCurrency.value || undefined);

/** Returns the units that a user adds or takes. Throws a RangeError for 0, too. */
export const readAdded = (field: string, written: string): number =>
  readAddition(field, written.trim(), pageCurrency.value || undefined);

/** Returns an amount as a user writes it. */
export const writtenAmount = (units: number): string => (pageCurrency.value ? writtenMoney(units) : String(units));

/** The time zone of the user's clock. */
export const OWN_ZONE: string = Intl.DateTimeFormat().resolvedOptions().timeZone;

const MOMENT: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" };
const moment = new Intl.DateTimeFormat(undefined, MOMENT);
const second = new Intl.DateTimeFormat(undefined, { ...MOMENT, timeStyle: "medium" });
const ofDay = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** @param ms Milliseconds since the Unix epoch. A key may end later than any calendar. */
export const shownTime = (ms: number): string =>
  Number.isNaN(new Date(ms).getTime()) ? String(ms) : moment.format(ms);

/**
 * Shows the time of a record to the second, so that it can be found in other logs.
 *
 * @param dayOf Another time, whose day is left out.
 */
export const shownSecond = (ms: number, dayOf?: number): string =>
  dayOf !== undefined && new Date(ms).toDateString() === new Date(dayOf).toDateString()
    ? ofDay.format(ms)
    : second.format(ms);

/** Shows a time as the clocks of a zone do. A browser may not know a zone that the server knows. */
export function shownTimeIn(timeZone: string, ms: number): string {
  try {
    return new Intl.DateTimeFormat(undefined, { ...MOMENT, timeZone }).format(ms);
  } catch {
    return new Date(ms).toISOString();
  }
}

/** Returns a day, such as `2026-11-01`, as the calendars of a zone do, or of the browser's. A browser may not know a zone. */
export function dayIn(timeZone: string | undefined, ms: number): string {
  try {
    return new Intl.DateTimeFormat("sv", { timeZone }).format(ms);
  } catch {
    return new Date(ms).toISOString().slice(0, 10);
  }
}

/** Shows a day of the calendar, such as `2026-11-01`. */
export const shownDay = (day: string): string =>
  new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" }).format(Date.parse(day));

const DAY_OF_YEAR = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" });

/** Shows a day without its year, for an axis. */
export const shortDay = (day: string): string => DAY_OF_YEAR.format(Date.parse(day));

/** Names a period by its month, or by its first and last day, as the calendars of a zone do. A browser may not know a zone. */
export function shownPeriod(timeZone: string, startsAt: number, endsAt: number, isMonth: boolean): string {
  const form: Intl.DateTimeFormatOptions = isMonth ? { month: "long", year: "numeric" } : { dateStyle: "medium" };
  try {
    return new Intl.DateTimeFormat(undefined, { ...form, timeZone }).formatRange(startsAt, endsAt - 1);
  } catch {
    return `${new Date(startsAt).toISOString()} – ${new Date(endsAt).toISOString()}`;
  }
}

/** The units of spans of time, in milliseconds, the longest first. */
const SPANS = [
  ["week", 604_800_000],
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
  ["millisecond", 1],
] as const;

/** Writes a span of time as a whole number of the longest possible unit, such as `1 day`. */
export function spanInWords(ms: number): string {
  const [unit, length] = SPANS.find(([, of]) => ms >= of && ms % of === 0) ?? (["millisecond", 1] as const);
  const count = ms / length;
  return `${plain.format(count)} ${unit}${count === 1 ? "" : "s"}`;
}
