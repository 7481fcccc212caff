/** A process of its own with a gateway on a shared database: it makes a response in the background until it is killed. */

import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { createGateway } from "../../../src/index.ts";
import { nodeSqliteDialect, type SqlDialect, sqlQuotaStore, sqlResponseStore } from "../../../src/stores/sql/index.ts";

const order = JSON.parse(process.argv[2] ?? "") as Record<"address" | "prefix" | "apiKey" | "keyId", string> & {
  readonly dialect: SqlDialect;
};
const { dialect, address, prefix, apiKey, keyId } = order;
const db = new Kysely<unknown>({
  dialect:
    dialect === "sqlite"
      ? nodeSqliteDialect(new DatabaseSync(address))
      : new PostgresDialect({ pool: new Pool({ connectionString: address, max: 4 }) }),
});
const responseStore = sqlResponseStore({ db, dialect, prefix });
const gateway = createGateway({
  backend: {
    async *chat() {
      for (;;) {
        yield "word ";
        await pause(20);
      }
    },
  },
  quotas: sqlQuotaStore({ db, dialect, prefix }),
  responseStore,
  countTokens: (text) => text.length,
  limits: { leaseMs: 60_000, usageNoteMs: 100 },
});

const response = await gateway.fetch(
  new Request("http://gateway/v1/responses", {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "any", input: "ten tokens", background: true, max_output_tokens: 100_000 }),
  }),
);
const { id } = (await response.json()) as { id: string };
// The lease is the first child, and pieces of the stream follow.
while ((await responseStore.list(keyId, id, { limit: 2, order: "asc" })).length < 2) await pause(50);
process.stdout.write(`${id}\n`);
