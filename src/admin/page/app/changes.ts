/** The view of the log of changes, and the view of the gateway's health. */

import { signal } from "@preact/signals";
import type { GatewayHealth } from "../../../pipeline/health.ts";
import type { AuditRecord } from "../../../ports/audit-log.ts";
import type { UpstreamStatus } from "../../../ports/observer.ts";
import { type Listed, load, read } from "./api.ts";
import { actionInWords, fieldsInWords } from "./change-words.ts";
import { type Column, html, More, Table, Time, type View, Waiting } from "./parts.ts";

const changes = signal<readonly AuditRecord[] | undefined>(undefined);
const older = signal<string | null>(null);

export async function loadChanges(before?: string): Promise<void> {
  await load(async () => {
    const query = new URLSearchParams({ limit: "100", ...(before !== undefined && { before }) });
    const { body } = await read<Listed<AuditRecord>>(`audit?${query}`);
    changes.value = before === undefined ? body.data : [...(changes.value ?? []), ...body.data];
    older.value = body.next;
  });
}

const CHANGE_COLUMNS: readonly Column<AuditRecord>[] = [
  { name: "Time", cell: ({ at }) => html`<${Time} at=${at} />` },
  { name: "User", cell: ({ user }) => user },
  { name: "Change", cell: ({ action }) => html`<span class="action">${actionInWords(action)}</span>` },
  { name: "Of", cell: ({ target }) => html`<span class="long">${target ?? "–"}</span>` },
  {
    name: "Fields",
    isWide: true,
    cell: ({ changes: fields = {}, action }) =>
      fieldsInWords(fields, action).map((words) => html`<span class="note">${words}</span>`),
  },
  {
    name: "Outcome",
    cell: ({ state, reason }) =>
      html`<span class=${`state ${state ?? "unknown"}`}>${state ?? "unknown"}</span
        >${reason && html`<span class="quiet">${reason}</span>`}`,
  },
];

export function Changes(): View {
  return html`<section aria-labelledby="changes-title">
    <header class="tools"><h2 id="changes-title" tabindex="-1">Changes</h2></header>
    <${Table}
      caption="Changes"
      columns=${CHANGE_COLUMNS}
      rows=${changes.value}
      keyOf=${({ id }: AuditRecord) => id}
      empty="This admin has changed nothing yet. Changes by the command line are not among these."
    />
    ${older.value !== null && html`<${More} name="Older changes" load=${() => loadChanges(older.value ?? "")} />`}
  </section>`;
}

const health = signal<GatewayHealth | undefined>(undefined);

export async function loadHealth(): Promise<void> {
  await load(async () => {
    health.value = (await read<GatewayHealth>("health")).body;
  });
}

const UPSTREAM_COLUMNS: readonly Column<UpstreamStatus>[] = [
  { name: "Upstream", cell: ({ upstream }) => upstream },
  { name: "Route", cell: ({ route }) => route },
  { name: "Circuit breaker", cell: ({ state }) => html`<span class=${`state ${state}`}>${state}</span>` },
  { name: "Rests for", isNumber: true, cell: ({ waitMs }) => (waitMs > 0 ? `${Math.ceil(waitMs / 1_000)} s` : "–") },
  {
    name: "Last failure",
    cell: ({ lastFailure }) =>
      lastFailure ? html`${lastFailure.code}<span class="quiet"><${Time} at=${lastFailure.at} /></span>` : "–",
  },
];

export function Health(): View {
  const { ready, closing, calls, waitingSettlements, stores = {}, reasons = {}, upstreams = [] } = health.value ?? {};
  const [words, look] = closing ? ["closing", "closing"] : ready ? ["ready", "ready"] : ["not ready", "failed"];
  return html`<section aria-labelledby="health-title">
    <header class="tools">
      <h2 id="health-title" tabindex="-1">Health</h2>
      <button type="button" onClick=${loadHealth}>Look again</button>
    </header>
    ${
      !health.value
        ? html`<${Waiting} />`
        : html`<dl class="facts">
              <dt>Gateway</dt>
              <dd><span class=${`state ${look}`}>${words}</span></dd>
              <dt>Running calls</dt>
              <dd>${calls}</dd>
              <dt>Ended calls, not charged yet</dt>
              <dd>${waitingSettlements}</dd>
              ${Object.entries(stores).map(
                ([store, state]) =>
                  html`<dt>${store.slice(0, 1).toUpperCase()}${store.slice(1).replaceAll("-", " ")}</dt>
                    <dd>
                      <span class=${`state ${state}`}>${state}</span
                      >${reasons[store as keyof typeof reasons] && html` <span class="quiet">${reasons[store as keyof typeof reasons]}</span>`}
                    </dd>`,
              )}
            </dl>
            <${Table}
              caption="Upstreams"
              columns=${UPSTREAM_COLUMNS}
              rows=${upstreams}
              keyOf=${({ route, upstream }: UpstreamStatus) => JSON.stringify([route, upstream])}
              empty="The backend has no upstreams."
            />`
    }
  </section>`;
}
