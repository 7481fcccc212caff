/** Budgets as JSON lines: one JSON object for each budget, so that they can move to another store. */

import * as v from "valibot";
import { given, type JsonObject } from "../model/json.ts";
import { moneyOf } from "../model/money.ts";
import { RefusedChange } from "../model/refused-units.ts";
import { oneLine } from "../options.ts";
import type { BudgetChanges, BudgetOptions, BudgetReport } from "../stores/budgets.ts";
import type { DurableQuotaStore } from "../stores/durable.ts";
import { knownBudget, removedBudget } from "../stores/ledger.ts";
import { changedFields } from "./change-log.ts";
import { fieldsOfLine, linesIn, told, type WrongLine } from "./json-lines.ts";
import { doubtInWords, isLittle, littleInWords } from "./much.ts";
import { assertNewBudget } from "./possible.ts";

const LINE = v.strictObject({
  id: v.string(),
  name: v.optional(v.string()),
  amount: v.number(),
  period: v.optional(v.picklist(["day", "week", "month"])),
  timeZone: v.optional(v.string()),
  rollover: v.optional(v.boolean()),
  parent: v.optional(v.string()),
  startsAt: v.optional(v.number()),
  granted: v.optional(v.number()),
  used: v.optional(v.number()),
});

/** Formats a budget as the line that imports it, with the books of its current period. */
export function exportedBudget(budget: BudgetReport): string {
  const { id, name, amount, period, timeZone, rollover, parent, startsAt, granted, used } = budget;
  return JSON.stringify({ id, name, amount, period, timeZone, rollover, parent, startsAt, granted, used });
}

/** Returns budgets with each parent before its children. */
export function parentsFirst(budgets: readonly BudgetReport[]): readonly BudgetReport[] {
  const byId = new Map(budgets.map((budget) => [budget.id, budget]));
  const ordered = new Set<BudgetReport>();
  const add = (budget: BudgetReport, below: readonly BudgetReport[] = []): void => {
    const parent = byId.get(budget.parent ?? "");
    if (parent && !below.includes(parent)) add(parent, [...below, budget]);
    ordered.add(budget);
  };
  for (const budget of budgets) add(budget);
  return [...ordered];
}

/** Reads the budget of a line. */
function budgetOf(object: JsonObject): BudgetOptions {
  const { startsAt, granted, used, ...fields } = fieldsOfLine(object, "budget", LINE);
  const books = { granted: granted ?? fields.amount, used: used ?? 0, ...given({ startsAt }) };
  // The cast drops `undefined` from the types of absent fields: JSON has no undefined.
  return { ...fields, ...((granted ?? used) !== undefined && { books }) } as BudgetOptions;
}

/** The part of a plan for a line. */
export interface PlannedBudget extends Partial<Pick<WrongLine, "error" | "code">> {
  readonly line: number;
  readonly id: string;
  /** `none` for a known budget in which nothing differs. Absent for a line that would be refused, which has an `error`. */
  readonly action?: "create" | "update" | "none";
  /** The names of the fields that would be changed. */
  readonly updated?: readonly string[];
}

/** A line with its plan, and the work that does it. */
export interface BudgetStep {
  readonly planned: PlannedBudget;
  /** True for a line that is refused because its budget is there already. */
  readonly isKnown: boolean;
  readonly run?: (store: BudgetWrites) => Promise<unknown>;
}

type BudgetWrites = Pick<DurableQuotaStore, "addBudget" | "updateBudget">;

/** The plan of an import. Wrong lines and doubtful amounts stop the import before it begins. */
export interface BudgetPlan {
  readonly steps: readonly BudgetStep[];
  readonly wrong: readonly WrongLine[];
  readonly doubts: readonly WrongLine[];
  /** A sentence about the whole file, with a space before it; empty for a file of lines. */
  readonly hint: string;
}

/**
 * Says what an import would do with each line, and changes nothing. A parent may stand on an earlier line.
 *
 * @param update Changes the names and the amounts of budgets that are known already.
 * @param currency The currency of the amounts, which are units. Undefined for units that are no money.
 */
export async function planBudgets(
  text: string,
  store: Pick<DurableQuotaStore, "report" | "budgetReport">,
  { update, currency }: { readonly update: boolean; readonly currency: string | undefined },
): Promise<BudgetPlan> {
  const { lines, wrong: unread, hint } = linesIn(text, "budget", budgetOf);
  const [steps, wrong, doubts]: [BudgetStep[], WrongLine[], WrongLine[]] = [[], [...unread], []];
  const planned = new Map<string, BudgetReport>();
  const reports = {
    report: (id: string) => store.report(id),
    budgetReport: async (id: string) => planned.get(id) ?? store.budgetReport(id),
  };
  for (const { line, value: budget } of lines) {
    const { id, amount } = budget;
    const known = await store.budgetReport(id);
    const refuse = (error: RangeError, isKnown = false) =>
      void steps.push({ planned: { line, id, ...told(error) }, isKnown });
    const doubt = (error: string | undefined) =>
      void (error !== undefined && doubts.push({ line, error, code: "confirmation_required" }));
    const writer = { amount: (units: number) => moneyOf(units, currency ?? ""), currency };
    if (known?.removed) refuse(removedBudget(id));
    else if (known && !update) refuse(knownBudget(id), true);
    else if (known) {
      const { name, amount: _amount, id: _id, books: _books, ...terms } = budget;
      const fixed = Object.keys(changedFields(terms, { ...known }));
      // The casts are safe: the fields are those of a change.
      const changes = changedFields(given({ name, amount }), { ...known }) as BudgetChanges;
      const updated = Object.keys(changes);
      if (fixed.length > 0)
        refuse(new RefusedChange("conflict", `The ${fixed.join(" and the ")} of the budget ${id} cannot be changed.`));
      else {
        if (currency !== undefined && changes.amount !== undefined)
          doubt(doubtInWords({ amount, before: known }, writer));
        const action = updated.length > 0 ? "update" : "none";
        steps.push({
          planned: { line, id, action, ...(updated.length > 0 && { updated }) },
          isKnown: false,
          run: async (into) => updated.length > 0 && into.updateBudget(id, changes),
        });
      }
    } else
      try {
        await assertNewBudget(reports, budget);
        planned.set(id, { ...budget, name: budget.name ?? id, granted: amount, ...NOTHING });
        // An export has the books of each budget: its amounts are units, and were meant before.
        if (currency !== undefined && budget.books === undefined)
          doubt(
            doubtInWords({ first: amount }, writer) ??
              (isLittle(amount, "amount", currency) ? littleInWords(amount, currency) : undefined),
          );
        steps.push({
          planned: { line, id, action: "create" },
          isKnown: false,
          run: (into) => into.addBudget(budget),
        });
      } catch (error) {
        if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
        wrong.push({ line, ...told(error) });
      }
  }
  return { steps, wrong: wrong.toSorted((one, other) => one.line - other.line), doubts, hint };
}

/** Stands for the books of a budget that is not made yet. */
const NOTHING = { used: 0, available: 0, held: 0, overdraft: 0, estimated: 0 } as const;

/** Does the work of a line. Returns its plan with the error of a change that the store has refused. */
export async function doneStep({ planned, isKnown, run }: BudgetStep, store: BudgetWrites): Promise<BudgetStep> {
  try {
    await run?.(store);
    return { planned, isKnown };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const { line, id } = planned;
    return { planned: { line, id, ...told(error) }, isKnown };
  }
}

/** Counts what a plan would do. */
export function countsOf(steps: readonly BudgetStep[]): Readonly<Record<"create" | "update" | "refuse", number>> {
  const countOf = (action: PlannedBudget["action"]): number =>
    steps.filter(({ planned }) => planned.action === action).length;
  return { create: countOf("create"), update: countOf("update"), refuse: countOf(undefined) };
}

/** Writes a plan for people: a line for each line, and the sums. */
export function budgetPlanInWords(steps: readonly BudgetStep[]): string {
  const { create, update, refuse } = countsOf(steps);
  return [
    ...steps.map(({ planned }) => `line ${planned.line}: ${oneLine(planned.id)}: ${wordsOf(planned)}`),
    `Nothing was changed. An import would make ${create} budgets, change ${update} and refuse ${refuse}.`,
  ].join("\n");
}

function wordsOf({ action, updated = [], error = "" }: PlannedBudget): string {
  switch (action) {
    case "create":
      return "would be made";
    case "update":
      return `would get another ${updated.join(", ")}`;
    case "none":
      return "would stay as it is";
    default:
      return error;
  }
}
