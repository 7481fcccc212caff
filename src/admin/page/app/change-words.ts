/** The words for the log of changes, with amounts and times as everywhere on the page. */

import type { AuditEntry } from "../../../ports/audit-log.ts";
import { fieldsInWords, reasonInWords, type Writer } from "../../change-words.ts";
import { amountInWords, pageCurrency, shownTime, spanInWords } from "./amounts.ts";

export { actionInWords, ACTIONS, PERIODS } from "../../change-words.ts";

const WRITER: Writer = {
  amount: (units, noted) => amountInWords(units, pageCurrency.value && (noted ?? pageCurrency.value)),
  time: shownTime,
  span: spanInWords,
};

/** Returns the fields of a change in words. */
export const changeInWords = (entry: Pick<AuditEntry, "changes" | "former" | "action">): readonly string[] =>
  fieldsInWords(entry, WRITER);

/** Returns the reason of a refused change in words. */
export const refusalInWords = (reason: string): string => reasonInWords(reason, WRITER);
