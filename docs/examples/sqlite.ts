// sqlite.ts
import { DatabaseSync } from "node:sqlite";
import { Kysely } from "kysely";
import { keyAdmin } from "polygate/admin";
import { migrate, nodeSqliteDialect, sqlQuotaStore, verifyLedger } from "polygate/stores/sql";

const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(new DatabaseSync(":memory:")) });
await migrate(db, { dialect: "sqlite" }); // Creates or updates the tables `polygate_*`.
export const quotas = sqlQuotaStore({ db, dialect: "sqlite" });

await keyAdmin(quotas).create({ id: "team-a", granted: 1_000 });
console.log(await verifyLedger(db, { dialect: "sqlite" })); // No balance differs from the journal.
