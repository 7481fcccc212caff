/** Reports about recorded calls: sums of usage, also as CSV, and the reason why a call ended as it did. */

import { lackedModel, LACKS_MODEL, WRONG_SETTING } from "../errors.ts";
import { given } from "../model/json.ts";
import { amountOf, currencyCode, mixedInWords, MOST_UNITS, moneyIn, unitsInWords } from "../model/money.ts";
import { withEscapes } from "../model/visible.ts";
import { assertMethods, assertOptions, oneLine, portOf, quoted } from "../options.ts";
import { MOST_MESSAGE_CHARS, type UpstreamAttempt, type UpstreamErrors } from "../ports/observer.ts";
import type { BudgetReport } from "../stores/budgets.ts";
import {
  type CallReader,
  daysOfMonth,
  isDay,
  type RecordedCall,
  type UsageColumn,
  type UsageReport,
  type UsageRow,
  type UsageSums,
} from "../stores/calls.ts";
import type { BudgetDirectory, KeyDirectory, KeyReport } from "../stores/durable.ts";
import { modelsOf } from "../stores/ledger.ts";
import {
  amountColumn,
  asOfColumn,
  type Column,
  csvPartsOf,
  type Spreadsheet,
  SPREADSHEETS,
  timeOf,
} from "./columns.ts";
import { modelsInWords } from "./key-admin.ts";
import { stateOf } from "./key-state.ts";

export type RefusedBy = NonNullable<RecordedCall["refusedBy"]>;

/** A step that helps the caller of a call that was refused or has failed. */
export interface NextStep {
  /** The step in words, with its command if there is one. */
  readonly sentence: string;
  /** The command of `polygate` in the sentence. Absent for a step without a command. */
  readonly verb?: "budgets top-up" | "keys grant" | "keys resume" | "keys update";
  /** The id of the budget that the command changes. */
  readonly budget?: string;
  /** The id of the key that the command changes. */
  readonly key?: string;
  /**
   * The fewest units with which the call alone passes with its whole output limit. Absent for a step that adds none, and for a call that was
   * refused before its cost was known.
   */
  readonly units?: number;
}

/** The reason why a call ended as it did. */
export interface CallReason {
  /** Sentences for people, the most important first. */
  readonly reasons: readonly string[];
  /** The steps that help the caller. Empty when an operator cannot help. */
  readonly next: readonly NextStep[];
  readonly call: RecordedCall;
}

/** Options of `usageCsv`. */
export interface UsageCsvOptions {
  /**
   * The currency of which a unit is a millionth, for the columns `spent` and `currency`: a code of three letters, such as `usd`. Must be
   * that of the report if it has one. Default: that of the report, or no such columns.
   */
  readonly currency?: string;
  /** Writes the CSV for a spreadsheet that people open by hand. Default: plain RFC 4180, for programs. */
  readonly spreadsheet?: Spreadsheet;
}

/** Reports about recorded calls. The functions reject with a TypeError or a RangeError for a wrong query. */
export interface CallAdmin extends CallReader {
  /** Says why a call ended as it did. Undefined when the call is not recorded, or not any more. */
  why(requestId: string): Promise<CallReason | undefined>;
}

/** The part of a quota store that tells what a refused call lacks. */
type LimitSource = Pick<KeyDirectory, "report"> & Partial<Pick<BudgetDirectory, "budgetReport">>;

/** Options of `callAdmin`. */
export interface CallAdminOptions {
  /**
   * The store of the keys: `why` then says what a refused call lacks now, also of its other budgets. Default: what the call lacked when it was
   * refused, of the limit that refused it.
   */
  readonly quotas?: LimitSource;
}

const CALLS = "the calls of stores over SQL, such as stores.calls";

/**
 * Reports about the calls that a recorder of `openStores` or a `sqlCallLog` writes.
 *
 * @example
 * const { rows, total } = await callAdmin(stores.calls).usage({ by: ["key", "model"], since: "2026-11-01" });
 */
export function callAdmin(calls: CallReader, options: CallAdminOptions = {}): CallAdmin {
  assertMethods("callAdmin", "the first argument", calls, ["usage", "find", "list"], CALLS);
  assertOptions<CallAdminOptions>("callAdmin", options, {
    quotas: { optional: portOf(["report"], "a quota store, such as stores.ports.quotas") },
  });
  const { quotas } = options;
  return {
    usage: (query) => calls.usage(query),
    find: (requestId) => calls.find(requestId),
    list: (filter) => calls.list(filter),
    async why(requestId) {
      const call = await calls.find(requestId);
      const now = call && quotas && (await callNow(call, quotas));
      return call && { reasons: reasonsOf(call), next: nextSteps(call, undefined, now), call };
    },
  };
}

type SumName = Exclude<keyof UsageSums, "money">;

const SUM_NAMES: readonly SumName[] = [
  "calls",
  "refused",
  "failed",
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
  "images",
  "units",
  "estimated",
];

/** Returns the currency of a report. Throws a RangeError for another one than that of its calls. */
function currencyIn(recorded: string | undefined, given: string | undefined): string | undefined {
  if (given !== undefined && recorded !== undefined && given !== recorded)
    throw new RangeError(`The currency must be ${recorded}, in which calls are recorded, not ${given}.`);
  return given ?? recorded;
}

/** Names the latest call, which is in another currency than a user has given. */
export function ofOtherCurrency({ requestId, at, currency, modelAsked }: RecordedCall, given: string): string {
  const model = modelAsked === undefined ? "" : `, of the model ${oneLine(modelAsked)}`;
  return `The latest call is recorded in ${currency}, not ${given}: ${oneLine(requestId)}, at ${new Date(at).toISOString()}${model}.`;
}

/** Says that no charge of a report is in the currency that a user has given; undefined if some may be. */
export function ofNoCharge(
  { currency, otherCurrencies = [] }: UsageReport,
  given: string | undefined,
): string | undefined {
  if (given === undefined || currency === undefined || currency === given || otherCurrencies.includes(given))
    return undefined;
  return `These calls are recorded in ${[currency, ...otherCurrencies.filter(Boolean)].join(" and ")}, not ${given}.`;
}

/**
 * Returns a report in the currency that a user names: that of some of its charges, or of charges that were recorded without one. Charges in
 * others, as all are if the user is wrong, are then in its `otherCurrencies`.
 *
 * @throws RangeError for a text that is no code of a currency.
 */
export function inCurrency(report: UsageReport, given: string | undefined): UsageReport {
  const currency = codeOf(given);
  const { currency: recorded, otherCurrencies = [], ...rest } = report;
  if (currency === undefined || currency === recorded) return report;
  const isOther = otherCurrencies.includes(currency);
  // Without a charge, nothing is counted in a wrong currency.
  const former = report.total.units > 0 ? (recorded ?? (isOther ? "" : undefined)) : undefined;
  const others = [...(former === undefined ? [] : [former]), ...otherCurrencies.filter((one) => one !== currency)];
  const told = <Sums extends UsageSums>(sums: Sums): Sums => ({ ...sums, ...moneyIn(sums.units, currency) });
  return {
    ...rest,
    rows: report.rows.map(told),
    total: told(report.total),
    currency,
    ...(others.length > 0 && { otherCurrencies: others }),
  };
}

/** The column of names that follows a column of ids. */
const NAMES: Readonly<Partial<Record<UsageColumn, "keyName" | "budgetName">>> = {
  key: "keyName",
  budget: "budgetName",
};

/** Returns the days that a row sums: its day, or the days of its month, as far as the report has them. */
function daysIn(
  row: UsageRow,
  { since = "", until = "" }: Pick<UsageReport, "since" | "until">,
): { readonly since: string; readonly until: string } {
  const { day = "", month = "" } = row;
  const own = isDay(day) ? { since: day, until: day } : daysOfMonth(month);
  return {
    since: own && own.since > since ? own.since : since,
    until: own && (until === "" || own.until < until) ? own.until : until,
  };
}

/**
 * Returns the columns of a report: what keeps its sums apart, its days, what was spent in money, and the sums.
 *
 * @param given The currency of the amounts. Default: that of the report.
 * @throws RangeError for another currency than that of the report.
 */
export function usageColumns(
  {
    by,
    currency: recorded,
    timeZone: zone,
    ...days
  }: Pick<UsageReport, "by" | "currency" | "timeZone" | "since" | "until">,
  given: string | undefined,
): readonly Column<UsageRow>[] {
  const currency = currencyIn(recorded, given);
  const column = (name: keyof typeof HEADINGS & keyof UsageRow): Column<UsageRow> => ({
    name,
    word: HEADINGS[name],
    cell: (row) => row[name],
    unnamed: UNNAMED[name],
  });
  const names = by.flatMap((name) => [name, NAMES[name] ?? []].flat());
  return [
    ...names.map(column),
    { name: "since", word: HEADINGS.since, cell: (row) => daysIn(row, days).since },
    { name: "until", word: HEADINGS.until, cell: (row) => daysIn(row, days).until },
    {
      ...column("timeZone"),
      cell: ({ timeZone = zone ?? "" }) => timeZone,
      unnamed: ({ budget }) => (budget === "" ? OF_GATEWAY : ZONES_IN_WORDS),
    },
    ...(currency === undefined
      ? []
      : [
          amountColumn<UsageRow>({ name: "spent", word: HEADINGS.spent }, currency, ({ units }) => units),
          { name: "currency", word: HEADINGS.currency, cell: () => currency },
        ]),
    ...SUM_NAMES.map((name) => ({ ...column(name), word: unitsWord(HEADINGS[name], currency) })),
  ];
}

/** Says in the heading of a spreadsheet what a unit is, if the amounts are also there as money. */
export const unitsWord = (word: string, currency: string | undefined): string =>
  currency !== undefined && /\bunits$/i.test(word) ? `${word} (millionths)` : word;

/** The words for calls without a name in a column, as the page has them. */
const UNNAMED: Readonly<Partial<Record<keyof UsageRow, string>>> = {
  key: "no key",
  budget: "no budget",
  group: "no group",
  model: "no model",
  upstream: "no upstream",
};

/** The time zone of the days of calls without a budget. Its name is an option of the recorder alone: the tables do not have it. */
const OF_GATEWAY = "of the gateway (UTC by default)";
const ZONES_IN_WORDS = `of each budget or ${OF_GATEWAY}`;

/** The words for counts of tokens and images. */
const COUNT_WORDS = {
  inputTokens: "Input tokens",
  outputTokens: "Output tokens",
  cacheReadTokens: "Tokens read from the cache",
  cacheWriteTokens: "Tokens written to the cache",
  reasoningTokens: "Reasoning tokens",
  images: "Images",
} as const;

/** The headings of spreadsheets, for people. Programs read the names of the fields. */
const HEADINGS = {
  day: "Day",
  month: "Month",
  key: "Key",
  keyName: "Key name",
  budget: "Budget",
  budgetName: "Budget name",
  group: "Group",
  model: "Model",
  upstream: "Upstream",
  since: "From",
  until: "Until",
  timeZone: "Time zone",
  spent: "Spent",
  currency: "Currency",
  calls: "Calls",
  refused: "Refused calls",
  failed: "Failed calls",
  ...COUNT_WORDS,
  units: "Units",
  estimated: "Estimated units",
} satisfies Record<Exclude<keyof UsageRow, "money"> | "since" | "until" | "spent" | "currency", string>;

/**
 * Returns the rows below those of a report: the calls that no row counts because they cost nothing, and the sum of all calls, to which the
 * rows then add up. None for a report of a single row, and for a page of a longer report, which does not add up.
 */
export function endRows(report: UsageReport): readonly UsageRow[] {
  const { rows, total, by } = report;
  const [first] = by;
  if (first === undefined) return [];
  const uncounted = SUM_NAMES.map((name) => {
    const counted = rows.reduce((sum, row) => sum + row[name], 0);
    return [name, total[name] - counted] as const;
  });
  // The cast is safe: the names are those of all sums.
  const rest = Object.fromEntries(uncounted) as Record<SumName, number>;
  if (rest.units !== 0) return [];
  return [...(rest.calls === 0 ? [] : [{ ...rest, [first]: "(no charge)" }]), { ...total, [first]: "Total" }];
}

/**
 * Writes a report as CSV (RFC 4180, unless a spreadsheet is named), with a line of headings: the columns of the report, then the first and
 * the last day of each row with their time zone, then what was spent and the currency, then the sums and the time of the report. Headings are
 * the names of the fields. In a spreadsheet they are words, an empty name is one such as `no budget`, and the row `Total` below the others has
 * their sum; if the report has `otherCurrencies`, a last row says so. A text that a spreadsheet would take for a formula begins with an apostrophe, and line breaks and control characters are escaped as in
 * JSON.
 *
 * @throws TypeError or RangeError for a wrong option.
 */
export const usageCsv = (report: UsageReport, options: UsageCsvOptions = {}): string =>
  [...usageCsvParts(report, options)].join("");

/** Notes that a report counts charges of further currencies as its own; undefined if it has no such charges. */
export const noteOfMixed = ({ otherCurrencies, currency }: UsageReport): string | undefined =>
  mixedInWords(otherCurrencies, currency);

/** Writes the parts of `usageCsv`. */
export function usageCsvParts(report: UsageReport, options: UsageCsvOptions = {}): Iterable<string> {
  assertOptions<UsageCsvOptions>("usageCsv", options, { currency: "string?", spreadsheet: { optional: SPREADSHEETS } });
  const { spreadsheet } = options;
  // The readers of plain CSV are programs, which would count a row of sums twice.
  const rows = spreadsheet ? [...report.rows, ...endRows(report)] : report.rows;
  const columns = [...usageColumns(report, codeOf(options.currency)), asOfColumn(report.asOf)];
  return csvPartsOf(columns, rows, spreadsheet, false, noteOfMixed(report));
}

/** Returns the code of a currency in capitals. Throws a RangeError for any other text. */
function codeOf(currency: string | undefined): string | undefined {
  const code = currency === undefined ? undefined : currencyCode(currency);
  if (currency !== undefined && code === undefined)
    throw new RangeError(`usageCsv: currency must be a code of three letters, such as usd, not ${quoted(currency)}`);
  return code;
}

const OUTCOMES: Readonly<Record<RecordedCall["outcome"], string>> = {
  completed: "The call was completed",
  refused: "The call was refused",
  failed: "The call failed",
  "client-closed": "The client has disconnected, or cancelled its response, before the end of the call",
  deadline: "The call took longer than the gateway allows (limits.deadlineMs)",
  shutdown: "The gateway was closed during the call",
  stopped: "An operator has stopped the call",
  unrecorded: "The call has left no record, because its process has died or the database was away",
};

const REASONS: Readonly<Record<NonNullable<RecordedCall["errorCode"]>, string>> = {
  invalid_request: "A field of the request has a wrong value.",
  malformed_body: "The body is no JSON, or is nested too deep.",
  unsupported_media_type: "The body has a content type that the route does not take.",
  body_too_large: "The body is larger than the limits allow.",
  context_length_exceeded: "The prompt is too long for the model.",
  content_refused: "The content policy of the upstream refuses the prompt or the answer.",
  failed_precondition: "The request needs something that is missing or not supported.",
  not_found: "The resource does not exist.",
  method_not_allowed: "The route does not have this method.",
  upgrade_required: "The address takes only WebSockets, and the server has not set them up.",
  missing_api_key: "The request had no API key.",
  malformed_credential: "The authorization header has another scheme than Bearer.",
  invalid_api_key:
    "No key has this secret, so the record names none: the secret may be mistyped, removed, ended or that of a revoked key.",
  paused_api_key: "The API key is paused.",
  expired_api_key: "The API key has expired.",
  model_not_found: "The gateway does not have the model.",
  model_not_allowed: "The key may not use the model.",
  quota_exhausted: "The quota is used up.",
  quota_insufficient: "The rest of the quota is too small for the request.",
  quota_held: "Running calls hold the rest of the quota.",
  rate_limited: "A rate limit was reached.",
  idempotency_key_reused: "A different request has used the idempotency key.",
  idempotency_key_in_use: "The first request with the idempotency key was still running.",
  busy: "The gateway was full or closing.",
  client_closed: "The client has disconnected, or cancelled its response.",
  call_stopped: "An operator has stopped the call.",
  deadline_exceeded: "The call or its upstream took too long.",
  backend_unavailable: "The upstream was not available.",
  backend_overloaded: "The upstream took no more requests.",
  backend_refused: "The upstream refused the credential or the account of this service.",
  backend_failed: "The upstream failed.",
  store_unavailable: "A store of this service failed or did not answer in time.",
  misconfigured: "A setting of this service has a mistake.",
  internal: "The gateway had an internal error.",
};

/** The errors that mean something else when they are of an upstream. */
const UPSTREAM_REASONS: Readonly<Partial<Record<NonNullable<RecordedCall["errorCode"]>, string>>> = {
  model_not_found: "The upstream does not have the model.",
  model_not_allowed: "The upstream does not have the model.",
  rate_limited: "A rate limit of the upstream was reached.",
};

/** Says why an upstream answers no call, in the words of its refused and failed calls. */
export const failingReason = ({ code, mistake }: UpstreamErrors): string =>
  mistake ?? UPSTREAM_REASONS[code] ?? REASONS[code];

/** What an operator does about the errors of an upstream, by their codes. */
const REMEDIES = {
  backend_refused: "Check the credential and the account of the upstream",
  backend_unavailable: "check that the upstream runs, and its address in the settings",
  deadline_exceeded: "Higher timeouts of the relay give the upstream more time.",
  rate_limited: "A second upstream in the route takes the calls that this one refuses.",
} as const;

/** Says what helps where an upstream answers no call, in the words of its refused and failed calls. A mistake has its remedy in it. */
export function failingRemedy({ code, mistake }: Pick<UpstreamErrors, "code" | "mistake">): string | undefined {
  if (mistake !== undefined) return undefined;
  if (LACKS_MODEL.has(code))
    return "Correct the model in the routes, in the models of the relay and in the prices, or remove it.";
  switch (code) {
    case "backend_refused":
      return `${REMEDIES[code]}: the log of the gateway has its answers.`;
    case "backend_unavailable":
      return `If it lasts, ${REMEDIES[code]}.`;
    case "deadline_exceeded":
    case "rate_limited":
      return REMEDIES[code];
    case "backend_failed":
    case "backend_overloaded":
    case "internal":
      return "For the cause, look in the log of the gateway, which has the whole errors.";
    default:
      return "The callers must change their requests.";
  }
}

/** True for a call that no upstream was asked for. */
const isUnasked = ({ attempts }: RecordedCall): boolean => attempts.every(({ movedOn }) => movedOn === "resting");

/** True for a call whose upstreams have all been at rest. */
const isOfRest = (call: RecordedCall): boolean => call.attempts.length > 0 && isUnasked(call);

/**
 * Returns the attempts whose upstream lacks a model that the host has named. A call fails by such a model, and is refused for a name of the
 * caller's own.
 */
const wronglyNamed = ({ attempts, errorCode: ofCall, modelAsked, outcome }: RecordedCall): readonly UpstreamAttempt[] =>
  attempts.filter(
    ({ errorCode, mistake, model }) =>
      LACKS_MODEL.has(errorCode) &&
      (mistake !== undefined || model !== modelAsked || (ofCall === "model_not_found" && outcome === "failed")),
  );

/** Returns the mistakes in the settings of the upstreams of a call, each once, with their remedies. */
export const mistakesOf = ({ attempts }: RecordedCall): readonly string[] => [
  ...new Set(attempts.flatMap(({ mistake }) => mistake ?? [])),
];

/** True where each upstream fails by a mistake in its settings, so that a further try fails, too. A connection may be made later. */
export const isMistaken = ({ attempts, errorCode }: RecordedCall): boolean =>
  errorCode !== undefined &&
  attempts.length > 0 &&
  attempts.every(
    ({ errorCode: code, mistake, movedOn }) =>
      mistake !== undefined && (code !== "backend_unavailable" || movedOn === "resting"),
  );

/** True where each attempt that has failed by a code tells its own mistake, so that nothing more is to be said of them. */
const areToldBy = ({ attempts }: RecordedCall, code: RecordedCall["errorCode"]): boolean => {
  const failed = attempts.filter(({ errorCode }) => errorCode === code);
  return failed.length > 0 && failed.every(({ mistake }) => mistake !== undefined);
};

/** True where a setting of the host names the wrong model, and no upstream has refused the credential or the account. */
export const isOnlyWronglyNamed = (call: RecordedCall): boolean =>
  (call.errorCode === "backend_refused" || LACKS_MODEL.has(call.errorCode)) &&
  wronglyNamed(call).length > 0 &&
  call.attempts.every(({ errorCode }) => errorCode !== "backend_refused");

/** Matches the messages of the gateway about a missing price. Calls of a model without a price have the same code as those of an unknown one. */
const NO_PRICE = /^(?:(Tokens|Pictures) (?:of|by) the|The) model "[^"]*" (?:has|have) no price\.$/;

/** Returns the missing price for which a call was refused, and the price to add; undefined for any other call. */
function missingPrice({
  errorMessage = "",
  modelAsked = "a model",
}: RecordedCall): { readonly reason: string; readonly remedy: string } | undefined {
  const [message, part] = NO_PRICE.exec(errorMessage) ?? [];
  if (message === undefined) return undefined;
  const name = oneLine(modelAsked);
  return part === undefined
    ? { reason: `${name} has no price.`, remedy: `Add a row for ${name} to the prices.` }
    : {
        reason: `${part} of ${name} have no price.`,
        remedy: `Add a price of ${part.toLowerCase()} to the row for ${name}.`,
      };
}

/** Explains an error, unless the outcome of the call does. */
function errorReasons(call: RecordedCall): readonly string[] {
  const { errorCode, outcome, refusedBy } = call;
  if (errorCode === undefined || (outcome !== "refused" && outcome !== "failed")) return [];
  if (errorCode === "model_not_found" && isUnasked(call)) return [missingPrice(call)?.reason ?? REASONS[errorCode]];
  if (isOnlyWronglyNamed(call)) return ["A setting of this service names a model that its upstream does not have."];
  if (isMistaken(call) && errorCode !== "backend_refused")
    return ["A setting of this service has a mistake: its upstream cannot answer any such call."];
  if (errorCode === "rate_limited" && outcome === "failed") return [UPSTREAM_REASONS[errorCode] ?? errorCode];
  const reason = REASONS[errorCode] ?? errorCode;
  return [refusedBy?.kind === "budget" ? reason.replace("quota", "budget") : reason];
}

/** Says what the caller was told: nothing, if the client had gone. */
function toldReasons(call: RecordedCall): readonly string[] {
  const { errorCode, errorMessage, outcome, attempts } = call;
  if (errorCode === "client_closed") return [];
  if (errorMessage !== undefined)
    return errorCode === "misconfigured"
      ? mistakeReasons(errorMessage)
      : [
          `The caller was told: "${errorMessage}"`,
          ...(errorMessage.length < MOST_MESSAGE_CHARS
            ? []
            : [`The record ends after ${MOST_MESSAGE_CHARS} characters of it.`]),
        ];
  return (outcome === "failed" || attempts.length > 0) && errorCode !== undefined
    ? ["The message that the caller was told is not recorded, because it may quote the prompt."]
    : [];
}

/**
 * Returns sentences that say why a call ended as it did.
 *
 * @param currency The currency of amounts for a call that was recorded without one. Default: amounts are units.
 */
export function reasonsOf(call: RecordedCall, currency?: string): readonly string[] {
  const {
    errorCode,
    errorField,
    errorMessage,
    affordedOutputTokens,
    status,
    outcome,
    refusedBy,
    replayOf,
    attempts,
    units,
  } = call;
  const answer = status === 0 ? "" : `, with the status ${status}${errorCode === undefined ? "" : ` (${errorCode})`}`;
  const code = call.currency ?? currency;
  const amount = (quantity: number): string => amountOf(quantity, code);
  return [
    `${OUTCOMES[outcome]}${outcome === "refused" && !isUnasked(call) ? " by its upstream" : ""}${answer}.`,
    ...errorReasons(call),
    ...(errorField === undefined || LACKS_MODEL.has(errorCode) || errorMessage?.startsWith(`${errorField}:`)
      ? []
      : [`The field is ${errorField}.`]),
    ...toldReasons(call),
    ...(affordedOutputTokens === undefined
      ? []
      : [
          `The output limit was lowered to ${affordedOutputTokens} ${affordedOutputTokens === 1 ? "token" : "tokens"}: the rest of the quota or of a budget pays for no more.`,
        ]),
    ...(refusedBy ? [limitSentence(refusedBy, amount)] : []),
    ...attemptSentences(attempts),
    ...(replayOf === undefined ? [] : [`The answer was that of the call ${replayOf}, and cost nothing.`]),
    ...chargeReasons(call, `${amount(units)}${code === undefined ? " units" : ""}`),
  ];
}

/** True for a call that was cut while an upstream worked on it, and without the upstream's last counts. */
const isCutShort = ({ attempts, units, estimated }: RecordedCall): boolean =>
  attempts.some(({ cut, movedOn }) => cut === true && movedOn === undefined) && (units === 0 || estimated > 0);

/** Says what a call was charged. The gateway knows only what had come of an answer that was cut, and the upstream may bill the rest. */
function chargeReasons(call: RecordedCall, amount: string): readonly string[] {
  const { units, inputTokens, outputTokens, images } = call;
  if (!isCutShort(call)) return units > 0 ? [`The call was charged ${amount}.`] : [];
  return [
    inputTokens + outputTokens + images === 0
      ? "The call was charged nothing, because nothing of its answer had come. The upstream may bill it all the same."
      : `The call was charged ${amount}, for what had come of its answer. The upstream may bill more.`,
  ];
}

/** Divides the message of a mistake in the host's settings into the fault and, for a tier that the limiter does not have, the remedy. */
function mistakeIn(message: string): { readonly fault: string; readonly remedy?: string } {
  const [, fault, remedy] = /^(.*\)\.) ((?:Run polygate|Correct tierOf).*)$/s.exec(message) ?? [];
  return fault === undefined || remedy === undefined ? { fault: message } : { fault, remedy };
}

/** A host's own limiter chooses the words for its callers, which are not recorded. */
function mistakeReasons(message: string): readonly string[] {
  const { fault } = mistakeIn(message);
  return [
    fault,
    ...(/^The key .* names the rate tier /s.test(fault) ? [`The caller was told: "${WRONG_SETTING}"`] : []),
  ];
}

/**
 * Returns a word for a command line, in quotes if it needs some. Shells read the escapes of `$'…'`, for characters that nobody
 * sees.
 */
export function argument(word: string): string {
  if (/^[\w.:@/-]+$/.test(word)) return word;
  if (withEscapes(word) === word) return `'${word.replaceAll("'", "'\\''")}'`;
  return `$'${withEscapes(word.replaceAll(/['\\]/g, "\\$&"), inShell)}'`;
}

/** Writes a command of `polygate`. Operands that begin with a dash stand behind `--`, and so behind the options. */
export function commandOf(verb: string, operands: readonly string[], options: string = ""): string {
  const isDashed = operands.some((operand) => operand.startsWith("-"));
  const words = operands.map(argument);
  return ["polygate", verb, ...(isDashed ? [options, "--", ...words] : [...words, options])].filter(Boolean).join(" ");
}

/** Writes an option with its value. */
export const optionOf = (name: string, value: string): string =>
  `--${name}${value.startsWith("-") ? "=" : " "}${argument(value)}`;

function inShell(char: string): string {
  const hex = (char.codePointAt(0) ?? 0).toString(16);
  return hex.length > 4 ? `\\U${hex.padStart(8, "0")}` : `\\u${hex.padStart(4, "0")}`;
}

/** A limit of a call as it is now: of a budget, or of its key's own quota where no budget is named. */
export interface LimitNow extends Pick<BudgetReport, "available" | "gap"> {
  readonly budget?: string | undefined;
  /** The units that it was given so far. Undefined for a quota without an end. */
  readonly granted?: number | undefined;
}

/** The present state of what has refused a call, as far as the store knows it. */
export interface CallNow {
  /** The limits that the call needs to pass: the quota of its key and its budgets, the one that has refused it first. */
  readonly limits?: readonly LimitNow[];
  /** The key, of a call that its state or its models have refused. */
  readonly key?: KeyReport;
}

/** The errors that the key itself decides. */
const OF_KEY: ReadonlySet<unknown> = new Set(["paused_api_key", "expired_api_key", "model_not_allowed"]);

/** Reads the present state of what has refused a call. Empty for a call that was refused by nothing of the store. */
export async function callNow(
  { errorCode, refusedBy: { kind, budget } = { kind: "calls" }, budgets, keyId }: RecordedCall,
  store: LimitSource,
): Promise<CallNow> {
  const isOfKey = OF_KEY.has(errorCode);
  if (!isOfKey && !OF_UNITS.has(kind)) return {};
  const key = keyId === undefined ? undefined : await store.report(keyId);
  if (isOfKey) return given({ key });
  const limits: LimitNow[] = [];
  for (const id of new Set([...(budget === undefined ? [] : [budget]), ...budgets])) {
    const report = await store.budgetReport?.(id);
    if (report) {
      const { available, granted, gap } = report;
      limits.push({ budget: id, available, granted, ...given({ gap }) });
    }
  }
  if (key && !(key.unlimited && kind === "budget")) {
    const own = key.unlimited
      ? { available: MOST_UNITS }
      : { available: key.available ?? MOST_UNITS, granted: key.granted ?? undefined };
    if (kind === "quota") limits.unshift(own);
    else limits.push(own);
  }
  return limits.length > 0 ? { limits } : {};
}

/**
 * Says what helps a caller who was refused, as commands where there are some. Empty for a call that needs no help, or none of an operator.
 *
 * @param currency The currency of amounts for a call that was recorded without one. Default: amounts are units.
 * @param now The present state of what has refused the call. Default: unknown, so the limit is taken as it was at that moment.
 */
export function nextSteps(call: RecordedCall, currency?: string, now: CallNow = {}): readonly NextStep[] {
  if (isMistaken(call)) return inWords(...mistakesOf(call), "Until then, trying again does not help.");
  const steps = stepsOf(call, currency, now);
  const names = wronglyNamed(call).map(({ upstream, model, mistake }) =>
    mistake === undefined ? lackedModel(oneLine(upstream), oneLine(model)) : mistake,
  );
  const mistakes = [...mistakesOf(call), ...names];
  if (call.errorCode === undefined || mistakes.length === 0) return steps;
  const resting = call.attempts
    .filter(({ movedOn }) => movedOn === "resting")
    .map(
      ({ upstream }) =>
        `The upstream ${oneLine(upstream)} was not asked, because it was resting: gateway.health() has its state.`,
    );
  return [...inWords(...new Set([...mistakes, ...resting])), ...steps];
}

/** Says what helps against the error of a call. `nextSteps` adds what its attempts tell. */
function stepsOf(call: RecordedCall, currency: string | undefined, now: CallNow): readonly NextStep[] {
  const { errorCode, errorField, refusedBy, keyId, modelAsked, outcome, requestId, status } = call;
  const inLog = `look for ${oneLine(requestId)} in the log of the gateway, which has`;
  const answerInLog = isUnasked(call) ? [] : [`For the words of the upstream, ${inLog} its answer.`];
  const ofKey = (verb: "keys resume" | "keys update", options: string, effect: string): NextStep => ({
    sentence: `${commandOf(verb, [keyId ?? "KEY"], options)} ${effect}`,
    verb,
    ...given({ key: keyId }),
  });
  switch (errorCode) {
    case "quota_exhausted":
    case "quota_insufficient":
    case "quota_held":
      return topUpSteps(call, currency, now.limits);
    case "model_not_allowed": {
      const models = now.key && modelsOf(now.key);
      if (now.key && (models?.includes(modelAsked ?? "") ?? true))
        return inWords("The key may use the model now: the caller may try again.");
      const allowed = models ? `. Now it may use ${modelsInWords(models, MOST_MODELS)}.` : ".";
      return [ofKey("keys update", "--models MODELS", `replaces the models that the key may use${allowed}`)];
    }
    case "paused_api_key":
      return worksNow(now) ? inWords(WORKS_NOW) : [ofKey("keys resume", "", "lets the key work again.")];
    case "expired_api_key":
      return worksNow(now)
        ? inWords(WORKS_NOW)
        : [ofKey("keys update", "--expires DATE", "makes the key valid again.")];
    case "model_not_found":
      if (isOnlyWronglyNamed(call)) return inWords(...answerInLog);
      return inWords(
        isUnasked(call)
          ? (missingPrice(call)?.remedy ??
              `The caller asked for ${oneLine(modelAsked ?? "a model")}: look for its name in the list of models, or add it.`)
          : "The caller must choose another model.",
        ...answerInLog,
      );
    case "missing_api_key":
    case "malformed_credential":
      return inWords("The caller must send its API key as the message says.");
    case "invalid_api_key":
      return inWords(
        "Ask for the name of the key: polygate keys usage NAME says whether it is revoked.",
        "polygate keys create makes a key in place of a revoked one. To any other key, polygate keys add-secret KEY gives one more secret.",
      );
    case "rate_limited":
      if (outcome === "failed") return inWords(`The caller may try again soon. ${REMEDIES.rate_limited}`);
      return inWords(
        refusedBy?.endsAt === undefined
          ? "The caller may try again soon."
          : `The caller may try again from ${timeOf(refusedBy.endsAt)}.`,
      );
    case "backend_failed":
    case "internal":
      return inWords("The caller may try again.", `For the cause, ${inLog} the whole error.`);
    case "deadline_exceeded":
      return inWords(
        outcome === "deadline"
          ? "The caller may try again. A higher limits.deadlineMs gives calls more time."
          : `The caller may try again.${isUnasked(call) ? "" : ` ${REMEDIES.deadline_exceeded}`}`,
      );
    case "busy":
    case "idempotency_key_in_use":
      return inWords("The caller may try again.");
    case "call_stopped":
      return inWords(
        "The request needs no change. Before it is sent again, ask who has stopped the call.",
        `The log of changes names the user of the admin who did: polygate audit --target=${argument(requestId)}${keyId === undefined ? "" : `, or --target=${argument(keyId)} where all calls of the key were stopped`}`,
      );
    case "backend_unavailable":
      if (areToldBy(call, errorCode)) return inWords("The caller may try again.");
      return inWords(
        "The caller may try again.",
        // The log tells of a rest only once, not with each call.
        `If it lasts, ${REMEDIES.backend_unavailable}: ${isOfRest(call) ? "gateway.health() has its state." : `${inLog} the whole error.`}`,
      );
    case "backend_overloaded":
    case "store_unavailable":
      return inWords("The caller may try again.", `To see what was away, ${inLog} the whole error.`);
    case "misconfigured": {
      const { remedy } = mistakeIn(call.errorMessage ?? "");
      if (remedy === undefined) return inWords(`Correct the setting: ${inLog} the whole error.`);
      const isOfKey = remedy.startsWith("Run polygate keys update ");
      return [{ sentence: remedy, ...(isOfKey && { verb: "keys update", ...given({ key: keyId }) }) }];
    }
    case "body_too_large":
      return inWords(
        "The caller must send less.",
        ...(isUnasked(call)
          ? ["Higher limits.maxJsonBytes and limits.maxUploadBytes let larger bodies pass."]
          : answerInLog),
      );
    case "content_refused":
      return inWords("The caller must change the prompt.", ...answerInLog);
    case "client_closed":
      return isCutShort(call)
        ? inWords(
            "To charge for such calls, set hangUp: { drainMs: 60_000 } on the relay or the route: they then go on without their client for up to a minute, until their usage is known.",
          )
        : waitSteps(call);
    case "backend_refused":
      if (isOnlyWronglyNamed(call) || areToldBy(call, errorCode)) return inWords(...answerInLog);
      return inWords(`${REMEDIES.backend_refused}: ${inLog} its answer.`);
    default:
      return status >= 400 && status < 500 && status !== 499 && refusedBy === undefined && errorCode !== undefined
        ? inWords(
            errorField === undefined
              ? (CALLER_STEPS[errorCode] ?? "The caller must change the request.")
              : `The caller must correct the field ${oneLine(errorField)}.`,
            ...vendorOption(call),
            ...answerInLog,
          )
        : [];
  }
}

/** The steps after errors of requests that say more than to change the request. */
const CALLER_STEPS: Readonly<Partial<Record<NonNullable<RecordedCall["errorCode"]>, string>>> = {
  context_length_exceeded: "The caller must send a shorter prompt, or choose a model that takes more.",
  idempotency_key_reused: "The caller must send the request with a new idempotency key.",
  upgrade_required: "The caller must use HTTP, or you add toUpgradeHandler(gateway) to the server for WebSockets.",
};

/** The errors of the messages format that Anthropic's own service does not have, each with the option that accepts such values. */
const STRICTER: Readonly<Record<string, RegExp>> = {
  'ranges: "vendor"':
    /^(?:max_tokens: must be an integer of at least 2$|top_p: must be (?:greater|less) than |top_k: must be an integer of at least 1$|tools\.\d+\.name: must be at most 64 |thinking\.budget_tokens: must be less than max_tokens )/,
  'imageSources: "vendor"': /^[\w.]+\.source\.type: must be "base64"/,
};

/** Names the host's option for values that Anthropic's own service accepts and this gateway refuses by default. */
const vendorOption = ({ format, errorMessage = "" }: RecordedCall): readonly string[] =>
  Object.entries(STRICTER)
    .filter(([, error]) => format === "messages" && error.test(errorMessage))
    .map(
      ([option]) =>
        `Anthropic accepts more values here. To accept them, too, set createGateway({ messages: { ${option} } }).`,
    );

/** Says what a call was waiting for when its client left: an upstream that had failed is asked again after a pause. */
function waitSteps({ attempts }: RecordedCall): readonly NextStep[] {
  const { upstream, errorCode: code, mistake, cut, movedOn } = attempts.at(-1) ?? {};
  if (upstream === undefined || code === undefined || cut || movedOn === "outrun") return [];
  return inWords(
    `The call was waiting for a further try, because the upstream ${oneLine(upstream)} had ${movedOn === "resting" ? "been resting" : `failed (${code})`}.`,
    ...[failingRemedy({ code, ...given({ mistake }) })].filter((sentence) => sentence !== undefined),
  );
}

/** The most models that a sentence names. */
const MOST_MODELS = 10;

const worksNow = ({ key }: CallNow): boolean => key !== undefined && stateOf(key, Date.now()) === "active";

const WORKS_NOW = "The key works now: the caller may try again.";

/** Makes steps without a command. */
const inWords = (...sentences: readonly string[]): readonly NextStep[] => sentences.map((sentence) => ({ sentence }));

/** Says how to give more to a quota or a budget that was too small, and what the call lacks. */
function topUpSteps(
  { errorCode, refusedBy = { kind: "quota" }, keyId, ...call }: RecordedCall,
  currency: string | undefined,
  now: readonly LimitNow[] | undefined,
): readonly NextStep[] {
  const { kind, budget = "", needed = 0, wanted, available = 0, held = 0 } = refusedBy;
  const code = call.currency ?? currency;
  const least = Math.max(needed, 1);
  const useful = wanted ?? least;
  const limits = now ?? [
    { budget: kind === "budget" ? budget : undefined, available: Math.min(available, useful - 1) },
  ];
  const steps = limits.flatMap(({ budget: id, available: left, gap = 0, granted }): readonly NextStep[] => {
    const missing = Math.max(0, useful - left) + gap;
    if (missing === 0) return [];
    // This limit has not refused the call, and it pays for a shorter answer: it blocks nothing.
    if (gap === 0 && left >= least && id !== (kind === "budget" ? budget : undefined))
      return inWords(
        `The whole output limit needs ${unitsInWords(missing, code)} more of ${id === undefined ? "the key's own quota" : `the budget ${oneLine(id)}`}, too; a shorter answer needs no more of it.`,
      );
    const verb = id === undefined ? "keys grant" : "budgets top-up";
    const target = id === undefined ? given({ key: keyId }) : given({ budget: id || undefined });
    const of = id === undefined ? (keyId ?? "KEY") : id || "BUDGET";
    const command = commandOf(verb, [of, "AMOUNT"], code === undefined ? "" : `--currency ${code.toLowerCase()}`);
    const first =
      gap > 0
        ? `, and first fills the gap of ${amountOf(gap, code)} by which the budget's amount is below its use`
        : "";
    // The next calls need units, too: the operator chooses how many.
    const facts = [
      ...(granted === undefined
        ? []
        : [` So far it was given ${granted === 0 ? "nothing, maybe on purpose" : unitsInWords(granted, code)}.`]),
      ...(wanted === undefined
        ? []
        : [` This call alone ${now ? "lacks" : "lacked"} ${unitsInWords(missing, code)} for its whole output limit.`]),
    ];
    const step = { verb, ...target, ...(wanted !== undefined && { units: missing }) } as const;
    return [{ ...step, sentence: `${command} lets calls pass again${first}.${facts.join("")}` }];
  });
  if (steps.every(({ verb }) => verb === undefined))
    return [
      ...inWords(
        wanted === undefined
          ? "There is quota left now: the caller may try again."
          : "There is enough for the call now: the caller may try again.",
      ),
      ...steps,
    ];
  return [
    ...steps,
    ...(held > 0 ? inWords("Running calls may give units back: the caller may also try again.") : []),
    ...(errorCode === "quota_insufficient" ? inWords("A shorter prompt or a lower output limit needs less.") : []),
  ];
}

/** Limits that count quota units. The others count requests, tokens or calls. */
const OF_UNITS: ReadonlySet<RefusedBy["kind"]> = new Set(["quota", "budget"]);

function limitSentence(refusedBy: RefusedBy, amountOfUnits: (units: number) => string): string {
  const { kind, needed, wanted, available, held, limit, windowMs, endsAt, model, group, budget } = refusedBy;
  const amount = OF_UNITS.has(kind) ? amountOfUnits : String;
  const owners: Readonly<Record<RefusedBy["kind"], string>> = {
    requests: "the rate limit on requests",
    tokens: "the rate limit on tokens",
    calls: "the limit on calls at once",
    quota: "the key's own quota",
    budget: `the budget ${budget ?? ""}`,
  };
  const of = [
    ...(group === undefined ? [] : [` of the group ${group}`]),
    ...(model === undefined ? [] : [` for the model ${model}`]),
    ...(limit === undefined ? [] : [`, ${limit}${windowMs === undefined ? "" : ` in ${windowMs / 1_000} s`}`]),
  ];
  const state = [
    ...(needed === undefined ? [] : [`needed: ${wanted === undefined ? "" : "at least "}${amount(needed)}`]),
    ...(available === undefined ? [] : [`available: ${amount(available)}`]),
    ...(held === undefined || held === 0 ? [] : [`held by running calls: ${amount(held)}`]),
    ...(endsAt === undefined ? [] : [`begins anew at ${timeOf(endsAt)}`]),
  ];
  return `The call was refused by ${owners[kind]}${of.join("")}${state.length > 0 ? ` (${state.join(", ")})` : ""}.`;
}

/** The words for each reason to cut an attempt, by its error code. Any other cut is the closing of the gateway. */
const CUTS: Readonly<Partial<Record<NonNullable<UpstreamAttempt["errorCode"]>, string>>> = {
  client_closed: "the client has disconnected, or cancelled its response",
  deadline_exceeded: "the call took longer than the gateway allows (limits.deadlineMs)",
  call_stopped: "an operator has stopped the call",
};

/** Returns equal texts for attempts of one upstream that ended in the same way. */
const endOf = ({ upstream, model, status, errorCode, movedOn, cut }: UpstreamAttempt): string =>
  JSON.stringify([upstream, model, status, errorCode, movedOn === "resting", cut]);

/** Tells each attempt of a call. Attempts of one upstream that have failed in the same way are one sentence. */
function attemptSentences(attempts: readonly UpstreamAttempt[]): readonly string[] {
  return [...Map.groupBy(attempts, endOf).values()].flatMap((same) => {
    const [first] = same;
    return first ? attemptSentence(first, same) : [];
  });
}

function attemptSentence(
  { upstream, model, status, errorCode, movedOn, endMs, cut }: UpstreamAttempt,
  same: readonly UpstreamAttempt[],
): string {
  if (movedOn === "resting") return `The upstream ${upstream} was not asked, because it was resting.`;
  if (cut) {
    const reason = (errorCode && CUTS[errorCode]) ?? "the gateway was closed";
    return `The request to the upstream ${upstream} for the model ${model} was cut after ${Math.round(endMs)} ms, because ${reason}.`;
  }
  const times = same.length > 1 ? ` ${same.length} times` : "";
  const [least = 0, most = 0] = [Math.min, Math.max].map((of) => Math.round(of(...same.map((one) => one.endMs))));
  const ms = least === most ? least : `${least} to ${most}`;
  const end = errorCode === undefined ? `answered${times}` : `failed${times} (${errorCode})`;
  return `The upstream ${upstream} ${end} for the model ${model}${status === undefined ? "" : ` with the status ${status}`} after ${ms} ms.`;
}

/** The words for the fields of a call. The other fields stand in its reasons. */
export const CALL_WORDS: Readonly<Record<Exclude<keyof RecordedCall, "attempts" | "refusedBy" | "money">, string>> = {
  requestId: "Request id",
  at: "Time",
  day: "Local day",
  keyId: "Key",
  keyName: "Key name",
  budgets: "Budgets",
  group: "Group",
  metadata: "Metadata",
  format: "Format",
  route: "Route",
  modelAsked: "Model asked for",
  modelAnswered: "Model of the answer",
  stream: "Streamed",
  upstream: "Upstream",
  outcome: "Outcome",
  status: "Status",
  errorCode: "Error code",
  errorField: "Error field",
  errorMessage: "Error message",
  affordedOutputTokens: "Output limit paid for",
  ...COUNT_WORDS,
  units: "Charged",
  estimated: "Charged by estimate",
  currency: "Currency",
  replayOf: "Repeats the call",
  firstEventMs: "First event after (ms)",
  endMs: "Ended after (ms)",
};

/**
 * Writes a reason and the call as lines, without fields that are zero, false or empty, or that the reasons say.
 *
 * @param currency The currency of amounts for a call that was recorded without one. Default: amounts are units.
 */
export function linesOf({ reasons, next, call }: CallReason, currency?: string): readonly string[] {
  const { attempts: _, refusedBy: __, errorMessage: ___, requestId, metadata, budgets, at, units, ...others } = call;
  // Each amount names its currency.
  const { estimated, currency: ____, money: _____, ...fields } = others;
  const amount = (quantity: number): string => (quantity > 0 ? amountOf(quantity, call.currency ?? currency) : "");
  const texts = Object.entries({
    requestId,
    at: timeOf(at),
    ...fields,
    // A name that is the id says nothing more.
    keyName: call.keyName === call.keyId ? "" : call.keyName,
    units: amount(units),
    estimated: amount(estimated),
    budgets: budgets.join(", "),
    metadata: Object.entries(metadata ?? {})
      .map((entry) => entry.join("="))
      .join(", "),
  }).filter(([, value]) => value !== undefined && value !== 0 && value !== false && value !== "");
  // The cast is safe: the fields are those of a call.
  const words = texts.map(
    ([name, value]) => `${CALL_WORDS[name as keyof typeof CALL_WORDS]}: ${oneLine(String(value))}`,
  );
  return [...reasons, ...next.map(({ sentence }) => `Next: ${sentence}`), "", ...words].map(oneLine);
}
