/** The view of recorded calls, of refused ones first, with their reasons, and of any call by its request id. */

import { type Signal, signal } from "@preact/signals";
import { withEscapes } from "../../../model/visible.ts";
import type { RecordedCall, UsageReport } from "../../../stores/calls.ts";
import { callsCsv } from "../../call-list.ts";
import type { Spreadsheet } from "../../columns.ts";
import type { ExplainedCall } from "../../http/call-operations.ts";
import type { KeyShown } from "../../key-state.ts";
import { requestIdIn } from "../../request-id.ts";
import {
  addressOf,
  assertDays,
  budgetOf,
  type Choices,
  follow,
  go,
  noteChoices,
  type Scope,
  scopeIn,
} from "./address.ts";
import { amountOf, OWN_ZONE, pageCurrency, plain, recordedCurrency } from "./amounts.ts";
import { attempt, type Listed, loadsOf, mayChange, pagesOf, queryOf, read, Refusal } from "./api.ts";
import { BudgetFilter, knownBudgets, loadKnownBudgets, takeName, topUp } from "./budgets.ts";
import { changeQuota, editKey, keysNamed, resume } from "./keys.ts";
import {
  CallId,
  Chips,
  Code,
  type Column,
  CsvOfList,
  DayField,
  Filter,
  Filters,
  html,
  More,
  Name,
  Select,
  spentBy,
  Table,
  Time,
  type View,
} from "./parts.ts";

type Call = ExplainedCall;
type ErrorCode = NonNullable<RecordedCall["errorCode"]>;

/** Calls of one key that have ended for the same reason, the latest first. */
type Calls = readonly [latest: Call, ...earlier: Call[]];

const calls = signal<readonly Call[] | undefined>(undefined);
const next = signal<string | null>(null);
/** The number of calls that the filters let through, by the sums of usage. Undefined where these cannot count them. */
const counted = signal<number | undefined>(undefined);
/** The request id of the only call that is shown; empty for the list. */
const found = signal("");
/** The filters. Every empty one but `end` lets all calls through. */
const [end, keyId, code, since, until] = [signal("refused"), signal(""), signal(""), signal(""), signal("")];
/** The reason why no call can have the chosen filters, such as a key that does not exist. Empty for none. */
const noneReason = signal("");
/** The recorded codes that the chosen one stands for. */
const meantCodes = signal<readonly string[]>([]);
/** The keys that the filter may mean, when it means several. */
const meantKeys = signal<readonly KeyShown[]>([]);
/** The filters that links choose. */
const scope: Signal<Scope> = signal({});
const budget = budgetOf(scope);

/** The ends of calls in words, each with the heading of a list of such calls. The compiler completes them. */
const ENDS = {
  refused: ["refused", "Refused calls"],
  failed: ["failed", "Failed calls"],
  deadline: ["took too long", "Calls that took too long"],
  shutdown: ["cut by a shutdown", "Calls cut by a shutdown"],
  "client-closed": ["caller hung up", "Calls whose caller hung up"],
  stopped: ["stopped", "Stopped calls"],
  unrecorded: ["unrecorded", "Unrecorded calls"],
  completed: ["completed", "Completed calls"],
} as const satisfies Record<RecordedCall["outcome"], readonly [word: string, heading: string]>;
/** The ends of calls that the sums of usage count as failed. */
export const FAILED_ENDS = "failed,deadline,shutdown";
/** The ends of calls that got no whole answer from an upstream. */
export const UNANSWERED_ENDS: string = `refused,${FAILED_ENDS}`;
/** The choices of ends in words, each with the heading of a list of such calls. */
const LISTS: Readonly<Record<string, readonly [words: string, heading: string]>> = {
  ...ENDS,
  [FAILED_ENDS]: ["failed in any way", "Calls that failed in any way"],
  [UNANSWERED_ENDS]: ["refused or failed in any way", "Calls that were refused or failed in any way"],
  all: ["every end", "Calls"],
};
const END_CHOICES = Object.entries(LISTS).map(([value, [words]]) => [value, words] as const);

/** Shows the end of a call. */
export const Ended = ({ as: outcome }: { as: RecordedCall["outcome"] }): View =>
  html`<span class=${`state ${outcome}`}>${ENDS[outcome][0]}</span>`;

/** The sums of usage that count the calls of an end. */
const SUMS: Readonly<Record<string, "refused" | "failed">> = { refused: "refused", [FAILED_ENDS]: "failed" };

/** The codes of errors, which the compiler completes, from those of refusals to the others. */
const CODES: readonly string[] = Object.keys({
  quota_exhausted: 1,
  quota_insufficient: 1,
  quota_held: 1,
  rate_limited: 1,
  busy: 1,
  model_not_allowed: 1,
  model_not_found: 1,
  missing_api_key: 1,
  invalid_api_key: 1,
  paused_api_key: 1,
  expired_api_key: 1,
  malformed_credential: 1,
  invalid_request: 1,
  malformed_body: 1,
  unsupported_media_type: 1,
  body_too_large: 1,
  context_length_exceeded: 1,
  content_refused: 1,
  failed_precondition: 1,
  not_found: 1,
  method_not_allowed: 1,
  upgrade_required: 1,
  idempotency_key_reused: 1,
  idempotency_key_in_use: 1,
  client_closed: 1,
  call_stopped: 1,
  deadline_exceeded: 1,
  backend_unavailable: 1,
  backend_overloaded: 1,
  backend_refused: 1,
  backend_failed: 1,
  store_unavailable: 1,
  misconfigured: 1,
  internal: 1,
} satisfies Record<ErrorCode, 1>);
const CODE_CHOICES = [["", "every code"], ...CODES.map((one) => [one, one] as const)] as const;

/**
 * Shows what the address asks for: a call, or a list.
 *
 * @param hasBudgets True when the host's store has budgets.
 */
export async function openRefusals(asked: URLSearchParams, hasBudgets: boolean): Promise<void> {
  // Their time zones may come later than the calls.
  const known = hasBudgets ? loadKnownBudgets() : Promise.resolve();
  found.value = asked.get("call") ?? "";
  // Take the names that the API has, too. The server refuses values that it does not know.
  end.value = asked.get("end") || asked.get("outcome") || (found.value === "" ? "refused" : "all");
  code.value = asked.get("code") ?? asked.get("errorCode") ?? "";
  since.value = asked.get("since") ?? asked.get("sinceDay") ?? "";
  until.value = asked.get("until") ?? asked.get("untilDay") ?? "";
  const { key = "", ...others } = scopeIn(asked);
  keyId.value = key;
  meantKeys.value = [];
  // Calls without a key have no id to write.
  scope.value = key === "" && asked.has("key") ? { key, ...others } : others;
  await takeName(budget, known);
  if (found.value === "") {
    await loadRefusals();
    if (noneReason.value !== "" && key !== "" && key === keyId.value) await chooseKey(true);
    return;
  }
  showNone();
  await loadCall();
}

const load = loadsOf("calls");

/** Shows the call of the request id alone. */
async function loadCall(): Promise<void> {
  const id = found.value;
  await load(async (isLatest) => {
    try {
      const { body } = await read<Call>(`calls/${encodeURIComponent(id)}`);
      if (isLatest()) calls.value = [body];
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404 && (await isRunning(id)))) throw error;
      if (isLatest()) showNone(`The call ${id} still runs. Its record comes with its end.`);
    }
  });
}

/** True for the request id of a call that runs, or its beginning. False on a host without live calls. */
const isRunning = (id: string): Promise<boolean> =>
  read<{ readonly data: readonly { readonly requestId: string }[] }>("live?limit=1000").then(
    ({ body }) => body.data.some(({ requestId }) => requestId.startsWith(id)),
    () => false,
  );

function showNone(reason = ""): void {
  calls.value = [];
  next.value = null;
  counted.value = undefined;
  meantCodes.value = [];
  noneReason.value = reason;
}

/**
 * Finds the key that the user names, and lists its calls.
 *
 * @param isExact Takes no part of an id or name: an address must not lead to the calls of another key.
 */
async function chooseKey(isExact = false): Promise<void> {
  const text = keyId.value;
  let found: readonly KeyShown[] = [];
  if (text !== "" && !(await attempt(async () => void (found = await keysNamed(text))))) return;
  if (isExact) found = found.filter(({ name }) => name.toLowerCase() === text.toLowerCase());
  // The user may have chosen another key meanwhile.
  if (text !== keyId.value) return;
  meantKeys.value = found.length > 1 ? found : [];
  if (found.length === 1) keyId.value = found[0]?.id ?? text;
  await loadRefusals();
}

/** Returns the filters that the sums of usage have, too. */
const chosen = (): Choices => ({
  ...scope.value,
  ...(keyId.value && { key: keyId.value }),
  since: since.value || undefined,
  until: until.value || undefined,
});

/** Returns the choices for an address. */
const inAddress = (): Choices => ({
  ...chosen(),
  code: code.value || undefined,
  end: end.value === "refused" ? undefined : end.value,
});

/** Returns the filters that the list of calls has beside the days. */
function filtersOfList(): Choices {
  const { since: _since, until: _until, ...others } = chosen();
  return { ...others, outcome: end.value === "all" ? undefined : end.value, errorCode: code.value || undefined };
}

/** Returns all filters of the list of calls. */
const allFilters = (): Choices => ({
  ...filtersOfList(),
  sinceDay: since.value || undefined,
  untilDay: until.value || undefined,
});

/** Lists the calls from the latest on, or goes on behind the last one. */
async function loadRefusals(after?: string): Promise<void> {
  found.value = "";
  const [choices, errorCode] = [chosen(), code.value];
  noteChoices("calls", inAddress());
  const page = { limit: "100", after };
  const [query, rest] = [queryOf({ ...allFilters(), ...page }), queryOf({ ...filtersOfList(), ...page })];
  // The button for older calls would go on with the earlier choice.
  if (after === undefined) next.value = null;
  await load(
    async (isLatest) => {
      await assertDays(since.value, until.value, `calls?${rest}`);
      try {
        const [{ body }, count] = await Promise.all([
          read<Listed<Call> & { readonly errorCodes?: readonly string[] }>(`calls?${query}`),
          errorCode === "" ? countOf(choices) : undefined,
        ]);
        if (!isLatest()) return;
        calls.value = after === undefined ? body.data : [...(calls.value ?? []), ...body.data];
        next.value = body.next;
        counted.value = count;
        meantCodes.value = body.errorCodes ?? [];
        noneReason.value = "";
      } catch (error) {
        // There is no such key or budget.
        if (!(error instanceof Refusal && error.status === 404)) throw error;
        if (isLatest()) showNone(error.message);
      }
    },
    after === undefined ? () => void (calls.value = undefined) : undefined,
  );
}

/** Counts the calls of the filters, also those that are not kept one by one any more. Undefined for ends that no sum counts. */
async function countOf(choices: Choices): Promise<number | undefined> {
  const sum = SUMS[end.value];
  return sum && (await read<UsageReport>(`usage?${queryOf(choices)}`)).body.total[sum];
}

/** Opens the call of a request id, also when it stands in the text of an error. */
function search(event: SubmitEvent): void {
  event.preventDefault();
  // The cast is safe: no form has a field for files.
  const text = (new FormData(event.target as HTMLFormElement).get("request-id") as string).trim();
  const call = requestIdIn(text) ?? text;
  if (call !== "") go(addressOf("calls", { call }));
}

/** Groups calls of one key that ended with the same limit or error. The latest call of a group names the models of all. */
const folded = (all: readonly Call[]): readonly Calls[] =>
  [...Map.groupBy(all, sortOf).values()].flatMap(([latest, ...earlier]) =>
    latest ? [[withModels(latest, earlier), ...earlier] as const] : [],
  );

/** The most models that a row names. */
const MOST_MODELS = 3;

function withModels(latest: Call, earlier: readonly Call[]): Call {
  const models = [...new Set([latest, ...earlier].flatMap(({ modelAsked }) => modelAsked ?? []))];
  const more = models.length > MOST_MODELS ? ` and ${models.length - MOST_MODELS} more` : "";
  return models.length === 0 ? latest : { ...latest, modelAsked: models.slice(0, MOST_MODELS).join(", ") + more };
}

function sortOf({ requestId, outcome, refusedBy, attempts, ...call }: Call): string {
  if (outcome !== "refused" && outcome !== "failed") return requestId;
  const { kind, budget, group, model } = refusedBy ?? {};
  const tries = attempts.map(({ upstream, model: asked, status, errorCode }) => [upstream, asked, status, errorCode]);
  const { keyId: key, route, status, errorCode, errorField, currency } = call;
  return JSON.stringify([
    outcome,
    key,
    route,
    status,
    errorCode,
    errorField,
    kind,
    budget,
    group,
    model,
    tries,
    currency,
  ]);
}

/** Shows the end of a budget's period by the clocks of its time zone, as the budgets do; any other time by those of the browser. */
function EndOfLimit({ at, refusedBy }: { at: number; refusedBy?: RecordedCall["refusedBy"] }): View {
  if (refusedBy?.kind !== "budget" || at !== refusedBy.endsAt) return html`<${Time} at=${at} />`;
  const { timeZone = "UTC" } = knownBudgets.value.find(({ id }) => id === refusedBy.budget) ?? {};
  return html`<${Time} at=${at} zone=${timeZone} /> ${timeZone}`;
}

/** The parts of a sentence that the page writes in its own way: times and amounts of money. */
const FACTS = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|\d+(?:\.\d{1,6})? [A-Z]{3}(?=[,). ]))/;

/** The beginning of the sentence with the error of the caller. */
const TOLD = "The caller was told: ";

/**
 * Shows a sentence with its times and amounts as everywhere on this page, but the error of the caller word for word: its reader may look for
 * it.
 */
export function Reason({ text, refusedBy }: { text: string; refusedBy?: RecordedCall["refusedBy"] }): View {
  const parts = text.startsWith(TOLD) ? [text] : text.split(FACTS);
  return html`${parts.map((part, at) => {
    if (at % 2 === 0) return part;
    const [, amount, currency] = /^([\d.]+) ([A-Z]+)$/.exec(part) ?? [];
    if (currency === undefined)
      return Number.isNaN(Date.parse(part))
        ? part
        : html`<${EndOfLimit} at=${Date.parse(part)} refusedBy=${refusedBy} />`;
    // Other words in capitals may follow a number: `4 PRO`.
    return currency === recordedCurrency.value || /\.\d\d/.test(part)
      ? amountOf(Math.round(Number(amount) * 1_000_000), currency)
      : part;
  })}`;
}

/** The codes whose own sentence says all that the caller was told. */
const TELLS_ALL = /_api_key$|^model_not_/;

/** The outcomes whose words a column of its own has, as it has the charge of a list. */
const IN_COLUMN: ReadonlySet<string> = new Set(["refused", "failed", "completed"]);

/**
 * Returns the sentences about a call, without those that the columns have, too, and of a limit that has refused the call, its own alone. A
 * list also leaves out the field, which its Next column names.
 */
export function shownReasons({ reasons, refusedBy, outcome, errorCode }: Call): readonly string[] {
  const isTold = !refusedBy && !TELLS_ALL.test(errorCode ?? "");
  const own = reasons
    .slice(refusedBy ? 2 : IN_COLUMN.has(outcome) ? 1 : 0)
    .filter((text) => !(found.value === "" && text.startsWith("The field is ")) && (isTold || !text.startsWith(TOLD)));
  return own.length > 0 ? own : ["–"];
}

/** Divides the sentence of a step into its command and the effect of the command. */
const COMMAND = /^(?:Run )?(polygate .*?)(?: ((?:adds|lets|replaces|makes) .*)|, (or .*))$/s;

/** A step that this page can do itself. */
interface Step {
  /** The words of its button. */
  readonly name: string;
  readonly run: () => unknown;
  /** The command that does the same. */
  readonly command: string;
  readonly effect: string;
}

/** Loads the list or the call again, after a step has helped. */
const renew = (): Promise<void> => (found.value === "" ? loadRefusals() : loadCall());

/** Returns a step that opens a dialog of this page, with facts for the choice of an amount. Undefined for a step without a dialog. */
function stepOf({ sentence, verb, budget, key }: Call["next"][number]): Step | undefined {
  const target = budget ?? key;
  const [, command, does, instead = ""] = COMMAND.exec(sentence) ?? [];
  const effect = does ?? instead;
  if (command === undefined || verb === undefined || target === undefined) return undefined;
  // What the command does is in the title of the dialog.
  const facts = html`<${Reason} text=${effect.replace(/^.*?\. ?/, "")} />`;
  const [name, run] = {
    "budgets top-up": [`Top up ${target}`, () => topUp(target, facts, renew)],
    "keys grant": [`Add to the quota of ${target}`, () => changeQuota(target, "grant", facts, renew)],
    "keys resume": [`Resume ${target}`, () => resume(target, renew)],
    "keys update": [`Edit ${target}`, () => editKey(target, renew)],
  }[verb] as [string, () => unknown];
  return { name, run, command, effect: effect.slice(0, 1).toUpperCase() + effect.slice(1) };
}

/** Says a step without its command to a user who may only look. */
const forReader = ({ name, effect }: Step): string => `An operator can help: ${name}. ${effect}`;

/** The steps after a call with an unknown secret. The list of keys has their buttons. */
const [FIND_KEY, STATE_OF_KEY] = [
  "Ask for the name of the key, and look for it among the keys",
  "its state says whether it is revoked",
];
const RENEW_KEY = "make a new key in place of a revoked one, and a new secret for any other key.";

/** Says in a file what helps. */
function nextInWords({ next: steps, errorCode }: Call): string {
  if (!mayChange.value && errorCode === "invalid_api_key")
    return `${FIND_KEY}: ${STATE_OF_KEY}. An operator can ${RENEW_KEY}`;
  return steps
    .map((step) => {
      const own = mayChange.value ? undefined : stepOf(step);
      return own ? forReader(own) : step.sentence;
    })
    .join(" ");
}

const WrongKey = ({ steps }: { steps: Call["next"] }): View =>
  html`<li><a href=${addressOf("keys")} onClick=${follow}>${FIND_KEY}</a>: ${STATE_OF_KEY}.</li>
    <li>
      ${mayChange.value ? RENEW_KEY.replace(/^./, (first) => first.toUpperCase()) : `An operator can ${RENEW_KEY}`}
    </li>
    ${
      mayChange.value &&
      html`<li>
        <details>
          <summary>Show the commands</summary>
          ${steps.map(({ sentence }) => html`<p>${sentence}</p>`)}
        </details>
      </li>`
    }`;

/** Shows what helps. The button of a step stands in the place of its command. */
function NextStep({ step }: { step: Call["next"][number] }): View {
  const own = stepOf(step);
  if (!own) return html`<${Reason} text=${step.sentence} />`;
  return mayChange.value
    ? html`<button type="button" class="small step" onClick=${own.run}>${own.name}</button>
        <p><${Reason} text=${own.effect} /></p>
        <details>
          <summary>Show the command</summary>
          <code>${own.command}</code>
        </details>`
    : html`<${Reason} text=${forReader(own)} />`;
}

/** Shows the buttons of what helps after a call of a list, or else the first sentence about it. The call itself has all of them. */
function ShortNext({ call: { requestId, next: steps, errorCode } }: { call: Call }): View {
  const buttons = mayChange.value ? steps.flatMap((step) => stepOf(step) ?? []) : [];
  if (buttons.length > 0)
    return html`<div class="row-buttons">
      ${buttons.map(({ name, run }) => html`<button type="button" class="small step" onClick=${run}>${name}</button>`)}
    </div>`;
  const [first] = steps;
  // A command is of no use to a user who may only look.
  if (first?.verb === undefined && errorCode !== "invalid_api_key")
    return html`<span class="long"><${Reason} text=${first?.sentence ?? "–"} /></span>`;
  return html`<a href=${addressOf("calls", { call: requestId })} onClick=${follow}
    >What helps<span class="unseen"> after ${requestId}</span></a
  >`;
}

/** Shows the error of the caller of a single call where the other sentences say the same, with times and amounts of their own. */
function Told({ call: { reasons }, shown }: { call: Call; shown: readonly string[] }): View {
  const told = reasons.find((text) => text.startsWith(TOLD) && !shown.includes(text));
  if (found.value === "" || told === undefined) return null;
  return html`<li>
    <details>
      <summary>Show what the caller was told</summary>
      <p>${told}</p>
    </details>
  </li>`;
}

const NEXT: Column<Calls> = {
  name: "Next",
  isWide: true,
  cell: ([call]) =>
    found.value === ""
      ? html`<${ShortNext} call=${call} />`
      : html`<ul class="reasons">
          ${
            call.errorCode === "invalid_api_key"
              ? html`<${WrongKey} steps=${call.next} />`
              : call.next.map((step) => html`<li><${NextStep} step=${step} /></li>`)
          }
        </ul>`,
};

const columnsOf = (rows: readonly Calls[]): readonly Column<Calls>[] => {
  const spent = spentBy(rows, unitsOf, ([{ currency }]) => currency);
  return [
    {
      name: "Call",
      cell: ([{ requestId, at }, ...earlier]) =>
        html`<${Time} at=${at} isRecord />
          <${CallId} id=${requestId} isWhole=${found.value !== ""} />
          ${
            earlier.length > 0 &&
            html`<details>
              <summary>
                ${plain.format(earlier.length)} more since${" "}
                <${Time} at=${earlier.at(-1)?.at ?? at} isRecord dayOf=${at} />
              </summary>
              <ul>
                ${earlier.map((call) => html`<li><${Time} at=${call.at} isRecord /> <${CallId} id=${call.requestId} /></li>`)}
              </ul>
            </details>`
          }`,
    },
    {
      name: "Key",
      cell: ([{ keyId: key, keyName: name, group }]) =>
        html`${key === undefined ? "–" : html`<a class="long" href=${addressOf("calls", { key })} onClick=${follow}>${withEscapes(key)}</a>`}
          <${Name} of=${name} id=${key} />
          ${group && html`<span class="quiet">${withEscapes(group)}</span>`}`,
    },
    {
      name: "Model",
      cell: ([latest]) =>
        html`<span class="long">${latest.modelAsked ?? "–"}</span><span class="quiet path">${latest.route}</span>`,
    },
    {
      name: "Outcome",
      cell: ([{ outcome, status, errorCode }]) => {
        const coded = errorCode && html`<${Code} word=${errorCode} />`;
        // In a list of calls of one outcome, its word says nothing.
        const isOneEnd = found.value === "" && Object.hasOwn(ENDS, end.value);
        return isOneEnd && coded
          ? html`<span class=${`state ${outcome}`}>${coded}</span><span class="quiet">${status}</span>`
          : html`<${Ended} as=${outcome} /><span class="quiet">${status} ${coded}</span>`;
      },
    },
    {
      name: "Reasons",
      isWide: true,
      cell: ([call]) => {
        const shown = shownReasons(call);
        return html`<ul class="reasons" role="list">
          ${shown.map((text) => html`<li><${Reason} text=${text} refusedBy=${call.refusedBy} /></li>`)}
          <${Told} call=${call} shown=${shown} />
        </ul>`;
      },
    },
    ...(rows.some(([{ next: steps }]) => steps.length > 0) ? [NEXT] : []),
    // Refused calls are free.
    ...(rows.some((row) => unitsOf(row) > 0) ? [spent] : []),
  ];
};

const unitsOf = (all: Calls): number => all.reduce((sum, { units }) => sum + units, 0);

/**
 * Says how many calls have ended so, and how many of them are not listed.
 *
 * @param counted The number of calls by the sums of usage. Undefined where these cannot count them: then only a whole list tells it.
 */
function Count({ counted, listed }: { counted: number | undefined; listed: number }): View {
  if (listed === 0 && !counted) return null;
  const all = counted ?? listed;
  if (counted === undefined && next.value !== null)
    return html`<p class="sum">These are the latest ${plain.format(listed)} calls.</p>`;
  const ended = SUMS[end.value];
  const hidden = all - listed;
  // The records of calls are deleted some day, and their sums stay.
  const rest =
    hidden <= 0
      ? ""
      : next.value === null
        ? ` ${plain.format(hidden)} of them are not kept one by one any more.`
        : ` These are the latest ${plain.format(listed)}.`;
  return html`<p class="sum">${plain.format(all)} ${ended && `${ended} `}${all === 1 ? "call" : "calls"}.${rest}</p>`;
}

/** The most keys to choose from. */
const MOST_MEANT = 10;

/** Stands in for an empty list, and leads to the keys that the filter may mean. */
function NoCalls(): View {
  const [first] = meantKeys.value;
  const reason = noneReason.value || "No such call is recorded.";
  if (found.value !== "" || keyId.value === "") return html`${reason}`;
  if (!first)
    return html`${reason}${" "}
      <a href=${addressOf("keys", { find: keyId.value })} onClick=${follow}>Look for ${keyId.value} among the keys</a
      >.`;
  const more = meantKeys.value.length - MOST_MEANT;
  return html`The filter may mean several keys:
  ${meantKeys.value
    .slice(0, MOST_MEANT)
    .map(
      ({ id, name }) =>
        html` <a href=${addressOf("calls", { ...inAddress(), key: id })} onClick=${follow}
          >${name === id ? id : `${name} (${id})`}</a
        >`,
    )}
  ${more > 0 && ` and ${plain.format(more)} more`}`;
}

const again = (): unknown => loadRefusals();

/** Writes calls as CSV, a row each: the columns of the command line, and behind these the other columns of the list. */
const csvOf = (rows: readonly Call[], spreadsheet: Spreadsheet | undefined): readonly string[] => [
  callsCsv(rows, {
    currency: pageCurrency.value || undefined,
    spreadsheet,
    zone: OWN_ZONE,
    more: [
      { name: "route", word: "Route", cell: ({ route }) => route },
      { name: "reasons", word: "Reasons", cell: ({ reasons }) => reasons.join(" ") },
      { name: "next", word: "Next", cell: nextInWords },
    ],
  }),
];

export function Refusals({ budgets: hasBudgets }: { budgets: boolean }): View {
  const rows = calls.value && folded(calls.value);
  const heading = found.value === "" ? (LISTS[end.value]?.[1] ?? "Calls") : "One call";
  return html`<section>
    <header class="tools">
      <h2 tabindex="-1">${heading}</h2>
      <form role="search" onSubmit=${search}>
        <label>Request id <input type="search" name="request-id" autocomplete="off" value=${found.value} /></label>
        <button>Find</button>
      </form>
      <${Filters} chosen=${Object.values(chosen()).filter(Boolean).length + (code.value === "" ? 0 : 1)}>
        <${Filter} label="Key" of=${keyId} example="id or name" onChange=${chooseKey} />
        ${hasBudgets && html`<${BudgetFilter} of=${budget} hint="Also the calls of the budgets below it." onChange=${again} />`}
        <${Select} label="Outcome" of=${end} choices=${END_CHOICES} onChange=${again} />
        <${Select} label="Code" of=${code} choices=${CODE_CHOICES} onChange=${again} />
        <${DayField} label="From" of=${since} onChange=${again} />
        <${DayField} label="To" of=${until} onChange=${again} />
        ${found.value === "" && html`<${CsvOfList} name="calls" pages=${() => pagesOf<Call>("calls", allFilters())} csvOf=${csvOf} />`}
      <//>
    </header>
    ${found.value !== "" && html`<p class="more"><a href=${addressOf("calls")} onClick=${follow}>All refused calls</a></p>`}
    <${Chips}
      of=${scope.value}
      onRemove=${(rest: Scope) => {
        scope.value = rest;
        void again();
      }}
    />
    ${code.value !== "" && meantCodes.value.some((one) => one !== code.value) && html`<p class="quiet">${code.value} is recorded as ${meantCodes.value.join(" or ")}.</p>`}
    ${calls.value && found.value === "" && html`<${Count} counted=${counted.value} listed=${calls.value.length} />`}
    <div class=${found.value === "" ? "" : "single"}>
      <${Table}
        caption=${heading}
        columns=${columnsOf(rows ?? [])}
        rows=${rows}
        keyOf=${([{ requestId }]: Calls) => requestId}
        empty=${html`<${NoCalls} />`}
      />
    </div>
    ${next.value !== null && html`<${More} name="Older calls" load=${() => loadRefusals(next.value ?? "")} />`}
  </section>`;
}
