/** An ImageStore over unstorage, so that files, Redis, S3 or whatever else it drives serves a fleet. */

import { parseJson } from "../model/json.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import {
  assertImageId,
  type ImageBooking,
  type ImageStore,
  isImageId,
  type StoredImage,
  TOMBSTONE_MS,
  type WantedRoom,
} from "../ports/image-store.ts";
import { ImageRoom } from "./image-room.ts";

/** What this store needs of an unstorage `Storage`; any that `createStorage` or `prefixStorage` makes will do. */
export interface ImageStorage {
  getItemRaw(key: string): Promise<unknown>;
  setItemRaw(key: string, value: Uint8Array, options?: { ttl?: number }): Promise<void>;
  setItem(key: string, value: string, options?: { ttl?: number }): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
}

/** Where pictures stand in a storage, and how much they may take. */
export interface UnstorageImageStoreOptions {
  /** Where in the storage the images stand. `polygate:images` unless told. */
  readonly base?: string;
  /**
   * The most that the images of this process may take, in bytes: a positive integer. No limit unless told. Processes that
   * share a storage count each for itself, and one that starts anew counts from 0.
   */
  readonly maxBytes?: number;
  /**
   * The most that those of one api key may take, in bytes: a positive integer, half of `maxBytes` unless told. A key that holds some
   * gets no more than is still free, so that others find room.
   */
  readonly maxBytesPerKey?: number;
  readonly clock?: Clock;
}

export interface UnstorageImageStore extends ImageStore {
  book(room: WantedRoom): Promise<ImageBooking>;
  /**
   * Gives up the bytes of what has expired, and the memory of what expired long ago. The store does this by itself when an
   * image is put, every ten minutes at most; a host may do it more often, or when nothing is put any more.
   */
  sweep(): Promise<void>;
}

const SWEEP_EVERY_MS = 600_000;

/** How many images a sweep looks after while the caller of a new one waits for it. */
const SWEPT_WITH_AN_IMAGE = 20;
/** What a note holds. All that it says is in its key; some drivers take an empty item for none. */
const NOTE = "1";

/**
 * Images in an unstorage storage. An image is one item, its expiry and type before its bytes, so that it is there whole or
 * not at all; a note beside it has its expiry in the key, so that a sweep reads no image. Drivers that know `ttl` also delete by
 * themselves.
 *
 * @example
 * const images = unstorageImageStore(createStorage({ driver: redisDriver({ url: process.env.REDIS_URL }) }));
 */
export function unstorageImageStore(
  storage: ImageStorage,
  { base = "polygate:images", clock = systemClock, ...limits }: UnstorageImageStoreOptions = {},
): UnstorageImageStore {
  return new Images(storage, base, roomOf(limits, clock), clock);
}

/** Undefined where there is no limit, so that nothing is counted in vain. */
function roomOf({ maxBytes, maxBytesPerKey }: UnstorageImageStoreOptions, clock: Clock): ImageRoom | undefined {
  if (maxBytes === undefined && maxBytesPerKey === undefined) return undefined;
  return new ImageRoom({ maxBytes: maxBytes ?? Number.MAX_SAFE_INTEGER, maxBytesPerKey }, clock);
}

const UNLIMITED: ImageBooking = { release: () => {} };

class Images implements UnstorageImageStore {
  readonly #storage: ImageStorage;
  readonly #base: string;
  readonly #room: ImageRoom | undefined;
  readonly #clock: Clock;
  #nextSweep: number;

  constructor(storage: ImageStorage, base: string, room: ImageRoom | undefined, clock: Clock) {
    this.#storage = storage;
    this.#base = base;
    this.#room = room;
    this.#clock = clock;
    this.#nextSweep = clock.now();
  }

  async book(wanted: WantedRoom): Promise<ImageBooking> {
    this.#room?.expire();
    return this.#room?.book(wanted) ?? UNLIMITED;
  }

  async put(image: StoredImage, booking?: ImageBooking): Promise<void> {
    assertImageId(image.id);
    this.#room?.expire();
    this.#room?.take(image, booking);
    try {
      await this.#write(image);
    } catch (error) {
      this.#room?.remove(image.id);
      throw error;
    }
    if (this.#clock.now() < this.#nextSweep) return;
    this.#nextSweep = this.#clock.now() + SWEEP_EVERY_MS;
    // The image is kept, whatever becomes of the old ones. A caller waits for it, so the next image looks after what is too much now.
    const isDone = await this.#sweep(SWEPT_WITH_AN_IMAGE).catch(() => true);
    if (!isDone) this.#nextSweep = this.#clock.now();
  }

  async #write({ id, bytes, mediaType, expiresAt }: StoredImage): Promise<void> {
    const ttl = this.#secondsUntil(expiresAt + TOMBSTONE_MS);
    // First the note of its end: should the image fail to follow, a sweep still finds what there is to delete.
    await this.#storage.setItem(this.#key("expiries", id, expiresAt), NOTE, { ttl });
    await this.#storage.setItemRaw(this.#key("files", id), pack({ mediaType, expiresAt }, bytes), { ttl });
  }

  async get(id: string): Promise<StoredImage | "gone" | undefined> {
    if (!isImageId(id)) return undefined;
    const item = bytesOf(await this.#storage.getItemRaw(this.#key("files", id)));
    if (!item) return undefined;
    const { head, bytes } = unpack(item);
    const now = this.#clock.now();
    if (now < head.expiresAt) return { id, bytes, ...head };
    if (now < head.expiresAt + TOMBSTONE_MS) return "gone";
    await this.#forget(id, head.expiresAt);
    return undefined;
  }

  async sweep(): Promise<void> {
    await this.#sweep(Number.POSITIVE_INFINITY);
  }

  /** Looks after so many images at most whose time is over; whether these were all. */
  async #sweep(most: number): Promise<boolean> {
    const now = this.#clock.now();
    const expired = (await this.#notes("expiries")).filter(({ expiresAt }) => now >= expiresAt);
    const forgotten = (await this.#notes("tombstones")).filter(({ expiresAt }) => now >= expiresAt + TOMBSTONE_MS);
    const over = [...expired, ...forgotten];
    for (const { id, expiresAt } of over.slice(0, most))
      if (now < expiresAt + TOMBSTONE_MS) await this.#leaveTombstone(id, expiresAt);
      else await this.#forget(id, expiresAt);
    return over.length <= most;
  }

  /** Leaves of an image only that there was one. */
  async #leaveTombstone(id: string, expiresAt: number): Promise<void> {
    const ttl = this.#secondsUntil(expiresAt + TOMBSTONE_MS);
    const tombstone = pack({ mediaType: "", expiresAt }, new Uint8Array());
    await this.#storage.setItem(this.#key("tombstones", id, expiresAt), NOTE, { ttl });
    await this.#storage.setItemRaw(this.#key("files", id), tombstone, { ttl });
    await this.#storage.removeItem(this.#key("expiries", id, expiresAt));
  }

  async #forget(id: string, expiresAt: number): Promise<void> {
    await this.#storage.removeItem(this.#key("files", id));
    await this.#storage.removeItem(this.#key("expiries", id, expiresAt));
    await this.#storage.removeItem(this.#key("tombstones", id, expiresAt));
  }

  async #notes(of: "expiries" | "tombstones"): Promise<{ id: string; expiresAt: number }[]> {
    const keys = await this.#storage.getKeys(`${this.#base}:${of}`);
    return keys.flatMap((key) => {
      const [, time, id] = /(?:^|:)(\d+)\.([A-Za-z0-9_-]+)$/.exec(key) ?? [];
      return id === undefined ? [] : [{ id, expiresAt: Number(time) }];
    });
  }

  #key(of: "files" | "expiries" | "tombstones", id: string, expiresAt?: number): string {
    return `${this.#base}:${of}:${expiresAt === undefined ? "" : `${expiresAt}.`}${id}`;
  }

  #secondsUntil(time: number): number {
    return Math.max(1, Math.ceil((time - this.#clock.now()) / 1_000));
  }
}

interface Head {
  readonly mediaType: string;
  readonly expiresAt: number;
}

/** The length of the head in four bytes, the head as JSON, the bytes. */
function pack(head: Head, bytes: Uint8Array): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(head));
  const item = new Uint8Array(4 + text.length + bytes.length);
  new DataView(item.buffer).setUint32(0, text.length);
  item.set(text, 4);
  item.set(bytes, 4 + text.length);
  return item;
}

function unpack(item: Uint8Array): { head: Head; bytes: Uint8Array } {
  const end = 4 + new DataView(item.buffer, item.byteOffset).getUint32(0);
  const head = parseJson(new TextDecoder().decode(item.subarray(4, end))) as Head;
  return { head, bytes: item.subarray(end) };
}

/** What drivers hand out for bytes: views or buffers. */
function bytesOf(item: unknown): Uint8Array | undefined {
  if (item instanceof ArrayBuffer) return new Uint8Array(item);
  return ArrayBuffer.isView(item) ? new Uint8Array(item.buffer, item.byteOffset, item.byteLength) : undefined;
}
