/** The memory image store keeps the laws of its port, and its cap. */

import { describe, expect, it } from "vitest";
import { memoryImageStore, type StoredImage, TOMBSTONE_MS } from "../../src/index.ts";
import { imageStoreLaws, manualClock } from "../../src/testing/laws/index.ts";

describe("memoryImageStore", () => {
  it.each(imageStoreLaws)("$name", async (law) => {
    await expect(law.verify((setup) => memoryImageStore(setup))).resolves.toBeUndefined();
  });

  const clock = manualClock();
  const image = (id: string, length: number, lifetimeMs = 1_000): StoredImage => ({
    id,
    bytes: new Uint8Array(length),
    mediaType: "image/png",
    expiresAt: clock.now() + lifetimeMs,
  });

  it("refuses an image for which no room is left, and keeps those that it has", async () => {
    const store = memoryImageStore({ maxBytes: 100, clock });
    for (const id of ["a", "b", "c"]) await store.put(image(id, 33));
    await expect(store.put(image("d", 2))).rejects.toMatchObject({ code: "busy", retryAfterMs: 1_000 });
    expect(store.bytes).toBe(99);
    for (const id of ["a", "b", "c"]) expect(await store.get(id)).toMatchObject({ id });
    expect(await store.get("d")).toBeUndefined();
  });

  it("has 256 MiB unless told, of which one key may have half", async () => {
    const store = memoryImageStore({ clock });
    (await store.book({ keyId: "a", bytes: 2 ** 27 })).release();
    await store.book({ keyId: "a", bytes: 2 ** 27 - 1 });
    await store.book({ keyId: "a", bytes: 1 });
    await expect(store.book({ keyId: "a", bytes: 1 })).rejects.toMatchObject({ code: "busy" });
  });

  it("counts an image that is put again once", async () => {
    const store = memoryImageStore({ maxBytes: 100, clock });
    await store.put(image("a", 60));
    await store.put(image("a", 70));
    expect(store.bytes).toBe(70);
    expect(await store.get("a")).toMatchObject({ bytes: { length: 70 } });
  });

  it("gives back the room of what has expired before it gives up what has not", async () => {
    const store = memoryImageStore({ maxBytes: 100, clock });
    await store.put(image("old", 50));
    await clock.advance(1_000);
    await store.put(image("new", 100));
    expect(await store.get("new")).toMatchObject({ id: "new" });
    expect(await store.get("old")).toBe("gone");
  });

  it("forgets an image exactly an hour after its expiry", async () => {
    const store = memoryImageStore({ clock });
    await store.put(image("a", 1));
    await clock.advance(1_000 + TOMBSTONE_MS - 1);
    expect(await store.get("a")).toBe("gone");
    await clock.advance(1);
    expect(await store.get("a")).toBeUndefined();
  });

  it("refuses what it can never hold", async () => {
    const store = memoryImageStore({ maxBytes: 100, clock });
    await store.put(image("a", 100));
    await expect(store.put(image("b", 101))).rejects.toThrow("An image of 101 bytes does not fit into a store of 100.");
    expect(await store.get("a")).toMatchObject({ id: "a" });
  });

  it.each([0, -1, 1.5, Number.NaN])("has no cap of %s bytes", (maxBytes) => {
    expect(() => memoryImageStore({ maxBytes })).toThrow(RangeError);
  });
});
