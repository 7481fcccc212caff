/** The view of spend: a chart of the days, and a table by team, budget, model, key, upstream or day. */

import { signal } from "@preact/signals";
import type { UsageColumn, UsageReport, UsageRow } from "../../../stores/calls.ts";
import { CURRENCY, plain, shownAmount } from "./amounts.ts";
import { attempt, read } from "./api.ts";
import { html, type View } from "./html.ts";
import { Bar, type Column, Select, Table } from "./parts.ts";

const BY: Readonly<Record<UsageColumn, string>> = {
  group: "Team",
  budget: "Budget",
  model: "Model",
  key: "Key",
  upstream: "Upstream",
  day: "Day",
};

/** The most columns of the chart. Earlier days are in the table. */
const MOST_DAYS = 92;

/** The local day of some days ago, as an address has it. */
function dayAgo(days: number): string {
  const date = new Date();
  date.setDate(date.getDate() - days);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()]
    .map((part) => String(part).padStart(2, "0"))
    .join("-");
}

const by = signal<UsageColumn>("group");
const since = signal(dayAgo(30));
const until = signal("");
const report = signal<(UsageReport & { readonly next: number | null }) | undefined>(undefined);
const days = signal<readonly UsageRow[]>([]);

const addressOf = (column: UsageColumn, more: Readonly<Record<string, string>>): string => {
  const range = { ...(since.value && { since: since.value }), ...(until.value && { until: until.value }) };
  return `usage?${new URLSearchParams({ by: column, ...range, ...more })}`;
};

export async function loadSpend(): Promise<void> {
  await attempt(async () => {
    const column = by.value;
    const address = addressOf(column, {});
    const [rows, perDay] = await Promise.all([
      read<UsageReport & { readonly next: number | null }>(address),
      read<UsageReport>(addressOf("day", { limit: "100000" })),
    ]);
    // The answers to an earlier choice may come last.
    if (address !== addressOf(by.value, {})) return;
    report.value = rows.body;
    days.value = perDay.body.rows.slice(-MOST_DAYS);
  });
}

const columnsOf = (column: UsageColumn, total: number): readonly Column<UsageRow>[] => [
  { name: BY[column], cell: (row) => html`<span class="id">${row[column] || "–"}</span>` },
  {
    name: "Spent",
    isNumber: true,
    cell: ({ units }) => html`${shownAmount(units)}<${Bar} used=${units} of=${total} isShare />`,
  },
  { name: "Calls", isNumber: true, cell: ({ calls }) => plain.format(calls) },
  { name: "Refused", isNumber: true, cell: ({ refused }) => plain.format(refused) },
  { name: "Failed", isNumber: true, cell: ({ failed }) => plain.format(failed) },
  { name: "Input tokens", isNumber: true, cell: ({ inputTokens }) => plain.format(inputTokens) },
  { name: "Output tokens", isNumber: true, cell: ({ outputTokens }) => plain.format(outputTokens) },
];

const DAY_MS = 86_400_000;
const MONTH_DAYS = 30;

/** Returns every day from the first to the last, also days without a call; at least a month. */
function everyDay(rows: readonly UsageRow[]): readonly Pick<UsageRow, "day" | "units">[] {
  const unitsOn = new Map(rows.map(({ day, units }) => [day, units]));
  const [first, last] = [rows[0], rows.at(-1)].map((row) => Date.parse(row?.day ?? ""));
  if (!first || !last) return [];
  const from = Math.min(first, last - (MONTH_DAYS - 1) * DAY_MS);
  return Array.from({ length: (last - from) / DAY_MS + 1 }, (_, at) => {
    const day = new Date(from + at * DAY_MS).toISOString().slice(0, 10);
    return { day, units: unitsOn.get(day) ?? 0 };
  });
}

/** Shows the days as columns. Screen readers hear its range and its highest day; the table has every number. */
function Chart({ rows }: { rows: readonly UsageRow[] }): View {
  const shown = everyDay(rows);
  const most = Math.max(1, ...rows.map(({ units }) => units));
  const highest = rows.find(({ units }) => units === most);
  const [first, last] = [shown[0], shown.at(-1)];
  if (!first || !last || !highest) return null;
  const words = `Spend by day from ${first.day} to ${last.day}. The highest is ${shownAmount(most)} on ${highest.day}.`;
  return html`<figure>
    <svg viewBox=${`0 0 ${shown.length * 10} 100`} preserveAspectRatio="none" role="img" aria-label=${words}>
      ${shown.map(
        ({ day, units }, at) =>
          html`<rect x=${at * 10 + 1} y=${100 - (units / most) * 100} width="8" height=${(units / most) * 100}>
            <title>${day}: ${shownAmount(units)}</title>
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

export function Spend(): View {
  const { rows, total, next = null, by: [column = by.value] = [] } = report.value ?? {};
  const csv = addressOf(by.value, { format: "csv", ...(CURRENCY && { currency: CURRENCY }) });
  return html`<section aria-labelledby="spend-title">
    <header class="tools">
      <h2 id="spend-title">Spend</h2>
      <${Select} label="By" of=${by} choices=${Object.entries(BY)} onChange=${loadSpend} />
      <${DayField} label="From" of=${since} />
      <${DayField} label="To" of=${until} />
      <a class="button" href=${csv}>CSV</a>
    </header>
    ${total && html`<p class="sum">${shownAmount(total.units)} for ${plain.format(total.calls)} calls</p>`}
    <${Chart} rows=${days.value} />
    <${Table}
      caption="Spend"
      columns=${columnsOf(column, total?.units ?? 0)}
      rows=${rows}
      keyOf=${(row: UsageRow) => row[column] ?? ""}
      empty="No call is recorded in these days."
    />
    ${next !== null && html`<p class="quiet">These are the first ${plain.format(next)} rows. The CSV has all of them.</p>`}
  </section>`;
}
