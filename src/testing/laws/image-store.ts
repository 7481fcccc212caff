/** The laws of the ImageStore port, to be run on a store by any test runner. */

import assert from "node:assert/strict";
import {
  type Clock,
  GatewayError,
  type ImageBooking,
  type ImageStore,
  type StoredImage,
  TOMBSTONE_MS,
} from "../../index.ts";
import type { Law } from "./law.ts";
import { type ManualClock, manualClock } from "./manual-clock.ts";

/** The setup of a store for one law. */
export interface ImageStoreSetup {
  /** The clock of the expiry of images. The law sets it forward by hand. */
  readonly clock: Clock;
  /** The most bytes that the store may keep; undefined for no limit. A store without limits ignores it. */
  readonly maxBytes?: number;
}

/**
 * Opens a fresh store for one law; nothing that an earlier law did may show in it. It must have room for 20 MiB, unless told.
 *
 * @example
 * const open: OpenImageStore = ({ clock }) => memoryImageStore({ clock });
 */
export type OpenImageStore = (setup: ImageStoreSetup) => ImageStore | Promise<ImageStore>;

/** A promise of the ImageStore port. */
export type ImageStoreLaw = Law<OpenImageStore>;

/** The lifetime of the laws' images, in milliseconds. */
const LIFETIME_MS = 3_600_000;

const MIB = 1024 * 1024;

/** A fresh store, with a short verb for its images. */
class Album {
  readonly store: ImageStore;
  readonly clock: ManualClock;

  constructor(store: ImageStore, clock: ManualClock) {
    this.store = store;
    this.clock = clock;
  }

  /** Puts an image, and answers with a copy that no store can touch. */
  async put(
    id: string,
    bytes: Uint8Array = everyByte,
    lifetimeMs: number = LIFETIME_MS,
    booking?: ImageBooking,
  ): Promise<StoredImage> {
    const image = { id, mediaType: "image/png", expiresAt: this.clock.now() + lifetimeMs };
    await this.store.put({ ...image, bytes: bytes.slice() }, booking);
    return { ...image, bytes };
  }

  /** Books room; returns "full" for a correct refusal. A store without limits has no bookings. */
  async book(bytes: number, keyId = "key"): Promise<ImageBooking | "full"> {
    const booking = this.store.book?.({ keyId, bytes }) ?? Promise.resolve({ release: () => {} });
    return fullOr(booking);
  }

  async expect(id: string, expected: StoredImage | "gone" | undefined, why: string): Promise<void> {
    const found = await this.store.get(id);
    // Compares plain arrays, because a store may return any kind of Uint8Array.
    const plain = typeof found === "object" ? { ...found, bytes: new Uint8Array(found.bytes) } : found;
    assert.deepEqual(
      plain,
      typeof expected === "object" ? { ...expected, bytes: new Uint8Array(expected.bytes) } : expected,
      why,
    );
  }
}

/** Returns the answer of a store, or "full" for the only allowed refusal: `busy`, with a time to come back. */
async function fullOr<T>(answer: Promise<T>): Promise<T | "full"> {
  try {
    return await answer;
  } catch (error) {
    assert.ok(error instanceof GatewayError && error.code === "busy", "a full store must refuse with `busy`");
    assert.ok((error.retryAfterMs ?? 0) > 0, "a full store must say when to come back");
    return "full";
  }
}

const law = (
  name: string,
  body: (album: Album) => Promise<void>,
  setup: Omit<ImageStoreSetup, "clock"> = {},
): ImageStoreLaw => ({
  name,
  async verify(open) {
    const clock = manualClock();
    await body(new Album(await open({ clock, ...setup }), clock));
  },
});

/** The room of a small store. The pieces are a few times as many as it has room for. */
const SMALL = { maxBytes: 10_000 };
const PIECE_BYTES = 500;
const PIECES = 60;
const pieceOf = (number: number): Uint8Array => new Uint8Array(PIECE_BYTES).fill(number);
const pieces = Array.from({ length: PIECES }, (_, number) => number);

const everyByte: Uint8Array = Uint8Array.from({ length: 256 }, (_, byte) => byte);

/** Texts that are no ids. Taken for a path or a key, they would name something else. */
const NO_IDS = ["", "..", "../a", "a/b", "a\\b", "a:b", "a.b", "a b", "ä", "a\0", "a%2fb", "a$", "x".repeat(129)];

/**
 * The promises of every ImageStore. Each law opens a store of its own, so they may run in any order, and at once.
 *
 * @example
 * describe("my store", () => {
 *   for (const law of imageStoreLaws) it(law.name, () => law.verify(openMyStore));
 * });
 */
export const imageStoreLaws: readonly ImageStoreLaw[] = [
  law("of 100 images put at once, each is got as it was put", async (album) => {
    const ids = Array.from({ length: 100 }, (_, index) => `image-${index}`);
    const images = await Promise.all(ids.map((id, index) => album.put(id, new Uint8Array(1 + index).fill(index))));
    await Promise.all(images.map((image) => album.expect(image.id, image, "an image must not be another's")));
  }),

  law("an image that is being put is not there, or there whole", async (album) => {
    const bytes = new Uint8Array(4 * MIB).fill(7);
    const putting = album.put("large", bytes);
    const seen = await Promise.all(Array.from({ length: 10 }, () => album.store.get("large")));
    for (const found of seen)
      assert.ok(
        found === undefined || (found !== "gone" && found.bytes.length === bytes.length),
        "half an image was got",
      );
    await album.expect("large", await putting, "an image must be there once put has resolved");
  }),

  law("an image comes back byte by byte, of any bytes and any length", async (album) => {
    const bytes = Uint8Array.from({ length: 8 * MIB + 1 }, (_, index) => index % 251);
    for (const [id, content] of [
      ["every", everyByte],
      ["long", bytes],
      ["one", Uint8Array.of(0)],
    ] as const) {
      const image = await album.put(id, content);
      await album.expect(id, image, "what is got must be what was put");
      await album.expect(id, image, "and as often as it is asked for");
    }
  }),

  law("an image is there to its last millisecond, and gone at its expiry", async (album) => {
    const image = await album.put("image");
    await album.clock.advance(LIFETIME_MS - 1);
    await album.expect("image", image, "it must be there while its time has not come");
    await album.clock.advance(1);
    await album.expect("image", "gone", "it must be gone at expiresAt");
  }),

  law("an image that has expired is remembered as gone for an hour, and forgotten in the end", async (album) => {
    await album.put("image");
    await album.clock.advance(LIFETIME_MS);
    // A put in between must not change the outcome.
    await album.put("other");
    await album.clock.advance(TOMBSTONE_MS - 1);
    await album.expect("image", "gone", "it must be remembered for TOMBSTONE_MS");
    await album.clock.advance(24 * TOMBSTONE_MS);
    await album.put("another");
    await album.expect("image", undefined, "it must be forgotten a day later");
    await album.expect("other", undefined, "so must one that nobody asked for");
  }),

  law("each image has its own expiry, whatever the order of their putting", async (album) => {
    const long = await album.put("long", everyByte, 3_000);
    await album.put("short", everyByte, 1_000);
    const middle = await album.put("middle", everyByte, 2_000);
    await album.clock.advance(1_000);
    await album.expect("short", "gone", "the short one is over");
    await album.expect("middle", middle, "the middle one is not");
    await album.clock.advance(1_000);
    await album.expect("middle", "gone", "the middle one is over");
    await album.expect("long", long, "the long one is not");
  }),

  law("an id that was never put is unknown, also one that every object has", async (album) => {
    await album.put("image");
    for (const id of ["imag", "images", "constructor", "__proto__", "toString"])
      await album.expect(id, undefined, `${id} was never put`);
    for (const id of ["constructor", "__proto__", "-", "_"])
      await album.expect(id, await album.put(id), `${id} was put`);
  }),

  law(
    "an image that was put stays to its end, however many come after it",
    async (album) => {
      const kept: StoredImage[] = [];
      for (const number of pieces) {
        const image = await fullOr(album.put(`image-${number}`, pieceOf(number)));
        if (image === "full") await album.expect(`image-${number}`, undefined, "what was refused is not there");
        else kept.push(image);
      }
      assert.ok(kept.length > 0, "an empty store must take an image");
      await album.clock.advance(LIFETIME_MS - 1);
      for (const image of kept) await album.expect(image.id, image, "no image may make way for another");
      await album.clock.advance(1);
      for (const number of pieces.slice(0, kept.length))
        assert.notEqual(await fullOr(album.put(`next-${number}`)), "full", "what has expired must leave its room");
    },
    SMALL,
  ),

  law(
    "of 60 calls that book at once, each that is let in has room for its image",
    async (album) => {
      const booked = await Promise.all(pieces.map((number) => album.book(PIECE_BYTES, `key-${number}`)));
      // The refused calls try to take the room that the others have booked.
      await Promise.all(
        booked.map(async (booking, number) => {
          const image = album.put(
            `image-${number}`,
            pieceOf(number),
            LIFETIME_MS,
            booking === "full" ? undefined : booking,
          );
          assert.ok((await fullOr(image)) !== "full" || booking === "full", "what was booked must be free");
        }),
      );
      assert.ok(
        booked.some((booking) => booking !== "full"),
        "an empty store must let a call in",
      );
    },
    SMALL,
  ),

  law(
    "booked room that is not needed is given back once",
    async (album) => {
      const bookAll = async (): Promise<ImageBooking[]> => {
        const booked = await Promise.all(pieces.map((number) => album.book(PIECE_BYTES, `key-${number}`)));
        return booked.filter((booking) => booking !== "full");
      };
      const all = await bookAll();
      const [first] = all;
      if (first) await album.put("image", pieceOf(1).subarray(0, PIECE_BYTES / 2), LIFETIME_MS, first);
      for (const booking of [...all, ...all]) booking.release();
      assert.equal(
        (await bookAll()).length,
        all.length === PIECES ? PIECES : all.length - 1,
        "all but the image's room",
      );
    },
    SMALL,
  ),

  law(
    "one key cannot book the whole store",
    async (album) => {
      for (const number of pieces) {
        const booking = await album.book(PIECE_BYTES, "greedy");
        if (booking === "full") break;
        // The key takes room for pictures, and books room for more.
        if (number % 2 === 0) await album.put(`image-${number}`, pieceOf(number), LIFETIME_MS, booking);
      }
      assert.notEqual(await album.book(PIECE_BYTES, "modest"), "full", "another key must find room");
    },
    SMALL,
  ),

  law("what is no id is unknown, and cannot be put", async (album) => {
    for (const id of NO_IDS) {
      await album.expect(id, undefined, `${JSON.stringify(id)} is no id`);
      await assert.rejects(album.put(id), RangeError, `${JSON.stringify(id)} must be refused`);
    }
  }),
];
