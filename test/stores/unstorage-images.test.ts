/** The image store over unstorage keeps the laws of its port on each kind of driver, and leaves nothing behind. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createStorage, type Driver, prefixStorage } from "unstorage";
import fsDriver from "unstorage/drivers/fs";
import memoryDriver from "unstorage/drivers/memory";
import { afterAll, describe, expect, it } from "vitest";
import { type StoredImage, TOMBSTONE_MS, unstorageImageStore } from "../../src/index.ts";
import { imageStoreLaws, manualClock } from "../../src/testing/laws/index.ts";

const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

/** A driver that knows text only, as Redis does. */
function textDriver(): Driver {
  const { getItemRaw: _get, setItemRaw: _set, ...rest } = memoryDriver();
  return rest;
}

const DRIVERS: readonly [name: string, open: () => Driver | Promise<Driver>][] = [
  ["memory", memoryDriver],
  ["text", textDriver],
  [
    "fs",
    async () => {
      const base = await mkdtemp(join(tmpdir(), "polygate-images-"));
      folders.push(base);
      return fsDriver({ base });
    },
  ],
];

describe.each(DRIVERS)("unstorageImageStore on %s", (_name, open) => {
  it.each(imageStoreLaws)("$name", async (law) => {
    const verified = law.verify(async (setup) => unstorageImageStore(createStorage({ driver: await open() }), setup));
    await expect(verified).resolves.toBeUndefined();
  });

  it("serves what another process put, and deletes what that left", async () => {
    const clock = manualClock();
    const storage = createStorage({ driver: await open() });
    const [one, two] = [unstorageImageStore(storage, { clock }), unstorageImageStore(storage, { clock })];
    const image = imageOf("a", clock.now() + 1_000);
    await one.put(image);
    expect(await two.get("a")).toEqual({ ...image, bytes: expect.anything() as Uint8Array });
    await clock.advance(1_000);
    await two.sweep();
    expect(await one.get("a")).toBe("gone");
    await clock.advance(TOMBSTONE_MS);
    await two.sweep();
    expect(await storage.getKeys()).toEqual([]);
  });
});

const imageOf = (id: string, expiresAt: number, length = 10_000): StoredImage => ({
  id,
  bytes: new Uint8Array(length),
  mediaType: "image/webp",
  expiresAt,
});

describe("unstorageImageStore", () => {
  it("gives up the bytes at the first sweep after the expiry, every ten minutes when images are put", async () => {
    const clock = manualClock();
    const driver = memoryDriver();
    const store = unstorageImageStore(createStorage({ driver }), { clock });
    const items = driver.getInstance?.() as Map<string, unknown>;
    const lengths = (): number[] =>
      Array.from(items.values(), (item) => (item instanceof Uint8Array ? item.length : 0));
    const held = (): number => lengths().reduce((sum, length) => sum + length, 0);
    await store.put(imageOf("a", clock.now() + 1_000));
    await clock.advance(599_999);
    await store.put(imageOf("b", clock.now() + 3_600_000));
    expect(held()).toBeGreaterThan(20_000);
    await clock.advance(1);
    await store.put(imageOf("c", clock.now() + 3_600_000, 1));
    expect(held()).toBeLessThan(11_000);
    expect(await store.get("a")).toBe("gone");
    expect(await store.get("b")).toMatchObject({ id: "b" });
  });

  it("looks after a few images when one is put, and after the others with those that follow", async () => {
    const clock = manualClock();
    const driver = memoryDriver();
    const store = unstorageImageStore(createStorage({ driver }), { clock });
    const items = driver.getInstance?.() as Map<string, unknown>;
    const whole = (): number =>
      [...items.values()].filter((item) => item instanceof Uint8Array && item.length > 1_000).length;
    const put = (id: string): Promise<void> => store.put(imageOf(id, clock.now() + 1_000));
    for (let index = 0; index < 45; index++) await put(`old-${index}`);
    await clock.advance(600_000);
    for (const left of [26, 7, 3]) {
      await put(`new-${left}`);
      expect(whole()).toBe(left);
    }
  });

  it("tells a driver that deletes by itself when to", async () => {
    const clock = manualClock();
    const ttls: unknown[] = [];
    const driver = memoryDriver();
    const store = unstorageImageStore(
      createStorage({
        driver: { ...driver, setItemRaw: (_key, _value, { ttl }) => void ttls.push(ttl) },
      }),
      { clock },
    );
    await store.put(imageOf("a", clock.now() + 1_500));
    expect(ttls).toEqual([3_602]);
  });

  it("keeps to its base, and to the storage's own prefix", async () => {
    const clock = manualClock();
    const storage = createStorage();
    const prefixed = unstorageImageStore(prefixStorage(storage, "host"), { clock, base: "pictures" });
    await prefixed.put(imageOf("a", clock.now() + 1_000));
    expect((await storage.getKeys()).toSorted()).toEqual([
      `host:pictures:expiries:${clock.now() + 1_000}.a`,
      "host:pictures:files:a",
    ]);
    await clock.advance(1_000 + TOMBSTONE_MS);
    await prefixed.sweep();
    expect(await storage.getKeys()).toEqual([]);
  });

  it("keeps an image though the sweep fails", async () => {
    const clock = manualClock();
    const storage = createStorage();
    const store = unstorageImageStore(
      {
        getItemRaw: (key) => storage.getItemRaw(key),
        setItemRaw: (key, value) => storage.setItemRaw(key, value),
        setItem: (key, value) => storage.setItem(key, value),
        removeItem: (key) => storage.removeItem(key),
        getKeys: () => Promise.reject(new Error("not permitted")),
      },
      { clock },
    );
    await store.put(imageOf("a", clock.now() + 1_000));
    expect(await store.get("a")).toMatchObject({ id: "a" });
  });
});
