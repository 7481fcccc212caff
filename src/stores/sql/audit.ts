/** The admin's log of changes in SQL, for any number of processes. */

import type { Selectable } from "kysely";
import { parseJson } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import { type AuditLog, type AuditRecord, assertAuditPage } from "../../ports/audit-log.ts";
import { SQL_SHAPES, SqlAccess, type SqlStoreOptions } from "./database.ts";
import { type AuditTable, numberOf } from "./tables.ts";

/**
 * Makes a log of changes for `adminHandler` in SQLite, PostgreSQL, MySQL or MariaDB. Its table must have been made by `migrate`. It keeps
 * every change: delete old rows of `polygate_audit` yourself.
 *
 * @throws TypeError or RangeError for a wrong option.
 * @example adminHandler(quotas, { authorize, audit: sqlAuditLog({ db, dialect: "postgres" }) });
 */
export function sqlAuditLog(options: SqlStoreOptions): AuditLog {
  assertOptions<SqlStoreOptions>("sqlAuditLog", options, SQL_SHAPES);
  const access = SqlAccess.open(options);
  const { db } = access;
  return {
    async begin({ id, at, user, action, target, changes }) {
      const row = {
        id,
        at,
        user_name: storable(user),
        action,
        target: target === undefined ? null : storable(target),
        changes: changes === undefined ? null : JSON.stringify(changes),
      };
      await access.attempt(() => db.insertInto("audit").values(row).execute());
    },
    async end(id, { state, target, reason }) {
      const ended = {
        state,
        ...(target !== undefined && { target: storable(target) }),
        ...(reason !== undefined && { reason: storable(reason) }),
      };
      await access.attempt(() => db.updateTable("audit").set(ended).where("id", "=", id).execute());
    },
    async list(page) {
      assertAuditPage(page);
      const { before, limit } = page;
      let query = db.selectFrom("audit").selectAll().orderBy("seq", "desc").limit(limit);
      if (before !== undefined) {
        const older = db.selectFrom("audit").select("seq").where("id", "=", storable(before));
        query = query.where("seq", "<", older);
      }
      return (await access.attempt(() => query.execute())).map(recordOf);
    },
  };
}

/** Returns a text that every database stores. */
const storable = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD");

/** The casts are safe: the columns are written from such values. */
function recordOf({ id, at, user_name, action, target, changes, state, reason }: Selectable<AuditTable>): AuditRecord {
  return {
    id,
    at: numberOf(at),
    user: user_name,
    action,
    ...(target !== null && { target }),
    ...(changes !== null && { changes: parseJson(changes) as NonNullable<AuditRecord["changes"]> }),
    ...(state !== null && { state: state as NonNullable<AuditRecord["state"]> }),
    ...(reason !== null && { reason }),
  };
}
