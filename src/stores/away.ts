/** Tells the errors of a store that is away, and of a database without a table, from those of a store that refuses. */

/** The error of a Redis that accepts a connection, and then says nothing. */
export const SILENT = "the server does not answer";

/** The errors of PostgreSQL and MySQL for a server that starts, ends, or has no connection left. */
const AWAY_CODES: ReadonlySet<string> = new Set([
  "57P01",
  "57P02",
  "57P03",
  "53300",
  "ER_CON_COUNT_ERROR",
  "ER_SERVER_SHUTDOWN",
  "PROTOCOL_CONNECTION_LOST",
]);

/** The errors of the clients of PostgreSQL and Redis that have no code. */
const AWAY_MESSAGES = /^(?:Connection t|Socket |timeout exceeded|The client is (?:offline|closed)|LOADING )/;

/** True when a server cannot be reached, or has not finished its start; false when it has answered with a refusal, such as of a password. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === undefined) return message === SILENT || AWAY_MESSAGES.test(message);
  // Other codes are those of the system, such as ECONNREFUSED. Those of Node and of MySQL begin with ERR_ and ER_.
  return AWAY_CODES.has(code) || /^E(?!RR?_)/.test(code);
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
