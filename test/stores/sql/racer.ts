/** A process of its own that works on a shared database: it races for a balance, or makes calls until it is killed. */

import { DatabaseSync } from "node:sqlite";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { nodeSqliteDialect, type SqlDialect, sqlQuotaStore } from "../../../src/stores/sql/index.ts";

/** The task of the process, as JSON in its first argument. */
export interface RacerOrder {
  readonly dialect: SqlDialect;
  readonly address: string;
  readonly prefix: string;
  readonly keyId: string;
  readonly name: string;
  /** The number of reservations to make at once. Without it, the process makes calls without end. */
  readonly reservations?: number;
}

const order = JSON.parse(process.argv[2] ?? "") as RacerOrder;
const { dialect, address, prefix, keyId, name } = order;
const db = new Kysely<unknown>({
  dialect:
    dialect === "sqlite"
      ? nodeSqliteDialect(new DatabaseSync(address))
      : new PostgresDialect({ pool: new Pool({ connectionString: address, max: 4 }) }),
});
const store = sqlQuotaStore({ db, dialect, prefix });

const reserve = (id: string) => store.reserve({ id, keyId, atLeast: 7, atMost: 7, leaseMs: 600_000 });

async function race(count: number): Promise<void> {
  // Both processes are up before either begins.
  process.stdout.write("ready\n");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  const answers = await Promise.all(Array.from({ length: count }, (_, index) => reserve(`${name}-${index}`)));
  process.stdout.write(`${answers.filter(({ refused }) => !refused).length}\n`);
  await db.destroy();
  process.stdin.destroy();
}

async function callForever(worker: number): Promise<never> {
  for (let call = 0; ; call++) {
    const id = `${name}-${worker}-${call}`;
    await reserve(id);
    await store.renew(id, { leaseMs: 600_000, used: 3 });
    if (call % 3 > 0) await store.settle(id, { used: call % 20, certainty: "exact" });
    if (call === 5) process.stdout.write("ready\n");
  }
}

if (order.reservations === undefined) await Promise.all([0, 1, 2, 3].map(callForever));
else await race(order.reservations);
