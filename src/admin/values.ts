/** Reads the values of a command line: amounts, currencies, words, days, spans and time zones. */

import { readUnits } from "../model/amount-text.ts";
import { given } from "../model/json.ts";
import { currencyCode } from "../model/money.ts";
import { nearest, oneLine } from "../options.ts";
import { calendarOf } from "../stores/budgets.ts";
import { type CallFilter, daysMeant, isDay, type UsageQuery } from "../stores/calls.ts";
import { UsageError } from "../stores/open/connection.ts";
import { UNITS_MS } from "./columns.ts";
import type { Values } from "./commands.ts";

/** Returns the code of a currency in capitals; undefined without one. */
export function currencyOf(code: string | undefined): string | undefined {
  if (code === undefined || code === "") return undefined;
  const capitals = currencyCode(code);
  if (capitals !== undefined) return capitals;
  throw new UsageError(`--currency (or POLYGATE_CURRENCY) must be a code of three letters, such as usd, not ${code}.`);
}

/**
 * Reads an amount of units, or of money if there is a currency.
 *
 * @param read Default: takes 0, too.
 */
export function unitsOf(
  name: string,
  text: string,
  currency: string | undefined,
  read: typeof readUnits = readUnits,
): number {
  try {
    return read(name, text, currency, (code) => ` and add --currency ${code}`);
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}

/**
 * Returns the text of an option if it is one of some words, and undefined without a text. Throws a UsageError for any other text.
 *
 * @param hint What to do for another text. Default: asks for the word that was probably meant.
 */
export function wordOf<Word extends string>(
  name: string,
  text: string | undefined,
  words: readonly Word[],
  hint: string = text === undefined ? "" : nearestHint(text, words),
): Word | undefined {
  const word = words.find((known) => known === text);
  if (text === undefined || word !== undefined) return word;
  throw new UsageError(`${name} must be ${oneOf(words)}, not ${text}.${hint}`);
}

/** Joins alternatives: `a, b or c`. */
export const oneOf = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;

/** Asks for the word that was probably meant. */
export const nearestHint = (text: string, words: readonly string[]): string => hintOf(nearest(text, words));

/** Asks whether a word was meant. Empty without a word. */
export const hintOf = (meant: string | undefined): string =>
  meant === undefined ? "" : ` Did you mean ${oneLine(meant)}?`;

/**
 * Reads the first and the last day of a report.
 *
 * @param usual The first day if neither is named. Undefined for all days that are kept.
 * @param takesTimes True for a command that takes times, too, which its errors name. Default: false.
 */
export function daysOf(
  { month, since, until }: Values,
  usual: string | undefined,
  takesTimes: boolean = false,
): Pick<UsageQuery, "since" | "until"> {
  if (month !== undefined) {
    if (since !== undefined || until !== undefined) throw new UsageError("Choose --month, or --since and --until.");
    try {
      return daysMeant("--month", month);
    } catch (error) {
      throw error instanceof RangeError ? new UsageError(error.message) : error;
    }
  }
  // A last day alone means all days until then.
  const start = since ?? (until === undefined ? usual : undefined);
  const first = start === undefined ? undefined : dayOf("--since", start, takesTimes);
  if (until === undefined) return given({ since: first });
  const last = dayOf("--until", until, takesTimes);
  if (first !== undefined && first > last)
    throw new UsageError(`--since must not be after --until, but ${first} is after ${last}.`);
  return given({ since: first, until: last });
}

/**
 * Reads the days, or the times, between which calls or changes are listed. A day counts as a whole; the list ends before the time `until`.
 */
export function timesOf({
  month,
  since,
  until,
}: Values): Pick<CallFilter, "sinceDay" | "untilDay" | "since" | "until"> {
  const [from, to] = month === undefined ? [momentOf(since), momentOf(until)] : [];
  if (from !== undefined && to !== undefined && from > to)
    throw new UsageError(`--since must not be after --until, but ${since} is after ${until}.`);
  const [firstText, lastText] = [from === undefined ? since : undefined, to === undefined ? until : undefined];
  const days = daysOf(given({ month, since: firstText, until: lastText }), undefined, true);
  return given({ sinceDay: days.since, untilDay: days.until, since: from, until: to });
}

/** Reads a time with its zone, or a span of hours, minutes or seconds before now. Undefined for any other text. */
function momentOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}[smh]$/.test(text)) return Math.max(0, Date.now() - spanOf("--since", text));
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/.test(text);
  const at = isTime ? Date.parse(text) : Number.NaN;
  return at >= 0 ? at : undefined;
}

/** Reads a day, or a span of time before today. */
function dayOf(name: string, text: string, takesTimes: boolean): string {
  if (isDay(text)) return text;
  const [, days] = /^(\d{1,5})d$/.exec(text) ?? [];
  if (days === undefined) {
    const kinds = takesTimes
      ? "a day, such as 2026-11-01, a span, such as 7d or 2h, or a time with its zone, such as 2026-11-01T12:00Z"
      : "a day, such as 2026-11-01, or a span, such as 30d";
    const hint = isDay(`${text}-01`)
      ? ` For a whole month, write --month ${text}.`
      : momentOf(text) === undefined
        ? ""
        : " Only polygate calls and audit take hours and times.";
    throw new UsageError(`${name} must be ${kinds}, not ${text}.${hint}`);
  }
  return new Date(Date.now() - Number(days) * DAY_MS).toISOString().slice(0, 10);
}

export const DAY_MS = 86_400_000;

export function spanOf(name: string, text: string): number {
  const [, count, unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw new UsageError(`${name} must be a span of time, such as 30m, 24h or 7d, not ${text}.`);
  return Number(count) * (UNITS_MS[unit] ?? 0);
}

/** Throws a UsageError for an unknown time zone. */
export function assertTimeZone(zone: string, name = "--time-zone"): void {
  try {
    calendarOf(zone);
  } catch {
    const hint = nearestHint(zone, Intl.supportedValuesOf("timeZone")) || " Write a name such as Europe/Berlin.";
    throw new UsageError(`${name}: ${zone} is no time zone.${hint}`);
  }
}
