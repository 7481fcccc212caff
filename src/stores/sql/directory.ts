/** The functions of the SQL store that manage keys: add, change, rotate, revoke, grant, report, and delete old holds. */

import { type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from "kysely";
import { parseJson } from "../../model/json.ts";
import type { ApiKey, Balance } from "../../ports/quota-store.ts";
import {
  changedDurableKeyOf,
  type DurableKeyOptions,
  HOLDS_AT_ONCE,
  type KeyReport,
  keyReportOf,
  newDurableKeyOf,
  revokedKey,
  unlimitedKey,
} from "../durable.ts";
import {
  type Book,
  BOOKS,
  Books,
  type KeyChanges,
  knownKey,
  knownSecret,
  modelsOf,
  noSuchKey,
  RECALLS_MS,
  tightestOf,
} from "../ledger.ts";
import { chainOf, readBudgets, lockChain, LockedBudgets, type StoredShare } from "./budgets.ts";
import { asText, type SqlAccess } from "./database.ts";
import { type LockedKey, lockKey, storedKeyOf } from "./locked-key.ts";
import { numberOf, type SqlSchema, type StoredInteger } from "./tables.ts";

/** Finds the key of a secret by the secret's hash. */
export async function findKey({ db, time }: SqlAccess, hash: string): Promise<ApiKey | undefined> {
  const row = await db
    .selectFrom("secrets")
    .innerJoin("keys", "keys.id", "secrets.key_id")
    .select(["keys.id", "keys.name", "keys.unlimited", "keys.models", "keys.expires_at"])
    .select(["keys.budgets", "keys.metadata"])
    .where("secrets.hash", "=", hash)
    .where("keys.revoked_at", "is", null)
    .where((eb) => eb.or([eb("secrets.ends_at", "is", null), eb("secrets.ends_at", ">", time)]))
    .executeTakeFirst();
  return row && storedKeyOf(row);
}

/** Adds a key with its first grant and its secrets, and returns its id. */
export async function addKey(access: SqlAccess, options: DurableKeyOptions): Promise<string> {
  const { db, time } = access;
  const { key, unlimited, granted, used, hashes } = newDurableKeyOf(options);
  const { id } = key;
  const known = await db.selectFrom("keys").select("id").where("id", "=", id).executeTakeFirst();
  if (known) throw knownKey(id);
  const budgets = options.budget === undefined ? null : JSON.stringify(await lockChain(access, options.budget));
  const books = { granted, charged: used, held: 0, overdraft: 0, estimated: 0 };
  await db
    .insertInto("keys")
    .values({ id, unlimited: unlimited ? 1 : 0, revoked_at: null, budgets, ...rightsOf(key), ...books })
    .execute();
  await db
    .insertInto("journal")
    .values({ key_id: id, hold_id: null, kind: "grant", at: sql<number>`${time}`, ...books, noted: 0 })
    .execute();
  if (hashes.length > 0) await linkSecrets(db, id, hashes);
  return id;
}

/** The columns of a key that a host may change. */
const rightsOf = (key: ApiKey) => {
  const models = modelsOf(key);
  return {
    name: key.name,
    models: models ? JSON.stringify(models) : null,
    expires_at: key.expiresAt,
    metadata: key.metadata ? JSON.stringify(key.metadata) : null,
  };
};

/** Changes the name, the rights and the metadata of a key. */
export async function updateKey(access: SqlAccess, keyId: string, changes: KeyChanges): Promise<void> {
  const { account } = await usableKey(access, keyId);
  const changed = changedDurableKeyOf(account.key, changes);
  await access.db.updateTable("keys").set(rightsOf(changed)).where("id", "=", keyId).execute();
}

async function linkSecrets(
  db: Kysely<SqlSchema>,
  keyId: string,
  hashes: readonly string[],
  endsAt?: number,
): Promise<void> {
  const known = await db.selectFrom("secrets").select("hash").where("hash", "in", hashes).execute();
  if (known.length > 0) throw knownSecret();
  await db
    .insertInto("secrets")
    .values(hashes.map((hash) => ({ hash, key_id: keyId, ends_at: endsAt ?? null })))
    .execute();
}

/** Gives a key one more secret, which expires at `endsAt` (Unix time in milliseconds), or never. */
export async function addSecret(access: SqlAccess, keyId: string, hash: string, endsAt?: number): Promise<void> {
  await usableKey(access, keyId);
  await linkSecrets(access.db, keyId, [hash], endsAt);
}

/** Gives a key a new secret. All its other secrets expire after `overlapMs`. */
export async function rotateSecret(access: SqlAccess, keyId: string, hash: string, overlapMs: number): Promise<void> {
  const { now } = await usableKey(access, keyId);
  const { db } = access;
  const endsAt = now + overlapMs;
  await db
    .updateTable("secrets")
    .set({ ends_at: endsAt })
    .where("key_id", "=", keyId)
    .where((eb) => eb.or([eb("ends_at", "is", null), eb("ends_at", ">", endsAt)]))
    .execute();
  await linkSecrets(db, keyId, [hash]);
}

async function usableKey(access: SqlAccess, keyId: string): Promise<LockedKey> {
  const key = await lockKey(access, keyId);
  if (!key) throw noSuchKey(keyId);
  if (key.revoked) throw revokedKey(keyId);
  return key;
}

/** Deletes all secrets of a key for good. */
export async function revokeKey(access: SqlAccess, keyId: string): Promise<void> {
  const key = await lockKey(access, keyId);
  if (!key) throw noSuchKey(keyId);
  await access.db.deleteFrom("secrets").where("key_id", "=", keyId).execute();
  if (!key.revoked) await access.db.updateTable("keys").set({ revoked_at: key.now }).where("id", "=", keyId).execute();
}

/** Lets a key draw on a budget, or on none. */
export async function assignBudget(access: SqlAccess, keyId: string, budgetId: string | undefined): Promise<void> {
  await usableKey(access, keyId);
  const budgets = budgetId === undefined ? null : JSON.stringify(await lockChain(access, budgetId));
  await access.db.updateTable("keys").set({ budgets }).where("id", "=", keyId).execute();
}

/** Adds units to a key's quota, or takes them back. */
export async function grantUnits(access: SqlAccess, keyId: string, units: number): Promise<void> {
  const key = await usableKey(access, keyId);
  if (key.account.unlimited) throw unlimitedKey(keyId);
  // Charge expired holds first: they may leave more units to take back.
  if (units < 0) await key.load([], await LockedBudgets.lock(access, key.chain, key.now));
  key.grant(units);
  await key.write();
}

/**
 * Reports one key, or a page of keys in the order of their ids. Reads the books as text, because a driver may fail at a number that
 * it cannot represent, and the whole page would fail with it.
 */
export async function reportKeys(
  { db, dialect, time }: SqlAccess,
  page: { readonly keyId: string } | { readonly after: string; readonly limit: number },
): Promise<KeyReport[]> {
  const query = db
    .selectFrom("keys")
    .select(["id", "name", "unlimited", "models", "revoked_at", "budgets", "metadata"])
    .select(() => [asText(dialect, "expires_at"), ...BOOKS.map((book) => asText(dialect, book))])
    .select((eb) =>
      eb
        .selectFrom("secrets")
        .select((eb) => eb.fn.countAll().as("count"))
        .whereRef("secrets.key_id", "=", "keys.id")
        .where((eb) => eb.or([eb("secrets.ends_at", "is", null), eb("secrets.ends_at", ">", time)]))
        .as("secrets"),
    );
  const rows = await (
    "keyId" in page
      ? query.where("id", "=", page.keyId)
      : query.where("id", ">", page.after).orderBy("id").limit(page.limit)
  ).execute();
  return rows.map((row) => {
    const unlimited = Number(row.unlimited) === 1;
    const described = { unlimited, secrets: numberOf(row.secrets ?? 0), revoked: row.revoked_at !== null };
    try {
      return keyReportOf(storedKeyOf(row), row, described);
    } catch {
      // The stored models, metadata or expiry cannot be parsed: report the key as one that may use no model.
      const closed = storedKeyOf({ ...row, models: "[]", expires_at: 0, metadata: null });
      return keyReportOf(closed, row, { ...described, spoilt: ["models, metadata or expires_at"] });
    }
  });
}

/** A key's balance. */
export interface StoredBalance extends Balance {
  /** True when a hold of the key has expired and is not charged yet. */
  readonly stale: boolean;
  /** True for a key with a budget. */
  readonly hasBudget: boolean;
}

/** Reads a key's balance: in one statement, or for a key with a budget in two. */
export async function readBalance(access: SqlAccess, keyId: string): Promise<StoredBalance | undefined> {
  const { db, time } = access;
  const row = await db
    .selectFrom("keys")
    .select(["unlimited", "granted", "charged", "held", "budgets", time.as("now")])
    .select((eb) =>
      eb
        .selectFrom("holds")
        .select("holds.id")
        .whereRef("holds.key_id", "=", "keys.id")
        .where("holds.state", "=", "live")
        .where("holds.expires_at", "<=", time)
        .limit(1)
        .as("expired"),
    )
    .where("keys.id", "=", keyId)
    .executeTakeFirst();
  if (!row) return undefined;
  const chain = chainOf(row.budgets);
  const account = new Books(
    `key ${keyId}`,
    numberOf(row.unlimited) === 1,
    numberOf(row.granted),
    numberOf(row.charged),
  );
  account.held = numberOf(row.held);
  const budgets = chain.length > 0 ? await readBudgets(access, numberOf(row.now), { ids: chain }) : undefined;
  const { used, available, held } = tightestOf(
    account,
    budgets?.map(({ window }) => window),
  );
  return { used, available, held, stale: row.expired !== null, hasBudget: chain.length > 0 };
}

/** Returns the ids of up to `HOLDS_AT_ONCE` keys with expired holds. */
export async function expiredKeys({ db, time }: SqlAccess, after: string): Promise<readonly string[]> {
  const rows = await db
    .selectFrom("holds")
    .select("key_id")
    .distinct()
    .where("state", "=", "live")
    .where("expires_at", "<=", time)
    .where("key_id", ">", after)
    .orderBy("key_id")
    .limit(HOLDS_AT_ONCE)
    .execute();
  return rows.map(({ key_id }) => key_id);
}

/**
 * Returns the ids of up to `HOLDS_AT_ONCE` keys with holds to delete. Skips holds whose key was deleted by hand, so that an audit
 * finds them.
 */
export async function prunableKeys({ db }: SqlAccess, before: number, after: string): Promise<readonly string[]> {
  const rows = await db
    .selectFrom("holds")
    .innerJoin("keys", "keys.id", "holds.key_id")
    .select("key_id")
    .distinct()
    .where("resolved_at", "<", before)
    .where("key_id", ">", after)
    .orderBy("key_id")
    .limit(HOLDS_AT_ONCE)
    .execute();
  return rows.map(({ key_id }) => key_id);
}

/** Notes a recall of a key, and deletes recalls that are old. */
export async function recallKey({ db, dialect, time }: SqlAccess, keyId: string): Promise<void> {
  const at = sql<number>`${time}`;
  const insert = db.insertInto("recalls").values({ key_id: keyId, at });
  await (
    dialect === "mysql"
      ? insert.onDuplicateKeyUpdate({ at })
      : insert.onConflict((conflict) => conflict.column("key_id").doUpdateSet({ at }))
  ).execute();
  await db
    .deleteFrom("recalls")
    .where("at", "<", sql<number>`${time} - ${RECALLS_MS}`)
    .execute();
}

/** Returns the ids of keys that were recalled within the last `withinMs` milliseconds. */
export async function recalledKeys({ db, time }: SqlAccess, withinMs: number): Promise<readonly string[]> {
  const since = sql<number>`${time} - ${withinMs}`;
  const rows = await db.selectFrom("recalls").select("key_id").where("at", ">=", since).execute();
  return rows.map(({ key_id }) => key_id);
}

/** Returns the database's time, in milliseconds since the Unix epoch. */
export async function timeOf({ db, time }: SqlAccess): Promise<number> {
  const { now } = await db.selectNoFrom(time.as("now")).executeTakeFirstOrThrow();
  return numberOf(now);
}

/**
 * Deletes some holds of a key that were resolved before a time, with their journal entries. Returns the number of holds. One journal
 * entry of the kind `carried` keeps the sums of all deleted entries.
 */
export async function pruneKey(access: SqlAccess, keyId: string, before: number): Promise<number> {
  const key = await lockKey(access, keyId);
  if (!key) return 0;
  const { db } = access;
  const holds = await db
    .selectFrom("holds")
    .select(["id", "used", "shares"])
    .where("key_id", "=", keyId)
    .where("resolved_at", "<", before)
    .limit(HOLDS_AT_ONCE)
    .execute();
  if (holds.length === 0) return 0;
  const ids = holds.map(({ id }) => id);
  await pruneShares(access, holds, key.now);
  // Use two statements, because no index serves both conditions: one statement would read the key's whole journal.
  const ofHolds = await takeEntries(db, (eb) => eb("hold_id", "in", ids));
  const carriedBefore = await takeEntries(db, (eb) =>
    eb.and([eb("hold_id", "is", null), eb("key_id", "=", keyId), eb("kind", "=", "carried")]),
  );
  const carried = Object.fromEntries(BOOKS.map((book) => [book, ofHolds[book] + carriedBefore[book]]));
  await db
    .insertInto("journal")
    .values({ key_id: keyId, hold_id: null, kind: "carried", at: key.now, ...(carried as Sums), noted: 0 })
    .execute();
  await db.deleteFrom("holds").where("id", "in", ids).execute();
  return ids.length;
}

/** Counts the charges of holds that are deleted in the periods of their budgets, for an audit. */
async function pruneShares(
  access: SqlAccess,
  holds: readonly { readonly used: StoredInteger; readonly shares: string | null }[],
  now: number,
): Promise<void> {
  const charges = holds.flatMap(({ used, shares }) =>
    shares === null
      ? []
      : (parseJson(shares) as StoredShare[]).map((share) => ({ share, charged: numberOf(used) - share[2] })),
  );
  if (charges.length === 0) return;
  const ids = new Set(charges.map(({ share: [id] }) => id));
  const budgets = await LockedBudgets.lock(access, Array.from(ids), now);
  await budgets.load(charges.map(({ share }) => share));
  for (const { share, charged } of charges) budgets.prune(share, charged);
  await budgets.write();
}

type Sums = Record<Book, number>;

/** Deletes entries of the journal, and returns their sums. */
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
