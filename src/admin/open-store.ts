/** Opens a store of quota by its address, for the commands. */

import { given } from "../model/json.ts";
import type { AuditLog } from "../ports/audit-log.ts";
import { isAway, lacksTable } from "../stores/away.ts";
import type { CallReader, RecordedCall } from "../stores/calls.ts";
import type { DurableQuotaStore } from "../stores/durable.ts";
import { connect, type ConnectOptions } from "../stores/open/connection.ts";
import type { LedgerDifference } from "../stores/sql/index.ts";

/** A store, with functions to maintain and to close it. */
export interface OpenedStore {
  readonly store: DurableQuotaStore;
  /** Makes or updates the tables, and returns false for tables that are up to date already. Undefined for a store without tables. */
  readonly migrate?: () => Promise<boolean>;
  /** Compares balances and journal. Undefined for a store without a journal. */
  readonly verify?: () => Promise<readonly LedgerDifference[]>;
  /** Reads the recorded calls. Undefined for a store without a record of calls. */
  readonly calls?: CallReader;
  /** The log of changes. Undefined for a store without one. */
  readonly audit?: AuditLog;
  close(): Promise<void>;
}

/** Opens `sqlite:FILE`, `postgres://…`, `mysql://…` or `redis://…`. Throws as `connect` does. */
export async function openStore(address: string, options: ConnectOptions = {}): Promise<OpenedStore> {
  const connection = await connect(address, options);
  const { prefix } = options;
  const close = (): Promise<void> => connection.close();
  try {
    if (connection.dialect === "redis") {
      const { redisQuotaStore } = await import("../stores/redis/index.ts");
      const { client } = connection;
      return { store: redisQuotaStore({ client, ...(prefix !== undefined && { prefix }) }), close };
    }
    const { db, dialect, stores } = connection;
    const names = { dialect, prefix };
    const store = stores.sqlQuotaStore({ db, ...names });
    const migrate = async (): Promise<boolean> => {
      const version = await stores.schemaVersion(db, given({ prefix }));
      await connection.migrate();
      return version !== stores.SCHEMA_VERSION;
    };
    const calls = stores.sqlCallReader({ db, ...names });
    const audit = stores.sqlAuditLog({ db, ...names });
    return { store, calls, audit: unlessMissing(audit), migrate, verify: () => stores.verifyLedger(db, names), close };
  } catch (error) {
    // An open connection would keep the process running.
    await close();
    throw error;
  }
}

/** Returns the latest recorded call. A database without tables for calls has none, and is no reason to fail. */
export async function latestCall(calls: CallReader | undefined): Promise<RecordedCall | undefined> {
  try {
    return (await calls?.list({ limit: 1 }))?.[0];
  } catch (error) {
    if (isAway(error)) throw error;
    return undefined;
  }
}

/** Returns a log that makes no change fail for the table of the log, which somebody has removed. */
const unlessMissing = (log: AuditLog): AuditLog => ({
  ...log,
  begin: (entry) =>
    log.begin(entry).catch((error: unknown) => {
      if (!lacksTable(error)) throw error;
    }),
});
