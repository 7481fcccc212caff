/** PostgreSQL reserves, renews and settles in one round trip each. */

import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SqlDatabase, sqlQuotaStore, verifyLedger } from "../../src/stores/sql/index.ts";
import { databases, type TestPlace } from "./sql/databases.ts";

const LEASE_MS = 600_000;

const database = databases.find(({ name }) => name === "PostgreSQL");

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
});
