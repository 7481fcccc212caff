/** Room for images is booked before it is paid for: the limits of each store, and the time to come back. */

import { createStorage } from "unstorage";
import memoryDriver from "unstorage/drivers/memory";
import { describe, expect, it } from "vitest";
import { memoryImageStore, type StoredImage, unstorageImageStore } from "../../src/index.ts";
import { imageStoreLaws, manualClock } from "../../src/testing/laws/index.ts";

const HOUR_MS = 3_600_000;

interface Limits {
  readonly maxBytes?: number;
  readonly maxBytesPerKey?: number;
}

const clock = manualClock();
const STORES = [
  ["memoryImageStore", (limits: Limits) => memoryImageStore({ clock, ...limits })],
  [
    "unstorageImageStore",
    (limits: Limits) => unstorageImageStore(createStorage({ driver: memoryDriver() }), { clock, ...limits }),
  ],
] as const;

const image = (id: string, length: number, lifetimeMs = HOUR_MS): StoredImage => ({
  id,
  bytes: new Uint8Array(length),
  mediaType: "image/png",
  expiresAt: clock.now() + lifetimeMs,
});

describe.each(STORES)("%s", (_name, open) => {
  it("gives a key half of its room unless told, as long as no other has any, and says when the first of its images ends", async () => {
    const store = open({ maxBytes: 100 });
    await store.put(image("other", 10, 1_000), await store.book({ keyId: "other", bytes: 10 }));
    await store.put(image("own", 30, 2_000), await store.book({ keyId: "own", bytes: 30 }));
    await expect(store.book({ keyId: "own", bytes: 21 })).rejects.toMatchObject({ code: "busy", retryAfterMs: 2_000 });
    (await store.book({ keyId: "own", bytes: 15 })).release();
    await clock.advance(2_000);
    await expect(store.book({ keyId: "own", bytes: 50 })).resolves.toBeDefined();
  });

  it("gives a key as much as its host says", async () => {
    const store = open({ maxBytes: 100, maxBytesPerKey: 80 });
    (await store.book({ keyId: "a", bytes: 80 })).release();
    await store.put(image("a", 60), await store.book({ keyId: "a", bytes: 60 }));
    await expect(store.book({ keyId: "a", bytes: 21 })).rejects.toMatchObject({ code: "busy" });
  });

  it("books no more than a key may ever have, so that a call that may need more is let in", async () => {
    const store = open({ maxBytes: 100 });
    const booking = await store.book({ keyId: "a", bytes: 1_000 });
    const soon = { code: "busy", retryAfterMs: 2_000 };
    await expect(store.book({ keyId: "a", bytes: 1 })).rejects.toMatchObject(soon);
    // An image that is larger than its booking takes free room.
    await store.put(image("large", 70), booking);
    await expect(store.book({ keyId: "b", bytes: 31 })).rejects.toMatchObject({ code: "busy" });
    await expect(store.book({ keyId: "b", bytes: 15 })).resolves.toBeDefined();
  });

  it("keeps room for keys that hold none, however many others book all that they may", async () => {
    const store = open({ maxBytes: 1_000 });
    for (const [keyId, most] of [
      ["a", 500],
      ["b", 250],
      ["c", 125],
    ] as const) {
      await store.book({ keyId, bytes: most });
      await expect(store.book({ keyId, bytes: 2 })).rejects.toMatchObject({ code: "busy" });
    }
    await expect(store.book({ keyId: "modest", bytes: 60 })).resolves.toBeDefined();
  });

  it("takes a booking for none once it is released", async () => {
    const store = open({ maxBytes: 100, maxBytesPerKey: 100 });
    const booking = await store.book({ keyId: "a", bytes: 100 });
    booking.release();
    await store.book({ keyId: "b", bytes: 60 });
    await expect(store.put(image("late", 41), booking)).rejects.toMatchObject({ code: "busy" });
    await store.put(image("late", 40), booking);
  });

  it("counts an image that is put again once", async () => {
    const store = open({ maxBytes: 100 });
    await store.put(image("a", 90));
    await store.put(image("a", 100));
    expect(await store.get("a")).toMatchObject({ bytes: { length: 100 } });
    await expect(store.put(image("b", 1))).rejects.toMatchObject({ code: "busy" });
  });

  it("has the room back of an image that ends before one that was put earlier", async () => {
    const store = open({ maxBytes: 100 });
    await store.put(image("long", 50, 5_000));
    await store.put(image("short", 50, 1_000));
    await clock.advance(1_000);
    await store.put(image("new", 50));
    expect(await store.get("long")).toMatchObject({ id: "long" });
    expect(await store.get("short")).toBe("gone");
  });

  it.each([{ maxBytes: 0 }, { maxBytes: 1.5 }, { maxBytesPerKey: -1 }, { maxBytes: 10, maxBytesPerKey: Number.NaN }])(
    "cannot have the limits %o",
    (limits) => {
      expect(() => open(limits)).toThrow(RangeError);
    },
  );

  it.each([-1, 1.5, Number.NaN])("cannot book %d bytes", async (bytes) => {
    await expect(open({ maxBytes: 10 }).book({ keyId: "a", bytes })).rejects.toThrow(RangeError);
  });
});

describe("unstorageImageStore", () => {
  it("has room for whatever comes, unless told", async () => {
    const store = unstorageImageStore(createStorage({ driver: memoryDriver() }), { clock });
    await expect(store.book({ keyId: "a", bytes: Number.MAX_SAFE_INTEGER })).resolves.toBeDefined();
  });

  it("has the room back of an image that could not be written", async () => {
    let isFull = true;
    const driver = memoryDriver();
    const storage = createStorage({
      driver: {
        ...driver,
        setItemRaw(...item) {
          if (isFull) throw new Error("The disk is full.");
          return driver.setItemRaw?.(...item);
        },
      },
    });
    const store = unstorageImageStore(storage, { clock, maxBytes: 100 });
    await expect(store.put(image("a", 100))).rejects.toThrow("The disk is full.");
    isFull = false;
    await store.put(image("b", 100));
    expect(await store.get("b")).toMatchObject({ id: "b" });
  });
});

describe("the laws", () => {
  it("are not kept by a store that makes room for a new image by giving up an old one", async () => {
    const law = imageStoreLaws.find(({ name }) => name.includes("stays to its end"));
    const images = new Map<string, StoredImage>();
    const verified = law?.verify(() => ({
      put: async (each) => {
        if (images.size >= 20) images.delete(images.keys().next().value ?? "");
        images.set(each.id, each);
      },
      get: async (id) => images.get(id),
    }));
    await expect(verified).rejects.toThrow("no image may make way for another");
  });
});
