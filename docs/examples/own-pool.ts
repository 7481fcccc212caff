// own-pool.ts
import { Kysely } from "kysely";
import { Pool } from "pg";
import { createGateway } from "polygate";
import { migrate, nodePostgresDialect, sqlAuditLog, sqlCallLog, sqlQuotaStore } from "polygate/stores/sql";
import { myBackend } from "./backend.ts";

export const pool = new Pool({ connectionString: process.env["DATABASE_URL"], max: 20 }); // That of your server.
const store = { db: new Kysely<unknown>({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" as const };
await migrate(store.db, { dialect: "postgres" });
export const quotas = sqlQuotaStore(store);
export const calls = sqlCallLog({ ...store, onError: console.error });
export const audit = sqlAuditLog(store); // With `quotas` and `calls`, for the admin.
export const gateway = createGateway({ backend: myBackend, quotas, onCall: calls.onCall });

const DAY_MS = 86_400_000;
const sweeps = setInterval(() => {
  const steps = [quotas.sweep(), quotas.prune({ olderThanMs: 30 * DAY_MS }), calls.sweep(), calls.prune()];
  for (const step of steps) step.catch(console.error);
}, 60_000);

/** Ends the pool last, and only once: `destroy()` of Kysely would end it, too. */
export async function close(): Promise<void> {
  await gateway.close();
  clearInterval(sweeps);
  await calls.close();
  await pool.end();
}
