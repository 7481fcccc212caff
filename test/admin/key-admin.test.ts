/** Api keys are made, changed, rotated, revoked, granted and reported over every store. */

import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type KeyDirectory, keyAdmin, newApiKey } from "../../src/admin/index.ts";
import { isLimitedWithout } from "../../src/admin/much.ts";
import {
  type BudgetOptions,
  type BudgetReport,
  memoryQuotaStore,
  type QuotaRecalls,
  type QuotaStore,
} from "../../src/index.ts";
import type { DurableQuotaStore, Retention } from "../../src/stores/durable.ts";
import { changedKeyOf } from "../../src/stores/ledger.ts";
import { manualClock } from "../../src/testing/laws/index.ts";
import { drivers, redisAnswers, redisStoreAt } from "../stores/redis/servers.ts";
import { databases, emptied, sqliteInMemory, type TestPlace } from "../stores/sql/databases.ts";
import { storeAt } from "../stores/sql/open.ts";

interface Opened {
  readonly store: QuotaStore & QuotaRecalls;
  readonly keys: KeyDirectory & { prune?(retention: Retention): Promise<number> };
  readonly budgets: {
    addBudget(budget: BudgetOptions): BudgetReport | Promise<BudgetReport>;
    updateBudget(...change: Parameters<DurableQuotaStore["updateBudget"]>): BudgetReport | Promise<BudgetReport>;
    budgetReport(id: string): BudgetReport | undefined | Promise<BudgetReport | undefined>;
    topUpBudget(id: string, units: number): BudgetReport | Promise<BudgetReport>;
    lowerBudget(id: string, units: number): BudgetReport | Promise<BudgetReport>;
    assignBudget(...change: Parameters<DurableQuotaStore["assignBudget"]>): void | Promise<void>;
  };
  readonly advance: (ms: number) => void | Promise<void>;
  readonly remove: () => Promise<void>;
}

const stores: readonly {
  readonly name: string;
  readonly available: boolean;
  /** Opens an empty store. */
  readonly open: () => Promise<Opened>;
  readonly close?: () => Promise<void>;
}[] = [
  {
    name: "memory",
    available: true,
    async open() {
      const clock = manualClock(Date.now());
      const store = memoryQuotaStore([], { clock });
      return { store, keys: store.keys, budgets: store, advance: (ms) => clock.advance(ms), remove: async () => {} };
    },
  },
  ...[sqliteInMemory, ...databases.filter(({ dialect }) => dialect !== "sqlite")].map((database) => {
    let place: TestPlace | undefined;
    return {
      name: database.name,
      available: database.available,
      async open() {
        place ??= await database.place();
        const opened = storeAt(place);
        const { db, prefix } = place;
        return { ...opened, keys: opened.store, budgets: opened.store, remove: () => emptied({ db, prefix }) };
      },
      close: async () => place?.remove(),
    };
  }),
  {
    name: "Redis",
    available: redisAnswers,
    async open() {
      const place = await drivers[0]?.place();
      if (!place) throw new Error("There is no client of Redis.");
      const opened = redisStoreAt(place);
      return { ...opened, keys: opened.store, budgets: opened.store, remove: () => place.remove() };
    },
  },
];

const secretOf = (apiKey: string): string => apiKey.replace(/^sk-/, "");

it("a key of an earlier version with an expiry that is wrong now can still be renamed", () => {
  const key = {
    id: "old",
    name: "Old",
    unlimited: true,
    modelLimits: {},
    modelLimitsEnabled: false,
    expiresAt: -1_700_000_000,
  };
  expect(changedKeyOf(key, { name: "New", expiresAt: key.expiresAt })).toMatchObject({ ...key, name: "New" });
});

it("a page of keys in memory looks once at all secrets", async () => {
  const { keys } = memoryQuotaStore();
  for (let at = 0; at < 50; at++) {
    await keys.add({ id: `key-${at}`, apiKey: [`sk-${at}`, `sk-more-${at}`] });
    await keys.addSecret(`key-${at}`, `sk-past-${at}`, 1);
  }
  const looks = vi.spyOn(Map.prototype, "values");
  const page = await keys.list();
  const count = looks.mock.contexts.filter((map) => (map as Map<unknown, unknown>).size === 150).length;
  looks.mockRestore();
  expect(count).toBe(1);
  expect(new Set(page.map(({ secrets }) => secrets))).toEqual(new Set([2]));
  expect(page.length).toBe(50);
});

describe.each(stores)("keyAdmin over $name", ({ available, open, close }) => {
  describe.skipIf(!available)("when it answers", () => {
    let opened: Opened;
    beforeEach(async () => void (opened = await open()));
    afterEach(() => opened.remove());
    afterAll(() => close?.());

    it("refuses ids, names and names of metadata that look like secrets, and keeps earlier ones", async () => {
      const { keys } = opened;
      const [bare, admin] = ["Zk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVwX", keyAdmin(keys)];
      const words = "cannot look like the secret of a key";
      await admin.create({ id: "team" });
      for (const [make, of] of [
        [() => admin.create({ id: `sk-${bare}` }), "A key's id"],
        [() => admin.create({ id: "x", name: `Ann's ${bare}` }), "A key's name"],
        [() => admin.create({ metadata: { [bare]: "1" } }), "The name of metadata"],
        [() => admin.update("team", { name: `sk-${"a".repeat(43)}` }), "A key's name"],
        [() => admin.update("team", { metadata: { [bare]: "1" } }), "The name of metadata"],
      ] as const)
        await expect(make()).rejects.toThrow(new RangeError(`${of} ${words}.`));
      // The ids of logins are as random.
      await admin.create({ id: bare, name: bare, metadata: { owner: bare } });
      expect(await admin.update(bare, { name: bare, metadata: { [bare]: null } })).toMatchObject({ name: bare });
      // A host, or an earlier version, may have made such names.
      await keys.add({ id: "old", name: bare, metadata: { [bare]: "1" } });
      const edit = { name: bare, paused: true, metadata: { [bare]: "2", plan: "gold" } };
      expect(await admin.update("old", edit)).toMatchObject(edit);
    });

    it("creates keys whose secrets find them", async () => {
      const { store, keys } = opened;
      const { id, apiKey } = await keyAdmin(keys).create({ name: "Team", granted: 500, models: ["small"] });
      expect(apiKey).toMatch(/^sk-[\w-]{43}$/);
      expect(await store.find(secretOf(apiKey))).toEqual({
        id,
        name: "Team",
        unlimited: false,
        modelLimits: { small: true },
        modelLimitsEnabled: true,
        expiresAt: 0,
      });
      expect(JSON.stringify(await keyAdmin(keys).list())).not.toContain(secretOf(apiKey));
    });

    it("rotates: old and new overlap for a day unless told", async () => {
      const { store, keys, advance } = opened;
      const admin = keyAdmin(keys);
      const first = await admin.create({ granted: 5 });
      const second = await admin.rotate(first.id);
      expect(second.id).toBe(first.id);
      await advance(86_000_000);
      expect((await store.find(secretOf(first.apiKey)))?.id).toBe(first.id);
      await advance(400_000);
      expect(await store.find(secretOf(first.apiKey))).toBeUndefined();
      const third = await admin.rotate(first.id, { overlapMs: 0 });
      expect(await store.find(secretOf(second.apiKey))).toBeUndefined();
      expect((await store.find(secretOf(third.apiKey)))?.id).toBe(first.id);
    });

    it("makes no secret whose overlap ends at no date, as its answer could not be written", async () => {
      const admin = keyAdmin(opened.keys);
      await admin.create({ id: "team" });
      await expect(admin.rotate("team", { overlapMs: 8.64e15 })).rejects.toThrow(
        "overlapMs must end at a time that a date can hold.",
      );
      expect(await admin.usage("team")).toMatchObject({ secrets: 1 });
    });

    it("revokes, grants, lists and tells usage", async () => {
      const { store, keys } = opened;
      const admin = keyAdmin(keys);
      const { id, apiKey } = await admin.create({ id: "team", granted: 10 });
      await store.reserve({ id: "call", keyId: id, atLeast: 1, atMost: 7, leaseMs: 60_000 });
      expect(await admin.grant(id, 5)).toMatchObject({ granted: 15, used: 7, available: 8, held: 7 });
      await store.settle("call", { used: 3, certainty: "estimated" });
      expect(await admin.usage(id)).toMatchObject({ used: 3, available: 12, held: 0, estimated: 3, secrets: 1 });
      await admin.revoke(id);
      expect(await store.find(secretOf(apiKey))).toBeUndefined();
      expect(await admin.list()).toMatchObject([{ id: "team", revoked: true, secrets: 0 }]);
    });

    it("gives an unlimited key a quota beyond what it has used, and takes it away", async () => {
      const { store, keys, budgets } = opened;
      const admin = keyAdmin(keys);
      const { id, apiKey } = await admin.create({ id: "team", metadata: { plan: "gold" }, paused: true });
      const call = (id: string, units: number) =>
        store.reserve({ id, keyId: "team", atLeast: units, atMost: units, leaseMs: 60_000 });
      const unlimited = async () => (await store.find(secretOf(apiKey)))?.unlimited;
      await call("before", 500);
      await store.settle("before", { used: 300, certainty: "exact" });
      await call("live", 40);
      expect(await unlimited()).toBe(true);
      await expect(admin.grant(id, 5)).rejects.toThrow("The API key team has no quota of its own");
      const limited = { unlimited: false, granted: 440, used: 340, held: 40, available: 100, overdraft: 0 };
      expect(await admin.update(id, { granted: 100, name: "Team" })).toMatchObject({ ...limited, name: "Team" });
      expect(await store.find(secretOf(apiKey))).toMatchObject({
        name: "Team",
        unlimited: false,
        metadata: { plan: "gold" },
        paused: true,
      });
      expect(await call("large", 101)).toMatchObject({ refused: true, available: 100, held: 40 });
      await expect(admin.update(id, { granted: 100, name: "Other" })).rejects.toThrow("has a quota already");
      expect(await admin.grant(id, 5)).toMatchObject({ ...limited, name: "Team", granted: 445, available: 105 });
      await store.settle("live", { used: 30, certainty: "exact" });
      expect(await admin.usage(id)).toMatchObject({ granted: 445, used: 330, held: 0, available: 115, overdraft: 0 });
      await call("after", 50);
      expect(await admin.update(id, { granted: null })).toMatchObject({ unlimited: true, used: 380, held: 50 });
      expect(await unlimited()).toBe(true);
      expect(await call("huge", 10_000)).toEqual({ granted: 10_000 });
      await store.settle("huge", { used: 9_000, certainty: "exact" });
      await store.settle("after", { used: 60, certainty: "exact" });
      expect(await admin.update(id, { granted: null })).toMatchObject({ unlimited: true, used: 9_390, overdraft: 0 });
      expect(await admin.update(id, { granted: 0 })).toMatchObject({ unlimited: false, used: 9_390, available: 0 });
      expect(await call("none", 1)).toMatchObject({ refused: true, available: 0 });
      await admin.update(id, { granted: null });
      await budgets.addBudget({ id: "red", amount: 70 });
      await budgets.assignBudget(id, "red");
      expect(await admin.update(id, { granted: 20 })).toMatchObject({ unlimited: false, available: 20, budget: "red" });
      expect(await store.balance(id)).toMatchObject({ available: 20 });
      await admin.update(id, { granted: null });
      expect(await store.balance(id)).toMatchObject({ available: 70 });
      expect(await unlimited()).toBe(false);
      await budgets.assignBudget(id, undefined);
      expect(await unlimited()).toBe(true);
      expect(await admin.usage(id)).not.toHaveProperty("spoilt");
    });

    it("gives a quota once, also while calls run and several give it", async () => {
      const { store, keys } = opened;
      const admin = keyAdmin(keys);
      const { id } = await admin.create({ id: "team" });
      const calls = async (first: number, count: number): Promise<number> => {
        const used = await Promise.all(
          Array.from({ length: count }, async (_, index) => {
            const call = `call-${first + index}`;
            const reserved = await store.reserve({ id: call, keyId: id, atLeast: 7, atMost: 7, leaseMs: 60_000 });
            if (reserved.refused) return 0;
            await store.settle(call, { used: 7, certainty: "exact" });
            return 7;
          }),
        );
        return used.reduce<number>((sum, units) => sum + units, 0);
      };
      const giving = Promise.allSettled(Array.from({ length: 4 }, () => admin.update(id, { granted: 70 })));
      const before = await calls(0, 40);
      expect((await giving).map(({ status }) => status).toSorted()).toEqual([
        "fulfilled",
        "rejected",
        "rejected",
        "rejected",
      ]);
      const { granted, used, overdraft, held } = await admin.usage(id);
      const limit = granted ?? 0;
      expect({ used, overdraft, held }).toEqual({ used: before, overdraft: 0, held: 0 });
      const after = await calls(40, 40);
      expect(before + after).toBeLessThanOrEqual(limit);
      expect(before + after).toBeGreaterThan(limit - 7);
      expect(await admin.usage(id)).toMatchObject({ granted, used: before + after, overdraft: 0 });
    });

    it.each([-1, 1.5, Number.NaN, "5", Number.MAX_SAFE_INTEGER])("refuses %j as a quota", async (granted) => {
      const admin = keyAdmin(opened.keys);
      await admin.create({ id: "used", used: 1 });
      // The cast lets the test give another type.
      await expect(admin.update("used", { granted: granted as number, name: "New" })).rejects.toThrow(
        /granted must be|beyond 2\^53/,
      );
      expect(await admin.usage("used")).toMatchObject({ unlimited: true, used: 1, name: "used" });
    });

    it("rejects what there is not", async () => {
      const admin = keyAdmin(opened.keys);
      for (const work of [
        () => admin.update("x", { name: "X" }),
        () => admin.addSecret("x"),
        () => admin.lower("x", 1),
        () => admin.rotate("x"),
        () => admin.revoke("x"),
        () => admin.grant("x", 1),
        () => admin.usage("x"),
      ])
        await expect(work()).rejects.toThrow("There is no API key of the id x.");
      await expect(admin.rotate("x", { overlapMs: -1 })).rejects.toThrow(RangeError);
      expect(await admin.list()).toEqual([]);
    });

    it("updates a key for all its secrets, and keeps what is not named", async () => {
      const { store, keys } = opened;
      const admin = keyAdmin(keys);
      const metadata = { team: "a", plan: "free" };
      const first = await admin.create({ id: "team", name: "Team", granted: 5, models: ["small"], metadata });
      const second = await admin.addSecret("team");
      const changes = { models: ["small", "large"], expiresAt: 2_000_000_000, metadata: { plan: "gold", team: null } };
      expect(await admin.update("team", changes)).toMatchObject({ name: "Team", granted: 5, secrets: 2 });
      for (const { apiKey } of [first, second])
        expect(await store.find(secretOf(apiKey))).toEqual({
          id: "team",
          name: "Team",
          unlimited: false,
          modelLimits: { small: true, large: true },
          modelLimitsEnabled: true,
          expiresAt: 2_000_000_000,
          metadata: { plan: "gold" },
        });
      await admin.update("team", { name: "Other", models: null, expiresAt: 0, metadata: { plan: null } });
      const third = await admin.rotate("team");
      for (const { apiKey } of [first, second, third]) {
        const key = await store.find(secretOf(apiKey));
        expect(key).toMatchObject({ name: "Other", modelLimits: {}, modelLimitsEnabled: false, expiresAt: 0 });
        expect(key).not.toHaveProperty("metadata");
      }
    });

    it("pauses a key for all its secrets, and lets it work again with all that it had", async () => {
      const { store, keys, budgets } = opened;
      const admin = keyAdmin(keys);
      const rights = { name: "Team", granted: 9, expiresAt: 2_000_000_000, metadata: { team: "a" } };
      const { id, apiKey } = await admin.create({ ...rights, models: ["small"] });
      const { apiKey: other } = await admin.addSecret(id);
      const [before, report] = [await store.find(secretOf(apiKey)), await admin.usage(id)];
      expect(await admin.update(id, { paused: true })).toEqual({ ...report, paused: true });
      for (const secret of [apiKey, other])
        expect(await store.find(secretOf(secret))).toEqual({ ...before, paused: true });
      expect(await admin.list({ state: "active" })).toEqual([]);
      // Other changes of a paused key leave it paused.
      await budgets.addBudget({ id: "team", amount: 5 });
      await budgets.assignBudget(id, "team");
      await admin.rotate(id);
      await admin.grant(id, 1);
      await admin.update(id, { name: "Other", expiresAt: 0, metadata: { team: null } });
      const changed = { name: "Other", expiresAt: 0, paused: true, budget: "team", granted: 10 };
      const [listed] = await admin.list({ state: "paused" });
      expect(listed).toMatchObject(changed);
      expect(listed).not.toHaveProperty("metadata");
      await admin.update(id, { paused: false });
      expect(await store.find(secretOf(apiKey))).toEqual({
        ...before,
        name: "Other",
        expiresAt: 0,
        budget: "team",
        metadata: undefined,
      });
      const [active] = await admin.list({ state: "active" });
      expect([active?.id, active?.granted, active && "paused" in active]).toEqual([id, 10, false]);
      await admin.revoke(id);
      await expect(admin.update(id, { paused: true })).rejects.toThrow("is revoked");
    });

    it("makes a key that is paused from the beginning, with as many entries of metadata as any", async () => {
      const admin = keyAdmin(opened.keys);
      const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`entry-${at}`, "x"]));
      const { id, apiKey } = await admin.create({ paused: true, metadata });
      expect(await opened.store.find(secretOf(apiKey))).toMatchObject({ paused: true, metadata });
      expect(await admin.update(id, { paused: false })).toMatchObject({ metadata });
      const mark = { "(paused)": "yes", "entry-0": null };
      await expect(admin.update(id, { metadata: mark })).rejects.toThrow("is no name of metadata");
    });

    it("keeps the budget and the metadata of a key, whichever of them changes", async () => {
      const { store, keys, budgets, advance } = opened;
      const admin = keyAdmin(keys);
      await budgets.addBudget({ id: "all", amount: 6 });
      const { apiKey } = await admin.create({ id: "team", granted: 10, budget: "all", metadata: { plan: "free" } });
      await admin.create({ id: "shared", budget: "all" });
      await admin.update("team", { models: ["small"], metadata: { plan: "gold" } });
      const changed = { modelLimits: { small: true }, metadata: { plan: "gold" } };
      expect(await store.find(secretOf(apiKey))).toMatchObject({ ...changed, budget: "all", unlimited: false });
      expect(await admin.usage("team")).toMatchObject({ ...changed, budget: "all", granted: 10 });

      const call = { id: "call", keyId: "team", atLeast: 1, atMost: 9, leaseMs: 60_000 };
      expect(await store.reserve(call)).toEqual({ granted: 6 });
      expect(await admin.lower("team", 4)).toMatchObject({ granted: 6, held: 6, available: 0 });
      await expect(admin.lower("team", 1)).rejects.toMatchObject({
        message: "The key team has too few available units: 0.",
        code: "limit_reached",
        limit: { owner: "key team", available: 0 },
      });
      await expect(admin.create({ id: "team" })).rejects.toMatchObject({ code: "conflict" });
      await expect(admin.create({ budget: "nope" })).rejects.toMatchObject({ code: "not_found" });
      await expect(admin.grant("nobody", 1)).rejects.toMatchObject({ code: "not_found" });
      await expect(admin.update("team", { name: "Y" }, () => false)).rejects.toMatchObject({
        code: "changed_meanwhile",
      });
      await expect(admin.lower("shared", 1)).rejects.toThrow("The API key shared has no quota of its own");
      await advance(70_000);
      expect(await admin.lower("team", 2)).toMatchObject({ granted: 4, held: 0, available: 4 });

      await budgets.assignBudget("team", undefined);
      expect(await store.find(secretOf(apiKey))).toMatchObject(changed);
      expect(await admin.usage("team")).not.toHaveProperty("budget");
      await admin.revoke("team");
      await expect(async () => budgets.assignBudget("team", "all")).rejects.toThrow(
        "The API key team is revoked, and cannot be changed any more.",
      );
    });

    it("gives a key its budget while it is updated and gets secrets", async () => {
      const { store, keys, budgets } = opened;
      const admin = keyAdmin(keys);
      await budgets.addBudget({ id: "all", amount: 6 });
      const secrets = [(await admin.create({ id: "team" })).apiKey];
      await Promise.all([
        ...["one", "two"].map((name) => admin.update("team", { metadata: { [name]: name } })),
        ...["three", "four"].map(async () => secrets.push((await admin.addSecret("team")).apiKey)),
        (async () => budgets.assignBudget("team", "all"))(),
      ]);
      for (const apiKey of secrets)
        expect(await store.find(secretOf(apiKey))).toMatchObject({
          budget: "all",
          metadata: { one: "one", two: "two" },
        });
    });

    it("takes only one of a key's two limits at once, where each change needs the other limit", async () => {
      const { keys, budgets } = opened;
      const admin = keyAdmin(keys);
      await budgets.addBudget({ id: "all", amount: 6 });
      for (const id of ["one", "two", "three"]) {
        await admin.create({ id, granted: 5, budget: "all" });
        const ended = await Promise.allSettled([
          admin.update(id, { granted: null }, isLimitedWithout("quota")),
          (async () => budgets.assignBudget(id, undefined, isLimitedWithout("budget")))(),
        ]);
        const errors = ended.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
        expect(errors).toMatchObject([{ code: "changed_meanwhile" }]);
        const { unlimited, budget } = await admin.usage(id);
        expect([unlimited, budget]).not.toEqual([true, undefined]);
      }
    });

    it("updates a key from several places at once", async () => {
      const admin = keyAdmin(opened.keys);
      await admin.create({ id: "team" });
      const names = ["one", "two", "three", "four"];
      const late: string[] = [];
      await Promise.all([
        ...names.map((name) => admin.update("team", { metadata: { [name]: name } })),
        ...names.map(async () => late.push((await admin.addSecret("team")).apiKey)),
      ]);
      const expected = Object.fromEntries(names.map((name) => [name, name]));
      for (const apiKey of late) expect((await opened.store.find(secretOf(apiKey)))?.metadata).toEqual(expected);
    });

    it.each([
      [{ name: "x".repeat(1_001) }, /at most 1,000 characters/],
      [{ expiresAt: 1.5 }, /whole seconds/],
      [{ expiresAt: Date.now() }, /not in milliseconds/],
      [{ expiresAt: -2 }, /must not be below 0, except -1/],
      [{ expiresAt: Number.MIN_SAFE_INTEGER }, /must not be below 0, except -1/],
      [{ metadata: { "a b": "x" } }, /"a b" is no name of metadata/],
      [{ metadata: { ["__proto__"]: "x" } }, /"__proto__" is no name of metadata/],
      [{ metadata: { a: "x".repeat(513) } }, /at most 512 characters/],
      [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`n${at}`, "x"])) }, /at most 16 entries/],
    ])("refuses to update a key with %j, and leaves it as it was", async (changes, message) => {
      const admin = keyAdmin(opened.keys);
      await admin.create({ id: "team", metadata: { a: "1" } });
      await expect(admin.update("team", changes)).rejects.toThrow(message);
      await expect(admin.create(changes)).rejects.toThrow(message);
      expect(await admin.list()).toMatchObject([{ id: "team", name: "team", expiresAt: 0, metadata: { a: "1" } }]);
    });

    it("takes models of 65,535 bytes as JSON, and none of more", async () => {
      const admin = keyAdmin(opened.keys);
      const models = ["small", "ä".repeat(32_759), "xx"];
      const { id } = await admin.create({ models });
      expect(Object.keys((await admin.usage(id)).modelLimits)).toEqual(models);
      const more = { models: [...models, ""] };
      const message = "The models of a key must have at most 65,535 bytes as JSON.";
      await expect(admin.create(more)).rejects.toThrow(message);
      await expect(admin.update(id, more)).rejects.toThrow(message);
      expect(Object.keys((await admin.update(id, { models })).modelLimits)).toEqual(models);
    });

    it("takes -1 for a key and a secret that never expire, and no other time below 0", async () => {
      const { store, keys } = opened;
      const admin = keyAdmin(keys);
      const { id } = await admin.create({ expiresAt: -1 });
      expect((await admin.update(id, { expiresAt: -1 })).expiresAt).toBe(-1);
      await expect(admin.addSecret(id, { expiresAt: -2 })).rejects.toThrow("must not be below 0, except -1");
      const { apiKey } = await admin.addSecret(id, { expiresAt: -1 });
      expect(await store.find(secretOf(apiKey))).toMatchObject({ id, expiresAt: -1 });
      expect(await admin.usage(id)).toMatchObject({ secrets: 2 });
    });

    it("adds a second secret with an end, and removes one", async () => {
      const { store, keys, advance } = opened;
      const admin = keyAdmin(keys);
      const first = await admin.create({ id: "team" });
      const second = await admin.addSecret("team", { expiresAt: Math.ceil(Date.now() / 1_000) + 3_600 });
      expect(await admin.usage("team")).toMatchObject({ secrets: 2 });
      expect((await store.find(secretOf(second.apiKey)))?.id).toBe("team");
      await advance(3_700_000);
      expect(await store.find(secretOf(second.apiKey))).toBeUndefined();
      expect((await store.find(secretOf(first.apiKey)))?.id).toBe("team");
      expect(await admin.usage("team")).toMatchObject({ secrets: 1 });
      expect(await admin.removeSecret(first.apiKey)).toBe("team");
      expect(await store.find(secretOf(first.apiKey))).toBeUndefined();
      for (const gone of [first.apiKey, "sk-unknown"]) expect(await admin.removeSecret(gone)).toBeUndefined();
      await expect(admin.addSecret("team", { expiresAt: Date.now() })).rejects.toThrow("not in milliseconds");
      await admin.revoke("team");
      await expect(admin.addSecret("team")).rejects.toThrow(
        "The API key team is revoked, and cannot be changed any more.",
      );
      await expect(admin.update("team", { name: "Again" })).rejects.toThrow(
        "The API key team is revoked, and cannot be changed any more.",
      );
    });

    it("lowers a quota by what is available, and not further", async () => {
      const { store, keys, advance } = opened;
      const admin = keyAdmin(keys);
      await admin.create({ id: "team", granted: 10, used: 2 });
      await store.reserve({ id: "call", keyId: "team", atLeast: 3, atMost: 3, leaseMs: 60_000 });
      expect(await admin.lower("team", 4)).toMatchObject({ granted: 6, used: 5, available: 1 });
      await expect(admin.lower("team", 2)).rejects.toThrow("The key team has too few available units: 1.");
      expect(await admin.usage("team")).toMatchObject({ granted: 6, available: 1 });
      // The units of an expired hold can be taken back at once.
      await advance(70_000);
      expect(await admin.lower("team", 4)).toMatchObject({ granted: 2, used: 2, available: 0, held: 0 });
      await admin.create({ id: "endless" });
      await expect(admin.lower("endless", 1)).rejects.toThrow("has no quota");
    });

    it("takes the same numbers in every verb, up to the largest, and refuses others by name", async () => {
      const { store, keys, budgets } = opened;
      await budgets.addBudget({ id: "all", amount: 5 });
      await keys.add({ id: "team", granted: 10, apiKey: "one" });
      const most = Number.MAX_SAFE_INTEGER;
      const reserve = (amounts: { atLeast?: number; atMost?: number; leaseMs?: number }) =>
        store.reserve({ id: "call", keyId: "team", atLeast: 0, atMost: 3, leaseMs: most, ...amounts });
      const verbs: Record<string, readonly [number, (wrong: number) => unknown]> = {
        atLeast: [0, (atLeast) => reserve({ atLeast })],
        atMost: [0, (atMost) => reserve({ atMost })],
        leaseMs: [1, (leaseMs) => reserve({ leaseMs })],
        "leaseMs of a renewal": [1, (leaseMs) => store.renew("call", { leaseMs, used: 0 })],
        used: [0, (used) => store.renew("call", { leaseMs: 1, used })],
        keep: [0, (keep) => store.renew("call", { leaseMs: 1, used: 0, keep })],
        "used of a settlement": [0, (used) => store.settle("call", { used, certainty: "exact" })],
        estimated: [0, (estimated) => store.settle("call", { used: 1, certainty: "estimated", estimated })],
        withinMs: [0, (withinMs) => store.recalled(withinMs)],
        "units of grant": [0, (units) => keys.grant("team", units)],
        "units of lower": [0, (units) => keys.lower("team", units)],
        granted: [0, (granted) => keys.add({ id: "new", granted })],
        "used of a key": [0, (used) => keys.add({ id: "new", granted: most, used })],
        "expiresAt of a key": [-most, (expiresAt) => keys.add({ id: "new", expiresAt })],
        "expiresAt of a change": [-most, (expiresAt) => keys.update("team", { expiresAt })],
        "expiresAt of a secret": [-most, (expiresAt) => keys.addSecret("team", "two", expiresAt)],
        overlapMs: [0, (overlapMs) => keys.rotateSecret("team", "two", overlapMs)],
        limit: [1, (limit) => keys.list({ limit })],
        amount: [0, (amount) => budgets.addBudget({ id: "new", amount })],
        "amount of a change": [0, (amount) => budgets.updateBudget("all", { amount })],
        "units of topUpBudget": [0, (units) => budgets.topUpBudget("all", units)],
        "units of lowerBudget": [0, (units) => budgets.lowerBudget("all", units)],
        ...(keys.prune && { olderThanMs: [0, (olderThanMs: number) => keys.prune?.({ olderThanMs })] as const }),
      };
      const before = JSON.stringify([await keys.list(), await store.balance("team")]);
      for (const [name, [least, ask]] of Object.entries(verbs))
        for (const wrong of [least - 1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, "5", null] as number[]) {
          const error = await Promise.resolve(wrong)
            .then(ask)
            .catch((thrown: unknown) => thrown);
          // An options object is checked for the kinds of its fields first.
          const names = typeof wrong === "number" ? ["RangeError"] : ["RangeError", "TypeError"];
          expect(names, `${name} of ${wrong}`).toContain((error as Error | undefined)?.name);
          expect((error as Error).message).toContain(name.replace(/ .*/, ""));
        }
      expect(JSON.stringify([await keys.list(), await store.balance("team")])).toBe(before);
      expect(await reserve({ atMost: most })).toEqual({ granted: 10 });
      await store.renew("call", { leaseMs: most, used: 1, keep: most });
      expect((await store.balance("team"))?.held).toBe(10);
      await store.settle("call", { used: 3, certainty: "exact" });
      await keys.grant("team", most - 10);
      await keys.lower("team", most - 4);
      expect(await keys.report("team")).toMatchObject({ granted: 4, used: 3, available: 1 });
      await keys.rotateSecret("team", "two", most);
      expect([await store.find("one"), await store.find("two")]).toMatchObject([{ id: "team" }, { id: "team" }]);
      await store.recall("team");
      expect(await store.recalled(most)).toEqual(["team"]);
      await budgets.updateBudget("all", { amount: most });
      await keys.prune?.({ olderThanMs: most });
    });

    it("lets one of several editors of the same state change it", async () => {
      const admin = keyAdmin(opened.keys);
      await admin.create({ id: "team", name: "before" });
      await opened.budgets.addBudget({ id: "all", amount: 5 });
      const editors = ["a", "b", "c", "d"];
      const named = await Promise.allSettled(
        editors.map((name) => admin.update("team", { name }, (key) => key.name === "before")),
      );
      const amounts = await Promise.allSettled(
        editors.map(async (_name, at) =>
          opened.budgets.updateBudget("all", { amount: 10 + at }, ({ amount }) => amount === 5),
        ),
      );
      for (const ended of [named, amounts]) {
        const late = ended
          .filter(({ status }) => status === "rejected")
          .map((one) => (one as PromiseRejectedResult).reason);
        expect(late).toHaveLength(editors.length - 1);
        for (const error of late)
          expect(error).toMatchObject({ name: "RangeError", message: expect.stringContaining("changed meanwhile") });
      }
      const winner = editors[named.findIndex(({ status }) => status === "fulfilled")];
      expect(await admin.usage("team")).toMatchObject({ name: winner });
      const amount = 10 + amounts.findIndex(({ status }) => status === "fulfilled");
      expect(await opened.budgets.budgetReport("all")).toMatchObject({ amount });
    });

    it("lets no two calls and a lowering take the same units", async () => {
      const { store, keys } = opened;
      await keyAdmin(keys).create({ id: "team", granted: 10 });
      const reserved = ["a", "b"].map((id) =>
        store.reserve({ id, keyId: "team", atLeast: 4, atMost: 4, leaseMs: 60_000 }),
      );
      const lowered = keyAdmin(keys)
        .lower("team", 4)
        .then(
          () => 4,
          () => 0,
        );
      const taken = (await Promise.all(reserved)).reduce(
        (sum, answer) => sum + (answer.refused ? 0 : answer.granted),
        await lowered,
      );
      expect(taken).toBe(8);
      expect((await store.balance("team"))?.available).toBe(2);
    });

    it("lists by state, budget and metadata, page by page", async () => {
      const { keys } = opened;
      const now = Date.now();
      const admin = keyAdmin(keys, { clock: manualClock(now) });
      const soon = Math.floor(now / 1_000);
      for (const [id, team] of Object.entries({ a1: "a", a2: "a", b1: "b", b2: "b" }))
        await admin.create({ id, metadata: { team }, expiresAt: id.endsWith("2") ? soon : soon + 60 });
      await admin.create({ id: "c1" });
      await admin.revoke("b2");
      const ids = async (filter: Parameters<typeof admin.list>[0]) => (await admin.list(filter)).map(({ id }) => id);
      expect(await ids({})).toEqual(["a1", "a2", "b1", "b2", "c1"]);
      expect(await ids({ state: "active" })).toEqual(["a1", "b1", "c1"]);
      expect(await ids({ state: "expired" })).toEqual(["a2"]);
      expect(await ids({ state: "revoked" })).toEqual(["b2"]);
      expect(await ids({ metadata: { team: "b" } })).toEqual(["b1", "b2"]);
      expect(await ids({ state: "active", limit: 2 })).toEqual(["a1", "b1"]);
      expect(await ids({ state: "active", limit: 2, after: "b1" })).toEqual(["c1"]);
      expect(await ids({ metadata: { team: "a" }, state: "revoked" })).toEqual([]);
      await opened.budgets.addBudget({ id: "b", amount: 1 });
      await opened.budgets.addBudget({ id: "child", amount: 1, parent: "b" });
      for (const [id, budget] of [
        ["a1", "b"],
        ["a2", "b"],
        ["c1", "child"],
      ] as const)
        await opened.budgets.assignBudget(id, budget);
      expect(await ids({ budget: "b" })).toEqual(["a1", "a2"]);
      expect(await ids({ budget: "b", state: "expired" })).toEqual(["a2"]);
      expect(await ids({ budget: "b", limit: 1, after: "a1" })).toEqual(["a2"]);
      expect(await ids({ budget: "child" })).toEqual(["c1"]);
      expect(await ids({ budget: "nobody" })).toEqual([]);
      await expect(admin.list({ state: "active", limit: 0 })).rejects.toThrow("limit must be an integer");
      // @ts-expect-error -- a host in JavaScript may misspell a name.
      await expect(admin.list({ stat: "active" })).rejects.toThrow(/stat.*state/);
      // @ts-expect-error -- the same in a change.
      await expect(admin.update("a1", { nme: "A" })).rejects.toThrow(/nme.*name/);
    });
  });
});

describe("newApiKey", () => {
  it("never makes the same twice", () => {
    expect(new Set(Array.from({ length: 1_000 }, newApiKey)).size).toBe(1_000);
  });
});
