/** The view of the log of changes, and the view of the gateway's health. */

import { signal } from "@preact/signals";
import { given } from "../../../model/json.ts";
import { visible } from "../../../model/visible.ts";
import type { GatewayHealth } from "../../../pipeline/health.ts";
import type { AuditRecord } from "../../../ports/audit-log.ts";
import type { UpstreamErrors, UpstreamStatus } from "../../../ports/observer.ts";
import { addressOf, assertDays, follow, noteChoices } from "./address.ts";
import { dayIn, pageCurrency, plain } from "./amounts.ts";
import { hasCalls, type Listed, load, loadsOf, read } from "./api.ts";
import { actionInWords, ACTIONS, changeInWords, refusalInWords } from "./change-words.ts";
import {
  Breakable,
  Code,
  type Column,
  Csv,
  DayField,
  Filter,
  Filters,
  html,
  More,
  Select,
  Table,
  Time,
  type View,
  Waiting,
} from "./parts.ts";
import { UNANSWERED_ENDS } from "./refusals.ts";

const changes = signal<readonly AuditRecord[] | undefined>(undefined);
const older = signal<string | null>(null);
/** The filters, by their names in the address. Every empty one lets all changes through. */
const filters = { user: signal(""), action: signal(""), target: signal(""), since: signal(""), until: signal("") };
const { user, action, target, since, until } = filters;

const ACTION_CHOICES = [["", "every change"], ...ACTIONS.map((one) => [one, actionInWords(one)] as const)] as const;

/** Lists the changes that the address asks for. */
export async function loadChanges(asked: URLSearchParams): Promise<void> {
  for (const [name, filter] of Object.entries(filters)) filter.value = asked.get(name) ?? "";
  await list();
}

/** Returns the beginning of a day, or of the next one, by the clock of the browser. */
function startOf(day: string, daysLater = 0): string {
  const start = new Date(`${day}T00:00`);
  start.setDate(start.getDate() + daysLater);
  return String(start.getTime());
}

const loadList = loadsOf("changes");

/** Returns the path of the chosen changes, without their days where these may be wrong. */
function auditPath(more: Readonly<Record<string, string>>, hasDays = true): string {
  const [first, last] = hasDays ? [since.value, until.value] : ["", ""];
  const chosen = { user: user.value, action: action.value, target: target.value };
  const days = { since: first && startOf(first), until: last && startOf(last, 1) };
  const words = Object.entries({ ...chosen, ...days, ...more }).filter(([, value]) => value !== "");
  return `audit?${new URLSearchParams(words)}`;
}

/** Lists the changes from the newest on, or goes on behind the last one. */
async function list(before?: string): Promise<void> {
  const chosen = Object.entries(filters).flatMap(([name, { value }]) => (value === "" ? [] : [[name, value] as const]));
  noteChoices("changes", Object.fromEntries(chosen));
  // The button for older changes would go on with the earlier choice.
  if (before === undefined) older.value = null;
  await loadList(
    async (isLatest) => {
      await assertDays(since.value, until.value, auditPath({ limit: "100" }, false));
      const { body } = await read<Listed<AuditRecord>>(auditPath({ limit: "100", ...given({ before }) }));
      if (!isLatest()) return;
      changes.value = before === undefined ? body.data : [...(changes.value ?? []), ...body.data];
      older.value = body.next;
    },
    before === undefined ? () => void (changes.value = undefined) : undefined,
  );
}

const again = (): Promise<void> => list();

export const CHANGE_COLUMNS: readonly Column<AuditRecord>[] = [
  { name: "Time", cell: ({ at }) => html`<${Time} at=${at} isRecord />` },
  { name: "User", cell: ({ user }) => html`<span class="long"><${Breakable} text=${visible(user)} /></span>` },
  { name: "Change", cell: ({ action }) => html`<span class="action">${actionInWords(action)}</span>` },
  { name: "Of", cell: ({ target }) => html`<span class="long">${visible(target ?? "–")}</span>` },
  {
    name: "Fields",
    isWide: true,
    cell: (change) => changeInWords(change).map((words) => html`<span class="note">${words}</span>`),
  },
  {
    name: "Outcome",
    cell: ({ state, reason }) =>
      html`<span class=${`state ${state ?? "unknown"}`}>${state ?? "unknown"}</span
        >${reason && html`<span class="quiet">${refusalInWords(reason)}</span>`}`,
  },
];

/** The id of the list of users, for the field. */
const USERS = "known-users";

const NONE = "This admin has changed nothing yet. In a SQL database, changes by the command line stand here, too.";
const NO_SUCH = "No change matches. A user and an id match as a whole.";

export function Changes(): View {
  const isFiltered = Object.values(filters).some(({ value }) => value !== "");
  const users = new Set(changes.value?.map((change) => change.user));
  return html`<section>
    <header class="tools">
      <h2 tabindex="-1">Changes</h2>
      <${Filters} chosen=${Object.values(filters).filter(({ value }) => value !== "").length}>
        <${Filter} label="User" of=${user} list=${USERS} example="whole name" onChange=${again} />
        <datalist id=${USERS}>${[...users].map((name) => html`<option value=${name}></option>`)}</datalist>
        <${Select} label="Change" of=${action} choices=${ACTION_CHOICES} onChange=${again} />
        <${Filter} label="Of" of=${target} example="id" hint="The id of a key or a budget." onChange=${again} />
        <${DayField} label="From" of=${since} onChange=${again} />
        <${DayField} label="To" of=${until} onChange=${again} />
        <${Csv} addressOf=${auditPath} currency=${pageCurrency.value} />
      <//>
    </header>
    <${Table}
      caption="Changes"
      columns=${CHANGE_COLUMNS}
      rows=${changes.value}
      keyOf=${({ id }: AuditRecord) => id}
      empty=${isFiltered ? NO_SUCH : NONE}
    />
    ${older.value !== null && html`<${More} name="Older changes" load=${() => list(older.value ?? "")} />`}
  </section>`;
}

/** The health, and the time of the look at it. */
const looked = signal<{ readonly health: GatewayHealth; readonly at: number } | undefined>(undefined);

export async function loadHealth(): Promise<void> {
  await load(async () => {
    looked.value = { health: (await read<GatewayHealth>("health")).body, at: Date.now() };
  });
}

/** The errors of an upstream, in words. */
type ToldErrors = UpstreamErrors & { readonly reason: string; readonly remedy?: string };

/** Returns the address of the calls that an upstream has not answered. Their days are those of the recorder's zone, often UTC. */
const unansweredBy = (upstream: string, since: number): string =>
  addressOf("calls", {
    upstream,
    since: [dayIn("UTC", since), dayIn(undefined, since)].toSorted()[0],
    end: UNANSWERED_ENDS,
  });

/** Says that an upstream answers no call, and what helps. A single key may be the cause itself. */
const Failing = ({ upstream, errors }: { upstream: string; errors: ToldErrors }): View => {
  const { code, reason, remedy, times, since, ofOneKey } = errors;
  const words = `${plain.format(times)} failed calls`;
  return html`<span class=${`state ${ofOneKey ? "refused" : "failed"}`}>answers no call</span> <${Code} word=${code} />
    <span class="quiet sentence">${reason}</span>
    <span class="quiet sentence"
      >${
        hasCalls.value
          ? html`<a href=${unansweredBy(upstream, since)} onClick=${follow}
              >${words}<span class="unseen"> by ${upstream}</span></a
            >`
          : words
      }${" "}since <${Time} at=${since}
    /></span>
    ${ofOneKey && html`<span class="quiet sentence">All calls were of one key, and may be the cause.</span>`}
    ${remedy && html`<span class="quiet sentence">${remedy}</span>`}`;
};

const UPSTREAM_COLUMNS: readonly Column<UpstreamStatus>[] = [
  { name: "Upstream", cell: ({ upstream }) => upstream },
  { name: "Route", cell: ({ route }) => route },
  {
    name: "Circuit breaker",
    // A closed one is no good sign where no call is answered: it opens for failures alone.
    cell: ({ state, failing, lastFailure }) => {
      const isBad = (failing ?? lastFailure?.mistake) !== undefined;
      return isBad && state === "closed"
        ? html`<span class="state">${state}</span><span class="quiet">Calls still go to it.</span>`
        : html`<span class=${`state ${state}`}>${state}</span>`;
    },
  },
  { name: "Rests for", isNumber: true, cell: ({ waitMs }) => (waitMs > 0 ? `${Math.ceil(waitMs / 1_000)} s` : "–") },
  {
    name: "Last failure",
    isWide: true,
    cell: ({ upstream, lastFailure, failing }) =>
      failing
        ? html`<${Failing} upstream=${upstream} errors=${failing} />`
        : lastFailure
          ? html`<${Code} word=${lastFailure.code} /><span class="quiet sentence"
                >The last call failed: <${Time} at=${lastFailure.at}
              /></span>
              ${lastFailure.mistake && html`<span class="quiet sentence">${lastFailure.mistake}</span>`}`
          : "–",
  },
];

export function Health(): View {
  const { health, at = 0 } = looked.value ?? {};
  const { ready, closing, calls, waitingSettlements, stores = {}, reasons = {}, upstreams = [] } = health ?? {};
  const [words, look] = closing ? ["closing", "closing"] : ready ? ["ready", "ready"] : ["not ready", "failed"];
  return html`<section>
    <header class="tools">
      <h2 tabindex="-1">Health</h2>
      <span class="quiet" role="status">${health && html`At <${Time} at=${at} isRecord />`}</span>
      <button type="button" onClick=${loadHealth}>Look again</button>
    </header>
    ${
      !health
        ? html`<${Waiting} />`
        : html`<p class="quiet">Of the process that has answered. Where several run, each has a health of its own.</p>
            <dl class="facts">
              <dt>Gateway</dt>
              <dd>
                <span class=${`state ${look}`}>${words}</span>
              </dd>
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
