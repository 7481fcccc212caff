/** The response store over unstorage keeps the laws of its port within one process, on each kind of driver, and leaves nothing behind. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createStorage, type Driver, prefixStorage } from "unstorage";
import fsDriver from "unstorage/drivers/fs";
import memoryDriver from "unstorage/drivers/memory";
import { afterAll, describe, expect, it } from "vitest";
import { unstorageResponseStore } from "../../src/index.ts";
import { manualClock, responseStoreLaws } from "../../src/testing/laws/index.ts";

const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

const DRIVERS: readonly [name: string, open: () => Driver | Promise<Driver>][] = [
  ["memory", memoryDriver],
  [
    "fs",
    async () => {
      const base = await mkdtemp(join(tmpdir(), "polygate-responses-"));
      folders.push(base);
      return fsDriver({ base });
    },
  ],
];

const HOUR_MS = 3_600_000;

describe.each(DRIVERS)("unstorageResponseStore on %s", (_name, open) => {
  it.each(responseStoreLaws)("$name", async (law) => {
    const verified = law.verify(async () => {
      const clock = manualClock();
      const storage = createStorage({ driver: await open() });
      // Two stores of one process.
      const [store, other] = [unstorageResponseStore(storage, { clock }), unstorageResponseStore(storage, { clock })];
      return { store, other, advance: (ms) => clock.advance(ms) };
    });
    await expect(verified).resolves.toBeUndefined();
  });

  it("finds what an earlier process has stored, and sweeps what has expired of it", async () => {
    const clock = manualClock();
    const driver = await open();
    const store = unstorageResponseStore(createStorage({ driver }), { clock });
    await store.create("one", [
      { id: "a", aliases: ["x"], content: "1", retainMs: HOUR_MS },
      { id: "c", parentId: "a", aliases: ["y"], content: "2", retainMs: HOUR_MS },
      { id: "b", content: "3", retainMs: 2 * HOUR_MS },
    ]);
    await store.update("one", { id: "a", revision: 0, content: "4", retainMs: HOUR_MS });
    const storage = createStorage({ driver });
    const next = unstorageResponseStore(storage, { clock });
    expect((await next.read("one", ["x", "y", "b"])).map(({ content }) => content)).toEqual(["4", "2", "3"]);
    await clock.advance(HOUR_MS);
    await next.sweep();
    // The document b, and the note of its end.
    expect(await storage.getKeys()).toHaveLength(2);
    await clock.advance(HOUR_MS);
    await next.create("two", [{ id: "a", content: "", retainMs: 1 }]);
    await clock.advance(1);
    await next.sweep();
    expect(await storage.getKeys()).toEqual([]);
  });
});

it("unstorageResponseStore shares a storage with others by its prefix", async () => {
  const storage = createStorage();
  const one = unstorageResponseStore(prefixStorage(storage, "one"));
  const two = unstorageResponseStore(storage, { base: "two" });
  await one.create("key", [{ id: "a", content: "1", retainMs: HOUR_MS }]);
  expect(await two.read("key", ["a"])).toEqual([]);
  await two.create("key", [{ id: "a", content: "2", retainMs: HOUR_MS }]);
  await two.delete("key", "a");
  expect(await one.read("key", ["a"])).toMatchObject([{ content: "1" }]);
});

it("unstorageResponseStore takes an item that was written in part as missing", async () => {
  const storage = createStorage();
  const store = unstorageResponseStore(storage);
  const document = { id: "a", content: "1", retainMs: HOUR_MS };
  await store.create("one", [document]);
  for (const key of await storage.getKeys("polygate:responses:documents")) await storage.setItem(key, '{"id":"a","con');
  expect(await store.read("one", ["a"])).toEqual([]);
  expect(await store.create("one", [document])).toBe(true);
  expect(await store.read("one", ["a"])).toMatchObject([{ content: "1" }]);
});

it("unstorageResponseStore gives up an operation that hangs, and the verbs behind it go on", async () => {
  const [storage, clock] = [createStorage(), manualClock()];
  let hangs = false;
  const store = unstorageResponseStore(
    {
      getItem: (key) => (hangs ? new Promise(() => {}) : storage.getItem(key)),
      setItem: (key, value) => storage.setItem(key, value),
      removeItem: (key) => storage.removeItem(key),
      getKeys: (base) => storage.getKeys(base),
    },
    { clock },
  );
  await store.create("one", [{ id: "a", content: "1", retainMs: HOUR_MS }]);
  hangs = true;
  const hanging = store.read("one", ["a"]).catch(String);
  await clock.advance(0);
  hangs = false;
  const behind = store.read("one", ["a"]);
  await clock.advance(5_000);
  expect(await hanging).toContain("5000 ms");
  expect(await behind).toMatchObject([{ content: "1" }]);
});

it("unstorageResponseStore tells a failure of its storage, and goes on with the next write", async () => {
  const storage = createStorage();
  let isDown = true;
  const store = unstorageResponseStore({
    getItem: (key) => storage.getItem(key),
    setItem: (key, value) => (isDown ? Promise.reject(new Error("Away.")) : storage.setItem(key, value)),
    removeItem: (key) => storage.removeItem(key),
    getKeys: (base) => storage.getKeys(base),
  });
  const document = { id: "a", content: "1", retainMs: HOUR_MS };
  await expect(store.create("one", [document])).rejects.toThrow("Away.");
  isDown = false;
  expect(await store.create("one", [document])).toBe(true);
  expect(await store.read("one", ["a"])).toMatchObject([{ content: "1" }]);
});
