/** The operations on budgets and their periods. */

import * as v from "valibot";
import { given } from "../../model/json.ts";
import type { BudgetReport } from "../../stores/budgets.ts";
import { MOST_ROWS } from "../../stores/calls.ts";
import { MOST_LISTED } from "../../stores/durable.ts";
import { noSuchBudget } from "../../stores/ledger.ts";
import { budgetTold, listCsvParts, type PeriodTold } from "../answers.ts";
import { inTurns } from "../columns.ts";
import { periodPagesOf } from "../pages.ts";
import { assertHasUnits, assertNewBudget, budgetIn } from "../possible.ts";
import { expects, tagOf } from "./edit.ts";
import {
  assertAmount,
  assertSameCurrency,
  COUNT,
  elsewhere,
  FILE,
  ID,
  idIn,
  NEW_ID,
  type Operation,
  operation,
  PAGE,
  paged,
  pageOf,
  SOME_UNITS,
  SIZE,
  TEXT,
  TIME,
  TIME_OF_QUERY,
  type Told,
  UNITS,
  unlessTaken,
  wantsCsv,
} from "./operation.ts";

const PERIOD = v.picklist(["day", "week", "month"]);

const NEW_BUDGET = v.strictObject({
  id: NEW_ID,
  name: v.exactOptional(TEXT),
  amount: UNITS,
  period: v.exactOptional(PERIOD),
  timeZone: v.exactOptional(TEXT),
  rollover: v.exactOptional(v.boolean()),
  parent: v.exactOptional(ID),
});

const OF_ANOTHER =
  "cannot be changed; make another budget, move the keys to it with PUT /keys/ID/budget, and remove the old one";

const BUDGET_CHANGES = v.strictObject(
  { name: v.exactOptional(TEXT), amount: v.exactOptional(UNITS) },
  elsewhere({ period: OF_ANOTHER, timeZone: OF_ANOTHER, rollover: OF_ANOTHER, parent: OF_ANOTHER }),
);

const BUDGET = v.object({
  id: TEXT,
  name: TEXT,
  amount: UNITS,
  period: v.exactOptional(PERIOD),
  timeZone: v.exactOptional(TEXT),
  rollover: v.exactOptional(v.boolean()),
  parent: v.exactOptional(TEXT),
  startsAt: v.exactOptional(TIME),
  endsAt: v.exactOptional(TIME),
  granted: UNITS,
  used: UNITS,
  available: UNITS,
  held: UNITS,
  gap: v.exactOptional(UNITS),
  overdraft: UNITS,
  estimated: UNITS,
  spent: UNITS,
  percentSpent: v.nullable(v.pipe(COUNT, v.description("Percent of `granted`."))),
});

const { amount: _amount, ...PERIOD_BOOKS } = BUDGET.entries;
const BUDGET_PERIOD = v.object({ ...PERIOD_BOOKS, ended: v.exactOptional(v.boolean()) });

/** The most characters of an id in the name of a file. Some file systems take no name of more than 143 characters. */
const LONGEST_FILE_NAME = 120;

export const BUDGET_OPERATIONS: readonly Operation[] = [
  operation({
    operationId: "listBudgets",
    method: "GET",
    path: "/budgets",
    about: "Lists budgets in the order of their ids.",
    needs: "budgets",
    query: v.strictObject(PAGE),
    answer: pageOf(BUDGET),
    async run({ store }, { query }) {
      const read = async (after: string | undefined, limit: number) =>
        ((await store.listBudgets?.(given({ after, limit }))) ?? []).map(budgetTold);
      return { body: await paged(read, idIn, query) };
    },
  }),
  operation({
    operationId: "createBudget",
    method: "POST",
    path: "/budgets",
    about:
      "Makes a budget, which several keys share. All amounts are units: with prices in a currency, a unit is a millionth of it.",
    action: "budgets.create",
    needs: "budgets",
    body: NEW_BUDGET,
    confirmed: true,
    status: 201,
    answer: BUDGET,
    tagged: true,
    async run(desk, { body, isConfirmed }) {
      const { store } = desk;
      const { id, amount: first } = body;
      const adding = async (): Promise<BudgetReport | undefined> => {
        await assertAmount(desk, { isConfirmed }, "amount", body, { first }, () => assertNewBudget(store, body));
        return store.addBudget?.(body);
      };
      const added = await unlessTaken(adding(), async () => store.budgetReport?.(id));
      return { ...tellBudget(id, added), made: id };
    },
  }),
  operation({
    operationId: "getBudget",
    method: "GET",
    path: "/budgets/:id",
    about: "Returns a budget and the units of its current period.",
    needs: "budgets",
    answer: BUDGET,
    tagged: true,
    run: async ({ store }, { id }) => tellBudget(id, await store.budgetReport?.(id)),
  }),
  operation({
    operationId: "listBudgetPeriods",
    method: "GET",
    path: "/budgets/:id/periods",
    about:
      "Lists the current period of a budget and those that have ended, the latest first: a page as JSON, or all as CSV.",
    needs: "budgets",
    asCsv: true,
    query: v.strictObject({ before: v.exactOptional(TIME_OF_QUERY), limit: v.exactOptional(SIZE), ...FILE }),
    answer: v.object({ data: v.array(BUDGET_PERIOD), next: v.nullable(TIME) }),
    async run(desk, { id, query, accept }) {
      const { store, clock } = desk;
      const { before, currency, spreadsheet } = query;
      await assertSameCurrency(desk, currency);
      const isCsv = wantsCsv(query, accept);
      const { limit = isCsv ? MOST_LISTED : 100 } = query;
      const periods: PeriodTold[] = [];
      let next: number | null = null;
      for await (const page of periodPagesOf(store, id, { before, limit })) {
        periods.push(...page.map(budgetTold));
        next = page.length === limit ? (page.at(-1)?.startsAt ?? null) : null;
        // A file has every period, unless its client has named a limit.
        if (!isCsv || query.limit !== undefined || next === null || periods.length >= MOST_ROWS) break;
      }
      if (!isCsv) return { body: { data: periods, next } };
      const fileName = `periods-${id.replaceAll(/[^\w.-]/g, "_").slice(0, LONGEST_FILE_NAME)}.csv`;
      const text = await inTurns(listCsvParts("periods", periods, currency, spreadsheet, clock.now()));
      return { csv: { text, fileName } };
    },
  }),
  operation({
    operationId: "updateBudget",
    method: "PATCH",
    tagOf: tagOfBudget,
    path: "/budgets/:id",
    about: "Changes the name or the amount of a budget. What is not named stays; an amount may be below what is used.",
    action: "budgets.update",
    needs: "budgets",
    body: BUDGET_CHANGES,
    confirmed: true,
    answer: BUDGET,
    tagged: true,
    async run(desk, asked) {
      const { id, body, isConfirmed } = asked;
      const { amount } = body;
      const expected = expects(asked, tagOfBudget);
      const before = await desk.store.budgetReport?.(id);
      if (!before) throw noSuchBudget(id);
      expected.assert(before, `The budget ${id}`);
      if (amount !== undefined)
        await assertAmount(desk, { isConfirmed }, "amount", body, { amount, before }, () => budgetIn(desk.store, id));
      return expected.in(async () => tellBudget(id, await desk.store.updateBudget?.(id, body, expected.holds)));
    },
  }),
  ...(
    [
      ["topUpBudget", "top-up", "Adds units to the current period of a budget."],
      ["lowerBudget", "lower", "Takes available units of the current period of a budget back."],
    ] as const
  ).map(([operationId, verb, about]) =>
    operation({
      operationId,
      method: "POST",
      path: `/budgets/:id/${verb}`,
      about,
      action: `budgets.${verb}`,
      needs: "budgets",
      body: v.strictObject({ units: SOME_UNITS }),
      confirmed: true,
      answer: BUDGET,
      tagged: true,
      async run(desk, { id, body, isConfirmed }) {
        const { units } = body;
        const { granted: given } = await budgetIn(desk.store, id);
        const isAdded = operationId === "topUpBudget";
        const change = isAdded ? ({ added: units, given, to: "budget" } as const) : undefined;
        const possible = () => assertHasUnits(desk.store, id, isAdded ? 0 : units);
        await assertAmount(desk, { isConfirmed }, "units", body, change, possible);
        return tellBudget(id, await desk.store[operationId]?.(id, units));
      },
    }),
  ),
  operation({
    operationId: "removeBudget",
    method: "DELETE",
    path: "/budgets/:id",
    about: "Removes a budget that no key and no other budget draws on.",
    action: "budgets.remove",
    needs: "budgets",
    answer: v.object({ id: TEXT, removed: v.boolean() }),
    async run({ store }, { id }) {
      await store.removeBudget?.(id);
      return { body: { id, removed: true } };
    },
  }),
];

function tellBudget(id: string, report: BudgetReport | undefined): Told {
  if (!report) throw noSuchBudget(id);
  return { body: budgetTold(report), tag: tagOfBudget(report) };
}

function tagOfBudget({ name, amount }: BudgetReport): string {
  return tagOf([name, amount]);
}
