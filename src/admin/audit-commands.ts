/** The command `polygate audit`, which lists the log of changes. */

import { given } from "../model/json.ts";
import type { AuditRecord } from "../ports/audit-log.ts";
import { UsageError } from "../stores/open/connection.ts";
import { changesCsvParts, changesText } from "./change-list.ts";
import { ACTIONS } from "./change-words.ts";
import { PLAIN_COLUMNS } from "./columns.ts";
import type { Command } from "./commands.ts";
import { csvOf, linesOfCsv, noteRest, PAGE_WORDS, pageOf, SINCE_WORDS, UNTIL_WORDS } from "./lists.ts";
import { changePagesOf } from "./pages.ts";
import { DAY_MS, timesOf, wordOf } from "./values.ts";

export const AUDIT_COMMANDS: Readonly<Record<string, Command>> = {
  audit: {
    about: "lists who changed which keys and budgets, the latest first (SQL)",
    examples: [
      "audit --target team-a",
      "audit --user 'ann (command line)' --action budgets.top-up --since 7d",
      "audit --since 2026-11-01 --spreadsheet excel > changes.csv",
    ],
    options: ["target", "user", "action", "since", "until", "after", "limit", "csv", "spreadsheet"],
    words: {
      ...PAGE_WORDS,
      since: `${SINCE_WORDS}; days are in UTC`,
      until: UNTIL_WORDS,
      after: "only changes that are listed after this id, which --json has",
    },
    read(_operands, values, { print, warn = () => {}, columns = PLAIN_COLUMNS }) {
      const { user, target, json = false, currency } = values;
      const action = wordOf("--action", values.action, ACTIONS);
      const { sinceDay, untilDay, since, until } = timesOf(values);
      const { limit, after: before } = pageOf(values);
      const { csv, spreadsheet } = csvOf(values);
      const chosen = given({
        user,
        action,
        target,
        since: sinceDay === undefined ? since : Date.parse(sinceDay),
        until: untilDay === undefined ? until : Date.parse(untilDay) + DAY_MS,
      });
      return async (_keys, { audit }) => {
        if (!audit) throw new UsageError("Only the stores over SQL keep a log of changes.");
        const page = { ...chosen, ...given({ before, limit: limit ?? (csv ? undefined : 100) }) };
        const changes: AuditRecord[] = [];
        for await (const some of changePagesOf(audit, page)) {
          changes.push(...some);
          // A file has every change, unless its user has named a limit.
          if (!csv || limit !== undefined) break;
        }
        const isChosen = Object.keys(chosen).length > 0 || before !== undefined;
        const none = isChosen ? "No change matches. A user and an id match as a whole." : "No change is noted.";
        if (csv) print(linesOfCsv([...changesCsvParts(changes, currency, spreadsheet)].join("")));
        else if (!json) print(changes.length > 0 ? changesText(changes, currency, columns) : none);
        if (!csv || limit !== undefined) noteRest(changes.length, changes.at(-1)?.id, given({ limit }), { warn });
        return json ? changes : undefined;
      };
    },
  },
};
