/** The admin's log of changes in SQL, for any number of processes. */

import { type Insertable, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import { parseJson } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import {
  type AuditEntry,
  type AuditLog,
  type AuditOutcome,
  type AuditRecord,
  assertAuditPage,
  shortened,
} from "../../ports/audit-log.ts";
import { grouped, MOST_AT_ONCE } from "../grouped.ts";
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
  const { db, dialect } = access;
  /** Compares texts byte by byte. MySQL takes large letters for small ones, and ignores spaces at the end. */
  const is = (column: "user_name" | "action" | "target", text: string): RawBuilder<boolean> =>
    dialect === "mysql"
      ? sql`CAST(${sql.ref(column)} AS BINARY) = CAST(${text} AS BINARY)`
      : sql`${sql.ref(column)} = ${text}`;
  /** Finds the rows of a target, and others, by the index of targets. */
  const mayBe = (text: string): RawBuilder<boolean> =>
    dialect === "postgres" ? sql`left(target, 190) = left(${text}, 190)` : sql`target = ${text}`;
  // A commit of SQLite writes to the disk, and one comes after the other. In a server, a write that hangs must not hold up others.
  const most = dialect === "sqlite" ? MOST_AT_ONCE : 1;
  const begin = grouped<AuditEntry>(most, async (entries) => {
    await access.all(db.insertInto("audit").values(entries.map(rowOf)));
  });
  const end = grouped<{ readonly id: string; readonly outcome: AuditOutcome }>(most, (ends) => {
    const write = async (of: Pick<SqlAccess, "db">): Promise<void> => {
      for (const { id, outcome } of ends)
        await of.db.updateTable("audit").set(endOf(outcome)).where("id", "=", id).execute();
    };
    return ends.length > 1 ? access.transact(write) : access.attempt(() => write(access));
  });
  return {
    begin,
    end: (id, outcome) => end({ id, outcome }),
    async list(page) {
      assertAuditPage(page);
      const { before, limit, since, until, hasCurrency = false } = page;
      // Reads the log from its newest row, or from that of the page before, until the page is full: all pages together read each row once.
      let query = db.selectFrom("audit").selectAll().orderBy("seq", "desc").limit(limit);
      if (since !== undefined) query = query.where("at", ">=", since);
      if (until !== undefined) query = query.where("at", "<", until);
      for (const [column, text] of [
        ["user_name", page.user],
        ["action", page.action],
        ["target", page.target],
      ] as const)
        if (text !== undefined) query = query.where(is(column, storable(text)));
      if (page.target !== undefined) query = query.where(mayBe(storable(page.target)));
      if (hasCurrency) {
        const last = db.selectFrom("audit").select(({ fn }) => fn.max("seq").as("last"));
        query = query
          .where("seq", ">", sql<number>`${last} - ${MOST_LOOKED_AT}`)
          .where("user_name", "like", "%(command line)")
          .where("changes", "like", '%"currency":"%')
          .where((of) => of.or([of("state", "is", null), of("state", "=", "done")]));
      }
      if (before !== undefined) {
        const older = db.selectFrom("audit").select("seq").where("id", "=", storable(before));
        query = query.where("seq", "<", older);
      }
      return (await access.all(query)).map(recordOf);
    },
  };
}

function rowOf({ id, at, user, action, target, changes, former }: AuditEntry): Insertable<AuditTable> {
  return {
    id,
    at,
    user_name: storable(user),
    action,
    target: target === undefined ? null : storable(target),
    changes: writtenFields(changes, former),
  };
}

const endOf = ({ state, target, reason }: AuditOutcome): Updateable<AuditTable> => ({
  state,
  ...(target !== undefined && { target: storable(target) }),
  ...(reason !== undefined && { reason: storable(reason) }),
});

/** The most bytes of a text in MySQL. */
const MOST_BYTES = 65_535;
/** The most changes among which a search looks that no index helps. */
const MOST_LOOKED_AT = 100_000;

/** Returns a text that every database stores, without the end that MySQL has no room for. */
function storable(text: string): string {
  const whole = text.toWellFormed().replaceAll("\0", "\uFFFD");
  return whole.slice(0, new TextEncoder().encodeInto(whole, new Uint8Array(MOST_BYTES)).read);
}

type ChangedFields = NonNullable<AuditRecord["changes"]>;

/** Writes the fields of a change as JSON: an object, or a list of the fields and their former values. Long values that have no room are "…". */
function writtenFields(changes: ChangedFields | undefined, former: ChangedFields | undefined): string | null {
  if (changes === undefined) return null;
  if (former === undefined) return JSON.stringify(shortened(changes, MOST_BYTES));
  const most = (MOST_BYTES - "[,]".length) / 2;
  return JSON.stringify([shortened(changes, most), shortened(former, most)]);
}

/** Reads what `writtenFields` has written. The casts are safe for that reason. */
function readFields(written: string): Pick<AuditRecord, "changes" | "former"> {
  const fields = parseJson(written);
  if (!Array.isArray(fields)) return { changes: fields as ChangedFields };
  const [changes, former] = fields as [ChangedFields, ChangedFields];
  return { changes, former };
}

/** The casts are safe: the columns are written from such values. */
function recordOf({ id, at, user_name, action, target, changes, state, reason }: Selectable<AuditTable>): AuditRecord {
  return {
    id,
    at: numberOf(at),
    user: user_name,
    action,
    ...(target !== null && { target }),
    ...(changes !== null && readFields(changes)),
    ...(state !== null && { state: state as NonNullable<AuditRecord["state"]> }),
    ...(reason !== null && { reason }),
  };
}
