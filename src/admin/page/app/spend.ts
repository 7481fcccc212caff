/** The view of spend: a chart of the days, and a table by one or two columns. The address holds the choice, so that it can be linked. */

import { type Signal, signal } from "@preact/signals";
import type { BudgetReport } from "../../../stores/budgets.ts";
import type { UsageColumn, UsageReport, UsageRow } from "../../../stores/calls.ts";
import { noteChoices } from "./address.ts";
import { callsOf, CURRENCY, formatFor, plain } from "./amounts.ts";
import { attempt, type Listed, load, read } from "./api.ts";
import { amountsIn, Bar, type Column, html, Select, Table, type View } from "./parts.ts";

/** The headings of the columns, by their names in the API. */
const COLUMNS: Readonly<Record<UsageColumn, string>> = {
  budget: "Budget",
  group: "Group",
  model: "Model",
  key: "Key",
  upstream: "Upstream",
  day: "Day",
  month: "Month",
};

/** The most days in the chart. Earlier days are in the table. */
const MOST_DAYS = 366;

const isColumn = (text: string): text is UsageColumn => Object.hasOwn(COLUMNS, text);

/** Formats a local day, such as `2026-11-28`. */
const dayOf = (date: Date): string =>
  [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");

/** Returns the first and the last day of the month of a date. */
const monthOf = (date: Date): readonly [since: string, until: string] => [
  dayOf(new Date(date.getFullYear(), date.getMonth(), 1)),
  dayOf(new Date(date.getFullYear(), date.getMonth() + 1, 0)),
];

/** Returns the first and the last day of this month, or of a month before. */
function monthAgo(months: number): readonly [since: string, until: string] {
  const now = new Date();
  return monthOf(new Date(now.getFullYear(), now.getMonth() - months));
}

/** The first column; empty before the choice. */
const by: Signal<UsageColumn | ""> = signal("");
/** The second column; empty for none. */
const andBy: Signal<UsageColumn | ""> = signal("");
const [thisMonth, untilThisMonth] = monthAgo(0);
const since = signal(thisMonth);
const until = signal(untilThisMonth);
/** True to show also the rows without a charge. */
const isWithFree = signal(false);
/** The spreadsheet of the CSV; empty for programs. */
const spreadsheet = signal("");
type Report = UsageReport & { readonly next: number | null };
/** The loaded report, and the days of its chart. */
const report: Signal<(Report & { readonly days: readonly ShownDay[] }) | undefined> = signal(undefined);

/** Returns the chosen columns. */
const chosen = (): UsageColumn[] => [by.value || "group", andBy.value].filter((one) => one !== "");

const daysChosen = (): Readonly<Record<string, string>> => ({
  ...(since.value && { since: since.value }),
  ...(until.value && { until: until.value }),
});

/** Writes the query of the report that is chosen. */
const queryOf = (more: Readonly<Record<string, string>> = {}): string => {
  const rows: Readonly<Record<string, string>> = isWithFree.value ? {} : { charged: "true" };
  return String(new URLSearchParams({ by: chosen().join(","), ...daysChosen(), ...rows, ...more }));
};

/** Takes the choice from the address, if it has one. */
function readAddress(asked: URLSearchParams): void {
  if (!["by", "month", "since", "until", "free"].some((name) => asked.has(name))) return;
  isWithFree.value = asked.get("free") === "true";
  const [first, second] = (asked.get("by") ?? "").split(",").filter(isColumn);
  by.value = first ?? by.value;
  andBy.value = first && second ? second : "";
  for (const [name, of] of [["since", since] as const, ["until", until] as const]) {
    const day = asked.get(name) ?? "";
    of.value = /^\d{4}-\d\d-\d\d$/.test(day) ? day : "";
  }
  // The API and the command line take a month, too.
  const month = asked.get("month") ?? "";
  if (/^\d{4}-(?:0[1-9]|1[0-2])$/.test(month)) [since.value, until.value] = monthOf(new Date(`${month}-01T00:00`));
}

/**
 * Shows what the address asks for.
 *
 * @param hasBudgets True when the host's store has budgets.
 */
export async function openSpend(asked: URLSearchParams, hasBudgets: boolean): Promise<void> {
  readAddress(asked);
  if (by.value === "") {
    let budgets = 0;
    await attempt(async () => {
      if (hasBudgets) budgets = (await read<Listed<BudgetReport>>("budgets?limit=1")).body.data.length;
    });
    by.value ||= budgets > 0 ? "budget" : "group";
  }
  await loadSpend();
}

async function loadSpend(): Promise<void> {
  if (andBy.value === by.value) andBy.value = "";
  const query = queryOf();
  noteChoices("spend", { by: chosen().join(","), ...daysChosen(), free: isWithFree.value ? "true" : "" });
  await load(async () => {
    const [rows, perDay] = await Promise.all([
      read<Report>(`usage?${query}`),
      read<UsageReport>(`usage?${new URLSearchParams({ by: "day", ...daysChosen(), limit: "100000" })}`),
    ]);
    // The answers to an earlier choice may come last.
    if (query !== queryOf()) return;
    report.value = { ...rows.body, days: everyDay(perDay.body.rows) };
  });
}

/** The words in the place of an empty column. */
const NOTHING: Readonly<Record<UsageColumn, string>> = {
  budget: "no budget",
  group: "no group",
  model: "no model",
  key: "no key",
  upstream: "no upstream",
  day: "no day",
  month: "no month",
};

/** The calls behind a row without a model. */
const withoutModel = ({ units }: UsageRow): string =>
  units > 0 ? "calls without a record" : "refused calls, or lists";

function nameOf(row: UsageRow, column: UsageColumn): View {
  const id = row[column];
  const name = column === "key" ? row.keyName : column === "budget" ? row.budgetName : undefined;
  const more = id ? (name === id ? "" : name) : column === "model" ? withoutModel(row) : "";
  return html`<span class=${id ? "id" : ""}>${id || NOTHING[column]}</span
    >${more && html`<span class="quiet">${more}</span>`}`;
}

const columnsOf = (
  columns: readonly UsageColumn[],
  total: number,
  shown: ShownAmounts,
): readonly Column<UsageRow>[] => [
  ...columns.map((column) => ({ name: COLUMNS[column], cell: (row: UsageRow) => nameOf(row, column) })),
  {
    name: "Spent",
    isNumber: true,
    cell: (row) => html`${shown(row)}<${Bar} used=${row.units} of=${total} isShare />`,
  },
  { name: "Calls", isNumber: true, cell: ({ calls }) => plain.format(calls) },
  { name: "Refused", isNumber: true, cell: ({ refused }) => plain.format(refused) },
  { name: "Failed", isNumber: true, cell: ({ failed }) => plain.format(failed) },
  { name: "Input tokens", isNumber: true, cell: ({ inputTokens }) => plain.format(inputTokens) },
  { name: "Output tokens", isNumber: true, cell: ({ outputTokens }) => plain.format(outputTokens) },
];

const DAY_MS = 86_400_000;

type ShownDay = Pick<UsageRow, "day" | "units">;

/** Returns every chosen day, also days without a call. Without a choice, they go from the first call to the last one, or to today. */
function everyDay(rows: readonly UsageRow[]): readonly ShownDay[] {
  if (rows.length === 0) return [];
  const unitsOn = new Map(rows.map(({ day, units }) => [day, units]));
  const last = Date.parse(until.value || [rows.at(-1)?.day ?? "", dayOf(new Date())].toSorted()[1] || "");
  const first = Math.max(Date.parse(since.value || rows[0]?.day || ""), last - (MOST_DAYS - 1) * DAY_MS);
  return Array.from({ length: Math.max(0, (last - first) / DAY_MS + 1) }, (_, at) => {
    const day = new Date(first + at * DAY_MS).toISOString().slice(0, 10);
    return { day, units: unitsOn.get(day) ?? 0 };
  });
}

type ShownAmounts = (row: UsageRow) => ReturnType<ReturnType<typeof amountsIn>>;

/** Returns a function that shows the amounts of the rows, so that they add up to their sum. */
function amountsOf(rows: readonly UsageRow[]): ShownAmounts {
  const all = rows.map(({ units }) => units);
  const [amount, rounded] = [amountsIn(all), formatFor(all).addUp(all)];
  const shown = new Map(rows.map((row, at) => [row, rounded[at]]));
  return (row) => amount(row.units, shown.get(row));
}

/** Shows the days as columns. Screen readers hear its range and its highest day; the table has every number. */
function Chart({ days, amount }: { days: readonly ShownDay[]; amount: (units: number) => string }): View {
  const most = Math.max(1, ...days.map(({ units }) => units));
  const highest = days.find(({ units }) => units === most);
  const [first, last] = [days[0], days.at(-1)];
  if (!first || !last || !highest) return null;
  const words = `Spend by day from ${first.day} to ${last.day}. The highest is ${amount(most)} on ${highest.day}.`;
  return html`<figure>
    <svg viewBox=${`0 0 ${days.length * 10} 100`} preserveAspectRatio="none" role="img" aria-label=${words}>
      ${days.map(
        ({ day, units }, at) =>
          html`<rect x=${at * 10 + 1} y=${100 - (units / most) * 100} width="8" height=${(units / most) * 100}>
            <title>${day}: ${amount(units)}</title>
          </rect>`,
      )}
    </svg>
    <figcaption class="quiet" aria-hidden="true">${words}</figcaption>
  </figure>`;
}

const DayField = ({ label, of }: { label: string; of: typeof since }): View =>
  html`<label
    >${label}
    <input
      type="date"
      value=${of.value}
      onChange=${(event: Event) => {
        of.value = (event.target as HTMLInputElement).value;
        void loadSpend();
      }}
    />
  </label>`;

/** The readers of the CSV. */
const SPREADSHEETS = [
  ["", "programs"],
  ["excel", "Excel (12.50)"],
  ["excel-europe", "Excel (12,50)"],
] as const;

const PRESETS = [
  ["This month", 0],
  ["Last month", 1],
] as const;

function Preset({ name, months }: { name: string; months: number }): View {
  const [first, last] = monthAgo(months);
  const choose = (): void => {
    [since.value, until.value] = [first, last];
    void loadSpend();
  };
  const isChosen = since.value === first && until.value === last;
  return html`<button type="button" aria-pressed=${isChosen} onClick=${choose}>${name}</button>`;
}

export function Spend(): View {
  const columns = chosen();
  const { rows, total, next = null, days = [], by: shown = columns } = report.value ?? {};
  const file = spreadsheet.value ? { spreadsheet: spreadsheet.value } : { format: "csv" };
  const csv = `usage?${queryOf({ ...file, ...(CURRENCY && { currency: CURRENCY }) })}`;
  const sum = formatFor((rows ?? []).map(({ units }) => units));
  const names = Object.entries(COLUMNS);
  const others = [["", "nothing"], ...names.filter(([column]) => column !== columns[0])];
  return html`<section aria-labelledby="spend-title">
    <header class="tools">
      <h2 id="spend-title">Spend</h2>
      <${Select} label="By" of=${by} choices=${names} onChange=${loadSpend} />
      <${Select} label="and by" of=${andBy} choices=${others} onChange=${loadSpend} />
      <${DayField} label="From" of=${since} />
      <${DayField} label="To" of=${until} />
      ${PRESETS.map(([name, months]) => html`<${Preset} name=${name} months=${months} />`)}
      <label>
        <input
          type="checkbox"
          checked=${isWithFree.value}
          onChange=${(event: Event) => {
            isWithFree.value = (event.target as HTMLInputElement).checked;
            void loadSpend();
          }}
        />
        Rows without a charge
      </label>
      <${Select} label="CSV for" of=${spreadsheet} choices=${SPREADSHEETS} onChange=${() => {}} />
      <a class="button" href=${csv}>CSV</a>
    </header>
    ${total && html`<p class="sum">${sum.shown(total.units)} for ${callsOf(total, next === null ? rows : undefined)}</p>`}
    <${Chart} days=${days} amount=${sum.shown} />
    <${Table}
      caption="Spend"
      columns=${columnsOf(shown, total?.units ?? 0, amountsOf(rows ?? []))}
      rows=${rows}
      keyOf=${(row: UsageRow) => JSON.stringify(shown.map((column) => row[column]))}
      empty=${total?.calls ? "No call of these days was charged." : "No call is recorded in these days."}
    />
    ${next !== null && html`<p class="quiet">These are the first ${plain.format(next)} rows. The CSV has all of them.</p>`}
  </section>`;
}
