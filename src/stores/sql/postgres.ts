/** Reserves, renews and settles in one statement each, which PostgreSQL can do. This saves round trips and shortens the lock. */

import { type RawBuilder, sql } from "kysely";
import { MOST_UNITS } from "../../model/money.ts";
import type { HoldRequest, Outcome, Renewal, Reservation } from "../../ports/quota-store.ts";
import type { FastVerbs } from "../driver.ts";
import { estimatedOf, MOST_LEASE_MS, MOST_UNLIMITED } from "../ledger.ts";
import { slot, type SqlAccess, type Statement } from "./database.ts";
import { numberOf, type StoredInteger } from "./tables.ts";

const [keys, holds, journal] = [sql.table("keys"), sql.table("holds"), sql.table("journal")];

const integer = (units: number): RawBuilder<number> => sql.lit(units);
const integerAt = (index: number): RawBuilder<number> => sql`CAST(${slot(index)} AS BIGINT)`;

/** The SQL condition that a key has no expired hold to charge. When there is one, the verb must run in a transaction instead. */
const nothingExpired = (keyId: RawBuilder<unknown>, now: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql`NOT EXISTS (SELECT 1 FROM ${holds} x WHERE x.key_id = ${keyId} AND x.state = 'live' AND x.expires_at <= ${now})`;

/** Values: the ids of the hold and of its key, atLeast, atMost, the lease. */
const RESERVE: Statement<ReservedUnits> = {
  planOnce: true,
  build({ db, time }) {
    const [id, keyId] = [slot(0), slot(1)];
    const [least, most, leaseMs] = [integerAt(2), integerAt(3), integerAt(4)];
    return sql<ReservedUnits>`
    WITH locked AS (
      SELECT k.id, k.unlimited, k.held, GREATEST(0, k.granted - k.charged - k.held) AS available,
        ${integer(MOST_UNITS)} - k.charged - k.held AS countable, ${time} AS now
      FROM ${keys} k WHERE k.id = ${keyId} AND k.budgets IS NULL FOR UPDATE
    ), asked AS (
      SELECT l.*, CASE WHEN l.unlimited = 1 THEN GREATEST(${least}, LEAST(${most}, ${integer(MOST_UNLIMITED)}, l.countable))
        ELSE LEAST(${most}, l.available) END AS grantable
      FROM locked l
      WHERE l.countable >= CASE WHEN l.unlimited = 1 THEN ${least} ELSE 0 END
        AND NOT EXISTS (SELECT 1 FROM ${holds} x WHERE x.id = ${id}) AND ${nothingExpired(sql`l.id`, sql`l.now`)}
    ), admitted AS (
      SELECT * FROM asked WHERE grantable >= ${least}
    ), held AS (
      INSERT INTO ${holds} (id, key_id, state, granted, noted, renewals, used, overdraft, expires_at)
      SELECT ${id}, a.id, 'live', a.grantable, 0, 0, 0, 0, a.now + ${leaseMs} FROM admitted a
    ), entered AS (
      INSERT INTO ${journal} (key_id, hold_id, kind, at, granted, charged, held, overdraft, estimated, noted)
      SELECT a.id, ${id}, 'hold', a.now, 0, 0, a.grantable, 0, 0, 0 FROM admitted a
    ), booked AS (
      UPDATE ${keys} k SET held = k.held + a.grantable FROM admitted a WHERE k.id = a.id
    )
    SELECT grantable, available, held FROM asked`.compile(db);
  },
};

type ReservedUnits = Readonly<Record<"grantable" | "available" | "held", StoredInteger>>;

/**
 * Reserves under a new id. Returns undefined, and changes nothing, when the verb must run in a transaction instead: the key is
 * unknown or has a budget, the id exists already, the key has an expired hold, or a sum would pass `MOST_UNITS`. Fails with a conflict when another
 * call reserves the same id meanwhile.
 */
async function reserveAtOnce(
  access: SqlAccess,
  { id, keyId, atLeast, atMost, leaseMs }: HoldRequest,
): Promise<Reservation | undefined> {
  const [found] = await access.run(RESERVE, [id, keyId, atLeast, atMost, Math.min(leaseMs, MOST_LEASE_MS)]);
  if (!found) return undefined;
  const granted = numberOf(found.grantable);
  if (granted >= atLeast) return { granted };
  return { refused: true, available: numberOf(found.available), held: numberOf(found.held) };
}

/** Values: the hold's id, the lease, the units used so far, and the units to keep when the hold is lowered. */
const renewStatement = (lowers: boolean): Statement<unknown> => ({
  planOnce: true,
  build({ db, time }) {
    const [id, leaseMs, used] = [slot(0), integerAt(1), integerAt(2)];
    const freed = lowers ? sql`GREATEST(0, l.granted - GREATEST(${used}, ${integerAt(3)}))` : integer(0);
    // A lowered hold also changes the books of its budgets, which needs a transaction.
    const isAlone = lowers ? sql`AND l.shares IS NULL` : sql``;
    const booked = lowers
      ? sql`, booked AS (UPDATE ${keys} k SET held = k.held - l.freed FROM live l WHERE k.id = l.id)`
      : sql``;
    return sql`
    WITH locked AS (
      SELECT k.id, h.state, h.granted, h.noted, h.expires_at, h.shares, ${time} AS now
      FROM ${keys} k JOIN ${holds} h ON h.key_id = k.id WHERE h.id = ${id} FOR UPDATE
    ), live AS (
      SELECT l.*, ${freed} AS freed FROM locked l
      WHERE l.state = 'live' AND l.expires_at > l.now ${isAlone} AND ${nothingExpired(sql`l.id`, sql`l.now`)}
    ), renewed AS (
      UPDATE ${holds} h SET granted = h.granted - l.freed, noted = ${used}, renewals = h.renewals + 1,
        expires_at = l.now + ${leaseMs}
      FROM live l WHERE h.id = ${id}
    ), entered AS (
      INSERT INTO ${journal} (key_id, hold_id, kind, at, granted, charged, held, overdraft, estimated, noted)
      SELECT l.id, ${id}, 'renew', l.now, 0, 0, -l.freed, 0, 0, ${used} - l.noted FROM live l
    )${booked}
    SELECT id FROM live`.compile(db);
  },
});

const RENEW = renewStatement(false);
const LOWER = renewStatement(true);

/**
 * Renews a live hold. Returns undefined, and changes nothing, when the verb must run in a transaction instead: the hold is not live,
 * the key has an expired hold, or a hold with shares in budgets is lowered.
 */
async function renewAtOnce(access: SqlAccess, id: string, renewal: Renewal): Promise<true | undefined> {
  const { leaseMs, used, keep } = renewal;
  const values = [id, Math.min(leaseMs, MOST_LEASE_MS), used, keep];
  const rows = await access.run(keep === undefined ? RENEW : LOWER, values);
  return rows.length > 0 || undefined;
}

/** Values: the hold's id, the units used, and how many of them rest on estimates. */
const SETTLE: Statement<unknown> = {
  planOnce: true,
  build({ db, time }) {
    const [id, units, estimated, most] = [slot(0), integerAt(1), integerAt(2), integer(MOST_UNITS)];
    return sql`
    WITH locked AS (
      SELECT k.id, k.unlimited, k.charged + k.held - h.granted AS taken, k.overdraft, h.state, h.granted, h.expires_at, h.shares,
        GREATEST(0, k.granted - k.charged - k.held + h.granted) AS room, ${time} AS now
      FROM ${keys} k JOIN ${holds} h ON h.key_id = k.id WHERE h.id = ${id} FOR UPDATE
    ), live AS (
      SELECT l.*, CASE WHEN l.unlimited = 1 THEN ${units} ELSE LEAST(${units}, l.room) END AS charge
      FROM locked l
      WHERE l.state = 'live' AND l.expires_at > l.now AND l.shares IS NULL AND ${nothingExpired(sql`l.id`, sql`l.now`)}
    ), charged AS (
      SELECT l.*, ${units} - l.charge AS over, LEAST(l.charge, ${estimated}) AS guess FROM live l
      WHERE l.taken + l.charge <= ${most} AND l.overdraft + ${units} - l.charge <= ${most}
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
    SELECT id FROM charged`.compile(db);
  },
};

/**
 * Settles a live hold. Returns undefined, and changes nothing, when the verb must run in a transaction instead: the hold is not live
 * or has shares in budgets, the key has an expired hold, or a sum would pass `MOST_UNITS`.
 */
async function settleAtOnce(access: SqlAccess, id: string, outcome: Outcome): Promise<true | undefined> {
  const rows = await access.run(SETTLE, [id, outcome.used, estimatedOf(outcome)]);
  return rows.length > 0 || undefined;
}

/** The verbs in one statement each. Many verbs of one key do better in transactions that they share. */
export const fastVerbs = (access: SqlAccess): FastVerbs => ({
  most: 2,
  reserve: (request) => access.attempt(() => reserveAtOnce(access, request)),
  renew: (id, renewal) => access.attempt(() => renewAtOnce(access, id, renewal)),
  settle: (id, outcome) => access.attempt(() => settleAtOnce(access, id, outcome)),
});
