/** Finds keys that have housekeeping to be done, and forgets resolved holds and their journal; one entry for each key carries their sum. */

import type { Expression, ExpressionBuilder, SqlBool } from "kysely";
import { type LedgerAccess, lockKey, SWEEP_BATCH } from "./locked-key.ts";
import { BOOKS, type Books, booksWith, numberOf, type SqlSchema, type StoredInteger } from "./schema.ts";

/** Some keys with leases that have run out, in the order of their ids. */
export async function expiredKeys({ db, time }: LedgerAccess, after: string): Promise<readonly string[]> {
  const rows = await db
    .selectFrom("holds")
    .select("key_id")
    .distinct()
    .where("state", "=", "live")
    .where("expires_at", "<=", time)
    .where("key_id", ">", after)
    .orderBy("key_id")
    .limit(SWEEP_BATCH)
    .execute();
  return rows.map(({ key_id }) => key_id);
}

/** The time before which holds must have been resolved to be forgotten: Unix time in milliseconds, by the database's clock. */
export async function cutoffOf({ db, time }: LedgerAccess, olderThanMs: number): Promise<number> {
  const { now } = await db.selectNoFrom(time.as("now")).executeTakeFirstOrThrow();
  return numberOf(now) - olderThanMs;
}

/** Some keys that have holds to forget. Holds whose key somebody has deleted by hand stay, for an audit to find. */
export async function prunableKeys({ db }: LedgerAccess, before: number, after: string): Promise<readonly string[]> {
  const rows = await db
    .selectFrom("holds")
    .innerJoin("keys", "keys.id", "holds.key_id")
    .select("key_id")
    .distinct()
    .where("resolved_at", "<", before)
    .where("key_id", ">", after)
    .orderBy("key_id")
    .limit(SWEEP_BATCH)
    .execute();
  return rows.map(({ key_id }) => key_id);
}

/** Forgets some holds of a key that were resolved before a time, and returns how many. */
export async function pruneKey(access: LedgerAccess, keyId: string, before: number): Promise<number> {
  const key = await lockKey(access, keyId);
  if (!key) return 0;
  const { db } = access;
  const holds = await db
    .selectFrom("holds")
    .select("id")
    .where("key_id", "=", keyId)
    .where("resolved_at", "<", before)
    .limit(SWEEP_BATCH)
    .execute();
  if (holds.length === 0) return 0;
  const ids = holds.map(({ id }) => id);
  const ofHolds = (eb: JournalWhere) => eb("hold_id", "in", ids);
  // What was carried before is carried on in the same entry, so that there is one for each key.
  const carriedBefore = (eb: JournalWhere) =>
    eb.and([eb("hold_id", "is", null), eb("key_id", "=", keyId), eb("kind", "=", "carried")]);
  // Apart, because no index serves both: looking for either at once would read all of the key's journal.
  const carried = added(await taken(access, ofHolds), await taken(access, carriedBefore));
  await db
    .insertInto("journal")
    .values({ key_id: keyId, hold_id: null, kind: "carried", at: key.now, ...carried, noted: 0 })
    .execute();
  await db.deleteFrom("holds").where("id", "in", ids).execute();
  return ids.length;
}

type JournalWhere = ExpressionBuilder<SqlSchema, "journal">;

/** Takes entries out of the journal; what they came to. */
async function taken({ db }: LedgerAccess, which: (eb: JournalWhere) => Expression<SqlBool>): Promise<Books> {
  const sums = await db
    .selectFrom("journal")
    .select((eb) => BOOKS.map((book) => eb.fn.sum<StoredInteger | null>(book).as(book)))
    .where(which)
    .executeTakeFirstOrThrow();
  await db.deleteFrom("journal").where(which).execute();
  return booksWith((book) => numberOf(sums[book] ?? 0));
}

const added = (one: Books, other: Books): Books => booksWith((book) => one[book] + other[book]);
