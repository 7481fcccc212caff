/** Tells the errors of a store that will serve again from those that stay until somebody mends their cause. */

import { describe, expect, it } from "vitest";
import { isAway, isPassing } from "../../src/stores/away.ts";

const failed = (message: string, fields: object = {}): Error => Object.assign(new Error(message), fields);

describe("a store is away", () => {
  it.each([
    "READONLY You can't write against a read only replica. script: 4e13fc, on @user_script:12.",
    "ERR Error running script (call to f_4e13fc): @user_script:12: @user_script: 12: -READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "NOREPLICAS Not enough good replicas to write.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "ERR max number of clients reached",
    "All the root nodes are unavailable",
    "Connection is closed.",
    "Connection terminated unexpectedly",
    "Client has encountered a connection error and is not queryable",
    "Can't add new command when connection is in closed state",
  ])("while a server or its client says: %s", (message) => {
    expect([isAway(failed(message)), isPassing(failed(message))]).toEqual([true, true]);
  });

  it.each([
    "08P01",
    "08006",
    "25006",
    "25P03",
    "53100",
    "53300",
    "57P01",
    "57P03",
    "ER_DISK_FULL",
    "ER_RECORD_FILE_FULL",
    "ER_OPTION_PREVENTS_STATEMENT",
    "ER_READ_ONLY_MODE",
    "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION",
    "SQLITE_FULL",
    "ECONNREFUSED",
  ])("while a database fails with %s", (code) => {
    expect([isAway(failed("No.", { code })), isPassing(failed("No.", { code }))]).toEqual([true, true]);
  });

  it("while the disk of SQLite in Node is full", () => {
    expect(isAway(failed("database or disk is full", { code: "ERR_SQLITE_ERROR", errcode: 13 }))).toBe(true);
  });
});

it.each<readonly [what: string, fields: object]>([
  ["a lock in PostgreSQL", { code: "55P03" }],
  ["the time limit of PostgreSQL", { code: "57014" }],
  ["a deadlock in PostgreSQL", { code: "40P01" }],
  ["a lock in MySQL", { code: "ER_LOCK_WAIT_TIMEOUT", errno: 1205 }],
  ["the time limit of MySQL", { code: "ER_QUERY_TIMEOUT", errno: 3024 }],
  ["the time limit of MariaDB", { errno: 1969 }],
  ["a writer of SQLite", { code: "ERR_SQLITE_ERROR", errcode: 5 }],
  ["a writer of SQLite, in a package", { code: "SQLITE_BUSY_SNAPSHOT" }],
])("a statement that ended for %s may be sent again, and its store is not away", (_what, fields) => {
  expect([isAway(failed("No.", fields)), isPassing(failed("No.", fields))]).toEqual([false, true]);
});

it.each<readonly [what: string, message: string, fields: object]>([
  ["a wrong password of PostgreSQL", "password authentication failed", { code: "28P01" }],
  ["a database that PostgreSQL has not", "database does not exist", { code: "3D000" }],
  ["a database that was dropped", "terminating connection", { code: "57P04" }],
  ["a wrong password of MySQL", "Access denied", { code: "ER_ACCESS_DENIED_ERROR", errno: 1045 }],
  [
    "a file that SQLite may not write",
    "attempt to write a readonly database",
    { code: "ERR_SQLITE_ERROR", errcode: 8 },
  ],
  ["a wrong password of Redis", "WRONGPASS invalid username-password pair or user is disabled.", {}],
  ["a mistake in a script", "ERR wrong number of arguments for 'get' command", {}],
  ["words about a replica", "The key READONLY is spoilt.", {}],
])("%s does not pass", (_what, message, fields) => {
  expect([isAway(failed(message, fields)), isPassing(failed(message, fields))]).toEqual([false, false]);
});

it("nothing but an error is away or passes", () => {
  for (const thrown of [undefined, null, "READONLY No.", { code: "53100" }])
    expect([isAway(thrown), isPassing(thrown)]).toEqual([false, false]);
});
