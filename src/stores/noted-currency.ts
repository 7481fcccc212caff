/** Tells the currency of amounts that commands have noted in the log of changes. */

import type { AuditLog } from "../ports/audit-log.ts";
import { isAway } from "./away.ts";
import { MOST_LISTED } from "./durable.ts";

/**
 * Returns the currency of the latest amount that a command has noted. A database without a table for changes has none, and is no reason to
 * fail.
 */
export async function notedCurrency(audit: AuditLog | undefined): Promise<string | undefined> {
  const changes = await audit?.list({ hasCurrency: true, limit: MOST_LISTED }).catch((error: unknown) => {
    if (isAway(error)) throw error;
    return [];
  });
  const [currency] = (changes ?? []).flatMap(({ state, changes: { currency: noted } = {} }) =>
    state === "done" && typeof noted === "string" ? [noted] : [],
  );
  return currency;
}
