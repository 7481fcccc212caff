/** Writes recorded calls as a list: a line for each, as a table for people and as CSV. */

import { amountOf, decimalsOf } from "../model/money.ts";
import { oneLine } from "../options.ts";
import type { RecordedCall } from "../stores/calls.ts";
import { fittedTable } from "./answers.ts";
import { cellOf, type RefusedBy, timeOf } from "./call-admin.ts";

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
  const rows = calls.map((call) => ({
    "AT (UTC)": timeOf(call.at).slice(0, "2026-11-28T21:11".length).replace("T", " "),
    KEY: oneLine(call.keyName || call.keyId || "-"),
    MODEL: oneLine(call.modelAsked ?? "-"),
    SPENT: amountOf(call.units, call.currency ?? currency),
    OUTCOME: call.outcome,
    REASON: oneLine(shortReasonOf(call) || "-"),
    "REQUEST ID": oneLine(call.requestId),
  }));
  return fittedTable(rows, width, ["MODEL", "SPENT", "OUTCOME"], ["AT (UTC)", "SPENT", "REQUEST ID"]);
}

const HEADINGS = [
  ...([
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
  ] as const),
  ...(["outcome", "status", "errorCode", "errorMessage", "refusedBy", "inputTokens", "outputTokens"] as const),
  ...(["amount", "currency", "units", "estimated"] as const),
];

/**
 * Writes calls as CSV (RFC 4180), with a line of headings. A text that a spreadsheet would take for a formula begins with an apostrophe.
 *
 * @param given The currency of amounts for calls that were recorded without one. Default: these have no amount.
 */
export function callsCsv(calls: readonly RecordedCall[], given: string | undefined): string {
  const lines = calls.map((call) => {
    const currency = call.currency ?? given;
    const { refusedBy, budgets, at, units } = call;
    const cells: Readonly<Partial<Record<(typeof HEADINGS)[number], string | number>>> = {
      ...call,
      at: timeOf(at),
      budgets: budgets.join(" "),
      refusedBy: `${refusedBy?.kind ?? ""} ${refusedBy?.budget ?? ""}`.trim(),
      amount: currency === undefined ? "" : decimalsOf(units),
      currency: currency ?? "",
    };
    return HEADINGS.map((name) => cellOf(String(cells[name] ?? ""))).join(",");
  });
  return [HEADINGS.join(","), ...lines].join("\n");
}
