/** Deletes old entries of the journal, and keeps their sums. */

import { type Expression, type ExpressionBuilder, type Kysely, type SqlBool } from "kysely";
import { type Book, BOOKS } from "../ledger.ts";
import type { SqlAccess } from "./database.ts";
import { numberOf, type SqlSchema, type StoredInteger } from "./tables.ts";

/** Deletes the entries of holds of a key. One entry of the kind `carried` keeps the sums of all deleted entries of the key. */
export async function takeEntriesOf(
  { db }: SqlAccess,
  keyId: string,
  holdIds: readonly string[],
  now: number,
): Promise<void> {
  // Use two statements, because no index serves both conditions: one statement would read the key's whole journal.
  const ofHolds = await takeEntries(db, (eb) => eb("hold_id", "in", holdIds));
  const before = await takeEntries(db, (eb) =>
    eb.and([eb("hold_id", "is", null), eb("key_id", "=", keyId), eb("kind", "=", "carried")]),
  );
  const carried = Object.fromEntries(BOOKS.map((book) => [book, ofHolds[book] + before[book]])) as Sums;
  const entry = { key_id: keyId, hold_id: null, kind: "carried" as const, at: now, noted: 0, ...carried };
  await db.insertInto("journal").values(entry).execute();
}

type Sums = Record<Book, number>;

/** Deletes entries, and returns their sums. */
async function takeEntries(
  db: Kysely<SqlSchema>,
  which: (eb: ExpressionBuilder<SqlSchema, "journal">) => Expression<SqlBool>,
): Promise<Sums> {
  const sums = await db
    .selectFrom("journal")
    .select((eb) => BOOKS.map((book) => eb.fn.sum<StoredInteger | null>(book).as(book)))
    .where(which)
    .executeTakeFirstOrThrow();
  await db.deleteFrom("journal").where(which).execute();
  return Object.fromEntries(BOOKS.map((book) => [book, numberOf(sums[book] ?? 0)])) as Sums;
}
