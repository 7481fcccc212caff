/** The record of calls in a database: what a recorded call and a report of usage contain, and how they are asked for. */

import type { GatewayErrorCode, RefusedBy } from "../errors.ts";
import {
  assertOptions,
  assertText,
  checkOf,
  integer,
  MAX_TIMER_MS,
  nearest,
  oneLine,
  quoted,
  type Shapes,
} from "../options.ts";
import type { CallOutcome, CallRecord, UpstreamAttempt } from "../ports/observer.ts";

/** The columns that a report of usage can group by. */
export const USAGE_COLUMNS = ["day", "month", "key", "budget", "group", "model", "upstream"] as const;

/**
 * A column of a report of usage.
 * - `day`: the local day in the time zone of the key's own budget, such as `2026-11-28`.
 * - `month`: the month of that day, such as `2026-11`.
 * - `key`: the id of the key.
 * - `budget`: the id of the key's own budget.
 * - `group`: the group of the key, by default the entry `group` of its metadata.
 * - `model`: the requested model.
 * - `upstream`: the name of the upstream that was asked last.
 */
export type UsageColumn = (typeof USAGE_COLUMNS)[number];

/** The columns that have the sums of what users call otherwise. */
const OTHER_WORDS: ReadonlyMap<string, string> = new Map([
  ...["team", "department", "project", "customer", "tenant"].map((word) => [word, "budget or group"] as const),
  ...["user", "client", "app"].map((word) => [word, "key or group"] as const),
  ...["provider", "vendor", "backend"].map((word) => [word, "upstream"] as const),
  ...["date", "week", "year"].map((word) => [word, "day or month"] as const),
]);

/** Returns the columns that a wrong name of a column probably means, such as `budget or group` for `team`; undefined when none is near. */
export const columnsMeant = (name: string): string | undefined =>
  OTHER_WORDS.get(name.toLowerCase().replace(/s$/, "")) ?? nearest(name, USAGE_COLUMNS);

/** The calls that a report of usage counts, and the columns of its rows. */
export interface UsageQuery {
  /** The columns that keep the sums apart, in this order. Default: none, for one row with the sum of all calls. */
  readonly by?: readonly UsageColumn[];
  /** The first day, such as `2026-11-01`. Default: the first day that is kept. */
  readonly since?: string;
  /** The last day, which counts as a whole. Default: no end. */
  readonly until?: string;
  /** Counts only calls of the key with this id. */
  readonly key?: string;
  /** Counts only calls that were charged to the budget with this id, also through its child budgets. */
  readonly budget?: string;
  /** Counts only calls of keys whose own budget this is, as the column `budget` does. An empty text: of keys without a budget. */
  readonly ownBudget?: string;
  readonly group?: string;
  readonly model?: string;
  readonly upstream?: string;
  /** Leaves out the rows without a charge, such as refused calls. The total still counts their calls. Default: false. */
  readonly charged?: boolean;
  /** The most rows: 1 to 100,000, by default 1,000. */
  readonly limit?: number;
  /** The number of rows to leave out at the beginning. Default: 0. */
  readonly offset?: number;
}

/** Sums of calls. Each is exact up to 2^53 - 1. */
export interface UsageSums {
  readonly calls: number;
  /** The part of `calls` that was refused: by the gateway, or by an upstream that found a mistake in the request. */
  readonly refused: number;
  /** The part of `calls` that failed, met the deadline or was cut by `gateway.close`. */
  readonly failed: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** A part of `inputTokens`. */
  readonly cacheReadTokens: number;
  /** A part of `inputTokens`. */
  readonly cacheWriteTokens: number;
  /** A part of `outputTokens`. */
  readonly reasoningTokens: number;
  readonly images: number;
  /** The charge in quota units, with overdraft, as in the ledger. */
  readonly units: number;
  /** `units` as money in the currency of the report or of the call, with six decimals, such as `"12.500000"`. Absent without a currency. */
  readonly money?: string;
  /** The part of `units` that rests on estimates. */
  readonly estimated: number;
}

/** A row of a report of usage. It has the columns that the query names; an empty text stands for nothing, such as no group. */
export interface UsageRow extends UsageSums, Readonly<Partial<Record<UsageColumn, string>>> {
  /** The name of the key, in a report by `key`; an empty text for a key that is not in the same tables. */
  readonly keyName?: string;
  /** The name of the budget, in a report by `budget`; an empty text for none, and for a budget that is not in the same tables. */
  readonly budgetName?: string;
  /**
   * The time zone of the budget's days, in a report by `budget`. An empty text for no budget, whose days are those of the recorder, and for
   * a budget that is not in the same tables.
   */
  readonly timeZone?: string;
}

/** A page of a report of usage, and the sums of all its rows, with those of other pages. */
export interface UsageReport {
  /** The columns that the query names, each once. */
  readonly by: readonly UsageColumn[];
  /** The rows of this page. */
  readonly rows: readonly UsageRow[];
  /** The sums of all rows, with those of other pages. */
  readonly total: UsageSums;
  /** The first day that the report sums: that of the query, or else the first with recorded calls. Absent if there is none. */
  readonly since?: string;
  /** The last day: that of the query. Else today if the query has a first day, or the last day with recorded calls. Absent if there is none. */
  readonly until?: string;
  /** The time zone of the days, if the query names a budget, and the budgets of its calls have the same one. */
  readonly timeZone?: string;
  /** The time of the report: Unix time in milliseconds. Calls of its last day may still come. */
  readonly asOf?: number;
  /** The first and the last day with recorded calls, whatever the query asks for. Absent if no call is recorded. */
  readonly recorded?: RecordedDays;
  /**
   * The currency of which a unit is a millionth, such as `USD`: that of the most units that the report sums, or else of the latest call. Absent
   * when these have none, or are not kept.
   */
  readonly currency?: string;
  /**
   * Further currencies of charges that the report adds up unit for unit, without a conversion; an empty text for charges without a currency.
   * Absent if there is none. Charges of an unknown currency, as of a process that crashed before any call was recorded, are none of these.
   */
  readonly otherCurrencies?: readonly string[];
}

/** The first and the last day with recorded calls. */
export interface RecordedDays {
  readonly since: string;
  readonly until: string;
}

/** The outcomes of recorded calls. The compiler checks that none is missing. */
export const CALL_OUTCOMES: readonly RecordedCall["outcome"][] = Object.keys({
  completed: true,
  refused: true,
  failed: true,
  "client-closed": true,
  deadline: true,
  shutdown: true,
  stopped: true,
  unrecorded: true,
} satisfies Record<RecordedCall["outcome"], true>) as RecordedCall["outcome"][];

export const FAILED_OUTCOMES: readonly RecordedCall["outcome"][] = ["failed", "deadline", "shutdown"];

/** The most rows of a report. */
export const MOST_ROWS: number = 100_000;

/** A recorded call. Contains no prompt, no answer and no secret. */
export interface RecordedCall extends Omit<UsageSums, "calls" | "refused" | "failed"> {
  readonly requestId: string;
  /**
   * The beginning: Unix time in milliseconds. A call at the border of two periods of a budget is moved into the period that it is
   * charged to.
   */
  readonly at: number;
  /** The local day of `at` in the time zone of the key's own budget, or else of the recorder. */
  readonly day: string;
  /** Absent when the call ended before its key was known. */
  readonly keyId?: string;
  /** The name that the key has now. Absent for a key that is not in the same tables. */
  readonly keyName?: string;
  /** The ids of the key's own budget, its parent, and so on. */
  readonly budgets: readonly string[];
  readonly group?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly format: string;
  /** The method and the pattern of the route, such as `POST /v1/messages`. */
  readonly route: string;
  readonly modelAsked?: string;
  readonly modelAnswered?: string;
  readonly stream: boolean;
  /** The upstream that was asked last. */
  readonly upstream?: string;
  readonly attempts: readonly UpstreamAttempt[];
  /**
   * The end of the call. `unrecorded` stands for a charge of the ledger whose call has left no record, because its process has died: only
   * its key, its budgets and its units are known.
   */
  readonly outcome: CallOutcome | "unrecorded";
  /** The HTTP status; 0 for an unrecorded call. */
  readonly status: number;
  readonly errorCode?: GatewayErrorCode;
  /** The path of the request's field that the error names, such as `messages.2.content`. */
  readonly errorField?: string;
  /** The message that the caller read, without texts of the request. Absent for the words of an upstream or a backend. */
  readonly errorMessage?: string;
  readonly refusedBy?: RefusedBy;
  /** The output limit of a chat, in tokens, if it was lowered to what the rest of the quota or of a budget pays for. */
  readonly affordedOutputTokens?: number;
  /** The currency, such as `USD`, if a unit is a millionth of it. Absent for other units. */
  readonly currency?: string;
  readonly replayOf?: string;
  readonly firstEventMs?: number;
  readonly endMs: number;
}

/**
 * A page of recorded calls, the latest first. The columns of a report of usage, such as `group`, count the same calls; an empty text stands for
 * nothing, such as no group.
 */
export interface CallFilter {
  readonly key?: string;
  /** Only calls that draw on the budget with this id, also through its child budgets. */
  readonly budget?: string;
  /** Only calls of keys whose own budget this is, as the column `budget` of a report counts them. */
  readonly ownBudget?: string;
  readonly group?: string;
  readonly model?: string;
  readonly upstream?: string;
  /** The outcome of the calls, or several outcomes: calls of any of them are listed. */
  readonly outcome?: RecordedCall["outcome"] | readonly RecordedCall["outcome"][];
  /** The code of the calls' error, such as `quota_exhausted`, or several codes: calls with any of them are listed. */
  readonly errorCode?: string | readonly string[];
  /** The first day, such as `2026-11-01`, by the `day` of the calls. */
  readonly sinceDay?: string;
  /** The last day, which counts as a whole. */
  readonly untilDay?: string;
  /** Only calls from this time on: Unix time in milliseconds. */
  readonly since?: number;
  /** Only calls before this time: Unix time in milliseconds. */
  readonly until?: number;
  /** The `requestId` of the last call of the page before. */
  readonly after?: string;
  /** The most calls: 1 to 1,000, by default 100. */
  readonly limit?: number;
}

/** Reads recorded calls. The functions reject with a TypeError or a RangeError for a wrong query. */
export interface CallReader {
  /** Returns the sums of calls. */
  usage(query?: UsageQuery): Promise<UsageReport>;
  /**
   * Returns the call that was answered with this `request-id`, or whose id begins with it: at least eight digits, with or without `req_`.
   * Undefined when it is not recorded, or not any more. Rejects with a RangeError when several ids begin so.
   */
  find(requestId: string): Promise<RecordedCall | undefined>;
  /** Lists calls, the latest first. */
  list(filter?: CallFilter): Promise<readonly RecordedCall[]>;
}

/** Options of a recorder of calls. */
export interface RecorderOptions<Context = unknown> {
  /** The days for which each call is kept: an integer from 1 to 36,500. Default: 30. The sums of each day are kept for good. */
  readonly keepDays?: number;
  /** Returns the group of a call in reports. Default: the entry `group` of the key's metadata. */
  groupOf?(this: void, record: CallRecord<Context>): string | undefined;
  /** The time zone of the days of calls without a budget, such as "Europe/Berlin". Default: "UTC". */
  readonly timeZone?: string;
  /**
   * The currency of which a unit is a millionth, such as `usd`, for a price function of your own that has no currency. A gateway with prices
   * in another one, or without prices, refuses to start. Default: that of the gateway's prices.
   */
  readonly currency?: string;
  /** The longest time for which a finished call waits for its write, in milliseconds: an integer from 1 up. Default: 1 second. */
  readonly flushMs?: number;
  /**
   * The most memory of calls that wait while the database is away, in bytes: an integer from 1 up. Default: 16 MiB, for about 10,000
   * calls. Further calls get no record: only their charge appears, as an `unrecorded` call.
   */
  readonly maxWaitingBytes?: number;
}

export const RECORDER_SHAPES: Shapes<RecorderOptions> = {
  keepDays: { optional: integer(1, 36_500) },
  groupOf: "function?",
  timeZone: "string?",
  currency: "string?",
  flushMs: { optional: integer(1, MAX_TIMER_MS) },
  maxWaitingBytes: "positive?",
};

/** Records finished calls: give it to `createGateway` as `onCall`. */
export interface CallRecorder<Context = unknown> {
  (record: CallRecord<Context>): void;
  /** The currency of the records, such as `USD`. `createGateway` refuses a recorder in another currency than that of its prices. */
  readonly currency?: string;
  /** Writes the calls that wait. Rejects when the database does not take them: they go on waiting. */
  flush(): Promise<void>;
}

const QUERY_SHAPES: Shapes<UsageQuery> = {
  by: "list?",
  since: "string?",
  until: "string?",
  key: "string?",
  budget: "string?",
  ownBudget: "string?",
  group: "string?",
  model: "string?",
  upstream: "string?",
  charged: "boolean?",
  limit: { optional: integer(1, MOST_ROWS) },
  offset: "fromZero?",
};

const FILTER_SHAPES: Shapes<CallFilter> = {
  key: "string?",
  budget: "string?",
  ownBudget: "string?",
  group: "string?",
  model: "string?",
  upstream: "string?",
  outcome: { optional: (path, value) => [value].flat().forEach((one) => checkOf(CALL_OUTCOMES)(path, one)) },
  errorCode: { optional: (path, value) => [value].flat().forEach((one) => assertText(path, one)) },
  sinceDay: "string?",
  untilDay: "string?",
  since: "fromZero?",
  until: "fromZero?",
  after: "string?",
  limit: { optional: integer(1, 1_000) },
};

/** Throws a TypeError or a RangeError that names the wrong part of a query. */
export function assertUsageQuery(query: UsageQuery): void {
  assertOptions<UsageQuery>("usage", query, QUERY_SHAPES);
  assertPlain("usage", query);
  for (const column of query.by ?? [])
    if (!USAGE_COLUMNS.includes(column)) {
      const meant = typeof column === "string" ? columnsMeant(column) : undefined;
      const question = meant === undefined ? "" : `; did you mean ${meant}?`;
      throw new RangeError(`usage: by must name ${USAGE_COLUMNS.join(", ")}, not ${quoted(column)}${question}`);
    }
  assertDays("usage", query, "since", "until");
}

/** Throws a RangeError unless two fields are days in their order, as far as they are there. */
function assertDays<Field extends string>(
  where: string,
  fields: { readonly [name in Field]?: string },
  first: Field,
  last: Field,
): void {
  for (const name of [first, last]) {
    const day = fields[name];
    if (day !== undefined && !isDay(day))
      throw new RangeError(`${where}: ${name} must be a day, such as 2026-11-28, not ${quoted(day)}`);
  }
  assertOrder(where, fields, first, last);
}

/** Throws a RangeError when the first of two fields is after the last one. */
function assertOrder<Field extends string>(
  where: string,
  fields: { readonly [name in Field]?: string | number },
  first: Field,
  last: Field,
): void {
  const [since, until] = [fields[first], fields[last]];
  if (since !== undefined && until !== undefined && since > until)
    throw new RangeError(`${where}: ${first} must not be after ${last}, but ${since} is after ${until}`);
}

/** True for a day of the calendar, such as `2026-11-28`. */
export const isDay = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) && new Date(`${text}T00:00:00Z`).toJSON()?.slice(0, 10) === text;

/** Returns the first and the last day of a month, such as `2026-11`. Undefined for any other text. */
export function daysOfMonth(month: string): RecordedDays | undefined {
  const since = `${month}-01`;
  if (!isDay(since)) return undefined;
  // Day 0 of the next month is the last day of this one. Unlike Date.UTC, this takes the years 0 to 99 as they are.
  const last = new Date(since);
  last.setUTCMonth(last.getUTCMonth() + 1, 0);
  return { since, until: last.toISOString().slice(0, 10) };
}

/** Returns the first and the last day of a month, of `this` month or of the `last` one. Throws a RangeError for any other text. */
export function daysMeant(name: string, month: string, now: number = Date.now()): RecordedDays {
  const days = daysOfMonth(monthOf(month, now));
  if (days) return days;
  throw new RangeError(`${name} must be a month, such as 2026-11, this or last, not ${oneLine(month)}.`);
}

/** Returns the month of a text: that of today in UTC for `this`, the one before for `last`, and any other text as it is. */
export function monthOf(text: string, now: number = Date.now()): string {
  if (text !== "this" && text !== "last") return text;
  const today = new Date(now);
  const first = Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - (text === "last" ? 1 : 0));
  return new Date(first).toISOString().slice(0, "2026-11".length);
}

/** Throws a TypeError or a RangeError that names the wrong part of a filter. */
export function assertCallFilter(filter: CallFilter): void {
  assertOptions<CallFilter>("list", filter, FILTER_SHAPES);
  assertPlain("list", filter);
  assertOrder("list", filter, "since", "until");
  assertDays("list", filter, "sinceDay", "untilDay");
}

/** Throws a RangeError for a text that no database stores. */
function assertPlain(where: string, texts: object): void {
  for (const [name, text] of Object.entries(texts).flatMap(([name, value]) => [value].flat().map((one) => [name, one])))
    if (typeof text === "string" && (text.includes("\0") || !text.isWellFormed()))
      throw new RangeError(`${where}: ${name} must be plain text, not ${quoted(text)}`);
}
