/** The memory store keeps the laws of its port, and its own promises beyond them. */

import { describe, expect, it } from "vitest";
import { type ApiKeyOptions, type HoldRequest, type MemoryQuotaStore, memoryQuotaStore } from "../../../src/index.ts";
import { type ManualClock, manualClock, quotaStoreLaws } from "../../../src/testing/laws/index.ts";
import { openMemoryStore, openSlowStore } from "./open-memory.ts";

describe("memoryQuotaStore", () => {
  it.each(quotaStoreLaws)("$name", async (law) => {
    await expect(law.verify(openMemoryStore)).resolves.toBeUndefined();
  });

  it.each(quotaStoreLaws)("behind a slow connection, on a clock that runs on: $name", async (law) => {
    await expect(law.verify(openSlowStore)).resolves.toBeUndefined();
  });
});

const LEASE_MS = 60_000;
const HOUR_MS = 3_600_000;

function opened(key: ApiKeyOptions = { apiKey: "one", granted: 100 }): { store: MemoryQuotaStore; clock: ManualClock } {
  const clock = manualClock();
  return { store: memoryQuotaStore([key], { clock }), clock };
}

const hold = (id: string, units: number): HoldRequest => ({
  id,
  keyId: "key-1",
  atLeast: units,
  atMost: units,
  leaseMs: LEASE_MS,
});

const exactly = (used: number) => ({ used, certainty: "exact" as const });

describe("memoryQuotaStore, beyond the port", () => {
  it("reports a key's ledger: live holds, overdraft, and what rests on estimates", async () => {
    const { store } = opened();
    await store.reserve(hold("live", 20));
    await store.reserve(hold("cut short", 30));
    await store.settle("cut short", { used: 15, certainty: "estimated" });
    await store.reserve(hold("greedy", 5));
    await store.settle("greedy", exactly(90));
    expect(store.report("key-1")).toEqual({
      granted: 100,
      used: 100,
      available: 0,
      held: 20,
      liveHolds: 1,
      overdraft: 25,
      estimated: 15,
    });
    expect(store.report("one"), "a report is asked for by a key's id").toBeUndefined();
  });

  it.each([
    [1.5, "whole seconds"],
    [Number.NaN, "whole seconds"],
    [Number.POSITIVE_INFINITY, "whole seconds"],
    [-1_700_000_000, "must not be below 0, except -1"],
    [1_700_000_000_000, "in seconds, not in milliseconds"],
  ])("takes no key whose end is %d", (expiresAt, told) => {
    expect(() => opened({ apiKey: "one", expiresAt })).toThrow(told);
  });

  it("holds to the last millisecond of a lease, and not beyond", async () => {
    const { store, clock } = opened();
    await store.reserve(hold("call", 20));
    await clock.advance(LEASE_MS - 1);
    expect(store.report("key-1")).toMatchObject({ used: 20, liveHolds: 1 });
    await clock.advance(1);
    expect(store.report("key-1")).toMatchObject({ used: 0, liveHolds: 0 });
  });

  it("ends leases that ran out unseen in the order of their ends", async () => {
    const { store, clock } = opened();
    await store.reserve({ ...hold("later", 50), leaseMs: 2 * LEASE_MS });
    await store.renew("later", { leaseMs: 2 * LEASE_MS, used: 90 });
    await store.reserve(hold("sooner", 50));
    await clock.advance(2 * LEASE_MS);
    expect(store.report("key-1"), "what the sooner gave back covered the later").toMatchObject({
      used: 90,
      overdraft: 0,
    });
  });

  it("takes secrets with and without sk-, and keys that are added later", async () => {
    const { store } = opened({ apiKey: "sk-one", granted: 100 });
    expect(store.add({ apiKey: ["two", "sk-deux"] })).toBe("key-2");
    expect(store.add({ apiKey: "three", id: "team" })).toBe("team");
    expect(await store.find("one")).toMatchObject({ id: "key-1", name: "key-1", unlimited: false });
    expect(await store.find("two")).toMatchObject({ id: "key-2", name: "key-2", unlimited: true });
    expect(await store.find("deux")).toMatchObject({ id: "key-2" });
    expect(await store.find("three")).toMatchObject({ id: "team", name: "team" });
    expect(await store.find("sk-one"), "find is given secrets without it").toBeUndefined();
  });

  it("never gives a key the id that another was declared with", async () => {
    const { store } = opened();
    store.add({ apiKey: "two", id: "key-2" });
    expect(store.add({ apiKey: "three" })).toBe("key-3");
  });

  it("rotates secrets: the new one pays from the same ledger as the old one did", async () => {
    const { store } = opened();
    await store.reserve(hold("call", 20));
    store.removeSecret("sk-one");
    store.removeSecret("unknown");
    expect(await store.find("one")).toBeUndefined();
    store.addSecret("key-1", "sk-two");
    await store.settle("call", exactly(20));
    expect((await store.find("two"))?.id).toBe("key-1");
    expect(await store.balance("key-1")).toEqual({ used: 20, available: 80, held: 0 });
    store.addSecret("key-1", "one");
    expect((await store.find("one"))?.id, "a removed secret is free").toBe("key-1");
  });

  it("hands out what no caller can change for the others", async () => {
    const { store } = opened({ apiKey: "one", models: ["small"] });
    const key = await store.find("one");
    expect(() => Object.assign(key ?? {}, { unlimited: false })).toThrow(TypeError);
    expect(() => Object.assign(key?.modelLimits ?? {}, { large: true })).toThrow(TypeError);
  });

  it("forgets a key that is removed, its live holds without a charge", async () => {
    const { store } = opened({ apiKey: ["one", "uno"], granted: 100 });
    await store.reserve(hold("live", 20));
    await store.reserve(hold("settled", 20));
    await store.settle("settled", exactly(20));
    store.remove("key-1");
    store.remove("unknown");
    for (const secret of ["one", "uno"]) expect(await store.find(secret)).toBeUndefined();
    expect(await store.balance("key-1")).toBeUndefined();
    expect(await store.reserve(hold("next", 20))).toEqual({ refused: true, available: 0, held: 0 });
    expect(await store.reserve(hold("settled", 20))).toEqual({ refused: true, available: 0, held: 0 });
    store.add({ apiKey: "one", granted: 100 });
    await store.settle("live", exactly(20));
    expect(store.report("key-2")).toMatchObject({ used: 0, available: 100 });
    await store.reserve({ ...hold("live", 30), keyId: "key-2" });
    expect(store.report("key-2")).toMatchObject({ used: 30, liveHolds: 1 });
  });

  it("retains an expired hold for an hour, and forgets it within two", async () => {
    const { store, clock } = opened();
    // The test begins some time after the store, because retained holds age in steps.
    await clock.advance(HOUR_MS / 2);
    for (const id of ["expired", "forgotten"]) await store.reserve(hold(id, 20));
    await clock.advance(LEASE_MS);
    await store.balance("key-1");
    await clock.advance(HOUR_MS - 1);
    await store.settle("expired", exactly(7));
    expect(store.report("key-1")).toMatchObject({ used: 7 });
    await clock.advance(HOUR_MS);
    await store.settle("forgotten", exactly(7));
    expect(store.report("key-1")).toMatchObject({ used: 7 });
  });

  it("retains a settled hold for an hour, and forgets it within two", async () => {
    const { store, clock } = opened();
    await clock.advance(HOUR_MS / 2);
    await store.reserve(hold("settled", 20));
    await store.settle("settled", exactly(3));
    await clock.advance(HOUR_MS - 1);
    expect(await store.reserve(hold("settled", 30))).toMatchObject({ refused: true });
    await clock.advance(HOUR_MS + 1);
    expect(await store.reserve(hold("settled", 30))).toEqual({ granted: 30 });
    expect(store.report("key-1")).toMatchObject({ used: 33, liveHolds: 1 });
  });

  it("forgets all that is resolved after hours without a call", async () => {
    const { store, clock } = opened();
    await store.reserve(hold("settled", 20));
    await store.settle("settled", exactly(3));
    await clock.advance(2 * HOUR_MS);
    expect(await store.reserve(hold("settled", 30))).toEqual({ granted: 30 });
  });

  it("retains only so many settled holds, the newest", async () => {
    const clock = manualClock();
    const store = memoryQuotaStore([{ apiKey: "one", granted: 100 }], { clock, maxRetained: 4 });
    await store.reserve(hold("expired", 1));
    await clock.advance(LEASE_MS);
    await store.reserve(hold("live", 1));
    for (const id of ["1", "2", "3", "4", "5"]) {
      await store.reserve(hold(id, 10));
      await store.settle(id, exactly(0));
    }
    for (const id of ["3", "4", "5"]) expect(await store.reserve(hold(id, 5))).toMatchObject({ refused: true });
    for (const id of ["1", "2"]) expect(await store.reserve(hold(id, 5))).toEqual({ granted: 5 });
    expect(await store.reserve(hold("live", 1))).toEqual({ granted: 1 });
    // Expired holds are retained beside them: their true count may still come.
    await store.settle("expired", exactly(7));
    expect(store.report("key-1")).toMatchObject({ used: 18, held: 11, liveHolds: 3 });
  });

  it("retains no settled hold when it is told to", async () => {
    const store = memoryQuotaStore([{ apiKey: "one", granted: 100 }], { maxRetained: 0 });
    await store.reserve(hold("call", 10));
    await store.settle("call", exactly(10));
    expect(await store.reserve(hold("call", 10))).toEqual({ granted: 10 });
  });

  it("answers with promises, also for holds that it does not know", async () => {
    const { store } = opened({ apiKey: "one", used: 0 });
    const renewal = { leaseMs: 1, used: 0 };
    await store.reserve(hold("known", 1));
    await expect(store.renew("unknown", renewal)).resolves.toBeUndefined();
    await expect(store.renew("known", renewal)).resolves.toBeUndefined();
    await expect(store.settle("unknown", exactly(1))).resolves.toBeUndefined();
    await expect(store.settle("known", exactly(1))).resolves.toBeUndefined();
    await expect(store.settle("known", exactly(1))).resolves.toBeUndefined();
    await expect(store.recall("key-1")).resolves.toBeUndefined();
  });

  it("counts exactly, however much is asked for on an unlimited key", async () => {
    const { store } = opened({ apiKey: "one", used: 0 });
    const most = { ...hold("", 1), atMost: Number.MAX_SAFE_INTEGER };
    for (const id of ["a", "b", "c"]) expect((await store.reserve({ ...most, id })).refused).toBeUndefined();
    for (const id of ["a", "b", "c"]) await store.settle(id, exactly(1));
    expect(store.report("key-1")).toMatchObject({ used: 3, held: 0 });
  });

  it.each<[why: string, key: ApiKeyOptions]>([
    ["a grant that is no integer", { apiKey: "two", granted: 1.5 }],
    ["a grant below 0", { apiKey: "two", granted: -1 }],
    ["usage that is no count", { apiKey: "two", granted: 5, used: Number.NaN }],
    ["more usage than was granted", { apiKey: "two", granted: 5, used: 6 }],
    ["a secret that it knows already", { apiKey: ["two", "sk-one"] }],
    ["an id that it knows already", { apiKey: "two", id: "key-1" }],
    ["a key without a secret", { apiKey: [] }],
    ["an empty secret", { apiKey: ["two", "sk-"] }],
  ])("rejects %s", async (_, key) => {
    const { store } = opened();
    expect(() => store.add(key)).toThrow(RangeError);
    expect(await store.find("two")).toBeUndefined();
    expect((await store.find("one"))?.id).toBe("key-1");
  });

  it.each([
    ["of a key that it does not know", "key-2", "two"],
    ["that it knows already", "key-1", "sk-one"],
    ["that is empty", "key-1", "sk-"],
  ])("rejects one more secret %s", (_, keyId, apiKey) => {
    const { store } = opened();
    expect(() => store.addSecret(keyId, apiKey)).toThrow(RangeError);
  });

  it.each([-1, 1.5, Number.NaN])("rejects a memory of %s holds", (maxRetained) => {
    expect(() => memoryQuotaStore([], { maxRetained })).toThrow(RangeError);
  });

  it.each([
    [[], [{ id: "a", amount: 10.5 }], "budgets[0]: amount must be an integer from 0 up, not 10.5"],
    [
      [],
      [
        { id: "a", amount: 1 },
        { id: "b", amount: 1, parent: "c" },
      ],
      "budgets[1]: There is no budget of the id c.",
    ],
    [
      [{ apiKey: "one" }, { apiKey: "two", granted: 1.5 }],
      [],
      "keys[1]: granted must be an integer from 0 up, not 1.5",
    ],
  ])("names the entry that is wrong: %j %j", (keys, budgets, message) => {
    expect(() => memoryQuotaStore(keys, { budgets })).toThrow(new RangeError(`memoryQuotaStore: ${message}`));
  });

  it("rejects a settlement that says not how certain it is", async () => {
    const { store } = opened();
    await store.reserve(hold("call", 20));
    await expect(store.settle("call", { used: 5, certainty: "roughly" as "exact" })).rejects.toThrow(RangeError);
    expect(store.report("key-1")).toMatchObject({ used: 20, liveHolds: 1 });
  });
});
