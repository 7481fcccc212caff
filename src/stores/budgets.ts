/** Budgets: limits that several keys share, in all or for each day, week or month. A budget may draw on a parent budget. */

import { MOST_UNITS } from "../model/money.ts";
import { assertOptions, assertText, type Check, fieldsOf, quoted, type Shapes } from "../options.ts";
import type { TightestBudget } from "../ports/quota-store.ts";
import { assertInteger, Books } from "./ledger.ts";

/** A budget, as a host declares it. */
export interface BudgetOptions {
  /** Names the budget to keys, to child budgets and to the host. It never changes. */
  readonly id: string;
  /** The name that people read. Default: the id. */
  readonly name?: string;
  /**
   * The units of each period, or of the whole budget when it has no period: an integer from 0 up. With prices in a currency, a unit is a
   * millionth of it: `unitsOfMoney(300)` of `polygate/prices` is an amount of 300 dollars.
   */
  readonly amount: number;
  /** Begins the budget anew each day, each Monday, or on the first day of each month. Without a period, the budget never begins anew. */
  readonly period?: BudgetPeriod;
  /**
   * The time zone in which a period begins at midnight, such as "Europe/Berlin". Default: that of the parent, or else UTC. Only for a
   * budget with a period.
   */
  readonly timeZone?: string;
  /**
   * Adds unused units to the next period: at most `amount`, so that a period has at most twice the amount and its top-ups. Units
   * that a running call frees after the end of its period are not added. Default: false. Only for a budget with a period.
   */
  readonly rollover?: boolean;
  /** The budget that this budget draws on. It must exist already, and cannot be changed. A chain has at most 4 budgets. */
  readonly parent?: string;
  /** The units of a budget that moves here from another store. They count while the period of `startsAt` runs. Default: nothing is used yet. */
  readonly books?: BudgetBooks;
}

/** The units of the first period of a budget, as the report of another store has them. */
export interface BudgetBooks {
  /**
   * The beginning of the period, in milliseconds since the Unix epoch. A RangeError is thrown for a time at which no period of the budget has
   * begun. Default: the beginning of the period which runs.
   */
  readonly startsAt?: number;
  /** The units that the period was given, from 0 up. */
  readonly granted: number;
  /** The units of `granted` that are used, from 0 up. */
  readonly used: number;
}

/** Changes of a budget. A field that is absent leaves the budget as it is. */
export interface BudgetChanges {
  /** The new name that people read. */
  readonly name?: string;
  /**
   * The amount of the current period and of all later ones, in units (of money: `unitsOfMoney(300)`): an integer from 0 up, also less than what
   * is used already. Units that the budget then lacks for running calls become overdraft. The earlier amount restores the units that the period
   * had.
   */
  readonly amount?: number;
}

/** The time after which a budget begins anew: a day, a week from Monday, or a calendar month. */
export type BudgetPeriod = "day" | "week" | "month";

/** A budget and the books of its current period, in units. `available` is `granted` less `used`, or 0 when `used` is more. */
export interface BudgetReport {
  /** The budget's id. */
  readonly id: string;
  /** The name that people read. */
  readonly name: string;
  /** The units of each period, or of the whole budget when it has no period. */
  readonly amount: number;
  /** Absent for a budget that never begins anew. */
  readonly period?: BudgetPeriod;
  /** The time zone in which a period begins at midnight. Absent without a period. */
  readonly timeZone?: string;
  /** True if unused units are added to the next period. Absent without a period. */
  readonly rollover?: boolean;
  /** The id of the budget that this budget draws on. Absent for none. */
  readonly parent?: string;
  /** Set for a removed budget: no key and no other budget can draw on it any more. */
  readonly removed?: true;
  /** The beginning of the current period: Unix time in milliseconds. Absent without a period. */
  readonly startsAt?: number;
  /** The end of the current period: Unix time in milliseconds. Absent without a period. */
  readonly endsAt?: number;
  /**
   * The units that the period was given: the amount, with those that were taken over and topped up, less those that were taken back, or 0
   * when these are more.
   */
  readonly granted: number;
  /** The units that are spent or held by running calls: more than `granted` only after the amount was lowered. */
  readonly used: number;
  /** The units that calls can still reserve. */
  readonly available: number;
  /** Units of live holds, which `used` includes. */
  readonly held: number;
  /**
   * The units that top-ups fill before any is available: the amount was lowered below what was used or taken back. Absent for none.
   */
  readonly gap?: number;
  /** Units that were consumed beyond the budget. */
  readonly overdraft: number;
  /** Units of `used` that rest on estimates. */
  readonly estimated: number;
}

/**
 * A period of a budget and its books, in units. The amount of an ended period is not kept: `granted` has its units, the amount of that time with
 * top-ups, and without those that a rollover has moved into the next period.
 */
export interface BudgetPeriodReport extends Omit<BudgetReport, "amount" | "removed"> {
  /** Set for a period that has ended. Calls that began in such a period may still be charged to it. */
  readonly ended?: true;
}

/** The shares of a budget at which the host is told, in percent. */
const THRESHOLDS = [50, 80, 100] as const;

/** A budget that has reached a threshold. */
export interface BudgetEvent {
  /** The budget's id. */
  readonly id: string;
  /** The name that people read. */
  readonly name: string;
  /**
   * The threshold, in percent of the granted units. Live holds do not count. 100 also means that a call was refused because what is
   * not charged yet was too little for it; 50 and 80 may then follow, because only charges reach them.
   */
  readonly percent: (typeof THRESHOLDS)[number];
  /** The units of the period. */
  readonly granted: number;
  /** The charged units of the period, without live holds. */
  readonly charged: number;
  /** The beginning of the period: Unix time in milliseconds. Absent without a period. */
  readonly startsAt?: number;
  /** The end of the period: Unix time in milliseconds. Absent without a period. */
  readonly endsAt?: number;
}

/**
 * Is told of the thresholds (50, 80 and 100 percent) that a budget reaches, once in each period. Of several that one charge reaches, it is
 * told of the highest alone. After a top-up or a larger amount, a threshold can be reached again. A lowered amount tells at once what it
 * reaches. Of several processes on one store, the one whose call reached the threshold is told; when it dies at that moment, none is. The
 * store does not wait for the function, and ignores its errors.
 */
export type OnBudget = (event: BudgetEvent) => unknown;

export const MOST_LEVELS = 4;

/** The end of a budget without a period, in milliseconds. */
export const NEVER: number = MOST_UNITS;

/** The terms of a budget, after they were checked. */
export interface BudgetTerms {
  readonly id: string;
  name: string;
  amount: number;
  readonly period: BudgetPeriod | undefined;
  /** A budget without a period passes its parent's time zone on. */
  readonly timeZone: string;
  readonly rollover: boolean;
  /** The ids of this budget, its parent, and so on. Empty for a removed budget. */
  chain: readonly string[];
}

const assertPeriod: Check = (path, period) => {
  assertText(path, period);
  if (period !== "day" && period !== "week" && period !== "month")
    throw new RangeError(`${path} must be "day", "week" or "month", not ${quoted(period)}`);
};

const SHAPES: Shapes<BudgetOptions> = {
  id: "string",
  name: "string?",
  amount: "number",
  period: { optional: assertPeriod },
  timeZone: "string?",
  rollover: "boolean?",
  parent: "string?",
  books: { optional: fieldsOf<BudgetBooks>({ startsAt: "number?", granted: "fromZero", used: "fromZero" }) },
};

/** Throws a TypeError for a budget with an unknown option, or with one of a wrong shape. */
export const assertBudgetOptions = (path: string, options: unknown): void =>
  assertOptions<BudgetOptions>(path, options, SHAPES);

const CHANGES_SHAPES: Shapes<BudgetChanges> = { name: "string?", amount: "number?" };

/** Throws a TypeError for changes with an unknown name or one of a wrong shape, and a RangeError for a wrong amount. */
export function assertBudgetChanges(changes: BudgetChanges): void {
  assertOptions<BudgetChanges>("The changes of a budget", changes, CHANGES_SHAPES);
  if (changes.amount !== undefined) assertInteger("amount", changes.amount, 0);
}

/**
 * Checks a budget that a host declares. `parent` is the chain of its parent, and `zone` the parent's time zone. Throws a RangeError for a
 * wrong value.
 */
export function termsOf(options: BudgetOptions, parent: readonly string[], zone = "UTC"): BudgetTerms {
  const { id, name = id, amount, period, timeZone = zone, rollover = false, books } = options;
  assertInteger("amount", amount, 0);
  if (period === undefined && (options.timeZone !== undefined || options.rollover !== undefined))
    throw new RangeError("Only a budget with a period has a timeZone or a rollover.");
  if (parent.length >= MOST_LEVELS) throw new RangeError(`A chain has at most ${MOST_LEVELS} budgets.`);
  calendarOf(timeZone);
  if (books?.startsAt !== undefined) assertBeginning(books.startsAt, { period, timeZone });
  return { id, name, amount, period, timeZone, rollover, chain: [id, ...parent] };
}

function assertBeginning(startsAt: number, terms: Pick<BudgetTerms, "period" | "timeZone">): void {
  assertInteger("books.startsAt", startsAt, 0);
  if (startsAt > LAST_MS || spanAt(terms, startsAt).startsAt !== startsAt)
    throw new RangeError(`books.startsAt must be the beginning of a period of the budget, not ${startsAt}.`);
}

/**
 * The books of one period of a budget. `granted` is below 0 while an amount was lowered by more than the period had: the way back then
 * restores what was there.
 */
export class Window extends Books {
  readonly startsAt: number;
  readonly endsAt: number;
  /** The highest threshold of charges that the host was told of, in percent; 0 before the first. `REFUSED` more after a refusal. */
  told = 0;
  /** The charges of holds that were deleted, for audits. */
  pruned = 0;

  readonly #budgetId: string;

  constructor(budgetId: string, { startsAt, endsAt }: Span, granted: number) {
    super(`budget ${budgetId}`, false, granted, 0);
    this.#budgetId = budgetId;
    this.startsAt = startsAt;
    this.endsAt = endsAt;
  }

  override get source(): TightestBudget {
    return { budget: this.#budgetId, ...(this.endsAt < NEVER && { endsAt: this.endsAt }) };
  }

  /** The highest threshold that the charged units reach, in percent; 0 below the first. */
  get reached(): number {
    const { charged, granted } = this;
    return THRESHOLDS.findLast((percent) => charged > 0 && (granted <= 0 || charged / granted >= percent / 100)) ?? 0;
  }
}

/** A budget and the books of its current period. */
export class Budget {
  readonly terms: BudgetTerms;
  window: Window;

  constructor(terms: BudgetTerms, window: Window) {
    this.terms = terms;
    this.window = window;
  }

  /** True for a removed budget. It stays for its history, and for late charges to it. */
  get isRemoved(): boolean {
    return this.terms.chain.length === 0;
  }

  static begun(terms: BudgetTerms, now: number, books?: BudgetBooks): Budget {
    const window = new Window(terms.id, spanAt(terms, now), terms.amount);
    const { startsAt } = window;
    if (books?.startsAt !== undefined && books.startsAt > startsAt)
      throw new RangeError("The period of books.startsAt has not begun.");
    if (books && (books.startsAt ?? startsAt) === startsAt) {
      window.granted = books.granted;
      // The holds of these charges stay in the other store.
      window.charged = window.pruned = books.used;
      // The host of the other store was told of these.
      window.told = window.reached;
    }
    return new Budget(terms, window);
  }

  /** Begins the period of `now`, unless it has begun already. Returns the closed period, or undefined when none was closed. */
  turn(now: number): Window | undefined {
    const closed = this.window;
    if (now < closed.endsAt) return undefined;
    const { id, amount, rollover } = this.terms;
    const span = spanAt(this.terms, now);
    const unused = rollover ? Math.min(amount, closed.available) : 0;
    // Move the units, so that a late charge to the closed period cannot spend them a second time.
    closed.granted -= unused;
    // When whole periods were skipped, the last of them was not used at all.
    const taken = rollover && span.startsAt > closed.endsAt ? amount : unused;
    this.window = new Window(id, span, Math.min(MOST_UNITS, amount + taken));
    return closed;
  }

  /**
   * Changes the name, and the amount with the granted units of the current period. Throws a RangeError when these would pass
   * `MOST_UNITS`.
   */
  update({ name = this.terms.name, amount = this.terms.amount }: BudgetChanges): void {
    if (amount !== this.terms.amount) {
      this.window.shift(amount - this.terms.amount);
      this.terms.amount = amount;
      this.#forgetTold();
    }
    this.terms.name = name;
  }

  /**
   * Adds units to the current period, or takes available ones back when they are negative. Throws a RangeError when the sum would pass
   * `MOST_UNITS`, and when fewer units are available.
   */
  topUp(units: number): void {
    this.window.grant(units);
    this.#forgetTold();
  }

  #forgetTold(): void {
    const { window } = this;
    window.told = Math.min(window.told, window.reached);
  }

  /**
   * Returns the highest threshold that was reached since the last call, and remembers it with those below. `refused` is the least units of a
   * call that was refused.
   */
  news(refused = 0): readonly BudgetEvent[] {
    const { told, charged, reached } = this.window;
    const granted = Math.max(0, this.window.granted);
    const isRefused = told % 10 === REFUSED || refused > Math.max(0, granted - charged);
    const ofCharges = Math.max(reached, told - (told % 10));
    this.window.told = ofCharges < 100 && isRefused ? ofCharges + REFUSED : ofCharges;
    const { id, name } = this.terms;
    const percent = THRESHOLDS.findLast((one) => isTold(one, this.window.told) && !isTold(one, told));
    return percent ? [Object.freeze({ id, name, percent, granted, charged, ...this.#span })] : [];
  }

  get report(): BudgetReport {
    const { period, timeZone, rollover, chain, ...named } = this.terms;
    const { granted, used, available, held, overdraft, estimated } = this.window;
    const gap = used - granted;
    const parent = chain[1];
    return {
      ...named,
      ...(period && { period, timeZone, rollover }),
      ...(parent !== undefined && { parent }),
      ...(this.isRemoved && { removed: true as const }),
      ...this.#span,
      granted: Math.max(0, granted),
      used,
      available,
      held,
      ...(gap > 0 && { gap }),
      overdraft,
      estimated,
    };
  }

  get #span(): Span | undefined {
    const { startsAt, endsAt } = this.window;
    return this.terms.period && { startsAt, endsAt };
  }
}

/** Stands in the last digit of `told` when the host was told of 100 percent because a call was refused. */
const REFUSED = 1;

const isTold = (percent: number, told: number): boolean =>
  percent <= told || (percent === 100 && told % 10 === REFUSED);

/** Tells the host of events, without waiting for it. */
export function tellAll(onBudget: OnBudget, events: readonly BudgetEvent[]): void {
  for (const event of events)
    void Promise.resolve(event)
      .then(onBudget)
      .catch(() => {});
}

/** The beginning and the end of a period: Unix time in milliseconds. The end does not belong to it. */
export interface Span {
  readonly startsAt: number;
  readonly endsAt: number;
}

const DAY_MS = 86_400_000;
/** The latest time at which a period may begin: its end must be a date of JavaScript, too. */
const LAST_MS = 8.64e15 - 32 * DAY_MS;

/** Returns the period of a budget at a time in milliseconds since the Unix epoch. */
export function spanAt({ period, timeZone }: Pick<BudgetTerms, "period" | "timeZone">, now: number): Span {
  if (!period) return { startsAt: 0, endsAt: NEVER };
  const calendar = calendarOf(timeZone);
  const today = dateAt(calendar, now);
  const date = new Date(today);
  if (period === "week") date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  if (period === "month") date.setUTCDate(1);
  const startsAt = beginOf(calendar, date.getTime());
  if (period === "month") date.setUTCMonth(date.getUTCMonth() + 1);
  else date.setUTCDate(date.getUTCDate() + (period === "week" ? 7 : 1));
  return { startsAt, endsAt: Math.max(now + 1, beginOf(calendar, date.getTime())) };
}

/** Throws a RangeError for an unknown time zone. */
export function calendarOf(timeZone: string): Intl.DateTimeFormat {
  const options = { calendar: "gregory", numberingSystem: "latn", year: "numeric", month: "numeric", day: "numeric" };
  try {
    // The cast is safe: the literals are the values that the options take.
    return new Intl.DateTimeFormat("en-US", { ...options, timeZone } as Intl.DateTimeFormatOptions);
  } catch (cause) {
    throw new RangeError(`${JSON.stringify(timeZone)} is no time zone. Give a name such as "Europe/Berlin".`, {
      cause,
    });
  }
}

/** Returns the local date at a time, as the time of its midnight in UTC. */
export function dateAt(calendar: Intl.DateTimeFormat, time: number): number {
  const [month = 1, day = 1, year = 1970] = calendar.format(time).split("/").map(Number);
  return Date.UTC(year, month - 1, day);
}

/**
 * Returns the first millisecond of a local date, or of the next date that exists. Searches for it, because local midnight may not
 * exist on a day when the clocks change.
 */
function beginOf(calendar: Intl.DateTimeFormat, date: number): number {
  let [before, from] = [date - 2 * DAY_MS, date + 2 * DAY_MS];
  while (from - before > 1) {
    const middle = Math.floor((before + from) / 2);
    if (dateAt(calendar, middle) >= date) from = middle;
    else before = middle;
  }
  return from;
}
