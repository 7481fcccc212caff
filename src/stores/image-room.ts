/** Counts what images take of a store's room and what is booked for images to come, so that no image has to make way for another. */

import { GatewayError } from "../errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { ImageBooking, StoredImage, WantedRoom } from "../ports/image-store.ts";
import { SharedRoom } from "../ports/shared-room.ts";

/** How much a store may hold. */
export interface RoomLimits {
  /** The most that all images together may take, in bytes: a positive integer. */
  readonly maxBytes: number;
  /**
   * The most that the images of one key may take, in bytes: a positive integer. Half of `maxBytes` unless told. A key gets no more
   * than is still free beside it (`SharedRoom`), so that others find room.
   */
  readonly maxBytesPerKey?: number | undefined;
}

/** An image that was counted. */
interface Counted {
  readonly keyId: string | undefined;
  readonly bytes: number;
  readonly expiresAt: number;
}

/** When to come back for room that calls under way have booked and may not need, in milliseconds. */
const BOOKED_RETRY_MS = 2_000;

/** The room of one store. Nothing in it waits, so that no two calls can be promised the same bytes. */
export class ImageRoom {
  /** What the images take and the bookings set aside, by key. */
  readonly #room: SharedRoom;
  readonly #clock: Clock;
  /** In the order of their putting, which with lifetimes alike is that of their end, or else sorted when that is needed. */
  readonly #images = new Map<string, Counted>();
  /** The bookings that are still open. */
  readonly #bookings = new Map<ImageBooking, WantedRoom>();
  #imageBytes = 0;
  /** The latest end of an image so far; one that ends earlier is put in the wrong place. */
  #latestEnd = 0;
  #inOrder = true;

  constructor({ maxBytes, maxBytesPerKey }: RoomLimits, clock: Clock) {
    this.#room = new SharedRoom(maxBytes, maxBytesPerKey, ["maxBytes", "maxBytesPerKey"]);
    this.#clock = clock;
  }

  /** What the images take now, in bytes. */
  get imageBytes(): number {
    return this.#imageBytes;
  }

  /** Sets room aside; throws `busy` where there is too little. More than a key may ever have is not waited for: it gets that. */
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

  /** Counts an image, in booked room first; throws `busy` where there is too little, and a RangeError where there never is enough. */
  take(
    { id, bytes: { length }, expiresAt }: Pick<StoredImage, "id" | "bytes" | "expiresAt">,
    booking?: ImageBooking,
  ): void {
    const { capacity, free } = this.#room;
    if (length > capacity)
      throw new RangeError(`An image of ${length} bytes does not fit into a store of ${capacity}.`);
    const booked = booking && this.#bookings.get(booking);
    const fromBooking = Math.min(length, booked?.bytes ?? 0);
    // An image that is put again takes the place of itself.
    if (length - fromBooking > free + (this.#images.get(id)?.bytes ?? 0)) throw this.#full();
    this.remove(id);
    if (booking && booked) {
      this.#release(booking);
      this.#setAside(booking, { ...booked, bytes: booked.bytes - fromBooking });
    }
    this.#inOrder &&= expiresAt >= this.#latestEnd;
    this.#latestEnd = Math.max(this.#latestEnd, expiresAt);
    this.#images.set(id, { keyId: booked?.keyId, bytes: length, expiresAt });
    this.#imageBytes += length;
    this.#room.add(booked?.keyId, length);
  }

  /** Gives back what an image takes, if it is counted. */
  remove(id: string): void {
    const image = this.#images.get(id);
    if (!image) return;
    this.#images.delete(id);
    this.#imageBytes -= image.bytes;
    this.#room.remove(image.keyId, image.bytes);
  }

  /** Gives back what the images take whose time is over; tells which they are. */
  expire(): string[] {
    if (!this.#inOrder) this.#sort();
    const now = this.#clock.now();
    const over: string[] = [];
    for (const [id, { expiresAt }] of this.#images) {
      if (expiresAt > now) break;
      over.push(id);
    }
    for (const id of over) this.remove(id);
    return over;
  }

  #sort(): void {
    const sorted = [...this.#images].toSorted(([, one], [, other]) => one.expiresAt - other.expiresAt);
    this.#images.clear();
    for (const [id, image] of sorted) this.#images.set(id, image);
    this.#inOrder = true;
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

  /** The refusal of a store that is full, for a key or for everyone. */
  #full(keyId?: string): GatewayError {
    const message =
      keyId === undefined
        ? "The gateway keeps as many linked images as it can hold. Try again later, or ask for the image data instead."
        : "This API key has as many linked images as it may have at once. Try again later, or ask for the image data instead.";
    return new GatewayError("busy", message, { retryAfterMs: this.#roomInMs(keyId) });
  }

  /** When room may come, in milliseconds: with the end of a call that has booked some, or of the first image. */
  #roomInMs(keyId: string | undefined): number {
    const isOwn = (other: { readonly keyId: string | undefined }): boolean =>
      keyId === undefined || other.keyId === keyId;
    for (const booking of this.#bookings.values()) if (booking.bytes > 0 && isOwn(booking)) return BOOKED_RETRY_MS;
    for (const image of this.#images.values())
      if (isOwn(image)) return Math.max(1, image.expiresAt - this.#clock.now());
    return BOOKED_RETRY_MS;
  }
}
