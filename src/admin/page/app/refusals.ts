/** The view of refusals: recent calls that were refused or have failed, with their reasons, and any call by its request id. */

import { signal } from "@preact/signals";
import type { RecordedCall } from "../../../stores/calls.ts";
import { addressOf, follow, go, noteChoices } from "./address.ts";
import { plain } from "./amounts.ts";
import { type Listed, load, read } from "./api.ts";
import { amountsIn, type Column, html, ROUTE, Select, Table, Time, type View } from "./parts.ts";

type Call = RecordedCall & { readonly reasons: readonly string[] };

/** Calls of one key that have ended for the same reason, the latest first. */
type Calls = readonly [latest: Call, ...earlier: Call[]];

const calls = signal<readonly Call[] | undefined>(undefined);
const next = signal<string | null>(null);
const outcome = signal("refused");
/** The request id of the only call that is shown; empty for the list. */
const found = signal("");

const OUTCOMES = [
  ["refused", "refused"],
  ["failed", "failed"],
  ["all", "every call"],
] as const;

/** Shows what the address asks for: a call, or a list. */
export async function openRefusals(asked: URLSearchParams): Promise<void> {
  found.value = asked.get("call") ?? "";
  const end = asked.get("end") ?? "";
  outcome.value = OUTCOMES.some(([one]) => one === end) ? end : "refused";
  if (found.value === "") return loadRefusals();
  calls.value = [];
  next.value = null;
  await load(async () => {
    calls.value = [(await read<Call>(`calls/${encodeURIComponent(found.value)}`)).body];
  });
}

/** Lists the calls from the latest on, or goes on behind the last one. */
async function loadRefusals(after?: string): Promise<void> {
  found.value = "";
  noteChoices("refusals", { end: outcome.value === "refused" ? "" : outcome.value });
  await load(async () => {
    const query = new URLSearchParams({
      limit: "100",
      ...(outcome.value !== "all" && { outcome: outcome.value }),
      ...(after !== undefined && { after }),
    });
    const { body } = await read<Listed<Call>>(`calls?${query}`);
    calls.value = after === undefined ? body.data : [...(calls.value ?? []), ...body.data];
    next.value = body.next;
  });
}

function search(event: SubmitEvent): void {
  event.preventDefault();
  // The cast is safe: no form has a field for files.
  const call = (new FormData(event.target as HTMLFormElement).get("request-id") as string).trim();
  go(addressOf("refusals", { call }));
}

/** Groups calls by key, model, and the limit that refused them or the error with which they failed. */
const folded = (all: readonly Call[]): readonly Calls[] =>
  // The cast is safe: no group is empty.
  [...Map.groupBy(all, sortOf).values()] as unknown as readonly Calls[];

function sortOf({ requestId, outcome: end, refusedBy, attempts, ...call }: Call): string {
  if (end !== "refused" && end !== "failed") return requestId;
  const { kind, budget, group, model } = refusedBy ?? {};
  const tries = attempts.map(({ upstream, model: asked, status, errorCode }) => [upstream, asked, status, errorCode]);
  const { keyId, modelAsked, route, status, errorCode, errorField } = call;
  return JSON.stringify([
    end,
    keyId,
    modelAsked,
    route,
    status,
    errorCode,
    errorField,
    kind,
    budget,
    group,
    model,
    tries,
  ]);
}

const CallLink = ({ id }: { id: string }): View =>
  html`<a href=${addressOf("refusals", { call: id })} onClick=${follow}><code>${id}</code></a>`;

/** Shows a sentence with its times by the clocks of the browser. */
const Reason = ({ text }: { text: string }): View =>
  html`${text
    .split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/)
    .map((part, at) =>
      at % 2 === 1 && !Number.isNaN(Date.parse(part)) ? html`<${Time} at=${Date.parse(part)} />` : part,
    )}`;

const columnsOf = (rows: readonly Calls[]): readonly Column<Calls>[] => {
  const amount = amountsIn(rows.map(unitsOf));
  return [
    {
      name: "Call",
      cell: ([{ requestId, at }, ...earlier]) =>
        html`<${Time} at=${at} />
          <${CallLink} id=${requestId} />
          ${
            earlier.length > 0 &&
            html`<details>
              <summary>
                and ${plain.format(earlier.length)} more since <${Time} at=${earlier.at(-1)?.at ?? at} />
              </summary>
              <ul>
                ${earlier.map((call) => html`<li><${Time} at=${call.at} /> <${CallLink} id=${call.requestId} /></li>`)}
              </ul>
            </details>`
          }`,
    },
    {
      name: "Key",
      cell: ([{ keyId, group }]) => html`${keyId ?? "–"}${group && html`<span class="quiet">${group}</span>`}`,
    },
    { name: "Model", cell: ([{ modelAsked }]) => html`<span class="long">${modelAsked ?? "–"}</span>` },
    { name: ROUTE.name, cell: ([latest]) => ROUTE.cell(latest) },
    {
      name: "End",
      cell: ([{ outcome: end, status, errorCode }]) =>
        html`<span class=${`state ${end}`}>${end}</span><span class="quiet">${status} ${errorCode}</span>`,
    },
    {
      name: "Reasons",
      isWide: true,
      cell: ([{ reasons }]) =>
        html`<ul class="reasons">
          ${reasons.map((text) => html`<li><${Reason} text=${text} /></li>`)}
        </ul>`,
    },
    { name: "Spent", isNumber: true, cell: (row) => amount(unitsOf(row)) },
  ];
};

const unitsOf = (all: Calls): number => all.reduce((sum, { units }) => sum + units, 0);

export function Refusals(): View {
  const rows = calls.value && folded(calls.value);
  return html`<section aria-labelledby="refusals-title">
    <header class="tools">
      <h2 id="refusals-title">Refusals</h2>
      <form role="search" onSubmit=${search}>
        <label>Request id <input type="search" name="request-id" autocomplete="off" value=${found.value} /></label>
        <button>Find</button>
      </form>
      <${Select} label="End" of=${outcome} choices=${OUTCOMES} onChange=${() => loadRefusals()} />
    </header>
    <${Table}
      caption="Refusals"
      columns=${columnsOf(rows ?? [])}
      rows=${rows}
      keyOf=${([{ requestId }]: Calls) => requestId}
      empty="No such call is recorded."
    />
    ${next.value !== null && html`<button type="button" onClick=${() => loadRefusals(next.value ?? "")}>Older calls</button>`}
  </section>`;
}
