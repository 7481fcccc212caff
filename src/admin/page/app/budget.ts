/** The view of one budget: its books and its changes, the spend of its period by model, its keys, and its last failed calls. */

import { type Signal, signal } from "@preact/signals";
import { withEscapes } from "../../../model/visible.ts";
import type { AuditRecord } from "../../../ports/audit-log.ts";
import type { UsageReport, UsageRow } from "../../../stores/calls.ts";
import type { BudgetTold } from "../../answers.ts";
import type { ExplainedCall } from "../../http/call-operations.ts";
import type { KeyShown } from "../../key-state.ts";
import { addressOf, follow, noteChoices } from "./address.ts";
import { plain } from "./amounts.ts";
import { apart, type Listed, loadsOf, type Me, queryOf, read } from "./api.ts";
import { columnsOf, daysOf, loadKnownBudgets } from "./budgets.ts";
import { CHANGE_COLUMNS } from "./changes.ts";
import { FAILED_LISTED, FailedCalls } from "./key.ts";
import { booksColumns, firstColumns } from "./keys.ts";
import { type Column, html, Part, spentBy, Table, type View } from "./parts.ts";
import { UNANSWERED_ENDS } from "./refusals.ts";

const budgetId = signal("");
const hasCalls = signal(false);
const shown: Signal<BudgetTold | undefined> = signal(undefined);
const spend = apart<UsageReport>();
const keys = apart<Listed<KeyShown>>();
const failed = apart<Listed<ExplainedCall>>();
const events = apart<Listed<AuditRecord>>();

/** The models, keys and changes that are listed: other views have all. */
const LISTED = "20";

/** Shows the budget that the address names. */
export async function openBudget(asked: URLSearchParams, { calls }: Pick<Me, "calls">): Promise<void> {
  const id = asked.get("id") ?? "";
  if (id !== budgetId.value)
    for (const part of [shown, spend.of, keys.of, failed.of, events.of]) part.value = undefined;
  [budgetId.value, hasCalls.value] = [id, calls];
  noteChoices("budget", { id });
  await loadBudget();
}

const load = loadsOf("budget");

async function loadBudget(): Promise<void> {
  const [budget, calls] = [budgetId.value, hasCalls.value];
  await load(
    async (isLatest) => {
      const { body } = await read<BudgetTold>(`budgets/${encodeURIComponent(budget)}`);
      if (!isLatest()) return;
      document.title = document.title.replace(/^Budget(?= · )/, () => `Budget ${budget}`);
      shown.value = body;
      const ofSpend = { by: "model", budget, charged: "true", limit: LISTED, ...daysOf(body) };
      const ofFailed = { budget, outcome: UNANSWERED_ENDS, limit: FAILED_LISTED };
      await Promise.all([
        calls && spend.load(`usage?${queryOf(ofSpend)}`, isLatest),
        keys.load(`keys?${queryOf({ budget, limit: LISTED })}`, isLatest),
        calls && failed.load(`calls?${queryOf(ofFailed)}`, isLatest),
        events.load(`audit?${queryOf({ target: budget, limit: LISTED })}`, isLatest),
        loadKnownBudgets(),
      ]);
    },
    () => void (shown.value = undefined),
  );
}

const spendColumnsOf = ({ rows, currency }: UsageReport): readonly Column<UsageRow>[] => [
  { name: "Model", cell: ({ model = "" }) => html`<span class="long">${withEscapes(model || "no model")}</span>` },
  { name: "Calls", isNumber: true, cell: ({ calls }) => plain.format(calls) },
  spentBy(
    rows,
    ({ units }) => units,
    () => currency,
  ),
];

/** False for the change of a key that has the same id. */
const isOfBudgets = ({ action }: AuditRecord): boolean => action.startsWith("budgets.");

export function Budget({ calls }: Me): View {
  const [id, budget] = [budgetId.value, shown.value];
  return html`<section>
    <p class="more"><a href=${addressOf("budgets")} onClick=${follow}>All budgets</a></p>
    <header class="tools">
      <h2 tabindex="-1">Budget ${withEscapes(id)}</h2>
      <button type="button" onClick=${loadBudget}>Look again</button>
    </header>
    <${Table}
      caption=${`Budget ${id}`}
      columns=${columnsOf(budget ? [budget] : [], calls, loadBudget)}
      rows=${budget && [budget]}
      keyOf=${(one: BudgetTold) => one.id}
      empty=""
    />
    ${
      budget &&
      html`${
          calls &&
          html`<${Part}
            name="Spend of this period by model"
            part=${spend}
            view=${(report: UsageReport) => html`<${Table} caption="Spend of this period by model" columns=${spendColumnsOf(report)} rows=${report.rows} keyOf=${({ model = "" }: UsageRow) => model} empty="No call of the budget has cost anything in this period." />`}
          />`
        }
        <${Part}
          name="Keys that draw on it themselves"
          part=${keys}
          view=${({ data }: Listed<KeyShown>) => html`<${Table} caption="Keys that draw on it themselves" columns=${[...firstColumns(false), ...booksColumns(data)]} rows=${data} keyOf=${(key: KeyShown) => key.id} empty="No key draws on the budget itself." />`}
        />
        <p class="more"><a href=${addressOf("keys", { budget: id })} onClick=${follow}>All its keys</a></p>
        ${
          calls &&
          html`<${Part}
              name="Last calls that were refused or failed"
              part=${failed}
              view=${({ data }: Listed<ExplainedCall>) => html`<${FailedCalls} rows=${data} empty="No call of the budget was refused or failed." />`}
            />
            <p class="more">
              <a href=${addressOf("calls", { budget: id, end: UNANSWERED_ENDS })} onClick=${follow}>All of them</a>
            </p>`
        }
        <${Part}
          name="Last changes"
          part=${events}
          view=${({ data }: Listed<AuditRecord>) => html`<${Table} caption="Last changes" columns=${CHANGE_COLUMNS} rows=${data.filter(isOfBudgets)} keyOf=${(one: AuditRecord) => one.id} empty="The log of changes has none of this budget." />`}
        />
        <p class="more"><a href=${addressOf("changes", { target: id })} onClick=${follow}>All its changes</a></p>`
    }
  </section>`;
}
