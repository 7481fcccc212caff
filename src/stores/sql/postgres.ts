/** The usual reserve, renew and settle in one statement each, which PostgreSQL can: one round trip, and the lock lasts no longer. */

import { type RawBuilder, sql } from "kysely";
import type { HoldRequest, Outcome, Renewal, Reservation } from "../../ports/quota-store.ts";
import { MOST_UNLIMITED } from "../account.ts";
import type { LedgerAccess } from "./locked-key.ts";
import { numberOf, type StoredInteger } from "./schema.ts";

const [keys, holds, journal] = [sql.table("keys"), sql.table("holds"), sql.table("journal")];

const integer = (units: number): RawBuilder<number> => sql`CAST(${units} AS BIGINT)`;

/** No lease of the key has run out unaccounted for: to charge it takes the longer way. */
const nothingExpired = (keyId: RawBuilder<unknown>, now: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql`NOT EXISTS (SELECT 1 FROM ${holds} x WHERE x.key_id = ${keyId} AND x.state = 'live' AND x.expires_at <= ${now})`;

/**
 * Reserves under a new id; undefined, and nothing is changed, when the key or the id needs a closer look. Who meets another call of
 * the same id fails with a conflict.
 */
export async function reserveAtOnce(
  { db, time }: LedgerAccess,
  { id, keyId, atLeast, atMost, leaseMs }: HoldRequest,
): Promise<Reservation | undefined> {
  const [least, most] = [integer(atLeast), integer(atMost)];
  const { rows } = await sql<Record<"grantable" | "available" | "held", StoredInteger>>`
    WITH locked AS (
      SELECT k.id, k.unlimited, k.held, GREATEST(0, k.granted - k.charged - k.held) AS available, ${time} AS now
      FROM ${keys} k WHERE k.id = ${keyId} FOR UPDATE
    ), asked AS (
      SELECT l.*, CASE WHEN l.unlimited = 1 THEN GREATEST(${least}, LEAST(${most}, ${integer(MOST_UNLIMITED)}))
        ELSE LEAST(${most}, l.available) END AS grantable
      FROM locked l
      WHERE NOT EXISTS (SELECT 1 FROM ${holds} x WHERE x.id = ${id}) AND ${nothingExpired(sql`l.id`, sql`l.now`)}
    ), admitted AS (
      SELECT * FROM asked WHERE grantable >= ${least}
    ), held AS (
      INSERT INTO ${holds} (id, key_id, state, granted, noted, renewals, used, overdraft, expires_at)
      SELECT ${id}, a.id, 'live', a.grantable, 0, 0, 0, 0, a.now + ${integer(leaseMs)} FROM admitted a
    ), entered AS (
      INSERT INTO ${journal} (key_id, hold_id, kind, at, granted, charged, held, overdraft, estimated, noted)
      SELECT a.id, ${id}, 'hold', a.now, 0, 0, a.grantable, 0, 0, 0 FROM admitted a
    ), booked AS (
      UPDATE ${keys} k SET held = k.held + a.grantable FROM admitted a WHERE k.id = a.id
    )
    SELECT grantable, available, held FROM asked`.execute(db);
  const [found] = rows;
  if (!found) return undefined;
  const granted = numberOf(found.grantable);
  if (granted >= atLeast) return { granted };
  return { refused: true, available: numberOf(found.available), held: numberOf(found.held) };
}

/** Renews a live hold and tells whether it did; when it did not, nothing is changed, and the hold or its key needs a closer look. */
export async function renewAtOnce(
  { db, time }: LedgerAccess,
  id: string,
  { leaseMs, used }: Renewal,
): Promise<boolean> {
  const { rows } = await sql`
    WITH locked AS (
      SELECT k.id, h.state, h.noted, h.expires_at, ${time} AS now
      FROM ${keys} k JOIN ${holds} h ON h.key_id = k.id WHERE h.id = ${id} FOR UPDATE
    ), live AS (
      SELECT l.* FROM locked l
      WHERE l.state = 'live' AND l.expires_at > l.now AND ${nothingExpired(sql`l.id`, sql`l.now`)}
    ), renewed AS (
      UPDATE ${holds} h SET noted = ${integer(used)}, renewals = h.renewals + 1, expires_at = l.now + ${integer(leaseMs)}
      FROM live l WHERE h.id = ${id}
    ), entered AS (
      INSERT INTO ${journal} (key_id, hold_id, kind, at, granted, charged, held, overdraft, estimated, noted)
      SELECT l.id, ${id}, 'renew', l.now, 0, 0, 0, 0, 0, ${integer(used)} - l.noted FROM live l
    )
    SELECT id FROM live`.execute(db);
  return rows.length > 0;
}

/** Settles a live hold and tells whether it did; when it did not, nothing is changed, and the hold or its key needs a closer look. */
export async function settleAtOnce(
  { db, time }: LedgerAccess,
  id: string,
  { used, certainty }: Outcome,
): Promise<boolean> {
  // What could add up to more than a number holds is checked on the longer way.
  if (used > MOST_UNLIMITED) return false;
  const units = integer(used);
  const { rows } = await sql`
    WITH locked AS (
      SELECT k.id, k.unlimited, h.state, h.granted, h.expires_at,
        GREATEST(0, k.granted - k.charged - k.held + h.granted) AS room, ${time} AS now
      FROM ${keys} k JOIN ${holds} h ON h.key_id = k.id WHERE h.id = ${id} FOR UPDATE
    ), live AS (
      SELECT l.*, CASE WHEN l.unlimited = 1 THEN ${units} ELSE LEAST(${units}, l.room) END AS charge
      FROM locked l
      WHERE l.state = 'live' AND l.expires_at > l.now AND ${nothingExpired(sql`l.id`, sql`l.now`)}
    ), charged AS (
      SELECT l.*, ${units} - l.charge AS over, ${certainty === "estimated" ? sql`l.charge` : sql`0`} AS guess FROM live l
    ), resolved AS (
      UPDATE ${holds} h SET state = 'settled', used = ${units}, overdraft = c.over, resolved_at = c.now
      FROM charged c WHERE h.id = ${id}
    ), entered AS (
      INSERT INTO ${journal} (key_id, hold_id, kind, at, granted, charged, held, overdraft, estimated, noted)
      SELECT c.id, ${id}, 'settle', c.now, 0, c.charge, -c.granted, 0, c.guess, 0 FROM charged c
      UNION ALL
      SELECT c.id, ${id}, 'overdraft', c.now, 0, 0, 0, c.over, 0, 0 FROM charged c WHERE c.over > 0
    ), booked AS (
      UPDATE ${keys} k SET held = k.held - c.granted, charged = k.charged + c.charge,
        overdraft = k.overdraft + c.over, estimated = k.estimated + c.guess
      FROM charged c WHERE k.id = c.id
    )
    SELECT id FROM charged`.execute(db);
  return rows.length > 0;
}
