/** Writes recorded calls as a list: a line for each, as a table for people and as CSV. */

import { amountOf, decimalsOf } from "../model/money.ts";
import { oneLine } from "../options.ts";
import type { RecordedCall } from "../stores/calls.ts";
import { fittedTable } from "./answers.ts";
import { cellOf, csvFile, type RefusedBy, separatorsOf, type Spreadsheet, timeOf } from "./call-admin.ts";

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
 * Formats calls for people, the first one first, in lines of at most `width` characters. Request ids are never cut, because `why` needs a whole
 * one.
 *
 * @param currency The currency of amounts for calls that were recorded without one. Default: amounts are units.
 */
export function callsText(
  calls: readonly RecordedCall[],
  currency: string | undefined,
  width: number,
): ReturnType<typeof fittedTable> {
  const table = (from: number, to: number) => {
    const rows = calls.map((call) => ({
      "AT (UTC)": timeOf(call.at).slice(from, to).replace("T", " "),
      KEY: oneLine(call.keyName || call.keyId || "-"),
      MODEL: oneLine(call.modelAsked ?? "-"),
      SPENT: amountOf(call.units, call.currency ?? currency),
      OUTCOME: call.outcome,
      REASON: oneLine(shortReasonOf(call) || "-"),
      "REQUEST ID": oneLine(call.requestId),
    }));
    return fittedTable(rows, width, ["SPENT", "OUTCOME"], ["AT (UTC)", "SPENT", "REQUEST ID"]);
  };
  const whole = table(0, "2026-11-28T21:11".length);
  // The year is the least loss: recorded calls are deleted after some days.
  return whole.leftOut.length === 0 ? whole : table("2026-".length, "2026-11-28T21:11".length);
}

/** The fields of a call in CSV, with their headings in spreadsheets. Programs read the names of the fields. */
const HEADINGS = {
  requestId: "Request id",
  at: "Time (UTC)",
  day: "Day",
  keyId: "Key",
  keyName: "Key name",
  budgets: "Budgets",
  group: "Group",
  modelAsked: "Model asked for",
  modelAnswered: "Model of the answer",
  upstream: "Upstream",
  outcome: "Outcome",
  status: "Status",
  errorCode: "Error code",
  errorMessage: "Error message",
  refusedBy: "Refused by",
  inputTokens: "Input tokens",
  outputTokens: "Output tokens",
  amount: "Amount",
  currency: "Currency",
  units: "Units",
  estimated: "Estimated units",
} as const;

type Heading = keyof typeof HEADINGS;

// The cast is safe: an object literal has no other keys.
const NAMES = Object.keys(HEADINGS) as Heading[];

/**
 * Writes recorded calls as CSV (RFC 4180, unless a spreadsheet is named), with a line of headings. A text that a spreadsheet would take for
 * a formula begins with an apostrophe.
 *
 * @param given The currency of amounts for calls that were recorded without one. Default: these have no amount.
 */
export function callsCsv(calls: readonly RecordedCall[], given: string | undefined, spreadsheet?: Spreadsheet): string {
  const [separator, point] = separatorsOf(spreadsheet);
  const lines = calls.map((call) => {
    const currency = call.currency ?? given;
    const { refusedBy, budgets, at, units } = call;
    const cells: Readonly<Partial<Record<Heading, string | number>>> = {
      ...call,
      at: spreadsheet ? timeOf(at).slice(0, "2026-11-28T21:11:59".length).replace("T", " ") : timeOf(at),
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
  return csvFile(NAMES, lines, HEADINGS, spreadsheet);
}
