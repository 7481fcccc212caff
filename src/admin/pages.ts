/** Walks over the pages of lists. */

import { given, utf8Length } from "../model/json.ts";
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

/** Reads the pages of keys or budgets behind an id, of `limit` rows each. */
export const pagesOf = <Row extends { readonly id: string }>(
  list: ReadPage<Row>,
  after = "",
  limit: number = MOST_LISTED,
): AsyncGenerator<readonly Row[], void> =>
  walk(
    (from) => list({ after: from, limit }),
    ({ id }) => id,
    after,
  );

/** A request over HTTP reads so many rows at once. A row may be long, such as a key with thousands of models. */
export const ROWS_AT_ONCE = 100;

/** A page over HTTP ends early with the row that takes its rows beyond so many bytes of JSON. */
const MOST_PAGE_BYTES = 1024 * 1024;

/** The rows of a page over HTTP, and the place of the next page: null behind the last row. */
interface RowsOfPage<Row, Place> {
  readonly rows: readonly Row[];
  readonly next: Place | null;
}

/** Adds rows to a page over HTTP, or to a file. Returns false for the last row that has room. */
export function roomFor<Row extends object>(
  rows: Row[],
  limit: number,
  mostBytes: number = MOST_PAGE_BYTES,
): (row: Row) => boolean {
  let bytes = 0;
  return (row) => {
    rows.push(row);
    bytes += utf8Length(JSON.stringify(row));
    return rows.length < limit && bytes <= mostBytes;
  };
}

/**
 * Reads a page over HTTP, some rows at once. A page that ends where it should begin leads to no other: a log or a store of the host may not look
 * at where a page begins, and the list would have no end.
 */
export async function readPage<Row extends object, Place>(
  read: (from: Place | undefined, limit: number) => Promise<readonly Row[]>,
  placeOf: (row: Row) => Place,
  limit: number,
  first?: Place,
): Promise<RowsOfPage<Row, Place>> {
  const rows: Row[] = [];
  const add = roomFor(rows, limit);
  for (let from = first; ;) {
    const most = Math.min(limit - rows.length, ROWS_AT_ONCE);
    const part = await read(from, most);
    const last = part.at(-1);
    if (last === undefined || placeOf(last) === from) return { rows, next: null };
    const end = part.find((row) => !add(row));
    if (end) return { rows, next: placeOf(end) };
    if (part.length < most) return { rows, next: null };
    from = placeOf(last);
    await nextIteration();
  }
}

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
