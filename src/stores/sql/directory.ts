/** The keys of the SQL store and their secrets: adding, rotating, revoking, granting and reporting. */

import { type Kysely, type Selectable, sql } from "kysely";
import type { ApiKey, Balance } from "../../ports/quota-store.ts";
import { type DurableKeyOptions, type KeyReport, keyReportOf } from "../durable.ts";
import { knownKey, knownSecret, newKeyOf, noSuchKey, revokedKey } from "../durable-input.ts";
import { apiKeyOf } from "./api-key.ts";
import { asText } from "./dialects.ts";
import { type LedgerAccess, type LockedKey, lockKey } from "./locked-key.ts";
import { BOOKS, type KeyTable, numberOf, type SqlSchema } from "./schema.ts";

/** Who a secret's hash belongs to. */
export async function findKey({ db, time }: LedgerAccess, hash: string): Promise<ApiKey | undefined> {
  const row = await db
    .selectFrom("secrets")
    .innerJoin("keys", "keys.id", "secrets.key_id")
    .select(["keys.id", "keys.name", "keys.unlimited", "keys.models", "keys.expires_at"])
    .where("secrets.hash", "=", hash)
    .where("keys.revoked_at", "is", null)
    .where((eb) => eb.or([eb("secrets.ends_at", "is", null), eb("secrets.ends_at", ">", time)]))
    .executeTakeFirst();
  return row && apiKeyOf(row);
}

/** Adds a key with its first grant and its secrets, and returns its id. */
export async function addKey({ db, time }: LedgerAccess, options: DurableKeyOptions): Promise<string> {
  const { key, granted, used, hashes } = newKeyOf(options);
  const { id, name, expiresAt } = key;
  const known = await db.selectFrom("keys").select("id").where("id", "=", id).executeTakeFirst();
  if (known) throw knownKey(id);
  const books = { granted, charged: used, held: 0, overdraft: 0, estimated: 0 };
  const models = options.models === undefined ? null : JSON.stringify(options.models);
  const described = { id, name, unlimited: key.unlimited ? 1 : 0, models, expires_at: expiresAt, revoked_at: null };
  await db
    .insertInto("keys")
    .values({ ...described, ...books })
    .execute();
  await db
    .insertInto("journal")
    .values({ key_id: id, hold_id: null, kind: "grant", at: sql<number>`${time}`, ...books, noted: 0 })
    .execute();
  await linkSecrets(db, id, hashes);
  return id;
}

async function linkSecrets(db: Kysely<SqlSchema>, keyId: string, hashes: readonly string[]): Promise<void> {
  if (hashes.length === 0) return;
  const known = await db.selectFrom("secrets").select("hash").where("hash", "in", hashes).execute();
  if (known.length > 0) throw knownSecret();
  await db
    .insertInto("secrets")
    .values(hashes.map((hash) => ({ hash, key_id: keyId, ends_at: null })))
    .execute();
}

/** Gives a key one more secret; the others end after `overlapMs` where it is told. */
export async function addSecret(access: LedgerAccess, keyId: string, hash: string, overlapMs?: number): Promise<void> {
  const key = await usableKey(access, keyId);
  const { db } = access;
  if (overlapMs !== undefined) {
    const endsAt = key.now + overlapMs;
    await db
      .updateTable("secrets")
      .set({ ends_at: endsAt })
      .where("key_id", "=", keyId)
      .where((eb) => eb.or([eb("ends_at", "is", null), eb("ends_at", ">", endsAt)]))
      .execute();
  }
  await linkSecrets(db, keyId, [hash]);
}

async function usableKey(access: LedgerAccess, keyId: string): Promise<LockedKey> {
  const key = await lockKey(access, keyId);
  if (!key) throw noSuchKey(keyId);
  if (key.revoked) throw revokedKey(keyId);
  return key;
}

/** Forgets all secrets of a key for good. */
export async function revokeKey(access: LedgerAccess, keyId: string): Promise<void> {
  const key = await lockKey(access, keyId);
  if (!key) throw noSuchKey(keyId);
  await access.db.deleteFrom("secrets").where("key_id", "=", keyId).execute();
  if (!key.revoked) await access.db.updateTable("keys").set({ revoked_at: key.now }).where("id", "=", keyId).execute();
}

/** Adds units to a key's quota. */
export async function grantUnits(access: LedgerAccess, keyId: string, units: number): Promise<void> {
  const key = await usableKey(access, keyId);
  if (key.account.key.unlimited) throw new RangeError(`The API key ${keyId} is unlimited.`);
  key.grant(units);
  await key.write();
}

/**
 * Keys and their ledgers in the order of their ids: one, or those after an id. Reads the books as text, for a driver may fail at a
 * number that it cannot hold, and with it at the whole page.
 */
export async function reportKeys(
  { db, dialect, time }: LedgerAccess,
  page: { readonly keyId: string } | { readonly after: string; readonly limit: number },
): Promise<KeyReport[]> {
  const rows = await db
    .selectFrom("keys")
    .select(["id", "name", "unlimited", "models", "revoked_at"])
    .select(() => [asText(dialect, "expires_at"), ...BOOKS.map((book) => asText(dialect, book))])
    .select((eb) =>
      eb
        .selectFrom("secrets")
        .select((eb) => eb.fn.countAll().as("count"))
        .whereRef("secrets.key_id", "=", "keys.id")
        .where((eb) => eb.or([eb("secrets.ends_at", "is", null), eb("secrets.ends_at", ">", time)]))
        .as("secrets"),
    )
    .$if("keyId" in page, (query) => query.where("id", "=", "keyId" in page ? page.keyId : ""))
    .$if("after" in page, (query) => query.where("id", ">", "after" in page ? page.after : ""))
    .orderBy("id")
    .limit("limit" in page ? page.limit : 1)
    .execute();
  return rows.map((row) => {
    const described = { secrets: numberOf(row.secrets ?? 0), revoked: row.revoked_at !== null };
    try {
      return keyReportOf(apiKeyOf(row), row, described);
    } catch {
      // A list of models, or an end, that nobody can read: the key may do nothing.
      const closed = apiKeyOf({ ...row, models: "[]", expires_at: 0 });
      return keyReportOf(closed, row, { ...described, spoilt: ["models or expires_at"] });
    }
  });
}

/** What a key has, read in one statement; `stale` where a lease has run out that is not accounted for yet. */
export async function readBalance(
  { db, time }: LedgerAccess,
  keyId: string,
): Promise<(Balance & { readonly stale: boolean }) | undefined> {
  const row = await db
    .selectFrom("keys")
    .select(["unlimited", "granted", "charged", "held"])
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
  return row && { ...balanceOf(row), stale: row.expired !== null };
}

function balanceOf(row: Pick<Selectable<KeyTable>, "unlimited" | "granted" | "charged" | "held">): Balance {
  const held = numberOf(row.held);
  const used = numberOf(row.charged) + held;
  return { used, available: Math.max(0, numberOf(row.granted) - used), held };
}
