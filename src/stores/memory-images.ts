/** The reference ImageStore: images in memory, for one process, the least recently used given up when room is short. */

import { type Clock, systemClock } from "../ports/clock.ts";
import { assertImageId, type ImageStore, type StoredImage, TOMBSTONE_MS } from "../ports/image-store.ts";

export interface MemoryImageStoreOptions {
  /** The most that all images together may take, in bytes: a positive integer, 256 MiB unless told. */
  readonly maxBytes?: number;
  readonly clock?: Clock;
}

export interface MemoryImageStore extends ImageStore {
  /** What the images take now, in bytes. */
  readonly bytes: number;
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
  clock = systemClock,
}: MemoryImageStoreOptions = {}): MemoryImageStore {
  if (!Number.isSafeInteger(maxBytes) || maxBytes < 1)
    throw new RangeError(`maxBytes must be a positive integer, not ${maxBytes}`);
  return new Images(maxBytes, clock);
}

class Images implements MemoryImageStore {
  readonly #maxBytes: number;
  readonly #clock: Clock;
  /** The least recently used comes first. */
  readonly #images = new Map<string, StoredImage>();
  /** When each of them expires, in the order of their putting: with lifetimes alike, the order of their end. */
  readonly #expiries = new Map<string, number>();
  /** Until when an image that is gone is remembered, in the order of their end. */
  readonly #tombstones = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number, clock: Clock) {
    this.#maxBytes = maxBytes;
    this.#clock = clock;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async put(image: StoredImage): Promise<void> {
    assertImageId(image.id);
    const { length } = image.bytes;
    if (length > this.#maxBytes)
      throw new RangeError(`An image of ${length} bytes does not fit into a store of ${this.#maxBytes}.`);
    this.#expire();
    this.#bury(image.id);
    for (const id of this.#images.keys()) {
      if (this.#bytes + length <= this.#maxBytes) break;
      this.#bury(id);
    }
    this.#tombstones.delete(image.id);
    this.#images.set(image.id, image);
    this.#expiries.set(image.id, image.expiresAt);
    this.#bytes += length;
  }

  async get(id: string): Promise<StoredImage | "gone" | undefined> {
    this.#expire();
    const now = this.#clock.now();
    if ((this.#expiries.get(id) ?? now) <= now) this.#bury(id);
    const image = this.#images.get(id);
    if (!image) return (this.#tombstones.get(id) ?? now) > now ? "gone" : undefined;
    this.#images.delete(id);
    this.#images.set(id, image);
    return image;
  }

  /** Gives up what has expired as far as it stands first. What stands behind a longer life waits its turn, unseen. */
  #expire(): void {
    const now = this.#clock.now();
    for (const [id, expiresAt] of this.#expiries) {
      if (expiresAt > now) break;
      this.#bury(id);
    }
    for (const [id, until] of this.#tombstones) {
      if (until > now && this.#tombstones.size <= MAX_TOMBSTONES) break;
      this.#tombstones.delete(id);
    }
  }

  #bury(id: string): void {
    const image = this.#images.get(id);
    if (!image) return;
    this.#bytes -= image.bytes.length;
    this.#images.delete(id);
    this.#expiries.delete(id);
    this.#tombstones.delete(id);
    this.#tombstones.set(id, image.expiresAt + TOMBSTONE_MS);
  }
}
