/** Tells keys and budgets as JSON has them, over HTTP and of commands, and formats the answers of commands as text and as CSV. */

import { given } from "../model/json.ts";
import { amountOf } from "../model/money.ts";
import { visible, withEscapes } from "../model/visible.ts";
import { oneLine } from "../options.ts";
import { nextIteration } from "../ports/clock.ts";
import { type BudgetPeriodReport, type BudgetReport, MOST_LEVELS } from "../stores/budgets.ts";
import { type BudgetDirectory, type KeyReport, MOST_LISTED } from "../stores/durable.ts";
import { modelsOf } from "../stores/ledger.ts";
import { commandOf } from "./call-admin.ts";
import {
  amountColumn,
  asOfColumn,
  type Column,
  csvPartsOf,
  dayIn,
  type FittedTable,
  PLAIN_COLUMNS,
  type Spreadsheet,
  tableFor,
} from "./columns.ts";
import { type IssuedKey, modelsInWords, type NewKeyTold } from "./key-admin.ts";
import { type BudgetShown, type KeyShown, limitingBudget, stateInWords, stateOf } from "./key-state.ts";
import { unlimitedInWords } from "./much.ts";
import { pagesOf } from "./pages.ts";

/** A new key, with its secret. */
export interface KeyMade extends IssuedKey, Pick<KeyShown, "unlimited" | "models" | "expiresAt" | "granted"> {
  readonly budget?: string;
}

/** Returns a new key in the words of every key. Asks the store for nothing: if that failed, the secret would be lost. */
export const keyMade = (
  issued: IssuedKey,
  { models = null, expiresAt = 0, budget, granted = null }: NewKeyTold,
): KeyMade => ({
  ...issued,
  unlimited: granted === null && budget === undefined,
  models,
  expiresAt,
  ...given({ budget }),
  granted,
});

const isMade = (answer: object): answer is KeyMade => "apiKey" in answer && "models" in answer;

const isReport = (item: object): item is KeyReport => "secrets" in item && "unlimited" in item;

const isKey = (item: object): item is KeyShown => "limitedBy" in item;

const isBudget = (item: object): item is BudgetReport | BudgetPeriodReport => "available" in item && !isReport(item);

/** The fields on the bill of a budget, or of one of its periods. */
interface Bill {
  /** The charges of the period, as reports of usage sum them up: also beyond the budget, without the holds of running calls. */
  readonly spent: number;
  /** The share of `granted` that is spent, in whole percent, rounded down. It may be above 100. Null without any granted units. */
  readonly percentSpent: number | null;
}

/** A budget with what its bill says. */
export interface BudgetTold extends BudgetReport, Bill {}

/** A period of a budget with what its bill says. */
export interface PeriodTold extends BudgetPeriodReport, Bill {}

/** Adds to a budget, or to a period of a budget, what was spent. */
export function budgetTold<Report extends BudgetReport | BudgetPeriodReport>(report: Report): Report & Bill {
  const spent = spentOf(report);
  const { granted } = report;
  return { ...report, spent, percentSpent: granted === 0 ? null : Math.floor((100 * spent) / granted) };
}

/** Writes the share of a bill for people, with the sign behind its number. The whole percent of a small charge would look like none. */
const percentIn = ({ spent, percentSpent }: Bill, sign: string = ""): string =>
  percentSpent === null ? "-" : `${percentSpent === 0 && spent > 0 ? "<1" : percentSpent}${sign}`;

/** Returns a key with what its budgets leave of it. */
function keyTold(report: KeyReport, budgets: readonly BudgetShown[]): KeyShown {
  const { id, name, unlimited, modelLimits: _limits, modelLimitsEnabled: _isLimited, ...stored } = report;
  const { expiresAt, paused, budget, metadata, granted: _granted, used, ...others } = stored;
  const { held, overdraft, revoked } = others;
  // The store of a host may tell numbers for a quota that is not there.
  const { granted, available } = unlimited ? { granted: null, available: null } : report;
  const own = granted === null || available === null ? [] : [{ id: null, granted, available, held }];
  const limit = revoked ? undefined : leastOf([...own, ...budgets]);
  // Running calls may give back what they hold.
  const isUsedUp = limit !== undefined && limit.granted > 0 && limit.available <= 0 && limit.held <= 0;
  return {
    id,
    name,
    unlimited: unlimited && budget === undefined,
    models: modelsOf(report) ?? null,
    expiresAt,
    ...given({ paused, budget, metadata }),
    granted,
    used,
    spent: spentOf({ used, held, overdraft }),
    ...others,
    available,
    ...(budget !== undefined && { budgets }),
    left: limit?.available ?? null,
    limitedBy: limit?.id ?? null,
    ...(isUsedUp && { usedUp: limit.id === null ? "quota" : "budget" }),
  };
}

/** Returns the first of the books that have the least available; undefined for none. */
function leastOf<Books extends { readonly available: number }>([first, ...others]: readonly Books[]):
  | Books
  | undefined {
  return first && others.reduce((least, each) => (each.available < least.available ? each : least), first);
}

/** Tells an answer as JSON has it: each key with the budgets that it draws on, and each budget with what was spent. */
export async function asTold(
  answer: object,
  store: Partial<Pick<BudgetDirectory, "budgetReport" | "listBudgets">>,
): Promise<object> {
  const read = new Map<string, BudgetReport | undefined>();
  const budgetsOf = async (key: KeyReport): Promise<BudgetShown[]> => {
    const budgets: BudgetShown[] = [];
    // A store may tell a circle of parents, or parents without an end.
    for (let next = key.budget; next !== undefined && budgets.length < MOST_LEVELS;) {
      if (!read.has(next)) read.set(next, await store.budgetReport?.(next));
      const report = read.get(next);
      if (!report || budgets.some(({ id }) => id === report.id)) break;
      const { id, name, granted, used, available, held, overdraft } = report;
      budgets.push({ id, name, granted, used, available, held, overdraft });
      next = report.parent;
    }
    return budgets;
  };
  const shown = async (item: object): Promise<object> => {
    if (isBudget(item)) return budgetTold(item);
    return isReport(item) ? keyTold(item, await budgetsOf(item)) : item;
  };
  if (!Array.isArray(answer)) return shown(answer);
  // The cast is safe: answers are lists of objects.
  const own = new Set((answer as object[]).flatMap((item) => (isReport(item) ? (item.budget ?? []) : [])));
  // Budgets behind the last page that is read are read one by one.
  let unread = own.size - READS_OF_PAGE;
  if (unread > 0)
    for await (const page of pagesOf(async (next) => (await store.listBudgets?.(next)) ?? [])) {
      for (const budget of page) read.set(budget.id, budget);
      unread -= READS_OF_PAGE;
      if (unread <= 0 || page.length < MOST_LISTED) break;
    }
  const items: object[] = [];
  for (const item of answer as object[]) {
    items.push(await shown(item));
    if (items.length % READS_A_TURN === 0) await nextIteration();
  }
  return items;
}

/** After so many reads, other work gets a turn: the reads of SQLite wait for nothing. */
export const READS_A_TURN = 50;

/** A page of budgets is read where it may save this many reads. */
const READS_OF_PAGE = 10;

/** The lists that commands print. */
export type ListName = "keys" | "budgets" | "periods";

/** A list of keys, budgets or periods: its columns, in the order of CSV. */
interface List<Row> {
  readonly columns: (currency: string | undefined) => readonly Column<Row>[];
  /** The columns of the table for people, in its order. */
  readonly shown: readonly string[];
  /** The columns that a narrow table leaves out, the first one first. */
  readonly spare: readonly string[];
  /** The columns of texts that are never cut. */
  readonly whole: readonly string[];
  /** True for rows whose amounts mean something as a sum. Default: never, as what keys have left is often of the same budget. */
  readonly addsUp?: (rows: readonly Row[]) => boolean;
}

/** The units of a child budget are units of its parent, too: a sum would count them twice. */
const areApart = (rows: readonly { readonly parent?: string }[]): boolean =>
  rows.every(({ parent }) => parent === undefined);

const idColumn = (word: string): Column<{ readonly id: string }> => ({ name: "id", word, cell: ({ id }) => id });

/** A name that is the id says nothing more to people. */
const nameColumn = (word: string): Column<{ readonly id: string; readonly name: string }> => ({
  name: "name",
  word,
  cell: ({ name }) => name,
  text: ({ id, name }) => (name === id ? "-" : visible(name)),
  isNews: ({ id, name }) => name !== id,
});

const currencyColumn = (currency: string | undefined): Column<unknown> => ({
  name: "currency",
  word: "Currency",
  cell: () => currency,
});

/** Makes a column of amounts that most rows do not have. */
const rareAmount = <Row>(
  column: Pick<Column<Row>, "name" | "word">,
  currency: string | undefined,
  unitsOf: (row: Row) => number,
): Column<Row> => ({ ...amountColumn(column, currency, unitsOf), isNews: (row) => unitsOf(row) > 0 });

const KEY_LIST: List<KeyShown> = {
  columns: (currency) => [
    idColumn("Key"),
    nameColumn("Key name"),
    {
      name: "state",
      word: "State",
      cell: (key) => stateOf(key, Date.now()),
      text: (key) => stateInWords(key, Date.now()),
    },
    {
      ...amountColumn<KeyShown>({ name: "granted", word: "Granted" }, currency, ({ granted }) => granted),
      isNews: ({ granted }) => granted !== null,
    },
    amountColumn({ name: "spent", word: "Spent" }, currency, ({ spent }) => spent),
    amountColumn({ name: "available", word: "Available" }, currency, ({ available }) => available),
    rareAmount({ name: "held", word: "Held" }, currency, ({ held }) => held),
    rareAmount({ name: "overdraft", word: "Overdraft" }, currency, ({ overdraft }) => overdraft),
    amountColumn(
      { name: "left", word: "Left", none: ({ unlimited, revoked }) => (unlimited && !revoked ? UNLIMITED : "-") },
      currency,
      ({ left }) => left,
    ),
    currencyColumn(currency),
    {
      name: "budget",
      word: "Budget",
      cell: ({ budget }) => budget,
      text: budgetName,
      isNews: ({ budget }) => budget !== undefined,
    },
    { name: "budgetName", word: "Budget name", cell: ({ budgets }) => budgets?.[0]?.name },
    {
      name: "limitedBy",
      word: "Limited by",
      cell: ({ left, limitedBy }) => (left === null ? undefined : (limitedBy ?? "")),
      unnamed: OWN_QUOTA,
      text: (key) => visible(limitingBudget(key)?.name ?? (key.left === null ? "-" : OWN_QUOTA)),
      // The own budget of a key is a column by itself.
      isNews: ({ left, limitedBy, budget }) => left !== null && budget !== undefined && limitedBy !== budget,
    },
    { name: "usedUp", word: "Used up", cell: ({ usedUp }) => usedUp },
    {
      name: "models",
      word: "Models",
      cell: ({ models }) => models?.join(" ") ?? "*",
      text: ({ models }) => modelsInWords(models, MOST_MODELS),
      isNews: ({ models }) => models !== null,
    },
    {
      name: "expiresAt",
      word: "Expires (UTC)",
      heading: "Expires",
      cell: ({ expiresAt }) => (expiresAt > 0 ? { at: expiresAt * 1_000 } : undefined),
      text: ({ expiresAt }) => endOf(expiresAt).slice(0, "2030-01-31".length),
      isNews: ({ expiresAt }) => expiresAt > 0,
    },
    {
      name: "metadata",
      word: "Metadata",
      cell: ({ metadata = {} }) =>
        Object.entries(metadata)
          .map((entry) => entry.join("="))
          .join(" "),
      isNews: ({ metadata = {} }) => Object.keys(metadata).length > 0,
    },
  ],
  shown: [
    "id",
    "name",
    "granted",
    "spent",
    "held",
    "left",
    "overdraft",
    "state",
    "models",
    "expiresAt",
    "budget",
    "limitedBy",
    "metadata",
  ],
  spare: ["held", "models", "granted", "expiresAt", "limitedBy", "metadata", "budget", "spent"],
  whole: ["id", "state", "expiresAt"],
};

/** The columns of a budget and of a period: the units and the span. */
const booksColumns = (currency: string | undefined): readonly Column<BudgetTold | PeriodTold>[] => [
  amountColumn({ name: "spent", word: "Spent" }, currency, ({ spent }) => spent),
  {
    name: "percentSpent",
    word: "Spent %",
    heading: "Spent %",
    cell: ({ percentSpent }) => percentSpent ?? undefined,
    text: (bill) => percentIn(bill, " %"),
  },
  amountColumn({ name: "available", word: "Available" }, currency, ({ available }) => available),
  rareAmount({ name: "held", word: "Held" }, currency, ({ held }) => held),
  rareAmount({ name: "overdraft", word: "Overdraft" }, currency, ({ overdraft }) => overdraft),
  rareAmount({ name: "gap", word: "Gap" }, currency, ({ gap = 0 }) => gap),
  currencyColumn(currency),
  { name: "period", word: "Period", cell: ({ period }) => period, text: ({ period }) => period ?? "no period" },
  {
    name: "startsAt",
    word: "Begins",
    heading: "Begins",
    cell: ({ startsAt, timeZone }) =>
      startsAt === undefined ? undefined : { at: startsAt, zone: timeZone, isDay: true },
  },
  {
    name: "endsAt",
    word: "Next begins",
    heading: "Ends",
    cell: ({ endsAt, timeZone }) => (endsAt === undefined ? undefined : { at: endsAt, zone: timeZone, isDay: true }),
  },
  { name: "timeZone", word: "Time zone", cell: ({ timeZone }) => timeZone },
];

const BUDGET_LIST: List<BudgetTold> = {
  columns: (currency) => [
    idColumn("Budget"),
    nameColumn("Budget name"),
    { name: "parent", word: "Parent", cell: ({ parent }) => parent, isNews: ({ parent }) => parent !== undefined },
    amountColumn({ name: "amount", word: "Amount" }, currency, ({ amount }) => amount),
    {
      ...amountColumn<BudgetTold>({ name: "granted", word: "Granted" }, currency, ({ granted }) => granted),
      isNews: ({ amount, granted }) => granted !== amount,
    },
    ...booksColumns(currency),
  ],
  shown: [
    "id",
    "name",
    "amount",
    "granted",
    "spent",
    "percentSpent",
    "held",
    "available",
    "overdraft",
    "gap",
    "period",
    "endsAt",
    "parent",
  ],
  spare: ["gap", "held", "granted", "parent", "period"],
  whole: ["id", "period", "endsAt"],
  // An amount for each day and one for each month have no sum.
  addsUp: (rows) => areApart(rows) && new Set(rows.map(({ period }) => period)).size === 1,
};

const PERIOD_LIST: List<PeriodTold> = {
  columns: (currency) => [
    idColumn("Budget"),
    nameColumn("Budget name"),
    amountColumn({ name: "granted", word: "Granted" }, currency, ({ granted }) => granted),
    ...booksColumns(currency),
    {
      name: "ended",
      word: "Ended",
      cell: ({ ended = false }) => ended,
      text: ({ ended }) => (ended ? "ended" : "current"),
      heading: "State",
    },
  ],
  shown: [
    "id",
    "name",
    "startsAt",
    "endsAt",
    "granted",
    "spent",
    "percentSpent",
    "held",
    "available",
    "overdraft",
    "gap",
    "ended",
  ],
  spare: ["gap", "held", "ended", "endsAt", "name", "percentSpent", "available"],
  whole: ["id", "startsAt", "endsAt", "ended"],
  addsUp: (rows) => areApart(rows) || new Set(rows.map(({ id }) => id)).size === 1,
};

// The cast is safe: the rows of a list are those of its name.
const LISTS = { keys: KEY_LIST, budgets: BUDGET_LIST, periods: PERIOD_LIST } as unknown as Readonly<
  Record<ListName, List<object>>
>;

/**
 * Writes the parts of a list as CSV, for programs or for a spreadsheet. Amounts are units, or money if there is a currency.
 *
 * @param now The time of the list, which each row names. Default: now.
 */
export function listCsvParts(
  name: ListName,
  rows: readonly object[],
  currency: string | undefined,
  spreadsheet: Spreadsheet | undefined,
  now: number = Date.now(),
): Iterable<string> {
  const { columns, addsUp } = LISTS[name];
  return csvPartsOf([...columns(currency), asOfColumn(now)], rows, spreadsheet, addsUp?.(rows));
}

/** Writes a list as CSV, as `listCsvParts` does. */
export const listCsv = (...list: Parameters<typeof listCsvParts>): string => [...listCsvParts(...list)].join("");

/** Formats a list as a table for people. Leaves out the columns in which no row has anything. */
export function listText(
  name: ListName,
  rows: readonly object[],
  currency: string | undefined,
  width: number = PLAIN_COLUMNS,
): FittedTable {
  const { columns, shown, spare, whole } = LISTS[name];
  const all = columns(currency);
  return tableFor(
    shown.flatMap((known) => all.filter((column) => column.name === known)),
    rows,
    width,
    spare,
    whole,
  );
}

/** Formats an answer for people: a line for each field. Amounts are units, or money if there is a currency. */
export function textOf(answer: object, currency?: string): string {
  const text = new Text(currency);
  const lines = isKey(answer) ? text.key(answer) : isMade(answer) ? text.made(answer) : text.lines(answer);
  if (isBudget(answer) && answer.period === undefined) lines.push("period: none, never begins anew");
  if ("olderEndAt" in answer) lines.splice(-1, 1, olderLine(answer.olderEndAt as number));
  if ("apiKey" in answer) lines.push("Store the API key now: it is not kept, and cannot be shown again.");
  return lines.join("\n");
}

const olderLine = (endAt: number): string =>
  endAt > Date.now() ? `older secrets: valid until ${new Date(endAt).toISOString()}` : "older secrets: have ended";

/** Notes that nothing limits a key, with the command that does. */
export const unlimitedNote = (id: string): string =>
  `${unlimitedInWords(oneLine(id))} "${commandOf("budgets assign", [id, "BUDGET"])}" limits it.`;

/** The sum of the reports of usage for a key or a budget: the charges, also beyond its quota, without the holds of running calls. */
const spentOf = ({ used, held, overdraft }: Pick<KeyReport, "used" | "held" | "overdraft">): number =>
  used - held + overdraft;

/** The fields of keys and budgets that are amounts. */
const AMOUNTS: ReadonlySet<string> = new Set([
  "left",
  "granted",
  "used",
  "available",
  "held",
  "overdraft",
  "estimated",
  "amount",
  "spent",
  "gap",
] satisfies (keyof BudgetTold | "left")[]);

/** The words for fields in place of their names. Other names are words already, or several: `timeZone`. */
const FIELD_WORDS: Readonly<Record<string, string>> = {
  startsAt: "begins",
  endsAt: "ends",
  percentSpent: "spent %",
};

/** The words for a key that its own quota limits, and no budget. */
const OWN_QUOTA = "own quota";

/** The words in place of the quota of a key that has none of its own, without a budget and with one. */
const UNLIMITED = "unlimited";
const OF_BUDGET = "none of its own";

/** The most models of a key that a list names. */
const MOST_MODELS = 3;

const endOf = (expiresAt: number): string => (expiresAt > 0 ? new Date(expiresAt * 1_000).toISOString() : "never");

/** Writes the budget of a key by its name. */
const budgetName = ({ budgets, budget }: KeyShown): string => visible(budgets?.[0]?.name ?? budget ?? "-");

class Text {
  readonly #currency: string | undefined;

  constructor(currency: string | undefined) {
    this.#currency = currency;
  }

  lines(answer: object): string[] {
    const { timeZone } = answer as Partial<BudgetReport>;
    return Object.entries(answer).map(([name, value]) => {
      const word = FIELD_WORDS[name] ?? name.replaceAll(/(?=[A-Z])/g, " ").toLowerCase();
      // A period begins and ends with a day of its time zone.
      const isDay = name === "startsAt" || name === "endsAt";
      if (isDay) return `${word}: ${dayIn(timeZone, value as number)}`;
      return `${word}: ${name === "percentSpent" ? percentIn(answer as Bill) : withEscapes(this.#word(name, value))}`;
    });
  }

  /** Leaves out the units of a quota that the key does not have, and writes a line for each of its budgets. */
  key({ id, name, unlimited, models, expiresAt, budget, granted, available, spent, ...key }: KeyShown): string[] {
    const { budgets = [], left, limitedBy, revoked, ...others } = key;
    return [
      ...this.lines({ id, name }),
      ...this.lines(granted === null ? { quota: unlimited ? UNLIMITED : OF_BUDGET } : { granted, available }),
      ...this.lines({
        spent,
        models: modelsInWords(models),
        expires: endOf(expiresAt),
        ...others,
        // A key without a budget has its available units left.
        ...(budget !== undefined && left !== null && { left, limitedBy }),
        ...(revoked && { revoked }),
      }),
      ...budgets.map(
        (each) =>
          `budget ${visible(each.id)}: ${this.#amount(each.available)} of ${this.#amount(each.granted)} available`,
      ),
    ];
  }

  made({ granted, unlimited, budget, models, expiresAt, ...key }: KeyMade): string[] {
    const quota = granted === null ? { quota: unlimited ? UNLIMITED : OF_BUDGET } : { granted };
    return this.lines({
      ...key,
      ...quota,
      ...(budget !== undefined && { budget }),
      models: modelsInWords(models),
      ...(expiresAt > 0 && { expires: endOf(expiresAt) }),
    });
  }

  #amount(units: number): string {
    return amountOf(units, this.#currency);
  }

  #word(name: string, value: unknown): string {
    if (typeof value === "number" && AMOUNTS.has(name)) return this.#amount(value);
    if (typeof value === "string") return visible(value);
    if (Array.isArray(value)) return value.join(",");
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (name === "limitedBy" && value === null) return OWN_QUOTA;
    if (typeof value !== "object" || value === null) return JSON.stringify(value);
    return Object.entries(value)
      .map(([field, entry]) => (entry === true ? field : `${field}=${entry}`))
      .join(",");
  }
}
