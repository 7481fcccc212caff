/** The reference ImageStore: images in memory, for one process. A full store refuses new images and keeps the old ones. */

import { GatewayError } from "../errors.ts";
import { assertOptions, CLOCK } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import {
  assertImageId,
  type ImageBooking,
  type ImageStore,
  type StoredImage,
  TOMBSTONE_MS,
  type WantedRoom,
} from "../ports/image-store.ts";
import { SharedRoom } from "../ports/shared-room.ts";

/** The room for images in memory. */
export interface MemoryImageStoreOptions {
  /** The most bytes that all images together may take: a positive integer, 256 MiB by default. */
  readonly maxBytes?: number;
  /**
   * The most bytes that the images of one api key may take: a positive integer, half of `maxBytes` by default. An image is refused
   * when the images of its key would take more bytes than stay free, so that other keys find room.
   */
  readonly maxBytesPerKey?: number;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

export interface MemoryImageStore extends ImageStore {
  /** The size of all images now, in bytes. */
  readonly bytes: number;
  book(room: WantedRoom): Promise<ImageBooking>;
}

const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;
/** The most expired images whose ids are remembered. When there are more, the oldest ids are forgotten early. */
const MAX_TOMBSTONES = 100_000;

/**
 * Makes a store that keeps images in memory. Expired images are deleted at the next call of the store.
 *
 * @example
 * const images = memoryImageStore({ maxBytes: 64 * 1024 * 1024 });
 */
export function memoryImageStore(options: MemoryImageStoreOptions = {}): MemoryImageStore {
  assertOptions<MemoryImageStoreOptions>("memoryImageStore", options, {
    maxBytes: "positive?",
    maxBytesPerKey: "positive?",
    clock: CLOCK,
  });
  const { maxBytes = DEFAULT_MAX_BYTES, maxBytesPerKey, clock = systemClock } = options;
  return new MemoryImages(new ImageRoom(maxBytes, maxBytesPerKey, clock), clock);
}

class MemoryImages implements MemoryImageStore {
  readonly #room: ImageRoom;
  readonly #clock: Clock;
  readonly #images = new Map<string, StoredImage>();
  /** The times until which the ids of expired images are remembered, by id, the earliest time first. */
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
    const image = this.#images.get(id);
    if (image) return image;
    const now = this.#clock.now();
    return (this.#tombstones.get(id) ?? now) > now ? "gone" : undefined;
  }

  /** Replaces expired images by tombstones, and forgets old tombstones. */
  #expire(): void {
    for (const id of this.#room.expire()) {
      const image = this.#images.get(id);
      if (!image) continue;
      this.#images.delete(id);
      this.#tombstones.delete(id);
      this.#tombstones.set(id, image.expiresAt + TOMBSTONE_MS);
    }
    const now = this.#clock.now();
    for (const [id, until] of this.#tombstones) {
      if (until > now && this.#tombstones.size <= MAX_TOMBSTONES) break;
      this.#tombstones.delete(id);
    }
  }
}

interface CountedImage {
  readonly keyId: string | undefined;
  readonly bytes: number;
  readonly expiresAt: number;
}

/** The retry time when running calls have booked room that they may not need, in milliseconds. */
const BOOKED_RETRY_MS = 2_000;

/**
 * Counts the bytes of one store's images, and the bytes that are booked for later images. All methods are synchronous, so two calls
 * can never book the same bytes.
 */
export class ImageRoom {
  /** The bytes of images and bookings, by key. */
  readonly #room: SharedRoom;
  readonly #clock: Clock;
  /** The images in the order in which they were put. With equal lifetimes, they also expire in this order. */
  readonly #images = new Map<string, CountedImage>();
  readonly #bookings = new Map<ImageBooking, WantedRoom>();
  #imageBytes = 0;
  /** The latest expiry of any image so far. */
  #latestEnd = 0;
  /** False when an image expires before an image that was put earlier, so that `expire` must sort. */
  #isInOrder = true;

  /** Throws a RangeError for a limit that is not a positive integer. */
  constructor(maxBytes: number, maxBytesPerKey: number | undefined, clock: Clock) {
    this.#room = new SharedRoom(maxBytes, maxBytesPerKey, ["maxBytes", "maxBytesPerKey"]);
    this.#clock = clock;
  }

  /** The size of all images now, in bytes. */
  get imageBytes(): number {
    return this.#imageBytes;
  }

  /** Books room, at most as much as one key may ever have. Throws `busy` when there is too little. */
  book({ keyId, bytes }: WantedRoom): ImageBooking {
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`Booked bytes must be an integer from 0 up, not ${bytes}`);
    const booked = Math.min(bytes, this.#room.mostPerKey);
    const refusal = this.#room.refuses(keyId, booked);
    if (refusal) throw this.#full(refusal === "share" ? keyId : undefined);
    const booking: ImageBooking = { release: () => this.#release(booking) };
    this.#setAside(booking, { keyId, bytes: booked });
    return booking;
  }

  /**
   * Counts an image. Uses the booked room first, then free room. Throws `busy` when there is too little room, and a RangeError for an
   * image that is larger than the whole store.
   */
  take({ id, bytes: { length }, expiresAt }: Omit<StoredImage, "mediaType">, booking?: ImageBooking): void {
    const { capacity, free } = this.#room;
    if (length > capacity)
      throw new RangeError(`An image of ${length} bytes does not fit into a store of ${capacity}.`);
    const booked = booking && this.#bookings.get(booking);
    const fromBooking = Math.min(length, booked?.bytes ?? 0);
    // An image that is put again replaces its earlier bytes.
    if (length - fromBooking > free + (this.#images.get(id)?.bytes ?? 0)) throw this.#full();
    this.remove(id);
    if (booking && booked) {
      this.#release(booking);
      this.#setAside(booking, { ...booked, bytes: booked.bytes - fromBooking });
    }
    this.#isInOrder &&= expiresAt >= this.#latestEnd;
    this.#latestEnd = Math.max(this.#latestEnd, expiresAt);
    this.#images.set(id, { keyId: booked?.keyId, bytes: length, expiresAt });
    this.#imageBytes += length;
    this.#room.add(booked?.keyId, length);
  }

  /** Frees the room of an image, if the image is counted. */
  remove(id: string): void {
    const image = this.#images.get(id);
    if (!image) return;
    this.#images.delete(id);
    this.#imageBytes -= image.bytes;
    this.#room.remove(image.keyId, image.bytes);
  }

  /** Frees the room of all expired images, and returns their ids. */
  expire(): string[] {
    if (!this.#isInOrder) {
      const sorted = [...this.#images].toSorted(([, one], [, other]) => one.expiresAt - other.expiresAt);
      this.#images.clear();
      for (const [id, image] of sorted) this.#images.set(id, image);
      this.#isInOrder = true;
    }
    const now = this.#clock.now();
    const expired: string[] = [];
    for (const [id, { expiresAt }] of this.#images) {
      if (expiresAt > now) break;
      expired.push(id);
    }
    for (const id of expired) this.remove(id);
    return expired;
  }

  #setAside(booking: ImageBooking, room: WantedRoom): void {
    this.#bookings.set(booking, room);
    this.#room.add(room.keyId, room.bytes);
  }

  #release(booking: ImageBooking): void {
    const room = this.#bookings.get(booking);
    if (!room) return;
    this.#bookings.delete(booking);
    this.#room.remove(room.keyId, room.bytes);
  }

  /** Makes the error for a full store, or with `keyId` for a key that has used all its room. */
  #full(keyId?: string): GatewayError {
    const message =
      keyId === undefined
        ? "The gateway keeps as many linked images as it can hold. Try again later, or ask for the image data instead."
        : "This API key has as many linked images as it may have at once. Try again later, or ask for the image data instead.";
    return new GatewayError("busy", message, { retryAfterMs: this.#retryAfterMs(keyId) });
  }

  /** Returns the time until room may become free: when a running call releases its booking, or when the first image expires. */
  #retryAfterMs(keyId: string | undefined): number {
    const counts = (owner: string | undefined): boolean => keyId === undefined || owner === keyId;
    for (const booking of this.#bookings.values())
      if (booking.bytes > 0 && counts(booking.keyId)) return BOOKED_RETRY_MS;
    for (const image of this.#images.values())
      if (counts(image.keyId)) return Math.max(1, image.expiresAt - this.#clock.now());
    return BOOKED_RETRY_MS;
  }
}
