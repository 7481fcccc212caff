// sweeps.ts
import { DatabaseSync } from "node:sqlite";
import { Kysely } from "kysely";
import { migrate, nodeSqliteDialect, sqlQuotaStore, sqlReplayStore, sqlResponseStore } from "polygate/stores/sql";

const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(new DatabaseSync(":memory:")) });
await migrate(db, { dialect: "sqlite" });
export const quotas = sqlQuotaStore({ db, dialect: "sqlite" });
export const replayStore = sqlReplayStore({ db, dialect: "sqlite" });
export const responseStore = sqlResponseStore({ db, dialect: "sqlite" });

const RETENTION_MS = 30 * 86_400_000;

/** A step that fails does not stop the others. */
export async function sweep(): Promise<void> {
  await quotas.sweep().catch(console.error);
  await quotas.prune({ olderThanMs: RETENTION_MS }).catch(console.error);
  await replayStore.sweep().catch(console.error);
  await responseStore.sweep().catch(console.error);
}

await sweep();
setInterval(() => void sweep(), 60_000).unref();
