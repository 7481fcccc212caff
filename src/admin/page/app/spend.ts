/** The view of spend: a chart of the days, and a table by some columns. The address holds the choice, so that it can be linked. */

import { type Signal, signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { mixedInWords } from "../../../model/money.ts";
import { withEscapes } from "../../../model/visible.ts";
import type { BudgetReport } from "../../../stores/budgets.ts";
import type { UsageColumn, UsageReport, UsageRow, UsageSums } from "../../../stores/calls.ts";
import {
  addressOf,
  ALL_DAYS,
  assertDays,
  budgetOf,
  type Choices,
  follow,
  isDay,
  noteChoices,
  type Scope,
  scopeIn,
} from "./address.ts";
import {
  amountInWords,
  axisFormat,
  isRounded,
  pageCurrency,
  plain,
  recordedCurrency,
  spentInWords,
  shortDay,
  shownDay,
} from "./amounts.ts";
import { attempt, type Listed, loadsOf, read } from "./api.ts";
import { BudgetFilter, loadKnownBudgets, takeName } from "./budgets.ts";
import {
  amountsIn,
  amountsNamed,
  Bar,
  Chips,
  type Column,
  Csv,
  DayField,
  Filters,
  html,
  Name,
  Select,
  Table,
  type View,
} from "./parts.ts";
import { FAILED_ENDS } from "./refusals.ts";

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

/** The most rows in the table. */
const MOST_ROWS = 1_000;
/** The most rows of a report. The table shows the rows with the largest spend. */
const MOST_LOADED = "100000";
/** The days that the chart has room for at least: fewer days are no wider. */
const FEWEST_DAYS = 14;
/** The most days in the chart. Earlier days are in the table. */
const MOST_DAYS = 366;

/** Formats a local day, such as `2026-11-28`. */
const dayOf = (date: Date): string =>
  [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");

/** Returns the first and the last day of the month of a date. */
const monthOf = (date: Date): readonly [since: string, until: string] => [
  dayOf(new Date(date.getFullYear(), date.getMonth(), 1)),
  dayOf(new Date(date.getFullYear(), date.getMonth() + 1, 0)),
];

/** Returns the first and the last day of this month, or of a month before. */
export function monthAgo(months: number): readonly [since: string, until: string] {
  const now = new Date();
  return monthOf(new Date(now.getFullYear(), now.getMonth() - months));
}

/** The columns, before the choice none. The server refuses an unknown one from an address. */
const by: Signal<readonly string[]> = signal([]);
const [thisMonth, untilThisMonth] = monthAgo(0);
const since = signal(thisMonth);
const until = signal(untilThisMonth);
/** `true` to leave out the rows without a charge. The server refuses any other text from an address. */
const charged = signal("");
/** The order of the rows, as its user has chosen it: the largest spend first, or by their names. */
const order = signal("");
/** True for rows whose names are times. */
const isByTime = (): boolean => by.value[0] === "day" || by.value[0] === "month";
/** The order of the rows for a field. Without a choice, rows of days or months stand by their times, and all others by their spend. */
const shownOrder = {
  get value() {
    return order.value || (isByTime() ? "name" : "spend");
  },
  set value(chosen: string) {
    order.value = chosen;
  },
};
/** The filters of the counted calls. */
const scope: Signal<Scope> = signal({});
const budget = budgetOf(scope);
type Report = UsageReport & { readonly next: number | null };
/** The loaded report, and the days of its chart. `isCut` is true where earlier days have no room in the chart. */
const report: Signal<(Report & { readonly days: readonly ShownDay[]; readonly isCut: boolean }) | undefined> =
  signal(undefined);

/** Returns one of the columns, for a field. An empty one is left out, and one that is chosen twice stays in its first place. */
const columnOf = (at: number) => ({
  get value() {
    return by.value[at] ?? "";
  },
  set value(chosen: string) {
    by.value = [...new Set(by.value.toSpliced(at, 1, chosen))].filter((one) => one !== "");
  },
});

const daysChosen = (): Readonly<Record<string, string>> => ({
  ...(since.value && { since: since.value }),
  ...(until.value && { until: until.value }),
});

/** Returns the days for an address, in which no days stand for this month, and an empty first day for all. */
const daysInAddress = (): Choices => (since.value || until.value ? daysChosen() : ALL_DAYS);

/** Writes the query of the report that is chosen. */
const queryOf = (more: Readonly<Record<string, string>> = {}, days = daysChosen()): string => {
  const rows = charged.value && { charged: charged.value };
  return String(new URLSearchParams({ by: by.value.join(","), ...days, ...scope.value, ...rows, ...more }));
};

/** Takes the choice from the address, if it has one. */
function readAddress(asked: URLSearchParams): void {
  scope.value = scopeIn(asked);
  order.value = asked.get("order") ?? "";
  if (!["by", "month", "since", "until", "charged"].some((name) => asked.has(name))) return;
  charged.value = asked.get("charged") ?? "";
  const columns = (asked.get("by") ?? "").split(",").filter((column) => column !== "");
  by.value = columns.length > 0 ? [...new Set(columns)] : by.value.slice(0, 1);
  const hasDays = asked.has("since") || asked.has("until");
  [since.value, until.value] = hasDays ? [asked.get("since") ?? "", asked.get("until") ?? ""] : monthAgo(0);
  // The API and the command line take a month, too.
  const month = asked.get("month") ?? "";
  if (isDay(`${month}-01`)) [since.value, until.value] = monthOf(new Date(`${month}-01T00:00`));
  else if (month !== "") since.value = month;
}

/**
 * Shows what the address asks for.
 *
 * @param hasBudgets True when the host's store has budgets.
 */
export async function openSpend(asked: URLSearchParams, hasBudgets: boolean): Promise<void> {
  readAddress(asked);
  await takeName(budget, hasBudgets ? loadKnownBudgets() : Promise.resolve());
  if (by.value.length === 0) {
    let budgets = 0;
    await attempt(async () => {
      if (hasBudgets) budgets = (await read<Listed<BudgetReport>>("budgets?limit=1")).body.data.length;
    });
    if (by.value.length === 0) by.value = [budgets > 0 ? "budget" : "group"];
  }
  await loadSpend();
}

/** Returns the rows that are shown, in the chosen order. Rows of the same spend stay in the order of their names. */
function firstRowsOf({ rows, next, ...report }: Report): Report {
  if (shownOrder.value === "name") return { rows, next, ...report };
  const sorted = rows.toSorted((a, b) => b.units - a.units);
  return { rows: sorted.slice(0, MOST_ROWS), next: sorted.length > MOST_ROWS ? MOST_ROWS : next, ...report };
}

const load = loadsOf("spend");
const clear = (): void => void (report.value = undefined);

async function loadSpend(): Promise<void> {
  const wanted = shownOrder.value;
  noteChoices("spend", {
    by: by.value.join(","),
    ...daysInAddress(),
    ...scope.value,
    charged: charged.value || undefined,
    order: order.value || undefined,
  });
  await load(async (isLatest) => {
    const isOrder = wanted === "spend" || wanted === "name";
    const others = isOrder ? [] : [`Order must be spend or name, not ${wanted}.`];
    await assertDays(since.value, until.value, `usage?${queryOf({ limit: "1" }, {})}`, others);
    const ofDays = new URLSearchParams({ by: "day", ...daysChosen(), ...scope.value, limit: MOST_LOADED });
    const ofRows = queryOf(wanted === "spend" ? { limit: MOST_LOADED } : {});
    const [rows, perDay] = await Promise.all([read<Report>(`usage?${ofRows}`), read<UsageReport>(`usage?${ofDays}`)]);
    if (!isLatest()) return;
    const days = everyDay(perDay.body.rows);
    const isCut = (perDay.body.rows[0]?.day ?? "") < (days[0]?.day ?? "");
    report.value = { ...firstRowsOf(rows.body), days, isCut };
  }, clear);
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
const withoutModel = ({ units, calls, refused, failed }: UsageRow): string =>
  units > 0
    ? "calls without a record"
    : [
        ...(refused > 0 ? ["refused calls"] : []),
        ...(failed > 0 ? ["failed calls"] : []),
        ...(refused + failed < calls ? ["lists, or calls that ended early"] : []),
      ].join(", ");

/** The filter of a column's cells. Days and months have none. */
const FILTERS: Readonly<Partial<Record<UsageColumn, keyof Scope>>> = {
  budget: "ownBudget",
  group: "group",
  model: "model",
  key: "key",
  upstream: "upstream",
};

/** Returns the address of the spend of a cell alone, by a column that still tells its calls apart. Undefined for a day or a month. */
function partOf(row: UsageRow, column: UsageColumn): string | undefined {
  const filter = FILTERS[column];
  if (filter === undefined) return undefined;
  const rest: Scope = { ...scope.value, [filter]: row[column] ?? "" };
  const next = (["key", "model"] as const).find((one) => rest[one] === undefined) ?? "day";
  return addressOf("spend", { by: next, ...daysInAddress(), ...rest, order: order.value || undefined });
}

function nameOf(row: UsageRow, column: UsageColumn): View {
  const id = row[column];
  const name = column === "key" ? row.keyName : column === "budget" ? row.budgetName : undefined;
  const more = !id && column === "model" ? withoutModel(row) : "";
  const [words, part] = [id ? withEscapes(id) : NOTHING[column], partOf(row, column)];
  return html`<span class=${id ? "id" : ""}
      >${part === undefined ? words : html`<a href=${part} onClick=${follow}>${words}</a>`}</span
    >${id ? html`<${Name} of=${name} id=${id} />` : more && html`<span class="quiet">${more}</span>`}`;
}

/** Returns the address of the refused or failed calls that a row, or a sum of rows, counts. */
function callsOf(sum: "refused" | "failed", columns: readonly UsageColumn[], row: UsageRow): string {
  const { day, month, budget, ...same } = Object.fromEntries(columns.map((column) => [column, row[column]]));
  const [first, last] = day ? [day, day] : month ? monthOf(new Date(`${month}-01T00:00`)) : [];
  const choices: Choices = {
    since: first !== undefined && first > since.value ? first : since.value || undefined,
    until: last !== undefined && (until.value === "" || last < until.value) ? last : until.value || undefined,
    ...scope.value,
    ...same,
    ...(budget !== undefined && { ownBudget: budget }),
    ...(sum === "failed" && { end: FAILED_ENDS }),
  };
  return addressOf("calls", choices);
}

/** Shows the number of refused or failed calls, with a link to them. */
const linkedIn =
  (sum: "refused" | "failed", columns: readonly UsageColumn[]) =>
  (row: UsageRow): View | string =>
    row[sum] > 0
      ? html`<a href=${callsOf(sum, columns, row)} onClick=${follow}
          >${plain.format(row[sum])}<span class="unseen"> ${sum} calls</span></a
        >`
      : plain.format(row[sum]);

const columnsOf = (
  columns: readonly UsageColumn[],
  all: readonly UsageSums[],
  { total, currency }: Pick<Report, "total" | "currency">,
): readonly Column<UsageRow>[] => {
  const amount = amountsIn(
    all.map(({ units }) => units),
    "up",
    currency,
  );
  return [
    ...columns.map((column) => ({ name: COLUMNS[column], cell: (row: UsageRow) => nameOf(row, column) })),
    {
      name: amountsNamed("Spent", currency),
      isNumber: true,
      cell: ({ units }) => html`${amount(units)}<${Bar} used=${units} of=${total.units} />`,
      sum: ({ units }) => amount(units),
    },
    { name: "Calls", isNumber: true, cell: ({ calls }) => plain.format(calls) },
    ...(["refused", "failed"] as const).map((sum) => ({
      name: sum === "refused" ? "Refused" : "Failed",
      isNumber: true,
      cell: linkedIn(sum, columns),
      // The rows that are left out have no filter of their own.
      sum: (row: UsageRow) => (row === total ? linkedIn(sum, [])(row) : plain.format(row[sum])),
    })),
    { name: "Input tokens", isNumber: true, cell: ({ inputTokens }) => plain.format(inputTokens) },
    { name: "Output tokens", isNumber: true, cell: ({ outputTokens }) => plain.format(outputTokens) },
  ];
};

/** Returns the sums of the rows that are not shown. Undefined if the shown rows have all calls. */
function hiddenIn(total: UsageSums, rows: readonly UsageSums[]): UsageSums | undefined {
  const { money: _, ...numbers } = total;
  const names = Object.keys(numbers) as (keyof typeof numbers)[];
  // The cast is safe: each name gets a number.
  const rest = Object.fromEntries(
    names.map((name) => [name, rows.reduce((left, row) => left - row[name], total[name])]),
  ) as unknown as UsageSums;
  return names.some((name) => rest[name] > 0) ? rest : undefined;
}

/** Says what a sum is for. */
export function sentenceOf(
  { units, calls, refused = 0, failed = 0 }: Pick<UsageSums, "units" | "calls"> & Partial<UsageSums>,
  currency: string,
): string {
  const parts = [
    ...(refused > 0 ? [`${plain.format(refused)} of them refused`] : []),
    ...(failed > 0 ? [`${plain.format(failed)} of them failed`] : []),
  ];
  return [
    `${spentInWords(units, currency)} for ${plain.format(calls)} ${calls === 1 ? "call" : "calls"}`,
    ...parts,
  ].join(", ");
}

const DAY_MS = 86_400_000;

type ShownDay = Readonly<Record<"day", string>> & Pick<UsageRow, "units" | "calls">;

/** Returns every chosen day, also days without a call. Without a choice, they go from the first call to the last one, or to today. */
function everyDay(rows: readonly UsageRow[]): readonly ShownDay[] {
  if (rows.length === 0) return [];
  const sumsOn = new Map(rows.map(({ day, units, calls }) => [day, { units, calls }]));
  const last = Date.parse(until.value || [rows.at(-1)?.day ?? "", dayOf(new Date())].toSorted()[1] || "");
  const first = Math.max(Date.parse(since.value || rows[0]?.day || ""), last - (MOST_DAYS - 1) * DAY_MS);
  return Array.from({ length: Math.max(0, (last - first) / DAY_MS + 1) }, (_, at) => {
    const day = new Date(first + at * DAY_MS).toISOString().slice(0, 10);
    return { day, ...(sumsOn.get(day) ?? { units: 0, calls: 0 }) };
  });
}

/** The heights of the chart, in pixels: of the line for the day in focus, of its columns, and of both with the days below. */
const [CHART_TOP, CHART_PLOT, CHART_HEIGHT] = [26, 150, 200];

/** Returns the smallest step of 1, 2 or 5 times a power of ten that divides an amount into four parts at most. */
function stepOf(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  return Math.max(1, [1, 2, 5, 10].map((times) => times * power).find((step) => step * 4 >= most) ?? most);
}

/** The keys that lead from one day of the chart to another. */
const CHART_KEYS: Readonly<Record<string, (at: number, last: number) => number>> = {
  ArrowLeft: (at) => Math.max(0, at - 1),
  ArrowRight: (at, last) => Math.min(last, at + 1),
  Home: () => 0,
  End: (_at, last) => last,
};

/** Shows the days as columns. The chart is one stop of the keyboard, and the arrow keys lead from day to day. */
function Chart({ days, isCut, currency }: { days: readonly ShownDay[]; isCut: boolean; currency: string }): View {
  const [chosen, choose] = useState(0);
  const most = Math.max(0, ...days.map(({ units }) => units));
  const highest = days.find(({ units }) => units === most);
  const [first, last] = [days[0], days.at(-1)];
  if (!first || !last || !highest || most === 0) return null;
  const step = stepOf(most);
  const top = Math.ceil(most / step) * step;
  const axis = axisFormat(step, currency);
  const heightOf = (units: number): number => (units / top) * CHART_PLOT;
  const bottom = CHART_TOP + CHART_PLOT;
  const slots = Math.max(days.length, FEWEST_DAYS);
  const percentOf = (slot: number): string => `${(slot / slots) * 100}%`;
  const everyDays = slots <= 14 ? 3 : Math.ceil(slots / 35) * 7;
  const stop = Math.min(chosen, days.length - 1);
  const move = (event: KeyboardEvent): void => {
    const to = CHART_KEYS[event.key]?.(stop, days.length - 1);
    if (to === undefined) return;
    event.preventDefault();
    (event.currentTarget as SVGElement).querySelectorAll<SVGElement>(".day")[to]?.focus();
  };
  const words = `Spend by day from ${shownDay(first.day)} to ${shownDay(last.day)}. The highest is ${spentInWords(most, currency)} on ${shownDay(highest.day)}.${isCut ? ` Earlier days have no room here: the chart has the last ${MOST_DAYS} days.` : ""}`;
  const asTable = addressOf("spend", { by: "day", ...daysInAddress(), ...scope.value });
  return html`<figure>
    <svg
      height=${CHART_HEIGHT}
      role="group"
      aria-label=${words}
      aria-description="Arrow keys move between days."
      onKeyDown=${move}
    >
      <g class="axis" aria-hidden="true">
        ${Array.from({ length: top / step + 1 }, (_, at) => {
          const y = bottom - heightOf(at * step);
          return html`<line x2="100%" y1=${y} y2=${y} /><text x="-60" y=${y + 4}>${axis(at * step)}</text>`;
        })}
      </g>
      ${days.map(({ day, units, calls }, at) => {
        const sums = `${shownDay(day)}: ${sentenceOf({ units, calls }, currency)}`;
        return html`<g
          class="day"
          role="img"
          aria-label=${sums}
          tabindex=${at === stop ? 0 : -1}
          onFocus=${() => choose(at)}
        >
          <rect class="slot" x=${percentOf(at)} y=${CHART_TOP} width=${percentOf(1)} height=${CHART_PLOT} />
          <rect
            x=${percentOf(at + 0.1)}
            y=${bottom - heightOf(units)}
            width=${percentOf(0.8)}
            height=${heightOf(units)}
          />
          <text x="100%" y="14">${sums}</text>
          ${at % everyDays === 0 && html`<text class="date" x=${percentOf(at + 0.5)} y=${bottom + 18}>${shortDay(day)}</text>`}
        </g>`;
      })}
    </svg>
    <figcaption class="quiet">
      <span aria-hidden="true">${words}</span>${" "}
      ${by.value.join() !== "day" && html`<a href=${asTable} onClick=${follow}>Show the days as a table</a>`}
    </figcaption>
  </figure>`;
}

const ordersOf = (isTime: boolean) =>
  [
    ["spend", "most spent first"],
    ["name", isTime ? "by time" : "by name"],
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

export function Spend({ budgets: hasBudgets }: { budgets: boolean }): View {
  const columns = by.value;
  const {
    rows,
    total,
    next = null,
    days = [],
    isCut = false,
    by: shown = [],
    currency = pageCurrency.value,
  } = report.value ?? {};
  const mixed = mixedInWords(report.value?.otherCurrencies, currency || undefined);
  const names = Object.entries(COLUMNS);
  const others = (at: number) => [
    ["", "nothing"],
    ...names.filter(([column]) => !columns.slice(0, at).includes(column)),
  ];
  const hidden = rows && total && hiddenIn(total, rows);
  const sums = total?.calls
    ? [...(hidden ? [[next === null ? "Rows without a charge" : "All other rows", hidden]] : []), ["Sum", total]]
    : [];
  return html`<section>
    <header class="tools">
      <h2 tabindex="-1">Spend</h2>
      <${Filters}>
        <${Select} label="By" of=${columnOf(0)} choices=${names} onChange=${loadSpend} />
        ${columns.map((_, at) => html`<${Select} label="and by" of=${columnOf(at + 1)} choices=${others(at + 1)} onChange=${loadSpend} />`)}
        <${DayField} label="From" of=${since} onChange=${loadSpend} />
        <${DayField} label="To" of=${until} onChange=${loadSpend} />
        <span class="presets"
          >${PRESETS.map(([name, months]) => html`<${Preset} name=${name} months=${months} />`)}</span
        >
        ${hasBudgets && html`<${BudgetFilter} of=${budget} hint="Also the calls of the budgets below it." onChange=${loadSpend} />`}
        <${Select} label="Order" of=${shownOrder} choices=${ordersOf(isByTime())} onChange=${loadSpend} />
        <label class="line">
          <input
            type="checkbox"
            checked=${charged.value === "true"}
            onChange=${(event: Event) => {
              charged.value = (event.target as HTMLInputElement).checked ? "true" : "";
              void loadSpend();
            }}
          />
          Only rows with a charge
        </label>
        <${Csv}
          addressOf=${(file: Readonly<Record<string, string>>) => `usage?${queryOf(file)}`}
          currency=${currency}
        />
      <//>
    </header>
    <${Chips}
      of=${scope.value}
      onRemove=${(rest: Scope) => {
        scope.value = rest;
        void loadSpend();
      }}
    />
    ${total && total.calls > 0 && html`<p class="sum" title=${amountInWords(total.units, currency)}>${sentenceOf(total, currency)}</p>`}
    ${total && total.estimated > 0 && html`<p class="quiet" title=${amountInWords(total.estimated, currency)}>Estimated part: ${spentInWords(total.estimated, currency)}.</p>`}
    ${
      (report.value?.currency ?? recordedCurrency.value) !== recordedCurrency.value &&
      html`<p class="quiet">
        These calls are recorded in ${currency}. The other parts show ${pageCurrency.value || "units"}.
      </p>`
    }
    ${mixed !== undefined && html`<p class="hint">${mixed}</p>`}
    <${Chart} days=${days} isCut=${isCut} currency=${currency} />
    <${Table}
      caption="Spend"
      columns=${total ? columnsOf(shown, [...(rows ?? []), total], { total, currency }) : []}
      rows=${rows}
      sums=${sums}
      isDense
      keyOf=${(row: UsageRow) => JSON.stringify(shown.map((column) => row[column]))}
      empty=${total?.calls ? `No call of these days was charged: ${sentenceOf(total, currency)}.` : "No call is recorded in these days."}
    />
    ${rows?.some(({ units }) => isRounded(units, currency)) && html`<p class="quiet">Amounts are rounded: point at an amount, or take the CSV, for all of its digits.</p>`}
    ${next !== null && html`<p class="quiet">These are the ${shownOrder.value === "spend" ? "largest" : "first"} ${plain.format(next)} rows. The CSV has all of them.</p>`}
  </section>`;
}
