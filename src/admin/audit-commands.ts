/** The command `polygate audit`, which lists the log of changes. */

import { given } from "../model/json.ts";
import { unitsInWords } from "../model/money.ts";
import { visible } from "../model/visible.ts";
import { oneLine } from "../options.ts";
import type { AuditPage, AuditRecord } from "../ports/audit-log.ts";
import { UsageError } from "../stores/open/connection.ts";
import { ACTIONS, actionInWords, fieldsInWords, reasonInWords, type Writer } from "./change-words.ts";
import { fittedTable, PLAIN_COLUMNS, timeIn } from "./columns.ts";
import type { Command } from "./commands.ts";
import { noteRest, pageOf, SINCE_WORDS, UNTIL_WORDS } from "./lists.ts";
import { DAY_MS, timesOf, UNITS_MS, wordOf } from "./values.ts";

export const AUDIT_COMMANDS: Readonly<Record<string, Command>> = {
  audit: {
    about: "lists who changed which keys and budgets, the latest first (SQL)",
    examples: ["audit --target team-a", "audit --user 'ann (command line)' --action budgets.top-up --since 7d"],
    options: ["target", "user", "action", "since", "until", "after", "limit"],
    words: {
      since: `${SINCE_WORDS}; days are in UTC`,
      until: UNTIL_WORDS,
      after: "only changes that are listed after this id, which --json has",
    },
    read(_operands, values, { print, warn = () => {}, columns = PLAIN_COLUMNS }) {
      const { user, target, json = false, currency } = values;
      const action = wordOf("--action", values.action, ACTIONS);
      const { sinceDay, untilDay, since, until } = timesOf(values);
      const { limit = 100, after: before } = pageOf(values);
      const chosen = given({
        user,
        action,
        target,
        since: sinceDay === undefined ? since : Date.parse(sinceDay),
        until: untilDay === undefined ? until : Date.parse(untilDay) + DAY_MS,
      });
      return async (_keys, { audit }) => {
        if (!audit) throw new UsageError("Only the stores over SQL keep a log of changes.");
        const page: AuditPage = { ...chosen, ...given({ before }), limit };
        const changes = await audit.list(page);
        const isChosen = Object.keys(chosen).length > 0 || before !== undefined;
        const none = isChosen ? "No change matches. A user and an id match as a whole." : "No change is noted.";
        if (!json) print(changes.length > 0 ? changesText(changes, currency, columns) : none);
        noteRest(changes.length, changes.at(-1)?.id, { limit }, { warn });
        return json ? changes : undefined;
      };
    },
  },
};

/** Formats changes for people: a row for each, with a line for each field and the reason of a refusal below it. These are never cut. */
function changesText(changes: readonly AuditRecord[], currency: string | undefined, width: number): string {
  const rows = changes.map(({ at, user, action, target, state }) => ({
    "AT (UTC)": timeIn("UTC", at),
    USER: visible(user),
    CHANGE: actionInWords(action),
    OF: visible(target ?? "-"),
    OUTCOME: state ?? "unknown",
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

const writerIn = (currency: string | undefined): Writer => ({
  amount: (units, noted) => unitsInWords(units, currency === undefined ? undefined : (noted ?? currency)),
  time: (at) => `${timeIn("UTC", at)} UTC`,
  span: writtenSpan,
});

/** Writes a span of time as the command line reads it, such as `24h`, in the longest unit of which it is a whole number. */
function writtenSpan(ms: number): string {
  const [unit, length] = Object.entries(UNITS_MS).findLast(([, of]) => ms % of === 0) ?? ["ms", 1];
  return `${ms / length}${unit}`;
}
