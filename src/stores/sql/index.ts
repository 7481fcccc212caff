/** The exports of "polygate/stores/sql": stores of quota, answers and responses in SQLite, PostgreSQL, MySQL or MariaDB. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { given } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import type { DurableQuotaStore } from "../durable.ts";
import { LEDGER_SHAPES, ledgerQuotaStore, type LedgerQuotaStoreOptions } from "../ledger-store.ts";
import { SQL_SHAPES, SqlAccess, type SqlStoreOptions } from "./database.ts";
import { SqlDriver } from "./driver.ts";

export type {
  BudgetChanges,
  BudgetEvent,
  BudgetOptions,
  BudgetPeriod,
  BudgetPeriodReport,
  BudgetReport,
  OnBudget,
} from "../budgets.ts";
export type {
  CallFilter,
  CallReader,
  CallRecorder,
  RecordedCall,
  RecorderOptions,
  UsageColumn,
  UsageQuery,
  UsageReport,
  UsageRow,
  UsageSums,
} from "../calls.ts";
export type {
  BudgetDirectory,
  BudgetPage,
  DurableKeyOptions,
  DurableQuotaStore,
  KeyDirectory,
  KeyPage,
  KeyReport,
  PeriodPage,
  Retention,
} from "../durable.ts";
export type { AuditEntry, AuditLog, AuditOutcome, AuditPage, AuditRecord } from "../../ports/audit-log.ts";
export { sqlAuditLog } from "./audit.ts";
export type { KeyBounds } from "../memory-replays.ts";
export { type SqlCallLog, sqlCallLog, type SqlCallLogOptions } from "./calls.ts";
export { schemaVersion, type SqlDialect, type TimeExpression } from "./database.ts";
export { nodePostgresDialect, type NodePostgresOptions, type NodePostgresPool, nodeSqliteDialect } from "./drivers.ts";
export { migrate, type MigrationOptions, migrations } from "./migrations.ts";
export { type SqlReplayStore, sqlReplayStore, type SqlReplayStoreOptions } from "./replays.ts";
export { type SqlResponseStore, sqlResponseStore, type SqlResponseStoreOptions } from "./responses.ts";
export { sqlCallReader } from "./usage.ts";
export { SCHEMA_VERSION, type SqlDatabase, type SqlTables, type StoredInteger, type TableOptions } from "./tables.ts";
export { type LedgerDifference, type VerifyOptions, verifyLedger } from "./journal.ts";

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
  return ledgerQuotaStore<Context>(
    new SqlDriver(SqlAccess.open(access)),
    given({ find, maxVerbsPerTransaction, onBudget }),
  );
}
