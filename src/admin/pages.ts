/** Walks over the pages of lists. */

import { given } from "../model/json.ts";
import type { AuditLog, AuditPage, AuditRecord } from "../ports/audit-log.ts";
import { nextIteration } from "../ports/clock.ts";
import type { BudgetPeriodReport } from "../stores/budgets.ts";
import { type BudgetDirectory, MOST_LISTED } from "../stores/durable.ts";

/** Reads a page of a list in the order of its ids. */
type ReadPage<Row> = (page: { readonly after: string; readonly limit: number }) => Promise<readonly Row[]>;

/**
 * Reads a list page by page, and lets other work run between two pages. Ends at a page that leads back to an earlier one: a store of the host
 * may not look at where a page begins.
 *
 * @param placeOf Returns where the page behind a row begins; undefined for a row without more behind it.
 */
async function* walk<Row, Place>(
  read: (from: Place) => Promise<readonly Row[]>,
  placeOf: (row: Row) => Place | undefined,
  from: Place,
): AsyncGenerator<readonly Row[], void> {
  const known = new Set([from]);
  for (let next: Place | undefined = from; ;) {
    const page: readonly Row[] = await read(next);
    const last = page.at(-1);
    next = last && placeOf(last);
    if (last === undefined || (next !== undefined && known.has(next))) return;
    yield page;
    if (next === undefined) return;
    known.add(next);
    await nextIteration();
  }
}

/** Reads the pages of keys or budgets behind an id. */
export const pagesOf = <Row extends { readonly id: string }>(
  list: ReadPage<Row>,
  after = "",
): AsyncGenerator<readonly Row[], void> =>
  walk(
    (from) => list({ after: from, limit: MOST_LISTED }),
    ({ id }) => id,
    after,
  );

/** Reads the pages of the log of changes, the newest first. */
export const changePagesOf = (
  audit: Pick<AuditLog, "list">,
  { before, limit, ...chosen }: Omit<AuditPage, "limit"> & Partial<AuditPage>,
): AsyncGenerator<readonly AuditRecord[], void> =>
  walk(
    (from) => audit.list({ ...chosen, ...given({ before: from }), limit: limit ?? MOST_LISTED }),
    ({ id }) => id,
    before,
  );

/** Reads the pages of the periods of a budget, the latest first, or those that began before a time. */
export const periodPagesOf = (
  store: Partial<Pick<BudgetDirectory, "budgetPeriods">>,
  id: string,
  { before, limit = MOST_LISTED }: { readonly before?: number | undefined; readonly limit?: number },
): AsyncGenerator<readonly BudgetPeriodReport[], void> =>
  walk(
    async (from) => (await store.budgetPeriods?.(id, given({ before: from, limit }))) ?? [],
    ({ startsAt }) => startsAt,
    before,
  );
