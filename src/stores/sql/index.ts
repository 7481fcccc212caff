/** The exports of "polygate/stores/sql": stores of quota, answers and responses in SQLite, PostgreSQL, MySQL or MariaDB. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

export type { DurableKeyOptions, DurableQuotaStore, KeyDirectory, KeyPage, KeyReport, Retention } from "../durable.ts";
export type { KeyBounds } from "../memory-replays.ts";
export { schemaVersion, type SqlDialect, type TimeExpression } from "./database.ts";
export { nodePostgresDialect, type NodePostgresOptions, type NodePostgresPool, nodeSqliteDialect } from "./drivers.ts";
export { migrate, type MigrationOptions, migrations } from "./migrations.ts";
export { type SqlReplayStore, sqlReplayStore, type SqlReplayStoreOptions } from "./replays.ts";
export { type SqlResponseStore, sqlResponseStore, type SqlResponseStoreOptions } from "./responses.ts";
export { SCHEMA_VERSION, type SqlDatabase, type SqlTables, type StoredInteger, type TableOptions } from "./tables.ts";
export { sqlQuotaStore, type SqlQuotaStoreOptions } from "./store.ts";
export { type LedgerDifference, type VerifyOptions, verifyLedger } from "./verify.ts";
