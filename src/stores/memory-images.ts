/** The reference ImageStore: images in memory, for one process. A full store refuses new images and keeps those that it has. */

import { type Clock, systemClock } from "../ports/clock.ts";
import {
  assertImageId,
  type ImageBooking,
  type ImageStore,
  type StoredImage,
  TOMBSTONE_MS,
  type WantedRoom,
} from "../ports/image-store.ts";
import { ImageRoom } from "./image-room.ts";

/** How much a store in memory may take. */
export interface MemoryImageStoreOptions {
  /** The most that all images together may take, in bytes: a positive integer, 256 MiB unless told. */
  readonly maxBytes?: number;
  /**
   * The most that the images of one api key may take, in bytes: a positive integer, half of `maxBytes` unless told. A key that holds
   * some gets no more than is still free, so that others find room.
   */
  readonly maxBytesPerKey?: number;
  readonly clock?: Clock;
}

export interface MemoryImageStore extends ImageStore {
  /** What the images take now, in bytes. */
  readonly bytes: number;
  book(room: WantedRoom): Promise<ImageBooking>;
}

const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;
/** How many images that are gone are remembered. Beyond it the first of them are forgotten early. */
const MAX_TOMBSTONES = 100_000;

/**
 * Images in memory. What has expired is given up when the next image comes or is asked for.
 *
 * @example
 * const images = memoryImageStore({ maxBytes: 64 * 1024 * 1024 });
 */
export function memoryImageStore({
  maxBytes = DEFAULT_MAX_BYTES,
  maxBytesPerKey,
  clock = systemClock,
}: MemoryImageStoreOptions = {}): MemoryImageStore {
  return new Images(new ImageRoom({ maxBytes, maxBytesPerKey }, clock), clock);
}

class Images implements MemoryImageStore {
  readonly #room: ImageRoom;
  readonly #clock: Clock;
  readonly #images = new Map<string, StoredImage>();
  /** Until when an image that is gone is remembered, in the order of their end. */
  readonly #tombstones = new Map<string, number>();

  constructor(room: ImageRoom, clock: Clock) {
    this.#room = room;
    this.#clock = clock;
  }

  get bytes(): number {
    return this.#room.imageBytes;
  }

  async book(room: WantedRoom): Promise<ImageBooking> {
    this.#expire();
    return this.#room.book(room);
  }

  async put(image: StoredImage, booking?: ImageBooking): Promise<void> {
    assertImageId(image.id);
    this.#expire();
    this.#room.take(image, booking);
    this.#tombstones.delete(image.id);
    this.#images.set(image.id, image);
  }

  async get(id: string): Promise<StoredImage | "gone" | undefined> {
    this.#expire();
    const now = this.#clock.now();
    const image = this.#images.get(id);
    if (image) return image;
    return (this.#tombstones.get(id) ?? now) > now ? "gone" : undefined;
  }

  #expire(): void {
    for (const id of this.#room.expire()) this.#remove(id);
    const now = this.#clock.now();
    for (const [id, until] of this.#tombstones) {
      if (until > now && this.#tombstones.size <= MAX_TOMBSTONES) break;
      this.#tombstones.delete(id);
    }
  }

  /** Leaves of an image that has expired only that there was one. */
  #remove(id: string): void {
    const image = this.#images.get(id);
    if (!image) return;
    this.#images.delete(id);
    this.#tombstones.delete(id);
    this.#tombstones.set(id, image.expiresAt + TOMBSTONE_MS);
  }
}
