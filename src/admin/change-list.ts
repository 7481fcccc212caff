/** Writes the log of changes as a list: as a table for people and as CSV. */

import { unitsInWords } from "../model/money.ts";
import { visible } from "../model/visible.ts";
import { oneLine } from "../options.ts";
import type { AuditRecord } from "../ports/audit-log.ts";
import { actionInWords, fieldsInWords, reasonInWords, type Writer } from "./change-words.ts";
import { type Column, csvPartsOf, fittedTable, spanText, type Spreadsheet, timeIn } from "./columns.ts";

const outcomeOf = ({ state }: AuditRecord): string => state ?? "unknown";

/** Formats changes for people: a row for each, with a line for each field and the reason of a refusal below it. These are never cut. */
export function changesText(changes: readonly AuditRecord[], currency: string | undefined, width: number): string {
  const rows = changes.map((change) => ({
    "AT (UTC)": timeIn("UTC", change.at),
    USER: visible(change.user),
    CHANGE: actionInWords(change.action),
    OF: visible(change.target ?? "-"),
    OUTCOME: outcomeOf(change),
  }));
  const { text } = fittedTable(rows, width, [], ["AT (UTC)", "CHANGE", "OUTCOME"]);
  const [headings = "", ...lines] = text.split("\n");
  const writer = writerIn(currency);
  const below = changes.map((change) => [
    ...fieldsInWords(change, writer),
    ...(change.reason === undefined ? [] : [reasonInWords(change.reason, writer)]),
  ]);
  return [
    headings,
    ...lines.flatMap((line, at) => [
      line,
      ...(below[at] ?? []).filter((words) => words !== "").map((words) => `  ${oneLine(words)}`),
    ]),
  ].join("\n");
}

/**
 * Writes the parts of the log of changes as CSV, for programs or for a spreadsheet. The fields of a change are in words, with former values.
 *
 * @param currency The currency of amounts. Default: amounts are units.
 */
export function changesCsvParts(
  changes: readonly AuditRecord[],
  currency: string | undefined,
  spreadsheet: Spreadsheet | undefined,
): Iterable<string> {
  const writer = writerIn(currency);
  const shown = (text: string): string => (spreadsheet ? visible(text) : text);
  const columns: readonly Column<AuditRecord>[] = [
    { name: "id", word: "Id", cell: ({ id }) => id },
    { name: "at", word: "Time (UTC)", cell: ({ at }) => ({ at }) },
    { name: "user", word: "User", cell: ({ user }) => shown(user) },
    { name: "action", word: "Change", cell: ({ action }) => (spreadsheet ? actionInWords(action) : action) },
    { name: "target", word: "Of", cell: ({ target }) => shown(target ?? "") },
    { name: "fields", word: "Fields", cell: (change) => fieldsInWords(change, writer).join("; ") },
    { name: "state", word: "Outcome", cell: outcomeOf },
    {
      name: "reason",
      word: "Reason",
      cell: ({ reason }) => (reason === undefined ? undefined : reasonInWords(reason, writer)),
    },
  ];
  return csvPartsOf(columns, changes, spreadsheet);
}

const writerIn = (currency: string | undefined): Writer => ({
  amount: (units, noted) => unitsInWords(units, currency === undefined ? undefined : (noted ?? currency)),
  time: (at) => `${timeIn("UTC", at)} UTC`,
  span: spanText,
});
