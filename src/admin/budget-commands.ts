/** The commands of `polygate budgets`. */

import { readAddition } from "../model/amount-text.ts";
import { given } from "../model/json.ts";
import { amountOf } from "../model/money.ts";
import { oneLine } from "../options.ts";
import type { BudgetOptions, BudgetPeriod, BudgetPeriodReport, BudgetReport } from "../stores/budgets.ts";
import { monthOf } from "../stores/calls.ts";
import { MOST_LISTED } from "../stores/durable.ts";
import { budgetInUse } from "../stores/ledger.ts";
import { UsageError } from "../stores/open/connection.ts";
import { unlimitedNote } from "./answers.ts";
import {
  budgetPlanInWords,
  type BudgetStep,
  countsOf,
  doneStep,
  exportedBudget,
  parentsFirst,
  planBudgets,
} from "./budget-lines.ts";
import { timeIn } from "./columns.ts";
import {
  assertAmount,
  assertMeant,
  assertStaysLimited,
  doneInWords,
  type Command,
  CommandError,
  currencyOfUnits,
  type Terminal,
  type Values,
  type Words,
} from "./commands.ts";
import { namedLines } from "./json-lines.ts";
import { csvOf, everyPage, listed, PAGE_WORDS, pageOf } from "./lists.ts";
import { idOfBudget, type Places } from "./meant.ts";
import { idsInWords } from "./names.ts";
import type { OpenedStore } from "./open-store.ts";
import { periodPagesOf } from "./pages.ts";
import { assertHasUnits, assertNewBudget, budgetIn, keyIn } from "./possible.ts";
import { assertTimeZone, DAY_MS, daysOf, unitsOf, wordOf } from "./values.ts";

/** The remedy where a budget cannot change. */
const OTHER_BUDGET =
  'cannot be changed. Make another budget with "budgets create", move each key of "keys list --budget ID" with "budgets assign", and remove the old one.';

/** Notes that a budget which was given units has nothing available. */
function noteNothing(
  { available, gap = 0 }: BudgetReport,
  currency: string | undefined,
  { warn }: Pick<Terminal, "warn">,
): void {
  if (available > 0) return;
  const first = gap > 0 ? ` The next top-ups first fill a gap of ${amountOf(gap, currency)}.` : "";
  warn?.(`Nothing is available yet: the budget has used what it was given.${first}`);
}

/** Notes that a budget never begins anew though its parent does. The period of a budget cannot be changed later. */
async function noteOnce(
  { id, period, parent }: BudgetReport,
  store: OpenedStore["store"],
  { warn }: Pick<Terminal, "warn">,
): Promise<void> {
  const above = period === undefined && parent !== undefined ? await store.budgetReport(parent) : undefined;
  if (above?.period !== undefined)
    warn?.(
      `The budget ${oneLine(id)} never begins anew, though its parent ${oneLine(above.id)} does. If that is a mistake, make another budget with --period.`,
    );
}

/** Returns a command that changes the current period of a budget by an amount, and shows the budget. */
const changing = (verb: "topUpBudget" | "lowerBudget", about: string, example: string): Command => ({
  about,
  examples: [`${example} --currency usd`],
  operands: ["ID", "AMOUNT"],
  options: ["yes"],
  read([id = "", text = ""], values, terminal) {
    const { currency } = values;
    const units = unitsOf("AMOUNT", text, currency, readAddition);
    const isAdded = verb === "topUpBudget";
    return async (_keys, opened) => {
      const { store } = opened;
      const before = isAdded ? await store.budgetReport(id) : undefined;
      const change = before && ({ added: units, given: before.granted, to: "budget" } as const);
      await assertAmount(change, values, terminal, opened, () => assertHasUnits(store, id, isAdded ? 0 : units));
      const budget = await store[verb](id, units);
      if (isAdded) noteNothing(budget, currency, terminal);
      if (!values.json) terminal.print(doneInWords(isAdded, units, budget, currency));
      return budget;
    };
  },
});

const NAME_WORDS: Words = { name: "its name in lists and reports" };

export const BUDGET_COMMANDS: Readonly<Record<string, Command>> = {
  create: {
    about: "makes a budget, which several keys share",
    examples: [
      "create company --amount 5000 --currency usd --period month --time-zone Europe/Berlin",
      "create team-a --amount 300 --currency usd --period week --rollover --parent company",
    ],
    operands: ["ID"],
    options: ["name", "amount", "period", "time-zone", "rollover", "parent", "yes"],
    words: NAME_WORDS,
    read([id = ""], values, terminal) {
      const budget = newBudgetOf(id, values);
      return async (_keys, opened) => {
        const { store } = opened;
        await assertAmount({ first: budget.amount }, values, terminal, opened, () => assertNewBudget(store, budget));
        const made = await store.addBudget(budget);
        await noteOnce(made, store, terminal);
        return made;
      };
    },
  },
  update: {
    about: "changes the name, or the amount, also below what is used",
    examples: ['update team-a --name "Team A"', "update team-a --amount 250 --currency usd"],
    operands: ["ID"],
    options: ["name", "amount", "yes"],
    words: NAME_WORDS,
    elsewhere: {
      period: `The period of a budget ${OTHER_BUDGET}`,
      "time-zone": `The time zone of a budget ${OTHER_BUDGET}`,
      rollover: `The rollover of a budget ${OTHER_BUDGET}`,
      parent: `The parent of a budget ${OTHER_BUDGET}`,
    },
    read([id = ""], values, terminal) {
      const { name, amount, currency } = values;
      const units = amount === undefined ? undefined : unitsOf("--amount", amount, currency);
      if (name === undefined && units === undefined) throw new UsageError("update needs --name or --amount.");
      return async (_keys, opened) => {
        const { store } = opened;
        const before = units === undefined ? undefined : await store.budgetReport(id);
        const change = units === undefined ? undefined : before && { amount: units, before };
        await assertAmount(change, values, terminal, opened, () => budgetIn(store, id));
        const budget = await store.updateBudget(id, given({ name, amount: units }));
        if (units !== undefined && units > 0) noteNothing(budget, currency, terminal);
        return budget;
      };
    },
  },
  "top-up": changing("topUpBudget", "adds an amount to the current period", "top-up team-a 50"),
  lower: changing("lowerBudget", "takes an available amount of the current period back", "lower team-a 50"),
  assign: {
    about: "lets a key draw on a budget",
    examples: ["assign bob team-a"],
    operands: ["KEY", "ID"],
    read([keyId = "", id = ""]) {
      return async (keys, { store }) => {
        await store.assignBudget(keyId, id);
        return keys.usage(keyId);
      };
    },
  },
  unassign: {
    about: "lets a key draw on no budget",
    examples: ["unassign bob"],
    operands: ["KEY"],
    options: ["yes"],
    read([keyId = ""], values, terminal) {
      return async (keys, { store }) => {
        const isExpected = await assertStaysLimited("budget", await keyIn(store, keyId), values, terminal);
        await store.assignBudget(keyId, undefined, isExpected);
        const key = await keys.usage(keyId);
        if (key.unlimited && !values.json) terminal.warn?.(unlimitedNote(keyId));
        return key;
      };
    },
  },
  export: {
    about: "prints budgets as JSON lines, for import",
    hasNoAmounts: true,
    examples: ["export > budgets.jsonl"],
    read(_operands, _values, { print }) {
      return async (_keys, { store }) => {
        for (const budget of parentsFirst(await everyPage((page) => store.listBudgets(page))))
          print(exportedBudget(budget));
      };
    },
  },
  import: {
    about: "makes a budget of each JSON line of a file or of its input",
    hasNoAmounts: true,
    examples: ["import budgets.jsonl --dry-run", "import budgets.jsonl --yes", "import --update < budgets.jsonl"],
    operands: ["[FILE]"],
    options: ["dry-run", "update", "yes"],
    words: { update: "changes the names and the amounts of budgets that are known already" },
    async read([file], values, terminal) {
      const { update = false, "dry-run": isDryRun = false, json = false, yes = false } = values;
      const { print } = terminal;
      const text = await terminal.read(file);
      return async (_keys, opened) => {
        const { store } = opened;
        const currency = await currencyOfUnits(values, opened);
        const { steps, wrong, doubts: all, hint: hintOfFile } = await planBudgets(text, store, { update, currency });
        const doubts = yes ? [] : all;
        const { lines, words } = namedLines([...wrong, ...doubts]);
        if (wrong.length > 0) {
          const cause = new UsageError(`Nothing was imported.${hintOfFile}\n${words}`);
          throw new CommandError(cause.message, { lines }, { cause });
        }
        // A dry run says what an import would do that cannot ask.
        if (doubts.length > 0) await assertMeant(words, values, isDryRun ? {} : terminal, { lines });
        const ended: BudgetStep[] = isDryRun ? [...steps] : [];
        if (!isDryRun)
          for (const step of steps) {
            const done = await doneStep(step, store);
            const { line, id, updated, error, code } = done.planned;
            print(JSON.stringify(error === undefined ? { id, ...given({ updated }) } : { line, id, error, code }));
            ended.push(done);
          }
        else if (json) {
          const plan = { dryRun: true, ...countsOf(steps), lines: steps.map(({ planned }) => planned) };
          print(JSON.stringify(plan, undefined, 2));
        } else print(budgetPlanInWords(steps));
        const failed = ended.filter(({ planned }) => planned.error !== undefined);
        const known = failed.filter(({ isKnown }) => isKnown).length;
        const hint = " With --update, known budgets are changed, and are no errors.";
        if (failed.length > 0)
          throw new CommandError(
            `${failed.length} of ${steps.length} budgets ${isDryRun ? "would not be" : "were not"} imported: line ${idsInWords(failed.map(({ planned }) => String(planned.line)))}. The output has the errors.${known > 0 ? hint : ""}`,
            { code: known === failed.length ? "conflict" : "failed", failed: failed.length, known },
          );
      };
    },
  },
  remove: {
    about: "removes a budget that no key and no other budget draws on",
    hasNoAmounts: true,
    examples: ["remove team-a"],
    operands: ["ID"],
    options: ["yes"],
    read([id = ""], values, terminal) {
      return async (keys, { store }) => {
        if (!values.yes) await assertUnused({ keys, store }, id);
        const words = `The budget ${oneLine(id)} is removed for good, and its id cannot be used again.`;
        await assertMeant(words, values, terminal);
        await store.removeBudget(id);
        return { id, removed: true };
      };
    },
  },
  usage: {
    about: "shows what a budget has used and has left",
    examples: ["usage team-a", 'usage "Team A"'],
    operands: ["ID"],
    read([text = ""], _values, { warn }) {
      return async (keys, { store }) => {
        const id = await idOfBudget({ keys, store }, text, warn);
        return (await store.budgetReport(id)) ?? {};
      };
    },
  },
  periods: {
    about: "lists this period of a budget, or of all, and those that have ended",
    examples: [
      'periods "Team A" --limit 12',
      "periods --month 2026-10 --currency usd --spreadsheet excel > october.csv",
    ],
    operands: ["[ID]"],
    list: "periods",
    options: ["month", "limit", "csv", "spreadsheet"],
    words: {
      month: "only periods that began in this month, such as 2026-11, this or last",
      limit: `the most periods of each budget: 1 to ${MOST_LISTED}, all by default`,
    },
    read([text], values, { warn }) {
      csvOf(values);
      const month = values.month === undefined ? undefined : monthOf(values.month);
      const { limit } = pageOf(values);
      if (month !== undefined) daysOf({ month }, undefined);
      return async (keys, { store }) => {
        const ids =
          text === undefined
            ? (await everyPage((page) => store.listBudgets(page))).map(({ id }) => id)
            : [await idOfBudget({ keys, store }, text, warn)];
        const periods: BudgetPeriodReport[] = [];
        for (const id of ids) periods.push(...(await periodsOf(store, id, month)).slice(0, limit));
        if (periods.length === 0 && month !== undefined)
          warn?.(`No period that began in ${month} is kept: nothing was charged in it.`);
        return periods;
      };
    },
  },
  list: {
    about: "lists budgets in the order of their ids",
    examples: ["list --limit 1000", "list --currency usd --spreadsheet excel > budgets.csv"],
    list: "budgets",
    options: ["after", "limit", "csv", "spreadsheet"],
    words: PAGE_WORDS,
    read(_operands, values, terminal) {
      const page = pageOf(values);
      return async (_keys, { store }) => listed((one) => store.listBudgets(one), page, values, terminal);
    },
  },
};

/** Throws for a budget that does not exist, or that a key, another budget or a running call draws on. */
async function assertUnused({ keys, store }: Places, id: string): Promise<void> {
  const { held } = await budgetIn(store, id);
  const key = (await keys.list({ budget: id, limit: MOST_LISTED })).find(({ revoked }) => !revoked);
  if (key) throw budgetInUse(id, { kind: "key", id: key.id });
  const child = (await everyPage((page) => store.listBudgets(page))).find(({ parent }) => parent === id);
  if (child) throw budgetInUse(id, { kind: "budget", id: child.id });
  if (held > 0) throw budgetInUse(id, "calls");
}

const PERIODS: readonly BudgetPeriod[] = ["day", "week", "month"];

function newBudgetOf(id: string, values: Values): BudgetOptions {
  const { name, amount, rollover, parent, currency, "time-zone": timeZone } = values;
  if (amount === undefined) throw new UsageError("budgets create needs --amount.");
  const period = wordOf("--period", values.period, PERIODS);
  if (!period && (timeZone !== undefined || rollover !== undefined))
    throw new UsageError(`${rollover === undefined ? "--time-zone" : "--rollover"} needs --period.`);
  if (timeZone !== undefined) assertTimeZone(timeZone);
  return {
    id,
    amount: unitsOf("--amount", amount, currency),
    ...given({ name, period, timeZone, rollover, parent }),
  };
}

/** Lists all periods of a budget, the latest first, or those that began in a month in the time zone of the budget. */
async function periodsOf(
  store: OpenedStore["store"],
  id: string,
  month: string | undefined,
): Promise<readonly BudgetPeriodReport[]> {
  const periods: BudgetPeriodReport[] = [];
  // No time zone is more than a day away from UTC.
  const before = month === undefined ? undefined : Math.max(0, Date.parse(`${month}-28`) + 5 * DAY_MS);
  for await (const page of periodPagesOf(store, id, { before })) {
    periods.push(...page);
    // The periods of a month stand on the first page.
    if (month !== undefined || page.length < MOST_LISTED) break;
  }
  return periods.filter(
    ({ startsAt, timeZone = "UTC" }) =>
      month === undefined || (startsAt !== undefined && timeIn(timeZone, startsAt).startsWith(month)),
  );
}
