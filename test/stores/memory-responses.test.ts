/** Whose documents the memory store of responses gives up where its room is used up. */

import { describe, expect, it } from "vitest";
import { memoryResponseStore, type MemoryResponseStoreOptions } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/index.ts";

const HOUR_MS = 3_600_000;

/** The first names of a key's documents. */
const named = (key: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${key}${at + 1}`);

/** A store in which keys create documents of ten bytes, by the key's name and a number. */
function opened(options: MemoryResponseStoreOptions) {
  const clock = manualClock();
  const store = memoryResponseStore({ clock, ...options });
  const create = (key: string, ids: readonly string[], more: object = {}): Promise<boolean> =>
    store.create(
      key,
      ids.map((id) => ({ id, content: "x".repeat(10), retainMs: HOUR_MS, ...more })),
    );
  return {
    store,
    clock,
    create,
    /** Fills the store with so many documents of each key. */
    fill: async (counts: Readonly<Record<string, number>>): Promise<void> => {
      for (const [key, count] of Object.entries(counts)) for (const id of named(key, count)) await create(key, [id]);
    },
    /** Tells which of the first ten documents of a key are left. */
    left: async (key: string): Promise<string[]> => (await store.read(key, named(key, 10))).map(({ id }) => id),
  };
}

/** The room that the store counts for a document of ten bytes. */
const SIZE = 522;

it("a document takes 512 bytes beside its content, and 256 beside each further id", async () => {
  const { store, create } = opened({});
  await create("a", ["a1"]);
  expect(store.bytes).toBe(SIZE);
  await create("a", ["a2"], { content: "é", aliases: ["item"] });
  expect([store.bytes, store.documents]).toEqual([SIZE + 512 + 2 + 256 + 4, 2]);
});

describe.each([
  ["documents", { maxDocuments: 10 }, "maxDocumentsPerKey", 1],
  ["bytes", { maxBytes: 10 * SIZE }, "maxBytesPerKey", SIZE],
] as const)("room for %s", (_what, most, perKey, size) => {
  it("that a key has used up is made by its own oldest documents", async () => {
    const { fill, left, create, store } = opened({ ...most, [perKey]: 3 * size });
    await fill({ b: 3, a: 3 });
    await create("a", ["a4", "a5"]);
    expect([await left("a"), await left("b")]).toEqual([
      ["a3", "a4", "a5"],
      ["b1", "b2", "b3"],
    ]);
    expect(store.documents).toBe(6);
  });

  it("that all have used up is made by the key that has most, counting what is new", async () => {
    const { fill, left, create } = opened({ ...most, [perKey]: 10 * size });
    await fill({ b: 5, a: 4, c: 1 });
    await create("a", ["a5", "a6"]);
    expect([await left("a"), await left("b"), await left("c")]).toEqual([
      ["a3", "a4", "a5", "a6"],
      ["b1", "b2", "b3", "b4", "b5"],
      ["c1"],
    ]);
    await create("c", ["c2", "c3"]);
    expect([await left("a"), await left("b"), await left("c")]).toEqual([
      ["a3", "a4", "a5", "a6"],
      ["b3", "b4", "b5"],
      ["c1", "c2", "c3"],
    ]);
  });

  it("is made by what has expired first, and never by what the new documents belong to", async () => {
    const { clock, left, create } = opened({ ...most, [perKey]: 3 * size });
    await create("a", ["a1"]);
    await create("a", ["a2"], { retainMs: 1 });
    await create("a", ["a3"], { parentId: "a1" });
    await clock.advance(1);
    await create("a", ["a4"], { parentId: "a1" });
    expect(await left("a")).toEqual(["a1", "a3", "a4"]);
    await expect(create("a", ["a5"], { parentId: "a1" })).rejects.toMatchObject({ code: "busy" });
    expect(await left("a")).toEqual(["a1", "a3", "a4"]);
  });

  it("is made by nothing for more than a key may have", async () => {
    const { fill, left, create } = opened({ ...most, [perKey]: 3 * size });
    await fill({ a: 3 });
    await expect(create("a", ["a4", "a5", "a6", "a7"])).rejects.toMatchObject({ code: "busy" });
    expect(await left("a")).toEqual(["a1", "a2", "a3"]);
  });

  it.each([0, 1.5, Number.NaN])("cannot be %d", (bound) => {
    expect(() => memoryResponseStore({ [perKey]: bound })).toThrow(RangeError);
  });
});
