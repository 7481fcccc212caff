/** The view of refusals: recent calls that were refused or have failed, with their reasons, and any call by its request id. */

import { signal } from "@preact/signals";
import type { RecordedCall } from "../../../stores/calls.ts";
import { shownAmount, shownTime } from "./amounts.ts";
import { attempt, type Listed, read } from "./api.ts";
import { type Column, html, ROUTE, Select, Table, type View } from "./parts.ts";

type Call = RecordedCall & { readonly reasons: readonly string[] };

const calls = signal<readonly Call[] | undefined>(undefined);
const next = signal<string | null>(null);
const outcome = signal("refused");

/** Lists the calls from the latest on, or goes on behind the last one. */
export async function loadRefusals(after?: string): Promise<void> {
  await attempt(async () => {
    const query = new URLSearchParams({
      limit: "100",
      ...(outcome.value && { outcome: outcome.value }),
      ...(after !== undefined && { after }),
    });
    const { body } = await read<Listed<Call>>(`calls?${query}`);
    calls.value = after === undefined ? body.data : [...(calls.value ?? []), ...body.data];
    next.value = body.next;
  });
}

async function search(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  // The cast is safe: no form has a field for files.
  const id = (new FormData(event.target as HTMLFormElement).get("request-id") as string).trim();
  if (id === "") return loadRefusals();
  calls.value = [];
  next.value = null;
  await attempt(async () => {
    calls.value = [(await read<Call>(`calls/${encodeURIComponent(id)}`)).body];
  });
}

const COLUMNS: readonly Column<Call>[] = [
  {
    name: "Call",
    cell: ({ requestId, at }) => html`${shownTime(at)}<span class="quiet"><code>${requestId}</code></span>`,
  },
  {
    name: "Key",
    cell: ({ keyId, group }) => html`${keyId ?? "–"}${group && html`<span class="quiet">${group}</span>`}`,
  },
  { name: "Model", cell: ({ modelAsked }) => html`<span class="long">${modelAsked ?? "–"}</span>` },
  ROUTE,
  {
    name: "End",
    cell: ({ outcome: end, status, errorCode }) =>
      html`<span class=${`state ${end}`}>${end}</span><span class="quiet">${status} ${errorCode}</span>`,
  },
  {
    name: "Reasons",
    isWide: true,
    cell: ({ reasons }) =>
      html`<ul class="reasons">
        ${reasons.map((reason) => html`<li>${reason}</li>`)}
      </ul>`,
  },
  { name: "Spent", isNumber: true, cell: ({ units }) => shownAmount(units) },
];

const OUTCOMES = [
  ["refused", "refused"],
  ["failed", "failed"],
  ["", "every call"],
] as const;

export function Refusals(): View {
  return html`<section aria-labelledby="refusals-title">
    <header class="tools">
      <h2 id="refusals-title">Refusals</h2>
      <form role="search" onSubmit=${search}>
        <label>Request id <input type="search" name="request-id" autocomplete="off" /></label>
        <button>Find</button>
      </form>
      <${Select} label="End" of=${outcome} choices=${OUTCOMES} onChange=${() => loadRefusals()} />
    </header>
    <${Table}
      caption="Refusals"
      columns=${COLUMNS}
      rows=${calls.value}
      keyOf=${({ requestId }: Call) => requestId}
      empty="No such call is recorded."
    />
    ${next.value !== null && html`<button type="button" onClick=${() => loadRefusals(next.value ?? "")}>Older calls</button>`}
  </section>`;
}
