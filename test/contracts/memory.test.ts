/** The memory store keeps the laws of its port, and what it promises beyond them. */

import { describe, expect, it } from "vitest";
import { type ApiKeyOptions, type MemoryQuotaStore, memoryQuotaStore } from "../../src/index.ts";
import { type ManualClock, manualClock, quotaStoreLaws } from "./index.ts";

describe("memoryQuotaStore", () => {
  it.each(quotaStoreLaws)("$name", async (law) => {
    const verified = law.verify(({ keys, clock }) => memoryQuotaStore(keys, { clock }));
    await expect(verified).resolves.toBeUndefined();
  });
});

const LEASE_MS = 60_000;

function opened(key: ApiKeyOptions = { apiKey: "one", granted: 100 }): { store: MemoryQuotaStore; clock: ManualClock } {
  const clock = manualClock();
  return { store: memoryQuotaStore([key], { clock }), clock };
}

const hold = (id: string, units: number, clock: ManualClock) => ({
  id,
  keyId: "key-1",
  atLeast: units,
  atMost: units,
  expiresAt: clock.now() + LEASE_MS,
});

describe("memoryQuotaStore, beyond the port", () => {
  it("reports a key's ledger: live holds, overdraft, and what rests on estimates", async () => {
    const { store, clock } = opened();
    await store.reserve(hold("live", 20, clock));
    await store.reserve(hold("cut short", 30, clock));
    await store.settle("cut short", 15, "estimated");
    await store.reserve(hold("greedy", 5, clock));
    await store.settle("greedy", 90, "exact");
    expect(store.report("sk-one")).toEqual({
      granted: 100,
      used: 100,
      available: 0,
      held: 20,
      liveHolds: 1,
      overdraft: 25,
      estimated: 15,
    });
    expect(store.report("two")).toBeUndefined();
  });

  it("reports an expired lease as an estimate until it is corrected, overdraft included", async () => {
    const { store, clock } = opened();
    await store.reserve(hold("late", 20, clock));
    await store.extend("late", { expiresAt: clock.now() + LEASE_MS, used: 130 });
    await clock.advance(LEASE_MS);
    expect(store.report("one")).toMatchObject({ used: 100, held: 0, liveHolds: 0, overdraft: 30, estimated: 100 });
    await store.settle("late", 40, "exact");
    expect(store.report("one")).toMatchObject({ used: 40, available: 60, overdraft: 0, estimated: 0 });
  });

  it("ends a lease that a renewal made shorter when it says", async () => {
    const { store, clock } = opened();
    await store.reserve(hold("call", 20, clock));
    await store.extend("call", { expiresAt: clock.now() + 1000, used: 5 });
    await clock.advance(1000);
    expect(store.report("one")).toMatchObject({ used: 5, liveHolds: 0 });
  });

  it("takes keys with and without sk-, later ones too", async () => {
    const { store } = opened({ apiKey: "sk-one", granted: 100 });
    store.add({ apiKey: "two" });
    expect(await store.find("one")).toMatchObject({ id: "key-1", name: "key-1", available: 100, unlimited: false });
    expect(await store.find("two")).toMatchObject({ id: "key-2", name: "key-2", used: 0, unlimited: true });
  });

  it("forgets a key that is removed, its live holds without a charge", async () => {
    const { store, clock } = opened();
    await store.reserve(hold("live", 20, clock));
    store.remove("sk-one");
    store.remove("unknown");
    expect(await store.find("one")).toBeUndefined();
    expect(await store.reserve(hold("next", 20, clock))).toBeUndefined();
    store.add({ apiKey: "one", granted: 100 });
    await store.settle("live", 20, "exact");
    expect(store.report("one")).toMatchObject({ used: 0, available: 100 });
    await store.reserve({ ...hold("live", 30, clock), keyId: "key-2" });
    expect(store.report("one")).toMatchObject({ used: 30, liveHolds: 1 });
  });

  it("remembers a resolved hold for an hour, and then forgets it", async () => {
    const { store, clock } = opened();
    await store.reserve(hold("expired", 20, clock));
    await clock.advance(LEASE_MS);
    await store.find("one");
    await clock.advance(3_600_000 - 1);
    await store.settle("expired", 7, "exact");
    expect(store.report("one")).toMatchObject({ used: 7 });

    await store.reserve(hold("settled", 20, clock));
    await store.settle("settled", 3, "exact");
    await clock.advance(3_600_000);
    await store.find("one");
    expect(await store.reserve(hold("settled", 30, clock))).toEqual({ granted: 30 });
    expect(store.report("one")).toMatchObject({ used: 40, liveHolds: 1 });
  });

  it("remembers only so many settled and refused holds, the newest", async () => {
    const clock = manualClock();
    const store = memoryQuotaStore([{ apiKey: "one", granted: 100 }], { clock, maxRemembered: 2 });
    await store.reserve(hold("expired", 1, clock));
    await clock.advance(LEASE_MS);
    await store.reserve(hold("live", 1, clock));
    for (const id of ["first", "second"]) {
      await store.reserve(hold(id, 10, clock));
      await store.settle(id, 0, "exact");
    }
    expect(await store.reserve(hold("refused", 101, clock))).toBeUndefined();

    expect(await store.reserve(hold("first", 5, clock))).toEqual({ granted: 5 });
    expect(await store.reserve(hold("second", 5, clock))).toBeUndefined();
    expect(await store.reserve(hold("refused", 5, clock))).toBeUndefined();
    expect(await store.reserve(hold("live", 1, clock))).toEqual({ granted: 1 });
    // Their true count may still come, so these are not among them.
    await store.settle("expired", 7, "exact");
    expect(store.report("one")).toMatchObject({ used: 13, held: 6, liveHolds: 2 });
  });

  it("counts exactly, however much is asked for on an unlimited key", async () => {
    const { store, clock } = opened({ apiKey: "one", used: 0 });
    const most = { ...hold("", 1, clock), atMost: Number.MAX_SAFE_INTEGER };
    for (const id of ["a", "b", "c"]) expect((await store.reserve({ ...most, id }))?.granted).toBeGreaterThan(0);
    for (const id of ["a", "b", "c"]) await store.settle(id, 1, "exact");
    expect(store.report("one")).toMatchObject({ used: 3, held: 0 });
  });

  it.each<[why: string, key: ApiKeyOptions]>([
    ["a grant that is no integer", { apiKey: "two", granted: 1.5 }],
    ["a grant below 0", { apiKey: "two", granted: -1 }],
    ["usage that is no count", { apiKey: "two", granted: 5, used: Number.NaN }],
    ["more usage than was granted", { apiKey: "two", granted: 5, used: 6 }],
    ["a key that it knows already", { apiKey: "sk-one" }],
  ])("rejects %s", (_, key) => {
    const { store } = opened();
    expect(() => store.add(key)).toThrow(RangeError);
    expect(store.report("two")).toBeUndefined();
  });

  it.each([-1, 1.5, Number.NaN])("rejects a memory of %s holds", (maxRemembered) => {
    expect(() => memoryQuotaStore([], { maxRemembered })).toThrow(RangeError);
  });

  it("rejects a hold whose atLeast is more than its atMost", async () => {
    const { store, clock } = opened();
    await expect(store.reserve({ ...hold("call", 20, clock), atMost: 10 })).rejects.toThrow(RangeError);
    expect(store.report("one")).toMatchObject({ used: 0 });
  });
});
