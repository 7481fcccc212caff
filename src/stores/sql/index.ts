/** The public face of "polygate/stores/sql": quota, and answers for repeated calls, in SQLite, PostgreSQL, MySQL or MariaDB. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

export type { KeyBounds } from "../replay-input.ts";
export type { DurableKeyOptions, DurableQuotaStore, KeyDirectory, KeyPage, KeyReport, Retention } from "../durable.ts";
export type { SqlDialect, TimeExpression } from "./dialects.ts";
export { migrate, type MigrationOptions, migrations, SCHEMA_VERSION, schemaVersion } from "./migrations.ts";
export { nodePostgresDialect, type NodePostgresOptions, type NodePostgresPool } from "./node-postgres.ts";
export { nodeSqliteDialect } from "./node-sqlite.ts";
export { type SqlReplayStore, sqlReplayStore, type SqlReplayStoreOptions } from "./replays.ts";
export type { SqlDatabase, SqlTables, StoredInteger, TableOptions } from "./schema.ts";
export { sqlQuotaStore, type SqlQuotaStoreOptions } from "./store.ts";
export { type LedgerDifference, type VerifyOptions, verifyLedger } from "./verify.ts";
