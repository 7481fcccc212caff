/** A process of its own that adds items to a conversation in a shared database, five at a time, until it is killed. */

import { DatabaseSync } from "node:sqlite";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { nodeSqliteDialect, type SqlDialect, sqlResponseStore } from "../../../src/stores/sql/index.ts";

const order = JSON.parse(process.argv[2] ?? "") as Record<"address" | "prefix" | "keyId", string> & {
  dialect: SqlDialect;
};
const { dialect, address, prefix, keyId } = order;
const db = new Kysely<unknown>({
  dialect:
    dialect === "sqlite"
      ? nodeSqliteDialect(new DatabaseSync(address))
      : new PostgresDialect({ pool: new Pool({ connectionString: address, max: 4 }) }),
});
const store = sqlResponseStore({ db, dialect, prefix });

async function writeForever(worker: number): Promise<never> {
  for (let batch = 0; ; batch++) {
    const ids = Array.from({ length: 5 }, (_, index) => `batch-${worker}-${batch}-${index}`);
    const items = ids.map((id) => ({
      id,
      parentId: "shared",
      aliases: [`alias-${id}`],
      content: "x".repeat(10_000),
      retainMs: 3_600_000,
    }));
    await store.create(keyId, items);
    if (worker === 0 && batch === 5) process.stdout.write("ready\n");
  }
}

await Promise.all([0, 1, 2, 3].map(writeForever));
