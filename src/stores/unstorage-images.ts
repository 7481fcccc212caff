/** An ImageStore over unstorage: keeps images in files, Redis, S3 or any other driver, for any number of processes. */

import { parseJson } from "../model/json.ts";
import { assertMethods, assertOptions, CLOCK } from "../options.ts";
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
import { ImageRoom } from "./memory-images.ts";

/** The part of an unstorage `Storage` that the store uses. `createStorage` and `prefixStorage` make such a storage. */
export interface ImageStorage {
  getItemRaw(key: string): Promise<unknown>;
  setItemRaw(key: string, value: Uint8Array, options?: { ttl?: number }): Promise<void>;
  setItem(key: string, value: string, options?: { ttl?: number }): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
}

/** The keys of the images in a storage, and the room that they may take. */
export interface UnstorageImageStoreOptions {
  /** The prefix of the images' keys: `polygate:images` by default. */
  readonly base?: string;
  /**
   * The most bytes that the images of this process may take: a positive integer. No limit by default. Each process counts only the
   * images that it has put since its start.
   */
  readonly maxBytes?: number;
  /**
   * The most bytes that the images of one api key may take: a positive integer, half of `maxBytes` by default. An image is refused
   * when the images of its key would take more bytes than stay free, so that other keys find room.
   */
  readonly maxBytesPerKey?: number;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

export interface UnstorageImageStore extends ImageStore {
  book(room: WantedRoom): Promise<ImageBooking>;
  /**
   * Deletes the bytes of expired images, and the tombstones of images that expired long ago. `put` does this as well, at most every
   * ten minutes. A host may call it more often, or when no more images are put.
   */
  sweep(): Promise<void>;
}

const SWEEP_EVERY_MS = 600_000;
/** The most images that a sweep within `put` handles, because the caller waits for the sweep. */
const SWEPT_WITH_AN_IMAGE = 20;
/** The content of a note. All information is in the note's key, but some drivers treat an empty item as missing. */
const NOTE = "1";

/**
 * Makes a store that keeps images in an unstorage storage. Each image is one item, which begins with its expiry and media type, so an
 * image is never stored in part. A second item, the note, has the expiry in its key, so that a sweep reads no image. Drivers that
 * support `ttl` also delete by themselves.
 *
 * @example
 * const images = unstorageImageStore(createStorage({ driver: redisDriver({ url: process.env.REDIS_URL }) }));
 */
export function unstorageImageStore(
  storage: ImageStorage,
  options: UnstorageImageStoreOptions = {},
): UnstorageImageStore {
  assertMethods("unstorageImageStore", "storage", storage, STORAGE_METHODS, "a storage of unstorage");
  assertOptions<UnstorageImageStoreOptions>("unstorageImageStore", options, {
    base: "string?",
    maxBytes: "positive?",
    maxBytesPerKey: "positive?",
    clock: CLOCK,
  });
  return new UnstorageImages(storage, options);
}

const STORAGE_METHODS = [
  "getItemRaw",
  "setItemRaw",
  "setItem",
  "removeItem",
  "getKeys",
] as const satisfies readonly (keyof ImageStorage)[];

class UnstorageImages implements UnstorageImageStore {
  readonly #storage: ImageStorage;
  readonly #base: string;
  /** Undefined when there is no limit: then nothing needs to be counted. */
  readonly #room: ImageRoom | undefined;
  readonly #clock: Clock;
  #nextSweep: number;

  constructor(
    storage: ImageStorage,
    { base = "polygate:images", maxBytes, maxBytesPerKey, clock = systemClock }: UnstorageImageStoreOptions,
  ) {
    this.#storage = storage;
    this.#base = base;
    this.#clock = clock;
    this.#nextSweep = clock.now();
    if (maxBytes !== undefined || maxBytesPerKey !== undefined)
      this.#room = new ImageRoom(maxBytes ?? Number.MAX_SAFE_INTEGER, maxBytesPerKey, clock);
  }

  async book(wanted: WantedRoom): Promise<ImageBooking> {
    this.#room?.expire();
    return this.#room?.book(wanted) ?? { release: () => {} };
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
    // The image stays stored when the sweep fails. The next `put` continues an unfinished sweep, so that no caller waits long.
    const isDone = await this.#sweep(SWEPT_WITH_AN_IMAGE).catch(() => true);
    if (!isDone) this.#nextSweep = this.#clock.now();
  }

  async #write({ id, bytes, mediaType, expiresAt }: StoredImage): Promise<void> {
    const ttl = this.#secondsUntil(expiresAt + TOMBSTONE_MS);
    // Write the note first: if writing the image fails, a sweep still finds everything that must be deleted.
    await this.#storage.setItem(this.#key("expiries", id, expiresAt), NOTE, { ttl });
    await this.#storage.setItemRaw(this.#key("files", id), pack({ mediaType, expiresAt }, bytes), { ttl });
  }

  async get(id: string): Promise<StoredImage | "gone" | undefined> {
    if (!isImageId(id)) return undefined;
    const item = rawBytes(await this.#storage.getItemRaw(this.#key("files", id)));
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

  /** Handles at most `most` expired images and old tombstones. Returns true when none are left. */
  async #sweep(most: number): Promise<boolean> {
    const now = this.#clock.now();
    const expired = (await this.#notes("expiries")).filter(({ expiresAt }) => now >= expiresAt);
    const forgotten = (await this.#notes("tombstones")).filter(({ expiresAt }) => now >= expiresAt + TOMBSTONE_MS);
    const all = [...expired, ...forgotten];
    for (const { id, expiresAt } of all.slice(0, most))
      if (now < expiresAt + TOMBSTONE_MS) await this.#leaveTombstone(id, expiresAt);
      else await this.#forget(id, expiresAt);
    return all.length <= most;
  }

  /** Replaces an image by a tombstone, which records that the image existed. */
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

/** The fields of an image that are stored before its bytes. */
interface ImageHead {
  readonly mediaType: string;
  readonly expiresAt: number;
}

/** Makes an item: the length of the head in four bytes, the head as JSON, the bytes. */
function pack(head: ImageHead, bytes: Uint8Array): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(head));
  const item = new Uint8Array(4 + text.length + bytes.length);
  new DataView(item.buffer).setUint32(0, text.length);
  item.set(text, 4);
  item.set(bytes, 4 + text.length);
  return item;
}

function unpack(item: Uint8Array): { head: ImageHead; bytes: Uint8Array } {
  const end = 4 + new DataView(item.buffer, item.byteOffset).getUint32(0);
  const head = parseJson(new TextDecoder().decode(item.subarray(4, end))) as ImageHead;
  return { head, bytes: item.subarray(end) };
}

/** Reads the bytes of an item. Some drivers return views of buffers, others buffers. */
function rawBytes(item: unknown): Uint8Array | undefined {
  if (item instanceof ArrayBuffer) return new Uint8Array(item);
  return ArrayBuffer.isView(item) ? new Uint8Array(item.buffer, item.byteOffset, item.byteLength) : undefined;
}
