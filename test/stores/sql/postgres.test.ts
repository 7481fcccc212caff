/** PostgreSQL reserves, renews and settles in one round trip each. */

import { Kysely, PostgresDialect, sql } from "kysely";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type SqlDatabase, sqlQuotaStore, verifyLedger } from "../../../src/stores/sql/index.ts";
import { databases, type TestPlace } from "./databases.ts";

const LEASE_MS = 600_000;

const database = databases.find(({ name }) => name === "PostgreSQL");

/** Resolves when work waits for a lock, or when it has ended. */
async function waitsOrEnds(db: SqlDatabase, work: Promise<unknown>): Promise<string> {
  let isOver = false;
  void work.catch(() => {}).finally(() => (isOver = true));
  for (;;) {
    const { rows } = await sql`SELECT 1 FROM pg_locks WHERE NOT granted`.execute(db);
    if (rows.length > 0) return "waits";
    if (isOver) return "ends";
  }
}

describe.skipIf(!database?.available)("PostgreSQL", () => {
  let statements = 0;
  let place: TestPlace | undefined;
  let db: SqlDatabase;
  beforeAll(async () => {
    place = await database?.place();
    const pool = new Pool({ connectionString: place?.address });
    db = new Kysely({ dialect: new PostgresDialect({ pool }), log: () => void statements++ });
  });
  afterAll(async () => {
    await db?.destroy();
    await place?.remove();
  });

  it("gives each planned statement one name in all processes, which a pooler may lend one connection", async () => {
    if (!place) throw new Error("There is no database.");
    const keyId = await sqlQuotaStore({ ...place.options, db }).add({ granted: 100 });
    const names = new Map<string, Set<string>>();
    const renewed = { leaseMs: LEASE_MS, used: 1 };
    for (const verbs of [["renew", "settle"], ["settle"]]) {
      // A process loads the modules anew, and runs other statements first.
      vi.resetModules();
      const pool = new Pool({ connectionString: place.address, max: 1 });
      const { nodePostgresDialect, sqlQuotaStore: fresh } = await import("../../../src/stores/sql/index.ts");
      const store = fresh({ ...place.options, db: new Kysely({ dialect: nodePostgresDialect(pool) }) });
      const id = `named ${verbs.length}`;
      if (verbs.includes("renew")) await store.renew("nobody", renewed).catch(() => {});
      await store.reserve({ id, keyId, atLeast: 1, atMost: 5, leaseMs: LEASE_MS });
      await store.settle(id, { used: 1, certainty: "exact" });
      const { rows } = await pool.query<{ name: string; statement: string }>(
        "SELECT name, statement FROM pg_prepared_statements",
      );
      for (const { name, statement } of rows) names.set(name, (names.get(name) ?? new Set()).add(statement));
      await pool.end();
    }
    expect([...names.values()].map(({ size }) => size)).toEqual([1, 1, 1]);
  });

  it("reserves, renews and settles in one statement each", async () => {
    if (!place) throw new Error("There is no database.");
    const store = sqlQuotaStore({ ...place.options, db });
    const keyId = await store.add({ granted: 100 });
    const counts: [string, number][] = [];
    const counted = async (verb: string, work: () => Promise<unknown>): Promise<void> => {
      statements = 0;
      await work();
      counts.push([verb, statements]);
    };
    await counted("reserve", () => store.reserve({ id: "call", keyId, atLeast: 1, atMost: 50, leaseMs: LEASE_MS }));
    await counted("renew", () => store.renew("call", { leaseMs: LEASE_MS, used: 7 }));
    await counted("renew", () => store.renew("call", { leaseMs: LEASE_MS, used: 12 }));
    await counted("settle", () => store.settle("call", { used: 20, certainty: "exact" }));
    expect(counts).toEqual([
      ["reserve", 1],
      ["renew", 1],
      ["renew", 1],
      ["settle", 1],
    ]);
    expect(await store.balance(keyId)).toEqual({ used: 20, available: 80, held: 0 });
    expect(await verifyLedger(place.db, place.options)).toEqual([]);
  });

  it("lets a key and a child wait for the removal of their budget", async () => {
    if (!place) throw new Error("There is no database.");
    const store = sqlQuotaStore(place.options);
    const table = sql.table(`${place.prefix}budgets`);
    await store.addBudget({ id: "leaving", amount: 1 });
    await store.add({ id: "member" });
    const changes = [
      () => store.assignBudget("member", "leaving"),
      () => store.add({ id: "new-member", budget: "leaving" }),
      () => store.addBudget({ id: "child", amount: 1, parent: "leaving" }),
    ];
    for (const change of changes) {
      const removing = await db.startTransaction().execute();
      await sql`UPDATE ${table} SET chain = '[]' WHERE id = 'leaving'`.execute(removing);
      const changed = change();
      const seen = await waitsOrEnds(db, changed);
      await removing.commit().execute();
      expect(seen).toBe("waits");
      await expect(changed).rejects.toThrow("There is no budget of the id leaving.");
      await sql`UPDATE ${table} SET chain = '["leaving"]' WHERE id = 'leaving'`.execute(db);
    }
  });
});
