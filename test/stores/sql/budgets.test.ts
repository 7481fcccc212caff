/** Budgets over SQL: several pools at once, idle keys, pruning, the audit, and databases of an older version. */

import { DatabaseSync } from "node:sqlite";
import { Kysely, sql } from "kysely";
import { Migrator } from "kysely/migration";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BudgetEvent } from "../../../src/index.ts";
import { migrate, migrations, nodeSqliteDialect, sqlQuotaStore, verifyLedger } from "../../../src/stores/sql/index.ts";
import { expectPeriods } from "../periods.ts";
import { databases, sqliteInMemory, type TestPlace } from "./databases.ts";
import { storeAt } from "./open.ts";

const LEASE_MS = 600_000;
const DAY_MS = 86_400_000;

const exactly = (used: number) => ({ used, certainty: "exact" as const });

describe.each([sqliteInMemory, ...databases])("budgets on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    beforeAll(async () => void (place = await database.place()));
    afterAll(() => place?.remove());

    it("are shared exactly by several pools, also while they are changed", async () => {
      const events: BudgetEvent[] = [];
      const onBudget = (event: BudgetEvent): void => void events.push(event);
      const stores = [place.db, place.connect(), place.connect()].map((db) => storeAt(place, db, { onBudget }).store);
      const [first] = stores;
      if (!first) throw new Error("There is no store.");
      // The ids of the parents come before and after those of their children.
      await first.addBudget({ id: "race-m", amount: 200, period: "month", timeZone: "Asia/Tokyo" });
      await first.addBudget({ id: "race-a", amount: 1_000, parent: "race-m" });
      await first.addBudget({ id: "race-z", amount: 1_000, parent: "race-m" });
      for (let key = 0; key < 4; key++) await first.add({ id: `race-${key}`, budget: key % 2 ? "race-a" : "race-z" });
      const racing = Array.from({ length: 120 }, async (_, index) => {
        const store = stores[index % stores.length] ?? first;
        const hold = { id: `race-hold-${index}`, keyId: `race-${index % 4}`, atLeast: 5, atMost: 5, leaseMs: LEASE_MS };
        const answer = await store.reserve(hold);
        if (!answer.refused) await store.settle(hold.id, exactly(5));
        return answer;
      });
      const changing = Array.from({ length: 10 }, (_, index) =>
        index % 2 ? first.topUpBudget("race-m", 10) : first.updateBudget("race-a", { amount: 1_000 + index }),
      );
      const answers = await Promise.all(racing);
      await Promise.all(changing);
      const granted = answers.filter(({ refused }) => !refused).length;
      const report = await first.budgetReport("race-m");
      expect(report).toMatchObject({ granted: 250, used: granted * 5, held: 0, overdraft: 0 });
      expect(granted).toBeGreaterThanOrEqual(40);
      expect(granted).toBeLessThanOrEqual(50);
      const [a, z] = [await first.budgetReport("race-a"), await first.budgetReport("race-z")];
      expect((a?.used ?? 0) + (z?.used ?? 0)).toBe(granted * 5);
      // The top-ups come after the last threshold or before it, so that the number of events differs; no state is told twice.
      const told = events.map(({ id, percent, charged, granted }) => `${id} ${percent} ${charged} ${granted}`);
      expect(new Set(told).size).toBe(told.length);
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });

    it("are told of a threshold by one of several processes", async () => {
      const events: number[] = [];
      const onBudget = ({ percent }: BudgetEvent): void => void events.push(percent);
      const stores = [place.db, place.connect()].map((db) => storeAt(place, db, { onBudget }).store);
      await stores[0]?.addBudget({ id: "told", amount: 100 });
      await stores[0]?.add({ id: "told-key", budget: "told" });
      // A store may charge calls of the same time at once, and tells of the highest threshold alone.
      for (const [from, to] of [
        [0, 10],
        [10, 16],
        [16, 20],
      ] as const)
        await Promise.all(
          Array.from({ length: to - from }, async (_, index) => {
            const [store, id] = [stores[index % 2], `t-${from + index}`];
            await store?.reserve({ id, keyId: "told-key", atLeast: 5, atMost: 5, leaseMs: LEASE_MS });
            await store?.settle(id, exactly(5));
          }),
        );
      await expect.poll(() => events.toSorted((one, other) => one - other)).toEqual([50, 80, 100]);
    });

    it("are given back what an idle key has held, when another key needs it", async () => {
      const { store, advance } = storeAt(place);
      await store.addBudget({ id: "idle", amount: 100 });
      for (const id of ["idle-one", "idle-two"]) await store.add({ id, budget: "idle" });
      await store.reserve({ id: "idle-hold", keyId: "idle-one", atLeast: 90, atMost: 90, leaseMs: LEASE_MS });
      await store.renew("idle-hold", { leaseMs: LEASE_MS, used: 20 });
      const next = { id: "idle-next", keyId: "idle-two", atLeast: 50, atMost: 100, leaseMs: LEASE_MS };
      expect(await store.reserve(next)).toEqual({ refused: true, available: 10, held: 90, budget: "idle" });
      advance(LEASE_MS);
      expect(await store.reserve(next)).toEqual({ granted: 80 });
      expect(await store.balance("idle-two")).toEqual({ used: 100, available: 0, held: 80, budget: "idle" });
    });

    it("add up when a period was closed, and when its holds are pruned", async () => {
      const { store, advance } = storeAt(place);
      await store.addBudget({ id: "day", amount: 100, period: "day", rollover: true });
      await store.add({ id: "day-key", budget: "day" });
      const hold = (id: string) =>
        store.reserve({ id: `day-${id}`, keyId: "day-key", atLeast: 10, atMost: 10, leaseMs: 10 * DAY_MS });
      for (const id of ["early", "late", "live"]) await hold(id);
      await store.settle("day-early", exactly(7));
      advance(DAY_MS);
      await hold("next");
      await store.settle("day-late", exactly(9));
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
      advance(1_000);
      expect(await store.prune({ olderThanMs: 0 })).toBeGreaterThanOrEqual(2);
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
      await store.settle("day-live", exactly(3));
      await store.settle("day-next", exactly(4));
      expect(await store.budgetReport("day")).toMatchObject({ used: 4, held: 0 });
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
      expect((await store.list({ limit: 1_000 })).find(({ id }) => id === "day-key")).toMatchObject({
        unlimited: true,
        budget: "day",
      });
    });

    it("keep the periods that have ended", async () => {
      const { store, advance } = storeAt(place);
      await expectPeriods(store, advance);
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });

    it("are listed page by page", async () => {
      const { store } = storeAt(place);
      for (const id of ["list-a", "list-b", "list-c"]) await store.addBudget({ id, amount: 5 });
      const ids = async (page: object) => (await store.listBudgets(page)).map(({ id }) => id);
      expect(await ids({ after: "list-", limit: 2 })).toEqual(["list-a", "list-b"]);
      expect(await ids({ after: "list-b", limit: 1 })).toEqual(["list-c"]);
      await expect(store.listBudgets({ limit: 0 })).rejects.toThrow(RangeError);
      await expect(store.addBudget({ id: " x", amount: 5 })).rejects.toThrow("A budget's id must be");
      await expect(store.add({ budget: "nobody" })).rejects.toThrow("There is no budget of the id nobody.");
      await expect(store.assignBudget("nobody", "list-a")).rejects.toThrow("There is no API key of the id nobody.");
    });
  });
});

describe("the audit of budgets", () => {
  it.each([
    ["what a budget holds", "UPDATE polygate_budgets SET held = 0", { table: "budgets", field: "held" }],
    ["what it has charged", "UPDATE polygate_budgets SET charged = 1", { table: "budgets", field: "charged" }],
    ["a closed period", "UPDATE polygate_budget_periods SET held = 1", { table: "budget_periods", field: "held" }],
    ["the shares of a hold", "UPDATE polygate_holds SET shares = NULL", { table: "budgets", field: "held" }],
    ["shares that are none", "UPDATE polygate_holds SET shares = '[1]'", { table: "holds", field: "shares" }],
  ])("finds %s that a hand has changed", async (_, statement, found) => {
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(new DatabaseSync(":memory:")) });
    const place = { db, dialect: "sqlite" } as const;
    await migrate(db, place);
    let ahead = 0;
    const store = sqlQuotaStore({ ...place, clock: (now) => sql`(${now} + ${sql.lit(ahead)})` });
    await store.addBudget({ id: "team", amount: 100, period: "day" });
    await store.add({ id: "key", budget: "team" });
    await store.reserve({ id: "old", keyId: "key", atLeast: 5, atMost: 5, leaseMs: 1_000 });
    ahead = DAY_MS;
    await store.reserve({ id: "settled", keyId: "key", atLeast: 5, atMost: 5, leaseMs: LEASE_MS });
    await store.settle("settled", exactly(5));
    await store.reserve({ id: "live", keyId: "key", atLeast: 5, atMost: 5, leaseMs: LEASE_MS });
    expect(await verifyLedger(db, place)).toEqual([]);
    await sql.raw(statement).execute(db);
    expect(await verifyLedger(db, place)).toContainEqual(expect.objectContaining(found));
    await db.destroy();
  });
});

it("an older database keeps its keys, and can have budgets", async () => {
  const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(new DatabaseSync(":memory:")) });
  const place = { db, dialect: "sqlite" } as const;
  const all = migrations(place);
  const provider = {
    getMigrations: async () =>
      Object.fromEntries(Object.entries(all).filter(([name]) => name < "polygate-0004")) as typeof all,
  };
  const names = {
    migrationTableName: "polygate_schema_version_steps",
    migrationLockTableName: "polygate_schema_version_lock",
  };
  const { error } = await new Migrator({ db, provider, ...names }).migrateToLatest();
  expect(error).toBeUndefined();
  await sql`INSERT INTO polygate_keys VALUES ('old', 'Old', 0, NULL, 0, NULL, 100, 0, 10, 0, 0)`.execute(db);
  await sql`INSERT INTO polygate_holds VALUES ('call', 'old', 'live', 10, 0, 0, 0, 0, 99999999999999, NULL)`.execute(
    db,
  );
  await migrate(db, place);
  const store = sqlQuotaStore(place);
  await store.settle("call", exactly(4));
  await store.addBudget({ id: "team", amount: 50 });
  await store.assignBudget("old", "team");
  expect(await store.reserve({ id: "next", keyId: "old", atLeast: 1, atMost: 99, leaseMs: LEASE_MS })).toEqual({
    granted: 50,
  });
  expect(await store.report("old")).toMatchObject({ used: 54, available: 46, budget: "team" });
  await db.destroy();
});
