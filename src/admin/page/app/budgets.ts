/** The view of budgets: lists them, makes new ones, and changes them. */

import { computed, type Signal, signal } from "@preact/signals";
import type { BudgetReport } from "../../../stores/budgets.ts";
import type { BudgetTold } from "../../http/operations.ts";
import { ALL_DAYS, type Choices } from "./address.ts";
import { AMOUNT, AMOUNT_HINT, amountOf, readAmount, writtenAmount } from "./amounts.ts";
import { attempt, type Listed, load, mayChange, read, write } from "./api.ts";
import { PERIODS } from "./change-words.ts";
import {
  amountsIn,
  amountsNamed,
  askUser,
  BUDGETS,
  BudgetList,
  CallLinks,
  type Column,
  type Field,
  Filter,
  html,
  Nothing,
  RowButton,
  Share,
  Table,
  Time,
  type View,
} from "./parts.ts";

const budgets = signal<readonly BudgetTold[] | undefined>(undefined);
/** Budgets to choose from, and for the time zones of refusals. */
export const knownBudgets: Signal<readonly BudgetReport[]> = signal([]);

const MOST_KNOWN = 1_000;

/** Loads the known budgets. They are a help alone: a failure leaves none. */
export async function loadKnownBudgets(): Promise<void> {
  knownBudgets.value = await read<Listed<BudgetReport>>(`budgets?limit=${MOST_KNOWN}`).then(
    ({ body }) => body.data,
    () => [],
  );
}

const knownById = computed(() => new Map(knownBudgets.value.map((budget) => [budget.id, budget])));

/** Returns the one of a budget, its parent, and so on, that has the least left. Undefined for none among the known budgets. */
export function tightestOf(id?: string): BudgetReport | undefined {
  let tightest: BudgetReport | undefined;
  for (let budget = knownById.value.get(id ?? ""); budget; budget = knownById.value.get(budget.parent ?? ""))
    if (!tightest || budget.available < tightest.available) tightest = budget;
  return tightest;
}

/**
 * A filter by a budget, to choose or to write: its id, or the name of a single one. The server refuses any other text in words.
 *
 * @param hint Says which calls or keys the budget has.
 */
export const BudgetFilter = ({
  of,
  hint,
  onChange,
}: {
  of: Pick<Signal<string>, "value">;
  hint: string;
  onChange: () => unknown;
}): View =>
  html`<${Filter}
      label="Budget"
      hint=${hint}
      of=${of}
      list=${BUDGETS}
      example="id or name"
      onChange=${() => {
        const written = of.value.toLowerCase();
        const named = knownBudgets.value.filter(({ name }) => name.toLowerCase() === written);
        if (named.length === 1 && !knownById.value.has(of.value)) of.value = named[0]?.id ?? "";
        return onChange();
      }}
    />
    <${BudgetList} of=${knownBudgets.value} />`;

/** Returns the field of a budget: a choice of all budgets, or a text when there are too many, or none could be loaded. */
export function budgetField(field: Field, all: readonly BudgetReport[]): Field {
  const { value = "" } = field;
  if (all.length === 0 || all.length >= MOST_KNOWN)
    return { ...field, list: BUDGETS, hint: "The id of a budget, or empty." };
  const others = value === "" || all.some(({ id }) => id === value) ? [] : [[value, value] as const];
  const known = all.map(({ id, name }) => [id, name === id ? id : `${id} (${name})`] as const);
  return { ...field, choices: [["", "none"], ...others, ...known] };
}

export async function loadBudgets(): Promise<void> {
  await load(async () => {
    const all: BudgetTold[] = [];
    for (let after: string | null = ""; after !== null;) {
      const { body }: { body: Listed<BudgetTold> } = await read(
        `budgets?${new URLSearchParams({ limit: "1000", after })}`,
      );
      all.push(...body.data);
      after = body.next;
    }
    budgets.value = all;
  });
}

const at = (id: string): string => `budgets/${encodeURIComponent(id)}`;

/** The time zone of the user's clock. */
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

const create = (): void =>
  askUser({
    title: "New budget",
    action: "Create",
    fields: [
      { name: "id", label: "Id", isRequired: true, hint: "It stays for good." },
      { name: "name", label: "Name", hint: "Empty: the id." },
      { name: "amount", label: `Amount in ${AMOUNT}`, hint: AMOUNT_HINT, isRequired: true },
      {
        name: "period",
        label: "Begins anew",
        value: "month",
        choices: [
          ["day", "each day"],
          ["week", "each Monday"],
          ["month", "on the first of each month"],
          ["", "never"],
        ],
      },
      {
        name: "timeZone",
        label: "Time zone",
        hint: `A period begins at midnight of this zone. Empty: that of the parent, or else ${OWN_ZONE}.`,
      },
      {
        name: "rollover",
        label: "Unused rest",
        choices: [
          ["", "end with the period"],
          ["yes", "go into the next period"],
        ],
      },
      budgetField({ name: "parent", label: "Parent, which it draws on" }, budgets.value ?? []),
    ],
    run: async ({ id = "", name, amount = "", period, timeZone, rollover, parent }) => {
      await write("POST", "budgets", {
        id,
        amount: readAmount("Amount", amount),
        ...(name && { name }),
        ...(period && {
          period,
          ...((timeZone || !parent) && { timeZone: timeZone || OWN_ZONE }),
          ...(rollover && { rollover: true }),
        }),
        ...(parent && { parent }),
      });
      await loadBudgets();
      return `${id} is made.`;
    },
  });

const edit = (id: string): Promise<boolean> =>
  attempt(async () => {
    const { body, tag } = await read<BudgetReport>(at(id));
    askUser({
      title: `Change ${id}`,
      action: "Save",
      text: "Its period and its parent stay. For others, make another budget and move the keys to it.",
      fields: [
        { name: "name", label: "Name", value: body.name, isRequired: true },
        {
          name: "amount",
          label: `Amount in ${AMOUNT}`,
          hint: AMOUNT_HINT,
          value: writtenAmount(body.amount),
          isRequired: true,
        },
      ],
      run: async ({ name, amount = "" }) => {
        await write("PATCH", at(id), { name, amount: readAmount("Amount", amount) }, tag);
        await loadBudgets();
        return `${id} is changed.`;
      },
    });
  });

/**
 * Asks how much to add to the current period of a budget.
 *
 * @param amount What to add, as a user writes it.
 * @param reload Loads what is shown again.
 */
export const topUp = (id: string, amount = "", reload: () => Promise<void> = loadBudgets): void =>
  askUser({
    title: `Top up ${id}`,
    action: "Top up",
    text: "Adds to the current period alone.",
    fields: [{ name: "units", label: `Amount in ${AMOUNT}`, hint: AMOUNT_HINT, value: amount, isRequired: true }],
    run: async ({ units = "" }) => {
      await write("POST", `${at(id)}/top-up`, { units: readAmount("Amount", units) });
      await reload();
      return `${id} is topped up.`;
    },
  });

const remove = (id: string): void =>
  askUser({
    title: `Remove ${id}`,
    action: "Remove",
    isDangerous: true,
    text: "Its id cannot be used again. Its books stay for audits.",
    run: async () => {
      await write("DELETE", at(id), {});
      await loadBudgets();
      return `${id} is removed.`;
    },
  });

/** Returns the days of the current period of a budget, by the clocks of its time zone. */
function daysOf({ startsAt, endsAt, timeZone = "UTC" }: BudgetReport): Choices {
  if (startsAt === undefined || endsAt === undefined) return {};
  const day = new Intl.DateTimeFormat("sv", { timeZone });
  return { since: day.format(startsAt), until: day.format(endsAt - 1) };
}

const columnsOf = (rows: readonly BudgetTold[], hasCalls: boolean): readonly Column<BudgetTold>[] => {
  const ofSpent = amountsIn(rows.map(({ spent }) => spent));
  const ofLeft = amountsIn(rows.map(({ available }) => available));
  const ofAmount = amountsIn(rows.map(({ amount }) => amount));
  const ofOverdraft = amountsIn(rows.map(({ overdraft }) => overdraft));
  return [
    {
      name: "Budget",
      cell: (budget) =>
        html`<span class="id">${budget.id}</span
          >${budget.name !== budget.id && html`<span class="quiet">${budget.name}</span>`}
          ${
            hasCalls &&
            html`<${CallLinks}
              name=${budget.id}
              spend=${{ by: "key,model", ...ALL_DAYS, ...daysOf(budget), budget: budget.id }}
              refusals=${{ ...daysOf(budget), budget: budget.id }}
            />`
          }`,
    },
    {
      name: amountsNamed("Spent"),
      isNumber: true,
      cell: ({ spent, held, granted, gap = 0, available }) =>
        html`${ofSpent(spent)} ${held > 0 && html`<span class="quiet">running calls hold ${amountOf(held)}</span>`}
          <${Share} used=${spent} of=${granted - gap} left=${available} />`,
    },
    {
      name: amountsNamed("Left"),
      isNumber: true,
      cell: ({ available, gap }) =>
        html`${ofLeft(available)}${available <= 0 && html`<${Nothing} />`}${gap !== undefined && html`<span class="quiet">top-ups first fill ${amountOf(gap)}</span>`}`,
    },
    ...(rows.some(({ overdraft }) => overdraft > 0)
      ? [
          {
            name: amountsNamed("Overdrawn"),
            isNumber: true,
            cell: ({ overdraft }: BudgetTold) => (overdraft > 0 ? ofOverdraft(overdraft) : "–"),
          },
        ]
      : []),
    {
      name: amountsNamed("Amount"),
      isNumber: true,
      cell: ({ amount, period }) =>
        html`${ofAmount(amount)}<span class="quiet">${period ? PERIODS[period] : "once"}</span>`,
    },
    {
      name: "Begins anew",
      cell: ({ endsAt, timeZone = "UTC" }) =>
        endsAt === undefined
          ? "never"
          : html`<${Time} at=${endsAt} zone=${timeZone} /><span class="quiet">${timeZone}</span>`,
    },
    { name: "Parent", cell: ({ parent }) => parent ?? "–" },
    {
      name: "Change",
      isChange: true,
      cell: ({ id }) =>
        html`<div class="row-buttons">
          <${RowButton} name="Edit" row=${id} onClick=${() => edit(id)} />
          <${RowButton} name="Top up" row=${id} onClick=${() => topUp(id)} />
          <${RowButton} name="Remove" row=${id} onClick=${() => remove(id)} />
        </div>`,
    },
  ];
};

export function Budgets({ calls }: { calls: boolean }): View {
  return html`<section aria-labelledby="budgets-title">
    <header class="tools">
      <h2 id="budgets-title" tabindex="-1">Budgets</h2>
      ${mayChange.value && html`<button type="button" class="main" onClick=${create}>New budget</button>`}
    </header>
    <${Table}
      caption="Budgets"
      columns=${columnsOf(budgets.value ?? [], calls)}
      rows=${budgets.value}
      keyOf=${({ id }: BudgetTold) => id}
      empty="There is no budget yet."
    />
    <${BudgetList} of=${budgets.value ?? []} />
  </section>`;
}
