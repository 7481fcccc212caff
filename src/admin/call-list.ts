/** Writes recorded calls as a list: a line for each, as a table for people and as CSV. */

import { visible } from "../model/visible.ts";
import { oneLine } from "../options.ts";
import type { RecordedCall } from "../stores/calls.ts";
import { CALL_WORDS, isMistaken, isOnlyWronglyNamed, mistakesOf, type RefusedBy, unitsWord } from "./call-admin.ts";
import {
  amountsIn,
  type Column,
  csvPartsOf,
  type FittedTable,
  fittedTable,
  type Spreadsheet,
  timeIn,
} from "./columns.ts";

/** The limits that refuse a call, in short. */
const LIMITS: Readonly<Record<RefusedBy["kind"], string>> = {
  requests: "rate of requests",
  tokens: "rate of tokens",
  calls: "calls at once",
  quota: "quota of the key",
  budget: "budget",
};

/** Returns the beginning of a request id, which `why` takes. */
const shortId = (id: string): string => id.replace(/^(req_[\da-f]{8})[\da-f]+$/, "$1");

/** Says in a few words why a call ended as it did: `budget red`. Empty for a call that simply was completed. */
function shortReasonOf(call: RecordedCall): string {
  const { errorCode, outcome, refusedBy, replayOf, affordedOutputTokens } = call;
  if (refusedBy) return `${LIMITS[refusedBy.kind]} ${refusedBy.budget ?? ""}`.trim();
  if (isOnlyWronglyNamed(call)) return "wrong model of upstream";
  if (isMistaken(call) && errorCode !== "backend_refused") return "wrong address of upstream";
  // Its error code is that of a full gateway.
  if (outcome === "shutdown") return "gateway closed";
  if (replayOf !== undefined) return `repeats ${shortId(replayOf)}`;
  return errorCode ?? (affordedOutputTokens === undefined ? "" : `limit lowered to ${affordedOutputTokens}`);
}

/**
 * Formats calls for people, the first one first, in lines of at most `width` characters. A narrow table has the beginnings of request ids, which
 * `why` takes.
 *
 * @param currency The currency of amounts for calls that were recorded without one. Default: amounts are units.
 * @param zone The time zone of the times, such as `Europe/Berlin`, of which the heading names the city.
 */
export function callsText(
  calls: readonly RecordedCall[],
  currency: string | undefined,
  width: number,
  zone = "UTC",
): FittedTable {
  const AT = `AT (${zone.replace(/^.*\//, "")})`;
  const spentOf = ({ units, currency: code = currency }: RecordedCall) => ({ units, currency: code });
  const amount = amountsIn(calls.map(spentOf));
  const [first, ...others] = new Set(calls.map((call) => spentOf(call).currency));
  // The heading names the currency, unless there are several.
  const SPENT = first === undefined || others.length > 0 ? "SPENT" : `SPENT ${first}`;
  const spentText = (spent: ReturnType<typeof spentOf>): string =>
    [amount(spent), ...(others.length > 0 ? [spent.currency ?? "units"] : [])].join(" ");
  const table = (from: number, to: number, idOf: (requestId: string) => string) => {
    const rows = calls.map((call) => ({
      [AT]: timeIn(zone, call.at).slice(from, to),
      KEY: visible(call.keyName || call.keyId || "-"),
      MODEL: visible(call.modelAsked ?? "-"),
      [SPENT]: spentText(spentOf(call)),
      OUTCOME: call.outcome,
      REASON: oneLine(shortReasonOf(call) || "-"),
      "REQUEST ID": oneLine(idOf(call.requestId)),
    }));
    return fittedTable(rows, width, [SPENT, "OUTCOME"], [AT, SPENT, "REQUEST ID"]);
  };
  const whole = table(0, "2026-11-28 21:11:59".length, (id) => id);
  if (whole.leftOut.length === 0) return whole;
  // The year and the end of the id are the least loss: recorded calls are deleted after some days, and `why` takes the beginning of an id.
  return table("2026-".length, "2026-11-28 21:11:59".length, shortId);
}

/** The choices for CSV of calls. */
interface CallsCsvOptions<Call> {
  /** The currency of amounts for calls that were recorded without one. Default: these have no amount. */
  readonly currency?: string | undefined;
  readonly spreadsheet?: Spreadsheet | undefined;
  /** The time zone of the times in a spreadsheet. Default: UTC. Programs read times in UTC. */
  readonly zone?: string | undefined;
  /** Further columns, behind the others. Default: none. */
  readonly more?: readonly Column<Call>[];
}

/** Makes the column of a field. */
const field = (name: Exclude<keyof typeof CALL_WORDS, "budgets" | "metadata" | "stream">): Column<RecordedCall> => ({
  name,
  word: CALL_WORDS[name],
  cell: (call) => call[name],
});

/** Writes recorded calls as CSV, for programs or for a spreadsheet. */
export function callsCsv<Call extends RecordedCall>(
  calls: readonly Call[],
  { currency: given, spreadsheet, zone = "UTC", more = [] }: CallsCsvOptions<Call>,
): string {
  const currencyOf = ({ currency = given }: RecordedCall): string | undefined => currency;
  const some = calls.map(currencyOf).find((currency) => currency !== undefined);
  const columns: readonly Column<Call>[] = [
    field("requestId"),
    { name: "at", word: `Time (${zone})`, cell: ({ at }) => ({ at, zone }) },
    ...(["day", "keyId", "keyName"] as const).map(field),
    { name: "budgets", word: CALL_WORDS.budgets, cell: ({ budgets }) => budgets.join(" ") },
    ...(
      ["group", "modelAsked", "modelAnswered", "upstream", "outcome", "status", "errorCode", "errorMessage"] as const
    ).map(field),
    { name: "mistake", word: "Mistake in a setting", cell: (call) => mistakesOf(call).join(" ") },
    {
      name: "refusedBy",
      word: "Refused by",
      cell: ({ refusedBy }) => `${refusedBy?.kind ?? ""} ${refusedBy?.budget ?? ""}`.trim(),
    },
    ...(["inputTokens", "outputTokens"] as const).map(field),
    {
      name: "spent",
      word: "Spent",
      cell: (call) => currencyOf(call) && { units: call.units, currency: currencyOf(call) },
    },
    { name: "currency", word: CALL_WORDS.currency, cell: currencyOf },
    { ...field("units"), word: unitsWord("Units", some) },
    { ...field("estimated"), word: unitsWord("Estimated units", some) },
    ...more,
  ];
  return [...csvPartsOf(columns, calls, spreadsheet)].join("");
}
