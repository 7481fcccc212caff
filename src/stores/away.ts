/** Tells the errors of a store that is away, and of a database without a table, from those of a store that refuses. */

/** The error of a Redis that accepts a connection, and then says nothing. */
export const SILENT = "the server does not answer";

/**
 * The codes of PostgreSQL for a server that starts or ends, cannot be reached by its pooler (class 08), has no connection, memory or disk left
 * (class 53), or is read-only, as a primary is after a failover.
 */
const AWAY_STATES = /^(?:08|53)[0-9A-Z]{3}$|^(?:25006|25P03|55000|57P0[1235])$/;

/** The same of MySQL, and of the packages for SQLite. */
const AWAY_CODES: ReadonlySet<string> = new Set([
  "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION",
  "ER_CLIENT_INTERACTION_TIMEOUT",
  "ER_CON_COUNT_ERROR",
  "ER_DISK_FULL",
  "ER_OPTION_PREVENTS_STATEMENT",
  "ER_OUTOFMEMORY",
  "ER_OUT_OF_RESOURCES",
  "ER_READ_ONLY_MODE",
  "ER_RECORD_FILE_FULL",
  "ER_SERVER_SHUTDOWN",
  "ER_TOO_MANY_USER_CONNECTIONS",
  "ER_USER_LIMIT_REACHED",
  "PROTOCOL_CONNECTION_LOST",
  "SQLITE_FULL",
]);

/** SQLite's number for a full disk, in the errors of `node:sqlite`. */
const SQLITE_FULL = 13;

/** The errors of the clients of PostgreSQL, MySQL and Redis that have no code. */
const AWAY_MESSAGES =
  /^(?:Connection (?:t|is closed)|Client has encountered a connection error|Can't add new command when connection is|Socket |timeout exceeded|The client is (?:offline|closed)|Command timed out|Reached the max retries|All the root nodes are unavailable|Failed to refresh slots cache)/;

/**
 * The answers of a Redis that does not serve for now: it starts, is a replica since a failover, lacks memory, disk, replicas or connections, is
 * busy with a script, or its cluster changes. Before Redis 7, they stand within the error of the script that has met them.
 */
const REDIS_AWAY =
  /(?:^|[ :]-)(?:LOADING|READONLY|OOM|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|ERR max number of clients) /;

const READ_ONLY_CODES: ReadonlySet<unknown> = new Set([
  "25006",
  "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION",
  "ER_OPTION_PREVENTS_STATEMENT",
  "ER_READ_ONLY_MODE",
]);

/** True for the answer of a server that is read-only, as a primary is after a failover. The same address may lead to another server by now. */
export function isReadOnly(error: unknown): boolean {
  const { code, message } = Object(error) as Readonly<Record<"code" | "message", unknown>>;
  return READ_ONLY_CODES.has(code) || (code === undefined && /(?:^|[ :]-)READONLY /.test(String(message)));
}

/**
 * True when a server cannot be reached, has not finished its start, or takes no writes for now; false when it has answered with a refusal, such
 * as of a password.
 */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode, message } = error as NodeJS.ErrnoException & { readonly errcode?: number };
  if (code === undefined) return message === SILENT || AWAY_MESSAGES.test(message) || REDIS_AWAY.test(message);
  if (AWAY_STATES.test(code) || AWAY_CODES.has(code) || errcode === SQLITE_FULL) return true;
  // Other codes are those of the system, such as ECONNREFUSED. Those of Node and of MySQL begin with ERR_ and ER_.
  return /^E(?!RR?_)/.test(code);
}

/** The codes of PostgreSQL, MySQL and packages for SQLite for a statement that others have kept from its rows, or that has met its time limit. */
const TIMED_OUT =
  /^(?:40001|40P01|55P03|57014|ER_(?:LOCK_DEADLOCK|LOCK_WAIT_TIMEOUT|QUERY_INTERRUPTED|QUERY_TIMEOUT)|SQLITE_(?:BUSY|LOCKED)\w*)$/;

/** The same as numbers, where an error has no such code: of MariaDB, and BUSY and LOCKED of `node:sqlite`. */
const [MARIADB_TIMED_OUT, SQLITE_BUSY, SQLITE_LOCKED] = [1969, 5, 6];

/** True for an error that passes: the store is away, or the statement has run out of time. */
export function isPassing(error: unknown): boolean {
  const { code, errno, errcode } = Object(error) as Readonly<Record<"code" | "errno" | "errcode", unknown>>;
  if (isAway(error) || errno === MARIADB_TIMED_OUT || (typeof code === "string" && TIMED_OUT.test(code))) return true;
  const ofSqlite = Number(errcode) & 0xff;
  return ofSqlite === SQLITE_BUSY || ofSqlite === SQLITE_LOCKED;
}

/** The codes for a table or a schema that does not exist: of PostgreSQL, MySQL and MariaDB. */
const MISSING: ReadonlySet<unknown> = new Set(["42P01", "3F000", 1146, 1049]);

/** True for the error of a statement whose table or schema does not exist. */
export function lacksTable(error: unknown): boolean {
  const {
    code,
    errno,
    message,
    sql: statement,
  } = Object(error) as Readonly<Record<"code" | "errno" | "message" | "sql", unknown>>;
  // Without a statement, it is the database of the connection that does not exist, and that no migration makes.
  if (errno === 1049 && statement === undefined) return false;
  return MISSING.has(code) || MISSING.has(errno) || String(message).startsWith("no such table");
}
