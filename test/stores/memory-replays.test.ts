/** The memory replay store holds its bounds: the oldest answers make room, calls that run do not. */

import { describe, expect, it } from "vitest";
import { memoryReplayStore, type MemoryReplayStoreOptions } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { filled } from "./replays.ts";

const LEASE_MS = 600_000;
const claimOf = (index: number, keyId = `key-${index}`) => ({
  id: index.toString(16).padStart(64, "0"),
  keyId,
  callId: `call-${index}`,
  fingerprint: "f".repeat(64),
  leaseMs: LEASE_MS,
});

const opened = (options: MemoryReplayStoreOptions) => {
  const clock = manualClock();
  return { clock, store: memoryReplayStore({ clock, ...options }) };
};

const times = (count: number, state: string): string[] => Array.from({ length: count }, () => state);

describe("memoryReplayStore", () => {
  it("forgets the oldest answers where there are too many", async () => {
    const { store } = opened({ maxEntries: 5, maxEntriesPerKey: 5 });
    await filled(store, "one", 20);
    expect(store.entries).toBe(5);
  });

  it("forgets the oldest answers where they are too large together", async () => {
    const { store } = opened({ maxBytes: 10_000, maxBytesPerKey: 10_000 });
    const states = await filled(store, "one", 10, 2_000);
    expect(store.bytes).toBeLessThanOrEqual(10_000);
    expect(await states()).toEqual([...times(7, "claimed"), ...times(3, "answered")]);
  });

  it("keeps one key from pushing out the answers of another", async () => {
    const { store } = opened({ maxBytes: 20_000 });
    const modest = await filled(store, "modest", 2, 1_000);
    await filled(store, "greedy", 50, 2_000);
    expect(await modest()).toEqual(times(2, "answered"));
  });

  it("takes no answer that is larger than all its room, but that it was given, and gives up nothing for it", async () => {
    const { store } = opened({ maxBytes: 20_000 });
    const states = await filled(store, "one", 2, 1_000);
    const large = await filled(store, "one", 1, 50_000, "large");
    expect([await states(), await large()]).toEqual([times(2, "answered"), ["answered"]]);
    expect(store.bytes).toBeLessThan(10_000);
  });

  it("keeps a key with many small answers from pushing out those of another", async () => {
    const { store } = opened({ maxEntries: 10 });
    const modest = await filled(store, "modest", 2);
    const greedy = await filled(store, "greedy", 50);
    expect([await modest(), store.entries]).toEqual([times(2, "answered"), 6]);
    expect(await greedy()).toEqual([...times(47, "claimed"), ...times(3, "answered")]);
  });

  it("refuses a claim where calls that run take all of its room, until one ends", async () => {
    const { store, clock } = opened({ maxEntries: 3 });
    for (let index = 0; index < 3; index++) await store.claim(claimOf(index));
    await expect(store.claim(claimOf(3))).rejects.toMatchObject({ code: "busy", retryAfterMs: 1_000 });
    expect(await store.claim(claimOf(2)), "a renewal needs no room").toEqual({ state: "claimed" });
    await store.release(claimOf(0));
    expect(await store.claim(claimOf(3))).toEqual({ state: "claimed" });
    await clock.advance(LEASE_MS);
    expect(await store.claim(claimOf(4)), "those whose lease has run out make room").toEqual({ state: "claimed" });
  });

  it("keeps the answers of a key while two others fill all the room that they may, and go on", async () => {
    const { store } = opened({ maxBytes: 40_000 });
    await filled(store, "first", 50, 2_000, "before");
    await filled(store, "second", 50, 2_000, "before");
    const modest = await filled(store, "modest", 2, 1_000);
    await filled(store, "first", 50, 2_000, "after");
    await filled(store, "second", 50, 2_000, "after");
    expect(await modest()).toEqual(times(2, "answered"));
  });

  it("claims for a key while the calls of two others that run hold all the entries that they may", async () => {
    const { store } = opened({ maxEntries: 100 });
    const answers = await filled(store, "modest", 1);
    for (const keyId of ["first", "second"])
      for (let index = 0; index < 100; index++)
        await store
          .claim({ ...claimOf(index, keyId), id: `${keyId.length}${claimOf(index).id.slice(1)}` })
          .catch(() => {});
    const next = claimOf(200, "modest");
    expect(await store.claim(next)).toEqual({ state: "claimed" });
    await store.release(next);
    expect(await answers(), "nor is its answer pushed out").toEqual(["answered"]);
    await expect(store.claim(claimOf(201, "first"))).rejects.toMatchObject({ code: "busy" });
  });

  it("gives the room of answers back whose time is over", async () => {
    const { store, clock } = opened({});
    const states = await filled(store, "one", 3, 1_000);
    await clock.advance(3_600_000 + 3);
    expect(await states()).toEqual(times(3, "claimed"));
    expect([store.entries, store.bytes]).toEqual([0, 0]);
  });

  it.each([{ maxEntries: 0 }, { maxBytes: -1 }, { maxBytesPerKey: 0.5 }, { maxEntriesPerKey: 0 }])(
    "refuses %j",
    (options) => {
      expect(() => memoryReplayStore(options)).toThrow(RangeError);
    },
  );
});
