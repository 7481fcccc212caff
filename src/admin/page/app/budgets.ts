/** The view of budgets: lists them, makes new ones, and changes them. */

import { computed, type Signal, signal } from "@preact/signals";
import { withEscapes } from "../../../model/visible.ts";
import type { BudgetReport } from "../../../stores/budgets.ts";
import { type BudgetTold, listCsvParts, type ListName, type PeriodTold } from "../../answers.ts";
import type { Spreadsheet } from "../../columns.ts";
import { addressOf, ALL_DAYS, type Choices, follow, go, noteChoices } from "./address.ts";
import {
  amountField,
  amountInWords,
  dayIn,
  OWN_ZONE,
  pageCurrency,
  plain,
  readAdded,
  readAmount,
  shownPeriod,
  writtenAmount,
} from "./amounts.ts";
import { attempt, type Listed, loadsOf, mayChange, pagesOf, read, shownPart } from "./api.ts";
import { PERIODS } from "./change-words.ts";
import {
  Amount,
  amountsIn,
  amountsNamed,
  askUser,
  BUDGETS,
  BudgetList,
  CallLinks,
  type Column,
  Csv,
  CsvOfList,
  type Field,
  Filter,
  Filters,
  html,
  More,
  Name,
  Nothing,
  RowButton,
  RowMenu,
  spentColumn,
  Table,
  Time,
  type View,
  writerAsking,
} from "./parts.ts";

const budgets = signal<readonly BudgetTold[] | undefined>(undefined);
/** A text that the id or the name of each shown budget has. Empty for all budgets. */
const find = signal("");
/** The id of the budget whose periods are shown; empty for the list of budgets. */
const ofPeriods = signal("");
const periods = signal<readonly PeriodTold[] | undefined>(undefined);
/** The beginning of the last period that is shown. Null when no earlier one is kept. */
const earlier = signal<number | null>(null);
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

/** Returns the name of a budget, or its id while the name is not known. */
export const nameOfBudget = (id: string): string => knownById.value.get(id)?.name ?? id;

/** Shows the name of a budget, and its id where that differs. */
export function BudgetName({ id }: { id?: string | undefined }): View {
  if (id === undefined) return html`–`;
  const name = nameOfBudget(id);
  return html`<span class="long name" title=${name}>${withEscapes(name)}</span
    >${name !== id && html`<span class="quiet long">${withEscapes(id)}</span>`}`;
}

/** Returns the id of the budget that a user has named by its id, or by the name of a single one. */
function idOfBudget(written: string): string {
  const wanted = written.toLowerCase();
  const named = knownBudgets.value.filter(({ name }) => name.toLowerCase() === wanted);
  return named.length === 1 && !knownById.value.has(written) ? (named[0]?.id ?? written) : written;
}

/** Takes the name of a budget in an address for its id, as soon as the budgets are known. */
export async function takeName(of: Pick<Signal<string>, "value">, known: Promise<void>): Promise<void> {
  const written = of.value;
  if (written === "") return;
  await known;
  // The user may have chosen another one meanwhile.
  if (of.value === written) of.value = idOfBudget(written);
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
        of.value = idOfBudget(of.value);
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

/** Returns a function that writes a list as CSV, as the command line does. */
export const listCsvOf =
  (name: ListName) =>
  (rows: readonly object[], spreadsheet: Spreadsheet | undefined): Iterable<string> =>
    listCsvParts(name, rows, pageCurrency.value || undefined, spreadsheet);

const [loadList, loadPeriodsOf] = [loadsOf("budgets"), loadsOf("budgets")];

export async function loadBudgets(): Promise<void> {
  await loadList(async (isLatest) => {
    const all: BudgetTold[] = [];
    for await (const page of pagesOf<BudgetTold>("budgets")) {
      if (!isLatest()) return;
      all.push(...page);
    }
    budgets.value = all;
  });
}

/** Shows what the address asks for: the periods of a budget, or all budgets. */
export async function openBudgets(asked: URLSearchParams): Promise<void> {
  ofPeriods.value = asked.get("periods") ?? "";
  find.value = asked.get("find") ?? "";
  await (ofPeriods.value === "" ? loadBudgets() : loadPeriods());
}

/** Loads the latest periods of the budget, or goes on behind the last one. */
async function loadPeriods(before?: number): Promise<void> {
  const id = ofPeriods.value;
  if (before === undefined) {
    periods.value = undefined;
    earlier.value = null;
  }
  await loadPeriodsOf(async (isLatest) => {
    const query = new URLSearchParams({ limit: "100", ...(before !== undefined && { before: String(before) }) });
    const { body } = await read<{ readonly data: readonly PeriodTold[]; readonly next: number | null }>(
      `${at(id)}/periods?${query}`,
    );
    if (!isLatest()) return;
    periods.value = before === undefined ? body.data : [...(periods.value ?? []), ...body.data];
    earlier.value = body.next;
  });
}

const at = (id: string): string => `budgets/${encodeURIComponent(id)}`;

const create = (): void => {
  const make = writerAsking("To make the budget, choose Create again.");
  askUser({
    title: "New budget",
    action: "Create",
    fields: [
      { name: "id", label: "Id", isRequired: true, hint: "It stays for good." },
      { name: "name", label: "Name", hint: "Empty: the id." },
      { name: "amount", ...amountField("Amount"), isRequired: true },
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
    run: async ({ id = "", name, amount: written = "", period, timeZone, rollover, parent }) => {
      const amount = readAmount("Amount", written);
      const body = {
        id,
        amount,
        ...(name && { name }),
        ...(period && {
          period,
          ...((timeZone || !parent) && { timeZone: timeZone || OWN_ZONE }),
          ...(rollover && { rollover: true }),
        }),
        ...(parent && { parent }),
      };
      await make({ path: "budgets", body, units: amount, change: { first: amount } });
      await loadBudgets();
      return `${id} is made.`;
    },
  });
};

const edit = (id: string, reload: () => Promise<void>): Promise<boolean> =>
  attempt(async () => {
    const { body, tag } = await read<BudgetReport>(at(id));
    const save = writerAsking("To set it, choose Save again.");
    askUser({
      title: `Change ${id}`,
      action: "Save",
      text: "Its period and its parent stay. For others, make another budget and move the keys to it.",
      fields: [
        { name: "name", label: "Name", value: body.name, isRequired: true },
        {
          name: "amount",
          ...amountField("Amount"),
          value: writtenAmount(body.amount),
          isRequired: true,
        },
      ],
      run: async ({ name, amount: written = "" }) => {
        const amount = readAmount("Amount", written);
        const change = { amount, before: body };
        await save({ method: "PATCH", path: at(id), body: { name, amount }, tag, units: amount, change });
        await reload();
        return `${id} is changed.`;
      },
    });
  });

/**
 * Asks how much to add to the current period of a budget. An amount that is larger than what the budget was given is asked for twice.
 *
 * @param facts Sentences that help to choose the amount.
 * @param reload Loads what is shown again.
 */
export function topUp(id: string, facts: View = null, reload: () => Promise<void> = loadBudgets): void {
  const add = writerAsking("To add it, choose Top up again.");
  askUser({
    title: `Top up ${id}`,
    action: "Top up",
    text: html`Adds to the current period alone. ${facts}`,
    fields: [{ name: "units", ...amountField("Amount"), isRequired: true }],
    run: async ({ units = "" }) => {
      const added = readAdded("Amount", units);
      const { granted } = (await read<BudgetReport>(at(id))).body;
      const change = { added, given: granted, to: "budget" } as const;
      await add({ path: `${at(id)}/top-up`, body: { units: added }, units: added, change });
      await reload();
      return `${id} is topped up.`;
    },
  });
}

const takeBack = (id: string, reload: () => Promise<void>): void => {
  const take = writerAsking("To take it, choose Take again.");
  askUser({
    title: `Take from ${id}`,
    action: "Take",
    text: "Takes from the current period alone, such as a mistaken top-up. What is used or held stays.",
    fields: [{ name: "units", ...amountField("Amount"), isRequired: true }],
    run: async ({ units = "" }) => {
      const taken = readAdded("Amount", units);
      await take({ path: `${at(id)}/lower`, body: { units: taken }, units: taken });
      await reload();
      return `${id} has less.`;
    },
  });
};

const remove = ({ id, available }: BudgetTold): void =>
  askUser({
    title: `Remove ${id}`,
    action: "Remove",
    isDangerous: true,
    text: `What is left of it, ${amountInWords(available)}, is forgotten, and its id cannot be used again. Its books stay for audits.`,
    run: async (_values, write) => {
      await write("DELETE", at(id), {});
      // Its own view has nothing more to show.
      if (shownPart.value !== "budgets") go(addressOf("budgets"));
      await loadBudgets();
      return `${id} is removed.`;
    },
  });

/** Returns the days of a period, by the clocks of its time zone. */
export function daysOf({ startsAt, endsAt, timeZone = "UTC" }: BudgetTold | PeriodTold): Choices {
  if (startsAt === undefined || endsAt === undefined) return {};
  return { since: dayIn(timeZone, startsAt), until: dayIn(timeZone, endsAt - 1) };
}

/** Links to the calls of a period of a budget. */
const linksOf = (name: string, period: BudgetTold | PeriodTold): View =>
  html`<${CallLinks}
    name=${name}
    spend=${{ by: "key,model", ...ALL_DAYS, ...daysOf(period), budget: period.id }}
    refusals=${{ ...daysOf(period), budget: period.id }}
  />`;

/** Returns the columns of the books of budgets, or of periods. */
function booksOf(rows: readonly (BudgetTold | PeriodTold)[]): readonly Column<BudgetTold | PeriodTold>[] {
  const ofGranted = amountsIn(rows.map(({ granted }) => granted));
  const ofAvailable = amountsIn(
    rows.map(({ available }) => available),
    "down",
  );
  return [
    { name: amountsNamed("Granted"), isNumber: true, cell: ({ granted }) => ofGranted(granted) },
    spentColumn(
      rows,
      (row) => row,
      (row) => row,
    ),
    {
      name: amountsNamed("Available"),
      isNumber: true,
      cell: ({ available, gap, granted }) =>
        html`${ofAvailable(available)}${available <= 0 && (granted > 0 ? html`<${Nothing} />` : html`<span class="empty zero">amount is 0</span>`)}${gap !== undefined && html`<span class="quiet long">top-ups first fill <${Amount} of=${gap} rounding="up" /></span>`}`,
    },
  ];
}

/** @param reload Loads what is shown again. */
export const columnsOf = (
  rows: readonly BudgetTold[],
  hasCalls: boolean,
  reload: () => Promise<void> = loadBudgets,
): readonly Column<BudgetTold>[] => {
  const ofAmount = amountsIn(rows.map(({ amount }) => amount));
  const periodOf = (parent = "") => (rows.find(({ id }) => id === parent) ?? knownById.value.get(parent))?.period;
  return [
    {
      name: "Budget",
      cell: (budget) =>
        html`<a class="id" href=${addressOf("budget", { id: budget.id })} onClick=${follow}>${withEscapes(budget.id)}</a
          ><${Name} of=${budget.name} id=${budget.id} /> ${hasCalls && linksOf(budget.id, budget)}
          ${
            budget.period &&
            html`<span class="quiet links"
              ><a href=${addressOf("budgets", { periods: budget.id })} onClick=${follow}
                >Earlier periods<span class="unseen"> of ${budget.id}</span></a
              ></span
            >`
          }`,
    },
    {
      name: amountsNamed("Amount"),
      isNumber: true,
      cell: ({ amount, period }) =>
        html`${ofAmount(amount)}<span class="quiet whole">${period ? PERIODS[period] : "once"}</span>`,
    },
    ...booksOf(rows),
    {
      name: "Begins anew",
      cell: ({ endsAt, parent, timeZone = "UTC" }) =>
        endsAt === undefined
          ? html`never${periodOf(parent) && html`<span class="empty zero">unlike its parent</span>`}`
          : html`<${Time} at=${endsAt} zone=${timeZone} /><span class="quiet">${timeZone}</span>`,
    },
    {
      name: "Parent",
      cell: ({ parent }) =>
        parent === undefined
          ? "–"
          : html`<a class="long" href=${addressOf("budget", { id: parent })} onClick=${follow}
              >${withEscapes(parent)}</a
            >`,
    },
    {
      name: "Change",
      isChange: true,
      cell: (budget) => {
        const { id } = budget;
        return html`<div class="row-buttons">
          <${RowButton} name="Edit" row=${id} onClick=${() => edit(id, reload)} />
          <${RowButton} name="Top up" row=${id} onClick=${() => topUp(id, null, reload)} />
          <${RowMenu} row=${id}>
            <${RowButton} name="Take" row=${id} onClick=${() => takeBack(id, reload)} />
            <${RowButton} name="Remove" row=${id} onClick=${() => remove(budget)} />
          <//>
        </div>`;
      },
    },
  ];
};

const periodColumnsOf = (rows: readonly PeriodTold[], hasCalls: boolean): readonly Column<PeriodTold>[] => [
  {
    name: "Period",
    cell: (row) => {
      const { startsAt, endsAt, period, timeZone = "UTC", ended, id } = row;
      const name =
        startsAt === undefined || endsAt === undefined
          ? "without an end"
          : shownPeriod(timeZone, startsAt, endsAt, period === "month");
      return html`<span class="id">${name}</span>${!ended && html`<span class="quiet">current</span>`}
        ${hasCalls && linksOf(`${id}, ${name}`, row)}`;
    },
  },
  ...booksOf(rows),
];

/** Shows this period of a budget, and those that have ended, the latest first. */
function Periods({ id, hasCalls }: { id: string; hasCalls: boolean }): View {
  const rows = periods.value;
  const [first] = rows ?? [];
  const name = first?.name ?? id;
  return html`<header class="tools">
      <h2 tabindex="-1">Periods of ${name}</h2>
      ${rows && html`<${Csv} addressOf=${(file: Readonly<Record<string, string>>) => `${at(id)}/periods?${new URLSearchParams(file)}`} currency=${pageCurrency.value} />`}
    </header>
    <p class="more"><a href=${addressOf("budgets")} onClick=${follow}>All budgets</a></p>
    ${rows && html`<p class="quiet">The budget ${id}, by the clocks of ${first?.timeZone ?? "UTC"}. A period in which no call came and nobody changed the budget is not listed.</p>`}
    <${Table}
      caption=${`Periods of ${name}`}
      columns=${periodColumnsOf(rows ?? [], hasCalls)}
      rows=${rows}
      keyOf=${({ startsAt = 0 }: PeriodTold) => String(startsAt)}
      empty="There is no period yet."
    />
    ${rows && rows.every(({ ended }) => !ended) && html`<p class="quiet">No listed period has ended yet.</p>`}
    ${earlier.value !== null && html`<${More} name="Earlier periods" load=${() => loadPeriods(earlier.value ?? 0)} />`}`;
}

/** True for a budget whose id or name has the text of the filter. */
const isFound = ({ id, name }: BudgetTold): boolean =>
  `${id}\n${name}`.toLowerCase().includes(find.value.toLowerCase());

export function Budgets({ calls }: { calls: boolean }): View {
  if (ofPeriods.value !== "")
    return html`<section>
      <${Periods} id=${ofPeriods.value} hasCalls=${calls} />
    </section>`;
  const rows = budgets.value?.filter(isFound);
  return html`<section>
    <header class="tools">
      <h2 tabindex="-1">Budgets</h2>
      ${mayChange.value && html`<button type="button" class="main" onClick=${create}>New budget</button>`}
      <${Filters} chosen=${find.value === "" ? 0 : 1}>
        <${Filter}
          label="Find"
          of=${find}
          example="id or name"
          onChange=${() => noteChoices("budgets", { find: find.value || undefined })}
        />
        <${CsvOfList}
          name="budgets"
          pages=${() => pagesOf<BudgetTold>("budgets")}
          matches=${isFound}
          csvOf=${listCsvOf("budgets")}
        />
      <//>
    </header>
    <${Table}
      caption="Budgets"
      columns=${columnsOf(rows ?? [], calls)}
      rows=${rows}
      keyOf=${({ id }: BudgetTold) => id}
      empty=${find.value === "" ? `There is no budget yet.${mayChange.value ? " New budget makes the first one." : ""}` : "There is no such budget."}
    />
    ${find.value !== "" && rows && html`<p class="quiet">${plain.format(rows.length)} of ${plain.format(budgets.value?.length ?? 0)} budgets are shown.</p>`}
    <${BudgetList} of=${budgets.value ?? []} />
  </section>`;
}
