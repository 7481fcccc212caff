/** Api keys are made, rotated, revoked, granted and reported over every durable store. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { keyAdmin, newApiKey, type DurableQuotaStore } from "../../src/admin/index.ts";
import { drivers, redisAnswers, redisStoreAt } from "../stores/redis/servers.ts";
import { sqliteInMemory } from "../stores/sql/databases.ts";
import { storeAt } from "../stores/sql/open.ts";

interface Opened {
  readonly store: DurableQuotaStore;
  readonly advance: (ms: number) => void;
  readonly remove: () => Promise<void>;
}

const stores: readonly { name: string; available: boolean; open: () => Promise<Opened> }[] = [
  {
    name: "SQL",
    available: true,
    async open() {
      const place = await sqliteInMemory.place();
      return { ...storeAt(place), remove: () => place.remove() };
    },
  },
  {
    name: "Redis",
    available: redisAnswers,
    async open() {
      const place = await drivers[0]?.place();
      if (!place) throw new Error("There is no client of Redis.");
      return { ...redisStoreAt(place), remove: () => place.remove() };
    },
  },
];

const secretOf = (apiKey: string): string => apiKey.replace(/^sk-/, "");

describe.each(stores)("keyAdmin over $name", ({ available, open }) => {
  describe.skipIf(!available)("when it answers", () => {
    let opened: Opened;
    beforeEach(async () => void (opened = await open()));
    afterEach(() => opened.remove());

    it("creates keys whose secrets find them", async () => {
      const { store } = opened;
      const { id, apiKey } = await keyAdmin(store).create({ name: "Team", granted: 500, models: ["small"] });
      expect(apiKey).toMatch(/^sk-[\w-]{43}$/);
      expect(await store.find(secretOf(apiKey))).toEqual({
        id,
        name: "Team",
        unlimited: false,
        modelLimits: { small: true },
        modelLimitsEnabled: true,
        expiresAt: 0,
      });
      expect(JSON.stringify(await keyAdmin(store).list())).not.toContain(secretOf(apiKey));
    });

    it("rotates: old and new overlap for a day unless told", async () => {
      const { store, advance } = opened;
      const admin = keyAdmin(store);
      const first = await admin.create({ granted: 5 });
      const second = await admin.rotate(first.id);
      expect(second.id).toBe(first.id);
      advance(86_000_000);
      expect((await store.find(secretOf(first.apiKey)))?.id).toBe(first.id);
      advance(400_000);
      expect(await store.find(secretOf(first.apiKey))).toBeUndefined();
      const third = await admin.rotate(first.id, { overlapMs: 0 });
      expect(await store.find(secretOf(second.apiKey))).toBeUndefined();
      expect((await store.find(secretOf(third.apiKey)))?.id).toBe(first.id);
    });

    it("revokes, grants, lists and tells usage", async () => {
      const { store } = opened;
      const admin = keyAdmin(store);
      const { id, apiKey } = await admin.create({ id: "team", granted: 10 });
      await store.reserve({ id: "call", keyId: id, atLeast: 1, atMost: 7, leaseMs: 60_000 });
      expect(await admin.grant(id, 5)).toMatchObject({ granted: 15, used: 7, available: 8, held: 7 });
      await store.settle("call", { used: 3, certainty: "estimated" });
      expect(await admin.usage(id)).toMatchObject({ used: 3, available: 12, held: 0, estimated: 3, secrets: 1 });
      await admin.revoke(id);
      expect(await store.find(secretOf(apiKey))).toBeUndefined();
      expect(await admin.list()).toMatchObject([{ id: "team", revoked: true, secrets: 0 }]);
    });

    it("rejects what there is not", async () => {
      const admin = keyAdmin(opened.store);
      for (const work of [
        () => admin.rotate("x"),
        () => admin.revoke("x"),
        () => admin.grant("x", 1),
        () => admin.usage("x"),
      ])
        await expect(work()).rejects.toThrow("There is no API key of the id x.");
      await expect(admin.rotate("x", { overlapMs: -1 })).rejects.toThrow(RangeError);
      expect(await admin.list()).toEqual([]);
    });
  });
});

describe("newApiKey", () => {
  it("never makes the same twice", () => {
    expect(new Set(Array.from({ length: 1_000 }, newApiKey)).size).toBe(1_000);
  });
});
