/** Writes recorded calls as a list: a line for each, as a table for people and as CSV. */

import { amountOf, decimalsOf } from "../model/money.ts";
import { oneLine } from "../options.ts";
import type { RecordedCall } from "../stores/calls.ts";
import { type FittedTable, fittedTable } from "./answers.ts";
import {
  CALL_WORDS,
  cellOf,
  csvFile,
  type RefusedBy,
  separatorsOf,
  type Spreadsheet,
  timeIn,
  timeOf,
} from "./call-admin.ts";

/** The limits that refuse a call, in short. */
const LIMITS: Readonly<Record<RefusedBy["kind"], string>> = {
  requests: "rate of requests",
  tokens: "rate of tokens",
  calls: "calls at once",
  quota: "quota of the key",
  budget: "budget",
};

/** Says in a few words why a call ended as it did: `budget red`. Empty for a call that simply was completed. */
function shortReasonOf({ errorCode, refusedBy, affordedOutputTokens }: RecordedCall): string {
  if (refusedBy) return `${LIMITS[refusedBy.kind]} ${refusedBy.budget ?? ""}`.trim();
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
  const table = (from: number, to: number, idOf: (requestId: string) => string) => {
    const rows = calls.map((call) => ({
      [AT]: timeIn(zone, call.at).slice(from, to),
      KEY: oneLine(call.keyName || call.keyId || "-"),
      MODEL: oneLine(call.modelAsked ?? "-"),
      SPENT: amountOf(call.units, call.currency ?? currency),
      OUTCOME: call.outcome,
      REASON: oneLine(shortReasonOf(call) || "-"),
      "REQUEST ID": oneLine(idOf(call.requestId)),
    }));
    return fittedTable(rows, width, ["SPENT", "OUTCOME"], [AT, "SPENT", "REQUEST ID"]);
  };
  const whole = table(0, "2026-11-28 21:11".length, (id) => id);
  if (whole.leftOut.length === 0) return whole;
  // The year and the end of the id are the least loss: recorded calls are deleted after some days, and `why` takes the beginning of an id.
  return table("2026-".length, "2026-11-28 21:11".length, (id) => id.replace(/^(req_[\da-f]{8})[\da-f]+$/, "$1"));
}

/** The fields of a call in CSV. */
const NAMES = [
  "requestId",
  "at",
  "day",
  "keyId",
  "keyName",
  "budgets",
  "group",
  "modelAsked",
  "modelAnswered",
  "upstream",
  "outcome",
  "status",
  "errorCode",
  "errorMessage",
  "refusedBy",
  "inputTokens",
  "outputTokens",
  "amount",
  "currency",
  "units",
  "estimated",
] as const;

type Heading = (typeof NAMES)[number];

/** The headings of spreadsheets where they are not the words of the fields. Programs read the names of the fields. */
const HEADINGS = { refusedBy: "Refused by", amount: "Amount", units: "Units", estimated: "Estimated units" };

/** The choices for CSV of calls. */
interface CallsCsvOptions {
  /** The currency of amounts for calls that were recorded without one. Default: these have no amount. */
  readonly currency?: string | undefined;
  readonly spreadsheet?: Spreadsheet | undefined;
  /** The time zone of the times in a spreadsheet. Default: UTC. Programs read times in UTC. */
  readonly zone?: string | undefined;
}

/**
 * Writes recorded calls as CSV (RFC 4180, unless a spreadsheet is named), with a line of headings. A text that a spreadsheet would take for
 * a formula begins with an apostrophe.
 */
export function callsCsv(
  calls: readonly RecordedCall[],
  { currency: given, spreadsheet, zone = "UTC" }: CallsCsvOptions,
): string {
  const [separator, point] = separatorsOf(spreadsheet);
  const lines = calls.map((call) => {
    const currency = call.currency ?? given;
    const { refusedBy, budgets, at, units } = call;
    const cells: Readonly<Partial<Record<Heading, string | number>>> = {
      ...call,
      at: spreadsheet ? timeIn(zone, at) : timeOf(at),
      budgets: budgets.join(" "),
      refusedBy: `${refusedBy?.kind ?? ""} ${refusedBy?.budget ?? ""}`.trim(),
      amount: currency === undefined ? "" : decimalsOf(units).replace(".", point),
      currency: currency ?? "",
    };
    return NAMES.map((name) => {
      const cell = String(cells[name] ?? "");
      return name === "amount" ? cell : cellOf(cell);
    }).join(separator);
  });
  return csvFile(NAMES, lines, { ...CALL_WORDS, ...HEADINGS, at: `Time (${zone})` }, spreadsheet);
}
