/** The view of one key: its state and limits, what it has spent this month, its last failed calls, and its running ones. */

import { type Signal, signal } from "@preact/signals";
import { withEscapes } from "../../../model/visible.ts";
import type { UsageReport } from "../../../stores/calls.ts";
import type { ExplainedCall } from "../../http/call-operations.ts";
import type { KeyShown } from "../../key-state.ts";
import { addressOf, ALL_DAYS, follow, noteChoices } from "./address.ts";
import { amountInWords, pageCurrency, plain } from "./amounts.ts";
import { apart, type Listed, loadsOf, type Me, mayChange, queryOf, read } from "./api.ts";
import { BudgetName, loadKnownBudgets, topUp } from "./budgets.ts";
import { changesOf, Left, quotaOf, State } from "./keys.ts";
import { columnsAt, type Running, stopAll } from "./live.ts";
import {
  amountsIn,
  amountsNamed,
  Breakable,
  CallId,
  Code,
  type Column,
  html,
  Part,
  RowButton,
  RowMenu,
  spentColumn,
  Table,
  Time,
  type View,
  Waiting,
} from "./parts.ts";
import { Ended, Reason, shownReasons, UNANSWERED_ENDS } from "./refusals.ts";
import { monthAgo, sentenceOf } from "./spend.ts";

const keyId = signal("");
const has: Signal<Pick<Me, "budgets" | "calls" | "live">> = signal({ budgets: false, calls: false, live: false });
const shown: Signal<KeyShown | undefined> = signal(undefined);
const month = apart<UsageReport>();
const failed = apart<Listed<ExplainedCall>>();
const running = apart<Running>();

/** The failed calls that are listed: the view of calls has all. */
export const FAILED_LISTED = "5";

/** Shows the key that the address names. */
export async function openKey(asked: URLSearchParams, parts: Pick<Me, "budgets" | "calls" | "live">): Promise<void> {
  const id = asked.get("id") ?? "";
  if (id !== keyId.value) for (const part of [shown, month.of, failed.of, running.of]) part.value = undefined;
  [keyId.value, has.value] = [id, parts];
  noteChoices("key", { id });
  await loadKey();
}

const load = loadsOf("key");

async function loadKey(): Promise<void> {
  const [id, { budgets, calls, live }] = [keyId.value, has.value];
  const [since, until] = monthAgo(0);
  await load(
    async (isLatest) => {
      // An unknown key has one error, and not that of its calls.
      const { body: key } = await read<KeyShown>(`keys/${encodeURIComponent(id)}`);
      if (!isLatest()) return;
      document.title = document.title.replace(/^Key(?= · )/, () => `Key ${id}`);
      shown.value = key;
      await Promise.all([
        calls && month.load(`usage?${queryOf({ key: id, since, until })}`, isLatest),
        calls && failed.load(`calls?${queryOf({ key: id, outcome: UNANSWERED_ENDS, limit: FAILED_LISTED })}`, isLatest),
        live && running.load(`live?${queryOf({ key: id })}`, isLatest),
        budgets && loadKnownBudgets(),
      ]);
    },
    () => void (shown.value = undefined),
  );
}

/** A limit of the key: its own quota, or a budget. */
interface Limit {
  /** The id of the budget. Absent for the quota. */
  readonly budget?: string;
  readonly granted: number;
  readonly spent: number;
  readonly held: number;
  readonly overdraft: number;
  readonly available: number;
}

/** Returns the limits of a key, from its own to the budget at the top. */
function limitsOf(key: KeyShown): readonly Limit[] {
  const { spent, held, overdraft, budgets = [] } = key;
  const quota = quotaOf(key);
  return [
    ...(quota ? [{ ...quota, spent, held, overdraft }] : []),
    ...budgets.map(({ id: budget, used, ...rest }) => ({ ...rest, budget, spent: used - rest.held + rest.overdraft })),
  ];
}

const limitColumnsOf = (rows: readonly Limit[]): readonly Column<Limit>[] => {
  const granted = amountsIn(rows.map((row) => row.granted));
  const available = amountsIn(
    rows.map((row) => row.available),
    "down",
  );
  return [
    {
      name: "Limit",
      cell: ({ budget }) => (budget === undefined ? "Its own quota" : html`<${BudgetName} id=${budget} />`),
    },
    { name: amountsNamed("Granted"), isNumber: true, cell: (row) => granted(row.granted) },
    spentColumn(
      rows,
      (row) => row,
      (row) => row,
    ),
    { name: amountsNamed("Left"), isNumber: true, cell: (row) => available(row.available) },
    {
      name: "Change",
      isChange: true,
      cell: ({ budget }) =>
        budget !== undefined &&
        html`<div class="row-buttons">
          <${RowButton} name="Top up" row=${budget} onClick=${() => topUp(budget, null, loadKey)} />
        </div>`,
    },
  ];
};

const FAILED_COLUMNS: readonly Column<ExplainedCall>[] = [
  { name: "Call", cell: ({ requestId, at }) => html`<${Time} at=${at} isRecord /><${CallId} id=${requestId} />` },
  { name: "Model", cell: ({ modelAsked }) => html`<span class="long">${withEscapes(modelAsked ?? "–")}</span>` },
  {
    name: "Outcome",
    cell: ({ outcome, status, errorCode }) =>
      html`<${Ended} as=${outcome} /><span class="quiet"
          >${status} ${errorCode && html`<${Code} word=${errorCode} />`}</span
        >`,
  },
  {
    name: "Reasons",
    isWide: true,
    cell: (call) =>
      html`<ul class="reasons" role="list">
        ${shownReasons(call).map((text) => html`<li><${Reason} text=${text} refusedBy=${call.refusedBy} /></li>`)}
      </ul>`,
  },
];

/** Lists the last calls of a key or a budget that were refused or failed. */
export const FailedCalls = ({ rows, empty }: { rows: readonly ExplainedCall[]; empty: string }): View =>
  html`<${Table}
    caption="Last calls that were refused or failed"
    columns=${FAILED_COLUMNS}
    rows=${rows}
    keyOf=${({ requestId }: ExplainedCall) => requestId}
    empty=${empty}
  />`;

/** The changes that have a button beside the heading. The others are behind one. */
const OFTEN: ReadonlySet<string> = new Set(["Edit", "Add quota", "New secret", "Pause", "Resume"]);

function Changes({ of: key }: { of: KeyShown }): View {
  const changes = changesOf(key, loadKey);
  if (!mayChange.value || changes.length === 0) return null;
  const buttonOf = ([name, run]: (typeof changes)[number]) =>
    html`<${RowButton} name=${name} row=${key.id} onClick=${run} />`;
  return html`<div class="row-buttons">
    ${changes.filter(([name]) => OFTEN.has(name)).map(buttonOf)}
    <${RowMenu} row=${key.id}>${changes.filter(([name]) => !OFTEN.has(name)).map(buttonOf)}<//>
  </div>`;
}

const Facts = ({ of: key }: { of: KeyShown }): View => {
  const { id, name, models, metadata = {}, secrets, left } = key;
  const notes = Object.entries(metadata);
  return html`<dl class="facts">
    ${
      name !== id &&
      html`<dt>Name</dt>
        <dd class="long">${withEscapes(name)}</dd>`
    }
    <dt>State</dt>
    <dd><${State} of=${key} /></dd>
    <dt>${amountsNamed("Left")}</dt>
    <dd><${Left} of=${key} amount=${amountsIn(left === null ? [] : [left], "down")} /></dd>
    <dt>Secrets</dt>
    <dd>${plain.format(secrets)}</dd>
    <dt>Models</dt>
    <dd class="long">${models ? models.map((model) => withEscapes(model)).join(", ") || "none" : "every model"}</dd>
    ${
      notes.length > 0 &&
      html`<dt>Metadata</dt>
        <dd>
          ${notes.map(([name, text]) => html`<span class="note">${name}=<wbr /><${Breakable} text=${withEscapes(text)} /></span>`)}
        </dd>`
    }
  </dl>`;
};

function Month({ of: { total, currency = pageCurrency.value } }: { of: UsageReport }): View {
  const id = keyId.value;
  return html`${
      total.calls > 0
        ? html`<p class="sum" title=${amountInWords(total.units, currency)}>${sentenceOf(total, currency)}</p>`
        : html`<p class="quiet">No call of the key is recorded in this month.</p>`
    }
    <p class="more">
      <a href=${addressOf("spend", { by: "model,day", key: id })} onClick=${follow}>Its spend by model and day</a>, or
      ${" "}<a href=${addressOf("spend", { by: "month", ...ALL_DAYS, key: id })} onClick=${follow}>by month</a>
    </p>`;
}

function RunningCalls({ of: { at, data, total }, calls }: { of: Running; calls: boolean }): View {
  return html`<${Table}
      caption="Calls that run in this process"
      columns=${columnsAt(at, calls, loadKey, false)}
      rows=${data}
      keyOf=${({ requestId }: Running["data"][number]) => requestId}
      empty="No call of the key runs."
      isDense
    />
    ${total > data.length && html`<p class="quiet">These are the oldest of ${plain.format(total)} calls.</p>`}`;
}

export function Key({ calls, live }: Me): View {
  const id = keyId.value;
  const key = shown.value;
  return html`<section>
    <p class="more"><a href=${addressOf("keys")} onClick=${follow}>All keys</a></p>
    <header class="tools">
      <h2 tabindex="-1">Key ${withEscapes(id)}</h2>
      ${key && html`<${Changes} of=${key} />`}
      <button type="button" onClick=${loadKey}>Look again</button>
    </header>
    ${key ? html`<${Facts} of=${key} />` : html`<${Waiting} />`}
    ${
      key &&
      html`<h3>Limits</h3>
        <${Table}
          caption="Limits"
          columns=${limitColumnsOf(limitsOf(key))}
          rows=${limitsOf(key)}
          keyOf=${({ budget = "" }: Limit) => budget}
          empty="Nothing limits what its calls cost."
        />`
    }
    ${key && calls && html`<${Part} name="This month" part=${month} view=${(body: UsageReport) => html`<${Month} of=${body} />`} />`}
    ${
      key &&
      calls &&
      html`<${Part}
          name="Last calls that were refused or failed"
          part=${failed}
          view=${({ data }: Listed<ExplainedCall>) => html`<${FailedCalls} rows=${data} empty="No call of the key was refused or failed." />`}
        />
        <p class="more">
          <a href=${addressOf("calls", { key: id, end: UNANSWERED_ENDS })} onClick=${follow}>All of them</a>, or
          ${" "}<a href=${addressOf("calls", { key: id, end: "all" })} onClick=${follow}>all its calls</a>
        </p>`
    }
    ${
      key &&
      live &&
      html`<${Part}
          name="Calls that run in this process"
          part=${running}
          view=${(body: Running) => html`<${RunningCalls} of=${body} calls=${calls} />`}
        />
        ${
          // Calls may run that the page has not seen yet.
          mayChange.value &&
          html`<p class="more">
            <button type="button" class="danger" onClick=${() => stopAll(id, loadKey)}>Stop all its calls</button>
          </p>`
        }`
    }
  </section>`;
}
