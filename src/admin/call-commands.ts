/** The commands of `polygate` about recorded calls, which have no group. */

import { given } from "../model/json.ts";
import { oneLine } from "../options.ts";
import {
  CALL_OUTCOMES,
  type CallFilter,
  type CallReader,
  columnsMeant,
  MOST_ROWS,
  type RecordedDays,
  USAGE_COLUMNS,
  type UsageColumn,
  type UsageQuery,
} from "../stores/calls.ts";
import { UsageError } from "../stores/open/connection.ts";
import {
  callNow,
  inCurrency,
  linesOf,
  nextSteps,
  noteOfMixed,
  ofNoCharge,
  optionOf,
  reasonsOf,
  usageCsv,
} from "./call-admin.ts";
import { callsCsv, callsText } from "./call-list.ts";
import { PLAIN_COLUMNS, timeIn } from "./columns.ts";
import { type Command, CommandError, type Terminal, type Values, type Words } from "./commands.ts";
import { codesMeant } from "./error-codes.ts";
import type { KeyAdmin } from "./key-admin.ts";
import { csvOf, linesOfCsv, noteRest, pageOf, printTable, SINCE_WORDS, UNTIL_WORDS } from "./lists.ts";
import { meant, type Places } from "./meant.ts";
import { idNear, idsLike } from "./names.ts";
import type { OpenedStore } from "./open-store.ts";
import { requestIdIn, WHERE_IDS_ARE } from "./request-id.ts";
import { usageText } from "./usage-table.ts";
import { assertTimeZone, daysOf, hintOf, nearestHint, oneOf, timesOf, wordOf } from "./values.ts";

const BUDGET_WORDS: Words = {
  budget: "only calls of this budget and its child budgets, by its id or its name",
};
const ZONE_WORDS: Words = {
  "time-zone": "of the times, such as Europe/Berlin; POLYGATE_TIME_ZONE, or UTC by default",
};

/** The commands without a group. */
export const CALL_COMMANDS: Readonly<Record<string, Command>> = {
  usage: {
    about: "sums of recorded calls (SQL)",
    examples: [
      "usage --by key,model --since 2026-11-01",
      "usage --by budget,model --month last --csv > last-month.csv",
      "usage --by budget --month 2026-10 --charged --spreadsheet excel-europe > 2026-10.csv",
      "usage --by day --budget team-a --since 90d",
    ],
    options: [
      ...(["by", "month", "since", "until", "key", "budget", "group", "model", "upstream"] as const),
      ...(["charged", "csv", "spreadsheet"] as const),
    ],
    words: BUDGET_WORDS,
    elsewhere: {
      "time-zone":
        "The days of a call are counted when it is recorded: in the time zone of its key's budget (budgets create --time-zone), or else in the timeZone of the recorder.",
    },
    read(_operands, values, { print, warn = () => {}, columns }) {
      const { json = false, currency, key, budget, group, model, upstream, charged } = values;
      const { csv, spreadsheet } = csvOf(values);
      const chosen = {
        by: columnsOf(values.by ?? "key"),
        ...daysOf(values, "30d"),
        ...given({ budget, group, model, upstream, charged }),
        limit: MOST_ROWS,
      };
      return async (keys, { store, calls }) => {
        const reader = readerIn(calls);
        const query = await meant({ ...chosen, ...given({ key }) }, { keys, store }, warn);
        const recorded = await reader.usage(query);
        // People may know better than the record, whose currencies are then named in a note.
        const report = inCurrency(recorded, currency);
        if (report.total.calls === 0) await assertKnownKey(query.key, reader, { keys, store });
        if (report.rows.length === MOST_ROWS)
          throw new CommandError(`The report has ${MOST_ROWS} rows or more. Choose fewer days, or fewer columns.`);
        const mistake = ofNoCharge(recorded, currency);
        const { currency: code = "" } = recorded;
        const inOwn = `For amounts in ${code}, write --currency ${code.toLowerCase()}.`;
        // Programs read the money, not a note.
        if (json && mistake !== undefined) throw new UsageError(`${mistake} ${inOwn}`);
        if (json) return report;
        const mixed = noteOfMixed(report);
        const words = mixed && `${mixed} ${mistake ? inOwn : '"polygate calls" shows each call in its own currency.'}`;
        const note = report.total.calls === 0 ? await noteOfNone(reader, query, report.recorded) : undefined;
        if (csv) {
          print(linesOfCsv(usageCsv(report, given({ currency, spreadsheet }))));
          for (const line of [note, words]) if (line !== undefined) warn(line);
        } else if (note !== undefined) print(note);
        else {
          printTable(usageText(report, currency, columns ?? PLAIN_COLUMNS), print, warn);
          const { since, until, timeZone = "of each budget or of the gateway" } = report;
          if (words !== undefined) print(words);
          print(`Calls${daysInWords(since, until)}, by the time zone ${timeZone}.`);
          if (report.total.inputTokens + report.total.outputTokens > 0)
            print("Input and output are tokens: cache is a part of input, and reasoning of output.");
        }
        return undefined;
      };
    },
  },
  calls: {
    about: "lists recorded calls, the latest first (SQL)",
    examples: [
      "calls --key team-a --outcome refused",
      "calls --code quota_exhausted --since 7d --limit 1000 --csv > calls.csv",
    ],
    options: [
      ...(["key", "budget", "group", "model", "upstream", "outcome", "code"] as const),
      ...(["month", "since", "until", "after", "limit", "csv", "spreadsheet", "time-zone"] as const),
    ],
    words: {
      ...BUDGET_WORDS,
      ...ZONE_WORDS,
      since: SINCE_WORDS,
      until: UNTIL_WORDS,
      after: "only calls that are listed after this request id",
    },
    async read(_operands, values, { env, print, warn = () => {}, columns = PLAIN_COLUMNS }) {
      const zone = zoneOf(values, env);
      const { json = false, currency, key, budget, group, model, upstream, code } = values;
      const { csv, spreadsheet } = csvOf(values);
      const times = timesOf(values);
      const outcome = values.outcome
        ?.split(",")
        .flatMap((one) => wordOf("--outcome", one.trim() || "nothing", CALL_OUTCOMES) ?? []);
      const { limit = 100, after } = pageOf(values);
      const errorCode = code === undefined ? undefined : await codesOf(code, warn);
      const filter = { budget, group, model, upstream, outcome, errorCode, ...times, after, limit };
      return async (keys, { store, calls }) => {
        const reader = readerIn(calls);
        const chosen: CallFilter = given(await meant({ ...filter, key }, { keys, store }, warn));
        const listed = await reader.list(chosen);
        if (listed.length === 0) await assertKnownKey(chosen.key, reader, { keys, store });
        if (csv) print(linesOfCsv(callsCsv(listed, { currency, spreadsheet, zone })));
        else if (listed.length === 0 && !json) print(await noteOfNoCalls(reader, chosen));
        else if (!json) printTable(callsText(listed, currency, columns, zone), print, warn);
        noteRest(listed.length, listed.at(-1)?.requestId, { limit }, { warn });
        return json ? listed.map((call) => ({ ...call, reasons: reasonsOf(call, currency) })) : undefined;
      };
    },
  },
  why: {
    about: "says why a call ended, by its request id or at least 8 digits of it (SQL)",
    examples: ["why req_3e2ac2d520f46a591a5c8db1c2638c1c", "why req_3e2ac2d5"],
    operands: ["REQUEST_ID"],
    options: ["time-zone"],
    words: ZONE_WORDS,
    read([text = ""], values, { env, print }) {
      const { json = false, currency } = values;
      const zone = zoneOf(values, env);
      // People paste the whole message of a client, which has the id in it.
      const id = requestIdIn(text) ?? text;
      return async (keys, { store, calls }) => {
        const reader = readerIn(calls);
        const call = (await reader.find(text)) ?? (await reader.find(id));
        if (!call && /^req_[\da-f]{0,7}$/.test(id))
          throw new CommandError(`${id} is too short. Give at least 8 digits of the id.`);
        if (!call)
          throw new CommandError(`No call of the request id ${id} is recorded. ${await hintOfNoCall(keys, text)}`);
        const next = nextSteps(call, currency, await callNow(call, store));
        const reason = { reasons: reasonsOf(call, currency), next, call };
        if (json) return reason;
        for (const line of linesOf(reason, currency)) print(zone === undefined ? line : timesIn(zone, line));
        return undefined;
      };
    },
  },
};

function readerIn(calls: OpenedStore["calls"]): CallReader {
  if (!calls) throw new UsageError("Only the stores over SQL keep a record of calls.");
  return calls;
}

/** The options of a report that choose calls by a name in their columns. */
const NAMED = ["key", "group", "model", "upstream"] as const;

/** Throws for a key that neither the store nor a recorded call has: an empty report would look like an unused key. */
async function assertKnownKey(id: string | undefined, reader: CallReader, { keys, store }: Places): Promise<void> {
  if (id === undefined || (await store.report(id)) || (await reader.usage({ key: id })).total.calls > 0) return;
  const hint = hintOf(await idNear(id, (page) => keys.list(page)));
  throw new CommandError(`No key has the id or the name ${oneLine(id)}, and no call of it is recorded.${hint}`);
}

/** Says why a report counts no calls. */
async function noteOfNone(calls: CallReader, query: UsageQuery, recorded: RecordedDays | undefined): Promise<string> {
  if (!recorded)
    return `No calls are recorded yet. ${WRITTEN_LATER} If a call has just ended, ask again. If not, the gateway may lack onCall: stores.recorder().`;
  const { since, until } = query;
  const kept = `Calls are recorded from ${recorded.since} to ${recorded.until}.`;
  const days = daysInWords(since, until);
  if ((since ?? "") > recorded.until || (until !== undefined && until < recorded.since))
    return `No calls are recorded${days}. ${kept}`;
  for (const column of NAMED) {
    const name = query[column];
    if (name === undefined) continue;
    const { rows } = await calls.usage({ by: [column], ...given({ since, until }) });
    const names = rows.flatMap((row) => row[column] || []);
    if (names.includes(name)) continue;
    return `No call of the ${column} ${oneLine(name)} is recorded${days}.${nearestHint(name, names)}`;
  }
  return `No such call is recorded${days}. ${kept}`;
}

function daysInWords(since: string | undefined, until: string | undefined): string {
  if (since === undefined) return until === undefined ? "" : ` until ${until}`;
  if (until === undefined) return ` since ${since}`;
  return since === until ? ` on ${since}` : ` from ${since} to ${until}`;
}

/** Says why a list of calls is empty: no call was counted, or none ended so, or the calls are deleted already. */
async function noteOfNoCalls(
  reader: CallReader,
  {
    sinceDay,
    untilDay,
    since,
    until,
    outcome: _outcome,
    errorCode: _code,
    after: _after,
    limit: _limit,
    ...chosen
  }: CallFilter,
): Promise<string> {
  const query: UsageQuery = given({ ...chosen, since: sinceDay, until: untilDay });
  const { total, recorded } = await reader.usage(query);
  if (total.calls === 0) return noteOfNone(reader, query, recorded);
  const count = total.calls === 1 ? "a call" : `${total.calls} calls`;
  const narrow = since === undefined && until === undefined ? "--outcome and --code" : "--outcome, --code and times";
  return `No such call is recorded. Calls are deleted after some days (keepDays); without ${narrow}, polygate usage counts ${count}.`;
}

const GROUP = " The group is the entry group of a key's metadata, or what the server's groupOf returns.";
/** The hint for what users call their columns, such as another entry of the metadata. */
const FOR_OTHERS = ` For a team, a customer or an entry of the metadata, write --by budget or --by group.${GROUP}`;

/** An empty text names no column, for a single row with the sum of all calls. */
function columnsOf(text: string): readonly UsageColumn[] {
  const names = text === "" ? [] : text.split(",").map((name) => name.trim());
  return names.map((name) => {
    const column = USAGE_COLUMNS.find((known) => known === name);
    if (column) return column;
    const meant = columnsMeant(name);
    const hint = meant === undefined ? FOR_OTHERS : ` Did you mean ${meant}?${meant.includes("group") ? GROUP : ""}`;
    throw new UsageError(`--by must name some of ${USAGE_COLUMNS.join(", ")}, not ${name || "nothing"}.${hint}`);
  });
}

/** Reads the time zone of the times that a command shows. Undefined for UTC. */
function zoneOf({ "time-zone": given }: Values, env: Terminal["env"]): string | undefined {
  const zone = given ?? env["POLYGATE_TIME_ZONE"];
  if (zone === undefined || zone === "") return undefined;
  assertTimeZone(zone, given === undefined ? "POLYGATE_TIME_ZONE" : undefined);
  return zone;
}

/** Writes the times of a sentence as the clocks of a time zone show them. What the caller was told stays word for word. */
const timesIn = (zone: string, line: string): string =>
  line.startsWith("The caller was told: ")
    ? line
    : line.replaceAll(
        /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g,
        (time) => `${timeIn(zone, Date.parse(time))} ${zone}`,
      );

/** Reads the code of an error, and notes the codes that stand for it in the record. */
async function codesOf(text: string, warn: (line: string) => void): Promise<readonly string[]> {
  try {
    const codes = await codesMeant("--code", text);
    if (!codes.some((code) => code === text)) warn(`${text} is recorded as ${oneOf(codes)}.`);
    return codes;
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}

/** Says why a call that was made may not be found. */
const WRITTEN_LATER = "Calls are written a second after their end, and deleted after some days (keepDays).";

/** Says what to ask for when no call has a request id. People often have only the name of a key. */
async function hintOfNoCall(keys: KeyAdmin, text: string): Promise<string> {
  const [key, ...others] = await idsLike(text, (page) => keys.list(page));
  if (key !== undefined && others.length === 0)
    return `"polygate calls ${optionOf("key", key)}" lists the calls of the key ${oneLine(key)}.`;
  if (/^[\da-f]{1,7}$/.test(text)) return "Give at least 8 digits of the id.";
  if (!/\breq_|^[\da-f]{8,32}$/.test(text)) return `${WHERE_IDS_ARE} "polygate calls" lists the calls with theirs.`;
  return `${WRITTEN_LATER} A call of a process that has died appears within four minutes. A request to no route of the gateway (404) or with a wrong method (405) is no call, and leaves no record.`;
}
