/** The quota store over SQL: the rules of the ledger over the rows of a database. */

import { assertOptions } from "../../options.ts";
import type { DurableQuotaStore } from "../durable.ts";
import { LEDGER_SHAPES, ledgerQuotaStore, type LedgerQuotaStoreOptions } from "../ledger-store.ts";
import { SQL_SHAPES, SqlAccess, type SqlStoreOptions } from "./database.ts";
import { SqlDriver } from "./driver.ts";

/** Options of the quota store over SQL. In SQLite, verbs of all keys share transactions. */
export interface SqlQuotaStoreOptions<Context = unknown> extends SqlStoreOptions, LedgerQuotaStoreOptions<Context> {}

/**
 * Makes a quota store in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its tables must have been made by
 * `migrate`. Leases expire by the database's clock. After a deadlock or a conflict the store retries, a limited number of times.
 *
 * @example
 * const quotas = sqlQuotaStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" });
 */
export function sqlQuotaStore<Context = unknown>(options: SqlQuotaStoreOptions<Context>): DurableQuotaStore<Context> {
  assertOptions<SqlQuotaStoreOptions>("sqlQuotaStore", options, { ...SQL_SHAPES, ...LEDGER_SHAPES });
  const { find, maxVerbsPerTransaction, onBudget, ...access } = options;
  return ledgerQuotaStore<Context>(new SqlDriver(SqlAccess.open(access)), {
    ...(find && { find }),
    ...(maxVerbsPerTransaction !== undefined && { maxVerbsPerTransaction }),
    ...(onBudget && { onBudget }),
  });
}
